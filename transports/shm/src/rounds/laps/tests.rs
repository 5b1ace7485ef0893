//! Where payloads lie, member by member.

use super::*;
use std::ops::Range;

impl Laps {
    fn put(&mut self, round: u64, len: usize, sort: Sort) -> (usize, bool) {
        self.place_in_ring(self.part(len, sort), round, len, sort)
    }
}

fn sort_of(exchanged: bool) -> Sort {
    if exchanged { Sort::Exchanged } else { Sort::Single }
}

#[test]
fn as_many_payloads_as_members_are_ahead_do_not_meet() {
    for (members, crowded) in [(2, false), (2, true), (3, true), (4, false), (8, true), (63, true)] {
        for (most, ahead) in
            [(Laps::slot_bytes as fn(&Laps) -> usize, CELLS), (Laps::attended, ATTENDED as u64)]
        {
            let mut laps = Laps::new(members, all_rings(members, crowded).0, crowded);
            let (most, attended) = (most(&laps), ahead != CELLS);
            for (first, len) in [(0, most), (1000, most / 2 + 64), (2000, most * 2 / 3)] {
                for round in first..first + 1000 {
                    let displaced = laps.displaces(len, sort_of(attended)).filter(|&before| before >= first);
                    assert!(displaced.is_none_or(|before| before + ahead <= round), "{members}: {len}");
                    laps.put(round, len, sort_of(attended));
                }
            }
        }
    }
}

#[test]
fn contributions_stay_until_their_results_are_written() {
    for members in [3, 4, 5, 8, 16] {
        let mut laps = Laps::new(members, all_rings(members, true).0, true);
        let most = laps.in_two_phases();
        let mut first = 0_u64;
        for (len, pieces) in [
            (most, 50_u64),
            (most / 2 + 64, 99),
            (most * 2 / 3, 20),
            (most, 1),
            (most - 64, 1),
            (64 << 10, 1),
            (most, 2),
        ] {
            for _ in 0..20 {
                // Contributions 0, 1, results 0, contributions 2, results 1, ...
                for round in 0..2 * pieces {
                    let is_result = round == 2 * pieces - 1 || round > 0 && round % 2 == 0;
                    let result = len.div_ceil(members as usize) + PAGE / 2;
                    let sort = Sort::Paired { contribution: len, result, is_result };
                    let bytes = if is_result { result } else { len };
                    // What this member has not done with: the contribution before, or the two, and what follows the first.
                    let since = if is_result && round != 2 * pieces - 1 { 3 } else { 2 };
                    let needed = first + round.saturating_sub(since);
                    let displaced = laps.displaces(bytes, sort);
                    assert!(displaced.is_none_or(|before| before < needed), "{members}: {round} of {pieces}");
                    laps.put(first + round, bytes, sort);
                }
                first += 2 * pieces;
            }
        }
    }
}

#[test]
fn bytes_of_a_ring_keep_their_readers_while_a_call_in_two_phases_is_repeated() {
    let mut laps = Laps::new(4, all_rings(4, true).0, true);
    let (contribution, result) = (64 << 10, 16 << 10);
    let mut contributions = Vec::new();
    for round in 0..200 {
        let is_result = round % 2 == 1;
        let sort = Sort::Paired { contribution, result, is_result };
        let (at, _) = laps.put(round, if is_result { result } else { contribution }, sort);
        let meets = |&&(begin, len): &&(usize, usize)| begin < at + contribution && at < begin + len;
        match is_result {
            true => {
                assert!(contributions.iter().all(|&(begin, len)| at >= begin + len || at + result <= begin))
            }
            false => assert!(contributions.iter().filter(meets).all(|&(begin, _)| begin == at)),
        }
        if !is_result {
            contributions.push((at, contribution));
        }
    }
}

#[test]
fn of_two_members_each_writes_where_it_has_read() {
    let mut members = [0, 1].map(|_| Laps::new(2, all_rings(2, false).0, false));
    let mut last: Vec<(usize, Range<usize>)> = Vec::new();
    let mut random = 2_862_933_555_777_941_757_u64;
    for round in 0..2_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Now and then one alone writes.
        let (len, alone) = ([20_000, MOST][round as usize / 1_000], random >> 33 & 7);
        if alone < 2 {
            let writer = &mut members[alone as usize];
            assert!(!writer.put(round, len, Sort::Single).1);
            continue;
        }
        // Of rounds before the last eight nobody needs to know.
        let displaced = [0, 1].map(|me: usize| {
            members[me].displaces(len, Sort::Exchanged).filter(|before| before + CELLS > round)
        });
        assert_eq!(displaced[0], displaced[1], "both know the same");
        let places = [0, 1].map(|me: usize| {
            let (at, turned) = members[me].put(round, len, Sort::Exchanged);
            ((if turned { 1 - me } else { me }), at..at + len)
        });
        assert_eq!(places[0].1, places[1].1);
        assert_ne!(places[0].0, places[1].0, "never into one ring");
        let (ring, place) = places[0].clone();
        let before = last.iter().rev().find(|(_, old)| *old == place);
        assert!(before.is_none_or(|&(written_by_0, _)| written_by_0 != ring), "the last was the other's");
        last.push((ring, place));
    }
}

