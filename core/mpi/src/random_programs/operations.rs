//! The calls of a random program.

use super::model::{Received, Sent, Wanted};
use super::{COMM, CONTEXTS, Open, Port, Program, ROOM, Thread};
use crate::persistent::Operation;
use crate::request::{engine_handle, started_handle};
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::{Envelope, MessageId, Selector, SendMode};
use weft_types::{ErrorClass, PeerId, Rank, Tag};

pub(super) fn selector((context, source, tag): Wanted) -> Selector {
    let context = CONTEXTS[context];
    Selector { context, peer: source.map(PeerId), source: source.map(Rank), tag: tag.map(Tag) }
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
        const BORDERS: [usize; 10] = [8, 48, 232, 248, 256, 1024, 2048, 4096, 8192, 40_000];
        let ranks = self.members.len();
        let (to, tag) = (self.below(ranks) as u32, self.below(3) as i32);
        let length = (BORDERS[self.below(BORDERS.len())] + self.below(3)).max(9) - 1;
        let number = self.members[rank].sends.len();
        let mut data = vec![0; length];
        let mut random = weft_random(rank as u64 * 100_000 + number as u64);
        data.fill_with(|| random.next().unwrap_or(0));
        data[..4].copy_from_slice(&(rank as u32).to_le_bytes());
        data[4..8].copy_from_slice(&(number as u32).to_le_bytes());
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
        let context = self.below(2);
        let (number, envelope, room) = self.message(rank, context);
        let mode = match self.below(3) {
            0 => SendMode::Synchronous,
            1 if self.is_awaited(rank, number) => {
                self.meet("ready send");
                SendMode::Ready
            }
            _ => SendMode::Standard,
        };
        self.members[rank].sends[number].synchronous = mode == SendMode::Synchronous;
        let engine = &mut self.members[rank].process.engine;
        let started = engine.send(envelope, mode, room.send_buf(0, room.len())).expect("all live");
        let key = self.keep(rank, Open::Send(started_handle(started), number, room));
        self.block(rank, blocking, key);
    }

    /// Whether a receive is posted that this message will certainly get, so that a ready send is correct (section 3.4).
    fn is_awaited(&self, rank: usize, number: usize) -> bool {
        let sent = &self.members[rank].sends[number];
        let destination = &self.members[sent.to as usize];
        let rivals = self.members.iter().flat_map(|member| &member.sends).filter(|other| {
            (other.to, other.context) == (sent.to, sent.context) && !other.cancelled && other.got_by.is_none()
        });
        let is_posted = |open: &Open| match open {
            Open::Recv(_, number) | Open::Port(_, _, Port::Recv(_), Some(number)) => {
                let recv = &destination.recvs[*number];
                !recv.cancelled && !recv.withdrawn && recv.got.is_none() && recv.accepts(rank as u32, sent)
            }
            _ => false,
        };
        // The message itself is the only one that may still come, so nobody takes the receive from it.
        rivals.count() == 1 && destination.open.iter().any(|(_, open)| is_posted(open))
    }

    /// `MPI_Request_free` of a send under way (section 3.7.3): it is received all the same.
    pub(super) fn free(&mut self, rank: usize, index: usize) {
        let member = &mut self.members[rank];
        let (key, Open::Send(handle, number, room)) = member.open[index].clone() else { return };
        let waited_for =
            member.threads.iter().any(|thread| matches!(thread, Thread::Waits(other) if *other == key));
        // What was cancelled tells by its status what became of it.
        if waited_for || member.sends[number].withdrawn || member.process.is_done(handle) {
            return;
        }
        assert_eq!(member.process.free_request(handle).expect("a send under way"), None);
        member.freed.push(room);
        member.open.remove(index);
        self.meet("freed send");
    }

    /// `MPI_Iprobe` or `MPI_Improbe`: what it finds is received by who asked.
    pub(super) fn probe(&mut self, rank: usize) {
        let wanted = self.wanted();
        let matched = self.below(2) == 0;
        let engine = &mut self.members[rank].process.engine;
        if matched {
            if let Some((message, status)) = engine.improbe(selector(wanted)) {
                self.matched(rank, message, status, wanted);
            }
        } else if let Some(status) = engine.iprobe(selector(wanted)) {
            assert!(wanted.1.is_none_or(|source| source == status.source.0));
            assert!(wanted.2.is_none_or(|tag| tag == status.tag.0));
            self.receive(rank, (wanted.0, Some(status.source.0), Some(status.tag.0)), None);
        }
    }

    pub(super) fn buffered(&mut self, rank: usize) {
        let (number, envelope, room) = self.message(rank, 0);
        let process = &mut self.members[rank].process;
        match process.buffered_send(COMM, envelope, &room.send_buf(0, room.len())) {
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
        let room = Scratch::new(ROOM);
        let looks = if blocking.is_some() { 1 + self.below(40) as u32 } else { 0 };
        let member = &mut self.members[rank];
        let early = (looks > 0)
            .then(|| member.process.engine.spin_recv(selector(wanted), &mut room.recv_buf(0, ROOM), looks));
        let number = member.recvs.len();
        if let Some(completion) = early.flatten() {
            assert_eq!(completion.error, None);
            member.recvs.push(Received { wanted, room, cancelled: false, withdrawn: false, got: None });
            return self.got(rank, number, completion.status.into());
        }
        let request = member.process.engine.recv(selector(wanted), room.recv_buf(0, ROOM)).expect("room");
        member.recvs.push(Received { wanted, room, cancelled: false, withdrawn: false, got: None });
        let key = self.keep(rank, Open::Recv(engine_handle(request), number));
        self.block(rank, blocking, key);
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
        member.recvs.push(Received {
            wanted,
            room: Scratch::new(ROOM),
            cancelled: false,
            withdrawn: false,
            got: None,
        });
        self.keep(rank, Open::Message(message, wanted));
        self.meet("matched probe");
        let number = self.members[rank].recvs.len() - 1;
        if let Some((_, Open::Message(_, (context, ..)))) = self.members[rank].open.last_mut() {
            // The number of the receive travels in the channel's upper part.
            *context += 2 * number;
        }
    }

    pub(super) fn start_port(&mut self, rank: usize, index: usize) {
        let (key, Open::Port(handle, room, port, None)) = self.members[rank].open[index].clone() else {
            return;
        };
        let number = match port {
            Port::Send(to, tag, synchronous) => {
                let number = self.members[rank].sends.len();
                let mut data = read(&room);
                data[..4].copy_from_slice(&(rank as u32).to_le_bytes());
                data[4..8].copy_from_slice(&(number as u32).to_le_bytes());
                fill(&room, &data);
                self.members[rank].sends.push(Sent {
                    to,
                    tag,
                    context: 0,
                    data,
                    synchronous,
                    ..Sent::default()
                });
                number
            }
            Port::Recv(wanted) => {
                fill(&room, &vec![0; ROOM]);
                let recvs = &mut self.members[rank].recvs;
                recvs.push(Received {
                    wanted,
                    room: Arc::clone(&room),
                    cancelled: false,
                    withdrawn: false,
                    got: None,
                });
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
        let comm_world = 0;
        if self.below(2) == 0 {
            let (number, envelope, room) = self.message(rank, comm_world);
            let Sent { to, tag, .. } = self.members[rank].sends[number];
            self.members[rank].sends.pop();
            let buffer = room.send_buf(0, room.len());
            let choice = self.below(3);
            let operation = match choice {
                0 => Operation::Buffered(Some(envelope), buffer),
                1 => Operation::Send(Some(envelope), SendMode::Synchronous, buffer),
                _ => Operation::Send(Some(envelope), SendMode::Standard, buffer),
            };
            let handle = self.members[rank].process.persistent(operation, COMM).expect("room");
            self.keep(rank, Open::Port(handle, room, Port::Send(to, tag, choice == 1), None));
        } else {
            let (_, source, tag) = self.wanted();
            let (wanted, room) = ((comm_world, source, tag), Scratch::new(ROOM));
            let operation = Operation::Receive(Some(selector(wanted)), room.recv_buf(0, ROOM));
            let handle = self.members[rank].process.persistent(operation, COMM).expect("room");
            self.keep(rank, Open::Port(handle, room, Port::Recv(wanted), None));
        }
    }

    pub(super) fn cancel(&mut self, rank: usize, index: usize) {
        let member = &mut self.members[rank];
        let handle = match &member.open[index].1 {
            Open::Send(handle, number, _) | Open::Port(handle, _, Port::Send(..), Some(number)) => {
                member.sends[*number].withdrawn = true;
                *handle
            }
            Open::Recv(handle, number) | Open::Port(handle, _, Port::Recv(_), Some(number)) => {
                member.recvs[*number].withdrawn = true;
                *handle
            }
            _ => return,
        };
        self.members[rank].process.cancel(handle).expect("can be cancelled");
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
            Open::Message(..) | Open::Port(_, _, _, None) => return false,
        };
        if !process.is_done(handle) {
            return false;
        }
        let done = process.finish(handle);
        assert_eq!(done.error, None);
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
                    read(&recv.room).iter().all(|&byte| byte == 0),
                    "a cancelled receive changes nothing"
                );
            }
            (false, false) => self.got(rank, number, done.status),
        }
        true
    }

    pub(super) fn take_message(&mut self, rank: usize, index: usize) {
        let (_, Open::Message(message, (place, ..))) = self.members[rank].open[index].clone() else { return };
        let number = place / 2;
        let member = &mut self.members[rank];
        member.open.remove(index);
        let room = member.recvs[number].room.recv_buf(0, ROOM);
        let request = member.process.engine.imrecv(message, room).expect("probed");
        self.keep(rank, Open::Recv(engine_handle(request), number));
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
