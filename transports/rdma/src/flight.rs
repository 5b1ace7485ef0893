//! What one connection has posted and not seen complete, in order.
//!
//! A reliable connection completes its requests in order, so one completion tells of all before it: only some requests are *signalled*. A
//! request is when somebody waits for it, when [`SIGNAL_EVERY`] have gone without, and when what the unsignalled hold is scarce. The last
//! ones of a burst, which nobody waits for, are closed by an empty write once the connection is quiet.
//!
//! A connection can fail where both processes live. What it takes to post a request again is kept until the request is complete; when the
//! pair has a new connection, [`Flight::settle`] says what of it is over. The peer tells how many messages it has ever received: since a
//! connection does its requests in order, everything written before the last of them is written too, and must not be written again (its
//! owner may have changed it since). What comes later is repeated: nobody can have seen it. Reads are repeated always. An atomic is never:
//! whether it was done, and what it found, nobody knows.

use std::collections::VecDeque;
use weft_api::verbs::{Data, RemoteAddress, RemoteKey, Segment, Work};
use weft_api::zero_copy::{RemoteMemory, Token};

/// Requests of which at least one is signalled.
pub(crate) const SIGNAL_EVERY: u32 = 16;
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
    /// What is asked of the device of a rail.
    #[inline]
    pub(crate) fn work(self, rail: u8) -> Work {
        match self {
            Deed::Nothing => crate::contact::NOTHING,
            Deed::Message => Work::Send { immediate: None },
            Deed::Write(to) => Work::Write { to: remote(to, rail), immediate: None },
            Deed::Read(from) => Work::Read { from: remote(from, rail) },
            Deed::Atomic => unreachable!("atomics are not repeated"),
        }
    }
}

/// With the key of a rail.
#[inline]
pub(crate) fn remote(memory: RemoteMemory, rail: u8) -> RemoteAddress {
    RemoteAddress { address: memory.address, key: RemoteKey((memory.key >> (32 * rail)) as u32) }
}

/// Where a request's bytes are.
#[derive(Debug)]
enum Kept {
    /// Here.
    Few(u8, [u8; FEW]),
    /// The next so many of the flight's own bytes.
    Bytes(u32),
    /// In registered memory.
    Segment(Segment),
    Segments(Box<[Segment]>),
}

#[derive(Debug)]
struct Request {
    holds: Holds,
    deed: Deed,
    kept: Kept,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    requests: VecDeque<Request>,
    /// Inline bytes of requests that have more than [`FEW`].
    bytes: VecDeque<u8>,
    /// The identifier of the oldest.
    first: u64,
    /// How many of the newest are not signalled.
    unsignaled: u32,
    /// Messages that are complete, ever, wrapping.
    messages: u32,
}

/// A request that is over, and whether it went well.
pub(crate) type Over = (Holds, bool);

impl Flight {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The identifier of the next request.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    /// Whether the next request is to be signalled although nobody waits for it.
    #[inline]
    pub(crate) const fn must_signal(&self) -> bool {
        self.unsignaled + 1 >= SIGNAL_EVERY
    }

    /// Whether the newest request is one that nothing will tell of.
    pub(crate) const fn is_open(&self) -> bool {
        self.unsignaled > 0
    }

    /// A request was posted.
    #[inline]
    pub(crate) fn push(&mut self, holds: Holds, signaled: bool, deed: Deed, data: &Data<'_>) {
        let kept = match *data {
            Data::Segments([]) => Kept::Few(0, [0; FEW]),
            Data::Segments(&[segment]) => Kept::Segment(segment),
            Data::Segments(segments) => Kept::Segments(segments.into()),
            Data::Inline(parts) => self.keep(parts),
        };
        self.requests.push_back(Request { holds, deed, kept });
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
    }

    /// A request was posted that takes `length` bytes of its own and that nobody awaits.
    #[inline]
    pub(crate) fn push_few(&mut self, signaled: bool, deed: Deed, few: &[u8; FEW], length: usize) {
        let kept = Kept::Few(length as u8, *few);
        self.requests.push_back(Request { holds: Holds::Nothing, deed, kept });
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
    }

