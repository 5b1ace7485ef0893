//! Messages that are held back because their receiver has announcements enough, and the receiver's side of that.
//!
//! Invariants: credits that a send in phase Queued has are in its flags; sends that were let go are at the front of the
//! peer's queue, in order and before younger ones of their channel; while anything is held, the window is shut. The numbers
//! are kept by [`weft_proto::announce`].

use crate::arrive::Todo;
use crate::engine::{Engine, State};
use crate::peers::Outgoing;
use crate::requests::{ANYBODY, CREDITED, OF_ASKED, Phase, Request};
use crate::types::Selector;
use weft_proto::announce::is_counted;
use weft_proto::{AnnounceCredit, AnnounceWindow};
use weft_types::{ContextId, PeerId, Result};
use weft_wire::{Announce, Header, Kind};

/// Channels that one peer may have asked for at a time.
const CHANNELS: usize = 1 << 16;

/// Sees to it that a send may be announced; the flag of the announcement. `None`: it is to be held back.
pub(crate) fn credit(request: &mut Request, window: &mut AnnounceWindow) -> Option<u8> {
    if request.flags & CREDITED == 0 && is_counted(request.header.context()) {
        request.flags |= match window.take(request.header.context())? {
            AnnounceCredit::Usual => CREDITED,
            AnnounceCredit::Asked => CREDITED | OF_ASKED,
        };
    }
    Some(if request.flags & OF_ASKED == 0 { 0 } else { Announce::ASKED })
}

impl State {
    /// Whether a send must wait behind others of its channel that are held back.
    pub(crate) fn must_wait(&self, index: u32, slot: u32) -> bool {
        let held = &self.peers.at(index).held;
        let request = self.requests.at(slot);
        !held.is_empty()
            && request.flags & CREDITED == 0
            && held.iter().any(|(context, _)| *context == request.header.context())
    }

    /// Holds a send back.
    pub(crate) fn hold(&mut self, index: u32, slot: u32) {
        let context = self.requests.at(slot).header.context();
        let peer = self.peers.at_mut(index);
        peer.window.shut();
        match peer.held.iter_mut().find(|(other, _)| *other == context) {
            Some((_, slots)) => slots.push_back(slot),
            None => peer.held.push((context, [slot].into())),
        }
    }

    /// Lets those go that may be announced now.
    pub(crate) fn let_go(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        if peer.held.is_empty() {
            return;
        }
        let mut free = Vec::new();
        for (context, slots) in &mut peer.held {
            while peer.announce.has(*context)
                && let Some(slot) = slots.pop_front()
            {
                credit(self.requests.at_mut(slot), &mut peer.announce);
                free.push(slot);
            }
        }
        if free.is_empty() {
            return;
        }
        // Each channel is served in its turn.
        peer.held.retain(|(_, slots)| !slots.is_empty());
        if let Some(turn) = 1_usize.checked_rem(peer.held.len()) {
            peer.held.rotate_left(turn);
        }
        let requests = &self.requests;
        let goes_first = |outgoing: &Outgoing| match outgoing {
            Outgoing::Message(slot) => {
                requests.at(*slot).flags & CREDITED != 0 || requests.at(*slot).phase == Phase::Leading
            }
            Outgoing::Filler { .. } => true,
            Outgoing::Packet(_) => false,
        };
        let place = peer.queue.iter().take_while(|outgoing| goes_first(outgoing)).count();
        let behind = peer.queue.split_off(place);
        peer.queue.extend(free.into_iter().map(Outgoing::Message));
        peer.queue.extend(behind);
        self.list(index);
    }

    /// A send in phase Queued does not need its credit, if it has one.
    pub(crate) fn take_credit_back(&mut self, index: u32, slot: u32) -> &mut Request {
        let request = self.requests.at_mut(slot);
        if request.flags & CREDITED != 0 {
            let credit =
                if request.flags & OF_ASKED == 0 { AnnounceCredit::Usual } else { AnnounceCredit::Asked };
            request.flags &= !(CREDITED | OF_ASKED);
            let context = request.header.context();
            self.peers.at_mut(index).announce.put_back(credit, context);
        }
        request
    }

