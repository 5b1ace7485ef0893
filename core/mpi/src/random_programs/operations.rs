//! The calls of a random program.

use super::model::{Received, Sent, UNTOUCHED, Wanted};
use super::{COMM, CONTEXTS, LANES, Open, Port, Program, ROOM, Thread};
use crate::lanes::request_handle;
use crate::persistent::{Operation, Persistent};
use crate::request::{Done, Local, engine_handle};
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::{Envelope, MessageId, RequestId, Selector, SendMode, Started};
use weft_types::{ErrorClass, Handle, PeerId, Rank, Tag};

pub(super) fn selector((context, source, tag): Wanted) -> Selector {
    let context = CONTEXTS[context];
    Selector { context, peer: source.map(PeerId), source: source.map(Rank), tag: tag.map(Tag) }
}

/// Bytes in which a message says who sent it and as which. Shorter ones have the beginning of their number.
pub(super) const IDENTITY: usize = 8;

/// Writes that into a message.
fn stamp(data: &mut [u8], rank: usize, number: usize) {
    match data.first_chunk_mut::<IDENTITY>() {
        Some(first) => {
            first[..4].copy_from_slice(&(rank as u32).to_le_bytes());
            first[4..].copy_from_slice(&(number as u32).to_le_bytes());
        }
        None => {
            // No byte is that of a room without a message.
            let number = (number % usize::from(UNTOUCHED)).to_le_bytes();
            data.iter_mut().zip(number).for_each(|(to, byte)| *to = byte);
        }
    }
}

/// Room for a message.
fn room() -> Arc<Scratch> {
    let room = Scratch::new(ROOM);
    fill(&room, &[UNTOUCHED; ROOM]);
    room
}

pub(super) fn fill(room: &Arc<Scratch>, data: &[u8]) {
    room.recv_buf(0, data.len()).unpack(0, data);
}

pub(super) fn read(room: &Arc<Scratch>) -> Vec<u8> {
    let mut data = vec![0; room.len()];
    room.send_buf(0, room.len()).pack(0, &mut data);
    data
}

impl Program {
    /// A new message of `rank` on a channel: its number, after the model has been told.
    pub(super) fn message(&mut self, rank: usize, context: usize) -> (usize, Envelope, Arc<Scratch>) {
        let ranks = self.members.len();
        let (to, tag) = (self.below(ranks) as u32, self.below(3) as i32);
        self.message_to(rank, context, to, tag)
    }

    /// The same, to this rank with this tag.
    pub(super) fn message_to(
        &mut self,
        rank: usize,
        context: usize,
        to: u32,
        tag: i32,
    ) -> (usize, Envelope, Arc<Scratch>) {
        const BORDERS: [usize; 10] = [8, 48, 232, 248, 256, 1024, 2048, 4096, 8192, 40_000];
        let length = match self.below(6) {
            0 => self.below(IDENTITY),
            _ => BORDERS[self.below(BORDERS.len())] + self.below(3) - 1,
        };
        let number = self.members[rank].sends.len();
        let mut data = vec![0; length];
        let mut random = weft_random(rank as u64 * 100_000 + number as u64);
        data.fill_with(|| random.next().unwrap_or(0));
        stamp(&mut data, rank, number);
        let room = Scratch::new(length);
        fill(&room, &data);
        self.members[rank].sends.push(Sent { to, tag, context, data, ..Sent::default() });
        let envelope = Envelope {
            peer: PeerId(to),
            context: CONTEXTS[context],
            source: Rank(rank as u32),
            tag: Tag(tag),
        };
        (number, envelope, room)
    }

    pub(super) fn keep(&mut self, rank: usize, open: Open) -> u64 {
        let member = &mut self.members[rank];
        member.next += 1;
        member.open.push((member.next, open));
        member.next
    }

    pub(super) fn send(&mut self, rank: usize, blocking: Option<usize>) {
        let context = self.below(self.contexts);
        let message = self.message(rank, context);
        let number = message.0;
        let mode = match self.below(3) {
            0 => SendMode::Synchronous,
            1 if self.is_awaited(rank, number) => {
                self.meet("ready send");
                SendMode::Ready
            }
            _ => SendMode::Standard,
        };
        let key = self.send_message(rank, message, mode);
        self.block(rank, blocking, key);
    }

    /// Sends a new message.
    pub(super) fn send_message(
        &mut self,
        rank: usize,
        (number, envelope, room): (usize, Envelope, Arc<Scratch>),
        mode: SendMode,
    ) -> u64 {
        self.members[rank].sends[number].synchronous = mode == SendMode::Synchronous;
        let lane = LANES[self.members[rank].sends[number].context];
        let buffer = room.send_buf(0, room.len());
        let process = &mut self.members[rank].process;
        let handle =
            match process.on_lane(lane, |engine| engine.send(envelope, mode, buffer)).expect("all live") {
                Started::Complete => engine_handle(RequestId::COMPLETE),
                Started::Pending(request) => request_handle(request.in_lane(lane)),
            };
        self.keep(rank, Open::Send(handle, number, room))
    }

