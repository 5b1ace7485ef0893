//! Virtual fabric with a virtual clock and injected faults, for worlds of ranks in one process.
//!
//! Every pair of ranks has a bounded FIFO. A packet becomes visible after a random delay in virtual time, never
//! before its predecessor of the same pair, so the order *between* pairs varies with the seed. Sending is refused at
//! random and when the FIFO is full; reading memory can be denied at random; ranks can be killed. All randomness
//! comes from one seed: driven from one thread, a world repeats exactly. Time moves one tick with every
//! [`weft_api::Transport::progress`] of any rank, or by [`SimFabric::pass`] without any.
//!
//! Apart from it, [`layers`] go round *any* transport: faults, the times of another network, a trace of packets.
//!
//! With [`SimConfig::device`] the ranks' adapters run whole collectives by themselves ([`weft_api::offload`]).
#![forbid(unsafe_code)]

mod arithmetic;
mod device;
pub mod layers;
mod net;
mod port;
mod random;
mod worlds;

pub use device::DeviceConfig;
pub use port::{SimBell, SimPort};
pub use random::Random;
pub use worlds::{seeds, worlds};

use net::Net;
use std::sync::{Arc, Mutex, MutexGuard};
use weft_api::shares::Shares;
use weft_types::PeerId;

/// What a virtual fabric is like. Sizes in bytes, probabilities from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    /// Source of all randomness.
    pub seed: u64,
    /// Largest inline payload.
    pub max_inline: usize,
    /// Largest payload of a packet; at least 32.
    pub max_copy: usize,
    /// Bytes by which those of a message in several are shorter, so that they fill packets of a device below.
    pub header: usize,
    /// Packets that one pair's FIFO holds.
    pub depth: usize,
    /// Probability that a packet is refused although there is room.
    pub full: f64,
    /// Longest delay of a packet in ticks.
    pub delay: u64,
    /// Whether memory of other ranks can be read.
    pub single_copy: bool,
    /// Whether the time of reading and of streams decides which is used.
    pub compared: bool,
    /// Probability that reading memory is denied although it is offered.
    pub denial: f64,
    /// Who hears of a rank's death.
    pub news: News,
    /// What the devices are like that run collectives; `None`: they move packets only.
    pub device: Option<DeviceConfig>,
}

/// Who hears of a rank's death by itself; whoever sends to a dead rank finds out in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// All ranks.
    Everybody,
    /// Those that a packet of the dead rank has reached, or that have sent it one: as between two ends of a connection.
    Partners,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            seed: 0,
            max_inline: 48,
            max_copy: 1024,
            header: 0,
            depth: 8,
            full: 0.0,
            delay: 20,
            single_copy: true,
            compared: false,
            denial: 0.0,
            news: News::Everybody,
            device: None,
        }
    }
}

/// A virtual fabric; clones are the same one.
#[derive(Clone, Debug)]
pub struct SimFabric(Arc<Mutex<Net>>);

impl SimFabric {
    /// A fabric between `ranks` ranks.
    ///
    /// # Panics
    /// When `max_copy` cannot hold the largest control packet.
    pub fn new(ranks: u32, config: SimConfig) -> SimFabric {
        assert!(config.max_copy >= 32, "a packet must hold at least 32 bytes");
        SimFabric(Arc::new(Mutex::new(Net::new(ranks, config))))
    }

    /// The end of `rank`; each rank takes one.
    pub fn port(&self, rank: u32) -> SimPort {
        SimPort::new(self.clone(), rank)
    }

    /// Where parts of messages from one rank to another are laid out.
    pub fn shares(&self, from: u32, to: u32) -> Arc<Shares> {
        self.net().shares(PeerId(from), PeerId(to))
    }

    /// Kills a rank: nothing reaches it any more, the others hear of it after a while.
    pub fn kill(&self, rank: u32) {
        self.net().kill(PeerId(rank));
    }

    /// A rank ends in order: nothing reaches it any more, what it has sent is there, and nobody is told.
    pub fn leave(&self, rank: u32) {
        self.net().leave(PeerId(rank));
    }

    /// Virtual time in ticks.
    pub fn now(&self) -> u64 {
        self.net().now
    }

    /// Lets time pass in which no rank does anything: what the devices do by themselves.
    pub fn pass(&self, ticks: u64) {
        let mut net = self.net();
        (0..ticks).for_each(|_| net.tick());
    }

    /// Whether the devices run nothing and remember nothing.
    pub fn devices_are_empty(&self) -> bool {
        self.net().devices.as_ref().is_none_or(device::Devices::is_empty)
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        // A panic of another rank's thread leaves the fabric usable: it holds plain values only.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
