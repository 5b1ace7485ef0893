//! The short ways: the usual case of a call in one piece, or nothing. For callers that count instructions (the C boundary's
//! `at_once.rs`), who take the general way when nothing was done.

use crate::engine::{Engine, State};
use crate::types::{Ending, Envelope, RequestId, Soon, Status};
use weft_api::{Handler, Transport};
use weft_datatype::RecvBuf;
use weft_proto::{Key, Pattern, charge};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Number of a process among those that an engine has talked to. It stays as long as the engine, and means nothing to another
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetPeer(pub u32);

impl Engine {
    /// The first part of [`Engine::send`], for callers that count instructions: a small message that may leave now. False
    /// says that nothing was sent.
    #[inline(always)]
    pub fn send_at_once(&mut self, to: Envelope, bytes: &[u8]) -> bool {
        let Some(met) = self.met(to.peer) else { return false };
        self.send_to_met_at_once(met, (to.context, to.source, to.tag), bytes)
    }

    /// The number of a process that this engine has talked to.
    #[inline(always)]
    pub fn met(&self, peer: PeerId) -> Option<MetPeer> {
        self.state.peers.index(peer).map(MetPeer)
    }

    /// As [`Engine::send_at_once`] with channel, own rank there and tag, to a process whose number the caller has kept.
    #[inline(always)]
    pub fn send_to_met_at_once(
        &mut self,
        to: MetPeer,
        (context, source, tag): (ContextId, Rank, Tag),
        bytes: &[u8],
    ) -> bool {
        let Some(peer) = self.state.peers.get_mut(to.0) else { return false };
        if bytes.len() > peer.max_inline as usize || charge(bytes.len() as u32) > peer.window.open() {
            return false;
        }
        // An open window says: connected, alive, and nothing queues that this message could overtake.
        let header = Header::new(Kind::Eager, context, source, tag);
        let sent = self.fabric.send_now(peer.route, header, bytes);
        if sent {
            peer.window.spend_open(charge(bytes.len() as u32));
        }
        sent
    }

    /// As [`Engine::send_at_once`], of a message that fits one packet of the transport.
    #[inline(never)]
    pub fn send_packet_at_once(&mut self, to: Envelope, bytes: &[u8]) -> bool {
        let header = Header::new(Kind::Eager, to.context, to.source, to.tag);
        if bytes.len() < self.state.config.offers_from as usize {
            return self.send_run_at_once(to.peer, header, bytes);
        }
        self.send_long_packet_at_once(to, header, bytes)
    }

    /// Sends a packet with the charge of a message, if it fits one and may leave now. False: nothing was sent.
    #[inline(always)]
    pub(crate) fn send_run_at_once(&mut self, to: PeerId, header: Header, bytes: &[u8]) -> bool {
        let Some(peer) = self.state.peers.find_mut(to) else { return false };
        let charge = match u32::try_from(bytes.len()) {
            Ok(length) if length <= peer.limits.single.min(peer.limits.packet) => charge(length),
            _ => return false,
        };
        if charge > peer.window.open() {
            return false;
        }
        let fill = |out: &mut [u8]| weft_datatype::buffer::copy(bytes, out);
        let sent = self.fabric.send_copy(to, header, bytes.len(), fill).is_ok();
        if sent {
            peer.window.spend_open(charge);
        }
        sent
    }

    /// As [`Engine::recv`] from a named source with a named tag, tagged with `owner`, for callers that count instructions.
    /// `None` says that nothing was done, and nothing about why: the message may be here.
    #[inline(always)]
    pub fn post_at_once(&mut self, from: Envelope, buffer: RecvBuf, owner: u32) -> Option<RequestId> {
        let state = &mut self.state;
        let key = Key::new(from.context, from.source, from.tag);
        if state.wary || !state.unexpected.is_empty() && state.is_here(key) {
            return None;
        }
        let (slot, request) = state.requests.take_free()?;
        request.post(from.peer, buffer, owner);
        let id = request.id(slot);
        request.entry = state.posted.post(Pattern::exactly(key), slot).0;
        Some(id)
    }

