//! Cores of several kinds: fast ones, and slow ones that save power.
//!
//! What tells them apart, the first that is there: what an operator forces on hwloc, the capacity that the kernel computes (arm64, and
//! others since 6.12), the two kinds of Intel's hybrid processors, frequencies. Cores of one kind differ a little (a processor's favoured
//! cores run a few percent faster), so a kind begins where speed falls below [`SAME`] of its fastest.

use std::collections::BTreeMap;

use crate::cpus::CpuSet;
use crate::system::System;

/// Of the fastest core of a kind, what another core must reach to be of that kind: four fifths.
const SAME: (u64, u64) = (4, 5);

/// Speeds of CPUs in any unit, by number; those of which nothing is known are not there.
pub(crate) type Speeds = BTreeMap<usize, u64>;

/// The kind of each CPU that has a speed: 0 is the fastest.
pub(crate) fn kinds(speeds: &Speeds) -> BTreeMap<usize, u8> {
    let mut order: Vec<(u64, usize)> = speeds.iter().map(|(&cpu, &speed)| (speed, cpu)).collect();
    order.sort_unstable_by(|left, right| right.cmp(left));
    let mut kinds = BTreeMap::new();
    let (mut kind, mut fastest) = (0_u8, order.first().map_or(0, |&(speed, _)| speed));
    for (speed, cpu) in order {
        if speed.saturating_mul(SAME.1) < fastest.saturating_mul(SAME.0) {
            (kind, fastest) = (kind.saturating_add(1), speed);
        }
        kinds.insert(cpu, kind);
    }
    kinds
}

/// What the kernel tells of the speed of these CPUs.
pub(crate) fn read(system: &dyn System, cpus: &CpuSet) -> Speeds {
    let capacity = |cpu: usize| {
        let text = system.read(&format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"))?;
        text.trim().parse().ok()
    };
    let capacities: Speeds = cpus.iter().filter_map(|&cpu| Some((cpu, capacity(cpu)?))).collect();
    if !capacities.is_empty() {
        return capacities;
    }
    // Of a hybrid processor the kernel has a device of performance counters for each kind.
    let list = |name: &str| {
        let text = system.read(&format!("/sys/devices/{name}/cpus")).unwrap_or_default();
        text.parse::<CpuSet>().unwrap_or_default()
    };
    let of = |name: &str, speed: u64| list(name).iter().map(|&cpu| (cpu, speed)).collect::<Vec<_>>();
    of("cpu_lowpower", 1).into_iter().chain(of("cpu_atom", 2)).chain(of("cpu_core", 4)).collect()
}

/// One of the kinds that an XML file of hwloc describes.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) cpus: CpuSet,
    /// Of `forced_efficiency`: the higher, the faster.
    pub(crate) forced: Option<u64>,
    /// By name: `LinuxCapacity`, `CoreType`, `FrequencyMaxMHz`, `FrequencyBaseMHz`.
    pub(crate) told: BTreeMap<String, String>,
}