    /// Whether a receive is posted that this message will certainly get, so that a ready send is correct (section 3.4).
    fn is_awaited(&self, rank: usize, number: usize) -> bool {
        let sent = &self.members[rank].sends[number];
        let destination = &self.members[sent.to as usize];
        let is_posted = |open: &Open| match open {
            Open::Recv(_, number) | Open::Port(_, _, Port::Recv(_), Some(number)) => {
                let recv = &destination.recvs[*number];
                let is_open = !recv.cancelled && recv.withdrawn.is_none() && recv.got.is_none();
                // The message itself is the only one that it may still get, so nobody takes it away.
                is_open && recv.accepts(rank as u32, sent) && self.may_get(sent.to as usize, recv) == 1
            }
            _ => false,
        };
        destination.open.iter().any(|(_, open)| is_posted(open))
    }

    /// Messages to a rank that were not received yet, as far as is known, and that this receive there would take.
    fn may_get(&self, rank: usize, recv: &Received) -> usize {
        let senders = (0..).zip(&self.members);
        let sent = senders.flat_map(|(from, member)| member.sends.iter().map(move |sent| (from, sent)));
        let open = sent.filter(|(from, sent)| {
            sent.to == rank as u32 && !sent.cancelled && sent.got_by.is_none() && recv.accepts(*from, sent)
        });
        open.count() - self.untold(rank, recv.wanted)
    }

    /// `MPI_Request_free` of a send or receive under way (section 3.7.3): its message is received all the same.
    pub(super) fn free(&mut self, rank: usize, index: usize) {
        let member = &mut self.members[rank];
        let (key, open) = member.open[index].clone();
        // What was cancelled tells by its status what became of it; and only of a receive of one source and tag, with room for
        // everything, the message tells the rest.
        let (handle, withdrawn) = match &open {
            Open::Send(handle, number, _) => (*handle, member.sends[*number].withdrawn),
            Open::Recv(handle, number) => {
                let recv = &member.recvs[*number];
                let told = matches!(recv.wanted, (_, Some(_), Some(_))) && recv.capacity == ROOM;
                (*handle, recv.withdrawn.is_some() || !told)
            }
            _ => return,
        };
        let waited_for =
            member.threads.iter().any(|thread| matches!(thread, Thread::Waits(other) if *other == key));
        if waited_for || withdrawn || member.process.is_done(handle) {
            return;
        }
        assert_eq!(member.process.free_request(handle).expect("an operation under way"), None);
        member.open.remove(index);
        match open {
            Open::Send(_, _, room) => {
                member.freed.push(room);
                self.meet("freed send");
            }
            Open::Recv(_, number) => {
                member.freed_recvs.push((handle, number));
                self.meet("freed receive");
            }
            _ => unreachable!("seen above"),
        }
    }

    /// `MPI_Iprobe` or `MPI_Improbe`: what it finds is received by who asked.
    pub(super) fn probe(&mut self, rank: usize) {
        let wanted = self.wanted();
        let matched = self.below(2) == 0;
        let process = &mut self.members[rank].process;
        let lane = LANES[wanted.0];
        if matched {
            let found = process.on_lane(lane, |engine| engine.improbe(selector(wanted)));
            if let Some((message, status)) = found {
                self.matched(rank, message, status, wanted);
            }
        } else if let Some(status) = process.on_lane(lane, |engine| engine.iprobe(selector(wanted))) {
            assert!(wanted.1.is_none_or(|source| source == status.source.0));
            assert!(wanted.2.is_none_or(|tag| tag == status.tag.0));
            self.receive(rank, (wanted.0, Some(status.source.0), Some(status.tag.0)), None);
        }
    }

