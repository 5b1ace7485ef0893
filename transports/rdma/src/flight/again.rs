//! What becomes of a flight when its connection has failed and there is another: what of it is over, and how the rest is posted
//! again.

use super::{Deed, Flight, Holds, Kept, Over, Request, SIGNAL_EVERY};
use weft_api::verbs::{Data, Segment};

impl Flight {
    /// The connection is another one, and the peer has ever received `received` messages (wrapping): what is over. What is left
    /// must be posted again, by [`Flight::repeat`]. `None` when that number cannot be.
    pub(crate) fn settle(&mut self, received: u32) -> Option<Vec<Over>> {
        let arrived = received.wrapping_sub(self.messages) as usize;
        // Requests up to the last message that has arrived.
        let seen = match arrived {
            0 => self.first,
            _ => {
                let mut messages = (self.first..self.next).filter(|&id| self.at(id).deed == Deed::Message);
                1 + messages.nth(arrived - 1)?
            }
        };
        let ended = |id: u64, request: &Request| match request.deed {
            Deed::Atomic => Some(false),
            Deed::Read(_) => None,
            Deed::Message | Deed::Write(_) | Deed::Nothing if id < seen => Some(true),
            // Nobody waits for it, and its purpose is gone with the connection.
            Deed::Nothing if !request.holds.has_token() => Some(true),
            Deed::Message | Deed::Write(_) | Deed::Nothing => None,
        };
        let all = (self.first..self.next).map(|id| (id, *self.at(id)));
        let over: Vec<Over> = all.clone().filter_map(|(id, it)| Some((it.holds, ended(id, &it)?))).collect();
        // Identifiers go on; of all that is left something will tell.
        let first = self.first + over.len() as u64;
        let mut left =
            Flight { first, next: first, turn: self.turn, messages: received, ..Flight::default() };
        let (mut bytes, mut segments) = (self.bytes.iter(), self.segments.iter());
        for (id, mut request) in all {
            let (own_bytes, own_segments) = match request.kept {
                Kept::Few(_) => (0, 0),
                Kept::Bytes(length) => (length as usize, 0),
                Kept::Segments(count) => (0, count as usize),
            };
            let (own_bytes, own_segments) =
                (bytes.by_ref().take(own_bytes), segments.by_ref().take(own_segments));
            let over = ended(id, &request).is_some();
            if over || request.deed == Deed::Nothing {
                // A word that somebody waits behind was one of the connection that is no more: an empty write tells as well.
                own_bytes.for_each(drop);
                own_segments.for_each(drop);
                request.kept = Kept::Few(0);
            } else {
                left.bytes.extend(own_bytes);
                left.segments.extend(own_segments);
            }
            if !over {
                *left.place() = request;
                left.next += 1;
            }
        }
        left.told = left.next;
        *self = left;
        Some(over)
    }

    /// Every segment that is left, with what its request holds.
    pub(crate) fn each_segment(&mut self, mut change: impl FnMut(Holds, &mut Segment)) {
        let mut at = 0;
        for id in self.first..self.next {
            let Request { kept, holds, .. } = *self.at(id);
            if let Kept::Segments(count) = kept {
                let all = self.segments.range_mut(at..at + count as usize);
                all.for_each(|segment| change(holds, segment));
                at += count as usize;
            }
        }
    }

    /// All requests with their identifiers, to be posted in this order: what each holds and does, with which bytes (as they
    /// were on the device before), and whether it is signalled (the last one is). Ends early when `post` fails.
    pub(crate) fn repeat<E>(
        &mut self,
        mut post: impl FnMut(u64, Holds, Deed, Data<'_>, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bytes.make_contiguous();
        self.segments.make_contiguous();
        let (mut bytes, mut segments) = (self.bytes.as_slices().0, self.segments.as_slices().0);
        for id in self.first..self.next {
            let request = self.at(id);
            let inline: [&[u8]; 1];
            let data = match request.kept {
                Kept::Few(0) => Data::Segments(&[]),
                Kept::Few(length) => {
                    inline = [&request.few[..usize::from(length)]];
                    Data::Inline(&inline)
                }
                Kept::Bytes(length) => {
                    let (own, rest) = bytes.split_at(length as usize);
                    (inline, bytes) = ([own], rest);
                    Data::Inline(&inline)
                }
                Kept::Segments(count) => {
                    let (own, rest) = segments.split_at(count as usize);
                    segments = rest;
                    Data::Segments(own)
                }
            };
            let nth = id - self.first + 1;
            let signaled =
                id + 1 == self.next || request.holds.has_token() || nth.is_multiple_of(SIGNAL_EVERY.into());
            post(id, request.holds, request.deed, data, signaled)?;
        }
        Ok(())
    }
}
