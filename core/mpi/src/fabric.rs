//! Which fabrics this process uses, and their opening.

mod alike;
mod planned;

use planned::{Between, lacking, nearest, planned};
use std::net::{IpAddr, Ipv4Addr};
use weft_boot::{Job, Launcher, LauncherKind, SharedLauncher, machine};
use weft_engine::{
    Directory, Fabric, Layers, NodeLocal, OfiCard, OfiCarrier, OfiDirectory, OfiWanted, PeerCard, RouteWish,
    Transports,
};
use weft_place::transport::{self, Facts, Rdma, Way, Wish};
use weft_types::params::{self, Chance, Choice, FaultPlan, LatencyModel, Parameters};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// How the processes of a job are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// There are no others.
    Alone,
    /// All by shared memory.
    Shm,
    /// All by a fabric, also those of this node.
    Fabric(Between),
    /// Those of this node by shared memory, all others by a fabric.
    Both(Between),
}

/// What a machine has, as far as this process cares.
fn facts(job: &Job, parameters: &Parameters) -> Facts {
    let library_path = std::env::var("LD_LIBRARY_PATH").ok();
    Facts {
        cpus: job.binding.clone().unwrap_or_else(machine::allowed_cpus),
        eager_limit: u64::from(parameters.eager_limit),
        ..Facts::gather(&machine::LiveSystem, library_path.as_deref())
    }
}

impl Ways {
    /// In words: what leads where, why, and why not the others.
    pub(crate) fn explain(&self, job: &Job, parameters: &Parameters) -> String {
        let wish = Wish::from(parameters);
        // What is opened all the same although the plan would refuse it (a library in an unusual place) was asked for by name.
        let named = |way: Way| format!("{way} (WEFT_TRANSPORT asks for it)");
        let line = |route: std::result::Result<transport::Route, String>, way: Way| {
            route.map_or_else(|_| named(way), |route| route.line())
        };
        match self {
            Ways::Alone => "no transport is needed".to_owned(),
            Ways::Shm => {
                format!("all peers over {}", line(transport::mates(&facts(job, parameters), &wish), Way::Shm))
            }
            Ways::Fabric(between) => {
                let facts = facts(job, parameters);
                let route = match is_on_one_node(job) {
                    true => transport::mates(&facts, &wish),
                    false => transport::far(&facts, &wish),
                };
                format!("all peers over {}", line(route, between.way))
            }
            Ways::Both(between) => {
                let route = transport::far(&facts(job, parameters), &wish);
                format!("peers of this node over shm, all others over {}", line(route, between.way))
            }
        }
    }
}

/// Opens the transports that lead to the other processes of the job. Collective over the job where it needs a network.
///
/// # Errors
/// What could not be had, why, and what to do.
pub(crate) fn open(
    job: &mut Job,
    launcher: &SharedLauncher,
    parameters: &Parameters,
    ways: &Ways,
    oversubscribed: bool,
) -> Result<(Transports, Option<Opener>)> {
    let layers = layers(job, parameters, ways)?;
    let me = PeerId(job.rank);
    let between = match ways {
        Ways::Alone => return Ok((Transports::alone(), None)),
        Ways::Shm => {
            let node = node_local(job, parameters, oversubscribed)?;
            let transports = Transports::node_local(node)?;
            transports
                .agree(alike::word(&layers))
                .map_err(|first| alike::unlike(&layers, first, job.rank))?;
            return Ok((transports.wrapped(layers, me)?, None));
        }
        Ways::Fabric(between) | Ways::Both(between) => between,
    };
    let node = match ways {
        Ways::Both(_) => Some(node_local(job, parameters, oversubscribed)?),
        // Who alone tells of a process that was never talked to.
        _ if job.launcher == LauncherKind::Weft => {
            // Nobody but the launcher rings there, who fences: senders' barriers are for nothing.
            Some(NodeLocal { single_copy: false, ..node_local(job, parameters, true)? })
        }
        _ => None,
    };
    let (fabric, opener) = fabric(job, launcher, parameters, between)?;
    let transports = match (ways, node) {
        (Ways::Both(_), Some(node)) => Transports::both(node, fabric)?,
        (_, Some(node)) => Transports::forced(node, fabric)?,
        (_, None) => Transports::over(fabric),
    };
    transports.agree(alike::word(&layers)).map_err(|first| alike::unlike(&layers, first, job.rank))?;
    Ok((transports.wrapped(layers, me)?, Some(opener)))
}

