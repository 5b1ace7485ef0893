//! Where short partitions of a partitioned send land (chapter 4): the receiver names the place once, then every partition is one
//! packet of an offset and bytes. No envelope is matched, and no request is made.
//!
//! A landing is open for one *epoch* at a time, the number of the start that it belongs to. Parts of the open epoch go to the
//! user's buffer as they come; all others are kept until their epoch is opened, charged like messages without a receive, so the
//! sender's budget bounds them.

use crate::arrive::Todo;
use crate::engine::{Engine, State};
use crate::requests::{GENERATIONS, SLOT_BITS, join, split};
use std::ops::Range;
use weft_api::{Handler, Transport};
use weft_datatype::{RecvBuf, SendBuf};
use weft_proto::{ReceiveLedger, charge};
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_wire::{Header, Kind};

/// Names a landing of this process. Never 0, and below 2^27.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LandingId(pub u32);

/// Which parts a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartsOf {
    /// The receiver's process.
    pub peer: PeerId,
    /// The place there.
    pub landing: LandingId,
    /// The start they belong to.
    pub epoch: u32,
}

/// What [`Engine::await_part`] has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// All parts of the epoch at once; [`Engine::landed`] does not tell of them.
    Whole,
    /// A part, which has landed.
    Part,
    /// Nothing has come.
    Nothing,
    /// Something else comes first: progress takes it.
    Other,
}

/// One landing.
#[derive(Debug)]
struct Landing {
    generation: u8,
    /// Whose parts land here.
    peer: PeerId,
    /// The memory of all parts; `None`: the slot is free.
    buffer: Option<RecvBuf>,
    epoch: u32,
    /// Bytes of the open epoch that have not come: 0 while none is open.
    missing: u64,
    /// What has come since the owner looked, in order.
    news: Vec<Range<u64>>,
    /// Parts of epochs that are not open, in order.
    early: Vec<EarlyPart>,
}

/// A part that is kept.
#[derive(Debug)]
struct EarlyPart {
    epoch: u32,
    offset: u64,
    data: Box<[u8]>,
}

/// All landings of an engine.
#[derive(Debug, Default)]
pub(crate) struct Landings {
    /// Place 0 stays unused, so that no landing is called 0.
    slots: Vec<Landing>,
    free: Vec<u32>,
}

impl Landing {
    /// Takes all parts of the open epoch at once, of which none has come, when they lie in one run of the program's memory. False:
    /// nothing was done.
    #[inline(always)]
    fn put_whole(&mut self, data: &[u8]) -> bool {
        let (Some(buffer), length) = (&mut self.buffer, data.len()) else { return false };
        let all = length as u64 == self.missing && length == buffer.len() && buffer.unpack_plain(data);
        if all {
            self.missing = 0;
        }
        all
    }

    /// Puts a part of the open epoch where it belongs. False when it does not fit what is missing.
    #[inline]
    fn put(&mut self, offset: u64, data: &[u8]) -> bool {
        let (Some(buffer), length) = (&mut self.buffer, data.len() as u64) else { return false };
        let fits = offset.checked_add(length).is_some_and(|end| end <= buffer.len() as u64);
        if !fits || length > self.missing {
            return false;
        }
        buffer.unpack(offset as usize, data);
        self.missing -= length;
        match self.news.last_mut() {
            Some(last) if last.end == offset => last.end += length,
            _ => self.news.push(offset..offset + length),
        }
        true
    }
}

impl Landings {
    #[inline]
    fn find(&mut self, id: u32) -> Option<&mut Landing> {
        let (slot, generation) = split(id);
        let landing = self.slots.get_mut(slot as usize)?;
        (landing.generation == generation && landing.buffer.is_some()).then_some(landing)
    }
}

