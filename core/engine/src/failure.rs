//! Operations that end before their time: cancelled ones (section 3.8.4), and those of lost processes (design
//! section 11: every operation that depends on a lost process ends with `MPI_ERR_PROC_ABORTED`).

use crate::arrive::Todo;
use crate::engine::{Engine, State};
use crate::internal::Notice;
use crate::peers::{LeadTarget, Outgoing};
use crate::requests::{ABANDONED, ANSWERED, ANYBODY, ASKED, CANCEL_ASKED, CANCELLED, Phase, TRANSFERRING};
use crate::schedule::{Callback, PeerMap};
use crate::types::{RequestId, Selector};
use std::time::Duration;
use weft_api::Transport;
use weft_api::offload::Offload;
use weft_types::{ContextId, Error, ErrorClass, Farewell, PeerId};
use weft_wire::{Header, Kind};

/// How long a process that ends after a loss tries to get rid of its last words. Who does not take them for so long has
/// ended, or waits for nothing.
pub const LAST_WORDS: Duration = Duration::from_secs(10);

/// The same to who has ended MPI after a loss, too, and may have begun again, or whom others have lost.
const LAST_WORDS_TO_LEAVERS: Duration = Duration::from_millis(200);

/// For so long what is in flight is waited for where some whom this process has met have ended MPI, or are said to be gone: they may
/// acknowledge nothing any more. As long as a told farewell is kept back at most (`told_deaths`).
const FLIGHTS_TO_LEAVERS: Duration = Duration::from_secs(2);

/// The value of a [`Kind::Lost`] about a process that lives, and that who says so, or somebody before it, cannot reach. No farewell
/// has it, which are of 32 bits.
pub(crate) const OUT_OF_REACH: u64 = 1 << 32;

/// Value of a Cancel that only wants to be answered (see `weft_wire::header`).
const ONLY_ANSWER: u64 = 1;
/// Value of the answer.
const ONLY_ANSWERED: u64 = 2;

impl Engine {
    /// As [`Engine::release`], for a request of the program (section 3.7.3): no call can return the error of one that fails, so
    /// it is told as a [`Callback`] with the owner word.
    pub fn abandon(&mut self, request: RequestId) {
        let entry = self.state.requests.at_mut(request.slot());
        if entry.phase == Phase::Complete
            && let Some(error) = entry.error.take()
        {
            let failure = Callback::of_failure(entry.owner, error, true);
            self.state.schedules.callbacks.push_back(failure);
        }
        self.state.requests.at_mut(request.slot()).flags |= ABANDONED;
        self.release(request);
    }

    /// For a request under way that is complete for the program already (a buffered send, section 3.4): should it fail, that is
    /// told as by [`Engine::abandon`]. It stays until it is taken.
    pub fn tell_failure_of(&mut self, request: RequestId) {
        self.state.requests.at_mut(request.slot()).flags |= ABANDONED;
    }

    /// Marks a request for cancellation (section 3.8.4). It still completes: cancelled, or as if nothing had been
    /// asked. A receive is cancelled unless its message has been matched; a send is cancelled unless it is complete
    /// or a receive has started on it, for which a remote receiver is asked.
    pub fn cancel(&mut self, request: RequestId) {
        let slot = request.slot();
        let entry = self.state.requests.at_mut(slot);
        match entry.phase {
            Phase::Posted => {
                self.state.unpost(slot);
                self.state.finish_cancelled(slot);
            }
            Phase::Queued => {
                let peer = entry.peer;
                let index = self.meet(peer);
                self.state.unqueue(index, slot);
                self.state.finish_cancelled(slot);
            }
            Phase::Own => {
                let message = entry.remote;
                if let Some(entry) = self.state.messages.at(message).entry {
                    self.state.unexpected.remove(entry);
                    self.state.messages.remove(message);
                    self.state.finish_cancelled(slot);
                }
            }
            Phase::Leading => entry.flags |= CANCEL_ASKED,
            Phase::Waiting if entry.flags & (CANCEL_ASKED | ANSWERED) == 0 => {
                entry.flags |= CANCEL_ASKED;
                self.ask_to_forget(slot);
            }
            _ => {}
        }
    }

    /// Asks the receiver of a send for an answer, which comes behind all that it has said of the message before. So a send that is
    /// not complete then was not received whole when the receiver answered. Whether it was asked now: not when a
    /// question is open, nor when this end will know by itself that the message has left.
    pub fn ask_about(&mut self, request: RequestId) -> bool {
        let slot = request.slot();
        let entry = self.state.requests.at_mut(slot);
        if entry.phase != Phase::Waiting || entry.flags & (ANSWERED | ASKED) != 0 {
            return false;
        }
        entry.flags |= ASKED;
        let peer = entry.peer;
        self.send_control(peer, Header::control(Kind::Cancel, request.0, ONLY_ANSWER), &[]);
        true
    }

