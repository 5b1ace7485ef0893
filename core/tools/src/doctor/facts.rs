//! What the doctor looks at, as plain data: gathered here from the live machine, written by hand in tests.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use nix::sys::statvfs::statvfs;
use weft_engine::{DeviceLimits, Packets, PortAddress, Scope, SocketBuffers};
use weft_place::System;
use weft_place::devices::Device;
use weft_place::libraries::library;
use weft_place::transport::{Facts, Wish};
use weft_types::params::Routes;

use super::reach::{self, Reach, Try, same_family};
use crate::single_copy;

/// A folder in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
}

/// An address that a RoCE port offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    /// `mlx5_0 port 1 index 3`.
    pub place: String,
    /// The address.
    pub address: IpAddr,
    /// Whether routers forward its packets (RoCE version 2).
    pub routable: bool,
    /// The network interface it belongs to; empty when the kernel does not tell.
    pub interface: String,
    /// Whether that interface is up.
    pub is_up: bool,
}

impl Gid {
    /// What it is worth, as transports judge it: the smaller goes first.
    pub(crate) fn preference(&self) -> (Packets, Scope) {
        let packets = if self.routable { Packets::Routable } else { Packets::OfOneLink };
        let address = PortAddress::routable(SocketAddr::new(self.address, 0));
        PortAddress { packets, ..address }.preference()
    }

    /// Whether other hosts can know it: of an interface that is up, with packets that routers forward, and not of one link alone.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_up && matches!(self.preference(), (Packets::Routable, Scope::Wide4 | Scope::Wide6))
    }

    /// Whether it belongs to one link alone.
    pub(crate) fn is_of_one_link(&self) -> bool {
        matches!(self.preference().1, Scope::Link4 | Scope::Link6)
    }
}

/// What the kernel says of one process reading another's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// It works.
    #[default]
    Works,
    /// It was refused.
    Refused(String),
}

/// A machine, as far as the doctor cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What transports look at.
    pub transports: Facts,
    /// What was asked for (`WEFT_TRANSPORT`, `WEFT_RDMA`); or a value that means nothing, in words.
    pub wish: Result<Wish, String>,
    /// Ranks that shall run on this node.
    pub ranks: u32,
    /// Cores.
    pub cores: u32,
    /// `/dev/shm`; `None` when it is not there.
    pub shared_memory: Option<Space>,
    /// Whether unnamed files in memory can be made (memfd).
    pub memory_files: bool,
    /// One process reading another's memory.
    pub reading: Reading,
    /// Yama's `ptrace_scope`; `None` without Yama.
    pub ptrace_scope: Option<u32>,
    /// Addresses of RoCE ports.
    pub gids: Vec<Gid>,
    /// Addresses of this host's interfaces that are up, but for the loopback's.
    pub addresses: Vec<IpAddr>,
    /// Other hosts that were to be reached, and what came of it.
    pub tries: Vec<Try>,
    /// Open files that a process may have.
    pub open_files: Option<u64>,
    /// The kernel's version, major and minor.
    pub kernel: (u32, u32),
    /// Huge pages: pages reserved and free, bytes of one; the policy of transparent ones.
    pub huge_pages: (u64, u64, u64),
    /// `always`, `madvise` or `never`; empty when the kernel has none.
    pub transparent: String,
    /// Processes that an Omni-Path device serves at a time, by device.
    pub contexts: Vec<(String, u32)>,
    /// Objects of RDMA devices that this control group may have (the least of them); `None`: not limited.
    pub rdma_objects: Option<u64>,
    /// How often processes of this control group may have RDMA devices open (the least of them); `None`: not limited.
    pub rdma_handles: Option<u64>,
    /// What RDMA devices allow, or why one cannot be opened.
    pub device_limits: Vec<Result<DeviceLimits, String>>,
    /// What the kernel gives the emulator's sockets; `None`: not known.
    pub socket_buffers: Option<SocketBuffers>,
    /// Most bytes that a connection of TCP may hold at its ends, receiving and sending; `None`: the kernel does not tell.
    pub tcp_buffers: Option<(u64, u64)>,
    /// Whether programs can talk to the kernel's connection manager (`/dev/infiniband/rdma_cm`).
    pub connection_manager: bool,
    /// Whether it is asked for routes (`WEFT_ROUTES`).
    pub routes: Routes,
    /// Optional libraries and where they are.
    pub libraries: Vec<(&'static str, Option<String>)>,
}