    #[inline]
    fn keep(&mut self, parts: &[&[u8]]) -> Kept {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length <= FEW {
            let (mut few, mut at) = ([0; FEW], 0);
            for part in parts {
                few[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            return Kept::Few(length as u8, few);
        }
        for part in parts {
            self.bytes.extend(*part);
        }
        Kept::Bytes(length as u32)
    }

    /// The oldest request, if it is `id` or older: it is complete. Whether it is `id` itself.
    #[inline]
    pub(crate) fn retire(&mut self, id: u64) -> Option<(Holds, bool)> {
        if self.first > id {
            return None;
        }
        let request = self.requests.pop_front()?;
        if let Kept::Bytes(length) = request.kept {
            self.bytes.drain(..length as usize);
        }
        self.first += 1;
        self.messages = self.messages.wrapping_add(u32::from(request.deed == Deed::Message));
        self.unsignaled = self.unsignaled.min(self.requests.len() as u32);
        Some((request.holds, self.first > id))
    }

    /// As [`Flight::retire`] of the oldest request, whichever it is.
    pub(crate) fn retire_oldest(&mut self) -> Option<Holds> {
        self.retire(self.first).map(|(holds, _)| holds)
    }

    /// Whether all of it can go by datagrams: messages, and nothing else.
    pub(crate) fn is_messages(&self) -> bool {
        self.requests.iter().all(|request| request.deed == Deed::Message)
    }

    /// How many bytes each request has.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u32> {
        self.requests.iter().map(|request| match &request.kept {
            Kept::Few(length, _) => u32::from(*length),
            Kept::Bytes(length) => *length,
            Kept::Segment(segment) => segment.length,
            Kept::Segments(segments) => segments.iter().map(|segment| segment.length).sum(),
        })
    }

    /// Part of the bytes of a request, the oldest is 0: into `place`, or where they are if that is in registered memory.
    pub(crate) fn part(&self, index: usize, offset: usize, place: &mut [u8]) -> Option<Segment> {
        match &self.requests[index].kept {
            Kept::Few(_, few) => place.copy_from_slice(&few[offset..offset + place.len()]),
            Kept::Bytes(_) => {
                let before = self.requests.iter().take(index).map(|request| match request.kept {
                    Kept::Bytes(length) => length as usize,
                    _ => 0,
                });
                let from = before.sum::<usize>() + offset;
                let bytes = self.bytes.range(from..from + place.len());
                for (to, byte) in place.iter_mut().zip(bytes) {
                    *to = *byte;
                }
            }
            Kept::Segment(segment) => {
                let address = segment.address + offset as u64;
                return Some(Segment { address, length: place.len() as u32, ..*segment });
            }
            Kept::Segments(_) => unreachable!("a message has one segment"),
        }
        None
    }

    /// Whether the oldest request is `id`, and somebody who hears that it failed.
    pub(crate) fn tells_of(&self, id: u64) -> bool {
        self.first == id && self.requests.front().is_some_and(|request| request.holds.has_token())
    }

    /// Whether anything but a question is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.iter().any(|request| request.holds != Holds::Question)
    }

    /// Gives the newest request a token, if it is a signalled one without; it must be tellable.
    pub(crate) fn join(&mut self, token: Token) -> bool {
        match self.requests.back_mut() {
            Some(Request { holds, .. }) if self.unsignaled == 0 => {
                *holds = match *holds {
                    Holds::Nothing | Holds::Question => Holds::Token(token),
                    Holds::Slot(slot) => Holds::SlotAndToken(slot, token),
                    Holds::Token(_) | Holds::SlotAndToken(..) | Holds::Found(..) | Holds::Share(_) => {
                        return false;
                    }
                };
                true
            }
            _ => false,
        }
    }