    /// Whether a question of [`Engine::ask_about`] is open, and the send is not complete.
    pub fn is_asked_about(&self, request: RequestId) -> bool {
        let entry = self.state.requests.at(request.slot());
        entry.phase != Phase::Complete && entry.flags & ASKED != 0
    }

    /// Asks the receiver to forget a message that no receive has started on.
    pub(crate) fn ask_to_forget(&mut self, slot: u32) {
        let id = self.state.requests.id(slot).0;
        let peer = self.state.requests.at(slot).peer;
        self.send_control(peer, Header::control(Kind::Cancel, id, 0), &[]);
    }

    /// The transport says that a process is gone, or has said farewell.
    #[cold]
    pub(crate) fn lose(&mut self, id: PeerId) {
        if !self.fabric.has_only_parted() {
            return match self.fabric.why_unreachable(id) {
                Some(why) => self.cannot_reach(id, why),
                None => self.bury(id, State::gone(id)),
            };
        }
        // What it sent before is here.
        while self.drain(id) {}
        self.take_farewell(id, self.fabric.farewell_of(id));
    }

    /// Nothing more is said to or expected from a process: whatever depends on it ends with `error`, and collectives of
    /// communicators that it belongs to.
    #[cold]
    #[inline(never)]
    pub(crate) fn bury(&mut self, id: PeerId, error: Error) {
        self.state.note_gone(id);
        if self.cut(id, &error, true) {
            self.fabric.give_up_on(id);
            self.step_streams();
        }
    }

    /// The transport takes nothing more for a process, or cannot reach it.
    #[cold]
    pub(crate) fn refused(&mut self, id: PeerId, error: Error) {
        if self.state.parting.contains(&id) {
            // An answer to what is just being taken.
            return;
        }
        self.state.parting.push(id);
        // Its last word may be here, and what it sent before it died is to be received.
        while self.drain(id) {}
        self.state.parting.retain(|&parting| parting != id);
        match self.fabric.has_ended(id) {
            true => self.part_from(id),
            false => self.bury(id, error),
        }
    }

    /// A process has ended MPI without waiting for the others, as after a loss. It has done what it has to do: a communicator
    /// with it works as long as nobody needs more of it; who does fails.
    #[cold]
    #[inline(never)]
    pub(crate) fn part_from(&mut self, id: PeerId) {
        self.state.note_parted(id, Farewell::ALL);
        self.cut(id, &State::parted(id), false);
    }

    /// Ends whatever depends on a process, and of a lost one also what waits for anybody. False when that was done before.
    fn cut(&mut self, id: PeerId, error: &Error, lost: bool) -> bool {
        let index = self.meet(id);
        let state = &mut self.state;
        let peer = state.peers.at_mut(index);
        if std::mem::replace(&mut peer.dead, true) {
            return false;
        }
        state.changes = state.changes.wrapping_add(1);
        peer.window.shut();
        peer.max_put = 0;
        peer.queue.clear();
        peer.streams.clear();
        peer.held.clear();
        peer.lead = None;
        state.any_dead = true;
        state.wary = true;
        state.losses += 1;
        let concerned: Vec<u32> = state
            .requests
            .in_use()
            .filter(|&slot| {
                let request = state.requests.at(slot);
                match request.phase {
                    Phase::Posted => request.peer == id || lost && request.peer == ANYBODY,
                    Phase::Free | Phase::Complete | Phase::Own | Phase::Plain => false,
                    _ => request.peer == id,
                }
            })
            .collect();
        state.notices.push_back(Notice::Parted);
        // Those that wait for anybody hear of the loss; if there are none, the next one does.
        if lost && !concerned.iter().any(|&slot| state.requests.at(slot).peer == ANYBODY) {
            state.lost.push(id);
        }
        for slot in concerned {
            state.end_bereaved(slot, error.clone());
        }
        true
    }

    /// Takes the last words of a process that ends after a loss a step nearer to the others. False when they have left, but for
    /// those to who has ended MPI itself, once that was tried for as long as `since` says: it may have begun again, and most
    /// likely takes nothing.
    pub fn push_last_words(&mut self, since: Duration) -> bool {
        if !self.state.busy.is_empty() {
            self.progress();
        }
        self.awaits_room(since)
    }

    /// Whether something of this process may still be on its way through the fabric, after it has left every queue here, and is
    /// worth waiting for after so long a time.
    pub fn may_be_in_flight(&self, since: Duration) -> bool {
        let has_leavers =
            !self.state.partings.is_empty() || self.state.gone.iter().any(|&id| !self.state.is_dead(id));
        let limit = if has_leavers { FLIGHTS_TO_LEAVERS } else { LAST_WORDS };
        since < limit && !self.fabric.has_left()
    }

