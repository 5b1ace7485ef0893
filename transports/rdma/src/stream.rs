//! Messages to one process by unreliable datagrams: what is sent, sent again, and put together.
//!
//! A pure state machine; the clock is an argument and datagrams are somebody else's. Messages are cut into *pieces* that fit a
//! datagram, numbered one after another. The receiver tells the number up to which it has all, which of the next 32 it has
//! besides, and how many more it takes. A piece is sent again when three that left after it have arrived, or after a silence;
//! silences double up to a second, for ever, since a process that computes is no dead one. Invariants:
//!
//! * Every message that was queued is delivered once and in order, whatever the network loses, doubles or reorders.
//! * At most [`WINDOW`] pieces are unanswered, and the receiver holds no more than that of pieces ahead of a gap and of
//!   messages not taken.
//! * Nothing is kept of a conversation that is over but the numbers.
//!
//! Acknowledgements go along with pieces, or alone: at once when they are asked for, when something is out of order, for every
//! eighth piece; otherwise after 5 ms. Who fills the window asks, and who sends again.

use std::collections::VecDeque;
use weft_api::verbs::Nanos;

mod check;
#[cfg(test)]
mod tests;

pub use check::check_conversation;

/// Most pieces that are not answered.
pub(crate) const WINDOW: u32 = 32;
/// As many at first, and at least so many after a silence.
const FIRST_WINDOW: u32 = 8;
const LEAST_WINDOW: u32 = 2;
/// Silence after which a piece is sent again: well above [`ACK_DELAY`].
const FIRST_SILENCE: Nanos = 20_000_000;
const LONGEST_SILENCE: Nanos = 1_000_000_000;
const ACK_DELAY: Nanos = 5_000_000;
const ACK_EVERY: u32 = 8;
/// Later pieces that have arrived when one is taken for lost.
const PASSED: usize = 3;

/// What a datagram tells about the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Everything before this number has arrived.
    pub(crate) before: u32,
    /// Bit `i`: number `before + 1 + i` has, too.
    pub(crate) besides: u32,
    /// How many from `before` on are taken.
    pub(crate) room: u8,
}

/// Part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) number: u32,
    /// The first of its message, the last.
    pub(crate) first: bool,
    pub(crate) last: bool,
}

/// Where a piece's bytes are: in which of the messages that are not complete, the oldest is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) message: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// What is to leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Out {
    /// Nothing: an acknowledgement alone.
    pub(crate) piece: Option<(Piece, Part)>,
    /// Whether an acknowledgement is wanted at once.
    pub(crate) ask: bool,
}

/// The other end does not keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

#[derive(Debug)]
struct Sent {
    /// Counted from the stream's first.
    message: u32,
    offset: u32,
    length: u32,
    last: bool,
    at: Nanos,
    arrived: bool,
    /// To be sent again.
    again: bool,
}

#[derive(Debug)]
struct Held {
    first: bool,
    last: bool,
    bytes: Box<[u8]>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Most bytes of a piece and of a message.
    piece: u32,
    longest: u32,

    /// Number of the oldest piece that is not acknowledged.
    first: u32,
    sent: VecDeque<Sent>,
    /// Lengths of the messages that are not cut to their end.
    queued: VecDeque<u32>,
    /// How much of the first of them is, and its number.
    cut: u32,
    cutting: u32,
    /// Messages that have arrived.
    complete: u32,
    /// The first number that the receiver does not take.
    limit: u32,
    window: u32,
    silence: Nanos,
    /// When the receiver, which takes nothing, is asked whether that is still so.
    probe_at: Nanos,
    /// Whether an acknowledgement was asked for of all that was sent.
    asked: bool,
    /// Somebody waits for the last acknowledgement.
    hurried: bool,

