//! Jobs that are wider than connections are worth: messages to the peers beyond go by datagrams.
//!
//! A connection takes memory, of this process and of the device; a peer that messages go to by datagrams ([`crate::stream`])
//! takes next to none. So there are at most so many connections ([`Rdma::set_connections`]):
//!
//! * Whoever is met when there are enough is talked to by datagrams, and so is everybody when the device has no queue pair left.
//! * Who talks much gets a connection when there is room. So does who gets or puts, room or not, since registered memory is
//!   reached by connections alone: the bound is soft there.
//! * A connection that neither end has used for two seconds is given back when others want one, the longest unused first. Who
//!   is asked for it has nothing under way, stops posting and *yields*; the other stops too, ends its queue pair when all of
//!   its own is there, and asks for datagrams; then the first ends its own and answers. So no operation is ever cut off, and no
//!   queue pair waits for one that is gone.
//!
//! Changing the way is what follows a failed connection as well ([`crate::recovery`]): a new epoch, before which each tells how
//! many messages it ever received. So no change loses, doubles or reorders anything. Who asks for it goes on taking what comes by
//! datagrams until it is answered ([`Late`]), since their sender may compute and not look: all of that comes once more by the
//! next way, for the number that was told stays, and is dropped.

use crate::contact::FIRST_RETRY;
use crate::flight::Deed;
use crate::handshake::{Hello, Step, Wants};
use crate::letter::Letter;
use crate::peers::{Arrived, NO_PAIR, Peer, State};
use crate::posting::header_bytes;
use crate::rail::{Rail, Rails, buffer};
use crate::slots::Slots;
use crate::stream::{Out, Stream};
use crate::transport::{HEADER_BYTES, Rdma, SLOT_BYTES};
use std::collections::VecDeque;
use weft_api::Refused;
use weft_api::verbs::{Data, Hca, HcaLimits, Nanos, WorkRequest};
use weft_api::zero_copy::{Completed, Outcome, Token};
use weft_wire::Header;

/// Memory that connections may take, unless somebody says how many there may be.
const CONNECTION_BYTES: u64 = 64 << 20;
/// Of the device's queue pairs, one process takes no more than this part: others of the node want some, too.
const SHARE: u32 = 64;
const FEWEST: u32 = 16;
/// Messages of both directions by datagrams after which a peer is one that talks much.
const TALKS: u32 = 64;
/// Doublings of that number.
const MOST_IN_VAIN: u8 = 14;
/// How long nobody has used a connection that is given back.
const UNUSED: Nanos = 2_000_000_000;
/// Connections that are asked to be given back in one turn.
const PARTED_AT_ONCE: usize = 16;
/// Buffers of pieces that wait for the device, and their bytes.
const LETTERS: u32 = 64;
const LETTER_BYTES: u32 = 4096;
/// Silences in a row after which another path is tried: some 300 ms.
const SILENCES: u32 = 4;

/// What the crate's end keeps of all this.
#[derive(Debug)]
pub(crate) struct Wide {
    /// Most connections.
    pub(crate) most: u32,
    /// Peers whose streams have something under way, and when they are looked at next.
    talking: Vec<u32>,
    pub(crate) look_at: Nanos,
    /// Connections that are about to be given back.
    parting: Vec<u32>,
    /// Somebody wants a connection for whom there is no room.
    wanted: usize,
    /// The unused connection that was asked for last: since when it was unused, and its place.
    parted: (Nanos, u32),
    /// Messages that have come.
    letters: VecDeque<(u32, Box<[u8]>)>,
    /// Where a datagram is while it is looked at.
    pub(crate) piece: Vec<u8>,
}

/// A way by datagrams that this end has left. Until another is agreed on, what comes by it is still taken, and not acknowledged
/// any more: whoever sent it may compute for long and not send it again before.
#[derive(Debug)]
pub(crate) struct Late {
    stream: Stream,
    epoch: u32,
    rail: u8,
}

impl Late {
    /// The way of a peer, whose next one is not begun yet.
    pub(crate) fn of(stream: Stream, peer: &Peer) -> Box<Late> {
        Box::new(Late { stream, epoch: peer.epoch, rail: peer.rail })
    }
}

/// How many connections of one device a process has at most, unless somebody says how many.
pub fn most_connections(limits: &HcaLimits) -> u32 {
    let fit = CONNECTION_BYTES / u64::from(limits.queue_pair_bytes.max(1));
    (fit.min(u64::from(limits.max_queue_pairs / SHARE)) as u32).max(FEWEST)
}

