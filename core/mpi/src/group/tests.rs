//! Groups against a plain list of processes.

use super::*;
use proptest::prelude::*;

fn group(peers: &[u32]) -> Group {
    Group::from_iter(peers.iter().map(|&peer| PeerId(peer)))
}

fn list(group: &Group) -> Vec<u32> {
    group.peers().map(|peer| peer.0).collect()
}

#[test]
fn regular_groups_take_no_memory_per_member() {
    for peers in [&[][..], &[4], &[0, 1, 2, 3], &[1, 3, 5], &[9, 6, 3, 0]] {
        let group = group(peers);
        assert!(matches!(group, Group::Strided { .. }), "{group:?}");
        assert_eq!(list(&group), peers);
    }
    assert!(matches!(group(&[0, 1, 3]), Group::List(_)));
}

#[test]
fn set_operations_keep_the_order_of_the_first_group() {
    let (a, b) = (group(&[5, 1, 3]), group(&[3, 0, 5]));
    assert_eq!(list(&a.union(&b)), [5, 1, 3, 0]);
    assert_eq!(list(&a.intersection(&b)), [5, 3]);
    assert_eq!(list(&a.difference(&b)), [1]);
    assert_eq!(a.difference(&a), Group::EMPTY);
}

#[test]
fn comparison_tells_order_from_membership() {
    assert_eq!(group(&[0, 1, 2]).compare(&Group::world(3)), Comparison::Identical);
    assert_eq!(group(&[2, 1, 0]).compare(&Group::world(3)), Comparison::Similar);
    assert_eq!(group(&[0, 1, 3]).compare(&Group::world(3)), Comparison::Unequal);
    assert_eq!(Group::EMPTY.compare(&group(&[])), Comparison::Identical);
}

#[test]
fn ranges_may_run_backwards_and_stop_before_their_last() {
    let world = Group::world(10);
    let ranks = |ranges: &[[i32; 3]]| world.include_ranges(ranges).map(|group| list(&group));
    assert_eq!(ranks(&[[8, 1, -3]]), Ok(vec![8, 5, 2]));
    assert_eq!(ranks(&[[0, 9, 4], [1, 1, 7]]), Ok(vec![0, 4, 8, 1]));
    let class = |ranges: &[[i32; 3]]| world.include_ranges(ranges).expect_err("refused").class();
    assert_eq!(class(&[[0, 4, 0]]), ErrorClass::ARG);
    assert_eq!(class(&[[0, 12, 4]]), ErrorClass::RANK);
    assert_eq!(class(&[[5, 1, 1]]), ErrorClass::ARG);
    assert_eq!(class(&[[0, 4, 2], [9, 4, -5]]), ErrorClass::RANK, "rank 4 twice");
    let text = world.include_ranges(&[[0, 1, 1], [0, 4, 0]]).expect_err("refused");
    assert!(text.text().contains("ranges[1] is (0, 4, 0)"), "{text}");
    let rest = world.exclude_ranges(&[[7, 8, 1], [3, 1, -1]]).expect("legal");
    assert_eq!(list(&rest), [0, 4, 5, 6, 9]);
}

#[test]
fn a_part_of_a_large_group_is_made_without_its_members() {
    let world = Group::world(u32::MAX >> 1);
    let last = world.size() as i32 - 1;
    let odd = world.include_ranges(&[[1, last, 2]]).expect("legal");
    assert_eq!((odd.size(), odd.heap_bytes()), (last as u32 / 2, 0));
    let halves = world.include_ranges(&[[1 << 20, last, 1], [0, (1 << 20) - 1, 1]]).expect("legal");
    assert_eq!(halves.heap_bytes(), 2 * 12);
    assert_eq!(halves.rank_of(PeerId(0)), Some(Rank(world.size() - (1 << 20))));
    let hole = world.exclude_ranges(&[[5, 1 << 30, 1]]).expect("legal");
    assert_eq!((hole.size(), hole.heap_bytes()), (world.size() - (1 << 30) + 4, 24));
    assert_eq!(hole.peer(Rank(5)), PeerId((1 << 30) + 1));
}

