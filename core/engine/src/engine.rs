//! The engine's doors: see the contract in `README.md`.

use crate::at_once::Turn;
use crate::contacts::Wide;
use crate::in_vain::InVain;
use crate::internal::Notice;
use crate::landings::Landings;
use crate::messages::Messages;
use crate::paces::Stopwatch;
use crate::parting::Partings;
use crate::peers::Peers;
use crate::requests::{ABANDONED, ANYBODY, Buffer, LEASED, Phase, RELEASED, Requests, TIMED, WATCHED};
use crate::row::Row;
use crate::schedule::{Callback, Schedules};
use crate::streams::Streams;
use crate::transports::{EngineBell, Transports};
use crate::types::{
    Carrier, Completion, Early, EngineConfig, Envelope, MessageId, RequestId, Selector, SendMode, Started,
    Status,
};
use crate::zero_copy::ZeroCopies;
use std::collections::{BTreeMap, VecDeque};
use weft_api::{Handler, Transport};
use weft_datatype::{RecvBuf, SendBuf};
use weft_proto::{EntryId, Key, Pattern, Posted, ReceiveLedger, Unexpected, charge};
use weft_sim::layers::Injected;
use weft_types::{Error, PeerId, Result};
use weft_wire::{Header, Kind};

/// What part of the budget for unexpected messages a lane beside the first has. A constant, as both ends of a lane compute what a
/// sender may send, and know neither how many lanes the other process has nor how many it will open; and an eighth of what a
/// process of one thread has, as lanes stand for threads.
const LANE_BUDGET: u64 = 8;

/// One engine per process (or per simulated rank). No lock, no static, no unsafe; nothing in it blocks.
#[derive(Debug)]
pub struct Engine {
    pub(crate) fabric: Transports,
    pub(crate) state: State,
    /// Who gives no answer over the fabric.
    pub(crate) in_vain: InVain,
    /// Messages in a row that were received before others were taken in: see [`Engine::progress_and_look`].
    pub(crate) looks: u32,
}

/// Everything but the transports, so that a packet can be handled while it still lies in one of them.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: EngineConfig,
    pub(crate) peers: Peers,
    pub(crate) posted: Posted,
    pub(crate) unexpected: Unexpected,
    pub(crate) messages: Messages,
    pub(crate) requests: Requests,
    /// Where partitions land.
    pub(crate) landings: Landings,
    /// Ended requests that belong to the schedule executor.
    pub(crate) notices: VecDeque<Notice>,
    /// Collectives under way.
    pub(crate) schedules: Schedules,
    /// Peers with something to push.
    pub(crate) busy: Vec<u32>,
    pub(crate) streams: Streams,
    /// Peers to whom budget is to be given back.
    pub(crate) owing: Vec<u32>,
    /// Receives in phase Reading.
    pub(crate) reading: VecDeque<u32>,
    /// Budget used by messages to ourselves that wait for a receive.
    pub(crate) own_held: u32,
    /// Processes that were lost and whose loss was not acknowledged.
    pub(crate) lost: Vec<PeerId>,
    /// Processes lost so far.
    pub(crate) losses: u32,
    /// Whether any process was ever lost.
    pub(crate) any_dead: bool,
    /// Processes that this one or, as they said, others lost: collectives with them fail. Nothing else is believed of what
    /// others say. At most one for each process of the job, and empty as long as none is lost.
    pub(crate) gone: Vec<PeerId>,
    /// Who has left and is being heard for the last time.
    pub(crate) parting: Vec<PeerId>,
    /// Who has ended MPI after a loss, and may have begun again.
    pub(crate) partings: Partings,
    /// Processes that live and cannot be reached, and what is said of each.
    pub(crate) unreached: BTreeMap<PeerId, Error>,
    /// See [`Engine::changes`].
    pub(crate) changes: u32,
    /// Whether a watched request has ended since [`Engine::take_ended_watched`].
    pub(crate) ended_watched: bool,
    /// Whether a receive or probe that finds nothing must look twice: a process was lost, or one may hold messages back.
    pub(crate) wary: bool,
    /// What devices move.
    pub(crate) zero_copies: ZeroCopies,
    /// Peers that may lay out parts of what was sent to them ([`crate::shares`]).
    pub(crate) lenders: Vec<u32>,
    pub(crate) stopwatch: Stopwatch,
    /// Messages that were offered to be read.
    pub(crate) offers: u32,
    /// Messages that calls begin one after the other.
    pub(crate) row: Row,
}

