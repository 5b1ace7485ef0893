//! Where in its ring a member puts its long payloads.
//!
//! They follow one another. A member knows which of its rounds had a place last, and writes there when all others have finished that. What is
//! short among two members stays where both have it at hand; what is long goes to and fro, in rounds in which both write ([`Part::Turns`]) and in calls in
//! which one writes that follow one in which the other one did ([`Lent`]).

use super::CELLS;

/// Where payloads begin.
const LINE: usize = 64;
/// Where rings begin.
const PAGE: usize = 4096;
/// Most bytes of a payload: what one round carries of each member.
const MOST: usize = 64 << 10;
/// Where ranks share cores: rounds of attended calls of which the payloads fit a ring. Each round costs changes of processes, so payloads are longer there,
/// and who writes waits sooner until others have read. At least as many as a member writes ahead of its own reading in one phase.
const ATTENDED: usize = 2;
/// Bytes of a lap of payloads that go to and fro between two members: as many of the longest as a member writes ahead of its own reading, and no more, so
/// that they stay in the caches. Bare program, exchange of two near members by own rings of 2 MiB / to and fro in pieces of 32 KiB / 64 KiB: 32 KiB 2.9 / 2.6 / 2.6 us,
/// 64 KiB 5.4 / 4.9 / 4.8, 256 KiB 26 / 25 / 23, 1 MiB 105 / 101 / 92; between far ones as fast as past the caches.
const TURNS_LAP: usize = ATTENDED * MOST;
/// Bytes of the smallest ring with such a lap.
const TURNS_FROM: usize = 1 << 20;
/// Bytes of the longest payload that does not go to and fro: between far members it is faster past the caches.
const MOST_OWN: usize = 16 << 10;
/// Bytes of the longest payload of crowded members that goes in a lap of its own, ...
const NEAR: usize = 14 << 10;
/// ... which stays in the nearest caches.
const NEAR_LAP: usize = NEAR * (CELLS as usize + 1);
/// Bytes of the smallest ring with such a lap.
const NEAR_FROM: usize = 4 * NEAR_LAP;

/// Bytes of the longest payload that has a place by cell. Between two members with cores of their own a line that its writer wrote and the other has
/// read since costs more to write again than one that has left both their caches: 4 KiB by cell .66 us, in a long lap .25 to .46, 8 KiB in a lap
/// like [`NEAR_LAP`] 1.1 to 1.4 us and .42 to .8. Up to 1 KiB it is the same between near cores, and between distant ones a place by cell is faster.
const fn at_hand(crowded: bool) -> usize {
    if crowded { 4096 } else { 1024 }
}

/// Bytes from one such place to the next: they do not all begin at one place of the caches.
const fn at_hand_stride(crowded: bool) -> usize {
    at_hand(crowded) + LINE
}

/// Bytes of a member's ring where there is plenty of memory; `crowded`: where ranks share cores.
///
/// Two members have so much that what one wrote has left its own cache for the one that both share when the same lines are written
/// again: a line there costs a third of one that the other has just read. Where ranks share cores each round costs a change of processes, so payloads are to be as long as they can be.
const fn wanted_ring(members: u32, crowded: bool) -> usize {
    match (members, crowded) {
        (0..=2, _) => 2 << 20,
        (3..=16, true) => 1 << 20,
        (3..=4, false) => 256 << 10,
        (5..=16, false) | (_, true) => 128 << 10,
        _ => 32 << 10,
    }
}

/// Bytes of the smallest ring.
const fn least_ring(members: u32) -> usize {
    if members <= 16 { 64 << 10 } else { 32 << 10 }
}

/// Bytes of the rings of all members: what they would like to have, and what they need.
pub(super) const fn all_rings(members: u32, crowded: bool) -> (u64, u64) {
    let (wanted, least) = (wanted_ring(members, crowded), least_ring(members));
    (members as u64 * wanted as u64, members as u64 * least as u64)
}

/// Whether payloads of so many bytes at most gain nothing from a ring that is larger than they need.
pub(super) const fn stay_at_hand(payload: u64, crowded: bool) -> bool {
    payload <= at_hand(crowded) as u64
}

