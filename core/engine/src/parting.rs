//! Processes that end MPI after a loss, without waiting for the others: what they say, and what ends at the others when they
//! hear it.
//!
//! Who ends MPI may live on, and begin again with a session. Its farewell carries the number of the life that is over
//! ([`Farewell`]), and every channel has an age, so that a farewell ends exactly what waits for an answer on channels of that
//! life or older, however late it is heard. It is heard behind everything that the process sent: as a packet where the two have
//! met, and where they share memory by a word there, before which the process's packets are drained. Those of other nodes that it never met
//! hear it from the launcher, by another way: what it sent has arrived by then, or was waited for as long as
//! [`Engine::may_be_in_flight`] says, and the hearers keep the word back while their fabric brings something (`told_deaths`). So a
//! receive that has found nothing by then never will.

use crate::engine::{Engine, State};
use crate::internal::Notice;
use crate::peers::{LeadTarget, Outgoing};
use crate::requests::{ANYBODY, Phase, TAKEN, TRANSFERRING};
use crate::schedule::PeerMap;
use crate::types::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_api::Transport;
use weft_types::{Age, ContextId, Error, ErrorClass, Farewell, PeerId, Rank};
use weft_wire::{Header, Kind};

/// What is known of the processes that have parted, and of channels what decides what that means there.
#[derive(Debug, Default)]
pub(crate) struct Partings {
    /// Who has said farewell to this one.
    said: BTreeMap<PeerId, Farewell>,
    /// Whose farewell others have told of: their messages may still come, so that this only explains failures.
    heard: BTreeMap<PeerId, Farewell>,
    /// Whom others cannot reach, as they tell: this process may, so that this, too, only explains failures. Of the job's processes.
    cut_off: BTreeSet<PeerId>,
    /// By channel: what is known of communicators. Others are as `MPI_COMM_WORLD`.
    channels: BTreeMap<ContextId, Known>,
}

/// A communicator.
#[derive(Debug)]
struct Known {
    age: Age,
    /// Who can send to this process there.
    senders: Arc<dyn PeerMap>,
    number: u32,
}

/// The point-to-point channel of a communicator, of any of its channels.
const fn base(context: ContextId) -> ContextId {
    ContextId(context.0 & !(1 << 31) & !1)
}

/// Whether a channel is that of a communicator.
const fn is_communicators(context: ContextId) -> bool {
    context.0 < ContextId::PARTITION_GRANTS.0
}

impl Partings {
    /// Whether nobody has parted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    pub(crate) fn age(&self, context: ContextId) -> Age {
        self.channels.get(&base(context)).map_or(Age::WORLD, |known| known.age)
    }

    /// Others say that a process has parted.
    #[cold]
    pub(crate) fn hear(&mut self, peer: PeerId, farewell: Farewell) {
        let heard = self.heard.entry(peer).or_default();
        *heard = heard.and(farewell);
    }

    /// Others say that they cannot reach a process.
    #[cold]
    pub(crate) fn hear_of_a_cut(&mut self, peer: PeerId) {
        self.cut_off.insert(peer);
    }

    /// Whether a process has left a communicator, as it has said itself.
    #[inline]
    fn has_left(&self, peer: PeerId, context: ContextId) -> bool {
        !self.said.is_empty() && self.has_said(peer, context)
    }

    #[cold]
    fn has_said(&self, peer: PeerId, context: ContextId) -> bool {
        is_communicators(context)
            && self.said.get(&peer).is_some_and(|farewell| farewell.ends(self.age(context)))
    }
}

/// One of those members of some cells that has left them, and for whom there is no hope: `missing` says whom is waited for, one
/// bit each, and is asked again when somebody has left, because what a leaver wrote comes before its leaving. `peer`: which
/// process a member is.
pub(crate) fn left_among(
    missing: impl Fn() -> u64,
    peer: impl Fn(u32) -> PeerId,
    has_left: impl Fn(PeerId) -> bool,
) -> Option<PeerId> {
    let awaited = missing();
    let left = (0..u64::BITS).filter(|&member| awaited >> member & 1 == 1 && has_left(peer(member)));
    let left = left.fold(0, |left, member| left | 1_u64 << member);
    if left == 0 {
        return None;
    }
    let hopeless = left & missing();
    (hopeless != 0).then(|| peer(hopeless.trailing_zeros()))
}

impl Engine {
    /// A communicator is made, whose point-to-point channel is `context`; `senders`: who can send to this process there, and
    /// how many they are.
    pub fn open_channel(&mut self, context: ContextId, age: Age, senders: Arc<dyn PeerMap>, number: u32) {
        self.state.partings.channels.insert(context, Known { age, senders, number });
    }

    /// The channel of a communicator is free again.
    pub fn close_channel(&mut self, context: ContextId) {
        self.state.partings.channels.remove(&context);
    }

