//! What follows from what was found, and the remedy.

use weft_engine::MOST_ADDRESSES;
use weft_place::devices::Speech;
use weft_place::transport::{self, LEAST_MEMLOCK, Way};
use weft_types::params::Routes;

use super::facts::{Gid, LIBRARIES, Machine, Reading};
use super::limits;
use super::reach::{Reach, Try};

/// How bad a finding is. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// A job, or what it asks for, will fail.
    Fails,
    /// It will work, slower than it could.
    Slow,
    /// Worth knowing.
    Note,
    /// As it should be.
    Well,
}

impl Grade {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Grade::Fails => "FAILS",
            Grade::Slow => "slow",
            Grade::Note => "note",
            Grade::Well => "ok",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What was looked at.
    pub about: &'static str,
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: Option<String>,
}

pub(super) fn finding(grade: Grade, about: &'static str, found: impl Into<String>, remedy: &str) -> Finding {
    let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
    Finding { grade, about, found: found.into(), remedy }
}

pub(super) fn well(about: &'static str, found: impl Into<String>) -> Finding {
    finding(Grade::Well, about, found, "")
}

pub(super) fn mebibytes(bytes: u64) -> String {
    if bytes >> 20 == 0 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Examines a machine.
pub fn examine(machine: &Machine) -> Vec<Finding> {
    let mut found = vec![
        shared_memory(machine),
        reading(machine),
        memlock(machine),
        open_files(machine),
        cores(machine),
        fork(machine),
        huge_pages(machine),
        between_nodes(machine),
    ];
    found.extend(devices(machine));
    found.extend(routes(machine));
    found.extend(limits::of_devices(machine));
    found.extend(limits::of_groups(machine));
    found.extend(limits::of_sockets(machine));
    found.extend(addresses(machine));
    found.extend(tries(machine));
    found.extend(libraries(machine));
    found
}

/// Whether there is a device of hardware for which locked memory and forks matter.
pub(super) fn has_device(machine: &Machine) -> bool {
    !machine.transports.devices.is_empty()
}

/// Rings and payloads of a node: what is touched of the segment grows with the pairs that talk.
fn shared_memory(machine: &Machine) -> Finding {
    const ABOUT: &str = "shared memory";
    let ranks = u64::from(machine.ranks);
    // A ring's first pages for each pair of neighbours, and lanes: what programs touch at least.
    let wanted = (64 << 10) * ranks * ranks.min(16) + (4 << 20);
    match (machine.memory_files, machine.shared_memory) {
        (true, None) => well(ABOUT, "files in memory (memfd) work; /dev/shm is not there and not needed"),
        (true, Some(space)) if space.total < 64 << 20 => finding(
            Grade::Note,
            ABOUT,
            format!(
                "files in memory (memfd) work; /dev/shm has only {}, which other programs may want",
                mebibytes(space.total)
            ),
            "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm",
        ),
        (true, Some(space)) => {
            well(ABOUT, format!("files in memory (memfd) work; /dev/shm has {} free", mebibytes(space.free)))
        }
        (false, Some(space)) if space.free >= wanted => finding(
            Grade::Note,
            ABOUT,
            format!("memfd_create is refused; /dev/shm ({} free) is used instead", mebibytes(space.free)),
            "allow memfd_create in the container's seccomp profile",
        ),
        (false, Some(space)) => finding(
            Grade::Fails,
            ABOUT,
            format!(
                "memfd_create is refused, and /dev/shm has {} free where {} ranks want {}",
                mebibytes(space.free),
                machine.ranks,
                mebibytes(wanted)
            ),
            "docker run --shm-size=1g, or allow memfd_create in the container's seccomp profile",
        ),
        (false, None) => finding(
            Grade::Fails,
            ABOUT,
            "memfd_create is refused, and there is no /dev/shm",
            "mount a tmpfs at /dev/shm, or allow memfd_create in the container's seccomp profile",
        ),
    }
}

fn reading(machine: &Machine) -> Finding {
    const ABOUT: &str = "single copy";
    match (&machine.reading, machine.ptrace_scope) {
        (Reading::Works, Some(scope @ 1)) => well(
            ABOUT,
            format!(
                "one process can read another's memory; ptrace_scope is {scope}, so ranks agree to it at start"
            ),
        ),
        (Reading::Works, _) => well(ABOUT, "one process can read another's memory (process_vm_readv)"),
        (Reading::Refused(why), Some(scope)) if scope >= 2 => finding(
            Grade::Slow,
            ABOUT,
            format!(
                "kernel.yama.ptrace_scope is {scope}: no process may read another's memory ({why}), so large messages are copied twice"
            ),
            "sysctl kernel.yama.ptrace_scope=1",
        ),
        (Reading::Refused(why), _) => finding(
            Grade::Slow,
            ABOUT,
            format!("process_vm_readv is refused ({why}), so large messages are copied twice"),
            "for containers --cap-add=SYS_PTRACE, or a seccomp profile that allows process_vm_readv",
        ),
    }
}

fn memlock(machine: &Machine) -> Finding {
    const ABOUT: &str = "locked memory";
    let Some(bytes) = machine.transports.memlock else { return well(ABOUT, "not limited") };
    let remedy = "ulimit -l unlimited; for all logins 'memlock unlimited' in /etc/security/limits.conf, for services \
                  LimitMEMLOCK=infinity, for containers --ulimit memlock=-1, for Slurm PropagateResourceLimitsExcept=MEMLOCK";
    let found = format!("{} may be locked by a process", mebibytes(bytes));
    match (has_device(machine), bytes < LEAST_MEMLOCK) {
        (true, true) => finding(
            Grade::Fails,
            ABOUT,
            format!("{found}; RDMA devices need {} and the size of large messages", mebibytes(LEAST_MEMLOCK)),
            remedy,
        ),
        (true, false) => finding(
            Grade::Slow,
            ABOUT,
            format!("{found}; buffers beyond it are registered again and again"),
            remedy,
        ),
        (false, _) => well(ABOUT, format!("{found}, which matters to RDMA devices only")),
    }
}

fn open_files(machine: &Machine) -> Finding {
    const ABOUT: &str = "open files";
    // What mpiexec holds for each rank, and a little.
    let wanted = 5 * u64::from(machine.ranks) + 32;
    match machine.open_files {
        Some(allowed) if allowed < wanted => finding(
            Grade::Fails,
            ABOUT,
            format!("{allowed} are allowed, mpiexec needs {wanted} for {} ranks", machine.ranks),
            "ulimit -n 65536",
        ),
        Some(allowed) => well(ABOUT, format!("{allowed} are allowed")),
        None => well(ABOUT, "not limited"),
    }
}

fn cores(machine: &Machine) -> Finding {
    const ABOUT: &str = "cores";
    match machine.ranks > machine.cores {
        true => finding(
            Grade::Slow,
            ABOUT,
            format!("{} ranks share {} cores: waiting ranks sleep at once", machine.ranks, machine.cores),
            "as many ranks as cores, where the program allows",
        ),
        false => well(ABOUT, format!("{} for {} ranks", machine.cores, machine.ranks)),
    }
}

fn fork(machine: &Machine) -> Finding {
    const ABOUT: &str = "fork";
    match (has_device(machine), machine.kernel >= (5, 12)) {
        (false, _) => well(ABOUT, "no device has memory registered"),
        (true, true) => well(ABOUT, "the kernel copies registered pages for a child (Linux 5.12 and later)"),
        (true, false) => finding(
            Grade::Note,
            ABOUT,
            format!(
                "Linux {}.{} gives registered pages to the child: programs that fork (system, popen) rely on libibverbs keeping them",
                machine.kernel.0, machine.kernel.1
            ),
            "RDMAV_FORK_SAFE=1, or Linux 5.12",
        ),
    }
}

fn huge_pages(machine: &Machine) -> Finding {
    const ABOUT: &str = "huge pages";
    let (total, free, bytes) = machine.huge_pages;
    let reserved = match total {
        0 => "none reserved".to_owned(),
        _ => format!("{free} of {total} reserved pages of {} free", mebibytes(bytes)),
    };
    match machine.transparent.as_str() {
        "never" => finding(
            Grade::Note,
            ABOUT,
            format!("transparent ones are off; {reserved}"),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        "" => well(ABOUT, format!("this kernel has no transparent ones; {reserved}")),
        policy => well(ABOUT, format!("transparent ones: {policy}; {reserved}")),
    }
}

fn between_nodes(machine: &Machine) -> Finding {
    const ABOUT: &str = "between nodes";
    let wish = match &machine.wish {
        Ok(wish) => wish,
        Err(why) => return finding(Grade::Fails, ABOUT, why.clone(), "set it to one of these, or unset it"),
    };
    match transport::far(&machine.transports, wish) {
        Err(_) if wish.forced == Some(Way::Shm) => finding(
            Grade::Note,
            ABOUT,
            "WEFT_TRANSPORT=shm allows jobs on one node only",
            "unset WEFT_TRANSPORT for jobs on several nodes",
        ),
        Err(why) => finding(Grade::Fails, ABOUT, why, "see the other findings"),
        Ok(route) if route.downgrade.is_some() => finding(
            Grade::Slow,
            ABOUT,
            format!("messages go by {}: {}", route.way, route.downgrade.unwrap_or_default()),
            "WEFT_RDMA=require makes this an error; weft-info --explain transports has all reasons",
        ),
        Ok(route) if machine.addresses.is_empty() && route.way == Way::Softroce => finding(
            Grade::Fails,
            ABOUT,
            "no network interface but the loopback is up",
            "ip link set DEVICE up, and an address: ip address add ADDRESS dev DEVICE",
        ),
        Ok(route) => well(ABOUT, format!("messages go by {}: {}", route.way, route.why)),
    }
}

fn devices(machine: &Machine) -> Vec<Finding> {
    const ABOUT: &str = "RDMA device";
    let mut found: Vec<Finding> = machine
        .transports
        .devices
        .iter()
        .map(|device| {
            let words = format!("{} ({}): {}", device.name, device.speech.name(), device.ports);
            match (device.is_active(), device.speech) {
                (true, Speech::Iwarp) => finding(
                    Grade::Slow,
                    ABOUT,
                    format!("{words}; iWARP devices are not used by Weft"),
                    "none today",
                ),
                (true, _) => well(ABOUT, words),
                (false, Speech::InfiniBand) => finding(
                    Grade::Slow,
                    ABOUT,
                    words,
                    "is the cable in? INIT: start a subnet manager (opensm); DOWN: ip link set DEVICE up",
                ),
                (false, Speech::OmniPath | Speech::Slingshot) => finding(
                    Grade::Slow,
                    ABOUT,
                    words,
                    "is the cable in, and does the fabric manager run? (opainfo; cxi_stat)",
                ),
                (false, _) => finding(Grade::Slow, ABOUT, words, "ip link set DEVICE up; is the cable in?"),
            }
        })
        .collect();
    if found.is_empty() {
        found.push(well(ABOUT, "none"));
    }
    found
}

/// Whether the connection manager can be asked for routes, where there is a device that they are for.
fn routes(machine: &Machine) -> Option<Finding> {
    const ABOUT: &str = "routes";
    const WITHOUT: &str =
        "RDMA goes by service level and traffic class 0, or WEFT_SERVICE_LEVEL and WEFT_TRAFFIC_CLASS";
    let speaks = |speech| machine.transports.devices.iter().any(|device| device.speech == speech);
    if !speaks(Speech::InfiniBand) && !speaks(Speech::Roce) {
        return None;
    }
    if machine.routes == Routes::Off {
        return Some(well(ABOUT, format!("WEFT_ROUTES=no: {WITHOUT}")));
    }
    let library = machine.libraries.iter().any(|(name, path)| *name == "librdmacm.so.1" && path.is_some());
    let (found, remedy) = match (machine.connection_manager, library) {
        (true, true) => {
            return Some(well(ABOUT, "the connection manager is asked (librdmacm, /dev/infiniband/rdma_cm)"));
        }
        (false, _) => (
            "/dev/infiniband/rdma_cm is not there",
            "modprobe rdma_ucm, at every start by a line in /etc/modules-load.d; for containers --device=/dev/infiniband/rdma_cm",
        ),
        (true, false) => ("librdmacm.so.1 is not installed", "install it (Debian: librdmacm1)"),
    };
    Some(match machine.routes {
        Routes::Require => finding(
            Grade::Fails,
            ABOUT,
            format!("{found}, and WEFT_ROUTES=require wants the connection manager to be asked"),
            remedy,
        ),
        // Where levels keep a subnet free of deadlock, it is not one without them.
        Routes::Auto | Routes::Off if speaks(Speech::InfiniBand) => finding(
            Grade::Note,
            ABOUT,
            format!(
                "{found}: {WITHOUT}, which is wrong in subnets that are routed by service levels (torus-2QoS, LASH, DFSSSP)"
            ),
            remedy,
        ),
        Routes::Auto | Routes::Off => {
            finding(Grade::Note, ABOUT, format!("{found}: {WITHOUT}, whatever default_roce_tos says"), remedy)
        }
    })
}

/// A RoCE port is reached by an address in its table that others can reach: of an interface that is up, and no address that is
/// valid on one cable only.
fn addresses(machine: &Machine) -> Vec<Finding> {
    const ABOUT: &str = "RoCE addresses";
    let roce = machine.transports.devices.iter().filter(|device| device.speech == Speech::Roce);
    roce.filter(|device| device.is_active())
        .map(|device| {
            let prefix = format!("{} port", device.name);
            let mut own: Vec<_> = machine.gids.iter().filter(|gid| gid.place.starts_with(&prefix)).collect();
            own.sort_by_key(|gid| gid.preference());
            let is_here = |gid: &&&Gid| machine.addresses.contains(&gid.address);
            let usable = || own.iter().filter(|gid| gid.is_usable());
            match usable().find(is_here).or_else(|| usable().next()) {
                Some(gid) if is_here(&gid) => {
                    let others: Vec<String> = own
                        .iter()
                        .filter(|other| other.is_up && other.address != gid.address)
                        .take(MOST_ADDRESSES - 1)
                        .map(|other| other.address.to_string())
                        .collect();
                    let more = match others.is_empty() {
                        true => String::new(),
                        false => format!("; where that is not answered, {} in turn", others.join(", ")),
                    };
                    well(ABOUT, format!("{}: {} ({}){more}", gid.place, gid.address, gid.interface))
                }
                Some(gid) => finding(
                    Grade::Slow,
                    ABOUT,
                    format!("{}: {} is no address of an interface that is up", gid.place, gid.address),
                    "ip address show; the address must belong to the device's interface",
                ),
                None if own.iter().any(|gid| !gid.routable && !gid.is_of_one_link()) => finding(
                    Grade::Slow,
                    ABOUT,
                    format!("{} has addresses of RoCE version 1 only, which no router forwards", device.name),
                    "cma_roce_mode -d DEVICE -m 2, or a newer driver",
                ),
                None => finding(
                    Grade::Fails,
                    ABOUT,
                    format!("{} has no address that other hosts can reach", device.name),
                    "give its network interface an IP address: ip address add ADDRESS dev INTERFACE",
                ),
            }
        })
        .collect()
}

/// Hosts that were named, from each address that messages would come from.
fn tries(machine: &Machine) -> Vec<Finding> {
    const ABOUT: &str = "reachability";
    let of_device = |try_: &Try| {
        let gid = machine.gids.iter().find(|gid| gid.is_usable() && gid.address == try_.from);
        gid.map_or_else(String::new, |gid| format!(" ({})", gid.place))
    };
    machine
        .tries
        .iter()
        .map(|tried| {
            let Try { from, peer, reach } = tried;
            let place = of_device(tried);
            match reach {
                Reach::Answered => well(ABOUT, format!("{peer} answers {from}{place}")),
                Reach::Silent => finding(
                    Grade::Slow,
                    ABOUT,
                    format!("{peer} does not answer {from}{place}: it is down, or a firewall is between"),
                    "ping it; open UDP port 4791 (RoCE) and the answers of ICMP between the hosts",
                ),
                Reach::NoRoute(why) => finding(
                    Grade::Fails,
                    ABOUT,
                    format!("no way leads from {from}{place} to {peer}: {why}"),
                    "ip route get PEER from ADDRESS; the device's interface must be in a network of the peer, or have a route to it",
                ),
                Reach::NotOurs => finding(
                    Grade::Fails,
                    ABOUT,
                    format!("{from}{place} is no address of this host or container"),
                    "give the container the network of the device (--network=host), or ip address add ADDRESS dev INTERFACE",
                ),
            }
        })
        .collect()
}

fn libraries(machine: &Machine) -> Vec<Finding> {
    let speaks = |speeches: &[Speech]| {
        machine.transports.devices.iter().any(|device| speeches.contains(&device.speech))
    };
    machine
        .libraries
        .iter()
        .map(|(name, path)| {
            let needed = match *name {
                "libibverbs.so.1" => speaks(&[Speech::InfiniBand, Speech::Roce]),
                "libfabric.so.1" => speaks(&[Speech::OmniPath, Speech::Slingshot, Speech::Efa]),
                _ => false,
            };
            let purpose =
                LIBRARIES.iter().find(|(other, _)| other == name).map_or("", |(_, purpose)| purpose);
            let words = format!("{name} is not installed; it is for {purpose}");
            match path {
                Some(path) => well("library", path.clone()),
                None if needed => {
                    finding(Grade::Slow, "library", words, "install it: a device here needs it")
                }
                None => well("library", words),
            }
        })
        .collect()
}
