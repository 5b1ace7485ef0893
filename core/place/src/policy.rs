//! Which CPUs each rank gets: `--bind-to` and `--map-by`.
//!
//! Mapping deals the ranks, in order, to parts of the machine; binding decides how much around its place a rank may
//! use. When only one is said, the other follows: binding to X maps by X, mapping by X binds to X.

use std::fmt;
use std::str::FromStr;

use crate::cpus::CpuSet;
use crate::devices::{self, Device};
use crate::lanes::LaneCore;
use crate::topology::{Level, Topology};

/// What a rank is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindTo {
    /// Nothing: the kernel moves ranks as it likes.
    None,
    /// One logical CPU.
    HwThread,
    /// One core with all its hardware threads.
    Core,
    /// The cores of one NUMA node.
    Numa,
    /// The cores of one socket.
    Socket,
}

/// How ranks are dealt to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapBy {
    /// Core after core.
    Slot,
    /// Hardware thread after hardware thread.
    HwThread,
    /// Core after core.
    Core,
    /// NUMA node after NUMA node, round robin.
    Numa,
    /// Socket after socket, round robin.
    Socket,
    /// Machine after machine; on one machine as [`MapBy::Slot`].
    Node,
}

impl FromStr for BindTo {
    type Err = String;

    fn from_str(text: &str) -> Result<BindTo, String> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Ok(BindTo::None),
            "hwthread" => Ok(BindTo::HwThread),
            "core" => Ok(BindTo::Core),
            "numa" => Ok(BindTo::Numa),
            "socket" | "package" => Ok(BindTo::Socket),
            _ => Err(format!(
                "ranks can be bound to none, hwthread, core, numa or socket, not to {text:?} (--bind-to)"
            )),
        }
    }
}

impl FromStr for MapBy {
    type Err = String;

    fn from_str(text: &str) -> Result<MapBy, String> {
        match text.to_ascii_lowercase().as_str() {
            "slot" => Ok(MapBy::Slot),
            "hwthread" => Ok(MapBy::HwThread),
            "core" => Ok(MapBy::Core),
            "numa" => Ok(MapBy::Numa),
            "socket" | "package" => Ok(MapBy::Socket),
            "node" => Ok(MapBy::Node),
            _ => Err(format!(
                "ranks can be mapped by slot, hwthread, core, numa, socket or node, not by {text:?} (--map-by)"
            )),
        }
    }
}

impl BindTo {
    fn level(self) -> Option<Level> {
        match self {
            BindTo::None => None,
            BindTo::HwThread => Some(Level::HwThread),
            BindTo::Core => Some(Level::Core),
            BindTo::Numa => Some(Level::Numa),
            BindTo::Socket => Some(Level::Socket),
        }
    }
}

/// Where one rank runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// CPUs it is bound to; `None` when it is not bound.
    pub cpus: Option<CpuSet>,
    /// NUMA node of those CPUs, when they lie in one.
    pub numa_node: Option<u32>,
    /// The core of each lane, in their order and then from the first again; empty when nobody said how many threads the rank has.
    pub lanes: Vec<LaneCore>,
}

/// The place of a rank that is not bound.
pub fn unbound() -> Placement {
    Placement { cpus: None, numa_node: None, lanes: Vec::new() }
}

impl Placement {
    /// CPUs on which the rank's threads are expected: those of its lanes, or else all that it is bound to.
    pub(crate) fn busy(&self) -> CpuSet {
        match (self.lanes.is_empty(), &self.cpus) {
            (false, _) => self.lanes.iter().flat_map(|lane| lane.cpus.iter().copied()).collect(),
            (true, Some(cpus)) => cpus.clone(),
            (true, None) => CpuSet::new(),
        }
    }
}