impl Engine {
    /// An engine over `transports`.
    ///
    /// # Errors
    /// None today; a fabric may need resources later.
    pub fn new(config: EngineConfig, transports: Transports) -> Result<Engine> {
        let keeps_pinned = config.keep_registered;
        let stopwatch = Stopwatch::new(config.clock);
        let state = State {
            config,
            peers: Peers::default(),
            posted: Posted::default(),
            unexpected: Unexpected::default(),
            messages: Messages::default(),
            requests: Requests::new(),
            landings: Landings::default(),
            notices: VecDeque::new(),
            schedules: Schedules::default(),
            busy: Vec::new(),
            streams: Streams::default(),
            owing: Vec::new(),
            reading: VecDeque::new(),
            own_held: 0,
            lost: Vec::new(),
            losses: 0,
            any_dead: false,
            gone: Vec::new(),
            parting: Vec::new(),
            partings: Partings::default(),
            unreached: BTreeMap::new(),
            changes: 0,
            ended_watched: false,
            wary: false,
            zero_copies: ZeroCopies::new(keeps_pinned),
            lenders: Vec::new(),
            stopwatch,
            offers: 0,
            row: Row::default(),
        };
        Ok(Engine { fabric: transports, state, in_vain: InVain::default(), looks: 0 })
    }

    /// Starts a send of `buffer` (sections 3.2.1, 3.4, 3.7.2). Local: nothing waits for the receiver.
    ///
    /// # Errors
    /// `MPI_ERR_PROC_ABORTED` when the peer is known to be gone, `MPI_ERR_NO_MEM` when requests or the transport's
    /// resources are exhausted.
    #[inline]
    pub fn send(&mut self, to: Envelope, mode: SendMode, buffer: SendBuf) -> Result<Started> {
        if mode != SendMode::Synchronous
            && let Some(bytes) = buffer.plain()
            && self.send_at_once(to, bytes)
        {
            // A plain buffer owns nothing, so there is nothing to drop.
            std::mem::forget(buffer);
            return Ok(Started::Complete);
        }
        self.send_general(to, mode, buffer)
    }

    /// Starts a receive into `buffer` (sections 3.2.4, 3.7.2).
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when all request slots are in use.
    #[inline]
    pub fn recv(&mut self, from: Selector, buffer: RecvBuf) -> Result<RequestId> {
        let pattern = pattern(from);
        if !self.state.unexpected.is_empty()
            && let Some((entry, message)) = self.state.unexpected.find(pattern)
        {
            return self.receive_unexpected(entry, message, buffer);
        }
        let peer = from.peer.unwrap_or(ANYBODY);
        let slot = self.state.requests.insert_receive(peer, buffer)?;
        self.state.requests.at_mut(slot).entry = self.state.posted.post(pattern, slot).0;
        if self.state.wary {
            self.look_twice(from, Some(slot));
        }
        Ok(self.state.requests.id(slot))
    }

    /// Receives at once when the message is here whole: the peer's next packet, or an unexpected one. No request is
    /// made. `None` says nothing about the future; see [`Engine::poll_recv`].
    #[inline]
    pub fn try_recv(&mut self, from: Selector, buffer: &mut RecvBuf) -> Option<Completion> {
        match self.poll_recv(from, buffer) {
            Early::Received(completion) => Some(completion),
            Early::Post | Early::Nothing => None,
        }
    }

    /// The first part of a blocking receive: up to `turns` looks at the sender's ring, with progress now and then. A
    /// message that comes meanwhile is received without a request, which saves a third of the way of a small one.
    /// Afterwards, unless it was received, [`Engine::recv`] and wait.
    ///
    /// `turns`: about 10 ns each when nothing comes. 1 when ranks share cores, or when the caller holds a lock.
    #[inline]
    pub fn spin_recv(&mut self, from: Selector, buffer: &mut RecvBuf, turns: u32) -> Option<Completion> {
        let mut moved = true;
        for turn in 1..=turns {
            if moved {
                match self.poll_recv(from, buffer) {
                    Early::Received(completion) => return Some(completion),
                    Early::Post => return None,
                    Early::Nothing => {}
                }
            }
            let outside = from.peer.is_some_and(|peer| self.fabric.is_moved_by_progress(peer));
            if outside {
                let turn = self.progress_and_look(|engine| match engine.poll_recv(from, buffer) {
                    Early::Nothing => None,
                    found => Some(found),
                });
                match turn {
                    Turn::Found(Early::Received(completion)) => return Some(completion),
                    Turn::Found(Early::Post | Early::Nothing) => return None,
                    Turn::Moved => moved = true,
                    Turn::Still => moved = false,
                }
            } else if turn % 32 == 0 || !self.state.unexpected.is_empty() {
                // Where others wait here already, what is first in the ring may be another one, too.
                from.peer?;
                self.progress();
            }
        }
        None
    }

