//! Collectives that a provider runs, against the definitions: several ends in this process over the software provider of the
//! installed library that offers them. What is missing is named and passed over.

mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_api::Transport;
use weft_api::offload::{
    Arithmetic, Collective, Element, GroupId, Joining, Offload, Operation, Outcome, Outline, Piece, Program,
    Refusal, Whole,
};
use weft_ofi::Ofi;
use weft_types::PeerId;
use world::{Cards, all, open, wanted};

const PATIENCE: Duration = Duration::from_secs(60);
const PROVIDER: &str = "tcp;ofi_rxm";

/// Ends of one group, by rank.
struct Ends {
    ends: Vec<Ofi>,
    groups: Vec<GroupId>,
    cards: Cards,
}

/// `None`, with a word, where the library does not offer it.
fn joined(processes: u32) -> Option<Ends> {
    let mut wanted = wanted(PROVIDER)?;
    wanted.offload = Some(true);
    let (mut ends, cards) = all(processes as usize, &wanted);
    println!("{}", ends[0].collectives());
    let Some(digest) = ends[0].offers_groups(processes) else {
        println!("skipped: this libfabric's {PROVIDER} runs no collectives");
        return None;
    };
    assert!(ends.iter().all(|end| end.offers_groups(processes) == Some(digest)));
    let groups = join(&mut ends);
    Some(Ends { ends, groups, cards })
}

/// All ends join one more group, in the order of ranks.
fn join(ends: &mut [Ofi]) -> Vec<GroupId> {
    let members: Vec<PeerId> = (0..ends.len() as u32).map(PeerId).collect();
    let opened: Vec<(GroupId, Vec<u8>)> =
        ends.iter_mut().map(|end| end.open_group(members.len() as u32).unwrap()).collect();
    let cards: Vec<&[u8]> = opened.iter().map(|(_, card)| &card[..]).collect();
    for (end, (group, _)) in ends.iter_mut().zip(&opened) {
        end.join_group(*group, 7, &members, &cards).unwrap();
    }
    let groups: Vec<GroupId> = opened.into_iter().map(|(group, _)| group).collect();
    until("all have joined", || {
        for end in ends.iter_mut() {
            end.progress();
        }
        ends.iter_mut().zip(&groups).all(|(end, group)| match end.joined(*group) {
            Joining::Joined => true,
            Joining::Waiting => false,
            Joining::Failed(why) => panic!("{why}"),
        })
    });
    groups
}

fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
    }
}

fn outline(collective: Collective, ranks: usize, bytes: u64, arithmetic: Option<Arithmetic>) -> Outline {
    Outline { collective, ranks: ranks as u32, bytes, arithmetic }
}

fn piece(bytes: &[u8]) -> Piece {
    Piece { address: bytes.as_ptr() as u64, bytes: bytes.len() as u64 }
}

/// Where an outcome belongs.
fn room(bytes: &mut [u8]) -> Piece {
    Piece { address: bytes.as_mut_ptr() as u64, bytes: bytes.len() as u64 }
}

const NOTHING: Piece = Piece { address: 0, bytes: 0 };

fn program(outline: Outline, group: GroupId, operand: Piece, result: Piece) -> Arc<Program> {
    let whole = Some(Whole { group, operand, result });
    Arc::new(Program { outline, whole, steps: Vec::new(), waits_for: Vec::new(), successors: Vec::new() })
}

impl Ends {
    /// Runs one collective at all ends, with these operands, and gives the results of all; `result` says who has one.
    fn run(
        &mut self,
        outline: Outline,
        operands: &[Vec<u8>],
        result: impl Fn(usize) -> bool,
    ) -> Vec<Vec<u8>> {
        let mut results: Vec<Vec<u8>> = operands.iter().map(|data| vec![0x5a; data.len()]).collect();
        for (rank, end) in self.ends.iter_mut().enumerate() {
            assert_eq!(end.can_run(&outline, Some(self.groups[rank]), &|rank| PeerId(rank)), Ok(()));
            let into = if result(rank) { room(&mut results[rank]) } else { NOTHING };
            let from = match outline.collective {
                Collective::Bcast(root) if root as usize != rank => NOTHING,
                _ => piece(&operands[rank]),
            };
            end.hand_over(&program(outline, self.groups[rank], from, into), rank as u64);
        }
        let mut ended = vec![false; self.ends.len()];
        until("the end of a collective", || {
            for (rank, end) in self.ends.iter_mut().enumerate() {
                end.progress();
                while let Some(finished) = end.finished() {
                    assert_eq!((finished.token, finished.outcome), (rank as u64, Outcome::Done));
                    ended[rank] = true;
                }
            }
            ended.iter().all(|&ended| ended)
        });
        results
    }
}

