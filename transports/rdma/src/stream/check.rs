//! What a fuzzer does with a conversation by datagrams: see [`check_conversation`].

use super::{Ack, Nanos, Nonsense, Piece, Stream, WINDOW};
use crate::letter::Letter;
use std::collections::VecDeque;

const PIECE: u32 = 40;
const LONGEST: u32 = 100;
/// Messages that the program hands over and that have not left, at most.
const MOST_QUEUED: usize = 64;

/// What a fuzzer calls with the steps of a conversation: what the other end says, true to the protocol or not, what the program
/// sends and takes, and time. Whatever comes, the conversation keeps no more than it may (a window of pieces ahead of a gap, a window
/// of messages that nobody takes, one message that is not whole), takes no acknowledgement of what it has not sent, and asks only for
/// bytes of messages that it was given; or it finds nonsense and ends.
///
/// # Panics
/// When that is not so.
pub fn check_conversation(bytes: &[u8]) {
    let mut rest = Steps(bytes);
    let mut check = Check {
        stream: Stream::new(PIECE, LONGEST, rest.number()),
        now: 0,
        open: VecDeque::new(),
        untaken: 0,
    };
    while let Some(step) = rest.byte() {
        if check.step(step, &mut rest).is_err() {
            break;
        }
        check.holds();
    }
}

struct Check {
    stream: Stream,
    now: Nanos,
    /// Lengths of messages that were queued and are not complete.
    open: VecDeque<u32>,
    /// Messages that were delivered and not taken.
    untaken: u32,
}

impl Check {
    fn step(&mut self, step: u8, rest: &mut Steps<'_>) -> Result<(), Nonsense> {
        let number = u32::from(step >> 3);
        match step & 7 {
            0 if self.open.len() < MOST_QUEUED => {
                let bytes = 1 + number * 7 % LONGEST;
                self.stream.queue(bytes);
                self.open.push_back(bytes);
            }
            1 => self.send(),
            2 => {
                self.now += Nanos::from(number) * Nanos::from(number) * 1_000_000;
                self.stream.tick(self.now);
            }
            3 if self.untaken > 0 => {
                self.untaken -= 1;
                self.stream.taken(self.now);
            }
            4 => self.stream.hurry(),
            // Beside what is awaited: blindly found numbers are seldom near.
            5 | 6 => {
                let ack = Ack {
                    before: self.stream.first.wrapping_add_signed(rest.near()),
                    besides: rest.number(),
                    room: rest.byte().unwrap_or(WINDOW as u8),
                };
                let piece = (step & 7 == 6).then(|| Piece {
                    number: self.stream.expected.wrapping_add_signed(rest.near()),
                    first: number & 1 != 0,
                    last: number & 2 != 0,
                });
                let body = rest.take(if piece.is_some() { 1 + (number >> 2) as usize * 17 } else { 0 });
                return self.hear(ack, number & 4 != 0, piece, body);
            }
            7 => {
                let datagram = rest.take(Letter::BYTES + number as usize);
                if let Some((Letter { ack, ask, piece, .. }, body)) = Letter::parse(datagram) {
                    return self.hear(ack, ask, piece, body);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Everything that may leave now.
    fn send(&mut self) {
        for _ in 0..2 * WINDOW {
            let Some(out) = self.stream.next(self.now) else { break };
            if let Some((_, part)) = out.piece {
                let message = self.open.get(part.message as usize).copied();
                let end = part.offset.checked_add(part.length);
                assert!(
                    part.length > 0 && end.is_some_and(|end| Some(end) <= message),
                    "{part:?} of {message:?}"
                );
            }
            self.stream.left(self.now, out);
        }
    }

    fn hear(&mut self, ack: Ack, ask: bool, piece: Option<Piece>, body: &[u8]) -> Result<(), Nonsense> {
        let sent = self.stream.sent.len() as u32;
        let (complete, before) = (self.stream.heard(ack), self.stream.sent.len() as u32);
        assert!(complete as usize <= self.open.len() && complete <= sent - before);
        self.open.drain(..complete as usize);
        let Some(piece) = piece else {
            if ask {
                self.stream.was_asked(self.now);
                assert!(self.stream.owes() && self.stream.next(self.now).is_some());
            }
            return Ok(());
        };
        let (expected, mut delivered) = (self.stream.expected, 0);
        let came = self.stream.came(self.now, piece, ask, body, |whole| {
            assert!((1..=LONGEST as usize).contains(&whole.len()));
            delivered += 1;
        });
        self.untaken += delivered;
        came?;
        assert!(self.stream.owes(), "a piece is answered");
        let moved = self.stream.expected.wrapping_sub(expected);
        assert!(moved >= delivered && moved <= 1 + WINDOW, "{moved} pieces were in order");
        Ok(())
    }

    /// What always holds.
    fn holds(&self) {
        let stream = &self.stream;
        let ahead = stream.ahead.iter().flatten();
        assert!(
            stream.ahead.len() < WINDOW as usize
                && ahead.clone().all(|held| held.bytes.len() <= LONGEST as usize)
        );
        assert!(stream.partial.len() <= LONGEST as usize && stream.sent.len() <= WINDOW as usize);
        assert!(self.untaken <= 2 * WINDOW && stream.untaken == self.untaken);
        let ack = stream.ack();
        assert_eq!((ack.before, ack.besides.count_ones() as usize), (stream.expected, ahead.count()));
        assert_eq!(u32::from(ack.room), WINDOW.saturating_sub(self.untaken));
    }
}

/// Takes numbers off the front of bytes; where there are none left, they are 0.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn near(&mut self) -> i32 {
        i32::from(self.byte().unwrap_or(0) as i8)
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte().unwrap_or(0)))
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
