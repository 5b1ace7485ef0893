//! Beginning and ending: first contact, silence, loss, rest.

use crate::flight::{Deed, Holds};
use crate::handshake::{Hello, Step, Wants};
use crate::paths::UNSAID;
use crate::peers::{NO_PAIR, State};
use crate::rail::MOST_RAILS;
use crate::transport::{MOST_POSTED, Rdma};
use std::time::Duration;
use weft_api::verbs::{
    Access, Data, Hca, MOST_WAYS, Nanos, QueuePairNumber, Remote, RemoteAddress, RemoteKey, Route, Sending,
    Work, WorkRequest,
};
use weft_types::{PeerId, Result};

/// Silence after which a peer is asked whether it is alive. With the retries, a dead one is known some seven seconds after it
/// was heard last.
pub(crate) const SILENCE: Nanos = 2_000_000_000;

/// Silence of a peer that owes an acknowledgement after which it may be that no way leads there. It may as well compute.
const OVERDUE: Nanos = 2 * SILENCE;

pub(crate) const FIRST_RETRY: Nanos = 20_000_000;
/// The pause from which on every question goes by another path than the one before, where there is one.
const UNANSWERED: Nanos = 4 * FIRST_RETRY;
const LONGEST_RETRY: Nanos = 1_000_000_000;

/// How connections send: 67 ms of silence, then seven tries; a peer without receive requests is waited for.
pub(crate) const SENDING: Sending =
    Sending { first_packet: 0, timeout: 14, retries: 7, not_ready_retries: 7, max_reads: 4 };
/// 0.64 ms.
const NOT_READY_CODE: u8 = 12;

/// Where zero bytes go.
pub(crate) const NOWHERE: RemoteAddress = RemoteAddress { address: 0, key: RemoteKey(0) };

impl<H: Hca> Rdma<H> {
    /// The device of a rail.
    pub(crate) fn hca_of(&mut self, rail: u8) -> &mut H {
        &mut self.rails[usize::from(rail)].hca
    }

    pub(crate) fn now(&self) -> Nanos {
        self.rails[0].hca.now()
    }

    /// Makes the own end of a connection.
    pub(crate) fn make_pair(&mut self, rail: u8) -> Result<QueuePairNumber> {
        self.rails[usize::from(rail)].make_pair(MOST_POSTED as u32)
    }

    /// Asks a process for a connection that it does not have yet.
    pub(crate) fn begin(&mut self, id: PeerId, channel: u8) -> Result<()> {
        self.may_be_back();
        let card = self.directory.find(id)?;
        // Each further connection prefers the rail of its number.
        let paths = match self.peers.find_channel(id, 0) {
            Some(first) if channel > 0 => self.peers.at(first).paths.clone(),
            _ => self.first_paths(id, &card),
        };
        let rail = channel.min(paths.rails() - 1);
        let pair = self.make_end(rail, channel, Wants::Connection)?;
        let now = self.now();
        // Who was never heard may compute for long before its first call.
        let state = State::Asking { next: now + FIRST_RETRY, pause: FIRST_RETRY, until: Nanos::MAX };
        let index = self.peers.insert((id, channel, card.rails()), paths, state, (rail, pair), now);
        self.asking.push(index);
        self.ask(index);
        Ok(())
    }

    /// A first packet number that differs from connection to connection, so that late packets of another find no echo.
    pub(crate) fn first_packet(&self, pair: QueuePairNumber, epoch: u32) -> u32 {
        let mixed = self.me.0.wrapping_mul(0x9e37_79b9) ^ pair.0.wrapping_mul(0x85eb_ca6b);
        (mixed ^ epoch.wrapping_mul(0xc2b2_ae35)) >> 8
    }

    pub(crate) fn say(&mut self, step: Step, index: u32) {
        let wants = self.wants(index);
        // What is not said now is said again.
        let Route::Known { mtu } = self.route_to(index) else { return };
        let peer = self.peers.at(index);
        let (rail, epoch) = (peer.rail, peer.epoch);
        // Who has no end for it names what takes datagrams.
        let pair =
            if peer.pair == NO_PAIR { self.rails[usize::from(rail)].card.datagrams } else { peer.pair };
        let Some(&path) = peer.paths.on(rail) else { return };
        let hello = Hello {
            step,
            from: self.me,
            to: peer.id,
            channel: peer.channel,
            queue_pair: pair,
            first_packet: match step {
                Step::Rest => peer.flight.messages_ever() & 0xff_ffff,
                _ => self.first_packet(pair, epoch),
            },
            mtu,
            life: self.life,
            epoch,
            wants,
            rests: self.rest.says,
            spell: self.rest.spell,
            way: path.number,
            received: peer.received,
        }
        .emit();
        let work = path.datagram();
        let mut request = WorkRequest::new(0, work, &[]);
        let parts = [&hello[..]];
        request.data = Data::Inline(&parts);
        request.signaled = false;
        // A datagram that finds no room is a lost one: it is said again.
        let own = &mut self.rails[usize::from(rail)];
        let _ = own.hca.post_send(own.card.datagrams, &request);
    }