    /// The receiver asks for more of a channel.
    #[cold]
    pub(crate) fn more_is_wanted(&mut self, index: u32, header: Header) -> Todo {
        let peer = self.peers.at_mut(index);
        let known = peer.announce.ask(ContextId(header.id()), header.value().min(u64::from(u32::MAX)) as u32);
        if known > CHANNELS {
            return Todo::Broken("demands for more messages of too many channels");
        }
        self.let_go(index);
        Todo::Nothing
    }

    /// An announcement has come: what it was sent on, when it is counted.
    pub(crate) fn count_announcement(
        &mut self,
        index: u32,
        header: Header,
    ) -> std::result::Result<Option<AnnounceCredit>, ()> {
        let context = header.context();
        if !is_counted(context) {
            return Ok(None);
        }
        let credit = match header.flags() & Announce::ASKED {
            0 => AnnounceCredit::Usual,
            _ => AnnounceCredit::Asked,
        };
        let ledger = &mut self.peers.at_mut(index).announced;
        if !ledger.arrived(credit, context) {
            return Err(());
        }
        if ledger.is_exhausted() && !ledger.awaits(context) {
            // The sender may have no more: whoever waits here must say so.
            self.wary = true;
            self.owing.push(index);
        }
        Ok(Some(credit))
    }

    /// An announced message has met its receive, or was taken back.
    pub(crate) fn announcement_left(&mut self, index: u32, credit: Option<AnnounceCredit>) {
        let Some(credit) = credit else { return };
        let ledger = &mut self.peers.at_mut(index).announced;
        ledger.left(credit);
        if ledger.is_due() {
            self.owing.push(index);
        }
    }
}

impl Engine {
    /// An announcement that a call has just taken from the transport has met its receive.
    ///
    /// # Errors
    /// It is one more than its sender may have here, who is buried for that.
    pub(crate) fn enter_announcement(&mut self, id: PeerId, index: u32, header: Header) -> Result<()> {
        self.state.changes = self.state.changes.wrapping_add(1);
        let Ok(credit) = self.state.count_announcement(index, header) else {
            self.broken(id, "more announcements than it may");
            return Err(self.state.absence(id));
        };
        self.state.announcement_left(index, credit);
        while let Some(index) = self.state.owing.pop() {
            self.give_credit(self.state.peers.at(index).id);
        }
        Ok(())
    }

    /// As [`State::announcement_left`], where credit can be given at once.
    pub(crate) fn give_announcement_back(&mut self, id: PeerId, credit: Option<AnnounceCredit>) {
        if credit.is_none() {
            return;
        }
        let index = self.meet(id);
        self.state.announcement_left(index, credit);
        if self.state.peers.at(index).announced.is_due() {
            self.give_credit(id);
        }
    }

    /// A receive (`slot`) or probe has found nothing here. Maybe nobody is left who could send it; maybe the message is held
    /// back.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_twice(&mut self, from: Selector, slot: Option<u32>) {
        if let Some(slot) = slot
            && self.state.any_dead
        {
            self.state.fail_hopeless(slot, from);
        }
        let mut exhausted = false;
        for index in 0..self.state.peers.len() {
            let peer = self.state.peers.at(index);
            if peer.dead || !peer.announced.is_exhausted() {
                continue;
            }
            exhausted = true;
            if from.peer.is_none_or(|wanted| wanted == peer.id) && is_counted(from.context) {
                self.ask_for(index, from.context);
            }
        }
        self.state.wary = exhausted || self.state.any_dead;
    }

    /// Asks a peer that may hold messages back for those that posted receives may wait for.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask_for_what_waits(&mut self, index: u32) {
        let id = self.state.peers.at(index).id;
        let mut contexts: Vec<ContextId> = Vec::new();
        for (context, slot) in self.state.posted.iter() {
            let from = self.state.requests.at(slot).peer;
            if (from == id || from == ANYBODY) && is_counted(context) && !contexts.contains(&context) {
                contexts.push(context);
            }
        }
        for context in contexts {
            self.ask_for(index, context);
        }
    }

    fn ask_for(&mut self, index: u32, context: ContextId) {
        let peer = self.state.peers.at_mut(index);
        let id = peer.id;
        let owed = peer.announced.collect();
        if owed > 0 {
            // It has some again, and says so when they are used up.
            self.send_control(id, Header::control(Kind::Credit, 0, u64::from(owed) << 32), &[]);
            return;
        }
        let more = peer.announced.ask(context);
        if more > 0 {
            self.send_control(id, Header::control(Kind::More, context.0, u64::from(more)), &[]);
        }
    }
}