impl Wide {
    pub(crate) fn new<H: Hca>(rails: &Rails<H>) -> Wide {
        let most = rails.iter().map(|rail| most_connections(&rail.hca.limits()));
        Wide {
            most: most.sum(),
            talking: Vec::new(),
            look_at: Nanos::MAX,
            parting: Vec::new(),
            wanted: 0,
            parted: (0, 0),
            letters: VecDeque::new(),
            piece: Vec::new(),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        !(self.talking.is_empty() && self.parting.is_empty())
    }

    /// A connection is not given back after all.
    pub(crate) fn keeps(&mut self, index: u32) {
        self.parting.retain(|&parting| parting != index);
    }
}

impl<H: Hca> Rdma<H> {
    /// Sets how many connections there may be before messages to further peers go by datagrams; 0: what fits some 64 MiB, and a
    /// 64th of the device's queue pairs.
    pub fn set_connections(&mut self, most: u32) {
        self.wide.most = if most > 0 { most } else { Wide::new(&self.rails).most };
    }

    /// Connections that there are, and how many there may be before others go by datagrams.
    pub fn connections(&self) -> (u32, u32) {
        (self.rails.iter().map(|rail| rail.pairs).sum(), self.wide.most)
    }

    pub(crate) fn has_room_for_connection(&self) -> bool {
        let (open, most) = self.connections();
        open < most
    }

    /// What a new way to a peer shall be, and its own end: none, when it is datagrams.
    pub(crate) fn make_end(
        &mut self,
        rail: u8,
        channel: u8,
        theirs: Wants,
    ) -> weft_types::Result<weft_api::verbs::QueuePairNumber> {
        let must = channel > 0 || theirs == Wants::MustConnect;
        if !must && (theirs == Wants::Datagrams || !self.has_room_for_connection()) {
            self.wide.wanted += usize::from(theirs != Wants::Datagrams);
            return Ok(NO_PAIR);
        }
        match self.make_pair(rail) {
            Ok(pair) => Ok(pair),
            // The device has no more.
            Err(_) if !must => Ok(NO_PAIR),
            Err(why) => {
                self.wide.wanted += 1;
                Err(why)
            }
        }
    }

    /// What this end wants the way to be.
    pub(crate) fn wants(&self, index: u32) -> Wants {
        let peer = self.peers.at(index);
        match peer.pair {
            NO_PAIR => Wants::Datagrams,
            _ if peer.needs || peer.channel > 0 => Wants::MustConnect,
            _ => Wants::Connection,
        }
    }

    /// Both have agreed on datagrams, and what of the flight the peer has had is taken out of it.
    pub(crate) fn begin_stream(&mut self, index: u32) {
        let peer = self.peers.at(index);
        let (rail, old) = (usize::from(peer.rail), peer.pair);
        let mtu = u32::from(peer.mtu).min(LETTER_BYTES);
        // Numbers differ from way to way, so that a late datagram of another is hardly mistaken.
        let mut stream = Stream::new(mtu - Letter::BYTES as u32, SLOT_BYTES, peer.epoch << 16);
        self.rails[rail].destroy_pair(old);
        self.peers.forget_pair(rail as u8, old);
        let peer = self.peers.at_mut(index);
        peer.pair = NO_PAIR;
        peer.flight.lengths().for_each(|bytes| stream.queue(bytes));
        peer.stream = Some(Box::new(stream));
        peer.state = State::Datagrams;
        let now = self.now();
        self.tend(index, now);
    }

    /// Takes no message for a peer before those ahead of it have left: whoever sent it may compute for long after the call that
    /// does, and it would lie here. An acknowledgement makes room; it is asked for.
    pub(crate) fn leaves_at_once(&mut self, index: u32, bytes: usize) -> std::result::Result<u32, Refused> {
        let Some(stream) = &mut self.peers.at_mut(index).stream else { return Ok(index) };
        if stream.takes(bytes as u32) {
            return Ok(index);
        }
        stream.hurry();
        let now = self.now();
        self.tend(index, now);
        Err(Refused::Full)
    }

    /// Sends a message of a few bytes by datagrams.
    pub(crate) fn send_letter(&mut self, index: u32, header: Header, payload: &[u8]) {
        let header = header_bytes(header);
        self.queue_letter(index, Data::Inline(&[&header, payload]), crate::flight::Holds::Nothing);
    }

