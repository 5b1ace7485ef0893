//! Which fabrics this process uses, and their opening.

use std::net::{IpAddr, Ipv4Addr};
use weft_boot::{Job, Launcher, SharedLauncher, machine};
use weft_engine::{Directory, NodeLocal, PeerCard, Transports};
use weft_types::params::{Choice, Fabric, Parameters};
use weft_types::{Error, ErrorClass, PeerId, Result};

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
    if job.size == 1 {
        return Ok(Transports::alone());
    }
    match choose(job, parameters.transport)? {
        Fabric::Softroce => softroce(job, launcher),
        Fabric::Shm | Fabric::Auto => Transports::node_local(NodeLocal {
            segment: job.node_segment(Transports::segment_bytes(job.size))?,
            local_index: job.local_index,
            peers: job.local_ranks.iter().map(|&rank| PeerId(rank)).collect(),
            single_copy: parameters.single_copy != Choice::Off,
            oversubscribed,
        }),
    }
}

fn is_on_one_node(job: &Job) -> bool {
    job.local_ranks.len() == job.size as usize
}

/// The fabric of a job: the same at all its processes, for what it goes by is.
pub(crate) fn choose(job: &Job, asked: Fabric) -> Result<Fabric> {
    match asked {
        Fabric::Auto if is_on_one_node(job) => Ok(Fabric::Shm),
        Fabric::Auto | Fabric::Softroce => Ok(Fabric::Softroce),
        Fabric::Shm if is_on_one_node(job) => Ok(Fabric::Shm),
        Fabric::Shm => Err(Error::new(
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

fn softroce(job: &Job, launcher: &SharedLauncher) -> Result<Transports> {
    let address = if is_on_one_node(job) { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { machine::host_address() };
    let directory = Box::new(Cards(launcher.clone()));
    let (transports, card) = Transports::softroce(PeerId(job.rank), address, directory)?;
    let mut launcher = launcher.clone();
    launcher.put(&key(job.rank), &card)?;
    launcher.fence()?;
    Ok(transports)
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