    /// Opens the own end towards what the peer told.
    fn open_pair(&mut self, index: u32, hello: Hello) -> bool {
        let peer = self.peers.at(index);
        let (pair, rail) = (peer.pair, peer.rail);
        let Some(path) = peer.paths.on(rail) else { return false };
        let remote = Remote {
            address: path.to,
            by: path.by,
            queue_pair: hello.queue_pair,
            first_packet: hello.first_packet,
            mtu: u32::from(peer.mtu),
            max_incoming_reads: SENDING.max_reads,
            not_ready_code: NOT_READY_CODE,
            // What may be done is a matter of each region.
            access: Access::ALL,
        };
        let first_packet = self.first_packet(pair, hello.epoch);
        self.hca_of(rail).open_queue_pair(pair, Some((remote, Sending { first_packet, ..SENDING }))).is_ok()
    }

    /// A question or an answer came, by a rail.
    pub(crate) fn greeted(&mut self, rail: u8, hello: Hello) {
        if hello.to != self.me || hello.from == self.me {
            return;
        }
        let known = self.peers.find_channel(hello.from, hello.channel);
        let index = match (known, hello.step) {
            (Some(index), _) => index,
            // Without means to connect, the peer asks again until there are some, or gives up.
            (None, Step::Ask) => match self.meet(rail, hello) {
                Some(index) => index,
                None => return,
            },
            (None, _) => return, // To a question that we never asked.
        };
        let peer = self.peers.at_mut(index);
        let (mine, here) = (peer.epoch, peer.rail == rail && peer.paths.number(rail) == hello.way);
        let of_mine = here && hello.epoch == mine;
        match hello.step {
            Step::Rest => return self.peer_rests(index, rail, hello),
            Step::Heard if peer.life == hello.life || peer.life == 0 => return self.has_heard(index),
            _ => {}
        }
        if !matches!(peer.state, State::Gone) && peer.life != hello.life && peer.life != 0 {
            // The process that we knew is no more.
            return self.lose(index);
        }
        if let State::Answered { remote_pair, .. } = peer.state
            && remote_pair == hello.queue_pair
            && of_mine
            && matches!(hello.step, Step::Answer | Step::Ready | Step::Part | Step::Yield)
        {
            self.is_ready(index);
        }
        let state = self.peers.at(index).state;
        match (state, hello.step) {
            (State::Gone, Step::Ask | Step::Answer | Step::Yield) => {
                self.answer_gone(Step::Refuse, index, rail, hello.way)
            }
            (State::Gone, _) | (_, Step::Rest | Step::Heard | Step::Ready) => {}
            (State::Open { remote_pair }, Step::Part) if remote_pair == hello.queue_pair && of_mine => {
                self.asked_to_part(index);
            }
            (State::Open { remote_pair } | State::Parting { remote_pair, .. }, Step::Yield)
                if remote_pair == hello.queue_pair && of_mine =>
            {
                self.give_way(index, rail, hello);
            }
            (_, Step::Part | Step::Yield) => {}
            (_, Step::Refuse) => self.lose(index),
            // When both have asked at the same time by different paths, the one of the lower number is right.
            (State::Asking { .. }, Step::Ask)
                if hello.epoch > mine || hello.epoch == mine && (here || hello.from < self.me) =>
            {
                if !here && !self.move_to(index, rail, hello.way) {
                    return; // Nor can the question be answered there.
                }
                self.begin_with(index, hello);
            }
            (State::Asking { .. }, Step::Answer) if of_mine => self.begin_with(index, hello),
            // Our answer was lost.
            (State::Open { remote_pair } | State::Answered { remote_pair, .. }, Step::Ask)
                if remote_pair == hello.queue_pair && of_mine =>
            {
                self.say(Step::Answer, index);
            }
            // Or that we are ready was.
            (State::Open { remote_pair } | State::Parting { remote_pair, .. }, Step::Answer)
                if remote_pair == hello.queue_pair && of_mine =>
            {
                self.say(Step::Ready, index);
            }
            (State::Datagrams, Step::Ask) if of_mine => self.say(Step::Answer, index),
            (
                State::Answered { .. }
                | State::Open { .. }
                | State::Parting { .. }
                | State::Datagrams
                | State::Failing { again: true, .. },
                Step::Ask,
            ) if hello.epoch > mine => {
                // Who asks does not rest any more, unless it says so.
                if let Some(first) = self.peers.find_channel(hello.from, 0)
                    && self.is_of_now(first, hello)
                {
                    self.peers.at_mut(first).resting = hello.rests;
                }
                if !here && self.has_just_answered(index) {
                    // It asked by several paths while nobody looked here, and they all work as far as here. The first one is
                    // the one that it prefers: it is asked by that. It may have gone on asking since, by what does not work.
                    self.peers.at_mut(index).epoch =
                        hello.epoch.wrapping_add((MOST_WAYS * MOST_RAILS) as u32);
                    // An earlier question is as old as this one: what answered it would go by what does not work.
                    self.questions.retain(|&(of, ..)| of != index);
                    return self.break_off(index);
                }
                // Its end is no more. What had arrived by it is taken in before the answer.
                self.questions.retain(|&(of, ..)| of != index);
                self.questions.push((index, rail, hello));
                self.break_off(index);
            }
            // Late ones.
            _ => {}
        }
    }

