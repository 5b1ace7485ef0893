//! Large operations on two rails: each carries its share, as its speed is.

use crate::contact::NOTHING;
use crate::flight::{Deed, Holds};
use crate::one_sided::Way;
use crate::peers::State;
use crate::transport::{MOST_POSTED, Rdma};
use std::collections::VecDeque;
use weft_api::Refused;
use weft_api::verbs::{Data, Hca, Nanos, Work};
use weft_api::zero_copy::{Completed, LocalRun, Outcome, RemoteRun, Token};

/// Bytes from which on an operation is shared.
pub(crate) const SHARED: u64 = 64 << 10;
/// How old a connection is at least that is tried on the other rail.
const RETURN: Nanos = 5_000_000_000;
/// Shares begin at multiples of this.
const GRAIN: u64 = 4 << 10;

/// Tokens of which two connections have a share each.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    tokens: Vec<Option<Shared>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Shared {
    token: Token,
    left: u8,
    success: bool,
}

impl Shares {
    /// Two shares of a token.
    fn of_two(&mut self, token: Token) -> u32 {
        let shared = Some(Shared { token, left: 2, success: true });
        match self.free.pop() {
            Some(number) => {
                self.tokens[number as usize] = shared;
                number
            }
            None => {
                self.tokens.push(shared);
                self.tokens.len() as u32 - 1
            }
        }
    }

    /// Nothing of a token was begun after all.
    fn give_up(&mut self, number: u32) {
        self.tokens[number as usize] = None;
        self.free.push(number);
    }

    /// A share is over; with the last one, the token is.
    pub(crate) fn over(&mut self, number: u32, success: bool, ended: &mut VecDeque<Completed>) {
        let place = &mut self.tokens[number as usize];
        let Some(shared) = place else { unreachable!("a token has as many ends as shares") };
        shared.left -= 1;
        shared.success &= success;
        if shared.left == 0 {
            let outcome = if shared.success { Outcome::Done(0) } else { Outcome::Failed };
            ended.push_back(Completed { token: shared.token, outcome });
            *place = None;
            self.free.push(number);
        }
    }
}

impl<H: Hca> Rdma<H> {
    /// The connection beside that of messages, if a share of an operation can go by it now. It is begun when it is missing.
    pub(crate) fn beside(&mut self, index: u32, remote: &[RemoteRun]) -> Option<u32> {
        if self.rails.len() < 2 || remote.iter().any(|run| run.memory.key >> 32 == 0) {
            return None;
        }
        let peer = self.peers.at(index);
        let (id, rail) = (peer.id, peer.rail);
        match self.peers.find_channel(id, 1) {
            Some(beside) => {
                let peer = self.peers.at(beside);
                let free = matches!(peer.state, State::Open { .. }) && peer.flight.len() < MOST_POSTED - 2;
                if free && peer.rail == rail && peer.flight.is_empty() {
                    // One rail was dead when one of them was made, and may be back.
                    self.try_other_rail(beside);
                    return None;
                }
                (free && peer.rail != rail).then_some(beside)
            }
            None => {
                // Without means for a second connection there is one.
                if peer.paths.rails() > 1 && self.has_room_for_connection() {
                    let _ = self.begin(id, 1);
                }
                None
            }
        }
    }

    /// Makes a connection anew that has nothing under way, on the other rail if somebody answers there. Not more often than
    /// [`RETURN`].
    fn try_other_rail(&mut self, index: u32) {
        let now = self.now();
        let peer = self.peers.at(index);
        let other = (peer.rail + 1) % peer.paths.rails().max(1);
        let number = peer.paths.number(other);
        let early = now.saturating_sub(peer.made) < RETURN;
        if early || other == peer.rail || !self.move_to(index, other, number) {
            return;
        }
        // No messages come by it, so nothing is to be taken in before.
        let until = self.now() + self.patience;
        self.ask_for_next(index, None, until);
    }