    pub(super) fn buffered(&mut self, rank: usize) {
        let (number, envelope, room) = {
            let context = self.below(self.contexts);
            self.message(rank, context)
        };
        let lane = LANES[self.members[rank].sends[number].context];
        let process = &mut self.members[rank].process;
        match process.buffered_send_in(lane, COMM, envelope, &room.send_buf(0, room.len())) {
            // Its memory belongs to the program again at once.
            Ok(handle) => {
                fill(&room, &vec![0xEE; room.len()]);
                self.keep(rank, Open::Send(handle, number, room));
            }
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::BUFFER);
                self.members[rank].sends[number].cancelled = true;
                self.meet("buffer too small");
            }
        }
    }

    pub(super) fn receive(&mut self, rank: usize, wanted: Wanted, blocking: Option<usize>) {
        const CAPACITIES: [usize; 6] = [0, 5, 48, 240, 2048, 8192];
        let capacity = match self.below(12) {
            0 => CAPACITIES[self.below(CAPACITIES.len())],
            _ => ROOM,
        };
        let looks = if blocking.is_some() { 1 + self.below(40) as u32 } else { 0 };
        let room = room();
        let member = &mut self.members[rank];
        let mut buffer = room.recv_buf(0, capacity);
        let early = (looks > 0).then(|| {
            let process = &mut member.process;
            process.on_lane(LANES[wanted.0], |engine| engine.spin_recv(selector(wanted), &mut buffer, looks))
        });
        if let Some(completion) = early.flatten() {
            let number = member.recvs.len();
            member.recvs.push(Received::new(wanted, &room, capacity));
            return self.got(rank, number, &Done::of(completion, 0));
        }
        let key = self.post_into(rank, wanted, &room, capacity);
        self.block(rank, blocking, key);
    }

    /// `MPI_Irecv` with room for so many bytes.
    pub(super) fn post(&mut self, rank: usize, wanted: Wanted, capacity: usize) -> u64 {
        self.post_into(rank, wanted, &room(), capacity)
    }

    fn post_into(&mut self, rank: usize, wanted: Wanted, room: &Arc<Scratch>, capacity: usize) -> u64 {
        let member = &mut self.members[rank];
        let (lane, buffer) = (LANES[wanted.0], room.recv_buf(0, capacity));
        let process = &mut member.process;
        let request = process.on_lane(lane, |engine| engine.recv(selector(wanted), buffer)).expect("room");
        let number = member.recvs.len();
        member.recvs.push(Received::new(wanted, room, capacity));
        self.keep(rank, Open::Recv(request_handle(request.in_lane(lane)), number))
    }

    pub(super) fn block(&mut self, rank: usize, blocking: Option<usize>, key: u64) {
        if let Some(thread) = blocking {
            self.members[rank].threads[thread] = Thread::Waits(key);
        }
    }

    /// A matched probe succeeded: the receive counts from now.
    pub(super) fn matched(
        &mut self,
        rank: usize,
        message: MessageId,
        status: weft_engine::Status,
        wanted: Wanted,
    ) {
        assert!(wanted.1.is_none_or(|source| source == status.source.0));
        assert!(wanted.2.is_none_or(|tag| tag == status.tag.0));
        let member = &mut self.members[rank];
        // Its place in the order is kept by an entry without a room.
        member.recvs.push(Received::new(wanted, &room(), ROOM));
        self.keep(rank, Open::Message(message, wanted));
        self.meet("matched probe");
        let number = self.members[rank].recvs.len() - 1;
        if let Some((_, Open::Message(_, (context, ..)))) = self.members[rank].open.last_mut() {
            // The number of the receive travels in the channel's upper part.
            *context += CONTEXTS.len() * number;
        }
    }

    pub(super) fn start_port(&mut self, rank: usize, index: usize) {
        let (key, Open::Port(handle, room, port, None)) = self.members[rank].open[index].clone() else {
            return;
        };
        let number = match port {
            Port::Send(context, to, tag, mode) => {
                let number = self.members[rank].sends.len();
                let mut data = read(&room);
                stamp(&mut data, rank, number);
                fill(&room, &data);
                self.members[rank].sends.push(Sent {
                    to,
                    tag,
                    context,
                    data,
                    synchronous: mode == SendMode::Synchronous,
                    ..Sent::default()
                });
                if mode == SendMode::Ready {
                    if self.below(4) > 0 {
                        self.post(to as usize, (context, Some(rank as u32), Some(tag)), ROOM);
                    }
                    if !self.is_awaited(rank, number) {
                        self.members[rank].sends.pop();
                        return;
                    }
                    self.meet("persistent ready send");
                }
                number
            }
            Port::Recv(wanted) => {
                fill(&room, &[UNTOUCHED; ROOM]);
                let recvs = &mut self.members[rank].recvs;
                recvs.push(Received::new(wanted, &room, ROOM));
                recvs.len() - 1
            }
        };
        let member = &mut self.members[rank];
        match member.process.start_request(handle) {
            Ok(()) => member.open[index] = (key, Open::Port(handle, room, port, Some(number))),
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::BUFFER);
                member.sends[number].cancelled = true;
            }
        }
    }

    pub(super) fn new_port(&mut self, rank: usize) {
        let context = self.below(self.contexts);
        if self.below(2) == 0 {
            let (number, envelope, room) = self.message(rank, context);
            let Sent { to, tag, .. } = self.members[rank].sends[number];
            self.members[rank].sends.pop();
            let buffer = room.send_buf(0, room.len());
            const MODES: [SendMode; 4] =
                [SendMode::Standard, SendMode::Synchronous, SendMode::Ready, SendMode::Ready];
            let mode = MODES[self.below(MODES.len())];
            let operation = match mode {
                SendMode::Standard if self.below(2) == 0 => Operation::Buffered(Some(envelope), buffer),
                _ => Operation::Send(Some(envelope), mode, buffer),
            };
            let handle = self.new_persistent(rank, operation, context);
            self.keep(rank, Open::Port(handle, room, Port::Send(context, to, tag, mode), None));
        } else {
            let (_, source, tag) = self.wanted();
            let (wanted, room) = ((context, source, tag), room());
            let operation = Operation::Receive(Some(selector(wanted)), room.recv_buf(0, ROOM));
            let handle = self.new_persistent(rank, operation, context);
            self.keep(rank, Open::Port(handle, room, Port::Recv(wanted), None));
        }
    }

    fn new_persistent(&mut self, rank: usize, operation: Operation, context: usize) -> Handle {
        let persistent = Persistent::new(operation, COMM, LANES[context]);
        self.members[rank].process.requests.insert(Local::Persistent(Box::new(persistent))).expect("room")
    }

    pub(super) fn cancel(&mut self, rank: usize, index: usize) {
        let now = self.now;
        let member = &mut self.members[rank];
        let handle = match &member.open[index].1 {
            Open::Send(handle, number, _) | Open::Port(handle, _, Port::Send(..), Some(number)) => {
                member.sends[*number].withdrawn = true;
                *handle
            }
            Open::Recv(handle, number) | Open::Port(handle, _, Port::Recv(_), Some(number)) => {
                member.recvs[*number].withdrawn.get_or_insert(now);
                *handle
            }
            _ => return,
        };
        self.members[rank].process.cancel(handle).expect("can be cancelled");
        // What is seen from now on may have come after it.
        self.now += 1;
    }

    /// Completes one entry if it is done; false when it is not, or is nothing that completes.
    pub(super) fn complete(&mut self, rank: usize, index: usize) -> bool {
        let (key, open) = self.members[rank].open[index].clone();
        let process = &mut self.members[rank].process;
        let (handle, number, is_send) = match &open {
            Open::Send(handle, number, _) => (*handle, *number, true),
            Open::Recv(handle, number) => (*handle, *number, false),
            Open::Port(handle, _, port, Some(number)) => (*handle, *number, matches!(port, Port::Send(..))),
            Open::Flush(handle) => {
                if process.is_done(*handle) {
                    assert_eq!(process.finish(*handle).error, None);
                    self.members[rank].open.remove(index);
                    return true;
                }
                return false;
            }
            Open::Generalized(..) => return self.complete_generalized(rank, index),
            Open::Message(..) | Open::Port(_, _, _, None) => return false,
        };
        if !process.is_done(handle) {
            return false;
        }
        let seen = process.requests.peek(&process.engine, handle);
        let done = process.finish(handle);
        assert_eq!(seen.status, done.status, "MPI_Request_get_status showed something else");
        let class = |done: &Done| done.error.as_ref().map(|error| error.class());
        assert_eq!(class(&seen), class(&done), "MPI_Request_get_status showed another error");
        assert!(done.error.is_none() || !is_send, "{:?}", done.error);
        match open {
            Open::Port(handle, room, port, _) => {
                self.members[rank].open[index] = (key, Open::Port(handle, room, port, None));
            }
            _ => drop(self.members[rank].open.remove(index)),
        }
        match (is_send, done.status.cancelled) {
            (true, true) => {
                self.members[rank].sends[number].cancelled = true;
                self.meet("cancelled send");
            }
            (true, false) => self.left(rank, number),
            (false, true) => {
                self.meet("cancelled receive");
                let recv = &mut self.members[rank].recvs[number];
                recv.cancelled = true;
                assert!(
                    read(&recv.room).iter().all(|&byte| byte == UNTOUCHED),
                    "a cancelled receive changes nothing"
                );
            }
            (false, false) => self.got(rank, number, &done),
        }
        true
    }

    pub(super) fn take_message(&mut self, rank: usize, index: usize) {
        let (_, Open::Message(message, (place, ..))) = self.members[rank].open[index].clone() else { return };
        let (number, lane) = (place / CONTEXTS.len(), LANES[place % CONTEXTS.len()]);
        let member = &mut self.members[rank];
        member.open.remove(index);
        let room = member.recvs[number].room.recv_buf(0, ROOM);
        let request = member.process.on_lane(lane, |engine| engine.imrecv(message, room)).expect("probed");
        self.keep(rank, Open::Recv(request_handle(request.in_lane(lane)), number));
    }
}

/// Bytes from a seed.
fn weft_random(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some((state >> 32) as u8)
    })
}
