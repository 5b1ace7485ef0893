//! The parts of a machine that processes may be restricted to, by hwloc's names: packages, NUMA nodes, caches, cores.
//!
//! Made for splitting communicators by hardware (section 7.4.2) and for mapping topologies: unlike [`crate::Topology`], which
//! has the usable CPUs and what ranks are bound to, this has all CPUs and all kinds of parts. A process *utilises* a part when
//! the part holds every CPU the process may run on.

use std::collections::BTreeMap;
use std::fmt;

use crate::cpus::CpuSet;
use crate::described::{attribute, bitmap, tags, words};
use crate::mapping::Seat;
use crate::system::System;

/// A kind of part. The order is the usual one from the outermost in; where a machine differs (a package in a NUMA node) the sizes
/// tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// The node: all CPUs that share memory.
    Machine,
    /// A processor package (socket).
    Package,
    /// A die in a package.
    Die,
    /// CPUs near one memory.
    NumaNode,
    /// CPUs that share a level 3 cache.
    L3Cache,
    /// CPUs that share a level 2 cache.
    L2Cache,
    /// CPUs that share a level 1 data cache.
    L1Cache,
    /// A core with its hardware threads.
    Core,
    /// A hardware thread.
    Pu,
}

impl Resource {
    /// All kinds, from the outermost in.
    pub const ALL: [Resource; 9] = [
        Resource::Machine,
        Resource::Package,
        Resource::Die,
        Resource::NumaNode,
        Resource::L3Cache,
        Resource::L2Cache,
        Resource::L1Cache,
        Resource::Core,
        Resource::Pu,
    ];