#[test]
fn payloads_that_others_may_read_never_meet() {
    let all = [2, 3, 4, 5, 16, 17, 63].map(|members| [false, true].map(|crowded| (members, crowded)));
    let sizes = all.as_flattened().iter().flat_map(|&(members, crowded)| {
        let (wanted, least) = all_rings(members, crowded);
        [wanted, wanted / 2, wanted * 3 / 4, least].map(|bytes| (members, crowded, bytes.max(least)))
    });
    for (members, crowded, bytes) in sizes {
        let mut laps = Laps::new(members, bytes, crowded);
        let (slot, ring) = (laps.slot_bytes(), laps.ring());
        assert!(
            ring as u64 * u64::from(members) <= bytes && slot >= 32 * members as usize,
            "{members} of {bytes}"
        );
        let mut there: Vec<(u64, bool, Range<usize>)> = Vec::new();
        let mut random = 88_172_645_463_325_252_u64;
        for round in 0..5_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // All lengths, among them runs of the longest, and of the longest that stays at hand.
            // Long times of short ones, too, so that laps get shorter and longer.
            let few = round / 64 % 3 != 0;
            let (attended, all) = (random >> 40 & 1 == 1, random >> 41 & 1 == 1);
            let most = if attended { laps.attended() } else { slot };
            let len = match random % 8 {
                _ if few && !random.is_multiple_of(61) => {
                    ((random >> 8) as usize % [200, NEAR][round as usize / 640 % 2] + 1).min(most)
                }
                0..=2 => most,
                3 => at_hand(crowded).min(most),
                _ => (random >> 8) as usize % most + 1,
            };
            // Now and then those of calls in two phases, of which the rounds before may be of other calls.
            let sort = match random >> 44 & 3 {
                0 if crowded && members > 2 => {
                    let contribution = laps.in_two_phases().min(len * 3);
                    let (is_result, result) = (random >> 46 & 1 == 1, contribution / members as usize);
                    Sort::Paired { contribution, result, is_result }
                }
                _ => sort_of(attended && all),
            };
            let len = match sort {
                Sort::Paired { result, is_result: true, .. } => result,
                Sort::Paired { contribution, .. } => contribution,
                _ => len,
            };
            let displaced = laps.displaces(len, sort);
            let (at, turned) = laps.put(round, len, sort);
            let new = at..at + len;
            assert!(new.end <= ring && at.is_multiple_of(LINE), "{members} members: {new:?}");
            // The other of two members writes into the other ring in such a round, and these places are then that one's.
            let both = laps.home(len, sort) != Home::Own;
            assert!(both || !turned, "changed rings where one writes alone");
            for ring in [turned, !turned].into_iter().take(1 + usize::from(both)) {
                let meets = there.iter().find(|(of, old_ring, old)| {
                    displaced.is_none_or(|before| *of > before)
                        && *of != round
                        && *old_ring == ring
                        && old.start < new.end
                        && new.start < old.end
                });
                assert_eq!(meets, None, "{members} members, round {round}: {new:?}");
                there.push((round, ring, new.clone()));
            }
            there.retain(|&(of, ..)| of + CELLS > round + 1);
        }
    }
}

