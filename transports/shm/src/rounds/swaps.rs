//! Places that two members swap: where the one has written and the other has read, the other writes next.
//!
//! A line that its last writer writes again has to be taken from the one who read it, and after that the reader has to ask the writer
//! for it: two ways of a line for each of use, and with many places also a way from a cache farther off. Where its reader writes it next, the
//! place stays in the nearest caches, and the reader has it already.
//!
//! There are two places in each of the two rings, used by turns, so that nobody waits: when a member comes back to a place, the other
//! has written its payload of the exchange between, and so has finished the one before. Both count the exchanges alike. Each payload has a
//! place of its own in a round, since both write at the same one in different rings. Exchange of two near members with the copy of each
//! one's own block, bare program, a line of 0.06 us, in us: in long laps or (up to 1 KiB) by cell / in 8 places that are swapped / in 2 / in 2
//! and demoted (`demote.rs`):
//!
//! | 512 B | 1 KiB | 2 KiB | 4 KiB | 8 KiB | 16 KiB |
//! | --- | --- | --- | --- | --- | --- |
//! | .38 / .29 / .28 / .21 | .47 / .45 / .40 / .29 | .73 / .59 / .54 / .44 | .95 / .79 / .69 / .59 | 1.45 / 1.20 / 1.11 / 1.16 | 2.3 / - / 2.0 / 2.7 |
//!
//! Of a payload that one member alone writes and the other reads nobody knows who will write the next. There a place is *handed over*: who
//! has read it has it, and may write it when it alone writes again, as after a reduction to a root that then broadcasts, or with another root
//! each time. Who has none, because it wrote the last payload, too, writes elsewhere. There are two such places, one in each ring, of
//! which each member has one in the beginning. Broadcast by each of two members in turn, as above, us, in long laps or by cell / handed over / and
//! demoted:
//!
//! | 512 B | 1 KiB | 2 KiB | 4 KiB | 8 KiB |
//! | --- | --- | --- | --- | --- |
//! | .32 / .25 / .20 | .41 / .31 / .23 | .54 / .43 / .30 | .85 / .58 / .50 | 1.42 / 1.02 / .93 |
//!
//! # Memory ordering
//! A member writes at a place that it swaps when [`Swaps::displaces`] is a round that both have finished: it itself by its own count, the other
//! as it knows by Acquire (rule B of [`super`]); all that either read there is before. What the other *wrote* there it has read after that
//! one's stamp (Acquire). A place to hand over it writes only after it has read there what the other wrote, which was the last that anybody did
//! there: who writes alone reads none of its own payloads, and does not have the place any more. A member writes alone only where its calls
//! before are over, so it has read what it took over. `tests/loom_rounds.rs` runs both with this code.

use std::cell::Cell;

/// Where places begin.
const LINE: usize = 64;
/// Bytes of the longest payload that is swapped.
const MOST: usize = 16 << 10;
/// The part of a small ring that one place may take.
const PART: usize = 16;
/// Places in a ring that are swapped.
const PLACES: usize = 2;

/// The places of one member and the other.
#[derive(Debug)]
pub struct Swaps {
    /// Exchanges that there were.
    exchanges: usize,
    /// The rounds of the last ones, by place.
    rounds: [u64; PLACES],
    /// The places to hand over that this member has, by ring, one bit each. It learns of them as it reads.
    has: Cell<u8>,
}

impl Swaps {
    /// Before the first round of a member.
    pub fn new(me: u32) -> Swaps {
        Swaps { exchanges: 0, rounds: [0; PLACES], has: Cell::new(1 << (me % 2)) }
    }

    /// Bytes of the longest payload that is swapped in rings of that size.
    pub const fn most(ring: usize) -> usize {
        let part = ring / PART / LINE * LINE;
        if part < MOST { part } else { MOST }
    }

    /// Bytes of the places in one ring for payloads of at most `most` bytes.
    pub const fn bytes(most: usize) -> usize {
        (PLACES + 1) * stride(most)
    }

    /// The round whose payloads lie in the place of the next exchange, if there was one.
    #[inline]
    pub fn displaces(&self) -> Option<u64> {
        (self.exchanges >= PLACES).then(|| self.rounds[self.exchanges % PLACES])
    }

    /// Where among the places the payload of the next exchange begins, and whether in the other's ring. Once for an exchange, also by
    /// who writes elsewhere.
    #[inline]
    pub fn place(&mut self, round: u64, most: usize) -> (usize, bool) {
        let (at, lap) = (self.exchanges % PLACES, self.exchanges / PLACES);
        self.rounds[at] = round;
        self.exchanges = self.exchanges.wrapping_add(1);
        (at * stride(most), lap % 2 == 1)
    }

    /// Whether this member has a place to hand over.
    #[inline]
    pub fn has_one(&self) -> bool {
        self.has.get() != 0
    }

    /// In which ring the place lies of a payload that this member alone writes, as it hands the place over.
    ///
    /// # Panics
    /// When it has none.
    #[inline]
    pub fn hand_over(&mut self) -> usize {
        let has = self.has.get_mut();
        assert_ne!(*has, 0, "only who has a place hands it over");
        let ring = has.trailing_zeros() as usize;
        *has &= *has - 1;
        ring
    }

    /// Where among the places the one lies that is handed over.
    #[inline]
    pub const fn handed(most: usize) -> usize {
        PLACES * stride(most)
    }

    /// This member reads what lies in the place of a ring that is handed over.
    #[inline]
    pub fn take_over(&self, ring: usize) {
        self.has.set(self.has.get() | 1 << ring);
    }
}

/// Bytes from one place to the next: they do not begin at one place of the caches.
const fn stride(most: usize) -> usize {
    most + LINE
}