/// Libraries that are opened at run time, and what each is for.
pub const LIBRARIES: [(&str, &str); 4] = [
    ("libibverbs.so.1", "InfiniBand and RoCE devices (Debian: libibverbs1 ibverbs-providers)"),
    (
        "librdmacm.so.1",
        "routes to peers over RDMA devices: service levels and traffic classes (Debian: librdmacm1)",
    ),
    ("libfabric.so.1", "Omni-Path, Slingshot, EFA (Debian: libfabric1)"),
    (
        "libpmix.so.2",
        "starting by PMIx launchers: srun --mpi=pmix, Open MPI's mpirun, prterun (Debian: libpmix2)",
    ),
];

impl Default for Machine {
    /// One of which nothing is known.
    fn default() -> Machine {
        Machine {
            transports: Facts::default(),
            wish: Ok(Wish::default()),
            ranks: 1,
            cores: 0,
            shared_memory: None,
            memory_files: false,
            reading: Reading::default(),
            ptrace_scope: None,
            gids: Vec::new(),
            addresses: Vec::new(),
            tries: Vec::new(),
            open_files: None,
            kernel: (0, 0),
            huge_pages: (0, 0, 0),
            transparent: String::new(),
            contexts: Vec::new(),
            rdma_objects: None,
            rdma_handles: None,
            device_limits: Vec::new(),
            socket_buffers: None,
            tcp_buffers: None,
            connection_manager: false,
            routes: Routes::Auto,
            libraries: Vec::new(),
        }
    }
}

impl Machine {
    /// Looks at this machine, for `ranks` ranks on it; `peers`: names or addresses of hosts that it shall reach.
    pub fn gather(system: &dyn System, ranks: u32, peers: &[String]) -> Machine {
        let variable = |name: &str| std::env::var(name).ok();
        let library_path = variable("LD_LIBRARY_PATH");
        let path = library_path.as_deref();
        let parameters = crate::transports::parameters(&variable);
        let mut machine = Machine {
            transports: Facts::gather(system, path),
            routes: parameters.as_ref().map_or(Routes::Auto, |parameters| parameters.routes),
            wish: parameters
                .map(|parameters| Wish::from(&parameters))
                .map_err(|error| error.text().to_owned()),
            ranks,
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            shared_memory: space("/dev/shm"),
            memory_files: nix::sys::memfd::memfd_create(
                "weft-doctor",
                nix::sys::memfd::MFdFlags::MFD_CLOEXEC,
            )
            .is_ok(),
            reading: single_copy::probe().map_or_else(Reading::Refused, |()| Reading::Works),
            addresses: addresses(),
            device_limits: weft_engine::rdma_limits(weft_boot::machine::host_address()),
            socket_buffers: SocketBuffers::granted(weft_boot::machine::host_address()).ok(),
            libraries: LIBRARIES.map(|(name, _)| (name, library(system, name, path))).into(),
            ..Machine::default()
        };
        machine.read_files(system);
        machine.tries = machine.reach_all(peers);
        machine
    }

