//! What one connection has posted and not seen complete, in order.
//!
//! A reliable connection completes its requests in order, so one completion tells of all before it: only some requests are
//! *signalled*. A request is when somebody waits for it, when [`SIGNAL_EVERY`] have gone without, and when what the unsignalled
//! hold is scarce. The last ones of a burst, which nobody waits for, are closed by an empty write once the connection is quiet.
//!
//! A connection can fail where both processes live. What it takes to post a request again is kept until the request is
//! complete; when the pair has a new connection, [`Flight::settle`] says what of it is over. The peer tells how many messages
//! it has ever received: since a connection does its requests in order, everything written before the last of them is written
//! too, and must not be written again (its owner may have changed it since). What comes later is repeated: nobody can have seen
//! it. Reads are repeated always. An atomic is never: whether it was done, and what it found, nobody knows.

mod again;

use crate::keys::Keyrings;
use crate::transport::HEADER_BYTES;
use std::collections::VecDeque;
use weft_api::verbs::{Data, Segment, Work};
use weft_api::zero_copy::{RemoteMemory, Token};
use weft_types::PeerId;

/// Requests of which at least one is signalled.
pub(crate) const SIGNAL_EVERY: u32 = 16;
/// Places of a ring at first; it doubles.
const FIRST_RING: usize = 4;
/// Bytes kept inside a request: the header and payload of most small messages.
pub(crate) const FEW: usize = 40;

/// What is held for a request until it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing: its bytes went along, or others answer for it.
    Nothing,
    /// Nothing: it asks whether the peer is alive.
    Question,
    /// A slot that its bytes are in.
    Slot(u32),
    /// Somebody's token.
    Token(Token),
    /// Both.
    SlotAndToken(u32, Token),
    /// The place for what an atomic finds, and somebody's token.
    Found(u32, Token),
    /// A share of somebody's token.
    Share(u32),
}

impl Holds {
    const fn has_token(self) -> bool {
        matches!(self, Holds::Token(_) | Holds::SlotAndToken(..) | Holds::Found(..) | Holds::Share(_))
    }
}

/// What a request does, as far as it matters when it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A write of nothing.
    Nothing,
    Message,
    Write(RemoteMemory),
    Read(RemoteMemory),
    /// Never repeated.
    Atomic,
}

impl Deed {
    /// What is asked of the device of a rail, for a peer whose keys are known.
    #[inline]
    pub(crate) fn work(self, keys: &Keyrings, peer: PeerId, rail: u8) -> Work {
        match self {
            Deed::Nothing => crate::contact::NOTHING,
            Deed::Message => Work::Send { immediate: None },
            Deed::Write(to) => Work::Write { to: keys.remote(peer, to, rail), immediate: None },
            Deed::Read(from) => Work::Read { from: keys.remote(peer, from, rail) },
            Deed::Atomic => unreachable!("atomics are not repeated"),
        }
    }

    /// What was said of the memory that it names, where it may be repeated.
    pub(crate) const fn key(self) -> Option<u64> {
        match self {
            Deed::Write(memory) | Deed::Read(memory) => Some(memory.key),
            Deed::Nothing | Deed::Message | Deed::Atomic => None,
        }
    }
}

/// Where a request's bytes are.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// So many in the request itself.
    Few(u8),
    /// The next so many of the flight's own bytes.
    Bytes(u32),
    /// In registered memory: the next so many of the flight's own segments.
    Segments(u32),
}

/// A request as it is kept, written once: the device is given `few` from here.
#[derive(Clone, Copy, Debug)]
struct Request {
    few: [u8; FEW],
    kept: Kept,
    deed: Deed,
    holds: Holds,
    /// Whether it tells, of one that the device does not have yet.
    signaled: bool,
}

const EMPTY: Request = Request {
    few: [0; FEW],
    kept: Kept::Few(0),
    deed: Deed::Nothing,
    holds: Holds::Nothing,
    signaled: false,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// A ring: the request with identifier `id` is at `id` modulo its length, a power of two or 0.
    requests: Box<[Request]>,
    /// Inline bytes of requests that have more than [`FEW`].
    bytes: VecDeque<u8>,
    /// Registered memory of the others.
    segments: VecDeque<Segment>,
    /// The identifier of the oldest.
    first: u64,
    /// The identifier of the next one.
    next: u64,
    /// Requests with identifiers below this may be posted without a second look: see [`Flight::allow`].
    quick: u64,
    /// As `quick`, for messages; none while they may go another way: see [`Flight::leave_messages`].
    quick_messages: u64,
    /// Requests with identifiers below this may be kept back for company: see [`Flight::keep_back`].
    chain: u64,
    /// One after the newest signalled.
    told: u64,
    /// How many of the newest the device does not have yet.
    kept_back: u32,
    /// Messages may go another way.
    messages_left: bool,
    /// The turn in which a short put was posted last.
    pub(crate) turn: u32,
    /// Messages that are complete, ever, wrapping.
    messages: u32,
}

