//! A world of simulated ranks in one thread: engines over a [`SimFabric`], virtual time, injected faults.
//!
//! ```
//! use weft_engine::world::World;
//! let mut world = World::new(4).seed(7).full(0.1).build();
//! world.settle();
//! ```
//!
//! Everything random comes from the seed, so a failing world is repeated by its number; [`World::run`] puts it into
//! the message of its panic, and [`World`] prints it when a test panics while it is alive.

use crate::{Engine, EngineConfig, Transports};
use weft_sim::layers::{Clock, Layers};
use weft_sim::{Random, SimConfig, SimFabric};
use weft_types::PeerId;

/// What a world shall be like; see [`World::new`].
#[derive(Clone, Debug)]
pub struct WorldPlan {
    ranks: u32,
    sim: SimConfig,
    kills: Vec<(u32, u64)>,
    configure: fn(&mut EngineConfig),
    layers: Layers,
}

impl WorldPlan {
    /// The source of all randomness (default 0).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> WorldPlan {
        self.sim.seed = seed;
        self
    }

    /// Probability that a transport refuses a packet although it has room.
    #[must_use]
    pub fn full(mut self, probability: f64) -> WorldPlan {
        self.sim.full = probability;
        self
    }

    /// Kills `rank` when virtual time reaches `at` ticks.
    #[must_use]
    pub fn kill(mut self, rank: u32, at: u64) -> WorldPlan {
        self.kills.push((rank, at));
        self
    }

    /// Changes the fabric's properties.
    #[must_use]
    pub fn fabric(mut self, change: impl FnOnce(&mut SimConfig)) -> WorldPlan {
        change(&mut self.sim);
        self
    }

    /// Changes every engine's configuration.
    #[must_use]
    pub fn engines(mut self, change: fn(&mut EngineConfig)) -> WorldPlan {
        self.configure = change;
        self
    }

    /// Puts every rank's end of the fabric into layers, which go by virtual time: a tick is a nanosecond.
    #[must_use]
    pub fn layers(mut self, layers: Layers) -> WorldPlan {
        self.layers = layers;
        self
    }

    /// The world.
    ///
    /// # Panics
    /// When an engine cannot be made.
    pub fn build(self) -> World {
        let fabric = SimFabric::new(self.ranks, self.sim.clone());
        let engines = (0..self.ranks)
            .map(|rank| {
                let mut config = EngineConfig::new(PeerId(rank), self.ranks);
                (self.configure)(&mut config);
                let (layers, clock) = (self.layers.clone(), Clock::Virtual(fabric.clone()));
                Transports::Sim(fabric.port(rank))
                    .in_layers(layers, PeerId(rank), 0, clock)
                    .and_then(|transports| Engine::new(config, transports))
                    .expect("an engine over the simulation")
            })
            .collect();
        World { random: Random::new(!self.sim.seed), seed: self.sim.seed, fabric, engines, kills: self.kills }
    }
}

/// Simulated ranks and the fabric between them.
#[derive(Debug)]
pub struct World {
    /// The ranks' engines; those of killed ranks stay but are not driven.
    pub engines: Vec<Engine>,
    fabric: SimFabric,
    /// Generator for the test's own choices.
    pub random: Random,
    seed: u64,
    kills: Vec<(u32, u64)>,
}

impl World {
    /// A plan for a world of `ranks` ranks.
    #[expect(clippy::new_ret_no_self, reason = "reads as the design says: World::new(n).seed(s).build()")]
    pub fn new(ranks: u32) -> WorldPlan {
        WorldPlan {
            ranks,
            sim: SimConfig::default(),
            kills: Vec::new(),
            configure: |_| {},
            layers: Layers::default(),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.engines.len() as u32
    }

    /// Whether a rank has not been killed (yet).
    pub fn is_alive(&self, rank: u32) -> bool {
        !self.kills.iter().any(|&(killed, at)| killed == rank && at <= self.fabric.now())
    }

    /// The fabric between the ranks.
    pub fn fabric(&self) -> &SimFabric {
        &self.fabric
    }

    /// Kills a rank now.
    pub fn kill(&mut self, rank: u32) {
        self.kills.push((rank, self.fabric.now()));
        self.fabric.kill(rank);
    }

    /// Lets one rank, chosen at random, make progress once. True when something moved.
    pub fn step(&mut self) -> bool {
        for index in 0..self.kills.len() {
            let (rank, at) = self.kills[index];
            if at <= self.fabric.now() {
                self.fabric.kill(rank);
            }
        }
        let rank = self.random.below(u64::from(self.ranks())) as u32;
        self.is_alive(rank) && self.engines[rank as usize].progress()
    }

    /// Lets all ranks make progress until nothing has moved for long.
    ///
    /// # Panics
    /// When the world does not come to rest.
    pub fn settle(&mut self) {
        let calm = 200 + 40 * self.ranks();
        let mut quiet = 0;
        for _ in 0..2_000_000_u32 {
            quiet = if self.step() { 0 } else { quiet + 1 };
            if quiet > calm {
                return;
            }
        }
        panic!("the world of seed {} does not come to rest", self.seed);
    }

    /// Runs one program per living rank to its end: `program(rank, engine)` is called again and again, between
    /// steps of progress, until it returns true.
    ///
    /// # Panics
    /// When `limit` steps were not enough; the message names the seed and the ranks that are not done.
    pub fn run(&mut self, limit: u64, mut program: impl FnMut(u32, &mut Engine) -> bool) {
        let mut done = vec![false; self.engines.len()];
        for _ in 0..limit {
            let rank = self.random.below(u64::from(self.ranks())) as u32;
            self.step();
            if !done[rank as usize] && self.is_alive(rank) {
                done[rank as usize] = program(rank, &mut self.engines[rank as usize]);
            }
            if (0..self.ranks()).all(|rank| done[rank as usize] || !self.is_alive(rank)) {
                return;
            }
        }
        let late: Vec<u32> = (0..self.ranks()).filter(|&rank| !done[rank as usize]).collect();
        panic!("the world of seed {} is stuck after {limit} steps: ranks {late:?} are not done", self.seed);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("world: {} ranks, seed {}, time {}", self.ranks(), self.seed, self.fabric.now());
        }
    }
}
