//! What requests wait for, told to people and to the search for deadlocks. Everything here is read from what the requests hold
//! anyway, when somebody asks; nothing is kept for it.

use crate::engine::Engine;
use crate::requests::{ANYBODY, Buffer, Phase, RELEASED, SYNCHRONOUS};
use crate::types::{RequestId, Selector};
use std::time::Duration;
use weft_api::Transport;
use weft_proto::{EntryId, Key};
use weft_types::{ContextId, PeerId, Rank, Tag};

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing: it has ended, or goes on without anybody.
    Ready,
    /// A receive waits for its message.
    Receive {
        /// What it accepts.
        from: Selector,
        /// Bytes of its buffer.
        room: u64,
    },
    /// A receive has its message's announcement, and the data are on their way.
    Arriving {
        /// The sender's process.
        peer: PeerId,
        /// The channel.
        context: ContextId,
        /// The sender's rank there.
        source: Rank,
        /// The tag.
        tag: Tag,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A send waits for the receiver.
    Send {
        /// The receiver's process.
        peer: PeerId,
        /// The channel.
        context: ContextId,
        /// The tag.
        tag: Tag,
        /// Bytes of the message.
        bytes: u64,
        /// Whether it is of synchronous mode.
        synchronous: bool,
    },
    /// A collective waits for messages of these processes.
    Collective(Running),
}

/// A collective under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its collective channel.
    pub context: ContextId,
    /// Its number there.
    pub number: u32,
    /// Whether the number is one of those for persistent collectives and constructions without a communicator.
    pub persistent: bool,
    /// The other end of each message under way; those whose part in the cells is not there.
    pub peers: Vec<PeerId>,
    /// Whether it goes on by itself: a user's operation is due, or messages have come that it has not taken.
    pub goes_on: bool,
}

/// A message that nobody has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The channel.
    pub context: ContextId,
    /// The sender's rank there.
    pub source: Rank,
    /// The tag.
    pub tag: Tag,
    /// Bytes of the message.
    pub bytes: u64,
}

impl Engine {
    /// What a request that exists waits for.
    pub fn outlook(&self, request: RequestId) -> Outlook {
        let slot = request.slot();
        let at = self.state.requests.at(slot);
        let bytes = at.length;
        match at.phase {
            Phase::Free | Phase::Complete | Phase::Reading => Outlook::Ready,
            Phase::Posted => {
                let pattern = self.state.posted.pattern(EntryId(at.entry));
                let room = match &at.buffer {
                    Buffer::Recv(buffer) => buffer.len() as u64,
                    _ => 0,
                };
                let peer = (at.peer != ANYBODY).then_some(at.peer);
                let from = Selector {
                    context: pattern.context(),
                    peer,
                    source: pattern.source(),
                    tag: pattern.tag(),
                };
                Outlook::Receive { from, room }
            }
            Phase::Receiving => Outlook::Arriving {
                peer: at.peer,
                context: at.header.context(),
                source: at.header.source(),
                tag: at.header.tag(),
                bytes,
            },
            Phase::Queued | Phase::Leading | Phase::Waiting | Phase::Streaming | Phase::Own => {
                Outlook::Send {
                    peer: at.peer,
                    context: at.header.context(),
                    tag: at.header.tag(),
                    bytes: match &at.buffer {
                        Buffer::Send(buffer) => buffer.len() as u64,
                        _ => bytes,
                    },
                    synchronous: at.flags & SYNCHRONOUS != 0,
                }
            }
            Phase::Plain => match self.collectives().find(|(of, _)| *of == request) {
                Some((_, running)) => Outlook::Collective(running),
                None => Outlook::Ready,
            },
        }
    }

    /// For how long this process has asked one that never answered; see [`Transport::unanswered`].
    pub fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        self.fabric.unanswered(peer)
    }

    /// Every collective under way, by messages or by cells.
    fn collectives(&self) -> impl Iterator<Item = (RequestId, Running)> + '_ {
        self.running().chain(self.running_in_streams())
    }

    /// Requests that finalisation waits for: everything under way but receives without a message.
    pub fn unfinished(&self) -> Vec<RequestId> {
        let requests = &self.state.requests;
        let moving = |&slot: &u32| !matches!(requests.at(slot).phase, Phase::Posted | Phase::Complete);
        requests.in_use().filter(moving).map(|slot| requests.id(slot)).collect()
    }

    /// Requests with that owner word (but for its highest bit) that have not ended: what a disconnected communicator waits for.
    pub fn open_of(&self, owner: u32) -> Vec<RequestId> {
        let requests = &self.state.requests;
        let open = |&slot: &u32| {
            requests.at(slot).owner << 1 == owner << 1 && requests.at(slot).phase != Phase::Complete
        };
        requests.in_use().filter(open).map(|slot| requests.id(slot)).collect()
    }

    /// Requests that somebody still has to take: neither released nor the executor's.
    pub fn held(&self) -> Vec<RequestId> {
        let requests = &self.state.requests;
        let held = |&slot: &u32| requests.at(slot).token == 0 && requests.at(slot).flags & RELEASED == 0;
        requests.in_use().filter(held).map(|slot| requests.id(slot)).collect()
    }

    /// The channel of a send or receive that exists.
    pub fn channel(&self, request: RequestId) -> ContextId {
        let at = self.state.requests.at(request.slot());
        match at.phase {
            Phase::Posted => self.state.posted.pattern(EntryId(at.entry)).context(),
            _ => at.header.context(),
        }
    }

    /// The processes on whose doing this one may do something by itself: each set stands for one thing under way, which goes on
    /// when any of the set acts. `None`: something here goes on without anybody.
    ///
    /// Answers that a peer's message makes this process give at once are not among them: when nothing has moved for a while,
    /// all of them are given.
    pub fn reacts_to(&self) -> Option<Vec<Vec<PeerId>>> {
        let mut sets = Vec::new();
        for (_, running) in self.collectives() {
            if running.goes_on {
                return None;
            }
            sets.push(running.peers);
        }
        let requests = &self.state.requests;
        for slot in requests.in_use() {
            let request = requests.at(slot);
            match request.phase {
                Phase::Reading => return None,
                Phase::Queued | Phase::Leading | Phase::Streaming | Phase::Receiving => {
                    sets.push(vec![request.peer]);
                }
                _ => {}
            }
        }
        sets.extend(self.state.busy.iter().map(|&index| vec![self.state.peers.at(index).id]));
        Some(sets)
    }

    /// Messages that arrived and that nobody has asked for, oldest first.
    pub fn strays(&self) -> impl Iterator<Item = Stray> + '_ {
        self.state.unexpected.iter().map(|(_, slot)| {
            let message = self.state.messages.at(slot);
            let key = Key::of(message.header);
            Stray { context: key.context, source: key.source(), tag: key.tag(), bytes: message.length }
        })
    }
}