fn doubles(rank: usize, count: u64) -> Vec<u8> {
    // Of very different size, so that the order of additions is seen.
    let value = |i: u64| (i as f64 + 0.1) * 10_f64.powi((rank as i32 * 7 + i as i32) % 30 - 15);
    (0..count).flat_map(|i| value(i).to_ne_bytes()).collect()
}

fn numbers(rank: usize, count: u64) -> Vec<u8> {
    (0..count).flat_map(|i| (i as i32 * 31 + rank as i32).to_ne_bytes()).collect()
}

const SUM: Arithmetic = Arithmetic { operation: Operation::Sum, element: Element::Float(8) };
const MOST: Arithmetic = Arithmetic { operation: Operation::Max, element: Element::Signed(4) };

#[test]
fn every_collective_is_what_it_should_be() {
    for size in [2, 3, 5, 8] {
        let Some(mut ends) = joined(size as u32) else { return };
        ends.run(outline(Collective::Barrier, size, 0, None), &vec![Vec::new(); size], |_| false);
        for count in [1, 2, 7, 500] {
            for root in 0..size {
                let data: Vec<Vec<u8>> = (0..size).map(|rank| numbers(rank, count)).collect();
                let bytes = data[0].len() as u64 - 1;
                let cut: Vec<Vec<u8>> = data.iter().map(|data| data[..bytes as usize].to_vec()).collect();
                let all =
                    ends.run(outline(Collective::Bcast(root as u32), size, bytes, None), &cut, |rank| {
                        rank != root
                    });
                assert!(all.iter().enumerate().all(|(rank, got)| rank == root || *got == cut[root]));
                let of = outline(Collective::Reduce(root as u32), size, 4 * count, Some(MOST));
                let all = ends.run(of, &data, |rank| rank == root);
                assert_eq!(all[root], data[size - 1], "the largest are those of the last rank");
                assert!(
                    all.iter()
                        .enumerate()
                        .all(|(rank, got)| rank == root || got.iter().all(|&byte| byte == 0x5a))
                );
            }
            let data: Vec<Vec<u8>> = (0..size).map(|rank| doubles(rank, count)).collect();
            let all = ends.run(outline(Collective::Allreduce, size, 8 * count, Some(SUM)), &data, |_| true);
            assert!(all.iter().all(|got| *got == all[0]), "the same bits at all");
            let value =
                |bytes: &[u8], i: usize| f64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
            for i in 0..count as usize {
                let exact: f64 = data.iter().map(|data| value(data, i)).sum();
                assert!((value(&all[0], i) - exact).abs() <= exact.abs() * 1e-12);
            }
        }
    }
}

#[test]
fn several_at_once_and_two_groups_do_not_mix() {
    let Some(mut ends) = joined(4) else { return };
    let second = join(&mut ends.ends);
    let of = outline(Collective::Allreduce, 4, 4, Some(MOST));
    // Eight in each group, begun in one order inside a group and in turns between them; the second group at odd ranks first.
    let operands: Vec<Vec<[u8; 4]>> =
        (0..4_i32).map(|rank| (0..16_i32).map(|k| (100 * k + rank).to_ne_bytes()).collect()).collect();
    let mut results = vec![vec![[0_u8; 4]; 16]; 4];
    for rank in 0..4 {
        for k in 0..16 {
            let in_second = (k % 2 == 1) ^ (rank % 2 == 1);
            let token = k / 2 + if in_second { 8 } else { 0 };
            let group = if in_second { second[rank] } else { ends.groups[rank] };
            let (from, into) = (piece(&operands[rank][token]), room(&mut results[rank][token]));
            ends.ends[rank].hand_over(&program(of, group, from, into), token as u64);
        }
    }
    let mut left = 64;
    until("all ends", || {
        for end in &mut ends.ends {
            end.progress();
            while let Some(finished) = end.finished() {
                assert_eq!(finished.outcome, Outcome::Done);
                left -= 1;
            }
        }
        left == 0
    });
    for token in 0..16_i32 {
        assert!(results.iter().all(|results| results[token as usize] == (100 * token + 3).to_ne_bytes()));
    }
}

