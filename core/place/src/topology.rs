//! The machine: which logical CPUs share a core, a socket, a NUMA node.

use std::collections::BTreeMap;

use crate::cpus::CpuSet;
use crate::kinds::{self, Speeds};
use crate::system::System;

/// Parts of a machine that ranks are bound to or dealt over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// One logical CPU.
    HwThread,
    /// The logical CPUs of one physical core.
    Core,
    /// The CPUs near one memory.
    Numa,
    /// The CPUs of one package.
    Socket,
    /// All of them.
    Machine,
}

/// The core of which all of `cpus` are threads, as the number of its first CPU, whichever of them are given; `None` when they are of
/// several, or there are none.
pub fn core_of(system: &dyn System, cpus: &CpuSet) -> Option<usize> {
    let first = |cpu: usize| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        let read = |file: &str| system.read(&format!("{folder}/{file}"))?.trim().parse::<CpuSet>().ok();
        let threads = read("core_cpus_list").or_else(|| read("thread_siblings_list"));
        threads.and_then(|threads| threads.first().copied()).unwrap_or(cpu)
    };
    let core = first(*cpus.first()?);
    cpus.iter().all(|&cpu| first(cpu) == core).then_some(core)
}

/// One logical CPU and where it sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) number: usize,
    /// Number of the core within its socket, at least.
    pub(crate) core: usize,
    pub(crate) socket: usize,
    pub(crate) numa: u32,
    /// 0 is the fastest ([`crate::kinds`]).
    pub(crate) kind: u8,
}

/// The logical CPUs that may be used, in the machine's order: the fastest kind first, then by socket, NUMA node, core, thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
}

impl Topology {
    /// Reads /sys/devices/system, keeping only the CPUs of `allowed`. A kernel that tells nothing (some containers) gives a
    /// machine of one socket whose CPUs are cores of their own.
    pub fn read(system: &dyn System, allowed: &CpuSet) -> Topology {
        let mut numa_of = BTreeMap::new();
        for entry in system.list("/sys/devices/system/node") {
            let Some(node) = entry.strip_prefix("node").and_then(|number| number.parse::<u32>().ok()) else {
                continue;
            };
            let list = system.read(&format!("/sys/devices/system/node/{entry}/cpulist")).unwrap_or_default();
            for &cpu in list.parse::<CpuSet>().unwrap_or_default().iter() {
                numa_of.insert(cpu, node);
            }
        }
        let number = |cpu: usize, file: &str| {
            let text = system.read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"))?;
            text.trim().parse::<usize>().ok()
        };
        let cpus: Vec<Cpu> = allowed
            .iter()
            .map(|&cpu| Cpu {
                number: cpu,
                core: number(cpu, "core_id").unwrap_or(cpu),
                socket: number(cpu, "physical_package_id").unwrap_or(0),
                numa: numa_of.get(&cpu).copied().unwrap_or(0),
                kind: 0,
            })
            .collect();
        Topology::of(cpus, &kinds::read(system, allowed))
    }

    /// The machine of these CPUs, in any order, with what is known of their speeds.
    pub(crate) fn of(mut cpus: Vec<Cpu>, speeds: &Speeds) -> Topology {
        let numbers: CpuSet = cpus.iter().map(|cpu| cpu.number).collect();
        let known =
            speeds.iter().filter(|&(&cpu, _)| numbers.contains(cpu)).map(|(&cpu, &speed)| (cpu, speed));
        let kinds = kinds::kinds(&known.collect());
        for cpu in &mut cpus {
            cpu.kind = kinds.get(&cpu.number).copied().unwrap_or(0);
        }
        cpus.sort_by_key(|cpu| (cpu.kind, cpu.socket, cpu.numa, cpu.core, cpu.number));
        Topology { cpus }
    }