/// Bytes of the longest payload of calls that nobody may attend to in rings of the wanted size; `crowded`: where ranks share cores.
/// Which calls need long payloads follows from this (not crowded) and not from the ring that the members have, so that it is the same at all of them whatever became of it.
pub const fn wanted_slot_bytes(members: u32, crowded: bool) -> usize {
    Parts::of(members, wanted_ring(members, crowded), crowded).slot_bytes()
}

/// A part of a ring. One that is not there is empty, and what would go there goes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Of any length.
    Any,
    /// Of two members in rounds in which both write. When the part is full, each goes on at the beginning of the same part of the other's ring:
    /// it writes where the other has written and it has read. A line that its last writer writes again, while the other one's cache has it, costs
    /// several times as much. Both count alike, as their rounds are, so that what one writes into a ring the other writes into the other ring, at the same place.
    Turns,
    /// Up to [`NEAR`].
    Near,
    /// Up to [`at_hand`], each with a place by cell.
    AtHand,
}

/// How a ring is divided, in the order of [`Part`].
#[derive(Clone, Copy, Debug)]
struct Parts {
    any: usize,
    turns: usize,
    near: usize,
    at_hand: usize,
    crowded: bool,
    /// Whether a member may write where it has read.
    lends: bool,
    /// Whether payloads of attended calls may be so long that fewer than those of [`CELLS`] rounds fit.
    long: bool,
}

impl Parts {
    /// Members that share cores find in their caches what they wrote there not long ago; two members, when it is short.
    const fn of(members: u32, ring: usize, crowded: bool) -> Parts {
        let at_hand = CELLS as usize * at_hand_stride(crowded);
        let at_hand = if (members <= 2 || crowded) && ring >= 8 * at_hand { at_hand } else { 0 };
        let near = if crowded && ring >= NEAR_FROM { NEAR_LAP } else { 0 };
        let turns = if members == 2 && !crowded && ring >= TURNS_FROM { TURNS_LAP } else { 0 };
        let any = ring - turns - near - at_hand;
        let lends = members == 2 && !crowded;
        Parts { any, turns, near, at_hand, crowded, lends, long: crowded && members > 2 }
    }

    /// Where a payload goes.
    #[inline]
    const fn part(self, len: usize, writers: Writers) -> Part {
        if len <= at_hand(self.crowded) && self.at_hand != 0 {
            Part::AtHand
        } else if len <= NEAR && self.near != 0 {
            Part::Near
        } else if matches!(writers, Writers::All) && len > MOST_OWN && self.turns != 0 {
            Part::Turns
        } else {
            Part::Any
        }
    }

    /// Where a part begins, and its bytes.
    #[inline]
    const fn span(self, part: Part) -> (usize, usize) {
        match part {
            Part::Any => (0, self.any),
            Part::Turns => (self.any, self.turns),
            Part::Near => (self.any + self.turns, self.near),
            Part::AtHand => (self.any + self.turns + self.near, self.at_hand),
        }
    }

    /// Bytes of the longest payload of which those of so many rounds and what is left over at the end of a lap, less than one more, fit a lap.
    const fn longest(self, rounds: usize) -> usize {
        self.any / (rounds + 1) / LINE * LINE
    }

    /// Bytes of the longest payload of a call that nobody may attend to: those of [`CELLS`] rounds fit.
    const fn slot_bytes(self) -> usize {
        let most = self.longest(CELLS as usize);
        if most < MOST { most } else { MOST }
    }

    /// The same of attended calls.
    const fn attended(self) -> usize {
        if self.long { self.longest(ATTENDED) } else { self.slot_bytes() }
    }

    const fn ring(self) -> usize {
        self.any + self.turns + self.near + self.at_hand
    }
}

/// How the writers of a round are known to all members; in calls that they attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// In no way that helps.
    Some,
    /// All write, and wait for all.
    All,
    /// One alone writes in the call, and the others read.
    Alone,
}

/// Places that one of two members may write to in the next call, if it alone writes there, because it has read what lies there.
///
/// When in a call one member alone wrote, and in the very next one the other alone writes, nothing else in either ring is needed any more: the first had finished all
/// calls before its own, as the second knows from having read its payloads, and reads none of its own; the second has finished that call. And the first writes
/// in no later call before it has read all that the second writes now. So the second may write anywhere, and does where it has just read: a line that
/// comes back to its last writer costs several times as much, between far members as between near ones.
#[derive(Clone, Copy, Debug)]
struct Lent {
    /// The round in which this is so.
    round: u64,
    /// Where the payload begins in the rings.
    at: usize,
    /// Where the places end.
    end: usize,
}