/// The layers that go round what carries messages; what of it is done on purpose is told.
///
/// # Errors
/// Faults are asked for that nothing here can make.
fn layers(job: &Job, parameters: &Parameters, ways: &Ways) -> Result<Layers> {
    if *ways == Ways::Alone {
        return Ok(Layers::default());
    }
    let by_datagrams = is_by_datagrams(ways);
    let mut faults = parameters.faults;
    if let Some(plan) = &mut faults {
        if !by_datagrams && plan.double + plan.overtake > 0.0 {
            return Err(Error::new(
                ErrorClass::OTHER,
                "WEFT_FAULTS: double and overtake happen to datagrams, which only WEFT_TRANSPORT=softroce sends itself; other \
                 transports bring packets once and in order (delay and loss act on them)",
            ));
        }
        if job.rank == 0 {
            eprintln!("weft: faults happen on purpose (WEFT_FAULTS={})", plan.text());
        }
        if by_datagrams {
            plan.loss = Chance { of: 0.0, ..plan.loss };
        }
    }
    Ok(Layers { faults, latency: parameters.latency, trace: parameters.trace_packets.clone() })
}

/// Whether a device emulated here sends datagrams, which can be lost, doubled and overtaken.
fn is_by_datagrams(ways: &Ways) -> bool {
    matches!(ways, Ways::Fabric(between) | Ways::Both(between) if between.way == Way::Softroce)
}

fn node_local(job: &mut Job, parameters: &Parameters, oversubscribed: bool) -> Result<NodeLocal> {
    let mates = job.local_ranks.len() as u32;
    Ok(NodeLocal {
        segment: job.node_segment(Transports::segment_bytes(mates))?,
        local_index: job.local_index,
        peers: job.local_ranks.iter().map(|&rank| PeerId(rank)).collect(),
        single_copy: parameters.single_copy != Choice::Off,
        oversubscribed,
    })
}

fn is_on_one_node(job: &Job) -> bool {
    job.local_ranks.len() == job.size as usize
}

/// The ways of this process. What leads between nodes is the same at all processes of a job whose nodes are alike.
///
/// # Errors
/// What was asked for cannot be had, with the reasons and the remedy.
pub(crate) fn choose(job: &Job, parameters: &Parameters) -> Result<Ways> {
    let wish = Wish::from(parameters);
    match wish.forced {
        _ if job.size == 1 => return Ok(Ways::Alone),
        None | Some(Way::Shm) if is_on_one_node(job) => return Ok(Ways::Shm),
        Some(Way::Shm) => {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "WEFT_TRANSPORT=shm, but of the {} processes of the job only {} are on this node; unset it, or start all on one node",
                    job.size,
                    job.local_ranks.len()
                ),
            ));
        }
        _ => {}
    }
    let needs_device = wish.rdma == Rdma::Require;
    let between = match wish.forced {
        // What cannot be had is told best by whoever tries to open it.
        Some(way @ Way::Softroce) if wish.rdma == Rdma::Auto => {
            // It counts on no device, so the machine need not be looked at.
            Between { way, downgrade: None, planned: Vec::new(), rail: None, needs_device }
        }
        Some(way) if wish.rdma == Rdma::Auto => {
            let facts = facts(job, parameters);
            let route = transport::far(&facts, &wish).ok();
            let rail = route.as_ref().and_then(|route| nearest(route, &facts, job.local_index));
            Between { way, downgrade: None, planned: planned(route, parameters), rail, needs_device }
        }
        _ => {
            let facts = facts(job, parameters);
            let route = transport::far(&facts, &wish).map_err(|why| Error::new(ErrorClass::OTHER, why))?;
            let (way, downgrade) = (route.way, route.downgrade.clone());
            let rail = nearest(&route, &facts, job.local_index);
            Between { way, downgrade, planned: planned(Some(route), parameters), rail, needs_device }
        }
    };
    // Weft's agents tell of deaths through the memory of the node, also a process that is alone there.
    let has_node = job.local_ranks.len() > 1 || job.launcher == LauncherKind::Weft;
    // What was asked for all peers and fell to something else binds those of this node to nothing.
    let is_forced = wish.forced == Some(between.way);
    Ok(if !is_forced && has_node { Ways::Both(between) } else { Ways::Fabric(between) })
}

/// The launcher's key under which a process says how it is found.
fn key(rank: u32) -> String {
    format!("weft-card-{rank}")
}

