//! The target's part: taking messages in, executing them in order, answering.

use super::lines::{Behind, End, Line};
use super::lock::{Lock, LockKind, Waiting};
use super::message::{Kind, Message};
use super::{Counts, Window};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weft_datatype::{RecvBuf, Scratch, SendBuf};
use weft_engine::{Engine, Envelope, RequestId, Selector, SendMode, Started};
use weft_types::{Error, ErrorClass, Rank, Tag};

/// What others have asked of this process.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Messages in the order of their arrival; those of one origin are executed in order.
    inbox: VecDeque<Arrival>,
    /// Large data on their way between this memory and an origin's, in either direction.
    data: Vec<(u32, RequestId)>,
    /// What waits for such data.
    after_data: Vec<(u32, After)>,
    /// The first thing that went wrong with an origin's messages and was not told yet.
    pub(super) failures: Vec<(u32, ErrorClass)>,
    pub(super) lock: Lock,
    /// Whether this process itself holds the lock of its window.
    pub(super) own_lock: bool,
    /// Exposure epochs opened for this process, not used yet.
    pub(super) posts: Counts,
    /// Access epochs to this process that are over.
    pub(super) completes: Counts,
    /// What waits for the own device, and behind what does, by origin.
    pub(super) lines: BTreeMap<u32, Line>,
}

#[derive(Debug)]
struct Arrival {
    source: u32,
    request: RequestId,
    room: Arc<Scratch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Answer(u32),
    Unlock(u32),
    Complete,
}

/// Bytes of an answer: the class of the first error, or 0.
pub(super) const ANSWER: usize = 4;

/// The tag of what goes back to the origin of message `id`.
pub(super) const fn tag_back(id: u32) -> Tag {
    Tag((id as i32) << 1 | 1)
}

/// The tag of data that belong to message `id`.
pub(super) const fn tag_forth(id: u32) -> Tag {
    Tag((id as i32) << 1)
}

impl Window {
    /// Takes messages in and executes what can be; true when something happened.
    pub(super) fn serve(&mut self, engine: &mut Engine) -> bool {
        let mut moved = false;
        let messages = Selector { context: self.context, peer: None, source: None, tag: Some(Tag(0)) };
        while let Some((message, status)) = engine.improbe(messages) {
            let room = Scratch::new(status.bytes as usize);
            let buffer = room.recv_buf(0, status.bytes as usize);
            let Ok(request) = engine.imrecv(message, buffer) else { break };
            if status.source.0 >= self.group.size() {
                // From no member: nobody waits for an answer.
                engine.release(request);
                continue;
            }
            self.incoming.inbox.push_back(Arrival { source: status.source.0, request, room });
            moved = true;
        }
        while let Some(first) = self.incoming.inbox.front() {
            if !engine.is_complete(first.request) {
                break;
            }
            let Some(arrival) = self.incoming.inbox.pop_front() else { break };
            moved = true;
            if engine.take(arrival.request).error.is_none() {
                match self.is_in_line(arrival.source) {
                    true => self.wait_in_line(engine, arrival.source, Behind::Message(arrival.room)),
                    false => self.read(engine, arrival.source, &arrival.room),
                }
            }
        }
        moved | self.place_data(engine)
    }

    /// Reads and executes one message of another process.
    pub(super) fn read(&mut self, engine: &mut Engine, source: u32, room: &Arc<Scratch>) {
        let whole = room.send_buf(0, room.len());
        match whole.as_slice().and_then(Message::parse) {
            Some(message) => self.obey(engine, source, &message),
            // What it would be answered cannot be known: it and whoever waits for it hear that it is lost.
            None => engine.broken(self.group.peer(Rank(source)), "a one-sided message that is none"),
        }
    }

    fn place_data(&mut self, engine: &mut Engine) -> bool {
        if self.incoming.data.is_empty() {
            return false;
        }
        let before = self.incoming.data.len();
        let failures = &mut self.incoming.failures;
        self.incoming.data.retain(|&(source, request)| {
            let here = engine.is_complete(request);
            if here && let Some(error) = engine.take(request).error {
                failures.push((source, error.class()));
            }
            !here
        });
        if self.incoming.data.len() == before {
            return false;
        }
        let due = std::mem::take(&mut self.incoming.after_data);
        for (source, after) in due {
            self.after_data(engine, source, after);
        }
        true
    }

    /// Does something now, or when the data of `source` that are on their way are in place.
    fn after_data(&mut self, engine: &mut Engine, source: u32, after: After) {
        if self.incoming.data.iter().any(|&(other, _)| other == source) {
            self.incoming.after_data.push((source, after));
            return;
        }
        match after {
            After::Answer(id) => self.answer(engine, source, id),
            After::Unlock(id) => {
                if !self.incoming.lock.release(source) {
                    self.incoming.failures.push((source, ErrorClass::RMA_SYNC));
                }
                self.answer(engine, source, id);
                self.grant_locks(engine);
            }
            After::Complete => *self.incoming.completes.entry(source).or_default() += 1,
        }
    }

