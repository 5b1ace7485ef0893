//! What the RDMA devices of a host allow, for whoever looks before a job does.

use super::told::{Kept, kept_by_devices};
use crate::zero_copy::{MOST_REGIONS, can_be_kept};
use std::net::IpAddr;
use weft_api::verbs::Hca;
use weft_verbs::{Verbs, Wish, choose, own_numa_node, survey};

pub use weft_softroce::SocketBuffers;

/// A device, and what all its users may have of it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Its name.
    pub device: String,
    /// Queue pairs: of each rank one for first contact, and one for each connection.
    pub queue_pairs: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Registered regions.
    pub regions: u32,
    /// Connections that one rank makes at most, unless `WEFT_CONNECTIONS` says otherwise.
    pub connections: u32,
    /// Regions that one rank keeps at most.
    pub kept_regions: u32,
    /// Whether it follows what a program maps and unmaps (on-demand paging).
    pub follows_mappings: bool,
    /// Why nobody tells of that in its place; `None` where the kernel does.
    pub untold: Option<String>,
}

impl DeviceLimits {
    /// What becomes of memory that was registered for a message, and why.
    pub fn registered_memory(&self) -> String {
        kept_by_devices(&self.kept())
    }

    /// Whether it is kept for the next message.
    pub fn keeps_registered(&self) -> bool {
        !matches!(self.kept(), Kept::Never(_))
    }

    fn kept(&self) -> Kept {
        match (self.follows_mappings, &self.untold) {
            (true, _) => Kept::Always,
            (false, None) => Kept::Watched,
            (false, Some(why)) => Kept::Never(why.clone()),
        }
    }
}

/// The limits of every RDMA device of this host that libibverbs has a usable port of, opened for that and closed again; or why one
/// cannot be opened. `address`: that by which others know this host.
pub fn rdma_limits(address: IpAddr) -> Vec<Result<DeviceLimits, String>> {
    let wish = Wish { address: Some(address), numa_node: own_numa_node(), partition: None };
    let choices = survey().ok().and_then(|ports| choose(&ports, wish).ok()).unwrap_or_default();
    let mut seen: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for choice in choices {
        if seen.contains(&choice.device) {
            continue;
        }
        seen.push(choice.device.clone());
        let device = choice.device.clone();
        found.push(Verbs::open(choice).map_err(|error| format!("{device}: {}", error.text())).map(|verbs| {
            let limits = verbs.limits();
            DeviceLimits {
                device,
                queue_pairs: limits.max_queue_pairs,
                completion_queues: verbs.facts().completion_queues,
                regions: limits.max_regions,
                connections: weft_rdma::most_connections(&limits),
                kept_regions: limits.max_regions.min(MOST_REGIONS as u32),
                follows_mappings: limits.follows_mappings,
                untold: can_be_kept(true).err(),
            }
        }));
    }
    found
}