/// The speeds that such kinds tell, by the first thing that all of them have.
pub(crate) fn described(found: &[Described]) -> Speeds {
    let number = |name: &'static str| move |kind: &Described| kind.told.get(name)?.parse::<u64>().ok();
    let core_type = |kind: &Described| match kind.told.get("CoreType")?.as_str() {
        "IntelCore" => Some(4),
        "IntelAtom" => Some(2),
        "IntelLowPower" => Some(1),
        _ => None,
    };
    // An efficiency is an order and no measure: steps of two are kinds of their own.
    let forced = |kind: &Described| kind.forced.map(|order| 1 << order.min(62));
    let told = |name| found.iter().map(number(name)).collect();
    let ways: [Option<Vec<u64>>; 5] = [
        found.iter().map(forced).collect(),
        told("LinuxCapacity"),
        found.iter().map(core_type).collect(),
        told("FrequencyMaxMHz"),
        told("FrequencyBaseMHz"),
    ];
    let speeds = ways.into_iter().flatten().next().unwrap_or_default();
    let all = found.iter().zip(speeds);
    all.flat_map(|(kind, speed)| kind.cpus.iter().map(move |&cpu| (cpu, speed))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{BindTo, MapBy, place, report};
    use crate::topology::Level;
    use crate::topology::tests::{all, machine};
    use crate::{Topology, agents::agents, described as files};
    use proptest::prelude::*;

    fn of(pairs: impl IntoIterator<Item = (usize, u64)>) -> Vec<u8> {
        kinds(&pairs.into_iter().collect()).into_values().collect()
    }

    #[test]
    fn kinds_are_told_by_speed_and_favoured_cores_are_of_one_kind() {
        assert_eq!(of([(0, 1024), (1, 446), (2, 1024), (3, 446)]), [0, 1, 0, 1]);
        assert_eq!(of([(0, 5_200), (1, 5_000), (2, 4_900)]), [0, 0, 0]);
        assert_eq!(of([(0, 1024), (1, 820), (2, 700), (3, 300)]), [0, 0, 1, 2]);
        assert_eq!(of([]), [0; 0]);
        assert_eq!(of([(7, 0), (9, u64::MAX)]), [1, 0]);
    }

    /// Eight CPUs, cores of their own, of which the last four are slow.
    fn hybrid() -> Topology {
        let mut system = machine(1, 1, 8, 1);
        for (name, cpus) in [("cpu_core", "0-3"), ("cpu_atom", "4-7")] {
            system.0.insert(format!("/sys/devices/{name}/cpus"), format!("{cpus}\n"));
        }
        Topology::read(&system, &all(8))
    }

    #[test]
    fn the_kernel_tells_kinds_by_capacity_or_by_counters() {
        let mut system = machine(1, 1, 4, 1);
        for (cpu, capacity) in [(0, 446), (1, 1024), (2, 1024), (3, 446)] {
            system
                .0
                .insert(format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), format!("{capacity}\n"));
        }
        let topology = Topology::read(&system, &all(4));
        let order: Vec<String> = topology.parts(Level::Core).iter().map(CpuSet::to_string).collect();
        assert_eq!(order, ["1", "2", "0", "3"], "fast ones first");
        assert_eq!(topology.kinds(), 2);
        assert_eq!((hybrid().kinds(), Topology::read(&machine(2, 2, 2, 2), &all(16)).kinds()), (2, 1));
    }

    #[test]
    fn ranks_take_fast_cores_first_and_agents_slow_ones() {
        let topology = hybrid();
        let places = place(&topology, 6, BindTo::Core, MapBy::Core);
        let cpus: Vec<String> =
            places.iter().map(|place| place.cpus.as_ref().expect("bound").to_string()).collect();
        assert_eq!(cpus, ["0", "1", "2", "3", "4", "5"]);
        let places = place(&topology, 2, BindTo::Core, MapBy::Core);
        let of = agents(&topology, &places);
        let agents: Vec<String> = of.iter().map(|agent| agent.as_ref().expect("spare").to_string()).collect();
        assert_eq!(agents, ["4", "5"], "though fast cores are spare");
        let line = report(&topology, 0, &places[0], &[], of[0].as_ref());
        assert!(line.contains("core 0 (CPU 0, fast)") && line.ends_with("agent on CPU 4"), "{line}");
        let slow = place(&topology, 5, BindTo::Core, MapBy::Core).pop().expect("a fifth");
        assert!(report(&topology, 4, &slow, &[], None).contains("(CPU 4, slow)"));
        let both = place(&topology, 1, BindTo::Socket, MapBy::Socket).pop().expect("one");
        assert!(report(&topology, 0, &both, &[], None).contains("(CPUs 0-7, fast 0-3, slow 4-7)"));
    }

    /// As lstopo writes a hybrid machine: the slow kind first, two threads on each fast core.
    const XML: &str = r#"<topology version="2.0"><object type="Machine" cpuset="0x3f"><object type="Package" os_index="0">
      <object type="Core"><object type="PU" os_index="4"/></object><object type="Core"><object type="PU" os_index="5"/></object>
      <object type="Core"><object type="PU" os_index="0"/><object type="PU" os_index="1"/></object>
      <object type="Core"><object type="PU" os_index="2"/><object type="PU" os_index="3"/></object></object></object>
      <cpukind cpuset="0x00000030"><info name="CoreType" value="IntelAtom"/><info name="FrequencyMaxMHz" value="3800"/></cpukind>
      <cpukind cpuset="0x0000000f"><info name="FrequencyMaxMHz" value="5000"/><info name="CoreType" value="IntelCore"/></cpukind>
      </topology>"#;

    #[test]
    fn kinds_are_read_from_files_of_hwloc() {
        let order = |text: &str| -> Vec<String> {
            let topology = files::xml(text).expect("a machine");
            topology.parts(Level::Core).iter().map(CpuSet::to_string).collect()
        };
        assert_eq!(order(XML), ["0-1", "2-3", "4", "5"]);
        assert_eq!(order(&XML.replace("CoreType", "Other")), ["0-1", "2-3", "4", "5"], "by frequency");
        let forced = XML.replace("cpuset=\"0x00000030\"", "cpuset=\"0x00000030\" forced_efficiency=\"1\"");
        let forced = forced.replace("cpuset=\"0x0000000f\"", "cpuset=\"0x0000000f\" forced_efficiency=\"0\"");
        assert_eq!(order(&forced), ["4", "5", "0-1", "2-3"], "who forces it is believed");
        let silent = XML.replace("CoreType", "Other").replace("FrequencyMaxMHz", "Other");
        assert_eq!(order(&silent), ["4", "5", "0-1", "2-3"], "nothing is told: the file's order");
    }

    proptest! {
        #[test]
        fn slower_is_never_of_a_faster_kind(speeds in prop::collection::vec(any::<u64>(), 0..40)) {
            let speeds: Speeds = speeds.into_iter().enumerate().collect();
            let kinds = kinds(&speeds);
            prop_assert_eq!(kinds.len(), speeds.len());
            for (cpu, speed) in &speeds {
                for (other, others) in &speeds {
                    prop_assert!(speed < others || kinds[cpu] <= kinds[other]);
                }
            }
        }
    }
}