    /// This process is about to end MPI, or a part of it, and it or another lane of it knows of a loss. Nobody waits for the
    /// others then, and who still waits for an answer of this one would do so for ever: all that were met are told, after
    /// everything else that was sent to them, and of whom was lost before.
    pub fn farewell(&mut self, farewell: Farewell) {
        let me = self.state.config.me;
        let living = |index: &u32| !self.state.peers.at(*index).dead && self.state.peers.at(*index).id != me;
        let living: Vec<PeerId> =
            (0..self.state.peers.len()).filter(living).map(|index| self.state.peers.at(index).id).collect();
        for peer in living {
            for lost in self.state.gone.clone() {
                let word = self.state.word_of_loss(lost);
                self.send_control(peer, word, &[]);
            }
            let word = u64::from(farewell.to_word());
            self.send_control(peer, Header::control(Kind::Lost, me.0, word), &[]);
        }
    }

    /// This process has said its last words: also those see it that it never met, where they share memory.
    pub fn part(&mut self, farewell: Farewell) {
        self.fabric.set_farewell(farewell);
    }

    /// Those that have said farewell to this process, and what they have said. When there is more, [`Engine::losses`] has
    /// changed.
    pub fn farewells(&self) -> impl Iterator<Item = (PeerId, Farewell)> {
        self.state.partings.said.iter().map(|(&peer, &farewell)| (peer, farewell))
    }

    /// Another lane of this process has heard the farewell of a process of another node, which may never have met this one.
    pub fn hear_parted(&mut self, peer: PeerId, farewell: Farewell) {
        let known = self.state.partings.said.get(&peer).copied().unwrap_or_default();
        if known.and(farewell) != known {
            self.fabric.hear_parted(peer, farewell);
        }
    }

    /// A process says that it has ended MPI, or a part of it, after a loss. It may begin again, so that it is not cut off.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_farewell(&mut self, id: PeerId, farewell: Farewell) {
        if !self.state.is_dead(id) {
            self.state.note_parted(id, farewell);
        }
    }

    /// Ends what waits for an answer or a message of those that have left its channel, and what reads the memory of one, which
    /// is its program's again. What a device moves goes on. True when there was any.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_parted(&mut self) -> bool {
        let state = &mut self.state;
        let mut over: Vec<(u32, PeerId)> = Vec::new();
        for (context, slot) in state.posted.iter() {
            let from = state.requests.at(slot).peer;
            let culprit = match from == ANYBODY {
                true => state.deserter(context),
                false => state.has_left(from, context).then_some(from),
            };
            over.extend(culprit.map(|culprit| (slot, culprit)));
        }
        for slot in state.requests.in_use() {
            let request = state.requests.at(slot);
            let awaits = matches!(
                request.phase,
                Phase::Queued
                    | Phase::Leading
                    | Phase::Waiting
                    | Phase::Streaming
                    | Phase::Receiving
                    | Phase::Reading
            );
            if awaits
                && (request.flags & TRANSFERRING == 0 || state.has_parts(slot))
                && state.has_left(request.peer, request.header.context())
            {
                over.push((slot, request.peer));
            }
        }
        state.changes = state.changes.wrapping_add(u32::from(!over.is_empty()));
        for &(slot, culprit) in &over {
            self.end_request_of(slot, culprit);
        }
        !over.is_empty()
    }

    /// Ends a request under way, whatever it waits for, because somebody is not there.
    pub(crate) fn end_request_of(&mut self, slot: u32, culprit: PeerId) {
        let (phase, peer) = (self.state.requests.at(slot).phase, self.state.requests.at(slot).peer);
        match phase {
            Phase::Queued => {
                let index = self.meet(peer);
                self.state.unqueue(index, slot);
            }
            Phase::Leading => {
                let (done, lead) =
                    (self.state.requests.at(slot).moved as u32, self.state.requests.at(slot).lead);
                let index = self.meet(peer);
                let queue = self.state.peers.at_mut(index).queue.iter_mut();
                for outgoing in
                    queue.filter(|outgoing| matches!(outgoing, Outgoing::Message(of) if *of == slot))
                {
                    *outgoing = Outgoing::Filler { done, lead };
                }
            }
            Phase::Receiving | Phase::Reading => {
                if self.state.has_parts(slot) {
                    // Whoever has left one part of MPI may look at the table for another.
                    self.unshare(slot);
                }
                let lead = self.state.peers.find_mut(peer).and_then(|peer| peer.lead.as_mut());
                if let Some(lead) = lead.filter(|lead| lead.target == LeadTarget::Request(slot)) {
                    lead.target = LeadTarget::Nobody;
                }
            }
            Phase::Streaming => {
                let index = self.meet(peer);
                self.state.peers.at_mut(index).streams.retain(|&streaming| streaming != slot);
            }
            _ => {}
        }
        if self.state.requests.at(slot).flags & TAKEN != 0 {
            // It has read the message while the lead was on its way.
            self.state.finish(slot, None);
            return;
        }
        let error = self.state.absence(culprit);
        self.state.end_bereaved(slot, error);
    }

    /// Ends a request that is not complete, because of a process that [`Engine::loss_of`] tells of. For what does not travel on
    /// the channel of its communicator, so that the engine cannot know of the loss. What a device has at the moment, or a sender
    /// that copies a part of it, ends when that gives it back.
    #[cold]
    pub fn give_up(&mut self, request: RequestId, peer: PeerId) {
        let Some(slot) = self.state.requests.find(request.0) else { return };
        let entry = self.state.requests.at(slot);
        let moved_by_device = entry.flags & TRANSFERRING != 0 && !self.state.has_parts(slot);
        if entry.phase != Phase::Complete && !moved_by_device {
            self.state.changes = self.state.changes.wrapping_add(1);
            self.end_request_of(slot, peer);
        }
    }

    /// One of those members of the cells of a communicator that has left them, and for whom there is no hope: `missing` says
    /// whom is waited for, one bit each. `peer`: which process a member is.
    pub fn left_among(
        &self,
        context: ContextId,
        missing: impl Fn() -> u64,
        peer: impl Fn(u32) -> PeerId,
    ) -> Option<PeerId> {
        let age = self.state.partings.age(context);
        left_among(missing, peer, |id| self.state.is_dead(id) || self.fabric.farewell_of(id).ends(age))
    }
}

