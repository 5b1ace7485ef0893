//! Large operations on several rails: each carries its share, as its speed is.

use crate::contact::NOTHING;
use crate::flight::{Deed, Holds};
use crate::one_sided::Way;
use crate::peers::State;
use crate::transport::{MOST_POSTED, Rdma};
use std::collections::VecDeque;
use weft_api::Refused;
use weft_api::verbs::{Data, Hca, Nanos, Work};
use weft_api::zero_copy::{Completed, LocalRun, Outcome, RemoteRun, Token};

/// Bytes from which on an operation is shared; no share is shorter than half of that.
pub(crate) const SHARED: u64 = 64 << 10;
/// How old a connection is at least that is tried on another rail.
const RETURN: Nanos = 5_000_000_000;
/// Shares begin at multiples of this.
const GRAIN: u64 = 4 << 10;

/// Tokens of which several connections have a share each.
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
    /// So many shares of a token.
    fn of(&mut self, token: Token, shares: usize) -> u32 {
        let shared = Some(Shared { token, left: shares as u8, success: true });
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
    /// The connections that an operation of so many bytes can be shared between now, that of messages first: each on a rail of its own, and
    /// with room. What is missing is begun. `None`: there is one.
    pub(crate) fn ends(&mut self, index: u32, bytes: u64) -> Option<Vec<u32>> {
        let peer = self.peers.at(index);
        let rails = peer.paths.rails();
        if self.rails.len() < 2 || rails < 2 {
            return None;
        }
        let (id, mut used) = (peer.id, 1_u32 << peer.rail);
        let (mut ends, mut idle) = (vec![index], Vec::new());
        for channel in 1..rails {
            let Some(beside) = self.peers.find_channel(id, channel) else {
                // Without means for another connection there is none.
                if self.has_room_for_connection() {
                    let _ = self.begin(id, channel);
                }
                continue;
            };
            let peer = self.peers.at(beside);
            if !matches!(peer.state, State::Open { .. }) || peer.flight.len() >= MOST_POSTED - 2 {
                // It goes on where it is.
                used |= 1 << peer.rail;
            } else if used & 1 << peer.rail == 0 {
                used |= 1 << peer.rail;
                ends.push(beside);
            } else if peer.flight.is_empty() {
                idle.push(beside);
            }
        }
        for beside in idle {
            // Its rail was dead when one of them was made, and may be back.
            if let Some(rail) = (0..rails).find(|rail| used & 1 << rail == 0) {
                used |= 1 << rail;
                self.try_on(beside, rail);
            }
        }
        ends.truncate((bytes / (SHARED / 2)).max(1) as usize);
        (ends.len() > 1).then_some(ends)
    }

    /// Makes a connection anew that has nothing under way, on another rail if somebody answers there. Not more often than
    /// [`RETURN`].
    fn try_on(&mut self, index: u32, rail: u8) {
        let now = self.now();
        let peer = self.peers.at(index);
        let number = peer.paths.number(rail);
        let early = now.saturating_sub(peer.made) < RETURN;
        if early || !self.move_to(index, rail, number) {
            return;
        }
        // No messages come by it, so nothing is to be taken in before.
        let until = self.now() + self.patience;
        self.ask_for_next(index, None, until);
    }

    /// Does an operation of one run by several connections, all of which have room for it.
    pub(crate) fn share(
        &mut self,
        way: Way,
        ends: &[u32],
        remote: &RemoteRun,
        local: &LocalRun,
        token: Token,
    ) -> Result<(), Refused> {
        let id = self.peers.at(ends[0]).id;
        let parts = self.parts(ends, remote.length);
        let number = self.shares.of(token, parts.len());
        self.counts.shared += 1;
        for Part { index, rail, from, length } in parts {
            let segment = [self.segment(rail, local, from, length)];
            let deed = way.deed(remote.memory.plus(from));
            let work = deed.work(&self.keyrings, id, rail);
            self.post_share(index, deed, work, Data::Segments(&segment), number);
        }
        Ok(())
    }

    /// What each of some connections carries of so many bytes, as the speed of its rail is.
    fn parts(&self, ends: &[u32], bytes: u64) -> Vec<Part> {
        let rails: Vec<u8> = ends.iter().map(|&end| self.peers.at(end).rail).collect();
        let speeds: Vec<f64> =
            rails.iter().map(|&rail| self.rails[usize::from(rail)].hca.limits().bandwidth).collect();
        let lengths = split(&speeds, bytes);
        let mut from = 0;
        let parts = ends.iter().zip(rails).zip(lengths).map(|((&index, rail), length)| {
            from += length;
            Part { index, rail, from: from - length, length }
        });
        parts.filter(|part| part.length > 0).collect()
    }

    /// Does an operation on lists of runs by several connections, or none where one of them has no room for its part.
    pub(crate) fn share_lists(
        &mut self,
        way: Way,
        ends: &[u32],
        (remote, local): (&[RemoteRun], &[LocalRun]),
        token: Token,
    ) -> Option<Result<(), Refused>> {
        let bytes = remote.iter().map(|run| run.length).sum();
        let parts = self.parts(ends, bytes);
        let cut: Vec<_> = parts
            .iter()
            .map(|&Part { rail, from, length, .. }| {
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
                self.cut(rail, &remote, &local)
            })
            .collect();
        let room = parts.iter().zip(&cut).all(|(part, cut)| self.has_room(part.index, cut.len()));
        // The first one's chain is posted already.
        if !room || parts[1..].iter().any(|part| self.post_chain(part.index).is_err()) {
            return None;
        }
        let number = self.shares.of(token, parts.len());
        for (place, (part, cut)) in parts.iter().zip(&cut).enumerate() {
            match self.post_parts(part.index, way, cut, Holds::Share(number)) {
                Ok(()) => {}
                Err(why) if place == 0 => {
                    self.shares.give_up(number);
                    return Some(Err(why));
                }
                Err(_) => {
                    // There was room, so the device has lost the connection.
                    self.lose(part.index);
                    self.shares.over(number, false, &mut self.ended);
                }
            }
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

    /// A token that comes back when everything before it on all of these connections is over.
    pub(crate) fn tell_of_all(&mut self, ends: &[u32], token: Token) -> Result<(), Refused> {
        if ends.iter().any(|&end| self.peers.at(end).flight.len() >= MOST_POSTED - 1) {
            return Err(Refused::Full);
        }
        let number = self.shares.of(token, ends.len());
        for &index in ends {
            self.post_share(index, Deed::Nothing, NOTHING, Data::Segments(&[]), number);
        }
        Ok(())
    }
}

/// What one connection carries of an operation.
#[derive(Clone, Copy, Debug)]
struct Part {
    index: u32,
    rail: u8,
    from: u64,
    length: u64,
}

/// Splits so many bytes, at least half of [`SHARED`] for each, among rails of these speeds: shares end at multiples of [`GRAIN`], and all have
/// one, but that the slowest have nothing where there are too few.
fn split(speeds: &[f64], bytes: u64) -> Vec<u64> {
    let all: f64 = speeds.iter().sum();
    let (mut shares, mut sum, mut begin) = (Vec::with_capacity(speeds.len()), 0.0, 0);
    for (place, speed) in speeds.iter().enumerate() {
        sum += speed;
        let last = place + 1 == speeds.len();
        let end = if last { bytes } else { (bytes as f64 * sum / all) as u64 / GRAIN * GRAIN };
        // Each has something, also the slow ones.
        let least = begin + GRAIN;
        let most = bytes.saturating_sub(GRAIN * (speeds.len() - place - 1) as u64);
        let end = if last { bytes } else { end.clamp(least.min(most), most) };
        shares.push(end - begin);
        begin = end;
    }
    shares
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_the_speeds_are() {
        assert_eq!(split(&[1.0; 4], 1 << 20), [256 << 10; 4]);
        assert_eq!(split(&[2.0, 1.0, 1.0], 1 << 20), [512 << 10, 256 << 10, 256 << 10]);
        assert_eq!(split(&[1.0, 0.0], 64 << 10), [60 << 10, 4 << 10], "none is left out");
        assert_eq!(split(&[1.0], 7), [7]);
    }

    proptest::proptest! {
        #[test]
        fn all_bytes_are_split(speeds in proptest::collection::vec(0.1_f64..100.0, 1..=8), more in 0_u64..1 << 30) {
            let bytes = SHARED / 2 * speeds.len() as u64 + more;
            let shares = split(&speeds, bytes);
            proptest::prop_assert_eq!(shares.iter().sum::<u64>(), bytes);
            proptest::prop_assert!(shares.iter().all(|&share| share >= GRAIN));
            let all: f64 = speeds.iter().sum();
            for (share, speed) in shares.iter().zip(&speeds) {
                let fair = bytes as f64 * speed / all;
                proptest::prop_assert!((*share as f64 - fair).abs() <= (GRAIN * 9) as f64, "{shares:?}");
            }
        }
    }
}