    /// Sends a message by datagrams; its bytes stay in the flight.
    pub(crate) fn queue_letter(&mut self, index: u32, data: Data<'_>, holds: crate::flight::Holds) {
        let peer = self.peers.at_mut(index);
        peer.flight.push(holds, true, Deed::Message, &data);
        let bytes = match data {
            Data::Inline(parts) => parts.iter().map(|part| part.len() as u32).sum(),
            Data::Segments(segments) => segments.iter().map(|segment| segment.length).sum(),
        };
        let Some(stream) = &mut peer.stream else { unreachable!("the way is datagrams") };
        stream.queue(bytes);
        self.counts.letters += 1;
        let now = self.now();
        self.tend(index, now);
    }

    /// Lets leave what may leave to a peer.
    fn tend(&mut self, index: u32, now: Nanos) {
        let Some(stream) = &mut self.peers.at_mut(index).stream else { return };
        stream.tick(now);
        let mut blocked = false;
        while let Some(stream) = &self.peers.at(index).stream
            && let Some(out) = stream.next(now)
        {
            if !self.post_letter(index, out) {
                blocked = true;
                break;
            }
            if let Some(stream) = &mut self.peers.at_mut(index).stream {
                stream.left(now, out);
            }
        }
        let Some(stream) = &self.peers.at(index).stream else { return };
        if let Some(at) = stream.deadline() {
            self.wide.look_at = self.wide.look_at.min(if blocked { 0 } else { at });
            if !std::mem::replace(&mut self.peers.at_mut(index).talking, true) {
                self.wide.talking.push(index);
            }
        }
    }

    /// Posts a datagram with a piece or an acknowledgement. Whether there was room.
    fn post_letter(&mut self, index: u32, out: Out) -> bool {
        let peer = self.peers.at(index);
        let (rail, flown) = (usize::from(peer.rail), usize::from(peer.flown));
        let (Some(&path), Some(stream)) = (peer.paths.on(peer.rail), &peer.stream) else { return false };
        if self.rails[rail].hca.is_crowded() {
            return false;
        }
        let letter = Letter {
            from: self.me,
            to: peer.id,
            life: self.life,
            epoch: peer.epoch,
            ack: stream.ack(),
            ask: out.ask,
            piece: out.piece.map(|(piece, _)| piece),
        };
        let mut bytes = [0; LETTER_BYTES as usize];
        let (head, body) = bytes.split_at_mut(Letter::BYTES);
        head.copy_from_slice(&letter.emit());
        let mut length = Letter::BYTES;
        if let Some((_, part)) = out.piece {
            let body = &mut body[..part.length as usize];
            if let Some(there) = peer.flight.part(part.message as usize, part.offset as usize, body) {
                body.copy_from_slice(self.rails[flown].hca.bytes(there.address, body.len()));
            }
            length += body.len();
        }
        let bytes = &bytes[..length];
        let own = &mut self.rails[rail];
        let work = path.datagram();
        let mut request = WorkRequest::new(0, work, &[]);
        request.signaled = false;
        let pair = own.card.datagrams;
        let posted = if length <= own.hca.limits().max_inline as usize {
            let parts = [bytes];
            request.data = Data::Inline(&parts);
            own.hca.post_send(pair, &request)
        } else {
            let Some(slot) = own.take_letter() else { return false };
            let Some(slots) = &own.letters else { unreachable!("one was taken") };
            let (address, segment) = (slots.address(0, slot), [slots.segment(0, slot, length as u32)]);
            own.hca.bytes_mut(address, length).copy_from_slice(bytes);
            request.data = Data::Segments(&segment);
            (request.id, request.signaled) = (u64::from(slot) + 1, true);
            let posted = own.hca.post_send(pair, &request);
            if posted.is_err() {
                own.give_letter_back(slot);
            }
            posted
        };
        self.counts.datagrams += u64::from(posted.is_ok());
        posted.is_ok()
    }

