//! Machines that are not here, and whatever machine: where lanes' cores are.

use super::*;
use crate::agents;
use crate::described;
use crate::devices::Speech;
use crate::topology::tests::{all, machine};
use proptest::prelude::*;

/// An active device near these CPUs.
fn device(name: &str, cpus: &str) -> Device {
    Device {
        name: name.to_owned(),
        speech: Speech::InfiniBand,
        pci: None,
        numa_node: None,
        cpus: cpus.parse().expect("a list"),
        rate: Some(100),
        active_ports: 1,
        ports: String::new(),
    }
}

/// Each rank's lanes by their CPUs.
fn lanes(places: &[Placement]) -> Vec<String> {
    let of = |place: &Placement| place.lanes.iter().map(|lane| lane.cpus.to_string()).collect::<Vec<_>>();
    places.iter().map(|place| of(place).join(" ")).collect()
}

/// The lines of `--report-bindings`.
fn report(topology: &Topology, devices: &[Device], places: &[Placement]) -> Vec<String> {
    let (rails, agents) = (policy::rails(devices, topology, places), agents::agents(topology, places));
    places
        .iter()
        .enumerate()
        .map(|(rank, place)| {
            let rails: Vec<String> = rails[rank].iter().cloned().collect();
            policy::report(topology, rank, place, &rails, agents[rank].as_ref())
        })
        .collect()
}

#[test]
fn two_sockets_of_64_cores_with_an_adapter_each() {
    let topology = described::synthetic("package:2 core:64 pu:2").expect("a machine");
    let halves = topology.parts(Level::Socket);
    let devices = [device("mlx5_0", &halves[0].to_string()), device("mlx5_1", &halves[1].to_string())];
    let places = place(&topology, &devices, &[16; 6], BindTo::Core, MapBy::Slot);
    let lines = report(&topology, &devices, &places);
    assert_eq!(
        lines[3],
        "rank 3 is bound to socket 0, NUMA node 0, cores 48-63 (CPUs 96-127), lanes in turn on cores 48-63, RDMA device mlx5_0, \
         progress agent on CPU 195"
    );
    assert!(lines[4].contains("socket 1") && lines[4].contains("RDMA device mlx5_1"), "{}", lines[4]);
    // Dealt over the sockets: each beside its adapter.
    let places = place(&topology, &devices, &[16; 4], BindTo::Core, MapBy::Socket);
    let rails = policy::rails(&devices, &topology, &places);
    assert_eq!(rails.iter().flatten().collect::<Vec<_>>(), ["mlx5_0", "mlx5_1", "mlx5_0", "mlx5_1"]);
    assert!(report(&topology, &devices, &places)[2].contains("cores 16-31 "));
}

#[test]
fn eight_numa_nodes_ranks_stay_in_one_and_begin_near_the_adapter() {
    let topology = Topology::read(&machine(2, 4, 8, 1), &all(64));
    // The adapter sits at the seventh node.
    let devices = [device("mlx5_0", "48-55")];
    let places = place(&topology, &devices, &[6; 8], BindTo::Core, MapBy::Slot);
    let nodes: Vec<Option<u32>> = places.iter().map(|place| place.numa_node).collect();
    assert_eq!(nodes, [6, 0, 1, 2, 3, 4, 5, 7].map(Some));
    assert_eq!(
        report(&topology, &devices, &places)[0],
        "rank 0 is bound to socket 1, NUMA node 6, cores 48-53 (CPUs 48-53), lanes in turn on cores 48-53, RDMA device mlx5_0, \
         progress agent on CPU 54"
    );
    // Two cores are left over in each node: a ninth rank of two threads has them in one, one of six has them in one socket.
    let last = |threads: u32| {
        let threads: Vec<u32> = [6; 8].into_iter().chain([threads]).collect();
        let last = place(&topology, &devices, &threads, BindTo::Core, MapBy::Slot).pop().expect("a ninth");
        (last.numa_node, topology.sockets(&last.cpus.expect("bound")).len())
    };
    assert_eq!((last(2), last(6)), ((Some(6), 1), (None, 1)));
    // In turn over the nodes.
    let places = place(&topology, &devices, &[2; 10], BindTo::Core, MapBy::Numa);
    let nodes: Vec<Option<u32>> = places.iter().map(|place| place.numa_node).collect();
    assert_eq!(nodes, [6, 0, 1, 2, 3, 4, 5, 7, 6, 0].map(Some));
}