/// Completes what the command line left open.
pub fn complete(bind_to: Option<BindTo>, map_by: Option<MapBy>) -> (BindTo, MapBy) {
    match (bind_to, map_by) {
        (Some(bind_to), Some(map_by)) => (bind_to, map_by),
        (None, None) => (BindTo::None, MapBy::Slot),
        (Some(bind_to), None) => {
            let map_by = match bind_to {
                BindTo::None => MapBy::Slot,
                BindTo::HwThread => MapBy::HwThread,
                BindTo::Core => MapBy::Core,
                BindTo::Numa => MapBy::Numa,
                BindTo::Socket => MapBy::Socket,
            };
            (bind_to, map_by)
        }
        (None, Some(map_by)) => {
            let bind_to = match map_by {
                MapBy::Slot | MapBy::Node => BindTo::None,
                MapBy::HwThread => BindTo::HwThread,
                MapBy::Core => BindTo::Core,
                MapBy::Numa => BindTo::Numa,
                MapBy::Socket => BindTo::Socket,
            };
            (bind_to, map_by)
        }
    }
}

/// Places `ranks` ranks. More ranks than places share them, as evenly as can be.
pub fn place(topology: &Topology, ranks: usize, bind_to: BindTo, map_by: MapBy) -> Vec<Placement> {
    let seats = seats(topology, bind_to, map_by);
    let Some(level) = bind_to.level().filter(|_| !seats.is_empty()) else {
        return vec![unbound(); ranks];
    };
    let targets = topology.parts(level);
    (0..ranks)
        .map(|rank| {
            let seat = &seats[rank % seats.len()];
            let target = targets.iter().find(|target| !target.intersection(seat).is_empty());
            let numa_node = target.and_then(|cpus| topology.numa_node(cpus));
            Placement { numa_node, cpus: target.cloned(), lanes: Vec::new() }
        })
        .collect()
}

/// The places in the order in which ranks take them: single cores, or single hardware threads when those are bound to or mapped
/// by.
fn seats(topology: &Topology, bind_to: BindTo, map_by: MapBy) -> Vec<CpuSet> {
    let fine = bind_to == BindTo::HwThread || map_by == MapBy::HwThread;
    let seat_level = if fine { Level::HwThread } else { Level::Core };
    let seats = topology.parts(seat_level);
    let over = match map_by {
        MapBy::Numa => Level::Numa,
        MapBy::Socket => Level::Socket,
        MapBy::Core if fine => Level::Core,
        MapBy::Slot | MapBy::HwThread | MapBy::Core | MapBy::Node => return seats,
    };
    let mut piles: Vec<std::vec::IntoIter<CpuSet>> = topology
        .parts(over)
        .iter()
        .map(|part| {
            let inside: Vec<CpuSet> = seats.iter().filter(|seat| seat.is_subset(part)).cloned().collect();
            inside.into_iter()
        })
        .collect();
    // One from each pile in turn; a pile that ran out (an uneven machine) is passed over.
    let mut dealt = Vec::with_capacity(seats.len());
    while dealt.len() < seats.len() {
        let before = dealt.len();
        dealt.extend(piles.iter_mut().filter_map(Iterator::next));
        if dealt.len() == before {
            break;
        }
    }
    dealt
}

/// The RDMA device of each placed rank, by name; see [`devices::assign`].
pub fn rails(devices: &[Device], topology: &Topology, placements: &[Placement]) -> Vec<Option<String>> {
    let all = topology.cpus();
    let cpus: Vec<CpuSet> =
        placements.iter().map(|place| place.cpus.clone().unwrap_or_else(|| all.clone())).collect();
    devices::assign_names(devices, &cpus)
}

/// The line of `--report-bindings` for one rank; `rails` are the RDMA devices it uses, `agent` where its progress agent would run.
pub fn report(
    topology: &Topology,
    rank: usize,
    placement: &Placement,
    rails: &[String],
    agent: Option<&CpuSet>,
) -> String {
    struct Named<'a>(&'a str, &'a str, CpuSet);
    impl fmt::Display for Named<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Named(one, many, numbers) = self;
            write!(f, "{} {numbers}", if numbers.len() == 1 { one } else { many })
        }
    }
    let allowed = topology.cpus();
    let mut rail = match rails {
        [] => String::new(),
        [only] => format!(", RDMA device {only}"),
        [most @ .., last] => format!(", RDMA devices {} and {last}", most.join(", ")),
    };
    if let Some(agent) = agent {
        rail += &format!(", progress agent on {}", Named("CPU", "CPUs", agent.clone()));
    }
    match &placement.cpus {
        None => format!("rank {rank} is not bound; it may use {}{rail}", Named("CPU", "CPUs", allowed)),
        Some(cpus) => format!(
            "rank {rank} is bound to {}, {}, {} ({}{}){}{rail}",
            Named("socket", "sockets", topology.sockets(cpus)),
            Named("NUMA node", "NUMA nodes", topology.numa_nodes(cpus)),
            Named("core", "cores", topology.cores(cpus)),
            Named("CPU", "CPUs", cpus.clone()),
            speed(topology, cpus),
            lanes(topology, &placement.lanes),
        ),
    }
}

