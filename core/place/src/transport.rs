//! Which transport leads to which processes, and why not the others: a pure function of what a machine has and what was asked
//! for.
//!
//! Two kinds of peers differ: those of this node and those of other nodes. For each, every transport either can be used, at a
//! modelled time, or cannot, for a reason that comes with its remedy. The least time wins. All processes of a job come to the
//! same if their nodes are alike; where they are not, [`crate::agreed`] takes what all of them have.

use std::fmt::{self, Write as _};

use crate::cpus::CpuSet;
use crate::devices::{self, Device, Speech};
use crate::libraries::library;
use crate::system::System;
use weft_types::params::{self, Parameters};

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Shared memory.
    Shm,
    /// RDMA devices through libibverbs.
    Verbs,
    /// Whatever libfabric drives.
    Ofi,
    /// The RDMA emulator over UDP.
    Softroce,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Shm, Way::Verbs, Way::Ofi, Way::Softroce];

    /// The name in `WEFT_TRANSPORT`.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Shm => "shm",
            Way::Verbs => "verbs",
            Way::Ofi => "ofi",
            Way::Softroce => "softroce",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether messages between nodes must be carried by RDMA devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rdma {
    /// Where a transport of such devices was asked for by name, it must; otherwise not.
    #[default]
    Auto,
    /// It must, or the job ends and says why.
    Require,
    /// It should; falling back to sockets is allowed, and said once.
    Prefer,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// One transport for all peers, also those of this node.
    pub forced: Option<Way>,
    /// See [`Rdma`].
    pub rdma: Rdma,
    /// Devices, or ports, for each process, at most [`devices::MOST_RAILS`]; 0 is 1.
    pub rails: u32,
}

impl From<&Parameters> for Wish {
    fn from(parameters: &Parameters) -> Wish {
        Wish {
            forced: match parameters.transport {
                params::Fabric::Auto => None,
                params::Fabric::Shm => Some(Way::Shm),
                params::Fabric::Softroce => Some(Way::Softroce),
                params::Fabric::Verbs => Some(Way::Verbs),
                params::Fabric::Ofi => Some(Way::Ofi),
            },
            rdma: match parameters.rdma {
                params::Rdma::Auto => Rdma::Auto,
                params::Rdma::Require => Rdma::Require,
                params::Rdma::Prefer => Rdma::Prefer,
            },
            rails: parameters.rails,
        }
    }
}

/// What a machine has, as far as transports care.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// RDMA devices.
    pub devices: Vec<Device>,
    /// Whether there are device files to open (`/dev/infiniband/uverbs*`).
    pub device_files: bool,
    /// Devices of libfabric's whose own file in /dev (`/dev/cxi0`, `/dev/hfi1_0`) is missing.
    pub closed: Vec<String>,
    /// Where libibverbs is.
    pub libibverbs: Option<String>,
    /// Where libfabric is.
    pub libfabric: Option<String>,
    /// Bytes of memory that a process may lock; `None`: as many as it likes.
    pub memlock: Option<u64>,
    /// CPUs of the process; empty: not known.
    pub cpus: CpuSet,
    /// Whether the kernel lets processes read each other's memory, where that was tried.
    pub single_copy: Option<bool>,
    /// Longest message that is sent without asking, in bytes.
    pub eager_limit: u64,
}

/// Memory that a connection's buffers need registered, at least.
pub const LEAST_MEMLOCK: u64 = 16 << 20;

impl Facts {
    /// Looks at a machine. `library_path`: the value of `LD_LIBRARY_PATH`.
    pub fn gather(system: &dyn System, library_path: Option<&str>) -> Facts {
        let (files, all) = (system.list("/dev/infiniband"), system.list("/dev"));
        let devices = devices::read(system);
        // A device that was renamed keeps the name of its file, which is not to be found then.
        let has_own_file =
            |device: &&Device| ["cxi", "hfi1_"].iter().any(|prefix| device.name.starts_with(prefix));
        let closed = devices.iter().filter(has_own_file).filter(|device| !all.contains(&device.name));
        Facts {
            closed: closed.map(|device| device.name.clone()).collect(),
            devices,
            device_files: files.iter().any(|file| file.starts_with("uverbs")),
            libibverbs: library(system, "libibverbs.so.1", library_path),
            libfabric: library(system, "libfabric.so.1", library_path),
            memlock: crate::limits::memlock(system),
            ..Facts::default()
        }
    }