    /// Executes one message of another process.
    fn obey(&mut self, engine: &mut Engine, source: u32, message: &Message<'_>) {
        match self.exposure.for_device(message) {
            Ok(None) => {}
            Ok(Some(changing)) => {
                let end = match message.kind {
                    Kind::Accumulate => End::Later,
                    _ => End::Back(message.id),
                };
                return self.change_in_line(source, changing, end);
            }
            Err(error) => return self.refuse(engine, source, message, &error),
        }
        match message.kind {
            Kind::Put | Kind::Accumulate => {
                if let Err(error) = self.exposure.execute(message) {
                    self.incoming.failures.push((source, error.class()));
                }
            }
            Kind::PutFar => self.expect_data(engine, source, message),
            Kind::Get => {
                // Without the right to the data the origin gets too few of them, which tells it.
                let data = self.exposure.data(message).unwrap_or_else(|_| SendBuf::empty());
                // Until they are there, the memory is read: the origin's epoch is not over for this process, and nobody else
                // gets its lock.
                if let Some(request) = self.start_back(engine, source, message.id, data) {
                    self.incoming.data.push((source, request));
                }
            }
            Kind::GetAccumulate | Kind::CompareAndSwap => {
                let old = self.exposure.execute(message).unwrap_or_default();
                self.send_back(engine, source, message.id, copy_of(&old));
            }
            Kind::Flush => self.after_data(engine, source, After::Answer(message.id)),
            Kind::Unlock => self.after_data(engine, source, After::Unlock(message.id)),
            Kind::Complete => self.after_data(engine, source, After::Complete),
            Kind::Lock => {
                let kind = if message.op == 1 { LockKind::Exclusive } else { LockKind::Shared };
                self.incoming.lock.ask(Waiting { origin: source, kind, id: message.id });
                self.grant_locks(engine);
            }
            Kind::Post => *self.incoming.posts.entry(source).or_default() += 1,
        }
    }

    /// An accumulating message could not be executed.
    fn refuse(&mut self, engine: &mut Engine, source: u32, message: &Message<'_>, error: &Error) {
        match message.kind {
            Kind::Accumulate => self.incoming.failures.push((source, error.class())),
            // Too few data tell the origin.
            _ => self.send_back(engine, source, message.id, copy_of(&[])),
        }
    }

    fn expect_data(&mut self, engine: &mut Engine, source: u32, message: &Message<'_>) {
        let room = self.exposure.room(message).unwrap_or_else(|error| {
            self.incoming.failures.push((source, error.class()));
            RecvBuf::empty()
        });
        let rank = Rank(source);
        let selector = Selector {
            context: self.context,
            peer: Some(self.group.peer(rank)),
            source: Some(rank),
            tag: Some(tag_forth(message.id)),
        };
        match engine.recv(selector, room) {
            Ok(request) => self.incoming.data.push((source, request)),
            Err(error) => self.incoming.failures.push((source, error.class())),
        }
    }

    /// Gives the lock to whoever may have it.
    pub(super) fn grant_locks(&mut self, engine: &mut Engine) {
        while let Some(granted) = self.incoming.lock.grant() {
            if granted.origin == self.rank.0 {
                self.incoming.own_lock = true;
            } else {
                self.answer(engine, granted.origin, granted.id);
            }
        }
    }

    fn answer(&mut self, engine: &mut Engine, source: u32, id: u32) {
        let failures = &mut self.incoming.failures;
        let class = failures.iter().find(|(other, _)| *other == source).map_or(0, |(_, class)| class.code());
        failures.retain(|(other, _)| *other != source);
        self.send_back(engine, source, id, copy_of(&class.to_le_bytes()));
    }

    /// Sends what has its own memory.
    pub(super) fn send_back(&mut self, engine: &mut Engine, source: u32, id: u32, data: SendBuf) {
        if let Some(request) = self.start_back(engine, source, id, data) {
            engine.release(request);
        }
    }

    /// Begins to send; the request of data that have not left yet.
    fn start_back(&mut self, engine: &mut Engine, source: u32, id: u32, data: SendBuf) -> Option<RequestId> {
        let to = Envelope {
            peer: self.group.peer(Rank(source)),
            context: self.context,
            source: self.rank,
            tag: tag_back(id),
        };
        // When the origin is gone, nobody waits for the answer.
        match engine.send(to, SendMode::Standard, data) {
            Ok(Started::Pending(request)) => Some(request),
            _ => None,
        }
    }

    /// Lets go of data of which this process has not heard yet that they are over, before the window goes: all members have come to
    /// its end, so they are.
    pub(super) fn release_data(&mut self, engine: &mut Engine) {
        self.release_lines(engine);
        self.incoming.data.drain(..).for_each(|(_, request)| engine.release(request));
    }
}

/// A copy of bytes that lives as long as it is needed.
pub(super) fn copy_of(bytes: &[u8]) -> SendBuf {
    let copy = Scratch::new(bytes.len());
    copy.recv_buf(0, bytes.len()).unpack(0, bytes);
    copy.send_buf(0, bytes.len())
}
