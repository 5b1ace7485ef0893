//! The choice among algorithms: what each entry of the registry tells, the cost model, and its minimum.

use crate::algorithms::ALGORITHMS;
use crate::call::{Call, Group};
use crate::schedule::Schedule;

/// What the cost formulas assume of the machine. Must be the same at all ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Seconds from the start of a small send to its arrival.
    pub latency: f64,
    /// Seconds of work per message at either end.
    pub overhead: f64,
    /// Seconds per byte moved between two ranks.
    pub per_byte: f64,
    /// How much longer it takes a rank to send and receive a byte than to do one of both: 1 for a network, 2 in shared
    /// memory, where the same cores and caches do both.
    pub duplex: f64,
    /// Seconds per byte combined by a reduction.
    pub per_byte_reduced: f64,
    /// Seconds a wait costs when ranks share cores: sleeping, waking, switching.
    pub per_switch: f64,
    /// Ranks for each core, at the fullest node; above 1 waiting costs switches.
    pub ranks_per_core: f64,
    /// Bytes of a segment where a message is passed on in segments.
    pub segment: u64,
    /// Exchanges an all-to-all has under way at a time.
    pub window: usize,
}

impl Default for Model {
    /// Shared memory on one node, a core for every rank; fitted to `core/engine/examples/collectives.rs`.
    fn default() -> Model {
        Model {
            latency: 0.15e-6,
            overhead: 0.06e-6,
            per_byte: 0.02e-9,
            duplex: 2.0,
            per_byte_reduced: 0.02e-9,
            per_switch: 1.5e-6,
            ranks_per_core: 1.0,
            segment: 32 << 10,
            window: 32,
        }
    }
}

/// What an algorithm costs, in units of the [`Model`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Messages one after another on the longest path.
    pub depth: f64,
    /// Messages the busiest rank handles.
    pub handled: f64,
    /// Bytes moved in one direction, one after another on the longest path.
    pub bytes: f64,
    /// Bytes that a rank sends while it receives as many, one after another on the longest path.
    pub exchanged: f64,
    /// Bytes combined on the longest path.
    pub reduced: f64,
    /// Bytes moved by all ranks together.
    pub moved: f64,
    /// Times a rank waits, all ranks together.
    pub waits: f64,
    /// Messages of all ranks together.
    pub messages: f64,
}

impl Model {
    /// Seconds an algorithm takes. With more ranks than cores the work and the waits of the ranks that share a core add
    /// up; otherwise the longest path decides.
    pub fn seconds(&self, cost: &Cost, group: Group) -> f64 {
        let path = cost.depth * self.latency
            + cost.handled * self.overhead
            + (cost.bytes + cost.exchanged * self.duplex) * self.per_byte
            + cost.reduced * self.per_byte_reduced;
        if self.ranks_per_core <= 1.0 {
            return path;
        }
        let cores = f64::from(group.size) / self.ranks_per_core;
        let work =
            cost.messages * 2.0 * self.overhead + cost.moved * self.per_byte + cost.waits * self.per_switch;
        path.max(work / cores.max(1.0))
    }
}

/// One algorithm.
pub struct Algorithm {
    /// Unique among those of its operation.
    pub name: &'static str,
    /// The operations it is for, by [`Call::name`].
    pub operations: &'static [&'static str],
    /// Where it is described.
    pub source: &'static str,
    /// Whether it gives the right result for such a call. Reads only what is the same at all ranks.
    pub applies: fn(&Call<'_>, Group) -> bool,
    /// Its cost. Reads only what is the same at all ranks.
    pub cost: fn(&Call<'_>, Group, &Model) -> Cost,
    /// This rank's schedule; only for calls it applies to.
    pub build: fn(&Call<'_>, Group, &Model) -> Schedule,
}

impl std::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.operations.join("/"), self.name)
    }
}

/// This rank's schedule for a call, by the algorithm that the model finds cheapest.
pub fn plan(call: &Call<'_>, group: Group, model: &Model) -> Schedule {
    (choose(call, group, model).build)(call, group, model)
}

/// The algorithm [`plan`] takes.
pub fn choose(call: &Call<'_>, group: Group, model: &Model) -> &'static Algorithm {
    let cheapest = candidates(call, group).min_by(|a, b| {
        let cost = |algorithm: &Algorithm| model.seconds(&(algorithm.cost)(call, group, model), group);
        cost(a).total_cmp(&cost(b))
    });
    cheapest.expect("every operation has an algorithm without restrictions")
}

/// All algorithms that apply, with their modelled seconds, cheapest first.
pub fn rank_algorithms(call: &Call<'_>, group: Group, model: &Model) -> Vec<(&'static Algorithm, f64)> {
    let mut all: Vec<_> = candidates(call, group)
        .map(|algorithm| (algorithm, model.seconds(&(algorithm.cost)(call, group, model), group)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// The algorithms that apply to a call.
pub fn candidates(call: &Call<'_>, group: Group) -> impl Iterator<Item = &'static Algorithm> {
    ALGORITHMS.iter().filter(move |algorithm| {
        algorithm.operations.contains(&call.name()) && (algorithm.applies)(call, group)
    })
}