    /// Whether a question was answered a moment ago, and nothing has come by that connection: too early for the peer to have
    /// found out that no answer comes.
    fn has_just_answered(&self, index: u32) -> bool {
        let peer = self.peers.at(index);
        let now = self.now();
        let made = now.saturating_sub(peer.made) < FIRST_RETRY && peer.heard <= peer.made;
        made && peer.life != 0
            && peer.channel == 0
            && !peer.resting
            && !matches!(peer.state, State::Parting { .. })
    }

    /// Answers a peer that is no more, by the path that it was heard by.
    pub(crate) fn answer_gone(&mut self, step: Step, index: u32, rail: u8, way: u8) {
        if self.take_path(index, rail, way) {
            self.peers.at_mut(index).rail = rail;
        }
        self.say(step, index);
    }

    /// Somebody asks who was not known.
    fn meet(&mut self, rail: u8, hello: Hello) -> Option<u32> {
        let card = self.directory.find(hello.from).ok()?;
        let mut paths = self.first_paths(hello.from, &card);
        if !paths.take(self.path(hello.from, &card, rail, hello.way), rail)
            || self.peers.get(hello.from).is_some_and(|peer| matches!(peer.state, State::Gone))
        {
            return None;
        }
        let pair = self.make_end(rail, hello.channel, hello.wants).ok()?;
        let now = self.now();
        let state = State::Asking { next: Nanos::MAX, pause: FIRST_RETRY, until: Nanos::MAX };
        let index =
            self.peers.insert((hello.from, hello.channel, card.rails()), paths, state, (rail, pair), now);
        self.peers.at_mut(index).epoch = hello.epoch;
        Some(index)
    }

    /// The connection that is asked for shall be by another path.
    pub(crate) fn move_to(&mut self, index: u32, rail: u8, number: u8) -> bool {
        let peer = self.peers.at(index);
        let (old_rail, old_pair, old) = (peer.rail, peer.pair, peer.paths.number(peer.rail));
        if rail >= peer.paths.rails() || !self.take_path(index, rail, number) {
            return false;
        }
        if rail == old_rail {
            // It is not opened yet, and knows no address.
            self.counts.moves += u64::from(number != old);
            return true;
        }
        let pair = match old_pair {
            NO_PAIR => NO_PAIR,
            _ => match self.make_pair(rail) {
                Ok(pair) => pair,
                Err(_) => return false,
            },
        };
        self.rails[usize::from(old_rail)].destroy_pair(old_pair);
        self.peers.forget_pair(old_rail, old_pair);
        self.counts.moves += 1;
        self.peers.has_pair(index, rail, pair);
        true
    }

