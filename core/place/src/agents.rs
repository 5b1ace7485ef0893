//! Where each rank's progress agent runs: the thread that moves messages while the program computes.

use crate::cpus::CpuSet;
use crate::policy::Placement;
use crate::topology::{Level, Topology};

/// For each placed rank the CPUs of its progress agent: those that no rank's threads are expected on (its lanes' cores, where they
/// are known, or else all that it is bound to), as near to the rank's own as there are
/// any (its core's other threads, its NUMA node, its socket, the machine), of the slowest kind of core, shared evenly. `None` for a rank that is not bound,
/// whose threads the kernel places, and where nothing is left over: there the agent runs beside the rank.
pub fn agents(topology: &Topology, placements: &[Placement]) -> Vec<Option<CpuSet>> {
    let taken: CpuSet = placements.iter().flat_map(|place| place.busy().to_vec()).collect();
    let spare: Vec<usize> = topology.cpus().iter().copied().filter(|&cpu| !taken.contains(cpu)).collect();
    let near = [Level::Core, Level::Numa, Level::Socket, Level::Machine].map(|level| topology.parts(level));
    let mut load = vec![0_usize; spare.len()];
    placements
        .iter()
        .map(|place| {
            place.cpus.as_ref()?;
            let cpus = &place.busy();
            let distance = |cpu: usize| {
                let together = |parts: &Vec<CpuSet>| {
                    parts.iter().any(|part| part.contains(cpu) && !part.intersection(cpus).is_empty())
                };
                near.iter().position(together).unwrap_or(near.len())
            };
            // An agent works seldom: near and shared is better than far and alone, and a slow core will do.
            let slow = |cpu: usize| u8::MAX - topology.kind(cpu);
            let order = |&at: &usize| (distance(spare[at]), slow(spare[at]), load[at], spare[at]);
            let chosen = (0..spare.len()).min_by_key(order)?;
            load[chosen] += 1;
            Some(CpuSet::from_iter([spare[chosen]]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{BindTo, MapBy, place};
    use crate::topology::tests::{all, machine};
    use proptest::prelude::*;

    fn of(topology: &Topology, ranks: usize, bind_to: BindTo, map_by: MapBy) -> Vec<String> {
        let agents = agents(topology, &place(topology, ranks, bind_to, map_by));
        agents.iter().map(|cpus| cpus.as_ref().map_or_else(|| "-".to_owned(), CpuSet::to_string)).collect()
    }

    #[test]
    fn agents_take_what_is_left_over_near_their_rank() {
        // Two sockets of four cores, no second threads: 0-3 and 4-7.
        let topology = Topology::read(&machine(2, 1, 4, 1), &all(8));
        assert_eq!(of(&topology, 4, BindTo::Core, MapBy::Socket), ["2", "6", "3", "7"]);
        assert_eq!(of(&topology, 6, BindTo::Core, MapBy::Core), ["6", "7", "6", "7", "6", "7"]);
        assert_eq!(of(&topology, 8, BindTo::Core, MapBy::Core), ["-"; 8], "nothing is left over");
        assert_eq!(of(&topology, 2, BindTo::Socket, MapBy::Socket), ["-"; 2]);
        assert_eq!(of(&topology, 2, BindTo::None, MapBy::Slot), ["-"; 2], "the kernel places them");
    }

    #[test]
    fn the_other_thread_of_a_core_is_nearest() {
        // Cores 0-3 with second threads 4-7.
        let topology = Topology::read(&machine(2, 1, 2, 2), &all(8));
        assert_eq!(of(&topology, 2, BindTo::HwThread, MapBy::Core), ["4", "5"]);
        assert_eq!(of(&topology, 2, BindTo::Core, MapBy::Core), ["2", "3"]);
    }

    #[test]
    fn two_sockets_of_64_cores_in_8_numa_nodes() {
        let topology = Topology::read(&machine(2, 4, 16, 1), &all(128));
        let places = place(&topology, 120, BindTo::Core, MapBy::Numa);
        let agents = agents(&topology, &places);
        for (place, agent) in places.iter().zip(&agents) {
            let agent = agent.as_ref().expect("each NUMA node has a core left over");
            assert_eq!(topology.numa_node(agent), place.numa_node);
        }
    }

    proptest! {
        #[test]
        fn agents_never_take_a_ranks_cpu_and_share_evenly(
            shape in (1usize..3, 1usize..3, 1usize..5, 1usize..3),
            ranks in 1usize..20,
        ) {
            let (sockets, numa, cores, threads) = shape;
            let topology = Topology::read(&machine(sockets, numa, cores, threads), &all(sockets * numa * cores * threads));
            let places = place(&topology, ranks, BindTo::Core, MapBy::Core);
            let agents = agents(&topology, &places);
            prop_assert_eq!(agents.len(), ranks);
            let left_over = topology.parts(Level::Core).len() > ranks;
            for agent in &agents {
                prop_assert_eq!(agent.is_some(), left_over);
                for place in &places {
                    let cpus = place.cpus.as_ref().expect("bound");
                    prop_assert!(agent.as_ref().is_none_or(|agent| agent.intersection(cpus).is_empty()));
                }
            }
        }
    }
}
