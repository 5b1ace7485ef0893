//! What one connection has posted and not seen complete, in order.
//!
//! A reliable connection completes its requests in order, so one completion tells of all before it: only some requests are *signalled*. A
//! request is when somebody waits for it, when [`SIGNAL_EVERY`] have gone without, and when what the unsignalled hold is scarce. The last
//! ones of a burst, which nobody waits for, are closed by an empty write once the connection is quiet.

use std::collections::VecDeque;
use weft_api::zero_copy::Token;

/// Requests of which at least one is signalled.
pub(crate) const SIGNAL_EVERY: u32 = 16;

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
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    requests: VecDeque<Holds>,
    /// The identifier of the oldest.
    first: u64,
    /// How many of the newest are not signalled.
    unsignaled: u32,
}

impl Flight {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The identifier of the next request.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    /// Whether the next request is to be signalled although nobody waits for it.
    pub(crate) const fn must_signal(&self) -> bool {
        self.unsignaled + 1 >= SIGNAL_EVERY
    }

    /// Whether the newest request is one that nothing will tell of.
    pub(crate) const fn is_open(&self) -> bool {
        self.unsignaled > 0
    }

    /// A request was posted.
    pub(crate) fn push(&mut self, holds: Holds, signaled: bool) {
        self.requests.push_back(holds);
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
    }

    /// The oldest request, if it is `id` or older: it is complete. Whether it is `id` itself.
    pub(crate) fn retire(&mut self, id: u64) -> Option<(Holds, bool)> {
        if self.first > id {
            return None;
        }
        let holds = self.requests.pop_front()?;
        self.first += 1;
        self.unsignaled = self.unsignaled.min(self.requests.len() as u32);
        Some((holds, self.first > id))
    }

    /// Whether anything but a question is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.iter().any(|&holds| holds != Holds::Question)
    }

    /// Gives the newest request a token, if it is a signalled one without; it must be tellable.
    pub(crate) fn join(&mut self, token: Token) -> bool {
        match self.requests.back_mut() {
            Some(last) if self.unsignaled == 0 => {
                *last = match *last {
                    Holds::Nothing | Holds::Question => Holds::Token(token),
                    Holds::Slot(slot) => Holds::SlotAndToken(slot, token),
                    Holds::Token(_) | Holds::SlotAndToken(..) | Holds::Found(..) => return false,
                };
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_completion_tells_of_all_before_it() {
        let mut flight = Flight::default();
        let mut signals = 0;
        for slot in 0..40 {
            let signaled = flight.must_signal();
            signals += u32::from(signaled);
            assert_eq!(flight.next(), u64::from(slot));
            flight.push(Holds::Slot(slot), signaled);
        }
        assert_eq!(signals, 2, "two of 40");
        assert!(flight.is_open(), "nothing tells of the last eight");
        for slot in 0..16 {
            assert_eq!(flight.retire(15), Some((Holds::Slot(slot), slot == 15)));
        }
        assert_eq!(flight.retire(15), None);
        assert_eq!((flight.len(), flight.next()), (24, 40));
        assert!(!flight.join(Token(3)), "the newest is not signalled");
        flight.push(Holds::Nothing, true);
        assert!(!flight.is_open() && flight.join(Token(3)) && !flight.join(Token(4)));
        let all: Vec<_> = std::iter::from_fn(|| flight.retire(40)).collect();
        assert_eq!((all.len(), all[24]), (25, (Holds::Token(Token(3)), true)));
        assert!(flight.is_empty());
    }
}
