//! The search for deadlocks: single cases, and random programs whose ranks report at random moments, late, and sometimes not at
//! all that they go on.

use super::*;
use proptest::prelude::*;
use weft_boot::stall::{Blocked, Ranks};

/// A rank silent from 0 to 100 whose only call needs these sets.
fn needs(sets: &[&[u32]]) -> Known {
    let needs = sets.iter().map(|set| set.iter().copied().collect()).collect();
    let call = Blocked { call: "MPI_Recv".to_owned(), needs, ..Blocked::default() };
    Known::Stalled(Stall { from: 0, until: 100, calls: vec![call], ..Stall::default() })
}

fn change(known: &mut Known, change: impl FnOnce(&mut Stall)) {
    let Known::Stalled(stall) = known else { panic!("stalled") };
    change(stall);
}

fn stuck(ranks: &[Known]) -> Vec<usize> {
    find(ranks).map_or_else(Vec::new, |found| found.ranks)
}

#[test]
fn two_ranks_that_wait_for_each_other_are_a_cycle() {
    let found = find(&[needs(&[&[1]]), needs(&[&[0]])]).expect("a deadlock");
    let edge = |waits, for_rank| Edge { waits, for_rank, call: 0 };
    assert_eq!(
        found,
        Deadlock { ranks: vec![0, 1], chain: vec![edge(0, 1), edge(1, 0)], ends_at_gone: false }
    );
}