    /// The number of the next piece in order.
    expected: u32,
    /// Those behind it.
    ahead: VecDeque<Option<Held>>,
    /// The beginning of a message.
    partial: Vec<u8>,
    /// Messages that were delivered and not taken yet.
    untaken: u32,
    /// Pieces since the last acknowledgement, and when the next one leaves.
    unanswered: u32,
    answer_at: Nanos,
    /// The room that was told last.
    told: u8,
    /// Messages of both directions.
    pub(crate) talked: u32,
}

impl Stream {
    /// For pieces of at most `piece` bytes and messages of `longest`; the first piece of both directions has the number `start`.
    pub(crate) fn new(piece: u32, longest: u32, start: u32) -> Stream {
        Stream {
            piece,
            longest,
            first: start,
            sent: VecDeque::new(),
            queued: VecDeque::new(),
            cut: 0,
            cutting: 0,
            complete: 0,
            limit: start.wrapping_add(WINDOW),
            window: FIRST_WINDOW,
            silence: FIRST_SILENCE,
            probe_at: Nanos::MAX,
            asked: true,
            hurried: false,
            expected: start,
            ahead: VecDeque::new(),
            partial: Vec::new(),
            untaken: 0,
            unanswered: 0,
            answer_at: Nanos::MAX,
            told: WINDOW as u8,
            talked: 0,
        }
    }

    /// A message of so many bytes (at least one) is to be sent.
    pub(crate) fn queue(&mut self, bytes: u32) {
        debug_assert!((1..=self.longest).contains(&bytes));
        self.queued.push_back(bytes);
        self.talked = self.talked.saturating_add(1);
    }

    /// Whether all of a message of so many bytes may leave now. Also when nothing is under way: what is too long for the window, or
    /// finds a receiver that takes nothing, has to wait here.
    pub(crate) fn takes(&self, bytes: u32) -> bool {
        let under_way = self.sent.len() as u32;
        let free = (self.limit.wrapping_sub(self.first) as i32).max(0) as u32;
        let fits = under_way + bytes.div_ceil(self.piece) <= self.window.min(free);
        self.queued.is_empty() && (under_way == 0 || fits)
    }

    /// Somebody waits until everything has arrived.
    pub(crate) fn hurry(&mut self) {
        self.hurried = !self.asked;
    }

    /// How often in a row nothing was heard for long.
    pub(crate) const fn silences(&self) -> u32 {
        (self.silence / FIRST_SILENCE).ilog2()
    }

    /// What time has brought.
    pub(crate) fn tick(&mut self, now: Nanos) {
        let Some(oldest) = self.sent.iter().find(|sent| !sent.arrived) else {
            if !self.queued.is_empty() && !self.has_room() && self.probe_at == Nanos::MAX {
                self.probe_at = now + self.silence;
            }
            return;
        };
        if oldest.again || now < oldest.at + self.silence {
            return;
        }
        self.silence = (self.silence * 2).min(LONGEST_SILENCE);
        self.window = (self.window / 2).max(LEAST_WINDOW);
        let missing = self.sent.iter_mut().filter(|sent| !sent.arrived);
        missing.take(self.window as usize).for_each(|sent| sent.again = true);
    }

    /// Whether the receiver takes another piece.
    fn has_room(&self) -> bool {
        (self.limit.wrapping_sub(self.first.wrapping_add(self.sent.len() as u32)) as i32) > 0
    }