    /// The connection is another one, and the peer has ever received `received` messages (wrapping): what is over. What is left must be
    /// posted again, by [`Flight::repeat`]. `None` when that number cannot be.
    pub(crate) fn settle(&mut self, received: u32) -> Option<Vec<Over>> {
        let arrived = received.wrapping_sub(self.messages) as usize;
        let is_message = |request: &Request| request.deed == Deed::Message;
        // Requests up to the last message that has arrived.
        let seen = match arrived {
            0 => 0,
            _ => {
                let mut messages = self.requests.iter().enumerate().filter(|(_, it)| is_message(it));
                1 + messages.nth(arrived - 1)?.0
            }
        };
        let mut over = Vec::new();
        let (mut left, mut left_bytes) = (VecDeque::new(), VecDeque::new());
        for (at, request) in self.requests.drain(..).enumerate() {
            let mut bytes = match request.kept {
                Kept::Bytes(length) => self.bytes.drain(..length as usize).collect(),
                _ => VecDeque::new(),
            };
            let ended = match request.deed {
                Deed::Atomic => Some(false),
                Deed::Read(_) => None,
                Deed::Message | Deed::Write(_) | Deed::Nothing if at < seen => Some(true),
                // Nobody waits for it, and its purpose is gone with the connection.
                Deed::Nothing if !request.holds.has_token() => Some(true),
                Deed::Message | Deed::Write(_) | Deed::Nothing => None,
            };
            match ended {
                Some(success) => over.push((request.holds, success)),
                None => {
                    left.push_back(request);
                    left_bytes.append(&mut bytes);
                }
            }
        }
        self.first += over.len() as u64;
        self.messages = received;
        (self.requests, self.bytes, self.unsignaled) = (left, left_bytes, 0);
        Some(over)
    }

    /// Every segment that is left, with what its request holds.
    pub(crate) fn each_segment(&mut self, mut change: impl FnMut(Holds, &mut Segment)) {
        for request in &mut self.requests {
            let segments = match &mut request.kept {
                Kept::Segment(segment) => std::slice::from_mut(segment),
                Kept::Segments(segments) => segments,
                Kept::Few(..) | Kept::Bytes(_) => continue,
            };
            segments.iter_mut().for_each(|segment| change(request.holds, segment));
        }
    }