    /// Tries every peer from every address that a RoCE device would use, or without such a device from the one by which this
    /// host is known to others. The peers are tried at the same time: a silent one takes seconds.
    fn reach_all(&self, peers: &[String]) -> Vec<Try> {
        let mut own: Vec<IpAddr> =
            self.gids.iter().filter(|gid| gid.is_usable()).map(|gid| gid.address).collect();
        if own.is_empty() {
            own.push(weft_boot::machine::host_address());
        }
        own.sort_unstable();
        own.dedup();
        let one = |from: IpAddr, peer: &String| {
            let found = (peer.as_str(), 0)
                .to_socket_addrs()
                .map(|all| same_family(all.map(|found| found.ip()), &from));
            let reach = match found {
                Ok(Some(to)) => reach::reach(from, to, reach::LIMIT),
                Ok(None) => Reach::NoRoute(format!("it has no address of the family of {from}")),
                Err(error) => Reach::NoRoute(format!("its address is not found: {error}")),
            };
            Try { from, peer: peer.clone(), reach }
        };
        std::thread::scope(|scope| {
            let pairs = own.iter().flat_map(|&from| peers.iter().map(move |peer| (from, peer)));
            let running: Vec<_> = pairs.map(|(from, peer)| scope.spawn(move || one(from, peer))).collect();
            running.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }

    /// What stands in the kernel's files.
    pub fn read_files(&mut self, system: &dyn System) {
        let word = |path: &str| system.read(path).map(|text| text.trim().to_owned());
        let number = |path: &str| word(path).and_then(|text| text.parse::<u64>().ok());
        self.ptrace_scope = number("/proc/sys/kernel/yama/ptrace_scope").map(|scope| scope as u32);
        self.gids = self.transports.devices.iter().flat_map(|device| gids(system, device)).collect();
        self.contexts = self
            .transports
            .devices
            .iter()
            .filter_map(|device| {
                let count = number(&format!("/sys/class/infiniband/{}/nctxts", device.name))?;
                Some((device.name.clone(), u32::try_from(count).unwrap_or(u32::MAX)))
            })
            .collect();
        self.rdma_objects = rdma_bound(system, "hca_object");
        self.rdma_handles = rdma_bound(system, "hca_handle");
        // Least, usual and greatest.
        let most = |path: &str| word(path)?.split_whitespace().nth(2)?.parse().ok();
        self.tcp_buffers = most("/proc/sys/net/ipv4/tcp_rmem").zip(most("/proc/sys/net/ipv4/tcp_wmem"));
        self.connection_manager = system.list("/dev/infiniband").iter().any(|name| name == "rdma_cm");
        let limits = system.read("/proc/self/limits").unwrap_or_default();
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        self.open_files = files.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let release = word("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut parts = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        self.kernel = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let memory = system.read("/proc/meminfo").unwrap_or_default();
        let line = |name: &str| {
            let rest = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        self.huge_pages = (line("HugePages_Total"), line("HugePages_Free"), line("Hugepagesize") << 10);
        let policy = word("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let chosen = policy.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        self.transparent = chosen.unwrap_or_default().to_owned();
    }
}

/// The least number of a kind, `hca_object` or `hca_handle`, that the control groups around this process allow it (`rdma.max`).
fn rdma_bound(system: &dyn System, kind: &str) -> Option<u64> {
    let groups = system.read("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/');
    let around = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
    around
        .filter_map(|group| system.read(&format!("/sys/fs/cgroup{group}/rdma.max")))
        .flat_map(|text| {
            let words = text.split_whitespace().filter_map(|word| word.strip_prefix(kind)?.strip_prefix('='));
            words.filter_map(|number| number.parse().ok()).collect::<Vec<u64>>()
        })
        .min()
}

fn space(path: &str) -> Option<Space> {
    let facts = statvfs(path).ok()?;
    let unit = facts.fragment_size();
    Some(Space { total: facts.blocks() * unit, free: facts.blocks_available() * unit })
}

fn addresses() -> Vec<IpAddr> {
    use nix::net::if_::InterfaceFlags as Flags;
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten().filter(|interface| {
        interface.flags.contains(Flags::IFF_UP) && !interface.flags.contains(Flags::IFF_LOOPBACK)
    });
    interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        .collect()
}

/// The addresses of a device on Ethernet, without empty entries.
fn gids(system: &dyn System, device: &Device) -> Vec<Gid> {
    let root = format!("/sys/class/infiniband/{}/ports", device.name);
    let word = |path: &str| system.read(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let mut found = Vec::new();
    for port in system.list(&root) {
        let folder = format!("{root}/{port}");
        if word(&format!("{folder}/link_layer")) != "Ethernet" {
            continue;
        }
        let mut indices: Vec<u32> =
            system.list(&format!("{folder}/gids")).iter().filter_map(|index| index.parse().ok()).collect();
        indices.sort_unstable();
        for index in indices {
            let Ok(gid) = word(&format!("{folder}/gids/{index}")).parse::<Ipv6Addr>() else { continue };
            if gid.is_unspecified() || word(&format!("{folder}/gid_attrs/types/{index}")).is_empty() {
                continue;
            }
            let interface = word(&format!("{folder}/gid_attrs/ndevs/{index}"));
            let state = word(&format!("/sys/class/net/{interface}/operstate"));
            found.push(Gid {
                place: format!("{} port {port} index {index}", device.name),
                address: reach::of_gid(gid),
                routable: word(&format!("{folder}/gid_attrs/types/{index}")).contains("v2"),
                is_up: state.is_empty() || state == "up" || state == "unknown",
                interface,
            });
        }
    }
    found
}
