//! Cores for ranks with several threads: as many as a rank has threads, near one another and near an RDMA device; lane `i` of a rank
//! (an independent channel of its threads) has the `i`-th of them, beginning again after the last.
//!
//! What holds, whatever the machine:
//! * No core is given twice while there are enough of them; with too few, every core is given as often as every other, or once more.
//! * A rank's cores lie in one NUMA node when one has enough that are as little taken as any; otherwise in one socket, if one has.
//! * The fastest kind of core comes first, then parts of the machine near an active RDMA device, then the machine's order.

use crate::cpus::CpuSet;
use crate::devices::Device;
use crate::policy::{self, BindTo, MapBy, Placement, unbound};
use crate::topology::{Level, Topology};

/// The core of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCore {
    /// Its CPUs: all hardware threads of the core, or the one hardware thread when ranks are bound to those.
    pub cpus: CpuSet,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
}

/// Completes what the command line left open for ranks of so many threads (0: not said). Where a number is said, ranks are bound
/// to as many cores as they have threads, unless something else is asked for; otherwise as [`policy::complete`].
pub fn complete(threads: &[u32], bind_to: Option<BindTo>, map_by: Option<MapBy>) -> (BindTo, MapBy) {
    if !is_said(threads) {
        return policy::complete(bind_to, map_by);
    }
    let finest = if map_by == Some(MapBy::HwThread) { BindTo::HwThread } else { BindTo::Core };
    let bind_to = bind_to.unwrap_or(finest);
    let by_binding = match bind_to {
        BindTo::Numa => MapBy::Numa,
        BindTo::Socket => MapBy::Socket,
        BindTo::HwThread => MapBy::HwThread,
        BindTo::Core | BindTo::None => MapBy::Slot,
    };
    (bind_to, map_by.unwrap_or(by_binding))
}

fn is_said(threads: &[u32]) -> bool {
    threads.iter().any(|&threads| threads > 0)
}

/// Places ranks by their numbers of threads. Bound to cores or hardware threads, a rank may use exactly those of its lanes; bound to
/// more, the parts that these lie in. Where no number is said, as [`policy::place`]; a rank without a number beside others
/// that have one counts as one thread.
pub fn place(
    topology: &Topology,
    devices: &[Device],
    threads: &[u32],
    bind_to: BindTo,
    map_by: MapBy,
) -> Vec<Placement> {
    if !is_said(threads) {
        return policy::place(topology, threads.len(), bind_to, map_by);
    }
    let seat_level = match (bind_to, map_by) {
        (BindTo::HwThread, _) | (_, MapBy::HwThread) => Level::HwThread,
        _ => Level::Core,
    };
    let around = match bind_to {
        BindTo::None => return vec![unbound(); threads.len()],
        BindTo::HwThread | BindTo::Core => None,
        BindTo::Numa => Some(topology.parts(Level::Numa)),
        BindTo::Socket => Some(topology.parts(Level::Socket)),
    };
    let mut seats = Seats::new(topology, devices, seat_level);
    let (over, mut turn) = (seats.domains(map_by), 0);
    threads
        .iter()
        .map(|&threads| {
            let chosen = seats.take(threads.max(1) as usize, &over, &mut turn);
            let lanes: Vec<LaneCore> = chosen
                .iter()
                .map(|&seat| &seats.cpus[seat])
                .map(|cpus| LaneCore { numa_node: topology.numa_node(cpus), cpus: cpus.clone() })
                .collect();
            let own: CpuSet = lanes.iter().flat_map(|lane| lane.cpus.iter().copied()).collect();
            let cpus = match &around {
                None => own,
                Some(parts) => {
                    let touched = parts.iter().filter(|part| !part.intersection(&own).is_empty());
                    touched.flat_map(|part| part.iter().copied()).collect()
                }
            };
            match lanes.is_empty() {
                true => unbound(),
                false => Placement { numa_node: topology.numa_node(&cpus), cpus: Some(cpus), lanes },
            }
        })
        .collect()
}

/// The cores (or hardware threads) of a machine and how often each was given.
struct Seats {
    /// In the machine's order.
    cpus: Vec<CpuSet>,
    /// How often each was given.
    load: Vec<usize>,
    /// 0 is the fastest.
    kind: Vec<u8>,
    /// Whether an active device is near.
    near: Vec<bool>,
    /// The seats of each NUMA node, of each socket, and all.
    nodes: Vec<Vec<usize>>,
    sockets: Vec<Vec<usize>>,
    whole: Vec<Vec<usize>>,
}