    /// Connects to what the peer told.
    pub(crate) fn begin_with(&mut self, index: u32, hello: Hello) {
        let mtu = match self.route_to(index) {
            Route::Known { mtu } => mtu,
            Route::Asked => return self.hold(index, hello),
            Route::Barred => return self.cannot_open(index, hello.epoch),
        };
        let Some(datagrams) = self.agree(index, hello) else {
            let peer = self.peers.at_mut(index);
            if hello.epoch > peer.epoch {
                // It takes what is asked by an older number for late, for ever.
                peer.epoch = hello.epoch;
                self.ask(index);
            }
            return;
        };
        let peer = self.peers.at(index);
        if !peer.flight.is_empty() && self.rails[usize::from(peer.rail)].hca.is_crowded() {
            return; // No room for what is to be repeated: the question is asked again.
        }
        // Each end knows its own way only, and both must take the same.
        self.peers.at_mut(index).mtu = hello.mtu.min(mtu).min(4096) as u16;
        if !datagrams && !self.open_pair(index, hello) {
            return self.cannot_open(index, hello.epoch);
        }
        let now = self.now();
        let is_of_now = self.is_of_now(index, hello);
        let peer = self.peers.at_mut(index);
        let again = peer.life != 0;
        let until = match peer.state {
            State::Asking { until, .. } => until,
            _ => Nanos::MAX,
        };
        let remote_pair = hello.queue_pair;
        peer.state = match hello.step {
            _ if datagrams => State::Datagrams,
            Step::Ask => {
                let (next, pause) = (now.saturating_add(FIRST_RETRY), FIRST_RETRY);
                State::Answered { remote_pair, received: hello.received, next, pause, until }
            }
            _ => State::Open { remote_pair },
        };
        (peer.life, peer.epoch, peer.heard, peer.made) = (hello.life, hello.epoch, now, now);
        (peer.used, peer.late) = (now, None);
        if is_of_now {
            peer.resting = hello.rests;
        }
        peer.in_vain = if datagrams { peer.in_vain } else { 0 };
        self.asking.retain(|&asking| asking != index);
        self.like_path(index);
        self.counts.reconnections += u64::from(again);
        match self.peers.at(index).state {
            State::Answered { .. } => {
                self.asking.push(index);
                return self.say(Step::Answer, index);
            }
            State::Open { .. } => self.say(Step::Ready, index),
            _ if hello.step == Step::Ask => self.say(Step::Answer, index),
            _ => {}
        }
        self.go_on(index, hello.received);
    }

    /// The other end of a connection takes what comes, or retries shall tell.
    pub(crate) fn is_ready(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        if let State::Answered { remote_pair, received, .. } = peer.state {
            peer.state = State::Open { remote_pair };
            self.asking.retain(|&asking| asking != index);
            self.go_on(index, received);
        }
    }

    /// The device has no way by the two addresses that a question or an answer was about. Where there are others they are asked
    /// for, also by whoever was asked, for as long as after a failure: the peer may not have heard that this one works in
    /// neither direction.
    fn cannot_open(&mut self, index: u32, epoch: u32) {
        let now = self.now();
        let latest = now.saturating_add(self.patience);
        let peer = self.peers.at_mut(index);
        let (rail, old) = (peer.rail, peer.pair);
        let State::Asking { next, pause, until } = &mut peer.state else { return self.lose(index) };
        if !peer.paths.has_others() {
            return self.lose(index);
        }
        // The next question is by another path, and newer than what the peer has said.
        (*next, *pause) = (now.saturating_add(FIRST_RETRY).min(*next), UNANSWERED.max(*pause));
        *until = latest.min(*until);
        peer.epoch = peer.epoch.max(epoch);
        let bare = peer.channel == 0 && peer.flight.is_messages() && !peer.needs;
        // It may be half open, and is of use to nobody. Where there is no other, datagrams carry messages.
        self.rails[usize::from(rail)].destroy_pair(old);
        self.peers.forget_pair(rail, old);
        let made = self.make_pair(rail);
        self.peers.has_pair(index, rail, made.as_ref().map_or(NO_PAIR, |&pair| pair));
        if made.is_err() && !bare {
            return self.lose(index);
        }
        if !self.asking.contains(&index) {
            self.asking.push(index);
        }
    }

    /// Whether the way to a peer becomes datagrams, as both sides want; `None`: it is not agreed yet, and will be asked for
    /// again.
    fn agree(&mut self, index: u32, hello: Hello) -> Option<bool> {
        match (self.wants(index), hello.wants) {
            (Wants::Datagrams, Wants::MustConnect) => {
                let rail = self.peers.at(index).rail;
                let channel = self.peers.at(index).channel;
                let pair = self.make_end(rail, channel, Wants::MustConnect).ok()?;
                self.peers.has_pair(index, rail, pair);
                Some(false)
            }
            // It has not heard yet that it must, or has no means now.
            (Wants::MustConnect, Wants::Datagrams) => None,
            (Wants::Datagrams, _) | (_, Wants::Datagrams) => Some(true),
            _ => Some(false),
        }
    }