    /// The usable CPUs.
    pub fn cpus(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// The parts of `level`, each with its usable CPUs, in the machine's order. Empty only when no CPU is usable.
    pub fn parts(&self, level: Level) -> Vec<CpuSet> {
        let same = |left: &Cpu, right: &Cpu| match level {
            Level::HwThread => left.number == right.number,
            Level::Core => (left.socket, left.numa, left.core) == (right.socket, right.numa, right.core),
            Level::Numa => left.numa == right.numa,
            Level::Socket => left.socket == right.socket,
            Level::Machine => true,
        };
        let mut parts: Vec<(Cpu, Vec<usize>)> = Vec::new();
        for cpu in &self.cpus {
            // A NUMA node may hold several sockets, so its CPUs need not be neighbours in the list.
            match parts.iter_mut().find(|(first, _)| same(first, cpu)) {
                Some((_, members)) => members.push(cpu.number),
                None => parts.push((*cpu, vec![cpu.number])),
            }
        }
        parts.into_iter().map(|(_, members)| members.into_iter().collect()).collect()
    }

    /// How many kinds of cores there are; 1 where nothing tells them apart.
    pub fn kinds(&self) -> usize {
        self.cpus.last().map_or(1, |cpu| usize::from(cpu.kind) + 1)
    }

    /// The kind of a CPU: 0 is the fastest.
    pub(crate) fn kind(&self, cpu: usize) -> u8 {
        self.cpus.iter().find(|known| known.number == cpu).map_or(0, |known| known.kind)
    }

    /// The NUMA node that holds all of `cpus`; `None` when they spread over several.
    pub fn numa_node(&self, cpus: &CpuSet) -> Option<u32> {
        let mut nodes = self.cpus.iter().filter(|cpu| cpus.contains(cpu.number)).map(|cpu| cpu.numa);
        let first = nodes.next()?;
        nodes.all(|node| node == first).then_some(first)
    }

    /// The sockets, kernel-numbered, that hold `cpus`.
    pub(crate) fn sockets(&self, cpus: &CpuSet) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpus.contains(cpu.number)).map(|cpu| cpu.socket).collect()
    }

    /// The NUMA nodes that hold `cpus`.
    pub(crate) fn numa_nodes(&self, cpus: &CpuSet) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpus.contains(cpu.number)).map(|cpu| cpu.numa as usize).collect()
    }

    /// Whether these are all usable CPUs of one core.
    pub(crate) fn is_core(&self, cpus: &CpuSet) -> bool {
        self.parts(Level::Core).contains(cpus)
    }

    /// The cores, numbered over the machine from 0 in its order, that hold `cpus`.
    pub(crate) fn cores(&self, cpus: &CpuSet) -> CpuSet {
        let cores = self.parts(Level::Core);
        (0..cores.len()).filter(|&core| !cores[core].intersection(cpus).is_empty()).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::system::Snapshot;

    /// The files of a machine with `sockets` x `numa` nodes each x `cores` each x `threads`, numbered as kernels do: first
    /// threads of all cores, then second threads.
    pub(crate) fn machine(sockets: usize, numa: usize, cores: usize, threads: usize) -> Snapshot {
        let mut files = BTreeMap::new();
        let all_cores = sockets * numa * cores;
        let mut lists = vec![Vec::new(); sockets * numa];
        for thread in 0..threads {
            for core in 0..all_cores {
                let cpu = thread * all_cores + core;
                let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
                files.insert(format!("{folder}/core_id"), format!("{}\n", core % (numa * cores)));
                files.insert(format!("{folder}/physical_package_id"), format!("{}\n", core / (numa * cores)));
                lists[core / cores].push(cpu);
            }
        }
        for (node, list) in lists.into_iter().enumerate() {
            let list: CpuSet = list.into_iter().collect();
            files.insert(format!("/sys/devices/system/node/node{node}/cpulist"), format!("{list}\n"));
        }
        Snapshot(files)
    }

    pub(crate) fn all(count: usize) -> CpuSet {
        (0..count).collect()
    }

    #[test]
    fn a_machine_is_read() {
        let topology = Topology::read(&machine(2, 2, 3, 2), &all(24));
        assert_eq!(topology.parts(Level::Machine), [all(24)]);
        assert_eq!(topology.parts(Level::Socket).len(), 2);
        assert_eq!(topology.parts(Level::Numa).len(), 4);
        assert_eq!(topology.parts(Level::Core).len(), 12);
        assert_eq!(topology.parts(Level::Core)[3].to_string(), "3,15");
        assert_eq!(topology.parts(Level::HwThread).len(), 24);
    }

    #[test]
    fn only_allowed_cpus_are_kept() {
        let topology = Topology::read(&machine(2, 1, 4, 1), &"2-5".parse().expect("a list"));
        assert_eq!(
            topology.parts(Level::Socket).iter().map(CpuSet::to_string).collect::<Vec<_>>(),
            ["2-3", "4-5"]
        );
        assert_eq!(topology.numa_node(&"2-3".parse().expect("a list")), Some(0));
        assert_eq!(topology.numa_node(&"3-4".parse().expect("a list")), None);
    }

    #[test]
    fn threads_of_one_core_are_recognised() {
        let mut files = BTreeMap::new();
        for (cpu, threads) in [(0, "0,2"), (2, "0,2"), (1, "1,3"), (3, "1,3")] {
            files.insert(
                format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"),
                format!("{threads}\n"),
            );
        }
        let of = |list: &str| core_of(&Snapshot(files.clone()), &list.parse().expect("a list"));
        assert_eq!(["0", "2", "0,2", "3"].map(of), [Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!(["0-1", "0-3", ""].map(of), [None, None, None]);
        assert_eq!(core_of(&Snapshot::default(), &all(2)), None, "a kernel that tells nothing");
        assert_eq!(core_of(&Snapshot::default(), &"1".parse().expect("a list")), Some(1));
    }

    #[test]
    fn a_silent_kernel_gives_cores_of_one_socket() {
        let topology = Topology::read(&Snapshot::default(), &all(3));
        assert_eq!(topology.parts(Level::Core).len(), 3);
        assert_eq!(topology.parts(Level::Numa).len(), 1);
    }
}