#[test]
fn what_was_left_is_closed_and_its_place_used_again() {
    let Some(mut ends) = joined(3) else { return };
    let barrier = outline(Collective::Barrier, 3, 0, None);
    for _ in 0..3 {
        ends.run(barrier, &vec![Vec::new(); 3], |_| false);
        for (end, group) in ends.ends.iter_mut().zip(&ends.groups) {
            end.leave_group(*group);
        }
        ends.groups = join(&mut ends.ends);
    }
    ends.run(barrier, &vec![Vec::new(); 3], |_| false);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for end in &mut ends.ends {
            end.progress();
        }
    }
    let again = join(&mut ends.ends);
    assert!(again.iter().all(|group| group.0 < 3), "{again:?}");
    assert_eq!(ends.ends[0].can_run(&barrier, None, &|rank| PeerId(rank)), Err(Refusal::NoGroup));
}

/// Three survivors of four wait for the fourth, which is gone: each ends, and names it.
#[test]
fn a_lost_member_ends_the_collectives_of_all() {
    let Some(mut ends) = joined(4) else { return };
    ends.run(outline(Collective::Barrier, 4, 0, None), &vec![Vec::new(); 4], |_| false);
    let mut wanted = wanted(PROVIDER).unwrap();
    wanted.offload = Some(true);
    // A stranger takes the dead one's place; nobody has its address.
    ends.ends[2] = open(2, &wanted, &ends.cards);
    let data = [1_u8; 8];
    let mut results = [[0_u8; 8]; 4];
    for rank in [0, 1, 3] {
        for token in 0..3 {
            let of = outline(Collective::Allreduce, 4, 8, Some(SUM));
            let of = program(of, ends.groups[rank], piece(&data), room(&mut results[rank]));
            ends.ends[rank].hand_over(&of, token);
        }
    }
    let mut ended = [0; 4];
    until("the survivors' ends", || {
        for rank in [0, 1, 3] {
            let end = &mut ends.ends[rank];
            end.progress();
            while let Some(finished) = end.finished() {
                assert_eq!(finished.outcome, Outcome::Lost(PeerId(2)), "at rank {rank}");
                ended[rank] += 1;
            }
        }
        std::thread::sleep(Duration::from_micros(100));
        [0, 1, 3].iter().all(|&rank| ended[rank] == 3)
    });
    // What is handed over later ends at once.
    let barrier = outline(Collective::Barrier, 4, 0, None);
    ends.ends[0].hand_over(&program(barrier, ends.groups[0], NOTHING, NOTHING), 9);
    let finished = ends.ends[0].finished().expect("at once");
    assert_eq!((finished.token, finished.outcome), (9, Outcome::Lost(PeerId(2))));
}

/// Rank 1 is known to its neighbours alone, ranks 0 and 2, which have left the group; the others, which wait for it, find out
/// that it is gone.
#[test]
fn a_member_that_nobody_watches_any_more_is_missed_all_the_same() {
    let Some(mut ends) = joined(5) else { return };
    ends.run(outline(Collective::Barrier, 5, 0, None), &vec![Vec::new(); 5], |_| false);
    for rank in [0, 2] {
        ends.ends[rank].leave_group(ends.groups[rank]);
    }
    let begun = Instant::now();
    // Longer than a group's end stays open.
    while begun.elapsed() < Duration::from_secs(3) {
        for end in &mut ends.ends {
            end.progress();
        }
    }
    let mut wanted = wanted(PROVIDER).unwrap();
    wanted.offload = Some(true);
    ends.ends[1] = open(1, &wanted, &ends.cards);
    let barrier = outline(Collective::Barrier, 5, 0, None);
    for rank in [3, 4] {
        ends.ends[rank].hand_over(&program(barrier, ends.groups[rank], NOTHING, NOTHING), 1);
    }
    let mut ended = [false; 5];
    until("the ends of those that wait", || {
        for rank in [3, 4] {
            let end = &mut ends.ends[rank];
            end.progress();
            while let Some(finished) = end.finished() {
                assert_eq!(finished.outcome, Outcome::Lost(PeerId(1)), "at rank {rank}");
                ended[rank] = true;
            }
        }
        // Whatever these find, they have no group to tell of it.
        ends.ends[0].progress();
        ends.ends[2].progress();
        std::thread::sleep(Duration::from_micros(100));
        ended[3] && ended[4]
    });
}