    /// Repeats questions whose answer is overdue: at first contact for ever, since a program answers when it calls MPI, and may
    /// compute for long before it does so for the first time (of deaths the network or the launcher tells); after a failure for
    /// a while.
    pub(crate) fn ask_again(&mut self) {
        let now = self.now();
        for place in (0..self.asking.len()).rev() {
            // A peer that is given up takes its other connection along.
            let Some(&index) = self.asking.get(place) else { continue };
            let peer = self.peers.at_mut(index);
            if let State::Answered { next, pause, until, .. } = &mut peer.state {
                let is_over = now >= *until;
                if is_over {
                    self.is_ready(index);
                } else if now >= *next {
                    // It is lost hardly ever, and who computes reads it later: no need to fill that device's queue.
                    *pause = pause.saturating_mul(2);
                    *next = now.saturating_add(*pause);
                    self.say(Step::Answer, index);
                }
                continue;
            }
            let State::Asking { next, pause, until } = &mut peer.state else { continue };
            if now >= *until && peer.resting && peer.channel == 0 && peer.flight.is_empty() {
                // Nothing is kept for it, and it may come back.
                *until = Nanos::MAX;
            } else if now >= *until {
                self.lose(index);
            } else if *next & UNSAID != 0 {
                let (pause, latest) = (*pause, *next & !UNSAID);
                if self.ask_unsaid(index, latest)
                    && let State::Asking { next, .. } = &mut self.peers.at_mut(index).state
                {
                    *next = now + pause;
                }
            } else if now >= *next {
                *pause = (*pause * 2).min(LONGEST_RETRY);
                *next = now + *pause;
                // An answer that does not come may be one that cannot come by this path.
                if *pause >= UNANSWERED
                    && let Some((rail, number)) = self.next_path(index)
                    && self.move_to(index, rail, number)
                {
                    self.peers.at_mut(index).epoch += 1;
                }
                self.ask(index);
            }
        }
    }

    /// Whether somebody may be asked in vain: a look at a flag or two.
    #[inline]
    pub fn asks_in_vain(&self) -> bool {
        self.overdue || !self.asking.is_empty()
    }

    /// Those from whom an answer is owed, for a way to them or for what is under way, and that were not heard for at least so
    /// long. They may compute, or what is sent to them or comes from them is lost.
    pub fn in_vain(&self, least: Nanos) -> impl Iterator<Item = (PeerId, Duration)> {
        let now = self.now();
        let of_messages = self.peers.all().iter().filter(|peer| peer.channel == 0 && !peer.resting);
        of_messages.filter_map(move |peer| {
            let since = match peer.state {
                State::Asking { .. } if peer.life == 0 => peer.made,
                State::Asking { .. } | State::Answered { .. } => peer.heard,
                State::Open { .. } | State::Parting { .. } if !peer.flight.is_empty() => peer.heard,
                State::Datagrams if peer.flight.is_busy() => peer.heard,
                _ => return None,
            };
            let silent = now.saturating_sub(since);
            (silent >= least).then(|| (peer.id, Duration::from_nanos(silent)))
        })
    }

    /// Asks connected peers that have not been heard for long whether they are alive: whoever only waits for a message would
    /// never learn that nobody is there to send it. Zero bytes written to them need no receive request and disturb nobody. Notes
    /// whether somebody owes an answer for long.
    pub(crate) fn ask_the_silent(&mut self, now: Nanos) {
        for index in 0..self.peers.all().len() as u32 {
            let peer = self.peers.at_mut(index);
            let silent = now.saturating_sub(peer.heard.max(peer.asked)) >= SILENCE;
            let open = matches!(peer.state, State::Open { .. });
            if !silent || peer.channel > 0 || peer.resting || !peer.flight.is_empty() || !open {
                continue;
            }
            let rail = usize::from(peer.rail);
            if self.rails[rail].hca.is_crowded() {
                continue;
            }
            let peer = self.peers.at_mut(index);
            peer.asked = now;
            // A question is no use.
            peer.mark = peer.mark.wrapping_add(1);
            // One that finds no room now is asked the next time.
            let _ = self.post(index, Deed::Nothing, NOTHING, Data::Segments(&[]), Holds::Question);
        }
        let overdue = self.in_vain(OVERDUE).next().is_some();
        self.overdue = overdue;
    }
}

/// A write of zero bytes.
pub(crate) const NOTHING: Work = Work::Write { to: NOWHERE, immediate: None };
