//! RDMA devices as the kernel shows them, in `/sys/class/infiniband` and, of Slingshot, in `/sys/class/cxi_user`: what they are,
//! where they sit, whether a port of theirs is up.
//!
//! Enough to place ranks near them and to say why one is not used; opening them is the transports' business.

use crate::cpus::CpuSet;
use crate::described::{attribute, bitmap, tags};
use crate::system::System;
use std::cmp::Reverse;

mod slingshot;

/// What a device speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over converged Ethernet.
    Roce,
    /// RDMA over TCP; it needs a connection manager.
    Iwarp,
    /// Omni-Path: libfabric's opx or psm2 drive it; its verbs are for administration.
    OmniPath,
    /// Slingshot: libfabric's cxi drives it; it has no verbs.
    Slingshot,
    /// Amazon's Elastic Fabric Adapter: libfabric's efa drives it; its verbs have no reliable connections.
    Efa,
    /// Something else (usNIC, a description that does not tell).
    Other,
}

impl Speech {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Speech::InfiniBand => "InfiniBand",
            Speech::Roce => "RoCE",
            Speech::Iwarp => "iWARP",
            Speech::OmniPath => "Omni-Path",
            Speech::Slingshot => "Slingshot",
            Speech::Efa => "EFA",
            Speech::Other => "unknown kind",
        }
    }

    /// Whether libfabric alone drives such devices: verbs do not, or not for messages.
    pub const fn is_of_libfabric(self) -> bool {
        matches!(self, Speech::OmniPath | Speech::Slingshot | Speech::Efa | Speech::Other)
    }
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name, `mlx5_0`.
    pub name: String,
    /// What it speaks.
    pub speech: Speech,
    /// Its place on the PCI bus, `0000:3b:00.0`; `None` for a device of software.
    pub pci: Option<String>,
    /// The memory nearest to it.
    pub numa_node: Option<u32>,
    /// The CPUs nearest to it; empty when the kernel does not tell.
    pub cpus: CpuSet,
    /// The fastest active port: its rate in Gbit/s. `None` when no port is active.
    pub rate: Option<u32>,
    /// How many of its ports are active.
    pub active_ports: u32,
    /// Ports and their states in the kernel's words, for people.
    pub ports: String,
}

impl Device {
    /// Whether messages can go over it.
    pub fn is_active(&self) -> bool {
        self.rate.is_some()
    }

    /// The card that it is on: two ports may be two devices of one, which share its way to memory.
    fn card(&self) -> &str {
        card_at(self.pci.as_deref()).unwrap_or(&self.name)
    }
}

/// A place on the bus without the function: the card.
fn card_at(pci: Option<&str>) -> Option<&str> {
    pci.map(|pci| pci.rsplit_once('.').map_or(pci, |(card, _)| card))
}

/// What a described port runs at, in Gbit/s: descriptions do not tell.
const DESCRIBED_RATE: u32 = 100;

const FOLDER: &str = "/sys/class/infiniband";

/// The devices of a system, by name; Slingshot's adapters behind the others.
pub fn read(system: &dyn System) -> Vec<Device> {
    let mut names = system.list(FOLDER);
    names.sort();
    names.into_iter().map(|name| device(system, name)).chain(slingshot::read(system)).collect()
}

/// Where a device sits, by the files of its place on the bus: its PCI address, memory and CPUs.
fn place(word: &dyn Fn(&str) -> Option<String>) -> (Option<String>, Option<u32>, CpuSet) {
    let uevent = word("uevent").unwrap_or_default();
    let pci = uevent.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=")).map(str::to_owned);
    // -1 where the machine has one memory or does not tell.
    let numa_node = word("numa_node").and_then(|node| node.parse::<i64>().ok());
    let cpus = word("local_cpulist").and_then(|list| list.parse().ok()).unwrap_or_default();
    (pci, numa_node.and_then(|node| u32::try_from(node).ok()), cpus)
}

