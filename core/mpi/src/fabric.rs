//! Which fabrics this process uses, and their opening.

use std::net::{IpAddr, Ipv4Addr};
use weft_boot::{Job, Launcher, LauncherKind, SharedLauncher, machine};
use weft_engine::{Directory, Fabric, NodeLocal, PeerCard, Transports};
use weft_types::params::{self, Choice, Parameters};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// How the processes of a job are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// There are no others.
    Alone,
    /// All by shared memory.
    Shm,
    /// All by a fabric, also those of this node.
    Fabric,
    /// Those of this node by shared memory, all others by a fabric.
    Both,
}

/// Opens the transports that lead to the other processes of the job. Collective over the job where it needs a network.
///
/// # Errors
/// What could not be had, why, and what to do.
pub(crate) fn open(
    job: &mut Job,
    launcher: &SharedLauncher,
    parameters: &Parameters,
    oversubscribed: bool,
) -> Result<Transports> {
    match choose(job, parameters.transport)? {
        Ways::Alone => Ok(Transports::alone()),
        Ways::Shm => Transports::node_local(node_local(job, parameters, oversubscribed)?),
        Ways::Fabric => fabric(job, launcher, parameters.transport).map(Transports::over),
        Ways::Both => {
            let node = node_local(job, parameters, oversubscribed)?;
            Transports::both(node, fabric(job, launcher, parameters.transport)?)
        }
    }
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

/// The ways of this process. Which fabric leads between two nodes is the same at all processes of a job, for what it goes by is.
pub(crate) fn choose(job: &Job, asked: params::Fabric) -> Result<Ways> {
    match asked {
        _ if job.size == 1 => Ok(Ways::Alone),
        params::Fabric::Auto | params::Fabric::Shm if is_on_one_node(job) => Ok(Ways::Shm),
        // Weft's agents tell of deaths through the memory of the node, also a process that is alone there.
        params::Fabric::Auto if job.local_ranks.len() > 1 || job.launcher == LauncherKind::Weft => {
            Ok(Ways::Both)
        }
        params::Fabric::Auto | params::Fabric::Softroce | params::Fabric::Verbs => Ok(Ways::Fabric),
        params::Fabric::Shm => Err(Error::new(
            ErrorClass::OTHER,
            format!(
                "WEFT_TRANSPORT=shm, but of the {} processes of the job only {} are on this node; unset it, or start all on one node",
                job.size,
                job.local_ranks.len()
            ),
        )),
    }
}

/// The launcher's key under which a process says how it is found.
fn key(rank: u32) -> String {
    format!("weft-card-{rank}")
}

/// The fabric between the nodes of a job, and what a line about it calls it.
pub(crate) fn name(asked: params::Fabric) -> &'static str {
    match asked {
        params::Fabric::Verbs => "verbs (RDMA devices)",
        _ => "softroce (the RDMA emulator, UDP)",
    }
}

fn fabric(job: &Job, launcher: &SharedLauncher, asked: params::Fabric) -> Result<Fabric> {
    let directory = Box::new(Cards(launcher.clone()));
    let me = PeerId(job.rank);
    let (fabric, card) = match (asked, is_on_one_node(job)) {
        (params::Fabric::Verbs, true) => Fabric::verbs(me, None, directory),
        (params::Fabric::Verbs, false) => Fabric::verbs(me, Some(machine::host_address()), directory),
        (_, true) => Fabric::softroce(me, IpAddr::V4(Ipv4Addr::LOCALHOST), directory),
        (_, false) => Fabric::softroce(me, machine::host_address(), directory),
    }?;
    let mut launcher = launcher.clone();
    launcher.put(&key(job.rank), &card)?;
    launcher.fence()?;
    Ok(fabric)
}

/// The cards that processes left with the launcher.
#[derive(Debug)]
struct Cards(SharedLauncher);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        let text = self.0.get(&key(peer.0))?.ok_or_else(|| {
            Error::new(
                ErrorClass::OTHER,
                format!("the launcher does not know how process {} is reached: did it start with the same WEFT_TRANSPORT?", peer.0),
            )
        })?;
        text.parse()
    }
}