    /// Active devices that speak one of these languages.
    fn active(&self, speaks: &[Speech]) -> Vec<&Device> {
        self.devices.iter().filter(|device| device.is_active() && speaks.contains(&device.speech)).collect()
    }
}

/// How one kind of peers is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The transport.
    pub way: Way,
    /// Why it.
    pub why: String,
    /// The devices that carry it.
    pub rails: Vec<String>,
    /// Whether they carry the messages past the kernel.
    pub rdma: bool,
    /// Message lengths and how they travel, for people.
    pub protocols: Vec<String>,
    /// Why not the others.
    pub others: Vec<(Way, String)>,
    /// What was asked for or could be had and is not used: to be said once, unasked.
    pub downgrade: Option<String>,
}

/// How all peers are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Those of this node.
    pub mates: Route,
    /// Those of other nodes; or why none leads there.
    pub far: Result<Route, String>,
}

/// Whom a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Mate,
    Far,
}

/// A transport that can be used.
struct Offer {
    way: Way,
    why: String,
    rails: Vec<String>,
    /// Whether devices carry the messages, past the kernel.
    rdma: bool,
    /// Model: seconds of a short message, bytes a second of a long one.
    latency: f64,
    bandwidth: f64,
}

impl Offer {
    /// The modelled time of a message of the length that is compared.
    fn seconds(&self) -> f64 {
        self.latency + COMPARED / self.bandwidth
    }
}

/// Bytes of the message whose time decides.
const COMPARED: f64 = 4096.0;

/// Decides.
///
/// # Errors
/// What was asked for cannot be had, not even for the processes of this node, with the reason for each transport and the remedy.
pub fn plan(facts: &Facts, wish: &Wish) -> Result<Plan, String> {
    Ok(Plan { mates: mates(facts, wish)?, far: far(facts, wish) })
}

/// The route to the processes of this node.
///
/// # Errors
/// As [`plan`].
pub fn mates(facts: &Facts, wish: &Wish) -> Result<Route, String> {
    route(Peer::Mate, facts, wish)
}

/// The route to the processes of other nodes.
///
/// # Errors
/// What was asked for cannot be had, with the reason for each transport and the remedy.
pub fn far(facts: &Facts, wish: &Wish) -> Result<Route, String> {
    route(Peer::Far, facts, wish)
}

fn route(peer: Peer, facts: &Facts, wish: &Wish) -> Result<Route, String> {
    let (mut offers, mut refused) = (Vec::new(), Vec::new());
    for way in Way::ALL {
        match offer(way, peer, facts, wish) {
            Ok(offer) => offers.push(offer),
            Err(why) => refused.push((way, why)),
        }
    }
    let reasons = |refused: &[(Way, String)]| {
        refused.iter().fold(String::new(), |mut text, (way, why)| {
            let _ = write!(text, "{}{way}: {why}", if text.is_empty() { "" } else { "; " });
            text
        })
    };
    let mut downgrade = None;
    let must = wish.rdma == Rdma::Require && peer == Peer::Far;
    if must {
        for offer in offers.extract_if(.., |offer| !offer.rdma) {
            refused.push((offer.way, "no device carries its messages, and WEFT_RDMA=require".to_owned()));
        }
        if offers.is_empty() {
            return Err(format!(
                "WEFT_RDMA=require, but no RDMA device can carry messages between nodes ({}). WEFT_RDMA=prefer allows sockets",
                reasons(&refused)
            ));
        }
    }
    if let Some(forced) = wish.forced {
        let why = refused.iter().find(|(way, _)| *way == forced).map(|(_, why)| why.clone());
        let falls = wish.rdma == Rdma::Prefer && matches!(forced, Way::Verbs | Way::Ofi);
        match why {
            Some(why) if falls => downgrade = Some(format!("WEFT_TRANSPORT={forced} cannot be had: {why}")),
            Some(why) => {
                let allow = match forced {
                    Way::Verbs | Way::Ofi => ". WEFT_RDMA=prefer allows another transport instead",
                    Way::Shm | Way::Softroce => "",
                };
                return Err(format!("WEFT_TRANSPORT={forced} cannot be had: {why}{allow}"));
            }
            None => {
                for offer in offers.extract_if(.., |offer| offer.way != forced) {
                    refused.push((offer.way, format!("WEFT_TRANSPORT={forced}")));
                }
            }
        }
    }
    offers.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
    let mut offers = offers.into_iter();
    let Some(best) = offers.next() else {
        return Err(format!("no transport can be used ({})", reasons(&refused)));
    };
    refused.extend(offers.map(|other| (other.way, slower(&other, &best))));
    refused.sort_by_key(|&(way, _)| way);
    if peer == Peer::Far && !best.rdma && downgrade.is_none() && wish.forced.is_none() {
        downgrade = idle_device(facts, &refused);
    }
    let names_sockets = matches!(wish.forced, Some(Way::Softroce | Way::Shm));
    if wish.rdma == Rdma::Prefer && peer == Peer::Far && !best.rdma && downgrade.is_none() && !names_sockets {
        let others: Vec<(Way, String)> =
            refused.iter().filter(|(way, _)| !matches!(way, Way::Shm | Way::Softroce)).cloned().collect();
        downgrade = Some(format!(
            "WEFT_RDMA=prefer, but no RDMA device can carry messages between nodes ({}); they go by {}",
            reasons(&others),
            best.way
        ));
    }
    Ok(Route {
        way: best.way,
        why: best.why,
        protocols: protocols(best.way, facts),
        rails: best.rails,
        rdma: best.rdma,
        others: refused,
        downgrade,
    })
}