/// A request that is over, and whether it went well.
pub(crate) type Over = (Holds, bool);

impl Flight {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.next - self.first) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.first
    }

    /// The identifier of the next request.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// How many of the newest are not signalled.
    #[inline]
    fn unsignaled(&self) -> u32 {
        (self.next - self.told.max(self.first)) as u32
    }

    /// Whether the next request is to be signalled although nobody waits for it.
    #[inline]
    pub(crate) fn must_signal(&self) -> bool {
        self.unsignaled() + 1 >= SIGNAL_EVERY
    }

    /// Whether the newest request is one that nothing will tell of.
    pub(crate) fn is_open(&self) -> bool {
        self.unsignaled() > 0
    }

    #[inline]
    fn at(&self, id: u64) -> &Request {
        &self.requests[id as usize & (self.requests.len() - 1)]
    }

    /// Says how many requests may be posted by [`Flight::message`] and [`Flight::write`], of a connection that is open: as many
    /// as need not be signalled, as long as there are fewer than `most` and they have their places. None while some are kept
    /// back: what comes later must not overtake them.
    #[inline]
    pub(crate) fn allow(&mut self, most: usize) {
        let unsignaled = self.told.max(self.first) + u64::from(SIGNAL_EVERY - 1);
        self.quick = match self.kept_back {
            0 => unsignaled.min(self.first + most.min(self.requests.len()) as u64),
            _ => 0,
        };
        self.quick_messages = if self.messages_left { 0 } else { self.quick };
    }

    /// Whether every message is to be looked at twice from now on, since there is another way for some.
    pub(crate) fn leave_messages(&mut self, left: bool) {
        (self.messages_left, self.quick_messages) = (left, 0);
    }

    /// Whether messages may go another way.
    #[inline]
    pub(crate) fn messages_left(&self) -> bool {
        self.messages_left
    }

    /// Whether one more may.
    pub(crate) fn is_allowed(&self) -> bool {
        self.next < self.quick
    }

    /// Everything is to be looked at twice from now on.
    pub(crate) fn stop(&mut self) {
        (self.quick, self.quick_messages, self.chain) = (0, 0, 0);
    }

    /// Where the short requests end that may be posted now: those that need no signal, or up to one more that `tells`.
    #[inline(always)]
    fn end(&self, quick: u64, tells: Option<usize>) -> u64 {
        match tells {
            None => quick,
            Some(_) if self.kept_back > 0 => 0,
            Some(most) => self.first + most.min(self.requests.len()) as u64,
        }
    }

    /// Writes down a short message, as it is to be posted now: its identifier and bytes. It counts from [`Flight::posted`] on.
    /// `tells`: it is to be signalled, if the connection is open and there are fewer than that; otherwise it is not. `None`: it
    /// must go the general way.
    #[inline(always)]
    pub(crate) fn message(
        &mut self,
        header: [u64; 2],
        payload: &[u8],
        tells: Option<usize>,
    ) -> Option<(u64, &[u8])> {
        if self.next >= self.end(self.quick_messages, tells) || payload.len() > FEW - HEADER_BYTES {
            return None;
        }
        let mask = self.requests.len() - 1;
        let request = &mut self.requests[self.next as usize & mask];
        let (head, body) = request.few.split_at_mut(HEADER_BYTES);
        head[..8].copy_from_slice(&header[0].to_le_bytes());
        head[8..].copy_from_slice(&header[1].to_le_bytes());
        copy_short(body, payload);
        let length = HEADER_BYTES + payload.len();
        (request.holds, request.deed, request.kept) =
            (Holds::Nothing, Deed::Message, Kept::Few(length as u8));
        Some((self.next, &request.few[..length]))
    }

    /// As [`Flight::message`], a short write.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        to: RemoteMemory,
        tells: Option<usize>,
    ) -> Option<(u64, &[u8])> {
        if self.next >= self.end(self.quick, tells) || bytes.len() > FEW {
            return None;
        }
        let mask = self.requests.len() - 1;
        let request = &mut self.requests[self.next as usize & mask];
        request.put(bytes, to);
        Some((self.next, &request.few[..bytes.len()]))
    }

    /// What was written down is posted.
    #[inline(always)]
    pub(crate) fn posted(&mut self, told: bool) {
        self.next += 1;
        if told {
            self.told = self.next;
        }
    }

    /// How many of the newest the device does not have yet.
    #[inline]
    pub(crate) fn kept_back(&self) -> u32 {
        self.kept_back
    }

    /// From now on [`Flight::keep_back`] takes what [`Flight::write`] would take.
    pub(crate) fn begin_chain(&mut self) {
        (self.chain, self.quick, self.quick_messages) = (self.quick, 0, 0);
    }

    /// Keeps a short write back, to be posted with those that follow. `false`: there is no chain, or it must be closed with
    /// this one.
    #[inline(always)]
    pub(crate) fn keep_back(&mut self, bytes: &[u8], to: RemoteMemory) -> bool {
        if self.next >= self.chain || bytes.len() > FEW {
            return false;
        }
        let mask = self.requests.len() - 1;
        let request = &mut self.requests[self.next as usize & mask];
        request.put(bytes, to);
        request.signaled = false;
        (self.next, self.kept_back) = (self.next + 1, self.kept_back + 1);
        true
    }

    /// Adds the last one to a chain: at most [`FEW`] bytes, signalled if it is time. The chain must be posted now.
    pub(crate) fn keep_last(&mut self, bytes: &[u8], to: RemoteMemory) {
        let signaled = self.must_signal();
        let request = self.place();
        request.put(bytes, to);
        request.signaled = signaled;
        (self.next, self.kept_back) = (self.next + 1, self.kept_back + 1);
        if signaled {
            self.told = self.next;
        }
    }

    /// The chain: identifier, what each does, its bytes, whether it is signalled. At most [`SIGNAL_EVERY`].
    pub(crate) fn chain(&self) -> impl Iterator<Item = (u64, Deed, &[u8], bool)> {
        (self.next - u64::from(self.kept_back)..self.next).map(|id| {
            let request = self.at(id);
            let Kept::Few(length) = request.kept else { unreachable!("short writes are kept back") };
            (id, request.deed, &request.few[..usize::from(length)], request.signaled)
        })
    }

    /// The chain is posted, or as good as that: the connection has failed, and all will be posted again.
    pub(crate) fn chain_posted(&mut self) {
        (self.kept_back, self.chain) = (0, 0);
    }

    /// Room for one more.
    #[inline]
    fn place(&mut self) -> &mut Request {
        if self.len() == self.requests.len() {
            self.grow();
        }
        let mask = self.requests.len() - 1;
        &mut self.requests[self.next as usize & mask]
    }

    /// Makes places for more requests where there are none, up to `most`.
    pub(crate) fn make_places(&mut self, most: usize) {
        if self.len() == self.requests.len() && self.len() < most {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let length = match self.requests.len() {
            0 => FIRST_RING,
            few @ ..64 => 4 * few,
            many => 2 * many,
        };
        let mut requests = vec![EMPTY; length].into_boxed_slice();
        for id in self.first..self.next {
            requests[id as usize & (length - 1)] = *self.at(id);
        }
        self.requests = requests;
    }

    /// Gives the memory back that a burst took, when nothing is under way. The next request takes it anew.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() && !self.requests.is_empty() {
            self.stop();
            (self.requests, self.bytes, self.segments) = (Box::default(), VecDeque::new(), VecDeque::new());
        }
    }

    /// A request was posted.
    #[inline]
    pub(crate) fn push(&mut self, holds: Holds, signaled: bool, deed: Deed, data: &Data<'_>) {
        debug_assert_eq!(self.kept_back, 0, "nothing overtakes what is kept back");
        let kept = match *data {
            Data::Segments([]) => Kept::Few(0),
            Data::Segments(segments) => {
                self.segments.extend(segments);
                Kept::Segments(segments.len() as u32)
            }
            Data::Inline(parts) => {
                let length: usize = parts.iter().map(|part| part.len()).sum();
                if length <= FEW {
                    let (few, mut at) = (&mut self.place().few, 0);
                    for part in parts {
                        few[at..at + part.len()].copy_from_slice(part);
                        at += part.len();
                    }
                    Kept::Few(length as u8)
                } else {
                    parts.iter().for_each(|part| self.bytes.extend(*part));
                    Kept::Bytes(length as u32)
                }
            }
        };
        let request = self.place();
        (request.holds, request.deed, request.kept) = (holds, deed, kept);
        self.next += 1;
        if signaled {
            self.told = self.next;
        }
    }

    /// Forgets what the oldest request keeps beside it, and the request.
    #[inline]
    fn pop(&mut self) -> Request {
        let request = *self.at(self.first);
        match request.kept {
            Kept::Few(_) => {}
            Kept::Bytes(length) => drop(self.bytes.drain(..length as usize)),
            Kept::Segments(count) => drop(self.segments.drain(..count as usize)),
        }
        self.first += 1;
        request
    }

    /// The oldest request, if it is `id` or older: it is complete. Whether it is `id` itself.
    #[inline]
    pub(crate) fn retire(&mut self, id: u64) -> Option<(Holds, bool)> {
        if self.first > id || self.is_empty() {
            return None;
        }
        let request = self.pop();
        self.messages = self.messages.wrapping_add(u32::from(request.deed == Deed::Message));
        self.kept_back = self.kept_back.min(self.len() as u32);
        Some((request.holds, self.first > id))
    }

    /// As [`Flight::retire`] of the oldest request, whichever it is.
    pub(crate) fn retire_oldest(&mut self) -> Option<Holds> {
        self.retire(self.first).map(|(holds, _)| holds)
    }

    fn all(&self) -> impl Iterator<Item = &Request> {
        (self.first..self.next).map(|id| self.at(id))
    }

    /// What its requests do.
    pub(crate) fn deeds(&self) -> impl Iterator<Item = Deed> {
        self.all().map(|request| request.deed)
    }

    /// Whether all of it can go by datagrams: messages, and nothing else.
    pub(crate) fn is_messages(&self) -> bool {
        self.all().all(|request| request.deed == Deed::Message)
    }

    /// How many bytes each request has.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u32> {
        let mut segments = self.segments.iter();
        self.all().map(move |request| match request.kept {
            Kept::Few(length) => u32::from(length),
            Kept::Bytes(length) => length,
            Kept::Segments(count) => {
                segments.by_ref().take(count as usize).map(|segment| segment.length).sum()
            }
        })
    }

    /// Part of the bytes of a request, the oldest is 0: into `place`, or where they are if that is in registered memory.
    pub(crate) fn part(&self, index: usize, offset: usize, place: &mut [u8]) -> Option<Segment> {
        match self.at(self.first + index as u64).kept {
            Kept::Few(_) => {
                let few = &self.at(self.first + index as u64).few;
                place.copy_from_slice(&few[offset..offset + place.len()]);
            }
            Kept::Bytes(_) => {
                let before = self.all().take(index).map(|request| match request.kept {
                    Kept::Bytes(length) => length as usize,
                    _ => 0,
                });
                let from = before.sum::<usize>() + offset;
                let bytes = self.bytes.range(from..from + place.len());
                for (to, byte) in place.iter_mut().zip(bytes) {
                    *to = *byte;
                }
            }
            Kept::Segments(count) => {
                assert_eq!(count, 1, "a message has one segment");
                let before = self.all().take(index).map(|request| match request.kept {
                    Kept::Segments(count) => count as usize,
                    _ => 0,
                });
                let segment = self.segments[before.sum::<usize>()];
                let address = segment.address + offset as u64;
                return Some(Segment { address, length: place.len() as u32, ..segment });
            }
        }
        None
    }

    /// Messages that were ever sent, wrapping.
    pub(crate) fn messages_ever(&self) -> u32 {
        let under_way = self.all().filter(|request| request.deed == Deed::Message).count();
        self.messages.wrapping_add(under_way as u32)
    }

    /// Whether the oldest request is `id`, and somebody who hears that it failed.
    pub(crate) fn tells_of(&self, id: u64) -> bool {
        self.first == id && !self.is_empty() && self.at(id).holds.has_token()
    }

    /// Whether anything but a question is under way.
    pub(crate) fn is_busy(&self) -> bool {
        (self.first..self.next).any(|id| self.at(id).holds != Holds::Question)
    }

    /// Gives the newest request a token, if it is a signalled one without, or one that is kept back and so can become one.
    pub(crate) fn join(&mut self, token: Token) -> bool {
        if self.is_empty() || self.unsignaled() > 0 && self.kept_back == 0 {
            return false;
        }
        let mask = self.requests.len() - 1;
        let Request { holds, signaled, .. } = &mut self.requests[(self.next - 1) as usize & mask];
        (*signaled, self.told) = (true, self.next);
        *holds = match *holds {
            Holds::Nothing | Holds::Question => Holds::Token(token),
            Holds::Slot(slot) => Holds::SlotAndToken(slot, token),
            Holds::Token(_) | Holds::SlotAndToken(..) | Holds::Found(..) | Holds::Share(_) => return false,
        };
        true
    }
}

impl Request {
    /// Becomes a short write that nobody awaits.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8], to: RemoteMemory) {
        copy_short(&mut self.few, bytes);
        (self.holds, self.deed, self.kept) = (Holds::Nothing, Deed::Write(to), Kept::Few(bytes.len() as u8));
    }
}

/// Copies at most [`FEW`] bytes without a call, by eights of which the last may lap over.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) {
    let length = from.len();
    if length == 8 {
        to[..8].copy_from_slice(&from[..8]);
    } else if (8..=FEW.min(to.len())).contains(&length) {
        for at in (0..length - 8).step_by(8) {
            to[at..at + 8].copy_from_slice(&from[at..at + 8]);
        }
        to[length - 8..length].copy_from_slice(&from[length - 8..]);
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

#[cfg(test)]
mod tests;