/// What a line says of the cores of lanes, in the order of the lanes (`4-7,0-3`: lane 0 on core 4).
fn lanes(topology: &Topology, lanes: &[LaneCore]) -> String {
    let whole = lanes.iter().all(|lane| topology.is_core(&lane.cpus));
    let numbers: Vec<usize> = lanes
        .iter()
        .filter_map(|lane| {
            if whole { topology.cores(&lane.cpus).first().copied() } else { lane.cpus.first().copied() }
        })
        .collect();
    let mut text = String::new();
    let mut rest = numbers.as_slice();
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|&(&number, expected)| number == expected).count();
        text += if text.is_empty() { "" } else { "," };
        match run {
            1 => text += &first.to_string(),
            _ => text += &format!("{first}-{}", first + run - 1),
        }
        rest = &rest[run..];
    }
    match (numbers.len(), whole) {
        (0, _) => String::new(),
        (1, true) => format!(", lanes on core {text}"),
        (_, true) => format!(", lanes in turn on cores {text}"),
        (1, false) => format!(", lanes on CPU {text}"),
        (_, false) => format!(", lanes in turn on CPUs {text}"),
    }
}

/// What a line says of the kinds of cores, on machines that have several.
fn speed(topology: &Topology, cpus: &CpuSet) -> String {
    let kinds = topology.kinds();
    if kinds == 1 {
        return String::new();
    }
    let name = |kind: usize| match (kind, kinds - 1 - kind) {
        (0, _) => "fast".to_owned(),
        (_, 0) => "slow".to_owned(),
        _ => format!("kind {}", kind + 1),
    };
    let of = |kind: usize| -> CpuSet {
        cpus.iter().copied().filter(|&cpu| usize::from(topology.kind(cpu)) == kind).collect()
    };
    let there: Vec<(String, CpuSet)> =
        (0..kinds).map(|kind| (name(kind), of(kind))).filter(|(_, cpus)| !cpus.is_empty()).collect();
    match there.as_slice() {
        [(name, _)] => format!(", {name}"),
        several => several.iter().map(|(name, cpus)| format!(", {name} {cpus}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::{all, machine};
    use proptest::prelude::*;

    fn bound(topology: &Topology, ranks: usize, bind_to: BindTo, map_by: MapBy) -> Vec<String> {
        let placed = place(topology, ranks, bind_to, map_by);
        placed
            .iter()
            .map(|placement| placement.cpus.as_ref().map(CpuSet::to_string).unwrap_or_default())
            .collect()
    }

    /// Two sockets of two cores with two threads: cores 0-1 and 2-3, second threads 4-7.
    fn small() -> Topology {
        Topology::read(&machine(2, 1, 2, 2), &all(8))
    }

    #[test]
    fn cores_are_taken_in_order_with_all_their_threads() {
        assert_eq!(bound(&small(), 5, BindTo::Core, MapBy::Core), ["0,4", "1,5", "2,6", "3,7", "0,4"]);
    }

    #[test]
    fn sockets_are_dealt_in_turn() {
        assert_eq!(bound(&small(), 4, BindTo::Core, MapBy::Socket), ["0,4", "2,6", "1,5", "3,7"]);
        assert_eq!(bound(&small(), 3, BindTo::Socket, MapBy::Socket), ["0-1,4-5", "2-3,6-7", "0-1,4-5"]);
        assert_eq!(bound(&small(), 3, BindTo::Socket, MapBy::Slot), ["0-1,4-5", "0-1,4-5", "2-3,6-7"]);
    }

    #[test]
    fn hardware_threads_are_seats_of_their_own() {
        assert_eq!(bound(&small(), 3, BindTo::HwThread, MapBy::HwThread), ["0", "4", "1"]);
        assert_eq!(bound(&small(), 3, BindTo::HwThread, MapBy::Core), ["0", "1", "2"]);
    }

    #[test]
    fn what_is_left_open_follows() {
        assert_eq!(complete(None, None), (BindTo::None, MapBy::Slot));
        assert_eq!(complete(Some(BindTo::Numa), None), (BindTo::Numa, MapBy::Numa));
        assert_eq!(complete(None, Some(MapBy::Socket)), (BindTo::Socket, MapBy::Socket));
        assert_eq!(complete(None, Some(MapBy::Slot)), (BindTo::None, MapBy::Slot));
    }

    #[test]
    fn reports_read_like_a_sentence() {
        let topology = small();
        let placed = place(&topology, 1, BindTo::Socket, MapBy::Slot);
        assert_eq!(
            report(&topology, 0, &placed[0], &[], None),
            "rank 0 is bound to socket 0, NUMA node 0, cores 0-1 (CPUs 0-1,4-5)"
        );
        let free = unbound();
        assert_eq!(report(&topology, 3, &free, &[], None), "rank 3 is not bound; it may use CPUs 0-7");
        assert_eq!(
            report(&topology, 3, &free, &["mlx5_1".to_owned()], None),
            "rank 3 is not bound; it may use CPUs 0-7, RDMA device mlx5_1"
        );
        let agent = CpuSet::from_iter([5]);
        let both = ["mlx5_0", "another port of mlx5_0"].map(str::to_owned);
        assert!(
            report(&topology, 3, &free, &both, None)
                .ends_with(", RDMA devices mlx5_0 and another port of mlx5_0")
        );
        assert!(
            report(&topology, 0, &placed[0], &["mlx5_1".to_owned()], Some(&agent))
                .ends_with(", RDMA device mlx5_1, progress agent on CPU 5")
        );
    }

    fn any_bind() -> impl Strategy<Value = BindTo> {
        prop::sample::select(vec![BindTo::HwThread, BindTo::Core, BindTo::Numa, BindTo::Socket])
    }

    fn any_map() -> impl Strategy<Value = MapBy> {
        let all = vec![MapBy::Slot, MapBy::HwThread, MapBy::Core, MapBy::Numa, MapBy::Socket, MapBy::Node];
        prop::sample::select(all)
    }

    proptest! {
        /// Whatever the machine, the allowed CPUs and the policy: every rank gets allowed CPUs, and places are shared evenly.
        #[test]
        fn every_rank_gets_a_fair_place(
            shape in (1usize..3, 1usize..3, 1usize..4, 1usize..3),
            mask in prop::collection::vec(any::<bool>(), 36),
            ranks in 1usize..40,
            bind_to in any_bind(),
            map_by in any_map(),
        ) {
            let (sockets, numa, cores, threads) = shape;
            let count = sockets * numa * cores * threads;
            let mut allowed: CpuSet = (0..count).filter(|&cpu| mask[cpu]).collect();
            if allowed.is_empty() {
                allowed = all(count);
            }
            let topology = Topology::read(&machine(sockets, numa, cores, threads), &allowed);
            let placed = place(&topology, ranks, bind_to, map_by);
            prop_assert_eq!(placed.len(), ranks);
            for placement in &placed {
                let cpus = placement.cpus.as_ref().expect("bound");
                prop_assert!(!cpus.is_empty() && cpus.is_subset(&allowed));
                prop_assert_eq!(placement.numa_node, topology.numa_node(cpus));
            }
            if bind_to == BindTo::Core && map_by != MapBy::HwThread {
                let load = |core: &CpuSet| placed.iter().filter(|placement| placement.cpus.as_ref() == Some(core)).count();
                let loads: Vec<usize> = topology.parts(Level::Core).iter().map(load).collect();
                let (least, most) = (loads.iter().min().copied(), loads.iter().max().copied());
                prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1, "{:?}", loads);
            }
        }
    }
}
