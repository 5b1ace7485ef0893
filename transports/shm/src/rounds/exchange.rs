//! Places of blocks that members exchange: each is written by who has read it last.
//!
//! Of a payload that holds one block for each of the others every byte has one reader. A line that its writer writes again has to be taken
//! from that reader, one line after the other; one that its reader writes next is there already. Bare program, two cores that copy to and fro
//! (writing / reading, GB/s, 256 KiB; Zen 4, cores of one cluster and of two): into the own ring 6.8 / 42 and 2.3 / 17, past the caches
//! 28 / 16 and 28 / 16, and all of that through memory, each where it has read last 50 / 34 and 54 / 16.
//!
//! So for each two members that write for one another there are two blocks in each place, one in the ring of either: what the one writes for the other lies in the first, what
//! the other writes in the second. In calls in two phases a result goes where the contribution lay of which it was made, and so comes back
//! to who has written there; other blocks change sides from one use of a place to the next ([`Places::begin`]). All members count
//! places, and which pairs change sides, alike.
//!
//! ```text
//! ring of member j    ... place 0: block 0, 1, ... of each other writer, place 1: ...
//! ```
//!
//! The writers of a round divide a place between them: all members, or those that stand for their cores, whose blocks are as much longer. A call
//! begins in the place where the one before ended ([`Exchanged::stays`]): what was read there last is in the caches, and one place takes
//! half as much of them as two. Bare program, two near cores of a Zen 5, two places by turns / one: alltoall of 64 KiB among eight 80 / 68 us, 256 KiB 848 / 640.
//!
//! # Memory ordering
//! A block belongs to two members, and only one of them may write it at any time: who has read last what the other wrote there, by its stamp
//! (Acquire), and before that wrote nothing that the other has not read: its own contribution of the same place, which the other has read before
//! it wrote the result there, and whatever lay there before, by the same argument. So nobody has to be waited for but the writer itself,
//! which must have read what came to it in the place's last use ([`Places::unread`]; it may not have *finished* that round, as it needs later
//! contributions still). Where a block does not come back and the pair does not change sides (from a member to the root of a reduction)
//! the reader is the other one, and the writer waits until all have finished that round
//! ([`Places::lent`], rule B of [`super`]). The same where a block has more readers than the one it is for, as in calls that go core by core,
//! and where a place was divided between other writers before ([`Places::lent`] again): then its blocks lay elsewhere.

use super::CELLS;

/// Places. A member writes the contributions of two pieces before the results of the first.
pub const PLACES: usize = 2;
const LINE: usize = 64;
/// Most members that exchange blocks.
pub const MOST_WRITERS: u32 = 16;
/// Most bytes of the blocks of a place in one ring. Shorter pieces are more waits (1 MiB for all of four far ones 302, 249 and 233 us with 128, 256 and
/// 512 KiB), longer ones leave the nearest caches.
const MOST: usize = (512 << 10) + SPARE;
/// Bytes that a place has beyond a round number: enough for one line more of each block of 16 members, so that such numbers fit whose stride would be even.
const SPARE: usize = 16 * LINE;

/// Bytes of a place in rings that have so many bytes for all.
pub const fn place_bytes(part: usize) -> usize {
    if part / PLACES < MOST { part / PLACES / LINE * LINE } else { MOST }
}

/// Bytes that are needed for places of so many.
pub const fn part_bytes(place: usize) -> usize {
    PLACES * (place + SPARE)
}

/// Bytes of a block of each of so many writers in a place of so many bytes. The stride is an odd number of lines, so that blocks
/// do not all begin at one place of the caches.
pub const fn block_bytes(place: usize, writers: usize) -> usize {
    if writers < 2 {
        return 0;
    }
    let lines = place / (writers - 1) / LINE;
    if lines < 2 { 0 } else { (lines - 1 + lines % 2) * LINE }
}

