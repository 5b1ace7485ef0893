//! The matching tables against the plainest possible model: an ordered list searched from its oldest end.

use proptest::prelude::*;
use weft_proto::{EntryId, Key, Pattern, Posted, Unexpected};
use weft_types::{ContextId, Rank, Tag};

#[derive(Clone, Debug)]
enum Step {
    Add(u32, Option<u32>, Option<i32>),
    Take(u32, Option<u32>, Option<i32>),
    Remove(usize),
}

/// Few names, so that they collide; long programs, so that the index is reached.
fn steps(any_add: bool) -> impl Strategy<Value = Vec<Step>> {
    fn name(wild: bool) -> impl Strategy<Value = (u32, Option<u32>, Option<i32>)> + Clone {
        (0_u32..2, 0_u32..5, 0_i32..5).prop_map(move |(context, source, tag)| {
            let source = if wild { source.checked_sub(1) } else { Some(source % 4) };
            let tag = if wild { Some(tag).filter(|&tag| tag < 4) } else { Some(tag % 4) };
            (context, source, tag)
        })
    }
    let add = name(any_add).prop_map(|(c, s, t)| Step::Add(c, s, t)).boxed();
    let take = name(!any_add).prop_map(|(c, s, t)| Step::Take(c, s, t)).boxed();
    let remove = (0_usize..1000).prop_map(Step::Remove);
    // Phases of growth and of shrinking, so that tables become deep and empty again.
    let grow =
        prop::collection::vec(prop_oneof![6 => add.clone(), 2 => take.clone(), 1 => remove.clone()], 0..60);
    let shrink = prop::collection::vec(prop_oneof![1 => add, 6 => take, 2 => remove], 0..60);
    (grow, shrink).prop_flat_map(|(a, b)| Just([a, b].concat())).prop_flat_map(|one| {
        let again = one.clone();
        prop_oneof![Just(one.clone()), Just([one, again].concat())]
    })
}

fn key(context: u32, source: u32, tag: i32) -> Key {
    Key::new(ContextId(context), Rank(source), Tag(tag))
}

fn pattern(context: u32, source: Option<u32>, tag: Option<i32>) -> Pattern {
    Pattern::new(ContextId(context), source.map(Rank), tag.map(Tag))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_message_takes_the_oldest_receive_that_accepts_it(program in steps(true)) {
        let mut table = Posted::default();
        let mut model: Vec<(Pattern, u32, EntryId)> = Vec::new();
        for (number, step) in program.into_iter().enumerate() {
            let number = number as u32;
            match step {
                Step::Add(c, s, t) => {
                    let pattern = pattern(c, s, t);
                    model.push((pattern, number, table.post(pattern, number)));
                }
                Step::Take(c, s, t) => {
                    let key = key(c, s.unwrap(), t.unwrap());
                    let at = model.iter().position(|(pattern, ..)| pattern.accepts(key));
                    prop_assert_eq!(table.accepts(key), at.is_some());
                    prop_assert_eq!(table.take(key), at.map(|at| model.remove(at).1));
                }
                Step::Remove(at) if !model.is_empty() => {
                    let (_, value, entry) = model.remove(at % model.len());
                    prop_assert_eq!(table.remove(entry), value);
                }
                Step::Remove(_) => {}
            }
            prop_assert_eq!(table.len(), model.len());
        }
        prop_assert_eq!(table.values().collect::<Vec<_>>(), model.iter().map(|m| m.1).collect::<Vec<_>>());
    }

    #[test]
    fn a_receive_takes_the_oldest_message_it_accepts(program in steps(false)) {
        let mut table = Unexpected::default();
        let mut model: Vec<(Key, u32, EntryId)> = Vec::new();
        for (number, step) in program.into_iter().enumerate() {
            let number = number as u32;
            match step {
                Step::Add(c, s, t) => {
                    let key = key(c, s.unwrap(), t.unwrap());
                    model.push((key, number, table.insert(key, number)));
                }
                Step::Take(c, s, t) => {
                    let pattern = pattern(c, s, t);
                    let at = model.iter().position(|(key, ..)| pattern.accepts(*key));
                    let found = table.find(pattern);
                    prop_assert_eq!(found, at.map(|at| (model[at].2, model[at].1)));
                    if let (Some((entry, value)), Some(at)) = (found, at) {
                        model.remove(at);
                        prop_assert_eq!(table.remove(entry), value);
                    }
                }
                Step::Remove(at) if !model.is_empty() => {
                    let (_, value, entry) = model.remove(at % model.len());
                    prop_assert_eq!(table.remove(entry), value);
                }
                Step::Remove(_) => {}
            }
            prop_assert_eq!(table.len(), model.len());
        }
        prop_assert_eq!(
            table.iter().collect::<Vec<_>>(),
            model.iter().map(|m| (m.2, m.1)).collect::<Vec<_>>()
        );
    }
}

/// Depth 10,000 in the worst order: were matching linear, this would be 10^8 steps per direction.
#[test]
fn deep_tables_match_in_any_order() {
    const DEPTH: u32 = 10_000;
    let mut posted = Posted::default();
    let mut unexpected = Unexpected::default();
    for i in 0..DEPTH {
        posted.post(pattern(0, Some(i % 7), Some(i as i32)), i);
        unexpected.insert(key(0, i % 7, i as i32), i);
    }
    for i in (0..DEPTH).rev() {
        assert_eq!(posted.take(key(0, i % 7, i as i32)), Some(i));
        let wanted = match i % 2 {
            0 => pattern(0, Some(i % 7), Some(i as i32)),
            _ => pattern(0, None, Some(i as i32)),
        };
        let (entry, value) = unexpected.find(wanted).unwrap();
        assert_eq!(value, i);
        unexpected.remove(entry);
    }
    assert!(posted.is_empty() && unexpected.is_empty());
}

/// What is posted and matched, or arrives and is received, behind many others leaves no trace in the index of those, and is found whatever
/// stands before it.
#[test]
fn what_is_matched_soon_is_found_behind_any_depth() {
    for depth in [0, 1, 7, 8, 9, 17, 1000] {
        let mut posted = Posted::default();
        let mut unexpected = Unexpected::default();
        for tag in 0..depth {
            posted.post(pattern(0, Some(1), Some(tag)), tag as u32);
            unexpected.insert(key(0, 1, tag), tag as u32);
        }
        for round in 0..100 {
            let tag = 5000 + round;
            assert!(!posted.accepts(key(0, 1, tag)));
            assert_eq!(unexpected.find(pattern(0, Some(1), Some(tag))), None);
            posted.post(pattern(0, Some(1), Some(tag)), 1);
            assert_eq!(posted.take(key(0, 1, tag)), Some(1));
            let entry = unexpected.insert(key(0, 1, tag), 2);
            for wanted in [pattern(0, Some(1), Some(tag)), pattern(0, None, Some(tag))] {
                assert_eq!(unexpected.find(wanted), Some((entry, 2)));
            }
            unexpected.remove(entry);
            // Older ones win over younger ones that are in no index.
            if round < depth {
                posted.post(pattern(0, None, Some(round)), 3);
                assert_eq!(posted.take(key(0, 1, round)), Some(round as u32));
                assert_eq!(posted.take(key(0, 2, round)), Some(3));
            }
        }
    }
}