fn slower(other: &Offer, best: &Offer) -> String {
    let micros = |offer: &Offer| offer.seconds() * 1e6;
    format!("{:.1} us for 4 KiB by the model, {} {:.1} us", micros(other), best.way, micros(best))
}

/// The devices of the machine that should have been used and cannot, of each kind with the reason.
fn idle_device(facts: &Facts, refused: &[(Way, String)]) -> Option<String> {
    let mut kinds: Vec<(Speech, Vec<&str>)> = Vec::new();
    for device in facts.devices.iter().filter(|device| device.pci.is_some()) {
        match kinds.iter_mut().find(|(speech, _)| *speech == device.speech) {
            Some((_, names)) => names.push(&device.name),
            None => kinds.push((device.speech, vec![&device.name])),
        }
    }
    let told: Vec<String> = kinds
        .iter()
        .filter_map(|(speech, names)| {
            let way = if speech.is_of_libfabric() { Way::Ofi } else { Way::Verbs };
            let why = &refused.iter().find(|(refused, _)| *refused == way)?.1;
            let what = match names[..] {
                [name] => format!("device {name} is"),
                _ => format!("devices {} are", names.join(", ")),
            };
            Some(format!("the {} {what} not used: {why}", speech.name()))
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// What a transport offers for a kind of peers.
fn offer(way: Way, peer: Peer, facts: &Facts, wish: &Wish) -> Result<Offer, String> {
    match (way, peer) {
        (Way::Shm, Peer::Far) => Err("other nodes share no memory with this one".to_owned()),
        (Way::Shm, Peer::Mate) => Ok(Offer {
            way,
            why: "they share this node's memory".to_owned(),
            rails: vec!["memory".to_owned()],
            rdma: true,
            latency: 1e-7,
            bandwidth: 1e10,
        }),
        (Way::Verbs, _) => verbs(facts, wish.rails),
        (Way::Ofi, _) => libfabric(facts, wish.forced == Some(way)),
        (Way::Softroce, _) => Ok(Offer {
            way,
            why: "it needs no device: RDMA in user space, over UDP".to_owned(),
            rails: std::iter::once("the host's network")
                .chain(std::iter::repeat("another socket of it"))
                .take((wish.rails.max(1) as usize).min(devices::MOST_RAILS))
                .map(str::to_owned)
                .collect(),
            rdma: false,
            latency: 15e-6,
            bandwidth: 1e9,
        }),
    }
}

fn verbs(facts: &Facts, rails: u32) -> Result<Offer, String> {
    let speaks = [Speech::InfiniBand, Speech::Roce];
    let active = facts.active(&speaks);
    if active.is_empty() {
        let known: Vec<String> = facts
            .devices
            .iter()
            .map(|device| format!("{} ({}): {}", device.name, device.speech.name(), device.ports))
            .collect();
        // Those of libfabric that verbs cannot drive are no reason to look at a cable.
        let strange = facts.devices.iter().all(|device| device.speech.is_of_libfabric());
        return Err(match known.is_empty() {
            true => "no RDMA device (/sys/class/infiniband is empty)".to_owned(),
            false if strange => {
                format!("no InfiniBand or RoCE device, but {}: libfabric's", known.join(", "))
            }
            false => format!(
                "no device with an active InfiniBand or RoCE port: {} (ibstat; is the cable in, does a subnet manager run?)",
                known.join(", ")
            ),
        });
    }
    if facts.libibverbs.is_none() {
        return Err(
            "libibverbs.so.1 is not installed (Debian: apt-get install libibverbs1 ibverbs-providers)"
                .to_owned(),
        );
    }
    if !facts.device_files {
        return Err(
            "no /dev/infiniband/uverbs* (modprobe ib_uverbs; for containers --device=/dev/infiniband)"
                .to_owned(),
        );
    }
    if facts.memlock.is_some_and(|bytes| bytes < LEAST_MEMLOCK) {
        return Err(format!(
            "{} KiB of locked memory are allowed, at least {} KiB are needed (ulimit -l unlimited; /etc/security/limits.conf; \
             for services LimitMEMLOCK=infinity)",
            facts.memlock.unwrap_or(0) >> 10,
            LEAST_MEMLOCK >> 10
        ));
    }
    let all: Vec<Device> = active.into_iter().cloned().collect();
    let nearest = devices::assign(&all, std::slice::from_ref(&facts.cpus))[0].unwrap_or(0);
    let device = &all[nearest];
    let gigabits = f64::from(device.rate.unwrap_or(1));
    Ok(Offer {
        way: Way::Verbs,
        why: format!(
            "the {} device {} carries messages past the kernel ({gigabits} Gbit/s)",
            device.speech.name(),
            device.name
        ),
        rails: devices::rails(&all, nearest, &facts.cpus, rails),
        // A device of software is an emulation in the kernel.
        rdma: device.pci.is_some(),
        latency: if device.pci.is_some() { 1.5e-6 } else { 1e-5 },
        bandwidth: gigabits * 1e9 / 8.0,
    })
}

fn libfabric(facts: &Facts, forced: bool) -> Result<Offer, String> {
    // Its verbs provider drives InfiniBand and RoCE devices too, but gives less than verbs themselves: they are left to these
    // unless libfabric was asked for.
    let all =
        [Speech::OmniPath, Speech::Slingshot, Speech::Efa, Speech::Other, Speech::InfiniBand, Speech::Roce];
    let driven = facts.active(if forced { &all } else { &all[..4] });
    if facts.libfabric.is_none() {
        return Err(match driven.first() {
            Some(device) => format!(
                "libfabric.so.1, which drives {}, is not installed (Debian: apt-get install libfabric1)",
                device.name
            ),
            None if forced => {
                "libfabric.so.1 is not installed (Debian: apt-get install libfabric1)".to_owned()
            }
            None => no_device_of_libfabric(facts),
        });
    }
    // Who asks for libfabric by name hears of that when it is open.
    let (closed, driven): (Vec<&Device>, Vec<&Device>) =
        driven.into_iter().partition(|device| !forced && facts.closed.contains(&device.name));
    if let (Some(device), true) = (closed.first(), driven.is_empty()) {
        let module = if device.speech == Speech::Slingshot { "cxi_user" } else { "hfi1" };
        return Err(format!(
            "no /dev/{} (modprobe {module}; for containers --device=/dev/{})",
            device.name, device.name
        ));
    }
    // Those of hardware first.
    let has_hardware = driven.iter().any(|device| device.pci.is_some());
    let candidates: Vec<Device> =
        driven.into_iter().filter(|device| device.pci.is_some() == has_hardware).cloned().collect();
    let Some(nearest) = devices::assign(&candidates, std::slice::from_ref(&facts.cpus))[0] else {
        return match forced {
            true => Ok(Offer {
                way: Way::Ofi,
                why: "libfabric, over the host's network".to_owned(),
                rails: vec!["the host's network".to_owned()],
                rdma: false,
                latency: 12e-6,
                bandwidth: 3e9,
            }),
            false => Err(no_device_of_libfabric(facts)),
        };
    };
    let device = &candidates[nearest];
    let gigabits = f64::from(device.rate.unwrap_or(1));
    Ok(Offer {
        way: Way::Ofi,
        why: format!(
            "libfabric drives the {} device {} ({gigabits} Gbit/s)",
            device.speech.name(),
            device.name
        ),
        rails: vec![device.name.clone()],
        rdma: has_hardware,
        latency: if has_hardware { 1.5e-6 } else { 1e-5 },
        bandwidth: gigabits * 1e9 / 8.0,
    })
}

/// Why libfabric has nothing to do unasked.
fn no_device_of_libfabric(facts: &Facts) -> String {
    let down: Vec<String> = facts
        .devices
        .iter()
        .filter(|device| device.speech.is_of_libfabric())
        .map(|device| format!("{} ({}): {}", device.name, device.speech.name(), device.ports))
        .collect();
    match down.is_empty() {
        true => NO_DEVICE_OF_LIBFABRIC.to_owned(),
        false => format!(
            "no device of libfabric's with an active port: {} (is the cable in, does the fabric manager run?)",
            down.join(", ")
        ),
    }
}

const NO_DEVICE_OF_LIBFABRIC: &str = "no device that only libfabric drives (Omni-Path, Slingshot, EFA); over sockets it is taken when WEFT_TRANSPORT=ofi asks for it";

/// How messages of which length travel.
fn protocols(way: Way, facts: &Facts) -> Vec<String> {
    let eager = bytes(facts.eager_limit);
    match way {
        Way::Shm => vec![
            "up to 104 bytes: in the packet's own cache lines".to_owned(),
            format!("up to {eager}: copied through shared memory, without asking"),
            match facts.single_copy {
                Some(false) => "longer: copied piece by piece through shared memory (the kernel refuses process_vm_readv)".to_owned(),
                _ => "longer: announced, then read from the sender's memory with one copy".to_owned(),
            },
        ],
        Way::Verbs | Way::Ofi | Way::Softroce => vec![
            match way {
                Way::Verbs => "short: inside the work request; of peers that talk often into rings of the receiver, where the device says of a connection that it writes bytes in order (WEFT_RINGS)".to_owned(),
                _ => "short: inside the work request".to_owned(),
            },
            format!("up to {eager}: copied into registered memory, without asking"),
            "longer: announced, then moved when the receiver is ready".to_owned(),
        ],
    }
}

fn bytes(count: u64) -> String {
    match count {
        0 => "the eager limit".to_owned(),
        _ if count.is_multiple_of(1024) => format!("{} KiB", count >> 10),
        _ => format!("{count} bytes"),
    }
}

impl Route {
    /// In one line: what, why, and why not the others.
    pub fn line(&self) -> String {
        let mut text = format!("{} ({}", self.way, self.why);
        for (way, why) in &self.others {
            let _ = write!(text, "; not {way}: {why}");
        }
        text + ")"
    }

    fn explain(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {}", self.way, self.why);
        let _ = writeln!(text, "    {:<13}{}", "rails", self.rails.join(", "));
        for (place, protocol) in self.protocols.iter().enumerate() {
            let _ = writeln!(text, "    {:<13}{protocol}", if place == 0 { "messages" } else { "" });
        }
        for (way, why) in &self.others {
            let _ = writeln!(text, "    {:<13}{why}", format!("not {way}"));
        }
        if let Some(downgrade) = &self.downgrade {
            let _ = writeln!(text, "    {:<13}{downgrade}", "note");
        }
    }
}

impl Plan {
    /// All of it, for people.
    pub fn explain(&self) -> String {
        let mut text = "to ranks of this node       ".to_owned();
        self.mates.explain(&mut text);
        text.push_str("to ranks of other nodes     ");
        match &self.far {
            Ok(route) => route.explain(&mut text),
            Err(why) => {
                let _ = writeln!(text, "none: {why}");
            }
        }
        text
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
