//! When a run fails because somebody is gone, and what a run that fails owes to the others.
//!
//! A run fails when a process of its communicator is known to be gone, whether it needs anything of that one or not: before it
//! begins, or as soon as that is known. If it failed only over what it needs, it could wait for a living partner for ever,
//! which has failed in this call or in one before and gone on without (after MPI 4.1 section 9.3 a program may do anything
//! then, also end). So all who hear of the death end, whatever others do; MPI's launcher tells all.
//!
//! Where a death is known at once only to those that exchange messages with the dead process, the others wait for *their*
//! partners, which have failed. So the run keeps a rule: **every send step of a schedule becomes exactly one message, and every
//! receive step takes exactly one**, whatever happens. In place of a message that will not leave any more goes one of a wrong
//! length (none where some bytes are expected, one byte where none are), over which the receiver fails in its turn; before it
//! goes the name of the process that was lost, if that is why, so that all fail for the same reason. In place of a receive that
//! was taken back stands one without room that nobody waits for, so that a sender of much data does not wait for ever, and so
//! that nothing is left that a later start of a persistent collective would take for its own.

use super::Active;
use super::bound::Run;
use super::remote::unlike_flag;
use crate::engine::{Engine, State};
use crate::failure::OUT_OF_REACH;
use crate::types::{Envelope, Selector, SendMode, Started};
use weft_api::Transport;
use weft_coll::{Step, StepId};
use weft_datatype::{RecvBuf, Scratch, SendBuf};
use weft_types::{Error, ErrorClass, PeerId, Rank};
use weft_wire::{Header, Kind};

impl Engine {
    /// Why the run really failed: a wrong length where a process of the communicator was lost comes from somebody who failed
    /// before, and who has ended did so over that.
    pub(super) fn explain_failure(&mut self, active: &mut Active) {
        if let Some(error) = &active.error
            && matches!(error.class(), ErrorClass::TRUNCATE | ErrorClass::PROC_ABORTED)
            && let Some(lost) = self.state.any_lost_of(&*active.run.channel.peers)
        {
            active.error = Some(self.state.lost(lost));
        } else if let Some(error) = &active.error
            && error.class() == ErrorClass::TRUNCATE
            && let channel = &active.run.channel
            && let Some((parted, _)) = self.state.parted_among(&*channel.peers, channel.context)
        {
            active.error = Some(State::parted(parted));
        } else if let Some(error) = &active.error
            && error.class() == ErrorClass::TRUNCATE
            && let Some(peer) = self.state.cut_off_among(&*active.run.channel.peers)
        {
            active.error = Some(State::cut_off(peer));
        }
    }

    /// Why a run fails before it has done anything: somebody of its communicator is gone.
    #[inline]
    pub(super) fn loss_in(&self, run: &Run) -> Option<Error> {
        if self.state.gone.is_empty() {
            return None;
        }
        self.state.any_lost_of(&*run.channel.peers).map(|lost| self.state.lost(lost))
    }

    /// Somebody is gone: ends the runs of all communicators that had him. Those that the device has it ends itself.
    #[cold]
    pub(super) fn end_bereft(&mut self) {
        for at in 0..self.state.gone.len() {
            let lost = self.state.gone[at];
            if !self.state.is_dead(lost) {
                // Only others have said so: the transport finds it out for what is no collective.
                self.mind(lost);
            }
        }
        for slot in 0..self.state.schedules.active.len() {
            let Some(active) = &self.state.schedules.active[slot] else { continue };
            if active.handed_over || active.error.is_some() {
                continue;
            }
            if let Some(error) = self.loss_in(&active.run) {
                let mut active = self.take_active(slot as u32);
                active.error = Some(error);
                self.advance(slot as u32, active);
            }
        }
    }

    /// Whoever leaves without having lost anybody has nothing under way. After a loss a process may end while a run that failed
    /// waits for its word on what was taken back, which will not come.
    #[cold]
    pub(super) fn part_from_leavers(&mut self) {
        let runs = self.state.schedules.active.iter().flatten().filter(|active| active.taken_back);
        let pending = runs.flat_map(|active| &active.vectors.pending).map(|&(_, request)| request);
        let awaited = pending.filter(|&request| self.exists(request));
        let mut leavers: Vec<PeerId> = awaited
            .map(|request| self.state.requests.at(request.slot()).peer)
            .filter(|&peer| !self.state.is_dead(peer) && self.fabric.is_gone(peer))
            .collect();
        leavers.sort_unstable();
        leavers.dedup();
        for leaver in leavers {
            self.refused(leaver, State::gone(leaver));
        }
    }