    /// A datagram with a message, or part of one, came. Whether it is news.
    pub(crate) fn letter_came(&mut self, rail: u8, bytes: &[u8], now: Nanos) -> bool {
        let Some((letter, body)) = Letter::parse(bytes) else { return false };
        let Some(index) = self.peers.find(letter.from) else { return false };
        if letter.to != self.me {
            return false;
        }
        let peer = self.peers.at_mut(index);
        if matches!(peer.state, State::Gone) {
            if letter.piece.is_some() {
                self.say(Step::Refuse, index);
            }
            return false;
        }
        let way = (letter.life, letter.epoch, rail);
        let (late, complete, stream) = match (&mut peer.stream, &mut peer.late) {
            (Some(stream), _) if way == (peer.life, peer.epoch, peer.rail) => {
                (false, stream.heard(letter.ack), &mut **stream)
            }
            // What it acknowledges it says with the next way as well.
            (None, Some(late)) if way == (peer.life, late.epoch, late.rail) => (true, 0, &mut late.stream),
            _ => return false,
        };
        peer.heard = now;
        let mut news = false;
        let letters = &mut self.wide.letters;
        let taken = match letter.piece {
            Some(piece) => {
                stream.came(now, piece, letter.ask, body, |whole| letters.push_back((index, whole)))
            }
            None => {
                if letter.ask {
                    stream.was_asked(now);
                }
                Ok(())
            }
        };
        for _ in 0..complete {
            let peer = self.peers.at_mut(index);
            if let Some(holds) = peer.flight.retire_oldest() {
                let flown = peer.flown;
                self.give_back(flown, holds, true);
            }
        }
        while let Some((index, whole)) = self.wide.letters.pop_front() {
            if whole.len() < HEADER_BYTES {
                self.lose(index);
                return true;
            }
            let peer = self.peers.at_mut(index);
            peer.resting = false;
            if late {
                peer.beyond += 1;
            } else if !peer.is_new() {
                self.counts.repeats += 1;
                self.letter_taken(index);
                continue;
            }
            peer.inbox.push_back(Arrived::Letter(whole));
            if !std::mem::replace(&mut peer.listed, true) {
                self.ready.push_back(index);
            }
            news = true;
        }
        if taken.is_err() {
            // Nothing it says can be trusted.
            self.lose(index);
            return true;
        }
        self.tend(index, now);
        self.consider(index);
        news
    }

    /// Gives a peer that talks much a connection, if there is room. Where the other end has none, it is asked more and more
    /// seldom.
    fn consider(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        let much = TALKS << peer.in_vain.min(MOST_IN_VAIN);
        let much = matches!(peer.state, State::Datagrams)
            && peer.stream.as_ref().is_some_and(|stream| stream.talked >= much);
        if !much {
            return;
        }
        if self.has_room_for_connection() {
            let peer = self.peers.at_mut(index);
            peer.in_vain = peer.in_vain.saturating_add(1);
            self.change_way(index);
        } else {
            // Later, if it goes on.
            if let Some(stream) = &mut self.peers.at_mut(index).stream {
                stream.talked = 0;
            }
            self.wide.wanted += 1;
        }
    }

    /// Registered memory of a peer is to be reached that messages go to by datagrams.
    pub(crate) fn must_connect(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        if matches!(peer.state, State::Datagrams) {
            peer.needs = true;
            self.wide.wanted += usize::from(!self.has_room_for_connection());
            self.change_way(index);
        }
    }

    /// The next way to a peer is asked for.
    fn change_way(&mut self, index: u32) {
        self.counts.changes += 1;
        self.break_off(index);
    }

    /// A token that is told of when everything put before is there. By datagrams nothing is put.
    pub(crate) fn tell_now(&mut self, token: Token) {
        self.ended.push_back(Completed { token, outcome: Outcome::Done(0) });
    }

    /// Somebody took a letter.
    pub(crate) fn letter_taken(&mut self, index: u32) {
        let now = self.now();
        let peer = self.peers.at_mut(index);
        if let Some(late) = &mut peer.late {
            late.stream.taken(now);
        } else if let Some(stream) = &mut peer.stream
            && stream.taken(now)
        {
            self.tend(index, now);
        }
    }

    /// Timers of streams and of connections that are given back.
    pub(crate) fn tend_all(&mut self, now: Nanos) {
        let leaving = self.leaving.get();
        if leaving || now >= self.wide.look_at {
            self.wide.look_at = Nanos::MAX;
            for index in std::mem::take(&mut self.wide.talking) {
                self.peers.at_mut(index).talking = false;
                let peer = self.peers.at(index);
                let others = peer.paths.has_others() && !peer.resting;
                let Some(stream) = &mut self.peers.at_mut(index).stream else { continue };
                if leaving {
                    stream.hurry();
                }
                if others && stream.silences() >= SILENCES {
                    // A path may be dead; questions are asked by both.
                    self.change_way(index);
                    continue;
                }
                self.tend(index, now);
            }
        }
        for index in std::mem::take(&mut self.wide.parting) {
            self.go_on_parting(index, now);
        }
    }

    /// What has come is acknowledged now: there may be no other time.
    pub(crate) fn acknowledge_all(&mut self) {
        let now = self.now();
        for index in self.wide.talking.clone() {
            if let Some(stream) = &mut self.peers.at_mut(index).stream
                && stream.owes()
            {
                stream.was_asked(now);
                self.tend(index, now);
            }
        }
    }

