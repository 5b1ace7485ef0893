//! What leads between the nodes of a job that are not alike: the best that all of them can use, as long as nobody gives up a device for
//! sockets ([`crate::pairs`] has the rest). A pure function of what each of them can use, so every process of the job comes to the same.
//!
//! A *road* is finer than a transport: verbs lead from InfiniBand to InfiniBand and from RoCE to RoCE, and not from one to the
//! other. A node says its roads in one short word, its own choice first ([`word`]); nodes with the same word are of one kind. Where
//! all have made the same choice it stands. Otherwise the first road of [`Road::ALL`] that each kind has is taken.

use std::fmt;

use crate::devices::{Device, Speech};
use crate::transport::{Facts, Rdma, Route, Way, Wish, far};

/// A transport, over one kind of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Road {
    /// Slingshot, by libfabric.
    Slingshot,
    /// InfiniBand, by verbs.
    InfiniBand,
    /// Omni-Path, by libfabric.
    OmniPath,
    /// RDMA over Ethernet, by verbs.
    Roce,
    /// Elastic Fabric Adapters, by libfabric.
    Efa,
    /// What else libfabric drives.
    Other,
    /// RDMA devices that the kernel emulates, by verbs.
    Kernel,
    /// Libfabric, asked for by name: it chooses.
    Libfabric,
    /// The emulator over UDP, which needs no device.
    Softroce,
}

impl Road {
    /// All of them; of two that all nodes have the earlier one is taken.
    pub const ALL: [Road; 9] = [
        Road::Slingshot,
        Road::InfiniBand,
        Road::OmniPath,
        Road::Roce,
        Road::Efa,
        Road::Other,
        Road::Kernel,
        Road::Libfabric,
        Road::Softroce,
    ];

    /// Its letter in a [`word`].
    pub const fn letter(self) -> char {
        match self {
            Road::Slingshot => 's',
            Road::InfiniBand => 'i',
            Road::OmniPath => 'o',
            Road::Roce => 'r',
            Road::Efa => 'a',
            Road::Other => 'x',
            Road::Kernel => 'k',
            Road::Libfabric => 'l',
            Road::Softroce => 'u',
        }
    }

    /// Its transport.
    pub const fn way(self) -> Way {
        match self {
            Road::InfiniBand | Road::Roce | Road::Kernel => Way::Verbs,
            Road::Softroce => Way::Softroce,
            Road::Slingshot | Road::OmniPath | Road::Efa | Road::Other | Road::Libfabric => Way::Ofi,
        }
    }

    /// Whether devices of hardware carry it.
    pub(crate) const fn is_hardware(self) -> bool {
        !matches!(self, Road::Kernel | Road::Libfabric | Road::Softroce)
    }

    /// Whether it leads over this device.
    pub fn takes(self, device: &Device) -> bool {
        let hard = device.pci.is_some();
        match self {
            Road::Slingshot => device.speech == Speech::Slingshot,
            Road::InfiniBand => hard && device.speech == Speech::InfiniBand,
            Road::OmniPath => device.speech == Speech::OmniPath,
            Road::Roce => hard && device.speech == Speech::Roce,
            Road::Efa => device.speech == Speech::Efa,
            Road::Other => device.speech == Speech::Other,
            Road::Kernel => !hard && matches!(device.speech, Speech::InfiniBand | Speech::Roce),
            Road::Libfabric => true,
            Road::Softroce => false,
        }
    }
}

impl fmt::Display for Road {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Road::Slingshot => "ofi over Slingshot",
            Road::InfiniBand => "verbs over InfiniBand",
            Road::OmniPath => "ofi over Omni-Path",
            Road::Roce => "verbs over RoCE",
            Road::Efa => "ofi over EFA",
            Road::Other => "ofi over devices of its own",
            Road::Kernel => "verbs over the kernel's emulated devices",
            Road::Libfabric => "ofi",
            Road::Softroce => "softroce",
        })
    }
}

/// What a machine has of a road: the route over its devices alone.
///
/// # Errors
/// Why it cannot be used, or which transport would be taken in its place.
pub fn over(road: Road, facts: &Facts, wish: &Wish) -> Result<Route, String> {
    let asks_for_libfabric = wish.forced == Some(Way::Ofi);
    // Whoever asks for libfabric leaves the devices to it.
    if asks_for_libfabric && !matches!(road, Road::Libfabric | Road::Softroce)
        || road == Road::Libfabric && !asks_for_libfabric
    {
        return Err(format!("WEFT_TRANSPORT leads elsewhere than {road}"));
    }
    // The road without devices is there for whoever may do without what was asked for.
    let falls = road == Road::Softroce && wish.rdma == Rdma::Prefer;
    let wish = if falls && asks_for_libfabric { Wish { forced: None, ..*wish } } else { *wish };
    let devices = facts.devices.iter().filter(|device| road.takes(device)).cloned().collect();
    let route = far(&Facts { devices, ..facts.clone() }, &wish)?;
    match route.way == road.way() {
        true => Ok(route),
        false => Err(format!("{} is taken instead: {}", route.way, route.why)),
    }
}