impl Engine {
    /// Makes a landing in `buffer` for parts of `peer`; not open.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub fn make_landing(&mut self, peer: PeerId, buffer: RecvBuf) -> Result<LandingId> {
        let landings = &mut self.state.landings;
        let slot = match landings.free.pop() {
            Some(slot) => slot,
            None => {
                let unused = |_| Landing {
                    generation: 0,
                    peer,
                    buffer: None,
                    epoch: 0,
                    missing: 0,
                    news: Vec::new(),
                    early: Vec::new(),
                };
                let wanted = landings.slots.len().max(1) + 1;
                if wanted > 1 << SLOT_BITS {
                    return Err(Error::new(
                        ErrorClass::NO_MEM,
                        "too many partitioned receives; free some of their requests first",
                    ));
                }
                landings.slots.extend((landings.slots.len()..wanted).map(unused));
                wanted as u32 - 1
            }
        };
        let landing = &mut landings.slots[slot as usize];
        landing.peer = peer;
        landing.buffer = Some(buffer);
        Ok(LandingId(join(slot, landing.generation)))
    }

    /// Opens a landing for the parts of `epoch`, and takes in those that are here.
    pub fn open_landing(&mut self, id: LandingId, epoch: u32) {
        let Some(landing) = self.state.landings.find(id.0) else { return };
        landing.epoch = epoch;
        landing.missing = landing.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64);
        landing.news.clear();
        if landing.early.is_empty() {
            return;
        }
        let (peer, mut charges) = (landing.peer, 0);
        let mut early = std::mem::take(&mut landing.early);
        early.retain(|part| {
            let due = part.epoch == epoch;
            if due {
                // What does not fit is nonsense; it is dropped here, and its sender waits for nothing.
                landing.put(part.offset, &part.data);
                charges += charge(part.data.len() as u32);
            }
            !due
        });
        landing.early = early;
        self.release_parts(peer, charges);
    }

    /// Looks up to `turns` times whether the next packet of a landing's sender is a part of the open epoch, and lets it land.
    #[inline]
    pub fn await_part(&mut self, id: LandingId, turns: u32) -> Next {
        for _ in 0..turns {
            if !self.state.unexpected.is_empty() {
                // Parts may be among them, as messages; progress keeps the order.
                return Next::Other;
            }
            let Some(landing) = self.state.landings.find(id.0) else { return Next::Other };
            let Some(peer) = self.state.peers.find_mut(landing.peer) else { return Next::Other };
            let (from, first) = (peer.id, FirstPart { id, landing, ledger: &mut peer.ledger });
            match self.fabric.receive(from, first) {
                Some(Next::Other) => return Next::Other,
                Some(landed) => {
                    if peer.ledger.is_due() {
                        self.give_credit(from);
                    }
                    return landed;
                }
                None => std::hint::spin_loop(),
            }
        }
        Next::Nothing
    }

    /// Tells what has landed since the last call.
    #[inline]
    pub fn landed(&mut self, id: LandingId, mut tell: impl FnMut(Range<u64>)) {
        if let Some(landing) = self.state.landings.find(id.0) {
            landing.news.drain(..).for_each(&mut tell);
        }
    }

    /// Nothing lands there any more: what still comes is dropped.
    pub fn end_landing(&mut self, id: LandingId) {
        let Some(landing) = self.state.landings.find(id.0) else { return };
        landing.buffer = None;
        landing.generation = (landing.generation + 1) & (GENERATIONS - 1) as u8;
        landing.missing = 0;
        landing.news.clear();
        let peer = landing.peer;
        let charges = landing.early.drain(..).map(|part| charge(part.data.len() as u32)).sum();
        self.state.landings.free.push(split(id.0).0);
        self.release_parts(peer, charges);
    }

    /// Whether that names a landing.
    pub fn landing_exists(&mut self, id: LandingId) -> bool {
        self.state.landings.find(id.0).is_some()
    }

    fn release_parts(&mut self, peer: PeerId, charges: u32) {
        if self.state.peers.find_mut(peer).is_some_and(|peer| peer.ledger.release(charges)) {
            self.give_credit(peer);
        }
    }

    /// Bytes of the largest part that may leave to a peer at once; 0 when none may: it is not met, out of budget, or something
    /// queues for it.
    #[inline]
    pub fn largest_part(&self, peer: PeerId) -> u32 {
        match self.state.peers.index(peer).map(|index| self.state.peers.at(index)) {
            Some(peer) => {
                let most = peer.limits.single.min(peer.limits.packet);
                most.min(peer.window.open().saturating_sub(charge(0)))
            }
            None => 0,
        }
    }

    /// Sends all parts of a start in one packet, on the short way of a message; they lie in one run. False: they did not leave.
    #[inline(never)]
    pub fn send_part_run(&mut self, to: PartsOf, bytes: &[u8]) -> bool {
        let header = Header::control(Kind::Part, to.landing.0, u64::from(to.epoch) << 32);
        self.send_run_at_once(to.peer, header, bytes)
    }

    /// Sends a part of at most [`Engine::largest_part`] bytes. False: it did not leave, and must go as a message.
    #[inline]
    pub fn send_part(&mut self, to: PartsOf, offset: u64, data: &SendBuf) -> bool {
        let Some(peer) = self.state.peers.find_mut(to.peer) else { return false };
        let length = data.len();
        debug_assert!(offset >> 32 == 0, "parts are short and few");
        let header = Header::control(Kind::Part, to.landing.0, u64::from(to.epoch) << 32 | offset);
        let sent = match data.as_slice() {
            Some(bytes) if length <= peer.max_inline as usize => {
                self.fabric.send_inline(peer.id, header, bytes)
            }
            _ => self.fabric.send_copy(peer.id, header, length, |out| data.pack(0, out)),
        };
        if sent.is_ok() {
            peer.window.spend_open(charge(length as u32));
        }
        sent.is_ok()
    }
}