    fn go_on_parting(&mut self, index: u32, now: Nanos) {
        let yielded = self.questions.iter().any(|&(of, ..)| of == index);
        let peer = self.peers.at_mut(index);
        let empty = peer.flight.is_empty();
        let State::Parting { next, pause, .. } = &mut peer.state else { return };
        if yielded && empty {
            // Nothing has failed: it may compute for long.
            return self.leave_way(index, Nanos::MAX);
        }
        self.wide.parting.push(index);
        if !empty {
            // Nothing tells of the last ones of a burst.
            self.close_at = 0;
        }
        if now >= *next {
            *pause = (*pause * 2).min(UNUSED);
            *next = now + *pause;
            self.say(Step::Yield, index);
        }
    }

    /// The other end would give a connection back that it has not used for long.
    pub(crate) fn asked_to_part(&mut self, index: u32) {
        let now = self.now();
        let peer = self.peers.at_mut(index);
        let State::Open { remote_pair } = peer.state else { return };
        Self::look_at_use(peer, now);
        // Not even a question: what is left of one would never be answered.
        let idle = peer.flight.is_empty() && now.saturating_sub(peer.used) >= UNUSED && !peer.needs;
        if idle && self.peers.beside(self.peers.at(index).id).next().is_none() {
            self.part(index, remote_pair, now);
            self.say(Step::Yield, index);
        }
    }

    /// Nothing more is posted to a connection until it is given back; that it yields is repeated from `next` on.
    fn part(&mut self, index: u32, remote_pair: weft_api::verbs::QueuePairNumber, next: Nanos) {
        let next = next.saturating_add(FIRST_RETRY);
        let peer = self.peers.at_mut(index);
        peer.state = State::Parting { remote_pair, next, pause: FIRST_RETRY };
        peer.flight.stop();
        self.wide.parting.push(index);
    }

    /// The other end yields a connection: it is given back as soon as nothing is under way.
    pub(crate) fn give_way(&mut self, index: u32, rail: u8, hello: Hello) {
        self.questions.retain(|&(of, ..)| of != index);
        self.questions.push((index, rail, hello));
        if let State::Open { remote_pair } = self.peers.at(index).state {
            self.part(index, remote_pair, Nanos::MAX);
        }
        let now = self.now();
        self.wide.parting.retain(|&parting| parting != index);
        self.go_on_parting(index, now);
    }

    /// Notes whether a connection was used since the last look.
    fn look_at_use(peer: &mut crate::peers::Peer, now: Nanos) {
        let mark = (peer.flight.next() as u32).wrapping_add(peer.received);
        if mark != peer.mark || peer.flight.is_busy() {
            (peer.mark, peer.used) = (mark, now);
        }
    }

    /// Looks which connections are used, takes the memory of the others' rings back, and asks for some of them when somebody
    /// wants one, the longest unused first and then those that were not asked yet. Once in a while.
    pub(crate) fn look_for_unused(&mut self, now: Nanos) {
        let wanted = std::mem::take(&mut self.wide.wanted);
        let mut unused = Vec::new();
        for index in 0..self.peers.all().len() as u32 {
            let peer = self.peers.at_mut(index);
            if !matches!(peer.state, State::Open { .. }) || peer.channel > 0 {
                continue;
            }
            Self::look_at_use(peer, now);
            if now.saturating_sub(peer.used) >= UNUSED {
                peer.flight.shrink();
                if !peer.resting {
                    unused.push((peer.used, index));
                }
            }
        }
        if wanted == 0 || self.has_room_for_connection() {
            return;
        }
        unused.sort_unstable();
        // After those that were asked before and are still here: they may compute, or need it.
        let begin = unused.partition_point(|&one| one <= self.wide.parted);
        unused.rotate_left(begin);
        for one in unused.into_iter().take(wanted.min(PARTED_AT_ONCE)) {
            let (_, index) = one;
            self.wide.parted = one;
            self.peers.at_mut(index).needs = false;
            self.say(Step::Part, index);
        }
    }
}

impl<H: Hca> Rail<H> {
    /// A buffer for a piece, if one is free.
    fn take_letter(&mut self) -> Option<u32> {
        if self.letters.is_none() {
            let made = buffer(&mut self.hca, LETTERS, LETTER_BYTES).ok()?;
            self.letters = Some(Slots::new(vec![made], LETTER_BYTES));
        }
        self.letters.as_mut()?.take()
    }

    pub(crate) fn give_letter_back(&mut self, slot: u32) {
        if let Some(slots) = &mut self.letters {
            slots.give_back(slot);
        }
    }
}