/// The roads of a machine that was asked for this, its own choice first; empty where it cannot have what was asked for.
pub fn roads(facts: &Facts, wish: &Wish) -> Vec<Road> {
    let Ok(own) = far(facts, wish) else { return Vec::new() };
    let found = Road::ALL.into_iter().filter_map(|road| Some((road, over(road, facts, wish).ok()?)));
    let mut found: Vec<(Road, Route)> = found.collect();
    // The others keep their order.
    found.sort_by_key(|(_, route)| route.way != own.way || route.rails.first() != own.rails.first());
    found.into_iter().map(|(road, _)| road).collect()
}

/// Roads as a node says them: a letter each.
pub fn word(roads: &[Road]) -> String {
    roads.iter().map(|road| road.letter()).collect()
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Their roads, their own choice first.
    pub roads: Vec<Road>,
    /// Which nodes they are, for people.
    pub nodes: String,
    /// How many.
    pub count: u32,
}

impl Kind {
    /// Of a [`word`] that so many nodes say; letters of later versions are roads that this one has not.
    pub fn read(word: &str, nodes: String, count: u32) -> Kind {
        let road = |letter| Road::ALL.into_iter().find(|road| road.letter() == letter);
        Kind { roads: word.chars().filter_map(road).collect(), nodes, count }
    }
}

/// What leads between all nodes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The road.
    pub road: Road,
    /// Whether nodes had chosen otherwise, so that all must say anew how they are reached.
    pub is_changed: bool,
    /// Why not what some have and others lack; `None` where nobody gave up anything.
    pub why: Option<String>,
    /// Whether devices gave way to the kernel's sockets on some node: to be said unasked.
    pub is_fall: bool,
}

/// Decides for all kinds of nodes of a job, whatever their order is.
///
/// # Errors
/// No road is common to all: which nodes have which, and the remedy.
pub fn agree(kinds: &[Kind], wish: &Wish) -> Result<Agreed, String> {
    let mut kinds: Vec<&Kind> = kinds.iter().collect();
    kinds.sort_by(|a, b| (&a.roads, &a.nodes).cmp(&(&b.roads, &b.nodes)));
    let all_have = |road: &Road| kinds.iter().all(|kind| kind.roads.contains(road));
    let first = |kind: &&Kind| kind.roads.first().copied();
    let same =
        kinds.first().and_then(first).filter(|&road| kinds.iter().all(|kind| first(kind) == Some(road)));
    let Some(road) = same.or_else(|| Road::ALL.into_iter().find(|road| all_have(road))) else {
        return Err(nothing_in_common(&kinds, wish));
    };
    let given_up: Vec<Road> = Road::ALL
        .into_iter()
        .filter(|given| kinds.iter().any(|kind| first(kind) == Some(*given)) && *given != road)
        .collect();
    let told: Vec<String> = given_up
        .iter()
        .map(|given| {
            let (have, lack): (Vec<&&Kind>, Vec<&&Kind>) =
                kinds.iter().partition(|kind| kind.roads.contains(given));
            match lack.is_empty() {
                true => format!("{given} is on all nodes, but not what each of them chose"),
                false => format!("{} cannot use {given}, which {} can", nodes(&lack), nodes(&have)),
            }
        })
        .collect();
    Ok(Agreed {
        road,
        is_changed: same.is_none(),
        why: (!told.is_empty()).then(|| told.join("; ")),
        is_fall: !road.is_hardware()
            && given_up.iter().any(|given| given.is_hardware() || *given == Road::Libfabric),
    })
}

fn nodes(kinds: &[&&Kind]) -> String {
    kinds.iter().map(|kind| kind.nodes.as_str()).collect::<Vec<_>>().join(", ")
}

fn nothing_in_common(kinds: &[&Kind], wish: &Wish) -> String {
    let kind = |kind: &&Kind| {
        let roads: Vec<String> = kind.roads.iter().map(Road::to_string).collect();
        let roads = if roads.is_empty() { "nothing".to_owned() } else { roads.join(" or ") };
        format!("{}: {roads}", kind.nodes)
    };
    let told = kinds.iter().map(kind).collect::<Vec<_>>().join("; ");
    let (asked, remedy) = match wish.rdma {
        Rdma::Require => ("WEFT_RDMA=require, but the", "WEFT_RDMA=prefer allows sockets"),
        Rdma::Auto | Rdma::Prefer => (
            "the",
            "set one WEFT_TRANSPORT that all of them have for the whole job (mpiexec -genv), or unset it everywhere",
        ),
    };
    format!(
        "{asked} nodes of this job have no transport between nodes in common ({told}). {remedy}; weft-info --explain transports on each \
         says why others cannot be used"
    )
}

#[cfg(test)]
#[path = "agreed_tests.rs"]
mod tests;