#[test]
fn lanes_take_fast_cores_and_agents_slow_ones() {
    // Eight CPUs of which the last four are slow.
    let mut system = machine(1, 1, 8, 1);
    for (name, cpus) in [("cpu_core", "0-3"), ("cpu_atom", "4-7")] {
        system.0.insert(format!("/sys/devices/{name}/cpus"), format!("{cpus}\n"));
    }
    let topology = Topology::read(&system, &all(8));
    let places = place(&topology, &[], &[2, 2], BindTo::Core, MapBy::Slot);
    let lines = report(&topology, &[], &places);
    assert_eq!(
        lines[1],
        "rank 1 is bound to socket 0, NUMA node 0, cores 2-3 (CPUs 2-3, fast), lanes in turn on cores 2-3, progress agent on CPU 5"
    );
    let places = place(&topology, &[], &[3, 3], BindTo::Core, MapBy::Slot);
    assert_eq!(lanes(&places), ["0 1 2", "3 4 5"], "the fast ones first");
    assert_eq!(agents::agents(&topology, &places)[0].as_ref().map(CpuSet::to_string).as_deref(), Some("6"));
}

#[test]
fn a_rank_that_is_bound_to_more_has_its_lanes_inside_and_its_agent_beside_them() {
    let topology = Topology::read(&machine(2, 2, 4, 1), &all(16));
    let places = place(&topology, &[], &[2, 2, 2], BindTo::Socket, MapBy::Socket);
    let bound: Vec<String> =
        places.iter().map(|place| place.cpus.as_ref().expect("bound").to_string()).collect();
    assert_eq!(bound, ["0-7", "8-15", "0-7"]);
    assert_eq!(lanes(&places), ["0 1", "8 9", "2 3"]);
    let agents: Vec<String> = agents::agents(&topology, &places)
        .iter()
        .map(|agent| agent.as_ref().expect("spare").to_string())
        .collect();
    assert_eq!(agents, ["4", "10", "5"], "no lane's core, and near");
    assert_eq!(place(&topology, &[], &[2; 2], BindTo::None, MapBy::Slot), vec![unbound(); 2]);
}

#[test]
fn hardware_threads_are_lanes_when_ranks_are_bound_to_them() {
    // Cores 0-3, second threads 4-7.
    let topology = Topology::read(&machine(2, 1, 2, 2), &all(8));
    let places = place(&topology, &[], &[2, 2], BindTo::HwThread, MapBy::HwThread);
    assert_eq!(lanes(&places), ["0 4", "1 5"]);
    assert!(report(&topology, &[], &places)[0].contains(", lanes in turn on CPUs 0,4"));
    let places = place(&topology, &[], &[2, 2], BindTo::Core, MapBy::Core);
    assert_eq!(lanes(&places), ["0,4 1,5", "2,6 3,7"]);
    assert!(report(&topology, &[], &places)[1].contains("(CPUs 2-3,6-7), lanes in turn on cores 2-3"));
}

#[test]
fn what_is_left_open_follows_the_threads() {
    assert_eq!(complete(&[1, 0], None, None), (BindTo::Core, MapBy::Slot));
    assert_eq!(complete(&[1, 0], None, Some(MapBy::Numa)), (BindTo::Core, MapBy::Numa));
    assert_eq!(complete(&[1, 0], Some(BindTo::Socket), None), (BindTo::Socket, MapBy::Socket));
    assert_eq!(complete(&[1, 0], None, Some(MapBy::HwThread)), (BindTo::HwThread, MapBy::HwThread));
    assert_eq!(complete(&[1, 0], Some(BindTo::None), None), (BindTo::None, MapBy::Slot));
    assert_eq!(complete(&[0, 0], None, None), (BindTo::None, MapBy::Slot), "no number is said");
}

#[test]
fn a_thread_takes_its_lanes_core_or_the_nearest_that_is_free() {
    let cores: Vec<LaneCore> = [(0, 0), (1, 0), (8, 1), (9, 1)]
        .map(|(cpu, node)| LaneCore { cpus: CpuSet::from_iter([cpu]), numa_node: Some(node) })
        .to_vec();
    assert_eq!(choose(&cores, 1, &[false; 4]), Some(1));
    assert_eq!(choose(&cores, 6, &[false; 4]), Some(2), "from the first again");
    assert_eq!(choose(&cores, 3, &[false, false, false, true]), Some(2), "in the same node");
    assert_eq!(choose(&cores, 3, &[false, false, true, true]), Some(0));
    assert_eq!(choose(&cores, 3, &[true; 4]), None);
    assert_eq!(choose(&[], 3, &[]), None);
    // Two threads a core.
    let twice = [cores[0].clone(), cores[1].clone(), cores[0].clone(), cores[1].clone()];
    assert_eq!(
        choose(&twice, 2, &[true, false, false, false]),
        Some(1),
        "before a second thread comes to a core"
    );
    assert_eq!(choose(&twice, 2, &[true, true, false, false]), Some(2));
}