    /// As [`Engine::spin_recv`] from a named source with a named tag into a buffer that owns nothing, while no receive that was posted and no
    /// message that is here comes first; for callers that count instructions.
    #[inline(always)]
    pub fn receive_at_once(&mut self, from: Envelope, buffer: &mut RecvBuf, turns: u32) -> Soon {
        let wanted = Key::new(from.context, from.source, from.tag);
        let mut turn = 0;
        loop {
            let state = &mut self.state;
            if (!state.unexpected.is_empty() || !state.posted.is_empty()) && !state.nothing_precedes(wanted) {
                return Soon::Nothing;
            }
            let Some(peer) = state.peers.find_mut(from.peer) else { return Soon::Nothing };
            match self.fabric.receive(from.peer, Awaited { wanted, buffer }) {
                Some(Seen::Received(bytes)) => {
                    if peer.ledger.release(charge(bytes)) {
                        self.give_credit(from.peer);
                    }
                    let (source, tag) = (from.source, from.tag);
                    return Soon::Received(Status { source, tag, bytes: u64::from(bytes), cancelled: false });
                }
                Some(Seen::Announced) => return Soon::Announced,
                Some(Seen::Other) => return Soon::Behind,
                None => {}
            }
            turn += 1;
            if turn >= turns {
                return Soon::Nothing;
            }
            std::hint::spin_loop();
            if self.fabric.is_moved_by_progress(from.peer) {
                match self.receive_as_it_comes(from, buffer, turns - turn) {
                    Ok(soon) => return soon,
                    Err(turned) => turn += turned,
                }
            } else if turn % 32 == 0 {
                self.progress();
            }
        }
    }

    /// As [`Engine::receive_at_once`], which has just found an announcement or another packet first: credit is no reason to leave the
    /// short way.
    #[cold]
    #[inline(never)]
    pub fn receive_behind_credit(&mut self, from: Envelope, buffer: &mut RecvBuf, turns: u32) -> Soon {
        // The usual case is one packet of credit. A peer that sends nothing else is served with all others.
        for _ in 0..4 {
            match self.receive_at_once(from, buffer, turns) {
                Soon::Behind if self.takes_credit(from.peer) => {}
                soon => return soon,
            }
        }
        Soon::Behind
    }

    /// Takes a peer's next packet if it gives credit back. False: it is another one, or messages waited for it.
    fn takes_credit(&mut self, id: PeerId) -> bool {
        let Some(index) = self.state.peers.index(id) else { return false };
        let taken = self.fabric.receive(id, CreditBack { state: &mut self.state, index }) == Some(true);
        // Messages that waited for it leave with progress.
        taken && self.state.busy.is_empty()
    }

    /// Turns of [`Engine::receive_at_once`] from a peer whose packets come with progress, `turns` at most: until something has moved,
    /// there is nothing else to look at. `Err` says how many there were beyond the first.
    #[cold]
    #[inline(never)]
    fn receive_as_it_comes(&mut self, from: Envelope, buffer: &mut RecvBuf, turns: u32) -> Result<Soon, u32> {
        let wanted = Key::new(from.context, from.source, from.tag);
        for turned in 0..turns {
            let turn = self.progress_and_look(|engine| {
                match engine.fabric.receive(from.peer, Awaited { wanted, buffer })? {
                    Seen::Received(bytes) => {
                        let peer = engine.state.peers.find_mut(from.peer);
                        if peer.is_some_and(|peer| peer.ledger.release(charge(bytes))) {
                            engine.give_credit(from.peer);
                        }
                        let (source, tag) = (from.source, from.tag);
                        Some(Soon::Received(Status {
                            source,
                            tag,
                            bytes: u64::from(bytes),
                            cancelled: false,
                        }))
                    }
                    Seen::Announced => Some(Soon::Announced),
                    Seen::Other => None,
                }
            });
            match turn {
                Turn::Found(soon) => return Ok(soon),
                Turn::Moved => return Err(turned),
                Turn::Still => {}
            }
        }
        Err(turns)
    }