fn fabric(
    job: &Job,
    launcher: &SharedLauncher,
    parameters: &Parameters,
    between: &Between,
) -> Result<(Fabric, Opener)> {
    if job.rank == 0
        && let Some(downgrade) = &between.downgrade
    {
        eprintln!("weft: {downgrade}");
    }
    let latency = parameters.latency;
    let directory = Cards { launcher: launcher.clone(), way: between.way, rank: job.rank, latency };
    let mut neighbours = directory.clone();
    let directory = Box::new(directory);
    let on_one_node = is_on_one_node(job);
    let mut opener = Opener {
        me: PeerId(job.rank),
        way: between.way,
        address: if on_one_node { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { machine::host_address() },
        on_one_node,
        rail: job.rail.clone().or_else(|| between.rail.clone()),
        rails: parameters.rails,
        connections: parameters.connections,
        rings: parameters.rings,
        frames: parameters.frames,
        link_mtu: parameters.link_mtu,
        routes: RouteWish {
            ask: parameters.routes,
            service_level: parameters.service_level.0,
            traffic_class: parameters.traffic_class.0,
        },
        partition: parameters.partition.0,
        faults: parameters.faults,
        provider: match &parameters.ofi_provider {
            params::Provider::Auto => None,
            params::Provider::Named(name) => Some(name.clone()),
        },
        carrier: match parameters.ofi_tags {
            params::Choice::Auto => None,
            params::Choice::On => Some(OfiCarrier::Tags),
            params::Choice::Off => Some(OfiCarrier::Messages),
        },
    };
    let (fabric, card) = match between.way {
        Way::Ofi => {
            let wanted = OfiWanted {
                processes: Some(job.size),
                job: Some(job.job_id.clone()),
                offload: match parameters.offload {
                    params::Choice::Auto => None,
                    params::Choice::On => Some(true),
                    params::Choice::Off => Some(false),
                },
                ..opener.wanted()
            };
            Fabric::ofi(opener.me, &wanted, directory)?
        }
        _ => opener.open_rdma(directory)?,
    };
    opener.provider = fabric.provider().or(opener.provider);
    if between.needs_device && !fabric.drives_a_device() {
        let chosen = fabric.why().unwrap_or_default();
        let chosen = chosen.lines().next().unwrap_or_default();
        return Err(Error::new(
            ErrorClass::OTHER,
            format!(
                "WEFT_RDMA=require, but what could be opened is no RDMA device: {chosen}. WEFT_RDMA=prefer allows it \
                 (weft-info --explain transports)"
            ),
        ));
    }
    let why = fabric.why().unwrap_or_default();
    let mut why = why.lines();
    let chosen = why.next().unwrap_or_default();
    if job.rank == 0 {
        let rails = fabric.rails().len();
        if let Some(fallen) = between.fallen(fabric.drives_a_device(), chosen) {
            eprintln!("weft: {fallen}");
        }
        if rails < parameters.rails as usize {
            eprintln!("weft: {}", lacking(parameters.rails, between.way, &fabric.rails()));
        }
    }
    if parameters.verbose > u32::from(job.rank != 0) {
        let protocols = fabric.protocols(parameters.rendezvous.into(), parameters.eager_limit);
        eprintln!("weft: {chosen}; messages {}", protocols.join("; "));
        // Of the rest, which may be long, whoever asks for more hears.
        match parameters.verbose {
            0 | 1 => fabric.registered_memory().iter().for_each(|line| eprintln!("weft:   {line}")),
            _ => why.for_each(|line| eprintln!("weft: {line}")),
        }
    }
    let mut launcher = launcher.clone();
    let alike = alike::suffix(&latency);
    launcher.put(&key(job.rank), &format!("{}:{}{alike}:{card}", between.way, Fabric::version()))?;
    launcher.fence()?;
    if latency.is_some() {
        neighbours.text(PeerId((job.rank + 1) % job.size))?;
    }
    Ok((fabric, opener))
}

/// What it takes to open one more end on the fabric of this process, like the first one.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    me: PeerId,
    way: Way,
    address: IpAddr,
    on_one_node: bool,
    rail: Option<String>,
    rails: u32,
    connections: u32,
    rings: Choice,
    frames: bool,
    link_mtu: u32,
    routes: RouteWish,
    partition: Option<u16>,
    /// Those of datagrams.
    faults: Option<FaultPlan>,
    /// Libfabric's, which the first end has chosen.
    provider: Option<String>,
    carrier: Option<OfiCarrier>,
}