impl State {
    /// The error of everything that depends on a process that has ended MPI.
    pub(crate) fn parted(id: PeerId) -> Error {
        Error::new(
            ErrorClass::PROC_ABORTED,
            format!(
                "process {} has ended MPI: nothing can be sent to it any more, and nothing comes from it",
                id.0
            ),
        )
    }

    /// The error of a call that others have failed in because they cannot reach a process, which this one may reach.
    pub(crate) fn cut_off(id: PeerId) -> Error {
        Error::new(
            ErrorClass::OTHER,
            format!(
                "other processes of the communicator, which process {} is one of, cannot reach it and have failed in this call: \
                 mpiexec names the hosts between which nothing passes",
                id.0
            ),
        )
    }

    /// One of these processes that this one cannot reach, or others of a run, as they tell.
    #[cold]
    pub(crate) fn cut_off_among(&self, processes: &dyn PeerMap) -> Option<PeerId> {
        let all = self.unreached.keys().chain(&self.partings.cut_off);
        all.copied().find(|&peer| processes.contains(peer))
    }

    /// The error of everything that depends on a process that is not there: it has ended MPI, or is lost.
    pub(crate) fn absence(&self, id: PeerId) -> Error {
        match self.unreached.get(&id) {
            Some(error) => error.clone(),
            None if self.partings.said.contains_key(&id) => State::parted(id),
            None => State::gone(id),
        }
    }

    /// Whether a process has left a communicator, as it has said itself.
    #[inline]
    pub(crate) fn has_left(&self, id: PeerId, context: ContextId) -> bool {
        self.partings.has_left(id, context)
    }

    #[cold]
    pub(crate) fn note_parted(&mut self, id: PeerId, farewell: Farewell) {
        let said = self.partings.said.entry(id).or_default();
        *said = said.and(farewell);
        if let Some(peer) = self.peers.find_mut(id) {
            peer.has_parted = true;
        }
        // What waits later is looked at, too, and who asks for losses asks again.
        (self.any_dead, self.wary) = (true, true);
        self.losses += 1;
        self.notices.extend([Notice::Parted, Notice::Owed]);
    }

    /// One of those that could have sent to this process on a channel, when none of them is left and not all are dead: deaths
    /// are heard of once and acknowledged, and the process may send to itself.
    #[cold]
    pub(crate) fn deserter(&self, context: ContextId) -> Option<PeerId> {
        if self.partings.is_empty() || !is_communicators(context) {
            return None;
        }
        let me = self.config.me;
        let is_absent = |peer: PeerId| self.is_dead(peer) || self.has_left(peer, context);
        let first_absent = |peers: &mut dyn Iterator<Item = PeerId>| {
            let (mut first, mut has_leaver) = (None, false);
            // A message to oneself is not waited for by receives that others could have ended.
            for peer in peers.filter(|&peer| peer != me) {
                if !is_absent(peer) {
                    return None;
                }
                has_leaver |= self.has_left(peer, context);
                first = first.or(Some(peer));
            }
            first.filter(|_| has_leaver)
        };
        match self.partings.channels.get(&base(context)) {
            Some(known) => first_absent(&mut (0..known.number).map(|rank| known.senders.peer(Rank(rank)))),
            None if base(context) == ContextId::WORLD => first_absent(&mut (0..self.config.size).map(PeerId)),
            None => None,
        }
    }

    /// One of these processes that has left a communicator, as it has said itself or others tell.
    #[cold]
    pub(crate) fn parted_among(
        &self,
        processes: &dyn PeerMap,
        context: ContextId,
    ) -> Option<(PeerId, Farewell)> {
        let age = self.partings.age(context);
        let all = self.partings.said.iter().chain(&self.partings.heard);
        let mut left = all.filter(|&(&peer, farewell)| farewell.ends(age) && processes.contains(peer));
        left.next().map(|(&peer, &farewell)| (peer, farewell))
    }
}
