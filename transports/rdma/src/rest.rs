//! Ending: telling the others that nobody need wait for this process any more.
//!
//! Whoever has ended MPI may never look at its device again. What it acknowledged last may be lost, and then nobody will say so
//! a second time: a peer that messages go to by datagrams, or that is asked for another connection, would be waited for without
//! end. So it is told, and whoever hears that a peer *rests* says so. Rules:
//!
//! * It is said twice to everybody at once, and again in growing pauses to those who have not answered, for half a second in
//!   all. Who rests too, and does not look any more, has said so itself. Who computes is not waited for: the datagrams lie in
//!   its device. Peers with a connection are told for 63 ms, since in the end their retries tell them, after some seconds and
//!   as of a loss.
//! * It counts in every state. A connection that was about to be given back is kept, and another that is asked for is so, where
//!   something is kept for the peer, no longer than [`Rdma::set_patience`] says: who comes back later than that is refused.
//!   Where nothing is kept it is asked for once a second. A question of whoever rests is answered all the same.
//! * Every question and answer says whether its sender rests, and how often that has changed: one that crosses the word, or was
//!   sent before it and comes after it, does not undo it. A word is late, and means nothing, when its sender has sent messages
//!   since, or when it is about a way that both have left.

use crate::handshake::{Hello, Step};
use crate::peers::State;
use crate::transport::Rdma;
use weft_api::verbs::{Hca, Nanos};

/// The pause before it is said again, which doubles each time, and how often: with the one after the last, 511 ms together.
/// Where there is a connection: 63 ms.
const FIRST_PAUSE: Nanos = 1_000_000;
const REPEATS: u8 = 8;
const REPEATS_TO_CONNECTED: u8 = 5;

/// How far the word has come.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Peers that have not said that they heard it.
    unheard: Vec<u32>,
    /// When it is said again, and how often that was done.
    next: Nanos,
    repeats: u8,
    /// It is said, or the last one has heard it just now: [`Rdma::may_be_back`] ends it.
    pub(crate) says: bool,
    /// How often that began or ended: see [`Hello::spell`].
    pub(crate) spell: u32,
}

impl Rest {
    fn turn(&mut self, says: bool) {
        self.says = says;
        self.spell = self.spell.wrapping_add(1);
    }
}

impl<H: Hca> Rdma<H> {
    /// Whoever looks at its device, or wants to talk, after everybody has heard that it rests has come back.
    pub(crate) fn may_be_back(&mut self) {
        if self.rest.says && !self.is_telling() {
            self.rest.turn(false);
        }
    }

    /// Whether somebody has not heard yet that this process rests.
    pub(crate) fn is_telling(&self) -> bool {
        !self.rest.unheard.is_empty()
    }

    /// Tells all peers that this process rests.
    pub(crate) fn begin_rest(&mut self) {
        let told = (0..).zip(self.peers.all()).filter(|(_, peer)| {
            let gone = matches!(peer.state, State::Gone | State::Failing { again: false, .. });
            peer.channel == 0 && !gone && !peer.resting
        });
        let told: Vec<u32> = told.map(|(index, _)| index).collect();
        self.rest = Rest { unheard: told.clone(), next: self.now() + FIRST_PAUSE, repeats: 0, ..self.rest };
        self.rest.turn(!told.is_empty());
        for index in told {
            for _ in 0..2 {
                self.say(Step::Rest, index);
            }
            self.rails.iter_mut().for_each(|rail| _ = rail.hca.progress());
        }
        self.rails.iter_mut().for_each(|rail| _ = rail.hca.progress());
    }

    /// Says it again when it is time, to those who have not answered.
    pub(crate) fn repeat_rest(&mut self, now: Nanos) {
        if !self.is_telling() || now < self.rest.next {
            return;
        }
        if self.rest.repeats == REPEATS {
            self.rest.unheard.clear();
            return;
        }
        if self.rest.repeats == REPEATS_TO_CONNECTED {
            let peers = &self.peers;
            self.rest.unheard.retain(|&index| !matches!(peers.at(index).state, State::Open { .. }));
        }
        self.rest.repeats += 1;
        self.rest.next = now + (FIRST_PAUSE << self.rest.repeats);
        for index in self.rest.unheard.clone() {
            self.say(Step::Rest, index);
        }
    }

    /// A peer need not be told any more: it has heard, rests itself, or is gone.
    pub(crate) fn has_heard(&mut self, index: u32) {
        self.rest.unheard.retain(|&unheard| unheard != index);
    }

    /// A peer says that it rests.
    pub(crate) fn peer_rests(&mut self, index: u32, rail: u8, hello: Hello) {
        let peer = self.peers.at(index);
        let settled = !matches!(peer.state, State::Asking { .. } | State::Failing { .. } | State::Gone);
        let known = peer.life == hello.life || peer.life == 0;
        // Its count has 24 bits.
        let has_sent_since = (peer.has_come().wrapping_sub(hello.first_packet) << 8) as i32 > 0;
        if matches!(peer.state, State::Gone) {
            return self.answer_gone(Step::Heard, index, rail, hello.way);
        }
        if !known || settled && hello.epoch < peer.epoch || has_sent_since || !self.is_of_now(index, hello) {
            return;
        }
        self.take_for_resting(index);
        self.has_heard(index);
        self.say(Step::Heard, index);
    }

    /// Whether what a datagram says of resting is not older than what is known, and from now on is.
    pub(crate) fn is_of_now(&mut self, index: u32, hello: Hello) -> bool {
        let peer = self.peers.at_mut(index);
        let is_of_now = peer.life == 0 || hello.spell.wrapping_sub(peer.spell) as i32 >= 0;
        if is_of_now {
            peer.spell = hello.spell;
        }
        is_of_now
    }

    /// Nobody waits for a peer any more.
    pub(crate) fn take_for_resting(&mut self, index: u32) {
        let latest = self.now().saturating_add(self.patience);
        // What it has asked before does not undo it.
        self.questions.iter_mut().filter(|(of, ..)| *of == index).for_each(|(.., hello)| hello.rests = true);
        let peer = self.peers.at_mut(index);
        peer.resting = true;
        match &mut peer.state {
            State::Asking { until, .. }
            | State::Answered { until, .. }
            | State::Failing { again: true, until } => {
                *until = latest.min(*until);
            }
            &mut State::Parting { remote_pair, .. } => {
                // It will not ask for datagrams.
                peer.state = State::Open { remote_pair };
                self.questions.retain(|&(of, ..)| of != index);
                self.wide.keeps(index);
            }
            State::Open { .. } | State::Datagrams | State::Failing { again: false, .. } | State::Gone => {}
        }
    }
}