/// Where the payloads of one member go.
///
/// In each part of the ring they follow one another. Where they may be too long for those of [`CELLS`] rounds to fit, [`Laps::displaces`] says which
/// round must be finished first, whosever payload lay there: where they go to and fro, the other's lies in the other ring at the same place.
#[derive(Debug)]
pub(super) struct Laps {
    parts: Parts,
    /// By part: where the next one begins, if it fits there.
    next: [usize; 3],
    /// What goes to and fro goes into the other's ring.
    turned: bool,
    /// Where this member may write next because it has read there.
    lent: Option<Lent>,
    /// The last ones of any length or to and fro: round, begin and end.
    last: [(u64, usize, usize); CELLS as usize],
    /// How many there were.
    placed: usize,
    /// [`Parts::slot_bytes`].
    slot: usize,
    /// As many are to be placed until the last [`CELLS`] of them have at most `slot` bytes again.
    long_until: usize,
}

impl Laps {
    /// The rings of `bytes` bytes for all members.
    pub(super) fn new(members: u32, bytes: u64, crowded: bool) -> Laps {
        let ring = (bytes / u64::from(members.max(1))) as usize / PAGE * PAGE;
        let parts = Parts::of(members, ring, crowded);
        Laps {
            parts,
            next: [0; 3],
            turned: false,
            lent: None,
            last: [(0, 0, 0); CELLS as usize],
            placed: 0,
            slot: parts.slot_bytes(),
            long_until: 0,
        }
    }

    /// Bytes of the ring.
    #[inline]
    pub(super) fn ring(&self) -> usize {
        self.parts.ring()
    }

    /// Bytes of the longest payload of a call that nobody may attend to.
    #[inline]
    pub(super) fn slot_bytes(&self) -> usize {
        self.slot
    }

    /// The same of an attended call.
    #[inline]
    pub(super) fn attended(&self) -> usize {
        self.parts.attended()
    }

    /// Whether a payload goes where this member has read, so that it is written quickly.
    #[inline]
    pub(super) fn goes_to_and_fro(&self, round: u64, len: usize, writers: Writers) -> bool {
        self.parts.part(len, writers) == Part::Turns || self.lent(round, len, writers).is_some()
    }

    /// Of two members the other alone wrote in a call of which the payloads began at `at` in the rings, and the next call begins with `next`.
    pub(super) fn lend(&mut self, at: usize, next: u64) {
        if self.parts.lends {
            let ring = self.ring();
            self.lent = Some(Lent { round: next, at, end: at / ring * ring + self.parts.any });
        }
    }

    /// Where a payload goes that lies where this member has read.
    #[inline]
    fn lent(&self, round: u64, len: usize, writers: Writers) -> Option<usize> {
        let lent = self.lent.filter(|_| writers == Writers::Alone && len > at_hand(false))?;
        (lent.round == round && lent.at + len <= lent.end).then_some(lent.at)
    }

    /// Where the payload of a round begins in the rings; `me`: of this member, `len`: its bytes, at most [`Laps::attended`]. Once for a round.
    #[inline]
    pub(super) fn place(&mut self, me: u32, round: u64, len: usize, writers: Writers) -> usize {
        if let Some(at) = self.lent(round, len, writers) {
            let end = self.lent.map_or(0, |lent| lent.end);
            self.lent = Some(Lent { round: round + 1, at: (at + len).next_multiple_of(LINE), end });
            // If that is the own ring, what comes behind other payloads there has to wait for this one.
            let begin = at % self.ring();
            self.record(round, begin, begin + len);
            self.long_until = self.placed + CELLS as usize;
            return at;
        }
        let own = me as usize * self.ring();
        let part = self.parts.part(len, writers);
        let (begin, _) = self.parts.span(part);
        if part == Part::AtHand {
            return own + begin + (round % CELLS) as usize * at_hand_stride(self.parts.crowded);
        }
        let at = self.at(part, len);
        if part == Part::Turns && at < self.next[part as usize] {
            self.turned = !self.turned;
        }
        self.next[part as usize] = (at + len).next_multiple_of(LINE);
        if part == Part::Near {
            return own + begin + at;
        }
        self.record(round, begin + at, begin + at + len);
        if len > self.slot {
            self.long_until = self.placed + CELLS as usize;
        }
        // Only among two.
        let ring = if part == Part::Turns && self.turned { (1 - me as usize) * self.ring() } else { own };
        ring + begin + at
    }