    /// As [`Engine::try_recv`], and tells a message that is announced but not whole (call [`Engine::recv`] before
    /// progress would keep it as unexpected, with a copy more) from none.
    #[inline]
    pub fn poll_recv(&mut self, from: Selector, buffer: &mut RecvBuf) -> Early {
        let wanted = pattern(from);
        if self.state.unexpected.find(wanted).is_none()
            && let Some(id) = from.peer
            && let Some(peer) = self.state.peers.find_mut(id)
        {
            let posted = &mut self.state.posted;
            let first = FirstPacket { wanted, buffer, ledger: &mut peer.ledger, posted };
            let found = self.fabric.receive(id, first).unwrap_or(Early::Nothing);
            if peer.ledger.is_due() {
                self.give_credit(id);
            }
            return found;
        }
        self.poll_recv_unexpected(from, buffer)
    }

    /// The message that a receive would get now, without taking it (section 3.8.1). Makes no progress itself.
    #[inline]
    pub fn iprobe(&mut self, from: Selector) -> Option<Status> {
        let Some((_, message)) = self.state.unexpected.find(pattern(from)) else {
            if self.state.wary {
                self.look_twice(from, None);
            }
            return None;
        };
        Some(self.state.message_status(message))
    }

    /// Whether any message is here that no receive has matched: without one, no probe finds any.
    #[inline]
    pub fn keeps_messages(&self) -> bool {
        !self.state.unexpected.is_empty()
    }

    /// As [`Engine::iprobe`], and takes the message out of matching (section 3.8.2).
    pub fn improbe(&mut self, from: Selector) -> Option<(MessageId, Status)> {
        let Some((entry, message)) = self.state.unexpected.find(pattern(from)) else {
            if self.state.wary {
                self.look_twice(from, None);
            }
            return None;
        };
        let status = self.state.message_status(message);
        let extracted = self.state.messages.extract(message)?;
        self.state.unexpected.remove(entry);
        Some((extracted, status))
    }

    /// Starts to receive a message that [`Engine::improbe`] took out (section 3.8.3).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when there is no such message (any more), `MPI_ERR_NO_MEM` when all request slots are in use.
    pub fn imrecv(&mut self, message: MessageId, buffer: RecvBuf) -> Result<RequestId> {
        let Some(slot) = self.state.messages.find(message) else {
            return Err(Error::new(
                weft_types::ErrorClass::ARG,
                format!(
                    "message handle {:#x} names no message: it was received already, or never probed",
                    message.0
                ),
            ));
        };
        self.receive_message(slot, buffer)
    }

    /// Whether `message` names a message that waits for its `imrecv`.
    pub fn message_exists(&self, message: MessageId) -> bool {
        self.state.messages.find(message).is_some()
    }

    /// Whether `request` has ended. No progress.
    #[inline]
    pub fn is_complete(&self, request: RequestId) -> bool {
        self.state.requests.at(request.slot()).phase == Phase::Complete
    }

    /// Whether a complete request ended with an error.
    #[inline]
    pub fn has_failed(&self, request: RequestId) -> bool {
        self.state.requests.at(request.slot()).error.is_some()
    }

    /// How a request ended, without freeing it (`MPI_Request_get_status`); `None` while it has not.
    pub fn peek(&self, request: RequestId) -> Option<Completion> {
        let request = self.state.requests.at(request.slot());
        (request.phase == Phase::Complete).then(|| request.completion())
    }

    /// How a complete request ended; frees it.
    ///
    /// # Panics
    /// When the request is not complete.
    #[inline]
    pub fn take(&mut self, request: RequestId) -> Completion {
        let slot = request.slot();
        let entry = self.state.requests.at_mut(slot);
        assert!(entry.phase == Phase::Complete, "only a complete request can be taken");
        let completion = entry.completion();
        self.state.requests.remove(slot);
        completion
    }

    /// Nobody will ask for the request any more (`MPI_Request_free`): it goes on to its end and is freed there.
    pub fn release(&mut self, request: RequestId) {
        let slot = request.slot();
        let entry = self.state.requests.at_mut(slot);
        if entry.phase == Phase::Complete {
            self.state.requests.remove(slot);
        } else {
            entry.flags |= RELEASED;
            self.state.zero_copies.frees_active = true;
        }
    }