/// Takes the next packet when it is a part of an open epoch, and leaves anything else to progress.
struct FirstPart<'a> {
    id: LandingId,
    landing: &'a mut Landing,
    ledger: &'a mut ReceiveLedger,
}

impl Handler for FirstPart<'_> {
    type Outcome = Next;

    #[inline(always)]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Next) {
        if header.kind() != Some(Kind::Part) || header.id() != self.id.0 {
            return (false, Next::Other);
        }
        let (epoch, offset) = epoch_and_offset(header);
        if self.landing.epoch != epoch || payload.is_empty() {
            return (false, Next::Other);
        }
        let landed = match offset == 0 && self.landing.put_whole(payload) {
            true => Next::Whole,
            false if self.landing.put(offset, payload) => Next::Part,
            false => return (false, Next::Other),
        };
        self.ledger.release(charge(payload.len() as u32));
        (true, landed)
    }
}

/// What a part says of itself.
#[inline]
fn epoch_and_offset(header: Header) -> (u32, u64) {
    ((header.value() >> 32) as u32, header.value() & u64::from(u32::MAX))
}

impl State {
    /// A part of a peer's partitioned send.
    pub(crate) fn part(&mut self, index: u32, header: Header, data: &[u8]) -> Todo {
        let peer = self.peers.at_mut(index);
        let (epoch, offset) = epoch_and_offset(header);
        let charges = charge(data.len() as u32);
        let Some(landing) = self.landings.find(header.id()) else {
            // Its receive was freed before it was ever started.
            peer.ledger.release(charges);
            return Todo::Nothing;
        };
        if landing.peer != peer.id || data.is_empty() {
            return Todo::Broken("a part of nothing");
        }
        if landing.missing == 0 || landing.epoch != epoch {
            landing.early.push(EarlyPart { epoch, offset, data: data.into() });
            return Todo::Nothing;
        }
        if !landing.put(offset, data) {
            return Todo::Broken("a part that does not fit");
        }
        peer.ledger.release(charges);
        Todo::Nothing
    }
}

#[cfg(test)]
mod tests {
    use crate::landings::{Next, PartsOf};
    use crate::world::World;
    use weft_datatype::Scratch;
    use weft_types::PeerId;

    fn bytes(data: &[u8]) -> weft_datatype::SendBuf {
        let scratch = Scratch::new(data.len());
        scratch.recv_buf(0, data.len()).unpack(0, data);
        scratch.send_buf(0, data.len())
    }

    /// Two ranks, rank 1 with a landing of ten bytes, that know each other.
    fn two() -> (World, std::sync::Arc<Scratch>, PartsOf) {
        let mut world = World::new(2).build();
        let room = Scratch::new(10);
        let landing = world.engines[1].make_landing(PeerId(0), room.recv_buf(0, 10)).expect("room");
        world.engines[0].contact(PeerId(1)).expect("alive");
        (world, room, PartsOf { peer: PeerId(1), landing, epoch: 1 })
    }

    /// Begin and end of what has landed.
    fn landed(world: &mut World, of: PartsOf) -> Vec<(u64, u64)> {
        let mut news = Vec::new();
        world.engines[1].landed(of.landing, |range| news.push((range.start, range.end)));
        news
    }

    fn read(room: &std::sync::Arc<Scratch>) -> Vec<u8> {
        let mut out = vec![0; 10];
        room.send_buf(0, 10).pack(0, &mut out);
        out
    }

