//! What devices, control groups and the kernel's sockets allow, against the ranks of a node.

use super::facts::Machine;
use super::findings::{Finding, Grade, finding, has_device, mebibytes, well};
use weft_engine::DeviceLimits;
use weft_place::devices::MOST_RAILS;
use weft_place::transport::{self, Way};

const ABOUT: &str = "device limits";

/// Objects of a device that a rank makes for itself, and for each peer that it talks to, at least: a domain, queues, regions, a
/// channel; a queue pair.
const OBJECTS_OF_A_RANK: u64 = 16;

/// Regions that a rank registers for its own buffers, at least.
const REGIONS_OF_A_RANK: u64 = 8;

/// What devices allow.
pub(super) fn of_devices(machine: &Machine) -> Vec<Finding> {
    let ranks = machine.ranks;
    let mut found: Vec<Finding> = machine
        .contexts
        .iter()
        .map(|(device, contexts)| match *contexts < ranks {
            true => finding(
                Grade::Slow,
                ABOUT,
                format!("{device} has {contexts} contexts for {ranks} ranks, which share them"),
                "modprobe hfi1 num_user_contexts=RANKS, or fewer ranks per node",
            ),
            false => well(ABOUT, format!("{device} has {contexts} contexts for {ranks} ranks")),
        })
        .collect();
    let opened = machine.device_limits.iter().filter(|limits| limits.is_ok()).count() as u64;
    for limits in &machine.device_limits {
        match limits {
            // The ranks of a node are shared out among its devices.
            Ok(limits) => found.extend(of_device(limits, u64::from(ranks).div_ceil(opened), rails(machine))),
            Err(why) => found.push(finding(
                Grade::Fails,
                "RDMA device",
                format!("{why} (it could not be opened)"),
                "ibv_devinfo -v; for containers --device=/dev/infiniband --ulimit memlock=-1",
            )),
        }
    }
    found
}

/// Devices that each rank opens.
fn rails(machine: &Machine) -> u64 {
    machine.wish.as_ref().map_or(1, |wish| u64::from(wish.rails.clamp(1, MOST_RAILS as u32)))
}

/// `ranks`: those that the device is the first of.
fn of_device(limits: &DeviceLimits, ranks: u64, rails: u64) -> Vec<Finding> {
    let DeviceLimits { device, connections, .. } = limits;
    let [pairs, queues, regions] =
        [limits.queue_pairs, limits.completion_queues, limits.regions].map(u64::from);
    // A second rail is another one's first.
    let ends = ranks * rails;
    let fewer = "fewer ranks per node";
    let mut found = Vec::new();
    if pairs < ends * 2 {
        found.push(finding(
            Grade::Fails,
            ABOUT,
            format!(
                "{device} has {pairs} queue pairs (max_qp); each of {ranks} ranks wants one for first contact and one for each peer"
            ),
            fewer,
        ));
    } else if pairs < ends * (1 + u64::from(*connections)) {
        found.push(finding(
            Grade::Slow,
            ABOUT,
            format!(
                "{device} has {pairs} queue pairs (max_qp); {ranks} ranks that make {connections} connections each want more, and who \
                 comes too late goes by datagrams"
            ),
            &format!("WEFT_CONNECTIONS={}, or {fewer}", (pairs / ends - 1).min(u64::from(*connections))),
        ));
    }
    if queues < ends {
        found.push(finding(
            Grade::Fails,
            ABOUT,
            format!(
                "{device} has {queues} completion queues (max_cq) for {ranks} ranks, which want one each"
            ),
            fewer,
        ));
    }
    let kept = u64::from(limits.kept_regions);
    if regions < ends * REGIONS_OF_A_RANK {
        found.push(finding(
            Grade::Fails,
            ABOUT,
            format!(
                "{device} has {regions} regions of registered memory (max_mr); {ranks} ranks want {REGIONS_OF_A_RANK} each for their \
                 own buffers alone"
            ),
            fewer,
        ));
    } else if limits.keeps_registered() && regions < ends * (REGIONS_OF_A_RANK + kept) {
        found.push(finding(
            Grade::Slow,
            ABOUT,
            format!(
                "{device} has {regions} regions of registered memory (max_mr); {ranks} ranks that keep {kept} each want more, and \
                 register again what others had room for"
            ),
            &format!("{fewer}, if programs send from many buffers"),
        ));
    }
    if found.is_empty() {
        found.push(well(
            ABOUT,
            format!(
                "{device} has {pairs} queue pairs, {queues} completion queues and {regions} regions for {ranks} ranks"
            ),
        ));
    }
    let memory = format!("{device}: {}", limits.registered_memory());
    found.push(match limits.keeps_registered() {
        true => well("registered memory", memory),
        false => finding(
            Grade::Note,
            "registered memory",
            memory,
            "let containers call userfaultfd (their filter of system calls), or take a device or driver with on-demand paging \
             (ibv_devinfo -v shows odp_caps of those that have it)",
        ),
    });
    found
}