    /// Takes back what is under way, and pays for what has not begun. What is cancelled is paid for when that is known.
    pub(super) fn take_back(&mut self, active: &Active) {
        for step in active.vectors.execution.not_started() {
            self.pay(active, step);
        }
        for &(_, request) in &active.vectors.pending {
            // One that ended meanwhile is gone; its notice waits.
            if self.exists(request) {
                self.cancel(request);
            }
        }
    }

    /// Does for the others what a step that will not happen owes them.
    pub(super) fn pay(&mut self, active: &Active, step: StepId) {
        match active.run.schedule.steps()[step as usize] {
            Step::Send { to, channel, from } => self.send_wrong(active, Rank(to), channel, from.bytes),
            Step::Recv { from, channel, .. } => self.take_unwanted(active, Rank(from), channel),
            Step::Offer { to, channel, .. } => self.send_wrong(active, Rank(to), channel, 1),
            Step::Await { from, channel, .. } => self.take_unwanted(active, Rank(from), channel + 1),
            Step::Put { to: other, channel, .. } | Step::Get { from: other, channel, .. } => {
                self.take_unwanted(active, Rank(other), channel);
                self.pay_flag(active, step);
            }
            Step::Copy { .. } | Step::Reduce { .. } => {}
        }
    }

    /// As [`Engine::pay`], of a put or a get whose offer has been taken.
    pub(super) fn pay_flag(&mut self, active: &Active, step: StepId) {
        let (other, channel, expected) = match active.run.schedule.steps()[step as usize] {
            Step::Put { to, channel, from } => (to, channel, unlike_flag(from.bytes, true)),
            Step::Get { from, channel, into } => (from, channel, unlike_flag(into.bytes, false)),
            _ => return,
        };
        self.send_wrong(active, Rank(other), channel + 1, expected);
    }

    /// Names to a process whom the run has failed over, if it has.
    pub(super) fn tell_loss(&mut self, active: &Active, peer: PeerId) {
        let run = &active.run;
        let cut_off = self.state.cut_off_among(&*run.channel.peers);
        let lost = active
            .error
            .as_ref()
            .is_some_and(|error| error.class() == ErrorClass::PROC_ABORTED || cut_off.is_some());
        if lost && peer != self.state.config.me {
            // Of the dead rather than of those that cannot be reached from here: the former explains more.
            let gone = self.state.gone.iter().copied().filter(|&gone| run.channel.peers.contains(gone));
            let dead = gone.min_by_key(|gone| self.state.unreached.contains_key(gone));
            let word = if let Some(dead) = dead {
                Some(self.state.word_of_loss(dead))
            } else if let Some((parted, farewell)) =
                self.state.parted_among(&*run.channel.peers, run.channel.context)
                && parted != peer
            {
                Some(Header::control(Kind::Lost, parted.0, u64::from(farewell.to_word())))
            } else {
                cut_off.map(|cut_off| Header::control(Kind::Lost, cut_off.0, OUT_OF_REACH))
            };
            if let Some(word) = word {
                self.send_control(peer, word, &[]);
            }
        }
    }

    fn send_wrong(&mut self, active: &Active, to: Rank, channel: u16, expected: u64) {
        let run = &active.run;
        let peer: PeerId = run.channel.peers.peer(to);
        if self.state.is_dead(peer) || self.state.has_left(peer, run.channel.context) {
            return;
        }
        self.tell_loss(active, peer);
        let envelope =
            Envelope { peer, context: run.channel.context, source: run.channel.rank, tag: run.tag(channel) };
        let wrong = if expected == 0 { Scratch::new(1).send_buf(0, 1) } else { SendBuf::empty() };
        // Whoever cannot be reached needs to be told nothing.
        if let Ok(Started::Pending(request)) = self.send(envelope, SendMode::Standard, wrong) {
            self.release(request);
        }
    }

    fn take_unwanted(&mut self, active: &Active, from: Rank, channel: u16) {
        let run = &active.run;
        let peer = run.channel.peers.peer(from);
        if self.state.is_dead(peer) || self.state.has_left(peer, run.channel.context) {
            return;
        }
        let selector = Selector {
            context: run.channel.context,
            peer: Some(peer),
            source: Some(from),
            tag: Some(run.tag(channel)),
        };
        // Without a slot for it, the message stays unexpected.
        if let Ok(request) = self.recv(selector, RecvBuf::empty()) {
            self.release(request);
        }
    }
}