#[test]
fn what_two_members_swap_hand_over_or_keep_never_meets() {
    for (bytes, longest) in [(all_rings(2, false).0, MOST_SHORT), (all_rings(2, false).1, 6000)] {
        let mut members = [0, 1].map(|me| Laps::new(2, bytes, false).seen_by(me));
        // By member its payloads: round, whether the other wrote, too, and where in both rings.
        let mut written: [Vec<(u64, bool, Range<usize>)>; 2] = Default::default();
        let (mut swapped, mut handed) = (0, 0);
        let mut random = 1_442_695_040_888_963_407_u64;
        for round in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (len, both) = ((random >> 40) as usize % longest + 1, random >> 33 & 7 < 4);
            let alone = (random >> 36) as usize & 1;
            let mut new = [None, None];
            for me in 0..2 {
                // Now and then each keeps to its own ring.
                let keeps = random >> (60 + me) & 3 == 0;
                let sort = match (both, keeps) {
                    (true, false) => Sort::Exchanged,
                    (true, true) => Sort::Kept,
                    (false, _) if me != alone => continue,
                    (false, false) => Sort::Alone,
                    (false, true) => Sort::Single,
                };
                match members[me].part(len, sort) {
                    Part::Swapped => swapped += 1,
                    Part::Handed => handed += 1,
                    _ => {}
                }
                assert!(
                    members[me].displaces(len, sort).is_none_or(|before| before + 2 <= round),
                    "nobody waits"
                );
                let at = members[me].place(me as u32, round, len, sort);
                let place = at..at + len;
                // The other has come to its last payload at least. It may still read what came to it since, and in that round, if it
                // reads anything there, its own as well. Of rounds before the last eight nobody reads anything.
                let (begun, reads_own) =
                    written[1 - me].last().map_or((0, false), |&(of, both, _)| (of, both));
                let of_this = written[me]
                    .iter()
                    .rev()
                    .take(CELLS as usize)
                    .filter(|(of, ..)| *of >= begun && of + CELLS > round);
                let of_other =
                    written[1 - me].iter().rev().take(1).filter(|(of, ..)| reads_own && *of == begun);
                let met =
                    of_this.chain(of_other).find(|(.., old)| place.start < old.end && old.start < place.end);
                assert_eq!(met, None, "member {me}, round {round}: {place:?}");
                new[me] = Some(place);
            }
            if let [Some(one), Some(other)] = &new {
                assert!(
                    one.end <= other.start || other.end <= one.start,
                    "round {round}: {one:?} and {other:?}"
                );
            }
            for (me, place) in new.into_iter().enumerate() {
                let Some(place) = place else { continue };
                members[1 - me].take_over(place.start);
                written[me].push((round, both, place));
            }
        }
        assert!(swapped > 5_000 && handed > 2_000, "{swapped}, {handed}");
    }
}

#[test]
fn what_is_worn_was_written_before() {
    for (members, crowded) in [(2, false), (2, true), (3, false), (8, true)] {
        let mut laps = Laps::new(members, all_rings(members, crowded).0, crowded);
        let (contribution, result) = (40_000, 20_000);
        let mut written = vec![false; laps.ring()];
        let mut random = 2_862_933_555_777_941_757_u64;
        let mut seen = [false; 2];
        for round in 0..400 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let paired = |is_result| Sort::Paired { contribution, result, is_result };
            let puts = match random >> 33 & 3 {
                0 if members > 2 => vec![(contribution, paired(false)), (result, paired(true))],
                _ => {
                    vec![(2_000 + (random >> 40) as usize % (laps.slot_bytes() - 2_000), Sort::Single)]
                }
            };
            for (len, sort) in puts {
                let worn = laps.is_worn(len, sort);
                if laps.part(len, sort) == Part::AtHand {
                    continue;
                }
                let (at, turned) = laps.put(round, len, sort);
                assert!(!turned);
                // What lies between pairs and others may have been left out.
                let before = written[at..at + len].iter().filter(|&&before| before).count();
                assert!(!worn || 2 * before >= len, "{members}: {before} of {len} bytes were written");
                assert!(worn || before < len, "{members}: all were written");
                written[at..at + len].fill(true);
                seen[usize::from(worn)] = true;
            }
        }
        assert_eq!(seen, [true; 2]);
    }
}

#[test]
fn what_members_of_one_core_read_has_two_places_by_turns() {
    let mut laps = Laps::new(8, all_rings(8, true).0, true);
    let longest = laps.near_bytes();
    assert!((128 << 10..=laps.most()).contains(&longest), "{longest}");
    for (first, longest) in [(0_u64, 64 << 10), (1000, longest)] {
        let sort = Sort::Near { longest };
        let places: Vec<usize> = (first..first + 20)
            .map(|round| {
                let displaced = laps.displaces(longest, sort).filter(|&before| before >= first);
                assert_eq!(displaced, (round >= first + 2).then(|| round - 2));
                laps.put(round, longest, sort).0
            })
            .collect();
        assert!(places.chunks(2).all(|pair| pair == [0, longest.next_multiple_of(LINE)]), "{places:?}");
        // What is of any length may lie there, and is waited for.
        laps.put(first + 20, 100 << 10, Sort::Single);
    }
}

#[test]
fn blocks_of_round_numbers_of_bytes_go_in_one_piece() {
    for (members, bytes) in [(3, 256 << 10), (4, 128 << 10), (5, 128 << 10), (8, 64 << 10), (9, 64 << 10)] {
        let (begin, place) = Laps::new(members, all_rings(members, true).0, true).exchanged();
        assert!(exchange::block_bytes(place, members as usize) >= bytes, "{members} members");
        assert!(begin >= wanted_ring(members, true) / 2 - PAGE, "{members} members");
    }
}