    fn record(&mut self, round: u64, begin: usize, end: usize) {
        self.last[self.placed % CELLS as usize] = (round, begin, end);
        self.placed += 1;
    }

    /// The last round whose payload lies where one of `len` bytes would be placed now, if that is one of the last [`CELLS`].
    #[inline]
    pub(super) fn displaces(&self, round: u64, len: usize, writers: Writers) -> Option<u64> {
        match self.parts.part(len, writers) {
            Part::AtHand | Part::Near => None,
            // No longer than those of which the last rounds' fit, and so are those before it.
            Part::Any if len <= self.slot && self.placed >= self.long_until => None,
            Part::Any if self.lent(round, len, writers).is_some() => None,
            part => self.displaces_of(part, len),
        }
    }

    #[cold]
    fn displaces_of(&self, part: Part, len: usize) -> Option<u64> {
        let at = self.parts.span(part).0 + self.at(part, len);
        let known = &self.last[..self.placed.min(CELLS as usize)];
        let met = known.iter().filter(|&&(_, begin, end)| begin < at + len && at < end);
        met.map(|&(round, ..)| round).max()
    }

    /// Where the next payload of `len` bytes begins in its part.
    #[inline]
    fn at(&self, part: Part, len: usize) -> usize {
        let (next, (_, lap)) = (self.next[part as usize], self.parts.span(part));
        if next + len <= lap { next } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn as_many_payloads_as_members_are_ahead_do_not_meet() {
        for (members, crowded) in [(2, false), (2, true), (3, true), (4, false), (8, true), (63, true)] {
            for (attended, ahead) in [(false, CELLS), (true, ATTENDED as u64)] {
                let mut laps = Laps::new(members, all_rings(members, crowded).0, crowded);
                let most = if attended { laps.attended() } else { laps.slot_bytes() };
                let writers = if attended { Writers::All } else { Writers::Some };
                for (first, len) in [(0, most), (1000, most / 2 + 64), (2000, most * 2 / 3)] {
                    for round in first..first + 1000 {
                        let displaced = laps.displaces(round, len, writers).filter(|&before| before >= first);
                        assert!(displaced.is_none_or(|before| before + ahead <= round), "{members}: {len}");
                        laps.place(0, round, len, writers);
                    }
                }
            }
        }
    }

    /// A call of two members: who writes in each of its rounds.
    #[derive(Clone, Copy)]
    struct Call {
        writers: Writers,
        /// Who writes when it is not both.
        writer: usize,
        first: u64,
        rounds: u64,
        len: usize,
    }

    /// Calls of all kinds and lengths.
    fn calls(count: usize, mut random: impl FnMut() -> u64) -> Vec<Call> {
        let mut first = 0;
        let mut kind = (Writers::Some, 0);
        let call = |_| {
            let word = random();
            // Often the same again, or with the other one.
            kind = match word % 8 {
                0 => (Writers::Some, word as usize >> 20 & 1),
                1 => (Writers::All, 0),
                2 => (Writers::Alone, word as usize >> 20 & 1),
                3 | 4 => kind,
                _ => (kind.0, 1 - kind.1),
            };
            let (writers, writer) = kind;
            let len = [200, 3_000, 9_000, 20_000, 50_000, MOST][(word >> 24) as usize % 6]
                + (word >> 32) as usize % 900;
            let rounds = [1, 1, 2, 3, 40][(word >> 48) as usize % 5];
            first += rounds;
            Call { writers, writer, first: first - rounds, rounds, len: len.min(MOST) }
        };
        (0..count).map(call).collect()
    }

    /// One of two members under way.
    struct Member {
        laps: Laps,
        call: usize,
        written: u64,
        finished: u64,
    }

    #[test]
    fn of_two_members_none_writes_over_what_the_other_may_still_read() {
        for (seed, bytes) in (1..30_u64).zip([4 << 20, 2 << 20, 128 << 10].into_iter().cycle()) {
            let mut state = seed * 88_172_645_463_325_252;
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let member = || Member { laps: Laps::new(2, bytes, false), call: 0, written: 0, finished: 0 };
            let mut members = [member(), member()];
            let slot = members[0].laps.attended();
            let calls: Vec<Call> = calls(300, &mut random)
                .into_iter()
                .map(|call| Call { len: call.len.min(slot), ..call })
                .collect();
            // What was written: round, by whom, begin, end; and what was returned to where it had been read.
            let (mut there, mut returned) = (Vec::<(u64, usize, usize, usize)>::new(), 0);
            let mut idle = 0;
            while members.iter().any(|member| member.call < calls.len()) {
                idle += 1;
                assert!(idle < 1_000, "seed {seed}: nobody can go on");
                let me = random() as usize & 1;
                let other = 1 - me;
                let Some(&call) = calls.get(members[me].call) else { continue };
                let end = call.first + call.rounds;
                let writes = |member: usize| call.writers == Writers::All || call.writer == member;
                let (round, others) = (members[me].written, members[other].finished);
                // At most two ahead of the own reading, which who alone writes has none of.
                let ahead = if writes(other) { 2 } else { CELLS };
                if round < end && random() % 2 == 0 {
                    let displaced = members[me].laps.displaces(round, call.len, call.writers);
                    let is_free =
                        displaced.is_none_or(|before| before < others && before < members[me].finished);
                    let has_room = round < others + CELLS && round < members[me].finished + ahead && is_free;
                    if !writes(me) || has_room {
                        if writes(me) {
                            let at = members[me].laps.place(me as u32, round, call.len, call.writers);
                            let new = at..at + call.len;
                            assert!(new.end as u64 <= bytes && at.is_multiple_of(LINE), "{new:?}");
                            for &(of, by, begin, end) in &there {
                                // Its writer may read it, too, until it has finished the round.
                                let is_needed = of >= others || by == me && of >= members[me].finished;
                                let meets = begin < new.end && new.start < end;
                                assert!(
                                    !(is_needed && meets),
                                    "seed {seed}: {new:?} of {round} meets that of {of}"
                                );
                            }
                            returned += usize::from(
                                there
                                    .iter()
                                    .any(|&(of, by, begin, _)| by == other && begin == at && of + 9 > round),
                            );
                            there.push((round, me, at, at + call.len));
                            there.retain(|&(of, ..)| of + 200 > round);
                        }
                        members[me].written += 1;
                        idle = 0;
                    }
                }
                // The others' payload of the first round that was not finished.
                let round = members[me].finished;
                if round < members[me].written && (!writes(other) || round < members[other].written) {
                    if call.writers == Writers::Alone && !writes(me) && round == call.first {
                        let at = there.iter().find(|&&(of, by, ..)| of == round && by == other).unwrap().2;
                        members[me].laps.lend(at, end);
                    }
                    members[me].finished += 1;
                    members[me].call += usize::from(round + 1 == end);
                    idle = 0;
                }
            }
            assert!(bytes < 4 << 20 || returned > 500, "seed {seed}: {returned}");
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
            let mut there: Vec<(u64, Range<usize>)> = Vec::new();
            let mut random = 88_172_645_463_325_252_u64;
            for round in 0..5_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // All lengths, among them runs of the longest, and of the longest that stays at hand.
                // Long times of short ones, too, so that laps get shorter and longer.
                let few = round / 64 % 3 != 0;
                let attended = random >> 40 & 1 == 1;
                let most = if attended { laps.attended() } else { slot };
                let len = match random % 8 {
                    _ if few && !random.is_multiple_of(61) => {
                        ((random >> 8) as usize % [200, NEAR][round as usize / 640 % 2] + 1).min(most)
                    }
                    0..=2 => most,
                    3 => at_hand(crowded).min(most),
                    _ => (random >> 8) as usize % most + 1,
                };
                let displaced = laps.displaces(round, len, Writers::Some);
                let at = laps.place(0, round, len, Writers::Some);
                let new = at..at + len;
                assert!(new.end <= ring && at.is_multiple_of(LINE), "{members} members: {new:?}");
                let meets = there.iter().find(|(of, old)| {
                    displaced.is_none_or(|before| *of > before) && old.start < new.end && new.start < old.end
                });
                assert_eq!(meets, None, "{members} members, round {round}: {new:?}");
                there.push((round, new));
                if there.len() == CELLS as usize {
                    there.remove(0);
                }
            }
        }
    }
}
