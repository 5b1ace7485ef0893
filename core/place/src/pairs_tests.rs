use super::*;
use crate::transport::{Rdma, Wish};
use proptest::prelude::*;

const AUTO: Wish = Wish { forced: None, rdma: Rdma::Auto, rails: 1 };

/// Nodes named a, b, c by the words they say.
fn nodes(words: &[&str]) -> Vec<Kind> {
    words.iter().zip('a'..).map(|(word, node)| Kind::read(word, node.to_string(), 1)).collect()
}

fn pairs(words: &[&str]) -> Pairs {
    match between(&nodes(words), &AUTO).expect("roads") {
        Between::Pairs(pairs) => pairs,
        Between::One(one) => panic!("{words:?} take {} alone", one.road),
    }
}

fn named(pairs: &Pairs, name: &str) -> usize {
    pairs.kind(name).unwrap_or_else(|| panic!("no kind {name}"))
}

#[test]
fn a_node_without_a_device_keeps_nobody_else_from_it() {
    let pairs = pairs(&["iu", "iu", "u", "iu"]);
    let (with, without) = (named(&pairs, "iu"), named(&pairs, "u"));
    assert_eq!(pairs.road(with, with), Some(Road::InfiniBand));
    assert_eq!(pairs.road(with, without), Some(Road::Softroce));
    assert_eq!(pairs.road(without, with), Some(Road::Softroce), "the same from both ends");
    assert_eq!(pairs.road(without, without), None, "there is one such node");
    assert_eq!(pairs.opened(with), [Road::InfiniBand, Road::Softroce]);
    assert_eq!(pairs.opened(without), [Road::Softroce]);
    assert!(pairs.is_fall());
    assert_eq!(
        pairs.told(),
        "the nodes of this job differ: verbs over InfiniBand leads among a, b, d; softroce leads between a, b, d and c \
         (c cannot use verbs over InfiniBand; WEFT_RDMA=require makes this an error)"
    );
}

#[test]
fn three_kinds_take_three_roads() {
    let pairs = pairs(&["iru", "iru", "ru", "ru", "u", "u"]);
    let of = |a, b| pairs.road(named(&pairs, a), named(&pairs, b)).expect("a road");
    for (a, b, road) in [
        ("iru", "iru", Road::InfiniBand),
        ("iru", "ru", Road::Roce),
        ("ru", "ru", Road::Roce),
        ("ru", "u", Road::Softroce),
        ("iru", "u", Road::Softroce),
        ("u", "u", Road::Softroce),
    ] {
        assert_eq!(of(a, b), road, "{a} and {b}");
    }
    assert_eq!(pairs.opened(named(&pairs, "iru")), [Road::InfiniBand, Road::Roce, Road::Softroce]);
    assert_eq!(pairs.opened(named(&pairs, "ru")), [Road::Roce, Road::Softroce]);
    assert_eq!(pairs.roads(), [Road::InfiniBand, Road::Roce, Road::Softroce]);
    let reaches = |a, b| pairs.reaches_memory(named(&pairs, a), named(&pairs, b));
    assert!(reaches("iru", "iru") && reaches("ru", "ru") && reaches("u", "u"));
    assert!(!reaches("iru", "ru"), "who has InfiniBand registers with that");
    assert!(!reaches("ru", "u") && !reaches("iru", "u"));
}

#[test]
fn one_road_does_where_nobody_gives_up_a_device_for_sockets() {
    for (words, road) in [
        (&["iu", "iu"][..], Road::InfiniBand),
        (&["iru", "ru", "riu"], Road::Roce),
        (&["u", "u"], Road::Softroce),
        // Two nodes that differ have one road between them.
        (&["iu", "u"], Road::Softroce),
        (&["iu", "ru"], Road::Softroce),
    ] {
        match between(&nodes(words), &AUTO).expect("a road") {
            Between::One(one) => assert_eq!(one.road, road, "{words:?}"),
            Between::Pairs(pairs) => panic!("{words:?}: {}", pairs.told()),
        }
    }
}

#[test]
fn nodes_with_the_same_roads_are_of_one_kind_whatever_each_prefers() {
    let pairs = pairs(&["iru", "riu", "u"]);
    assert_eq!(pairs.road(0, 0), Some(Road::InfiniBand), "the order of all roads decides");
    assert_eq!(pairs.kind(&name(&[Road::Softroce, Road::Roce, Road::InfiniBand])), Some(0));
}

#[test]
fn two_kinds_without_a_common_road_are_an_error_that_names_both() {
    let why = between(&nodes(&["iu", "iu", "i", "u"]), &AUTO).expect_err("i and u have none");
    for part in ["c: verbs over InfiniBand", "d: softroce"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let required = Wish { rdma: Rdma::Require, ..AUTO };
    let why = between(&nodes(&["ir", "i", "r"]), &required).expect_err("i and r have none");
    for part in ["WEFT_RDMA=require", "b: verbs over InfiniBand", "c: verbs over RoCE"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

proptest! {
    /// Whatever the order is in which nodes are heard of: one answer. Each pair has its first common road or a choice of both, a process opens
    /// what leads to any other and no more, and both ends of a pair agree on whether they reach memory.
    #[test]
    fn everybody_comes_to_the_same(
        words in prop::collection::vec(prop::sample::subsequence("siorakxlu".chars().collect::<Vec<_>>(), 1..=9).prop_shuffle(), 1..8),
        turn in any::<prop::sample::Index>(),
    ) {
        let words: Vec<String> = words.into_iter().map(|word| word.into_iter().collect()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut said = nodes(&words);
        let before = between(&said, &AUTO);
        let turn = turn.index(said.len());
        said.rotate_left(turn);
        let (after, backwards) = (between(&said, &AUTO), { said.reverse(); between(&said, &AUTO) });
        let table = |between: &Result<Between, String>| match between {
            Ok(Between::Pairs(pairs)) => Some(pairs.pairs.clone()),
            _ => None,
        };
        prop_assert_eq!(table(&before), table(&after));
        prop_assert_eq!(table(&before), table(&backwards));
        prop_assert_eq!(before.is_ok(), after.is_ok());
        let Ok(Between::Pairs(pairs)) = before else { return Ok(()) };
        prop_assert!(pairs.roads().len() > 1);
        for pair in &pairs.pairs {
            let (a, b) = (&pairs.kinds[pair.kinds.0], &pairs.kinds[pair.kinds.1]);
            prop_assert!(a.roads.contains(&pair.road) && b.roads.contains(&pair.road));
            let first = Road::ALL.into_iter().find(|road| a.roads.contains(road) && b.roads.contains(road));
            let is_chosen = a.roads[0] == pair.road && b.roads[0] == pair.road;
            prop_assert!(is_chosen || first == Some(pair.road));
        }
        for a in 0..pairs.kinds.len() {
            let opened = pairs.opened(a);
            for b in 0..pairs.kinds.len() {
                prop_assert_eq!(pairs.reaches_memory(a, b), pairs.reaches_memory(b, a));
                prop_assert!(pairs.road(a, b).is_none_or(|road| opened.contains(&road)));
            }
            prop_assert!(opened.iter().all(|&road| (0..pairs.kinds.len()).any(|b| pairs.road(a, b) == Some(road))));
        }
    }
}