    /// Sets the owner word, for error handlers (the communicator's handle).
    #[inline]
    pub fn tag_request(&mut self, request: RequestId, owner: u32) {
        self.state.requests.at_mut(request.slot()).owner = owner;
    }

    /// The owner word.
    #[inline]
    pub fn owner(&self, request: RequestId) -> u32 {
        self.state.requests.at(request.slot()).owner
    }

    /// The request in `slot` when the bits of `mask` of its generation are those of `generation`: for handles that have no room
    /// for all of it.
    #[inline(always)]
    pub fn recall(&self, slot: u32, generation: u32, mask: u32) -> Option<RequestId> {
        self.state.requests.recall(slot, generation, mask)
    }

    /// A thread is about to sleep for a request that has not ended: whoever ends it must ring (see
    /// [`Engine::take_ended_watched`]). Holds until the request ends.
    pub fn watch(&mut self, request: RequestId) {
        self.state.requests.at_mut(request.slot()).flags |= WATCHED;
    }

    /// Whether a watched request has ended since the last call: the owner then rings the bell, once it has given back the
    /// engine's lock.
    #[inline]
    pub fn take_ended_watched(&mut self) -> bool {
        std::mem::take(&mut self.state.ended_watched)
    }

    /// An engine of this process for another lane: it shares nothing with this one but the process's sleep.
    ///
    /// With `wide` it reaches other nodes.
    ///
    /// # Errors
    /// As [`Transports::lane`].
    pub fn open_lane(&self, lane: u32, wide: Option<Wide>) -> Result<Engine> {
        let config = EngineConfig {
            eager_budget_total: self.state.config.eager_budget_total / LANE_BUDGET,
            ..self.state.config.clone()
        };
        Engine::new(config, self.fabric.lane(lane, wide)?)
    }

    /// This lane, which has reached this node alone, reaches other nodes from now on.
    pub fn widen(&mut self, wide: Wide) {
        self.fabric.widen(wide);
    }

    /// Whether this lane has an end on a fabric that more lanes can have.
    pub fn takes_wide(&self) -> bool {
        self.fabric.takes_wide()
    }

    /// Whether slot and generation name a request: stale handles do not.
    #[inline]
    pub fn exists(&self, request: RequestId) -> bool {
        self.state.requests.find(request.0).is_some()
    }

    /// Says on which NUMA node the core of each lane is, as far as it is known; by lane 0, before another one is opened.
    pub fn place_lanes(&self, nodes: &[Option<u32>]) {
        self.fabric.place_lanes(nodes);
    }

    /// As [`Transports::has_lanes`].
    pub fn has_lanes(&self) -> bool {
        self.fabric.has_lanes()
    }

    /// As [`Transports::are_here`].
    pub fn are_here(&self, peers: impl Iterator<Item = PeerId>) -> bool {
        self.fabric.are_here(peers)
    }

    /// As [`Transports::injected`].
    pub fn injected(&self) -> Option<Injected> {
        self.fabric.injected()
    }

    /// What moves messages to other nodes; `None` where there are none. The same at all processes of a job, or they could not talk.
    pub fn carrier(&self) -> Option<Carrier> {
        self.fabric.carrier()
    }

    /// How often a blocked caller looks before it lets others have its core, where it has one of its own.
    pub fn looks(&self) -> u32 {
        self.fabric.looks()
    }

    /// What a blocked caller sleeps on, without the engine.
    pub fn bell(&self) -> EngineBell {
        self.fabric.bell()
    }

    /// Whether nothing is under way that finalize must wait for: sends, matched receives, packets without room.
    pub fn is_quiet(&self) -> bool {
        let state = &self.state;
        state.requests.moving == 0
            && state.busy.is_empty()
            && state.streams.busy.is_empty()
            && self.fabric.has_left()
    }

    /// Whether everything sent has arrived at its process's end.
    pub fn has_left(&self) -> bool {
        self.fabric.has_left()
    }

    /// Whether any request with that owner word (but for its highest bit) exists; for freed communicators, whose channel
    /// must not be used again while it does.
    pub fn owns_any(&self, owner: u32) -> bool {
        let requests = &self.state.requests;
        requests.in_use().any(|slot| requests.at(slot).owner << 1 == owner << 1)
    }

    /// Whether a process is known to be gone.
    pub fn is_lost(&self, peer: PeerId) -> bool {
        self.state.any_dead && self.state.is_dead(peer)
    }