#[test]
fn memory_is_that_of_the_irregularity() {
    let world = Group::world(100_000);
    assert!(size_of::<Group>() <= 32);
    for regular in [
        world.clone(),
        world.include((0..100_000).step_by(48)).expect("legal"),
        world.include((0..100_000).rev()).expect("legal"),
        world.difference(&Group::world(512)),
        world.union(&world),
        world.intersection(&world.include((7..90_000).step_by(3)).expect("legal")),
    ] {
        assert_eq!(regular.heap_bytes(), 0, "{regular:?}");
    }
    // Node by node: as many stretches as nodes.
    let by_node =
        Group::from_iter((0..48).flat_map(|core| (0..2_000).map(move |node| PeerId(node * 48 + core))));
    assert_eq!((by_node.size(), by_node.heap_bytes()), (96_000, 48 * 12));
    let scattered = Group::from_iter((0..1000_u32).map(|i| PeerId(i * i)));
    assert_eq!(scattered.heap_bytes(), 4 * 1000);
}

#[test]
fn translation_keeps_proc_null_and_marks_strangers() {
    let world = Group::world(4);
    let odd = group(&[3, 1]);
    let translated = world.translate(&[0, 1, abi::MPI_PROC_NULL, 3], &odd).expect("legal");
    assert_eq!(translated, [abi::MPI_UNDEFINED, 1, abi::MPI_PROC_NULL, 0]);
    assert_eq!(world.translate(&[4], &odd).expect_err("outside").class(), ErrorClass::RANK);
}

#[test]
fn duplicates_are_refused() {
    let error = Group::world(3).include([1, 1]).expect_err("twice");
    assert_eq!(error.class(), ErrorClass::RANK);
}

/// Processes of a group, regular in part, irregular in part.
fn members() -> impl Strategy<Value = Vec<u32>> {
    let stretch = (0u32..200, -7i64..8, 1usize..30);
    proptest::collection::vec(stretch, 0..6).prop_map(|stretches| {
        let mut all: Vec<u32> = Vec::new();
        for (first, stride, length) in stretches {
            for step in 0..length as i64 {
                let peer = i64::from(first) + stride * step;
                if let Ok(peer) = u32::try_from(peer)
                    && !all.contains(&peer)
                {
                    all.push(peer);
                }
            }
        }
        all
    })
}