fn device(system: &dyn System, name: String) -> Device {
    let word = |path: &str| {
        let text = system.read(&format!("{FOLDER}/{name}/{path}"));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let mut ports = system.list(&format!("{FOLDER}/{name}/ports"));
    ports.sort();
    let (mut rate, mut told, mut ethernet, mut active_ports) = (None, Vec::new(), false, 0);
    for port in ports {
        // "4: ACTIVE", "100 Gb/sec (4X EDR)".
        let state = word(&format!("ports/{port}/state"));
        let state = state.rsplit(": ").next().unwrap_or_default().to_owned();
        let speed = word(&format!("ports/{port}/rate"));
        ethernet |= word(&format!("ports/{port}/link_layer")) == "Ethernet";
        if state == "ACTIVE" {
            let gigabits = speed.split([' ', '.']).next().and_then(|number| number.parse().ok()).unwrap_or(1);
            rate = rate.max(Some(gigabits));
            active_ports += 1;
        }
        told.push(format!("port {port} {state} {speed}"));
    }
    let kind = word("node_type");
    let speech = match kind.split(':').next().unwrap_or_default() {
        _ if name.starts_with("hfi1") || word("board_id").starts_with("Intel Omni-Path") => Speech::OmniPath,
        // Of no kind that the kernel has a number for; udev may have renamed it.
        _ if word("device/uevent").lines().any(|line| line == "DRIVER=efa") => Speech::Efa,
        "4" => Speech::Iwarp,
        "1" if ethernet => Speech::Roce,
        "1" => Speech::InfiniBand,
        _ => Speech::Other,
    };
    let (pci, numa_node, cpus) = place(&|file| Some(word(&format!("device/{file}"))));
    Device { pci, numa_node, cpus, rate, active_ports, ports: told.join(", "), speech, name }
}

/// The devices in an XML file of hwloc: OpenFabrics devices, near the CPUs of what holds them. They are active if one of their
/// ports is; where the file does not tell of ports, they count as active.
///
/// Errors: a set of CPUs that cannot be read.
pub fn xml(text: &str) -> Result<Vec<Device>, String> {
    // hwloc's number and name of the kind.
    const OPEN_FABRICS: [&str; 2] = ["3", "OpenFabrics"];
    // CPUs, PCI address, and whether that is one of Amazon's adapters: the name of their devices is udev's.
    let mut around: Vec<(CpuSet, Option<String>, bool)> = Vec::new();
    let mut devices: Vec<Device> = Vec::new();
    let mut memories: Vec<(u32, CpuSet)> = Vec::new();
    // The info entries of the device whose tag is open, and how many of them told of an active port.
    let (mut open, mut active_ports) = (false, 0);
    for tag in tags(text) {
        if tag == "/object" {
            around.pop();
            open = false;
            continue;
        }
        if open && let Some(info) = tag.strip_prefix("info ") {
            let (name, value) = (attribute(info, "name"), attribute(info, "value").unwrap_or_default());
            let Some(device) = devices.last_mut() else { continue };
            match name {
                Some(name) if name.starts_with("Port") && name.ends_with("State") => {
                    // "4" is an active port.
                    active_ports += u32::from(value == "4");
                    device.active_ports = active_ports;
                    device.rate = Some(DESCRIBED_RATE).filter(|_| active_ports > 0);
                }
                Some("BoardID") if value.starts_with("HFI") => device.speech = Speech::OmniPath,
                _ => {}
            }
            continue;
        }
        let Some(attributes) = tag.strip_prefix("object ") else { continue };
        let (mut cpus, mut pci, mut is_efa) = around.last().cloned().unwrap_or_default();
        if let Some(near) = attribute(attributes, "cpuset") {
            cpus = bitmap(near)?;
        }
        let kind = attribute(attributes, "type").unwrap_or_default();
        if kind == "NUMANode"
            && let Some(number) = attribute(attributes, "os_index").and_then(|number| number.parse().ok())
        {
            memories.push((number, cpus.clone()));
        }
        if let Some(bus) = attribute(attributes, "pci_busid") {
            pci = Some(bus.to_owned());
            is_efa = attribute(attributes, "pci_type").is_some_and(|kind| kind.contains("[1d0f:efa"));
        }
        let is_fabric = attribute(attributes, "osdev_type").is_some_and(|kind| OPEN_FABRICS.contains(&kind));
        if kind == "OSDev" && is_fabric {
            let name = attribute(attributes, "name").unwrap_or_default().to_owned();
            let speech = match &name {
                name if name.starts_with("hfi1") => Speech::OmniPath,
                name if name.starts_with("cxi") => Speech::Slingshot,
                _ if is_efa => Speech::Efa,
                _ => Speech::InfiniBand,
            };
            let ports = "described".to_owned();
            devices.push(Device {
                name,
                speech,
                pci: pci.clone(),
                numa_node: None,
                cpus: cpus.clone(),
                rate: Some(DESCRIBED_RATE),
                active_ports: 1,
                ports,
            });
            (open, active_ports) = (!attributes.ends_with('/'), 0);
        }
        if !attributes.ends_with('/') {
            around.push((cpus, pci, is_efa));
        }
    }
    for device in &mut devices {
        // The smallest memory that holds all the device's CPUs or, of several nodes around it, none in particular.
        let near = memories.iter().filter(|(_, cpus)| !cpus.is_empty() && device.cpus.is_subset(cpus));
        device.numa_node = near.min_by_key(|(_, cpus)| cpus.len()).map(|&(number, _)| number);
    }
    Ok(devices)
}

/// For each rank of a node, by the CPUs it may use, the device it uses (an index into `devices`): the nearest active one, one of
/// software only where no other is active; of several that are equally near, each gets as many ranks. `None` when no device is active.
pub fn assign(devices: &[Device], ranks: &[CpuSet]) -> Vec<Option<usize>> {
    let mut load = vec![0_usize; devices.len()];
    ranks
        .iter()
        .map(|cpus| {
            let active = devices.iter().enumerate().filter(|(_, device)| device.is_active());
            let by = |(index, device): &(usize, &Device)| {
                (device.pci.is_none(), distance(device, cpus), load[*index])
            };
            let chosen = active.min_by_key(by)?.0;
            load[chosen] += 1;
            Some(chosen)
        })
        .collect()
}

/// As [`assign`], by name.
pub fn assign_names(devices: &[Device], ranks: &[CpuSet]) -> Vec<Option<String>> {
    let name = |index: Option<usize>| index.map(|index| devices[index].name.clone());
    assign(devices, ranks).into_iter().map(name).collect()
}

/// Devices of one rank: as many as its messages can go by (`WEFT_RAILS`).
pub const MOST_RAILS: usize = 8;

/// The devices that carry the messages of a rank with `cpus` whose nearest one is `first`, in words: with several `rails` also the
/// nearest other active devices of the same kind, of those equally near the fastest, each on a card of its own first; then the other devices of
/// these cards; then other active ports of all these, in turn. Which ports these are in the end the transport says that opens them: it looks at
/// addresses, too.
pub fn rails(devices: &[Device], first: usize, cpus: &CpuSet, rails: u32) -> Vec<String> {
    let wanted = (rails.max(1) as usize).min(MOST_RAILS);
    let Device { speech, pci, .. } = &devices[first];
    let is_alike = |device: &&Device| {
        device.speech == *speech && device.pci.is_some() == pci.is_some() && device.is_active()
    };
    let mut alike: Vec<&Device> = devices.iter().filter(is_alike).collect();
    alike.sort_by_key(|device| {
        (device.name != devices[first].name, distance(device, cpus), Reverse(device.rate))
    });
    let mut chosen: Vec<&Device> = vec![&devices[first]];
    for alone in [true, false] {
        for &device in &alike {
            let is_taken = chosen.iter().any(|other| other.name == device.name);
            let shares = chosen.iter().any(|other| other.card() == device.card());
            if !(is_taken || alone && shares) && chosen.len() < wanted {
                chosen.push(device);
            }
        }
    }
    let mut words: Vec<String> = chosen.iter().map(|device| device.name.clone()).collect();
    let ports = (2..).map_while(|port| {
        let more: Vec<&&Device> = chosen.iter().filter(|device| device.active_ports >= port).collect();
        (!more.is_empty()).then_some(more)
    });
    let others = ports.flatten().map(|device| format!("another port of {}", device.name));
    let missing = wanted.saturating_sub(words.len());
    words.extend(others.take(missing));
    words
}

/// As [`rails`], for a rank whose nearest device has this name; empty where it has none.
pub fn rails_of(devices: &[Device], first: Option<&str>, cpus: &CpuSet, wanted: u32) -> Vec<String> {
    let first = devices.iter().position(|device| Some(device.name.as_str()) == first);
    first.map_or_else(Vec::new, |first| rails(devices, first, cpus, wanted))
}

/// How far a device is from the CPUs of a rank: 0 when it is near all of them, 1 near some, 2 near none. One that does not tell
/// where it is counts as near some.
fn distance(device: &Device, cpus: &CpuSet) -> u32 {
    if device.cpus.is_empty() || cpus.is_empty() {
        return 1;
    }
    if cpus.is_subset(&device.cpus) {
        0
    } else if device.cpus.intersection(cpus).is_empty() {
        2
    } else {
        1
    }
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