    /// hwloc's name.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Machine => "Machine",
            Resource::Package => "Package",
            Resource::Die => "Die",
            Resource::NumaNode => "NUMANode",
            Resource::L3Cache => "L3Cache",
            Resource::L2Cache => "L2Cache",
            Resource::L1Cache => "L1Cache",
            Resource::Core => "Core",
            Resource::Pu => "PU",
        }
    }

    /// The name as `MPI_Get_hw_resource_info` gives it (section 9.1.2): a URI with hwloc as the provider.
    pub fn uri(self) -> String {
        format!("hwloc://{}", self.name())
    }

    /// The kind of a name, with or without `hwloc://`, in any case, or in hwloc's short forms (`numa`, `l3`, `socket`).
    pub fn parse(text: &str) -> Option<Resource> {
        let name = match text.split_once("://") {
            Some(("hwloc", name)) => name,
            Some(_) => return None,
            None => text,
        };
        Some(match name.to_ascii_lowercase().as_str() {
            "machine" => Resource::Machine,
            "package" | "pack" | "socket" => Resource::Package,
            "die" => Resource::Die,
            "numanode" | "numa" | "node" => Resource::NumaNode,
            "l3cache" | "l3" | "l3ucache" | "l3u" => Resource::L3Cache,
            "l2cache" | "l2" | "l2ucache" | "l2u" | "l2dcache" | "l2d" => Resource::L2Cache,
            "l1cache" | "l1" | "l1dcache" | "l1d" => Resource::L1Cache,
            "core" => Resource::Core,
            "pu" => Resource::Pu,
            _ => return None,
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parts of one machine, each with its CPUs, ordered by the lowest CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    parts: BTreeMap<Resource, Vec<CpuSet>>,
}

impl Hardware {
    /// Reads /sys/devices/system. A kernel that tells nothing gives a machine of `fallback`'s CPUs without parts.
    pub fn read(system: &dyn System, fallback: &CpuSet) -> Hardware {
        let list = |path: &str| system.read(path).and_then(|text| text.parse::<CpuSet>().ok());
        let online = list("/sys/devices/system/cpu/online").filter(|cpus| !cpus.is_empty());
        let all = online.unwrap_or_else(|| fallback.clone());
        let mut found: Vec<(Resource, CpuSet)> = vec![(Resource::Machine, all.clone())];
        let mut groups: BTreeMap<(Resource, usize, usize, usize), Vec<usize>> = BTreeMap::new();
        for &cpu in all.iter() {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
            let number = |file: &str| {
                let text = system.read(&format!("{folder}/topology/{file}"))?;
                text.trim().parse::<i64>().ok().and_then(|number| usize::try_from(number).ok())
            };
            found.push((Resource::Pu, [cpu].into_iter().collect()));
            let package = number("physical_package_id");
            if let Some(package) = package {
                groups.entry((Resource::Package, package, 0, 0)).or_default().push(cpu);
            }
            let die = number("die_id").unwrap_or(0);
            if let (Some(package), Some(_)) = (package, number("die_id")) {
                groups.entry((Resource::Die, package, die, 0)).or_default().push(cpu);
            }
            if let Some(core) = number("core_id") {
                groups.entry((Resource::Core, package.unwrap_or(0), die, core)).or_default().push(cpu);
            }
            for index in system.list(&format!("{folder}/cache")) {
                let read =
                    |file: &str| system.read(&format!("{folder}/cache/{index}/{file}")).unwrap_or_default();
                let resource = match (read("level").trim(), read("type").trim()) {
                    ("3", _) => Resource::L3Cache,
                    ("2", _) => Resource::L2Cache,
                    ("1", "Data" | "Unified") => Resource::L1Cache,
                    _ => continue,
                };
                if let Ok(cpus) = read("shared_cpu_list").parse::<CpuSet>() {
                    found.push((resource, cpus.intersection(&all)));
                }
            }
        }
        for entry in system.list("/sys/devices/system/node") {
            if entry.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok()) {
                let cpus = list(&format!("/sys/devices/system/node/{entry}/cpulist")).unwrap_or_default();
                found.push((Resource::NumaNode, cpus.intersection(&all)));
            }
        }
        found.extend(groups.into_iter().map(|((resource, ..), cpus)| (resource, cpus.into_iter().collect())));
        Hardware::of(found)
    }

    /// Reads a synthetic description of hwloc, as [`crate::described::synthetic`].
    ///
    /// Errors: what cannot be read, in words.
    pub fn synthetic(text: &str) -> Result<Hardware, String> {
        let total = crate::described::synthetic(text)?.cpus().len();
        let mut found = vec![(Resource::Machine, (0..total).collect())];
        let mut each = total;
        let mut levels: Vec<(Option<Resource>, usize)> = Vec::new();
        let runs = |resource: Resource, each: usize| {
            (0..total / each).map(move |at| (resource, (at * each..(at + 1) * each).collect::<CpuSet>()))
        };
        for word in words(text) {
            if word.starts_with('[') {
                found.extend(runs(Resource::NumaNode, each));
                continue;
            }
            let bare = word.split('(').next().unwrap_or(&word);
            let (name, count) = bare.split_once(':').unwrap_or(("", bare));
            each /= count.parse::<usize>().map_err(|_| format!("{word:?} needs a number of parts"))?;
            levels.push((Resource::parse(name), each));
        }
        // Where names are missing the last level is the threads and the one before it the cores.
        if let Some(last) = levels.last_mut() {
            last.0 = Some(Resource::Pu);
        }
        let has_cores = levels.iter().any(|&(resource, _)| resource == Some(Resource::Core));
        if let [.., before, _] = levels.as_mut_slice()
            && before.0.is_none()
            && !has_cores
        {
            before.0 = Some(Resource::Core);
        }
        for (resource, each) in levels {
            if let Some(resource) = resource {
                found.extend(runs(resource, each));
            }
        }
        Ok(Hardware::of(found))
    }

    /// Reads an XML file of hwloc, version 1 or 2.
    ///
    /// Errors: what is missing, in words.
    pub fn xml(text: &str) -> Result<Hardware, String> {
        let mut found: Vec<(Resource, CpuSet)> = Vec::new();
        for tag in tags(text) {
            let Some(attributes) = tag.strip_prefix("object ") else { continue };
            let resource = match (attribute(attributes, "type"), attribute(attributes, "depth")) {
                // Version 1 tells the level of a cache apart.
                (Some("Cache"), Some(level)) => Resource::parse(&format!("l{level}")),
                (Some(name), _) => Resource::parse(name),
                (None, _) => None,
            };
            let cpus = attribute(attributes, "cpuset").map(bitmap).transpose()?;
            // A thread is its number, whatever is said of its set.
            let number = attribute(attributes, "os_index").and_then(|number| number.parse::<usize>().ok());
            match (resource, cpus, number) {
                (Some(Resource::Pu), _, Some(number)) if number <= crate::cpus::MAX_CPU => {
                    found.push((Resource::Pu, [number].into_iter().collect()));
                }
                (Some(resource), Some(cpus), _) if resource != Resource::Pu => found.push((resource, cpus)),
                _ => {}
            }
        }
        let all: CpuSet = found
            .iter()
            .filter(|(resource, _)| *resource == Resource::Pu)
            .flat_map(|(_, cpus)| cpus.iter().copied())
            .collect();
        if all.is_empty() {
            return Err(
                "the file describes no processing units: is it an XML file of hwloc (lstopo --of xml)?"
                    .to_owned(),
            );
        }
        let cut = |(resource, cpus): (Resource, CpuSet)| (resource, cpus.intersection(&all));
        let mut found: Vec<(Resource, CpuSet)> = found.into_iter().map(cut).collect();
        found.push((Resource::Machine, all));
        Ok(Hardware::of(found))
    }

    /// The machine of these parts; empty ones and repetitions are left out.
    fn of(found: Vec<(Resource, CpuSet)>) -> Hardware {
        let mut parts: BTreeMap<Resource, Vec<CpuSet>> = BTreeMap::new();
        for (resource, cpus) in found {
            if !cpus.is_empty() {
                parts.entry(resource).or_default().push(cpus);
            }
        }
        for list in parts.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        // One memory for all where none is described.
        if let Some(machine) = parts.get(&Resource::Machine).cloned() {
            parts.entry(Resource::NumaNode).or_insert(machine);
        }
        Hardware { parts }
    }

    /// All CPUs.
    pub fn cpus(&self) -> CpuSet {
        self.parts.get(&Resource::Machine).and_then(|machines| machines.first()).cloned().unwrap_or_default()
    }

    /// The parts of a kind; empty when the machine has none.
    pub fn parts(&self, resource: Resource) -> &[CpuSet] {
        self.parts.get(&resource).map_or(&[], Vec::as_slice)
    }

    /// The kinds this machine has, from the outermost in.
    pub fn resources(&self) -> impl Iterator<Item = Resource> + '_ {
        self.parts.keys().copied()
    }

    /// The number of the only part of a kind that a process restricted to `cpus` utilises; `None` when it may use several, or
    /// none.
    pub fn part_of(&self, resource: Resource, cpus: &CpuSet) -> Option<usize> {
        let first = *cpus.first()?;
        let holds = |part: &CpuSet| part.contains(first) && cpus.is_subset(part);
        self.parts(resource).iter().position(holds)
    }

    /// Where a process restricted to `cpus` sits, for mapping.
    pub fn seat(&self, node: u32, cpus: &CpuSet) -> Seat {
        let number = |resource| self.part_of(resource, cpus).map_or(Seat::UNKNOWN, |part| part as u32);
        Seat([
            node,
            number(Resource::Package),
            number(Resource::NumaNode),
            number(Resource::L3Cache),
            number(Resource::Core),
        ])
    }
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