impl Seats {
    fn new(topology: &Topology, devices: &[Device], level: Level) -> Seats {
        let cpus = topology.parts(level);
        let within = |level| -> Vec<Vec<usize>> {
            let parts = topology.parts(level);
            let inside = |part: &CpuSet| (0..cpus.len()).filter(|&seat| cpus[seat].is_subset(part)).collect();
            parts.iter().map(inside).collect()
        };
        let (nodes, sockets, whole) = (within(Level::Numa), within(Level::Socket), within(Level::Machine));
        let is_near =
            |seat: &CpuSet| devices.iter().any(|device| device.is_active() && seat.is_subset(&device.cpus));
        Seats {
            load: vec![0; cpus.len()],
            kind: cpus.iter().map(|seat| seat.first().map_or(0, |&cpu| topology.kind(cpu))).collect(),
            near: cpus.iter().map(is_near).collect(),
            cpus,
            nodes,
            sockets,
            whole,
        }
    }

    /// What ranks are dealt over in turn, those near a device first; for each, whether a seat belongs to it.
    fn domains(&self, map_by: MapBy) -> Vec<Vec<bool>> {
        let mut domains = match map_by {
            MapBy::Numa => self.nodes.clone(),
            MapBy::Socket => self.sockets.clone(),
            MapBy::Slot | MapBy::HwThread | MapBy::Core | MapBy::Node => self.whole.clone(),
        };
        domains.sort_by_key(|domain| self.preference(domain));
        domains.iter().map(|domain| self.mask(domain)).collect()
    }

    fn mask(&self, seats: &[usize]) -> Vec<bool> {
        let mut mask = vec![false; self.cpus.len()];
        seats.iter().for_each(|&seat| mask[seat] = true);
        mask
    }

    /// What is taken first, the smaller first, by its first seat.
    fn preference(&self, seats: &[usize]) -> (u8, bool) {
        seats.first().map_or((u8::MAX, true), |&seat| (self.kind[seat], !self.near[seat]))
    }

    /// Gives one rank `count` seats; `turn` is the domain to begin with, and becomes the one after that which was used.
    fn take(&mut self, count: usize, over: &[Vec<bool>], turn: &mut usize) -> Vec<usize> {
        let (mut chosen, all) = (Vec::with_capacity(count), self.cpus.len());
        while chosen.len() < count && all > 0 {
            // Of its own again only when it has all.
            let own = self.mask(&chosen[chosen.len() / all * all..]);
            let least = (0..all).filter(|&seat| !own[seat]).map(|seat| self.load[seat]).min().unwrap_or(0);
            let free: Vec<bool> = (0..all).map(|seat| self.load[seat] == least && !own[seat]).collect();
            let picked = self.pick(count - chosen.len(), &free, &own, over, turn);
            picked.iter().for_each(|&seat| self.load[seat] += 1);
            chosen.extend(picked);
        }
        chosen
    }

    /// The first `count` free seats of the best part that has as many; where none has, all free ones.
    fn pick(
        &self,
        count: usize,
        free: &[bool],
        own: &[bool],
        over: &[Vec<bool>],
        turn: &mut usize,
    ) -> Vec<usize> {
        let levels = [&self.nodes, &self.sockets, &self.whole];
        // Within `domain`, from the smallest parts to the largest.
        let within = |domain: &[bool]| {
            levels.into_iter().find_map(|parts| {
                let enough = parts.iter().filter_map(|part| {
                    let here = part.iter().copied().filter(|&seat| domain[seat]);
                    let seats: Vec<usize> = here.clone().filter(|&seat| free[seat]).collect();
                    // Beside what it has already, then by speed and device, then in order.
                    let order = (!here.clone().any(|seat| own[seat]), self.preference(&seats));
                    (seats.len() >= count).then_some((order, seats))
                });
                enough.min_by_key(|(order, _)| *order).map(|(_, seats)| seats)
            })
        };
        let everywhere = vec![true; free.len()];
        let in_turn = (0..over.len()).map(|step| (*turn + step) % over.len());
        let found = in_turn.map(|at| (at + 1, within(&over[at]))).find(|(_, seats)| seats.is_some());
        let mut seats = match found {
            Some((next, Some(seats))) => {
                *turn = next;
                seats
            }
            _ => within(&everywhere).unwrap_or_else(|| (0..free.len()).filter(|&seat| free[seat]).collect()),
        };
        seats.truncate(count);
        seats
    }
}

/// For a thread that makes a lane its own: which of the rank's cores it takes, an index into `cores`; `taken` tells of each whether
/// another thread has it. That of the lane, if nobody is there, otherwise one where the fewest are, in the same NUMA node
/// if possible; `None` when all are taken.
pub fn choose(cores: &[LaneCore], lane: usize, taken: &[bool]) -> Option<usize> {
    let own = lane.checked_rem(cores.len())?;
    let is_taken = |at: usize| taken.get(at).copied().unwrap_or(false);
    // A rank that has more threads than there are cores has some of them more than once.
    let there = |at: usize| {
        (0..cores.len()).filter(|&other| is_taken(other) && cores[other].cpus == cores[at].cpus).count()
    };
    let order = |&at: &usize| (there(at), at != own, cores[at].numa_node != cores[own].numa_node, at);
    (0..cores.len()).filter(|&at| !is_taken(at)).min_by_key(order)
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