    /// As [`Engine::progress`], for a receive from a peer whose packets come with it: `look` sees what has just come before it is
    /// taken in for whoever asks later, which costs a copy and a place among the unexpected messages. What it returns ends the
    /// call. Now and then it is not asked, so that the packets of others are taken however fast those of one peer come.
    #[inline(always)]
    pub(crate) fn progress_and_look<R>(&mut self, look: impl FnOnce(&mut Engine) -> Option<R>) -> Turn<R> {
        if self.is_idle() {
            return Turn::Still;
        }
        let moved = self.fabric.progress();
        if moved && self.state.unexpected.is_empty() && self.looks < MOST_LOOKS {
            self.looks += 1;
            if let Some(found) = look(self) {
                self.fabric.push_out();
                self.state.changes = self.state.changes.wrapping_add(1);
                return Turn::Found(found);
            }
        }
        self.looks = 0;
        if !moved && !self.has_rest() {
            self.push_out();
            return Turn::Still;
        }
        if self.move_rest(moved) { Turn::Moved } else { Turn::Still }
    }

    /// How far a request is, for callers that count instructions.
    #[inline(always)]
    pub fn ending(&self, request: RequestId) -> Ending {
        self.state.requests.ending(request)
    }

    /// How a request ended of which [`Engine::ending`] just said that it ended well; frees it.
    #[inline(always)]
    pub fn take_well(&mut self, request: RequestId) -> Status {
        self.state.requests.take_well(request)
    }
}

impl State {
    /// Whether a receive of `wanted` may take its message from the sender's packets: no message is here for it, and no receive was posted that
    /// accepts its message, too.
    #[cold]
    #[inline(never)]
    fn nothing_precedes(&mut self, wanted: Key) -> bool {
        !self.is_here(wanted) && !self.posted.accepts(wanted)
    }

    /// Whether a message that is wanted is here already.
    #[cold]
    #[inline(never)]
    fn is_here(&mut self, wanted: Key) -> bool {
        self.unexpected.find(Pattern::exactly(wanted)).is_some()
    }
}

/// What [`Engine::progress_and_look`] did.
pub(crate) enum Turn<R> {
    /// The look found something.
    Found(R),
    /// Something moved.
    Moved,
    /// Nothing did: an earlier look would find nothing else.
    Still,
}

/// Messages that are received in a row without a look at what others have sent.
const MOST_LOOKS: u32 = 32;

/// The very message that a blocking receive waits for; any other packet stays.
struct Awaited<'a> {
    wanted: Key,
    buffer: &'a mut RecvBuf,
}

/// A packet that gives credit back; any other one stays.
struct CreditBack<'a> {
    state: &'a mut State,
    index: u32,
}

impl Handler for CreditBack<'_> {
    type Outcome = bool;

    fn handle(self, header: Header, payload: &[u8]) -> (bool, bool) {
        let is_credit = header.kind() == Some(Kind::Credit);
        if is_credit {
            self.state.handle_other(self.index, header, payload);
            self.state.changes = self.state.changes.wrapping_add(1);
        }
        (is_credit, is_credit)
    }
}

/// What [`Awaited`] saw.
enum Seen {
    /// The message, of that many bytes; it is in the buffer.
    Received(u32),
    /// Its announcement.
    Announced,
    /// Another packet.
    Other,
}

impl Handler for Awaited<'_> {
    type Outcome = Seen;

    #[inline(always)]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Seen) {
        if header.is_eager() && Key::of(header) == self.wanted && self.buffer.unpack_plain(payload) {
            return (true, Seen::Received(payload.len() as u32));
        }
        let announced = header.kind() == Some(Kind::Rts) && Key::of(header) == self.wanted;
        (false, if announced { Seen::Announced } else { Seen::Other })
    }
}