impl Opener {
    /// The name of what is opened.
    pub(crate) fn way(&self) -> &'static str {
        self.way.name()
    }

    /// Opens an end. Also returns how others find it: what their `directory` must answer.
    ///
    /// # Errors
    /// It cannot be had: descriptors, queue pairs or memory are used up.
    pub(crate) fn open(
        &self,
        directory: impl Directory + OfiDirectory + 'static,
    ) -> Result<(Fabric, String)> {
        match self.way {
            Way::Ofi => Fabric::ofi(self.me, &self.wanted(), Box::new(directory)),
            _ => self.open_rdma(Box::new(directory)),
        }
    }

    /// Of libfabric. It was told of the job when it was opened first.
    fn wanted(&self) -> OfiWanted {
        OfiWanted {
            between_nodes: !self.on_one_node,
            address: Some(self.address),
            provider: self.provider.clone(),
            rail: self.rail.clone(),
            carrier: self.carrier,
            processes: None,
            job: None,
            offload: Some(false),
        }
    }

    fn open_rdma(&self, directory: Box<dyn Directory>) -> Result<(Fabric, String)> {
        let (mut fabric, card) = match self.way {
            Way::Verbs => {
                let address = (!self.on_one_node).then_some(self.address);
                let wish = (address, self.partition);
                Fabric::verbs(self.me, wish, self.rail.as_deref(), self.rails, self.routes, directory)
            }
            Way::Softroce | Way::Shm | Way::Ofi => {
                let faults = self.faults.as_ref();
                Fabric::softroce(self.me, self.address, self.rails, faults, self.link_mtu, directory)
            }
        }?;
        fabric.set_connections(self.connections);
        fabric.set_rings(self.rings);
        if !self.frames {
            fabric.set_frames(false);
        }
        Ok((fabric, card))
    }
}

/// The cards that processes left with the launcher, each behind the name of its transport.
#[derive(Clone, Debug)]
struct Cards {
    launcher: SharedLauncher,
    way: Way,
    /// Of this process.
    rank: u32,
    latency: Option<LatencyModel>,
}

impl Cards {
    fn text(&mut self, peer: PeerId) -> Result<String> {
        let failed = |why: String| Error::new(ErrorClass::OTHER, why);
        let text = self.launcher.get(&key(peer.0))?.ok_or_else(|| {
            failed(format!(
                "the launcher does not know how process {} is reached: did it start with the same WEFT_TRANSPORT?",
                peer.0
            ))
        })?;
        card_of(&text, peer, &self.way, &Fabric::version(), (self.rank, &self.latency)).map(str::to_owned)
    }
}

/// The card in what a process left with the launcher: the name of its transport, the version of what it says there with the times of
/// another network that it adds, and the card. `own`: the number of this process and the times that it adds.
fn card_of<'a>(
    text: &'a str,
    peer: PeerId,
    way: &Way,
    version: &str,
    own: (u32, &Option<LatencyModel>),
) -> Result<&'a str> {
    let failed = |why: String| Err(Error::new(ErrorClass::OTHER, why));
    let mut parts = text.splitn(3, ':');
    let theirs = parts.next().filter(|_| text.contains(':')).unwrap_or("something else");
    if theirs != way.name() {
        return failed(format!(
            "process {} is reached by {theirs}, this one by {way}: their nodes differ (weft-info --explain transports on both \
             says why); name one that both have in WEFT_TRANSPORT",
            peer.0
        ));
    }
    let (said, card) = (parts.next(), parts.next());
    let (theirs, model) = said.map_or((None, ""), |said| {
        let (version, model) = said.split_once('+').unwrap_or((said, ""));
        (Some(version), model)
    });
    match (theirs, card) {
        (Some(theirs), Some(card)) if theirs == version => {
            alike::compare(model, own, peer.0)?;
            Ok(card)
        }
        (theirs, card) => {
            let theirs = match (theirs, card) {
                (Some(theirs), Some(_)) if theirs.split('.').count() == 2 => format!("version {theirs}"),
                // Before versions were said.
                _ => "an older version".to_owned(),
            };
            failed(format!(
                "process {} runs another version of Weft: what it says over {way} is of {theirs}, what this one says of version {version}. \
                 Start all processes with the same installation (LD_LIBRARY_PATH, and what is installed on each node)",
                peer.0
            ))
        }
    }
}

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        self.text(peer)?.parse()
    }
}

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.text(peer)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_version_is_named() {
        let read = |text| card_of(text, PeerId(3), &Way::Softroce, "3.701", (0, &None));
        assert_eq!(read("softroce:3.701:[fe80::1]:4791/10/0").unwrap(), "[fe80::1]:4791/10/0");
        for other in [
            "softroce:3.602:10.0.0.1:4791/10/0",
            "softroce:10.0.0.1:4791/10/0",
            "softroce:[fe80::1]:4791/10/0",
            "softroce:3.701",
        ] {
            let error = read(other).unwrap_err();
            assert!(error.text().contains("process 3 runs another version of Weft"), "{other}: {error}");
        }
        for other in ["verbs:3.701:10.0.0.1:4791/10/0", "", "what"] {
            let error = read(other).unwrap_err();
            assert!(error.text().contains("their nodes differ"), "{other}: {error}");
        }
    }
}