    /// Whether something is under way to somebody, but for what is to wait no longer ([`Engine::push_last_words`]).
    fn awaits_room(&self, since: Duration) -> bool {
        let mut busy = self.state.busy.iter().map(|&index| self.state.peers.at(index));
        // Who is said to be gone takes nothing, most likely.
        let may_take = |id| !self.state.gone.contains(&id);
        busy.any(|peer| since < LAST_WORDS_TO_LEAVERS || !peer.has_parted && may_take(peer.id))
    }

    /// As [`Engine::is_quiet`], for a process that has waited for so long: it does not wait for ever for those that have ended
    /// MPI and take nothing.
    pub fn is_quiet_since(&self, since: Duration) -> bool {
        let state = &self.state;
        let quiet = state.requests.moving == 0 && state.streams.busy.is_empty() && self.fabric.has_left();
        quiet && !self.awaits_room(since)
    }

    /// This process has ended MPI: the others shall not wait for its transport, and have heard so when this returns, or were
    /// told for half a second. It may go on later all the same.
    pub fn rest(&mut self) {
        self.fabric.rest();
        while !self.fabric.has_rested() {
            self.fabric.progress();
            self.fabric.push_out();
            std::thread::yield_now();
        }
    }

    /// Tells the others that these processes are about to end; see [`Transport::declare_lost`].
    pub fn declare_lost(&mut self, peers: impl IntoIterator<Item = PeerId>) {
        peers.into_iter().for_each(|peer| self.fabric.declare_lost(peer));
    }

    /// Another lane of this process has found out that a process of another node is lost.
    pub fn hear_lost(&mut self, peer: PeerId) {
        self.fabric.hear_lost(peer);
    }

    /// The lost processes so far.
    pub fn gone(&self) -> &[PeerId] {
        &self.state.gone
    }

    /// Whether a process of the job was found lost, acknowledged or not, here or by others.
    pub fn knows_losses(&self) -> bool {
        self.state.any_dead || !self.state.gone.is_empty()
    }

    /// The lost processes of which no receive or probe from any source has heard yet. The next one that finds no message
    /// fails, because the only sender may be gone; those after it wait for the living.
    pub fn acknowledge_losses(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.state.lost)
    }

    /// The error of a probe that finds nothing when nobody is left who could send it a message, as for a receive.
    #[inline]
    pub fn hopeless(&mut self, from: Selector) -> Option<Error> {
        if !self.state.any_dead {
            return None;
        }
        self.state.culprit(from.peer, from.context).map(|culprit| self.state.absence(culprit))
    }

    /// How many processes were lost so far, acknowledged or not: a change says that [`Engine::loss_of`] has news.
    #[inline]
    pub fn losses(&self) -> u32 {
        self.state.losses
    }

    /// Whether somebody of these was lost, as this one knows or has heard.
    pub fn has_lost_of(&self, processes: &dyn PeerMap) -> bool {
        self.state.any_lost_of(processes).is_some()
    }

    /// One of these processes that was lost, as this one knows or has heard.
    #[inline]
    pub fn lost_among(&self, processes: impl IntoIterator<Item = PeerId>) -> Option<PeerId> {
        let gone = &self.state.gone;
        if gone.is_empty() { None } else { processes.into_iter().find(|process| gone.contains(process)) }
    }

    /// The error of what waits for that process on a channel, if it is known to be gone or to have left the channel.
    pub fn loss_of(&self, id: PeerId, context: ContextId) -> Option<Error> {
        (self.state.is_dead(id) || self.state.has_left(id, context)).then(|| self.state.absence(id))
    }
}

impl State {
    /// Takes a send back of which nothing has left.
    pub(crate) fn unqueue(&mut self, index: u32, slot: u32) {
        self.take_credit_back(index, slot);
        let peer = self.peers.at_mut(index);
        peer.queue.retain(|outgoing| !matches!(outgoing, Outgoing::Message(queued) if *queued == slot));
        peer.held.iter_mut().for_each(|(_, slots)| slots.retain(|&held| held != slot));
        peer.held.retain(|(_, slots)| !slots.is_empty());
        peer.reopen();
        self.let_go(index);
    }

    /// Ends a request that depends on a process that is not there.
    pub(crate) fn end_bereaved(&mut self, slot: u32, error: Error) {
        let request = self.requests.at(slot);
        if request.flags & TRANSFERRING != 0 && self.is_dead(request.peer) {
            // Who is dead writes no more. (Who has only left a part of MPI says so of what it has.)
            self.forget_parts(slot);
        }
        if self.requests.at(slot).flags & TRANSFERRING != 0 {
            // Its memory is not the program's again before the device, or its sender, has said so, which it does.
            self.reading.retain(|&reading| reading != slot);
            self.requests.at_mut(slot).error = Some(error);
            return;
        }
        match self.requests.at(slot).phase {
            Phase::Posted => self.unpost(slot),
            Phase::Reading => self.reading.retain(|&reading| reading != slot),
            _ => {}
        }
        self.finish(slot, Some(error));
    }

