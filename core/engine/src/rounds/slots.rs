//! The slots of a node's members, as the scripts of `weft_coll::rounds` see them.

use super::Rounds;
use weft_coll::rounds::{Exchange, Exchanged, Payload, Payloads, Slots, Writers};
use weft_shm::rounds::{IN_CELL, Sort};

/// A view of the payloads.
struct View<'a>(weft_shm::rounds::Payloads<'a>);

impl Payloads for View<'_> {
    #[inline]
    fn get(&self, member: u32, round: u64, long: bool, len: usize) -> &[u8] {
        self.0.get(member, round, long, len)
    }

    fn block(&self, member: u32, round: u64, len: usize) -> &[u8] {
        self.0.block(member, round, len)
    }

    fn block_for(&self, member: u32, reader: u32, round: u64, len: usize) -> &[u8] {
        self.0.block_for(member, reader, round, len)
    }

    #[inline]
    fn fetch(&self, bytes: &[u8]) {
        weft_shm::rounds::fetch(bytes);
    }
}

/// The blocks of a round.
struct Blocks<'a>(weft_shm::rounds::Exchange<'a>);

impl Exchange for Blocks<'_> {
    fn room(&mut self, member: u32, len: usize) -> &mut [u8] {
        self.0.room(member, len)
    }

    fn goes_past(&mut self, member: u32, len: usize) -> bool {
        self.0.goes_past(member, len)
    }

    fn heard(&self, member: u32, len: usize) -> &[u8] {
        self.0.heard(member, len)
    }

    fn payload(&self, member: u32, round: u64, len: usize) -> &[u8] {
        self.0.payload(member, round, len)
    }
}

/// What the cells need to know of blocks.
fn blocks(what: Exchanged) -> weft_shm::rounds::Exchanged {
    let Exchanged { read, until, made_of, returned, one_way, is_shared, writers, stays } = what;
    weft_shm::rounds::Exchanged { read, until, made_of, returned, one_way, is_shared, writers, stays }
}

/// What the cells need to know of a payload.
fn sort(payload: &Payload) -> Sort {
    match payload.pair {
        Some((contribution, result)) => Sort::Paired { contribution, result, is_result: !payload.is_copied },
        None => match payload.writers {
            Writers::All => Sort::Exchanged,
            Writers::Alone => Sort::Alone,
            Writers::Any => Sort::Single,
            Writers::Near(longest) => Sort::Near { longest },
        },
    }
}

impl Slots for Rounds {
    const SHORT: usize = IN_CELL;

    fn next(&self) -> u64 {
        self.cells.next()
    }

    fn has_room(&mut self, payload: Payload) -> bool {
        self.cells.has_room(payload.round, payload.long_bytes(), sort(&payload))
    }

    fn behind(&self, payload: Payload) -> u64 {
        self.cells.behind(payload.round, payload.long_bytes(), sort(&payload))
    }

    fn fill(&mut self, payload: Payload, work: impl FnOnce(&mut [u8], &dyn Payloads, u64)) {
        let (Payload { round, bytes, long, is_copied, .. }, sort) = (payload, sort(&payload));
        let writing = match is_copied {
            true => self.cells.begin_writing(bytes, sort),
            false => self.cells.begin_combining(bytes),
        };
        let past = self.cells.past(writing);
        let (room, payloads) = self.cells.room(round, long, bytes, writing.sort(sort));
        work(room, &View(payloads), past);
        self.cells.has_written(writing);
    }

    fn has_room_for_blocks(&mut self, round: u64, what: Exchanged) -> bool {
        self.cells.has_room_for_blocks(round, blocks(what))
    }

    fn behind_with_blocks(&self, round: u64, what: Exchanged) -> u64 {
        self.cells.behind_with_blocks(round, blocks(what))
    }

    fn pass_blocks(&mut self, round: u64, what: Exchanged) {
        self.cells.pass_blocks(round, blocks(what));
    }

    fn exchange(&mut self, round: u64, what: Exchanged, work: impl FnOnce(&mut dyn Exchange)) {
        work(&mut Blocks(self.cells.exchange(round, blocks(what))));
    }

    fn publish(&mut self, round: u64, signature: u16) {
        self.cells.publish(round, signature);
    }

    fn missing(&self, round: u64, signature: u16, of: u64) -> u64 {
        self.cells.missing(round, signature, of)
    }

    fn strayed(&self, round: u64, signature: u16, of: u64) -> Option<u32> {
        self.cells.strayed(round, signature, of)
    }

    fn read(&self, work: impl FnOnce(&dyn Payloads)) {
        work(&View(self.cells.payloads()));
    }

    fn heard_of_all(&mut self, first: u64) {
        self.cells.heard_of_all(first);
    }

    fn finish(&mut self, rounds: u64) {
        self.cells.finish(rounds);
    }

    fn end(&mut self, rounds: u64) {
        self.cells.end(rounds);
    }

    fn wake(&self, of: u64) {
        self.cells.wake(of);
    }
}
