//! The state of the virtual fabric.

use crate::device::Devices;
use crate::random::Random;
use crate::{News, SimConfig};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weft_api::Refused;
use weft_api::shares::Shares;
use weft_types::{Farewell, PeerId};
use weft_wire::Header;

/// A packet under way.
#[derive(Debug)]
struct Flying {
    visible_at: u64,
    packet: Packet,
}

/// Header and payload.
pub(crate) type Packet = (Header, Vec<u8>);

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) config: SimConfig,
    pub(crate) ranks: u32,
    pub(crate) now: u64,
    pub(crate) random: Random,
    /// From rank `s` to rank `d`: index `s * ranks + d`.
    pairs: Vec<VecDeque<Flying>>,
    /// Whether a packet has gone from `s` to `d`, indexed as `pairs`.
    used: Vec<bool>,
    /// When the others hear of a rank's death.
    dead: Vec<Option<u64>>,
    /// Who has left in order.
    left: Vec<bool>,
    /// What the ranks have said that they leave behind, seen by all at once as in shared memory.
    farewells: Vec<Farewell>,
    pub(crate) devices: Option<Devices>,
    /// Where parts of messages from `s` to `d` are laid out, indexed as `pairs`, once somebody asked.
    shares: BTreeMap<u32, Arc<Shares>>,
}

impl Net {
    pub(crate) fn new(ranks: u32, config: SimConfig) -> Net {
        Net {
            random: Random::new(config.seed),
            devices: config.device.map(|device| Devices::new(ranks, device)),
            config,
            ranks,
            now: 0,
            pairs: (0..ranks * ranks).map(|_| VecDeque::new()).collect(),
            used: vec![false; (ranks * ranks) as usize],
            dead: vec![None; ranks as usize],
            left: vec![false; ranks as usize],
            farewells: vec![Farewell::NONE; ranks as usize],
            shares: BTreeMap::new(),
        }
    }

    /// Time moves.
    pub(crate) fn tick(&mut self) {
        self.now += 1;
        if let Some(devices) = &mut self.devices {
            devices.run(self.config.delay, self.now, &mut self.random);
        }
    }

    /// The process of `rank` helps its device.
    pub(crate) fn by_hand(&mut self, rank: PeerId) -> bool {
        let (delay, now) = (self.config.delay, self.now);
        self.devices.as_mut().is_some_and(|devices| devices.by_hand(rank.0, delay, now, &mut self.random))
    }

    pub(crate) fn shares(&mut self, from: PeerId, to: PeerId) -> Arc<Shares> {
        Arc::clone(self.shares.entry(from.0 * self.ranks + to.0).or_default())
    }

    fn pair(&mut self, from: PeerId, to: PeerId) -> &mut VecDeque<Flying> {
        &mut self.pairs[(from.0 * self.ranks + to.0) as usize]
    }

    pub(crate) fn send(
        &mut self,
        from: PeerId,
        to: PeerId,
        make: impl FnOnce() -> Packet,
    ) -> Result<(), Refused> {
        if self.dead[to.0 as usize].is_some() || self.left[to.0 as usize] {
            return Err(Refused::Dead);
        }
        let chance = self.config.full;
        let refuse = self.random.chance(chance);
        if refuse || self.pair(from, to).len() >= self.config.depth {
            return Err(Refused::Full);
        }
        let delay = self.config.delay;
        let visible_at = self.now + self.random.below(delay + 1);
        let pair = self.pair(from, to);
        let visible_at = pair.back().map_or(visible_at, |last| last.visible_at.max(visible_at));
        pair.push_back(Flying { visible_at, packet: make() });
        self.used[(from.0 * self.ranks + to.0) as usize] = true;
        Ok(())
    }

    pub(crate) fn receive(&mut self, from: PeerId, to: PeerId) -> Option<Packet> {
        let now = self.now;
        let pair = self.pair(from, to);
        if pair.front()?.visible_at > now {
            return None;
        }
        pair.pop_front().map(|flying| flying.packet)
    }

    /// Whether a packet from `from` is visible to `to`.
    pub(crate) fn is_visible(&mut self, from: PeerId, to: PeerId) -> bool {
        let now = self.now;
        self.pair(from, to).front().is_some_and(|flying| flying.visible_at <= now)
    }

    pub(crate) fn kill(&mut self, rank: PeerId) {
        let delay = self.config.delay;
        let heard_at = self.now + delay + 1 + self.random.below(delay + 1);
        let heard_at = *self.dead[rank.0 as usize].get_or_insert(heard_at);
        if let Some(devices) = &mut self.devices {
            devices.kill(rank.0, heard_at);
        }
        for other in 0..self.ranks {
            self.pair(PeerId(other), rank).clear();
        }
    }

    pub(crate) fn leave(&mut self, rank: PeerId) {
        self.left[rank.0 as usize] = true;
        self.arrive(rank);
    }

    pub(crate) fn part(&mut self, rank: PeerId, farewell: Farewell) {
        let said = &mut self.farewells[rank.0 as usize];
        *said = said.and(farewell);
        self.arrive(rank);
    }

    pub(crate) fn farewell_of(&self, rank: PeerId) -> Farewell {
        self.farewells[rank.0 as usize]
    }

    /// What a rank has sent is there.
    fn arrive(&mut self, rank: PeerId) {
        let now = self.now;
        for other in 0..self.ranks {
            // As in shared memory, what it has sent is there.
            self.pair(rank, PeerId(other)).iter_mut().for_each(|flying| flying.visible_at = now);
        }
    }

    pub(crate) fn has_left(&self, rank: PeerId) -> bool {
        self.left[rank.0 as usize]
    }

    /// Whether nothing can be sent to a rank, and nothing comes from it any more that is not visible.
    pub(crate) fn is_gone(&self, rank: PeerId) -> bool {
        self.is_known_dead(rank) || self.has_left(rank)
    }

    /// Whether `me` is told of the death of `rank` now.
    pub(crate) fn hears_of(&self, me: PeerId, rank: PeerId) -> bool {
        let used = |from: PeerId, to: PeerId| self.used[(from.0 * self.ranks + to.0) as usize];
        self.is_known_dead(rank) && (self.config.news == News::Everybody || used(me, rank) || used(rank, me))
    }

    /// Whether a rank is dead and the news is out.
    pub(crate) fn is_known_dead(&self, rank: PeerId) -> bool {
        self.dead[rank.0 as usize].is_some_and(|heard_at| heard_at <= self.now)
    }
}