/// What the control groups around the ranks allow (`rdma.max`).
pub(super) fn of_groups(machine: &Machine) -> Vec<Finding> {
    if !has_device(machine) {
        return Vec::new();
    }
    let ranks = u64::from(machine.ranks);
    let bounds = [
        ("hca_object", "objects of RDMA devices", machine.rdma_objects, ranks * (OBJECTS_OF_A_RANK + ranks)),
        // Each rank opens its device, both where it has two.
        ("hca_handle", "openings of RDMA devices", machine.rdma_handles, ranks * rails(machine)),
    ];
    let judge = |(name, what, bound, wanted): (&str, &str, Option<u64>, u64)| {
        let bound = bound?;
        Some(match bound < wanted {
            true => finding(
                Grade::Fails,
                ABOUT,
                format!("the control group allows {bound} {what}, {ranks} ranks want {wanted} or more"),
                &format!("raise {name} in rdma.max of the container's or job's control group"),
            ),
            false => well(ABOUT, format!("the control group allows {bound} {what}")),
        })
    };
    bounds.into_iter().filter_map(judge).collect()
}

/// Bytes that an end of a fast connection has under way: 100 Gbit/s for 100 us.
const TCP_BUFFER: u64 = 1 << 20;

/// Room for packets in the kernel, where messages to other nodes go by its sockets.
pub(super) fn of_sockets(machine: &Machine) -> Option<Finding> {
    const ABOUT: &str = "socket buffers";
    let route = transport::far(&machine.transports, machine.wish.as_ref().ok()?).ok()?;
    match route.way {
        Way::Softroce => {
            let buffers = machine.socket_buffers?;
            let [wanted, receive, send] =
                [buffers.wanted, buffers.receive, buffers.send].map(|bytes| bytes as u64);
            let least = receive.min(send);
            // The kernel counts twice what it is told.
            let told = wanted / 2;
            Some(match least < wanted {
                true => finding(
                    Grade::Slow,
                    ABOUT,
                    format!(
                        "the kernel holds {} of arriving packets for a socket of the emulator, and {} of leaving ones, where {} are asked for: \
                         fewer packets are under way, and more are lost and sent again",
                        mebibytes(receive),
                        mebibytes(send),
                        mebibytes(wanted)
                    ),
                    &format!(
                        "sysctl -w net.core.rmem_max={told} net.core.wmem_max={told}, and a line for each in a file of /etc/sysctl.d (of \
                         the host, for containers); or CAP_NET_ADMIN for the ranks"
                    ),
                ),
                false => well(ABOUT, format!("{} for a socket of the emulator", mebibytes(least))),
            })
        }
        Way::Ofi if !route.rdma => {
            let (receive, send) = machine.tcp_buffers?;
            Some(match receive.min(send) < TCP_BUFFER {
                true => finding(
                    Grade::Slow,
                    ABOUT,
                    format!(
                        "a connection of TCP holds at most {} of what arrives and {} of what leaves: long messages wait for the other end",
                        mebibytes(receive),
                        mebibytes(send)
                    ),
                    "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' net.ipv4.tcp_wmem='4096 16384 4194304', and a line for each in a \
                     file of /etc/sysctl.d",
                ),
                false => {
                    well(ABOUT, format!("up to {} for a connection of TCP", mebibytes(receive.min(send))))
                }
            })
        }
        Way::Shm | Way::Verbs | Way::Ofi => None,
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