proptest! {
    /// Whatever the machine, the allowed CPUs, the numbers of threads and the policy.
    #[test]
    fn cores_are_given_once_while_there_are_enough_and_evenly_afterwards(
        shape in (1usize..3, 1usize..4, 1usize..6, 1usize..3),
        mask in prop::collection::vec(any::<bool>(), 80),
        slow in prop::collection::vec(any::<bool>(), 80),
        threads in prop::collection::vec(0u32..9, 1..14),
        bind_to in prop::sample::select(vec![BindTo::HwThread, BindTo::Core, BindTo::Numa, BindTo::Socket]),
        map_by in prop::sample::select(
            vec![MapBy::Slot, MapBy::HwThread, MapBy::Core, MapBy::Numa, MapBy::Socket, MapBy::Node]),
        near in prop::option::of(0usize..6),
    ) {
        let (sockets, numa, cores, hw) = shape;
        let count = sockets * numa * cores * hw;
        let mut allowed: CpuSet = (0..count).filter(|&cpu| mask[cpu]).collect();
        if allowed.is_empty() {
            allowed = all(count);
        }
        let mut system = machine(sockets, numa, cores, hw);
        for cpu in 0..count {
            let capacity = if slow[cpu % (sockets * numa * cores)] { 400 } else { 1024 };
            system.0.insert(format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), format!("{capacity}\n"));
        }
        let topology = Topology::read(&system, &allowed);
        let nodes = topology.parts(Level::Numa);
        let devices: Vec<Device> =
            near.and_then(|at| nodes.get(at)).map(|cpus| device("mlx5_0", &cpus.to_string())).into_iter().collect();
        let places = place(&topology, &devices, &threads, bind_to, map_by);
        let fine = bind_to == BindTo::HwThread || map_by == MapBy::HwThread;
        let seats = topology.parts(if fine { Level::HwThread } else { Level::Core });
        let mut load = vec![0_usize; seats.len()];
        prop_assert_eq!(places.len(), threads.len());
        if threads.iter().all(|&threads| threads == 0) {
            prop_assert_eq!(places, policy::place(&topology, threads.len(), bind_to, map_by));
            return Ok(());
        }
        for (place, &threads) in places.iter().zip(&threads) {
            let cpus = place.cpus.as_ref().expect("bound");
            prop_assert_eq!(place.lanes.len(), threads.max(1) as usize);
            prop_assert!(cpus.is_subset(&allowed));
            prop_assert_eq!(place.numa_node, topology.numa_node(cpus));
            // How taken the seats were before this rank came.
            let before = load.clone();
            for lane in &place.lanes {
                prop_assert!(lane.cpus.is_subset(cpus));
                prop_assert_eq!(lane.numa_node, topology.numa_node(&lane.cpus));
                load[seats.iter().position(|seat| *seat == lane.cpus).expect("a seat")] += 1;
            }
            // A rank has a seat twice only when it has all of them.
            let most_own = load.iter().zip(&before).map(|(now, before)| now - before).max().unwrap_or(0);
            prop_assert!(most_own <= place.lanes.len().div_ceil(seats.len()));
            let (least, most) = (load.iter().min().copied(), load.iter().max().copied());
            prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1, "{:?}", load);
            // Where one node has enough of the least taken seats, it is one node.
            let free = before.iter().min().copied().unwrap_or(0);
            let enough = |part: &CpuSet| {
                let here = seats.iter().zip(&before).filter(|(seat, load)| **load == free && seat.is_subset(part));
                here.count() >= place.lanes.len()
            };
            let in_one = |parts: &[CpuSet]| {
                parts.iter().any(|part| place.lanes.iter().all(|lane| lane.cpus.is_subset(part)))
            };
            if nodes.iter().any(enough) && map_by != MapBy::Socket {
                prop_assert!(in_one(&nodes), "{:?}", place);
            }
            let sockets = topology.parts(Level::Socket);
            if sockets.iter().any(enough) {
                prop_assert!(in_one(&sockets), "{:?}", place);
            }
        }
        for agent in agents::agents(&topology, &places).iter().flatten() {
            for lane in places.iter().flat_map(|place| &place.lanes) {
                prop_assert!(agent.intersection(&lane.cpus).is_empty());
            }
        }
    }

    /// While cores near a device are free in one node, ranks are there and use that device.
    #[test]
    fn ranks_begin_near_a_device(
        nodes in 2usize..6, cores in 2usize..7, at in 0usize..6, threads in 1u32..4, ranks in 1usize..4,
    ) {
        let (at, ranks) = (at % nodes, ranks.min(cores / threads.min(cores as u32) as usize));
        let topology = Topology::read(&machine(1, nodes, cores, 1), &all(nodes * cores));
        let near = topology.parts(Level::Numa)[at].clone();
        let devices = [device("far", ""), device("near", &near.to_string())];
        for place in place(&topology, &devices, &vec![threads.min(cores as u32); ranks], BindTo::Core, MapBy::Slot) {
            prop_assert!(place.cpus.as_ref().expect("bound").is_subset(&near));
            let rails = policy::rails(&devices, &topology, &[place]);
            prop_assert_eq!(rails[0].as_deref(), Some("near"));
        }
    }
}