/// What is exchanged in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// This member has read all that came to it in the rounds below.
    pub read: u64,
    /// The last round in which its place is read: its own, or that of the results.
    pub until: u64,
    /// Of results the round of the contributions that they are made of.
    pub made_of: Option<u64>,
    /// The members from whom a result comes back for what they get, or to whom one is given for what comes from them; one bit each.
    pub returned: u64,
    /// The members whose blocks go one way only: they have read there last what this one writes again.
    pub one_way: u64,
    /// Whether others than the one that a block is for read it, too: then all must have before its place is written again.
    pub is_shared: bool,
    /// Those that write blocks for one another in it, one bit each.
    pub writers: u64,
    /// Whether it goes where the contribution before lay, as the first one of a call; the same at all members.
    pub stays: bool,
}

/// A place in use: its number, and the pairs of this member and others, one bit each, that have changed sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub number: usize,
    /// What this member writes for those lies in their rings, and what they write in its own.
    pub turned: u64,
    /// Those between which it is divided, one bit each.
    pub writers: u64,
}

/// Where the ranges that one member exchanges lie. All members count alike.
#[derive(Debug, Default)]
pub struct Places {
    /// Contributions there were.
    begun: usize,
    /// By place: the pairs that have changed sides.
    turned: [u64; PLACES],
    /// By place: one more than the round in which it was read last.
    read_until: [u64; PLACES],
    /// By place: one more than the round that others may still read what this member writes next.
    lent: [u64; PLACES],
    /// By place: between whom it was divided last.
    writers: [u64; PLACES],
    /// The places of the last rounds, by cell.
    last: [Place; CELLS as usize],
}

impl Places {
    /// The place of the next contribution.
    fn next(&self, what: Exchanged) -> usize {
        // Where it stays it counts for nothing.
        self.begun.wrapping_sub(usize::from(what.stays)) % PLACES
    }

    /// One more than the last round in which something comes to this member in the place of the next contribution; 0: there was none.
    pub fn unread(&self, what: Exchanged) -> u64 {
        self.read_until[self.next(what)]
    }

    /// One more than the round that all others must have finished before it is written; 0: none.
    pub fn lent(&self, what: Exchanged) -> u64 {
        let number = self.next(what);
        match self.writers[number] == what.writers {
            true => self.lent[number],
            false => self.read_until[number],
        }
    }

    /// The place of what this member writes in a round. Once for a round.
    pub fn begin(&mut self, round: u64, what: Exchanged, others: u64) -> Place {
        let place = match what.made_of {
            Some(parts) => {
                let Place { number, turned, writers } = self.last[(parts % CELLS) as usize];
                Place { number, turned: turned ^ others, writers }
            }
            None => {
                let number = self.next(what);
                let place = Place { number, turned: self.turned[number], writers: what.writers };
                self.begun = self.begun.wrapping_add(usize::from(!what.stays));
                self.writers[number] = what.writers;
                self.turned[number] ^= others & !what.returned;
                self.read_until[number] = what.until + 1;
                self.lent[number] = match what.is_shared {
                    true => what.until + 1,
                    false if what.one_way != 0 => round + 1,
                    false => 0,
                };
                place
            }
        };
        self.last[(round % CELLS) as usize] = place;
        place
    }
}

impl Place {
    /// As a word for the others. There are no places among more than [`MOST_WRITERS`].
    pub fn word(self) -> u64 {
        self.writers << 32 | (self.turned & ((1 << MOST_WRITERS) - 1)) << 8 | self.number as u64
    }

    /// What another one says; a number that there is not is another one.
    pub fn of(word: u64) -> Place {
        let turned = word >> 8 & ((1 << MOST_WRITERS) - 1);
        Place { number: (word & 0xff) as usize % PLACES, turned, writers: word >> 32 }
    }

    /// Where in the part of which ring the block lies that `me` gives to `other`, and its bytes, in places of `place` bytes.
    ///
    /// # Panics
    /// When the two are one, or one of them writes none.
    pub fn given(self, me: u32, other: u32, place: usize) -> (u32, usize, usize) {
        assert!(
            me != other && self.writers >> me & self.writers >> other & 1 == 1,
            "a block that nobody writes"
        );
        let (ring, to) = if self.turned >> other & 1 == 1 { (other, me) } else { (me, other) };
        // Who has the ring gives itself none.
        let before = (self.writers & !(1 << ring) & ((1 << to) - 1)).count_ones();
        let block = block_bytes(place, self.writers.count_ones() as usize);
        (ring, self.number * place + before as usize * block, block)
    }
}

#[cfg(test)]
mod tests;