proptest! {
    #[test]
    fn a_group_is_its_list(peers in members(), strangers in proptest::collection::vec(0u32..300, 0..20)) {
        let made = group(&peers);
        prop_assert_eq!(made.size() as usize, peers.len());
        prop_assert_eq!(list(&made), peers.clone());
        let mut questions = peers.clone();
        questions.extend(strangers);
        let lookup = made.lookup();
        for peer in questions {
            let wanted = peers.iter().position(|&p| p == peer).map(|rank| Rank(rank as u32));
            prop_assert_eq!(made.rank_of(PeerId(peer)), wanted);
            prop_assert_eq!(lookup.rank_of(PeerId(peer)), wanted);
        }
        prop_assert!(made.heap_bytes() <= 4 * peers.len());
        let mut bytes = vec![9];
        made.write(&mut bytes);
        prop_assert_eq!(Group::read(&mut crate::letters::Reader::new(&bytes[1..])), Ok(made));
    }

    #[test]
    fn set_operations_are_those_of_lists(a in members(), b in members()) {
        let (one, other) = (group(&a), group(&b));
        let union: Vec<u32> = a.iter().chain(b.iter().filter(|peer| !a.contains(peer))).copied().collect();
        let both: Vec<u32> = a.iter().filter(|peer| b.contains(peer)).copied().collect();
        let rest: Vec<u32> = a.iter().filter(|peer| !b.contains(peer)).copied().collect();
        // Equal sequences give equal values, however they were made.
        prop_assert_eq!(one.union(&other), group(&union));
        prop_assert_eq!(one.intersection(&other), group(&both));
        prop_assert_eq!(one.difference(&other), group(&rest));
        prop_assert_eq!(one.difference(&other).followed_by(&other), group(&[rest, b.clone()].concat()));
        let (mut sorted_a, mut sorted_b) = (a.clone(), b.clone());
        sorted_a.sort_unstable();
        sorted_b.sort_unstable();
        let wanted = if a == b {
            Comparison::Identical
        } else if sorted_a == sorted_b {
            Comparison::Similar
        } else {
            Comparison::Unequal
        };
        prop_assert_eq!(one.compare(&other), wanted);
        let all: Vec<i32> = (0..a.len() as i32).collect();
        let wanted: Vec<i32> = a
            .iter()
            .map(|peer| b.iter().position(|p| p == peer).map_or(abi::MPI_UNDEFINED, |rank| rank as i32))
            .collect();
        prop_assert_eq!(one.translate(&all, &other), Ok(wanted));
    }

    #[test]
    fn ranges_are_those_of_lists(
        peers in members(),
        ranges in proptest::collection::vec((0i32..60, 0i32..60, -4i32..5), 0..4),
    ) {
        let made = group(&peers);
        let ranges: Vec<[i32; 3]> = ranges.into_iter().map(|(first, last, stride)| [first, last, stride]).collect();
        let mut ranks = Vec::new();
        let mut legal = true;
        for &[first, last, stride] in &ranges {
            legal &= stride != 0 && (first == last || (last > first) == (stride > 0));
            if legal {
                let steps = (last - first) / stride;
                ranks.extend((0..=steps).map(|step| first + step * stride));
            }
        }
        legal &= ranks.iter().all(|&rank| (rank as usize) < peers.len());
        let mut distinct = ranks.clone();
        distinct.sort_unstable();
        distinct.dedup();
        legal &= distinct.len() == ranks.len();
        let (inside, outside) = (made.include_ranges(&ranges), made.exclude_ranges(&ranges));
        prop_assert_eq!(inside.is_ok(), legal);
        prop_assert_eq!(outside.is_ok(), legal);
        if legal {
            prop_assert_eq!(inside, made.include(ranks.iter().copied()));
            prop_assert_eq!(outside.clone(), made.exclude(ranks.iter().copied()));
            let rest: Vec<u32> =
                (0..peers.len()).filter(|&rank| !ranks.contains(&(rank as i32))).map(|rank| peers[rank]).collect();
            prop_assert_eq!(outside, Ok(group(&rest)));
        }
    }

    #[test]
    fn nonsense_is_no_group_or_a_harmless_one(bytes in proptest::collection::vec(any::<u8>(), 0..60), kind in 0u8..2) {
        let header = [&[kind, 0, 0, 0, 0, 0, 0, 0, bytes.len() as u8 / 13, 0, 0, 0][..], &bytes].concat();
        if let Ok(group) = Group::read(&mut crate::letters::Reader::new(&header)) {
            let _ = (group.rank_of(PeerId(3)), group.size());
        }
    }

    #[test]
    fn rank_and_peer_are_inverse(first in 0u32..1000, stride in -9i32..9, size in 1u32..40) {
        prop_assume!(stride != 0 && i64::from(first) + i64::from(stride) * 40 >= 0);
        let group = Group::Strided { first, stride, size };
        for rank in 0..size {
            prop_assert_eq!(group.rank_of(group.peer(Rank(rank))), Some(Rank(rank)));
        }
        let members: Vec<u32> = list(&group);
        for peer in 0..1500 {
            prop_assert_eq!(group.rank_of(PeerId(peer)).is_some(), members.contains(&peer));
        }
    }

    #[test]
    fn inclusion_and_exclusion_split_a_group(ranks in proptest::sample::subsequence((0..12).collect::<Vec<i32>>(), 0..12)) {
        let world = Group::world(12);
        let inside = world.include(ranks.iter().copied()).expect("legal");
        let outside = world.exclude(ranks.iter().copied()).expect("legal");
        prop_assert_eq!(inside.size() + outside.size(), 12);
        prop_assert_eq!(inside.intersection(&outside), Group::EMPTY);
        prop_assert_eq!(inside.union(&outside).compare(&world), match inside == world.intersection(&inside) {
            _ if inside.union(&outside) == world => Comparison::Identical,
            _ => Comparison::Similar,
        });
    }
}