    /// When [`Stream::tick`] and [`Stream::next`] are wanted at the latest; `None`: nothing moves by itself.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        let again = self.sent.iter().find(|sent| !sent.arrived).map(|sent| sent.at + self.silence);
        let blocked = !self.queued.is_empty() && self.sent.is_empty();
        let probe = blocked.then_some(if self.probe_at == Nanos::MAX { 0 } else { self.probe_at });
        let answer = (self.answer_at < Nanos::MAX).then_some(self.answer_at);
        [again, probe, answer].into_iter().flatten().min()
    }

    /// What is to leave now, if anything; [`Stream::left`] says that it has.
    pub(crate) fn next(&self, now: Nanos) -> Option<Out> {
        if let Some((place, sent)) = (0..).zip(&self.sent).find(|(_, sent)| sent.again) {
            let number = self.first.wrapping_add(place);
            let piece = Piece { number, first: sent.offset == 0, last: sent.last };
            let message = sent.message.wrapping_sub(self.complete);
            let part = Part { message, offset: sent.offset, length: sent.length };
            return Some(Out { piece: Some((piece, part)), ask: true });
        }
        let under_way = self.sent.len() as u32;
        let probes = under_way == 0 && now >= self.probe_at;
        if let Some(&bytes) = self.queued.front()
            && under_way < self.window
            && (self.has_room() || probes)
        {
            let length = (bytes - self.cut).min(self.piece);
            let last = self.cut + length == bytes;
            let piece = Piece { number: self.first.wrapping_add(under_way), first: self.cut == 0, last };
            let message = self.cutting.wrapping_sub(self.complete);
            let part = Part { message, offset: self.cut, length };
            let fills = under_way + 1 == self.window || piece.number.wrapping_add(1) == self.limit;
            return Some(Out { piece: Some((piece, part)), ask: fills || probes || self.hurried });
        }
        (now >= self.answer_at || self.hurried).then_some(Out { piece: None, ask: self.hurried })
    }

    /// It has left, together with [`Stream::ack`].
    pub(crate) fn left(&mut self, now: Nanos, out: Out) {
        if let Some((piece, part)) = out.piece {
            let place = piece.number.wrapping_sub(self.first) as usize;
            match self.sent.get_mut(place) {
                Some(sent) => (sent.at, sent.again) = (now, false),
                None => {
                    let message = part.message.wrapping_add(self.complete);
                    let Part { offset, length, .. } = part;
                    let last = piece.last;
                    self.sent.push_back(Sent {
                        message,
                        offset,
                        length,
                        last,
                        at: now,
                        arrived: false,
                        again: false,
                    });
                    self.cut += length;
                    if last {
                        self.queued.pop_front();
                        self.cut = 0;
                        self.cutting = self.cutting.wrapping_add(1);
                    }
                    self.asked = false;
                }
            }
            self.probe_at = Nanos::MAX;
        }
        if out.ask {
            (self.asked, self.hurried) = (true, false);
        }
        (self.unanswered, self.answer_at) = (0, Nanos::MAX);
        self.told = self.room();
    }

    fn room(&self) -> u8 {
        (WINDOW - self.untaken.min(WINDOW)) as u8
    }

    /// What goes with every datagram.
    pub(crate) fn ack(&self) -> Ack {
        let held = (0..WINDOW).zip(&self.ahead).filter(|(_, held)| held.is_some());
        Ack {
            before: self.expected,
            besides: held.fold(0, |bits, (at, _)| bits | 1 << at),
            room: self.room(),
        }
    }

    /// The other end has told what it has. How many of the oldest messages are complete with it.
    pub(crate) fn heard(&mut self, ack: Ack) -> u32 {
        let answered = ack.before.wrapping_sub(self.first);
        if answered > self.sent.len() as u32 {
            return 0; // An old one.
        }
        let mut complete = 0;
        for _ in 0..answered {
            complete += u32::from(self.sent.pop_front().is_some_and(|sent| sent.last));
        }
        self.first = ack.before;
        self.complete = self.complete.wrapping_add(complete);
        let mut moved = answered > 0;
        for at in 0..WINDOW {
            if ack.besides >> at & 1 == 1
                && let Some(sent) = self.sent.get_mut(at as usize + 1)
            {
                moved |= !sent.arrived;
                (sent.arrived, sent.again) = (true, false);
            }
        }
        // Nobody takes back what was granted.
        let limit = ack.before.wrapping_add(u32::from(ack.room));
        if limit.wrapping_sub(self.limit) as i32 > 0 {
            self.limit = limit;
            self.probe_at = Nanos::MAX;
        }
        if moved {
            self.silence = FIRST_SILENCE;
            self.window = (self.window + answered).min(WINDOW);
            self.find_passed();
        }
        if self.sent.is_empty() {
            (self.asked, self.hurried) = (true, false);
            if self.queued.is_empty() {
                (self.sent, self.queued) = (VecDeque::new(), VecDeque::new());
            }
        }
        complete
    }

    /// Finds pieces that were passed by enough others that left no earlier.
    fn find_passed(&mut self) {
        for place in 0..self.sent.len() {
            let sent = &self.sent[place];
            if !sent.arrived && !sent.again {
                let at = sent.at;
                let later = self.sent.iter().skip(place + 1);
                let passed = later.filter(|later| later.arrived && later.at >= at).count() >= PASSED;
                self.sent[place].again = passed;
            }
        }
    }

    /// A piece has come, which may `ask` for an acknowledgement. Messages that are whole with it are delivered, in order.
    pub(crate) fn came(
        &mut self,
        now: Nanos,
        piece: Piece,
        ask: bool,
        bytes: &[u8],
        mut deliver: impl FnMut(Box<[u8]>),
    ) -> Result<(), Nonsense> {
        if bytes.is_empty() || bytes.len() > self.longest as usize {
            return Err(Nonsense);
        }
        let distance = piece.number.wrapping_sub(self.expected);
        let in_order = distance == 0 && self.untaken < WINDOW;
        if in_order {
            self.take(piece.first, piece.last, bytes, &mut deliver)?;
            // What stands behind it is in order now.
            while let Some(Some(held)) = self.ahead.pop_front() {
                self.take(held.first, held.last, &held.bytes, &mut deliver)?;
            }
            if self.ahead.iter().all(Option::is_none) {
                self.ahead = VecDeque::new();
            }
        } else if distance > 0 && distance < u32::from(self.room()) {
            let place = distance as usize - 1;
            if self.ahead.len() <= place {
                self.ahead.resize_with(place + 1, || None);
            }
            let held = Held { first: piece.first, last: piece.last, bytes: bytes.into() };
            self.ahead[place].get_or_insert(held);
        }
        self.unanswered += 1;
        let at_once = ask || !in_order || !self.ahead.is_empty() || self.unanswered >= ACK_EVERY;
        self.answer_at = self.answer_at.min(if at_once { now } else { now + ACK_DELAY });
        Ok(())
    }

    /// A datagram without a piece asks for an acknowledgement.
    pub(crate) fn was_asked(&mut self, now: Nanos) {
        self.answer_at = now;
    }

    /// Whether something has come that was not acknowledged.
    pub(crate) const fn owes(&self) -> bool {
        self.answer_at < Nanos::MAX
    }

    fn take(
        &mut self,
        first: bool,
        last: bool,
        bytes: &[u8],
        deliver: &mut impl FnMut(Box<[u8]>),
    ) -> Result<(), Nonsense> {
        if first != self.partial.is_empty() || self.partial.len() + bytes.len() > self.longest as usize {
            return Err(Nonsense);
        }
        self.expected = self.expected.wrapping_add(1);
        if !last {
            self.partial.extend_from_slice(bytes);
            return Ok(());
        }
        let message = if first {
            bytes.into()
        } else {
            self.partial.extend_from_slice(bytes);
            std::mem::take(&mut self.partial).into_boxed_slice()
        };
        self.untaken += 1;
        self.talked = self.talked.saturating_add(1);
        deliver(message);
        Ok(())
    }

    /// A message that was delivered is taken. Whether the other end should hear that there is room again.
    pub(crate) fn taken(&mut self, now: Nanos) -> bool {
        self.untaken = self.untaken.saturating_sub(1);
        let news = u32::from(self.told) < WINDOW / 4 && u32::from(self.room()) >= WINDOW / 2;
        if news {
            self.answer_at = now;
        }
        news
    }
}