    #[test]
    fn parts_wait_for_their_epoch_and_leave_the_buffer_alone_until_then() {
        let (mut world, room, first) = two();
        let second = PartsOf { epoch: 2, ..first };
        assert!(world.engines[0].largest_part(PeerId(1)) >= 10);
        assert!(world.engines[0].send_part(first, 0, &bytes(&[1; 4])));
        assert!(world.engines[0].send_part(first, 4, &bytes(&[2; 6])));
        assert!(world.engines[0].send_part(second, 5, &bytes(&[3; 5])));
        world.settle();
        assert_eq!((read(&room), landed(&mut world, first)), (vec![0; 10], vec![]));
        world.engines[1].open_landing(first.landing, 1);
        assert_eq!(read(&room), [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
        assert_eq!(landed(&mut world, first), [(0, 10)], "neighbours are told as one");
        assert_eq!(landed(&mut world, first), []);
        world.engines[1].open_landing(first.landing, 2);
        assert_eq!(landed(&mut world, first), [(5, 10)]);
        assert!(world.engines[0].send_part(second, 0, &bytes(&[4; 5])));
        world.settle();
        assert_eq!(read(&room), [4, 4, 4, 4, 4, 3, 3, 3, 3, 3]);
        assert_eq!(landed(&mut world, first), [(0, 5)]);
    }

    /// Whoever awaits parts takes those of the open epoch as they come, and stops where something else has to be taken by
    /// progress.
    #[test]
    fn parts_are_awaited_until_something_else_comes_first() {
        let (mut world, room, first) = two();
        world.engines[1].contact(PeerId(0)).expect("alive");
        world.settle();
        world.engines[1].open_landing(first.landing, 1);
        assert_eq!(world.engines[1].await_part(first.landing, 3), Next::Nothing);
        assert!(world.engines[0].send_part(first, 0, &bytes(&[1; 4])));
        assert!(world.engines[0].send_part(PartsOf { epoch: 2, ..first }, 0, &bytes(&[2; 4])));
        assert!(world.engines[0].send_part(first, 4, &bytes(&[3; 6])));
        let mut seen = Vec::new();
        for _ in 0..1000 {
            match world.engines[1].await_part(first.landing, 3) {
                Next::Nothing => drop(world.engines[0].progress()),
                next => {
                    seen.push(next);
                    if next == Next::Other {
                        break;
                    }
                }
            }
        }
        assert_eq!(seen, [Next::Part, Next::Other], "the second part is of another epoch");
        assert_eq!(
            (read(&room), landed(&mut world, first)),
            (vec![1, 1, 1, 1, 0, 0, 0, 0, 0, 0], vec![(0, 4)])
        );
        world.settle();
        assert_eq!(landed(&mut world, first), [(4, 10)]);
        world.engines[1].end_landing(first.landing);
        assert_eq!(world.engines[1].await_part(first.landing, 3), Next::Other, "that landing is gone");
    }

    /// All parts of a start in one packet land like others, and leave only when they may.
    #[test]
    fn all_parts_leave_in_one_packet_unless_they_are_too_many() {
        let (mut world, room, first) = two();
        assert!(!world.engines[0].send_part_run(first, &vec![1; 1 << 20]), "longer than a packet");
        world.engines[1].open_landing(first.landing, 1);
        assert!(world.engines[0].send_part_run(first, &[7; 10]));
        world.settle();
        assert_eq!((read(&room), landed(&mut world, first)), (vec![7; 10], vec![(0, 10)]));
        let mut epoch = 1;
        while world.engines[0].largest_part(PeerId(1)) >= 10 {
            epoch += 1;
            assert!(world.engines[0].send_part_run(PartsOf { epoch, ..first }, &[8; 10]));
            world.settle();
        }
        assert!(!world.engines[0].send_part_run(first, &[9; 10]), "out of budget");
        let unknown = PartsOf { peer: PeerId(7), ..first };
        assert!(!world.engines[0].send_part_run(unknown, &[9; 10]), "nobody was met under that number");
    }

    #[test]
    fn what_is_kept_is_in_the_budget_and_comes_back_when_it_has_landed_or_is_dropped() {
        let (mut world, _room, first) = two();
        let all = world.engines[0].state.peers.at(0).window.left();
        let mut epoch = 0;
        while world.engines[0].largest_part(PeerId(1)) >= 10 {
            epoch += 1;
            assert!(world.engines[0].send_part(PartsOf { epoch, ..first }, 0, &bytes(&[1; 10])));
            world.settle();
        }
        for open in 1..=epoch / 2 {
            world.engines[1].open_landing(first.landing, open);
        }
        world.engines[1].end_landing(first.landing);
        world.settle();
        let left = world.engines[0].state.peers.at(0).window.left();
        assert!(left >= all - all / 4, "{left} of {all}");
        assert!(world.engines[0].send_part(first, 0, &bytes(&[1; 10])), "nobody awaits it any more");
        world.settle();
        let again = world.engines[1].make_landing(PeerId(0), bytes_room()).expect("room");
        assert_ne!(again, first.landing, "an old name is not given again at once");
    }

    fn bytes_room() -> weft_datatype::RecvBuf {
        Scratch::new(4).recv_buf(0, 4)
    }
}