    /// Whether a request with that owner word is under way that is no receive waiting for its message: what the end of a
    /// session waits for.
    pub fn moves_any(&self, owner: u32) -> bool {
        let requests = &self.state.requests;
        requests.in_use().any(|slot| {
            let request = requests.at(slot);
            let moves = !matches!(request.phase, Phase::Posted | Phase::Complete);
            moves && request.owner << 1 == owner << 1
        })
    }

    /// What this engine was told when it was made.
    pub fn config(&self) -> &EngineConfig {
        &self.state.config
    }
}

/// The next packet of the peer that a blocking receive waits for.
struct FirstPacket<'a> {
    wanted: Pattern,
    buffer: &'a mut RecvBuf,
    ledger: &'a mut ReceiveLedger,
    /// Receives that came first.
    posted: &'a mut Posted,
}

impl Handler for FirstPacket<'_> {
    type Outcome = Early;

    #[inline(always)]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Early) {
        if !header.is_eager() || !self.wanted.accepts(Key::of(header)) || payload.len() > self.buffer.len() {
            return (false, near(self.wanted, header));
        }
        if !self.posted.is_empty() && self.posted.accepts(Key::of(header)) {
            // It belongs to an older receive; progress brings it there.
            return (false, Early::Nothing);
        }
        self.buffer.unpack(0, payload);
        self.ledger.release(charge(payload.len() as u32));
        let (source, tag) = (header.source(), header.tag());
        let status = Status { source, tag, bytes: payload.len() as u64, cancelled: false };
        (true, Early::Received(Completion { status, error: None }))
    }
}

/// Whether a packet that cannot be received at once is the one that the receive waits for.
#[cold]
fn near(wanted: Pattern, header: Header) -> Early {
    let matched = matches!(header.kind(), Some(Kind::Eager | Kind::EagerSync | Kind::Rts));
    if matched && wanted.accepts(Key::of(header)) { Early::Post } else { Early::Nothing }
}

/// What `from` accepts.
#[inline]
pub(crate) fn pattern(from: Selector) -> Pattern {
    Pattern::new(from.context, from.source, from.tag)
}

impl State {
    /// Ends a request.
    #[inline]
    pub(crate) fn finish(&mut self, slot: u32, error: Option<Error>) {
        let request = self.requests.at_mut(slot);
        let waited = request.phase == Phase::Posted;
        request.phase = Phase::Complete;
        request.buffer = Buffer::None;
        if error.is_some() {
            request.error = error;
        }
        let concerns_others =
            request.token != 0 || request.flags & (RELEASED | WATCHED | LEASED | ABANDONED | TIMED) != 0;
        if !waited {
            self.requests.moving -= 1;
        }
        if concerns_others {
            self.hand_over(slot);
        }
    }

    /// An ended request that somebody sleeps for, or that nobody will take: it goes to the executor, or to nobody. One whose
    /// time counts: it is noted.
    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, slot: u32) {
        let request = self.requests.at(slot);
        if request.is_lent() {
            self.no_longer_lent(slot);
        } else if request.flags & TIMED != 0 {
            let well = request.error.is_none();
            self.way_has_ended(slot, well);
        }
        let request = self.requests.at(slot);
        self.ended_watched |= request.flags & WATCHED != 0;
        if request.flags & LEASED != 0 {
            self.zero_copies.request_ended(slot);
        }
        let stays = request.token == 0 && request.flags & RELEASED == 0;
        if stays && request.flags & ABANDONED == 0 {
            return;
        }
        if let Some(token) = std::num::NonZeroU64::new(request.token) {
            self.notices.push_back(Notice::Ended(token, request.completion()));
        } else if request.flags & ABANDONED != 0
            && let Some(error) = &request.error
        {
            self.schedules.callbacks.push_back(Callback::of_failure(request.owner, error.clone(), !stays));
        }
        if !stays {
            self.requests.remove(slot);
        }
    }

    /// Makes a request the executor's; it may have ended already.
    pub(crate) fn give_token(&mut self, slot: u32, token: std::num::NonZeroU64) {
        let request = self.requests.at_mut(slot);
        request.token = token.get();
        if request.phase == Phase::Complete {
            self.hand_over(slot);
        }
    }

    /// A receive that waits no longer: its message is here.
    pub(crate) fn unpost(&mut self, slot: u32) {
        let entry = EntryId(self.requests.at(slot).entry);
        self.posted.remove(entry);
    }

    fn message_status(&self, message: u32) -> Status {
        let message = self.messages.at(message);
        Status {
            source: message.header.source(),
            tag: message.header.tag(),
            bytes: message.length,
            cancelled: false,
        }
    }
}