#[test]
fn a_cycle_is_named_without_the_ranks_that_only_wait_for_it() {
    let found = find(&[needs(&[&[2]]), needs(&[&[2]]), needs(&[&[3]]), needs(&[&[2]])]).expect("a deadlock");
    assert_eq!(found.ranks, [0, 1, 2, 3]);
    assert_eq!(found.chain.iter().map(|edge| edge.waits).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn whoever_waits_for_somebody_who_computes_is_no_deadlock() {
    assert_eq!(find(&[needs(&[&[1]]), needs(&[&[2]]), Known::Active]), None);
    assert_eq!(stuck(&[needs(&[&[1]]), needs(&[&[0]]), Known::Active]), [0, 1], "nobody waits for rank 2");
}

#[test]
fn a_wildcard_needs_anybody_and_a_wait_for_all_needs_everybody() {
    assert_eq!(find(&[needs(&[&[1, 2]]), needs(&[&[0]]), Known::Active]), None);
    assert_eq!(stuck(&[needs(&[&[1], &[2]]), needs(&[&[0]]), Known::Active]), [0, 1]);
    assert_eq!(stuck(&[needs(&[&[1, 2]]), needs(&[&[0]]), needs(&[&[0, 1, 2]])]), [0, 1, 2]);
}

#[test]
fn a_rank_that_ended_will_never_send() {
    let found = find(&[needs(&[&[1]]), Known::Gone(50)]).expect("a deadlock");
    assert!(found.ends_at_gone);
    assert_eq!((found.ranks, found.chain), (vec![0], vec![Edge { waits: 0, for_rank: 1, call: 0 }]));
    assert_eq!(find(&[needs(&[&[1]]), Known::Gone(150)]), None, "its last message may still be on its way");
}

#[test]
fn a_rank_that_waits_for_itself_or_for_nobody_waits_for_ever() {
    assert_eq!(stuck(&[needs(&[&[0]])]), [0]);
    assert_eq!(stuck(&[needs(&[&[]]), Known::Active]), [0]);
    assert_eq!(find(&[needs(&[])]), None, "a call of which nothing is known");
    assert_eq!(find(&[needs(&[&[7]])]), None, "a rank that does not exist");
}

#[test]
fn silence_at_different_times_proves_nothing() {
    let mut later = needs(&[&[0]]);
    change(&mut later, |stall| (stall.from, stall.until) = (100, 200));
    let both = [needs(&[&[1]]), later];
    assert_eq!(find(&both), None);
    let mut again = both;
    change(&mut again[0], |stall| stall.until = 101);
    assert_eq!(stuck(&again), [0, 1]);
}

#[test]
fn what_is_under_way_or_another_thread_may_end_the_wait() {
    let circle = || [needs(&[&[1]]), needs(&[&[0]]), Known::Active];
    let mut background = circle();
    change(&mut background[0], |stall| stall.acts_on = vec![Ranks::one(2)]);
    assert_eq!(find(&background), None);
    let mut hopeless = circle();
    change(&mut hopeless[0], |stall| stall.acts_on = vec![Ranks::one(1)]);
    assert_eq!(stuck(&hopeless), [0, 1]);
    let mut threads = circle();
    change(&mut threads[1], |stall| stall.others = true);
    assert_eq!(find(&threads), None);
    let mut second = circle();
    let free = Blocked { needs: vec![Ranks::one(2)], ..Blocked::default() };
    change(&mut second[0], |stall| stall.calls.push(free));
    assert_eq!(find(&second), None, "one of two blocked threads can be freed");
}

#[test]
fn those_who_have_not_entered_a_collective_are_named() {
    let place = Place { channel: 1, number: 4 };
    let at = |number| {
        let mut known = needs(&[&[0]]);
        change(&mut known, |stall| stall.begun = vec![Place { channel: 1, number }]);
        known
    };
    let ranks = [at(5), at(4), at(6), Known::Active, Known::Gone(0), needs(&[&[0]]), at(5)];
    assert_eq!(absent(&ranks, place, &[0, 1, 2, 3, 4, 5, 6]), (vec![1, 4, 5], vec![3]));
}

/// What a rank of a random program does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Compute,
    Send(usize),
    /// Receives from one of the ranks of the bit mask.
    Any(u8),
    /// Receives one message from each rank of the bit mask.
    All(u8),
}

#[derive(Clone, Debug)]
struct Actor {
    steps: Vec<Step>,
    /// Messages that have come, by sender, and of those the ones it has seen.
    mail: Vec<u32>,
    seen: Vec<u32>,
    blocked: bool,
    from: u64,
    looked: u64,
    until: u64,
}

fn bits(mask: u8, size: usize) -> Vec<usize> {
    (0..size).filter(|&rank| mask >> rank & 1 == 1).collect()
}

/// Takes the messages that the step needs, if they were seen.
fn receive(actor: &mut Actor, step: Step, size: usize) -> bool {
    let (Step::Any(mask) | Step::All(mask)) = step else { return true };
    let wanted = bits(mask, size);
    let here: Vec<usize> = wanted.iter().copied().filter(|&from| actor.seen[from] > 0).collect();
    let take = match step {
        Step::Any(_) if !here.is_empty() => vec![here[0]],
        Step::All(_) if here.len() == wanted.len() => here,
        _ => return false,
    };
    for from in take {
        actor.seen[from] -= 1;
    }
    true
}

fn stall_of(actor: &Actor, step: Step, size: usize) -> Stall {
    let set = |ranks: &[usize]| ranks.iter().map(|&rank| rank as u32).collect::<Ranks>();
    let needs = match step {
        Step::Any(mask) => vec![set(&bits(mask, size))],
        Step::All(mask) => bits(mask, size)
            .into_iter()
            .filter(|&from| actor.seen[from] == 0)
            .map(|from| set(&[from]))
            .collect(),
        _ => Vec::new(),
    };
    let call = Blocked { needs, ..Blocked::default() };
    Stall { from: actor.from, until: actor.until, calls: vec![call], ..Stall::default() }
}

/// Runs a program with these choices. A deadlock that was found must never be left; one that is there must be found.
fn run(programs: Vec<Vec<Step>>, choices: &[(u8, u8)]) -> Result<(), TestCaseError> {
    let size = programs.len();
    let blank = Actor {
        steps: Vec::new(),
        mail: vec![0; size],
        seen: vec![0; size],
        blocked: false,
        from: 0,
        looked: 0,
        until: 0,
    };
    let mut actors: Vec<Actor> = programs.into_iter().map(|steps| Actor { steps, ..blank.clone() }).collect();
    let mut view = vec![Known::Active; size];
    let mut doomed = vec![false; size];
    let drain =
        (0..40 * size as u32).flat_map(|turn| [(turn as u8 % size as u8, 0), (turn as u8 % size as u8, 3)]);
    let mut clock = 0;
    for (who, what) in choices.iter().copied().chain(drain) {
        clock += 1;
        let rank = usize::from(who) % size;
        let actor = &mut actors[rank];
        let Some(&step) = actor.steps.first() else {
            // It has ended; the launcher hears of that at some time.
            if what % 4 == 3 {
                view[rank] = match &view[rank] {
                    Known::Gone(at) => Known::Gone(*at),
                    _ => Known::Gone(clock),
                };
            }
            continue;
        };
        match what % 4 {
            // It looks at its mail and does its next step if it can.
            0..=2 => {
                let news = actor.mail != actor.seen && actor.mail.iter().any(|&count| count > 0);
                for from in 0..size {
                    actor.seen[from] += std::mem::take(&mut actor.mail[from]);
                }
                if receive(actor, step, size) {
                    prop_assert!(!doomed[rank], "rank {rank} went on after it was called dead");
                    actor.steps.remove(0);
                    actor.blocked = false;
                    if let Step::Send(to) = step {
                        actors[to].mail[rank] += 1;
                    }
                    // Whether the launcher hears that it goes on is left to chance.
                    if what % 4 != 2 && matches!(view[rank], Known::Stalled(_)) {
                        view[rank] = Known::Active;
                    }
                } else {
                    if news || !actor.blocked {
                        (actor.from, actor.until) = (clock, 0);
                    } else {
                        actor.until = actor.looked;
                    }
                    actor.blocked = true;
                    actor.looked = clock;
                }
            }
            // The launcher hears how it was when it last looked.
            _ => {
                if actor.blocked && actor.until > actor.from {
                    view[rank] = Known::Stalled(stall_of(actor, step, size));
                }
            }
        }
        if let Some(found) = find(&view) {
            for rank in found.ranks {
                doomed[rank] = true;
            }
        }
    }
    for (rank, actor) in actors.iter().enumerate() {
        prop_assert_eq!(doomed[rank], !actor.steps.is_empty(), "rank {} of {:?}", rank, actors);
    }
    Ok(())
}

fn any_programs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    (2usize..6).prop_flat_map(|size| {
        let mask = 1u8..1 << size;
        let step = prop_oneof![
            Just(Step::Compute),
            (0..size).prop_map(Step::Send),
            (0..size).prop_map(Step::Send),
            mask.clone().prop_map(Step::Any),
            mask.prop_map(Step::All),
        ];
        prop::collection::vec(prop::collection::vec(step, 0..6), size)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn a_deadlock_is_found_exactly_when_there_is_one(
        programs in any_programs(),
        choices in prop::collection::vec((any::<u8>(), any::<u8>()), 0..120),
    ) {
        run(programs, &choices)?;
    }
}