    /// The error of everything that depends on a lost process.
    pub(crate) fn gone(id: PeerId) -> Error {
        Error::new(
            ErrorClass::PROC_ABORTED,
            format!("process {} is gone (it crashed, was killed, or ended without MPI_Finalize)", id.0),
        )
    }

    /// The same, also of one that lives and cannot be reached from here.
    pub(crate) fn lost(&self, id: PeerId) -> Error {
        self.unreached.get(&id).cloned().unwrap_or_else(|| State::gone(id))
    }

    /// A receive that was just posted ends at once when nobody is left who could send to it.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail_hopeless(&mut self, slot: u32, from: Selector) {
        if let Some(culprit) = self.culprit(from.peer, from.context) {
            self.unpost(slot);
            let error = self.absence(culprit);
            self.finish(slot, Some(error));
        }
    }

    /// The process that is not there because of which one that waits for `wanted`, or for anybody, must not wait. Who waits for
    /// anybody hears of each loss once, and of departures when nobody is left.
    fn culprit(&mut self, wanted: Option<PeerId>, context: ContextId) -> Option<PeerId> {
        match wanted {
            None => std::mem::take(&mut self.lost).first().copied().or_else(|| self.deserter(context)),
            Some(peer) => (self.is_dead(peer) || self.has_left(peer, context)).then_some(peer),
        }
    }

    /// A process is gone, as this one knows or has heard: collectives with it are looked through at the next progress.
    #[cold]
    pub(crate) fn note_gone(&mut self, id: PeerId) {
        if !self.gone.contains(&id) {
            self.gone.push(id);
            self.notices.push_back(Notice::Lost);
        }
    }

    /// A packet that tells others, who may depend on it, that a process is lost to this one.
    pub(crate) fn word_of_loss(&self, id: PeerId) -> Header {
        let value = if self.unreached.contains_key(&id) { OUT_OF_REACH } else { 0 };
        Header::control(Kind::Lost, id.0, value)
    }

    /// Some process of these that was lost, as this one knows or has heard.
    #[inline]
    pub(crate) fn any_lost_of(&self, processes: &dyn PeerMap) -> Option<PeerId> {
        self.gone.iter().copied().find(|&peer| processes.contains(peer))
    }

    /// Whether a process is known to be gone.
    pub(crate) fn is_dead(&self, id: PeerId) -> bool {
        self.peers.is_dead(id)
    }

    fn finish_cancelled(&mut self, slot: u32) {
        let request = self.requests.at_mut(slot);
        request.flags |= CANCELLED;
        request.wanted = 0;
        self.finish(slot, None);
    }

    /// A sender asks to forget a message.
    #[cold]
    pub(crate) fn forget(&mut self, index: u32, header: Header) -> Todo {
        if header.value() == ONLY_ANSWER {
            return Todo::Reply(Header::control(Kind::CancelReply, header.id(), ONLY_ANSWERED));
        }
        let peer = self.peers.at(index).id;
        let found = self.unexpected.iter().find(|&(_, slot)| {
            let message = self.messages.at(slot);
            message.peer == peer && message.remote == header.id() && message.remote != 0
        });
        let forgotten = found.is_some();
        if let Some((entry, slot)) = found {
            let lead = self.peers.at(index).lead;
            if lead.is_some_and(|lead| lead.target == LeadTarget::Message(slot)) {
                return Todo::Broken("a cancellation in the middle of the message's lead");
            }
            self.unexpected.remove(entry);
            let (charged, credit) = (self.messages.at(slot).charged, self.messages.at(slot).credit);
            self.messages.remove(slot);
            self.peers.at_mut(index).ledger.release(charged);
            self.announcement_left(index, credit);
        }
        Todo::Reply(Header::control(Kind::CancelReply, header.id(), u64::from(forgotten)))
    }

    /// The receiver's answer. A send whose receive started meanwhile may be complete and gone: nothing to do then.
    #[cold]
    pub(crate) fn forgotten(&mut self, index: u32, header: Header) -> Todo {
        if header.value() == ONLY_ANSWERED {
            if let Some(slot) = self.own_send(index, header.id()) {
                self.requests.at_mut(slot).flags &= !ASKED;
            }
            return Todo::Nothing;
        }
        let slot = self.own_send(index, header.id()).filter(|&slot| {
            let request = self.requests.at(slot);
            request.phase == Phase::Waiting && request.flags & CANCEL_ASKED != 0
        });
        match slot {
            Some(slot) if header.value() == 1 => self.finish_cancelled(slot),
            _ => {}
        }
        Todo::Nothing
    }
}