    /// All requests with their identifiers, to be posted in this order: what each holds and does, with which bytes (as they were on the
    /// device before), and whether it is signalled (the last one is). Ends early when `post` fails.
    pub(crate) fn repeat<E>(
        &mut self,
        mut post: impl FnMut(u64, Holds, Deed, Data<'_>, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = &*self.bytes.make_contiguous();
        let last = self.requests.len().saturating_sub(1);
        for (at, request) in self.requests.iter().enumerate() {
            let inline: [&[u8]; 1];
            let data = match &request.kept {
                Kept::Few(0, _) => Data::Segments(&[]),
                Kept::Few(length, few) => {
                    inline = [&few[..usize::from(*length)]];
                    Data::Inline(&inline)
                }
                Kept::Bytes(length) => {
                    let (these, later) = bytes.split_at(*length as usize);
                    (inline, bytes) = ([these], later);
                    Data::Inline(&inline)
                }
                Kept::Segment(segment) => Data::Segments(std::slice::from_ref(segment)),
                Kept::Segments(segments) => Data::Segments(segments),
            };
            let signaled = at == last || request.holds.has_token() || (at + 1) % SIGNAL_EVERY as usize == 0;
            post(self.first + at as u64, request.holds, request.deed, data, signaled)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_api::verbs::LocalKey;

    const NONE: Data<'_> = Data::Segments(&[]);

    #[test]
    fn one_completion_tells_of_all_before_it() {
        let mut flight = Flight::default();
        let mut signals = 0;
        for slot in 0..40 {
            let signaled = flight.must_signal();
            signals += u32::from(signaled);
            assert_eq!(flight.next(), u64::from(slot));
            flight.push(Holds::Slot(slot), signaled, Deed::Message, &NONE);
        }
        assert_eq!(signals, 2, "two of 40");
        assert!(flight.is_open(), "nothing tells of the last eight");
        for slot in 0..16 {
            assert_eq!(flight.retire(15), Some((Holds::Slot(slot), slot == 15)));
        }
        assert_eq!(flight.retire(15), None);
        assert_eq!((flight.len(), flight.next()), (24, 40));
        assert!(!flight.join(Token(3)), "the newest is not signalled");
        flight.push(Holds::Nothing, true, Deed::Nothing, &NONE);
        assert!(!flight.is_open() && flight.join(Token(3)) && !flight.join(Token(4)));
        let all: Vec<_> = std::iter::from_fn(|| flight.retire(40)).collect();
        assert_eq!((all.len(), all[24]), (25, (Holds::Token(Token(3)), true)));
        assert!(flight.is_empty());
    }

    /// Two messages, a write, a read, a message, an atomic, a write, a closing one.
    fn mixed() -> Flight {
        let at = |address| RemoteMemory { address, key: 1 };
        let here = [Segment { address: 7, length: 9, key: LocalKey(3) }];
        let mut flight = Flight { messages: u32::MAX, ..Flight::default() };
        let long = [5; 100];
        flight.push(Holds::Nothing, false, Deed::Message, &Data::Inline(&[&[1; 16], &[2; 8]]));
        flight.push(Holds::Nothing, false, Deed::Message, &Data::Inline(&[&long]));
        flight.push(Holds::Token(Token(1)), true, Deed::Write(at(100)), &Data::Segments(&here));
        flight.push(Holds::Token(Token(2)), true, Deed::Read(at(200)), &Data::Segments(&here));
        flight.push(Holds::Slot(4), false, Deed::Message, &Data::Inline(&[&[6; 50]]));
        flight.push(Holds::Found(1, Token(3)), true, Deed::Atomic, &Data::Segments(&here));
        flight.push(Holds::Nothing, false, Deed::Write(at(300)), &Data::Inline(&[&[8; 60]]));
        flight.push(Holds::Nothing, true, Deed::Nothing, &NONE);
        flight
    }

    fn repeated(flight: &mut Flight) -> Vec<(u64, Deed, usize, bool)> {
        let mut all = Vec::new();
        let taken = flight.repeat(|id, _, deed, data, signaled| {
            let bytes = match data {
                Data::Inline(parts) => parts.iter().map(|part| part.len()).sum(),
                Data::Segments(segments) => segments.len(),
            };
            all.push((id, deed, bytes, signaled));
            Ok::<(), ()>(())
        });
        assert_eq!(taken, Ok(()));
        all
    }

    #[test]
    fn what_the_peer_has_seen_is_not_repeated() {
        let send = Deed::Message;
        let at = |address| RemoteMemory { address, key: 1 };
        let (read, write) = (Deed::Read(at(200)), |address| Deed::Write(at(address)));
        // None of the three messages has arrived: the count is as it was.
        let mut flight = mixed();
        let over = flight.settle(u32::MAX).unwrap();
        assert_eq!(over, [(Holds::Found(1, Token(3)), false), (Holds::Nothing, true)]);
        assert_eq!(
            repeated(&mut flight),
            [
                (2, send, 24, false),
                (3, send, 100, false),
                (4, write(100), 1, true),
                (5, read, 1, true),
                (6, send, 50, false),
                (7, write(300), 60, true),
            ]
        );
        assert_eq!((flight.next(), flight.is_open()), (8, false));
        // All three: the first write is there, the read is not here.
        let mut flight = mixed();
        let over = flight.settle(2).unwrap();
        assert_eq!((over.len(), over[2]), (6, (Holds::Token(Token(1)), true)));
        assert_eq!(repeated(&mut flight), [(6, read, 1, true), (7, write(300), 60, true)]);
        assert_eq!(flight.retire(7), Some((Holds::Token(Token(2)), false)));
        assert_eq!(flight.retire(7), Some((Holds::Nothing, true)));
        assert!(flight.is_empty() && flight.bytes.is_empty());
        // Four were never sent, nor were fewer received than were acknowledged.
        assert!(mixed().settle(3).is_none() && mixed().settle(u32::MAX - 1).is_none());
    }
}