    /// Does an operation of one run by two connections, both of which have room for it.
    pub(crate) fn share(
        &mut self,
        way: Way,
        (index, beside): (u32, u32),
        remote: &RemoteRun,
        local: &LocalRun,
        token: Token,
    ) -> Result<(), Refused> {
        let (rails, first) = self.first_share((index, beside), remote.length);
        let number = self.shares.of_two(token);
        self.counts.shared += 1;
        let parts = [(index, 0, first), (beside, first, remote.length - first)];
        for ((index, offset, length), rail) in parts.into_iter().zip(rails) {
            let segment = [self.segment(rail, local, offset, length)];
            let deed = way.deed(remote.memory.plus(offset));
            self.post_share(index, deed, deed.work(rail), Data::Segments(&segment), number);
        }
        Ok(())
    }

    /// The rails of two connections, and how many of so many bytes go by the first.
    fn first_share(&self, both: (u32, u32), bytes: u64) -> ([u8; 2], u64) {
        let rails = [self.peers.at(both.0).rail, self.peers.at(both.1).rail];
        let speeds = rails.map(|rail| self.rails[usize::from(rail)].hca.limits().bandwidth);
        let first = (bytes as f64 * speeds[0] / (speeds[0] + speeds[1])) as u64;
        (rails, (first / GRAIN * GRAIN).clamp(GRAIN, bytes - GRAIN))
    }

    /// Does an operation on lists of runs by two connections, or none where one of them has no room for its part.
    pub(crate) fn share_lists(
        &mut self,
        way: Way,
        both: (u32, u32),
        (remote, local): (&[RemoteRun], &[LocalRun]),
        token: Token,
    ) -> Option<Result<(), Refused>> {
        let bytes = remote.iter().map(|run| run.length).sum();
        let (rails, first) = self.first_share(both, bytes);
        let parts = [(0, first), (first, bytes - first)].map(|(from, length)| {
            let remote = remote.iter().map(|run| (*run, run.length));
            let remote = part_of(remote, (from, length), |run, skipped, length| RemoteRun {
                memory: run.memory.plus(skipped),
                length,
            });
            let local = local.iter().map(|run| (*run, run.length));
            let local = part_of(local, (from, length), |run, skipped, length| LocalRun {
                address: run.address + skipped,
                length,
                ..run
            });
            (remote, local)
        });
        let [one, two] = [0, 1].map(|at| self.cut(rails[at], &parts[at].0, &parts[at].1));
        let room = self.has_room(both.0, one.len()) && self.has_room(both.1, two.len());
        if !room || self.post_chain(both.1).is_err() {
            return None;
        }
        let number = self.shares.of_two(token);
        if let Err(why) = self.post_parts(both.0, way, &one, Holds::Share(number)) {
            self.shares.give_up(number);
            return Some(Err(why));
        }
        if self.post_parts(both.1, way, &two, Holds::Share(number)).is_err() {
            // There was room, so the device has lost the connection.
            self.lose(both.1);
            self.shares.over(number, false, &mut self.ended);
        }
        self.counts.shared += 1;
        Some(Ok(()))
    }

    fn post_share(&mut self, index: u32, deed: Deed, work: Work, data: Data<'_>, number: u32) {
        if self.post(index, deed, work, data, Holds::Share(number)).is_err() {
            // There was room, so the device has lost the connection.
            self.lose(index);
            self.shares.over(number, false, &mut self.ended);
        }
    }

    /// A token that comes back when everything before it on both connections is over.
    pub(crate) fn tell_of_both(&mut self, both: (u32, u32), token: Token) -> Result<(), Refused> {
        if self.peers.at(both.1).flight.len() >= MOST_POSTED - 1 {
            return Err(Refused::Full);
        }
        let number = self.shares.of_two(token);
        for index in [both.0, both.1] {
            self.post_share(index, Deed::Nothing, NOTHING, Data::Segments(&[]), number);
        }
        Ok(())
    }
}

/// The part of a list of runs that begins `from` bytes into it and has `length` bytes; `piece` makes one of a run (whose length
/// stands beside it), the bytes of it that are left out before, and the bytes that are taken.
fn part_of<R>(
    runs: impl Iterator<Item = (R, u64)>,
    (from, length): (u64, u64),
    piece: impl Fn(R, u64, u64) -> R,
) -> Vec<R> {
    let mut part = Vec::new();
    let mut begin = 0;
    for (run, bytes) in runs {
        let end = begin + bytes;
        let (first, last) = (begin.max(from), end.min(from + length));
        if first < last {
            part.push(piece(run, first - begin, last - first));
        }
        begin = end;
    }
    part
}
