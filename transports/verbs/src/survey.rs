//! Devices, ports, addresses and locality, as `/sys/class/infiniband` says.

use crate::library::library;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use weft_types::{Error, ErrorClass, Result};

/// What a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An InfiniBand subnet (or Omni-Path, which looks like one).
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

/// How packets to a global identifier look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand, or RoCE version 1, which no router forwards.
    InfiniBandOrRoce1,
    /// RoCE version 2: UDP over IP.
    Roce2,
}

/// An entry of a port's table of global identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the table.
    pub index: u8,
    /// The identifier: an IPv4 address is there in its IPv6 form.
    pub gid: Ipv6Addr,
    /// Its kind.
    pub kind: GidKind,
}

impl Gid {
    /// As the IP address that it is on Ethernet.
    pub fn address(self) -> IpAddr {
        self.gid.to_ipv4_mapped().map_or(IpAddr::V6(self.gid), IpAddr::V4)
    }
}

/// An entry of a port's table of partitions (InfiniBand, volume 1, section 10.9): packets pass between ends of one partition of which
/// one is a full member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its place in the table.
    pub index: u16,
    /// The key: 15 bits of number, and whether the port is a full member.
    pub key: u16,
}

impl Partition {
    /// What every port has that was told of nothing else: the default one, in the first place.
    pub const DEFAULT: Partition = Partition { index: 0, key: 0xffff };

    /// The number of the partition, without the kind of membership.
    pub fn number(self) -> u16 {
        self.key & 0x7fff
    }

    /// Whether its other limited members can be talked to, too.
    pub fn is_full(self) -> bool {
        self.key & 0x8000 != 0
    }
}

/// Where a device is in the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// Its address on the PCI bus, such as `0000:3b:00.0`; `None` for a device of software.
    pub pci: Option<String>,
    /// The memory nearest to it.
    pub numa_node: Option<u32>,
    /// The processors nearest to it, as a list such as `0-15,64-79`.
    pub cpus: Option<String>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The device's name.
    pub device: String,
    /// The port's number, from 1.
    pub number: u8,
    /// Whether the device is a channel adapter: it takes connections without the help of a manager, which iWARP devices do not.
    pub adapter: bool,
    /// What it is connected to.
    pub link: Link,
    /// Its state in the kernel's words; `ACTIVE` when it can be used.
    pub state: String,
    /// Its speed in the kernel's words.
    pub rate: String,
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Its global identifiers, without empty entries.
    pub gids: Vec<Gid>,
    /// The partitions that it belongs to, without empty entries.
    pub partitions: Vec<Partition>,
    /// Where the device is.
    pub locality: Locality,
}

/// The ports of all devices that libibverbs has a driver for.
///
/// # Errors
/// There is no libibverbs, or it does not get at the system's devices.
pub fn survey() -> Result<Vec<Port>> {
    let names = device_names()?;
    Ok(survey_at(Path::new("/sys/class/infiniband"), &names))
}

/// As [`survey`], of these devices below a folder.
pub fn survey_at(root: &Path, names: &[String]) -> Vec<Port> {
    names.iter().flat_map(|name| ports_of(&root.join(name), name)).collect()
}

/// The devices by the library's names.
fn device_names() -> Result<Vec<String>> {
    let library = library().map_err(|why| Error::new(ErrorClass::OTHER, why))?;
    let mut count = 0;
    // SAFETY: the count is written to; the list is checked and given back below.
    let list = unsafe { (library.ibv_get_device_list)(&mut count) };
    if list.is_null() {
        let error = std::io::Error::last_os_error();
        return Err(Error::new(
            ErrorClass::OTHER,
            format!(
                "libibverbs finds no RDMA devices: {error} (is the module ib_uverbs loaded, and are /sys/class/infiniband_verbs and /dev/infiniband there?)"
            ),
        ));
    }
    let names = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: the list has that many devices; each has a name that ends with 0 and lasts as long as the list.
        .map(|at| unsafe { CStr::from_ptr((library.ibv_get_device_name)(*list.add(at))) })
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    // SAFETY: it came from the library, and nothing of it is used any more.
    unsafe { (library.ibv_free_device_list)(list) };
    Ok(names)
}

fn ports_of(device: &Path, name: &str) -> Vec<Port> {
    // "1: CA", "4: RNIC".
    let adapter = text(&device.join("node_type")).is_some_and(|kind| kind.starts_with("1:"));
    let locality = locality(device);
    let mut numbers: Vec<u8> = entries(&device.join("ports")).filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|number| {
            let port = device.join("ports").join(number.to_string());
            let word = |file: &str| text(&port.join(file)).unwrap_or_default();
            let state = word("state");
            Port {
                device: name.to_owned(),
                number,
                adapter,
                link: if word("link_layer") == "Ethernet" { Link::Ethernet } else { Link::InfiniBand },
                // "4: ACTIVE"
                state: state.rsplit(": ").next().unwrap_or_default().to_owned(),
                rate: word("rate"),
                lid: parse_lid(&word("lid")),
                gids: gids(&port),
                partitions: partitions(&port),
                locality: locality.clone(),
            }
        })
        .collect()
}

/// "0x1f"
fn parse_lid(text: &str) -> u16 {
    text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

fn gids(port: &Path) -> Vec<Gid> {
    let mut indices: Vec<u8> = entries(&port.join("gids")).filter_map(|name| name.parse().ok()).collect();
    indices.sort_unstable();
    indices
        .into_iter()
        .filter_map(|index| {
            let gid: Ipv6Addr = text(&port.join("gids").join(index.to_string()))?.parse().ok()?;
            // An entry of a prefix and nothing behind it is an empty one too.
            if gid.octets()[8..] == [0; 8] {
                return None;
            }
            // Devices without RoCE have no such file.
            let kind = text(&port.join("gid_attrs/types").join(index.to_string()));
            let kind = match kind.as_deref() {
                Some("RoCE v2") => GidKind::Roce2,
                _ => GidKind::InfiniBandOrRoce1,
            };
            Some(Gid { index, gid, kind })
        })
        .collect()
}

/// Those a port belongs to: an entry without a number is an empty one.
fn partitions(port: &Path) -> Vec<Partition> {
    let mut indices: Vec<u16> = entries(&port.join("pkeys")).filter_map(|name| name.parse().ok()).collect();
    indices.sort_unstable();
    let entry = |index: u16| {
        let text = text(&port.join("pkeys").join(index.to_string()))?;
        let key = u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        Some(Partition { index, key })
    };
    indices.into_iter().filter_map(entry).filter(|partition| partition.number() != 0).collect()
}

fn locality(device: &Path) -> Locality {
    let bus = device.join("device");
    let is_pci = fs::read_link(bus.join("subsystem")).is_ok_and(|link| link.ends_with("pci"));
    let pci = is_pci
        .then(|| fs::canonicalize(&bus).ok())
        .flatten()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Locality {
        pci,
        // -1 where the machine has one or does not say.
        numa_node: text(&bus.join("numa_node")).and_then(|node| node.parse().ok()),
        cpus: text(&bus.join("local_cpulist")).filter(|list| !list.is_empty()),
    }
}

/// The memory node of this process: that of all processors it may run on, `None` when they belong to several or the system does
/// not say.
pub fn own_numa_node() -> Option<u32> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let processors = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true));
    numa_node_at(Path::new("/sys/devices/system/cpu"), processors)
}

/// As [`own_numa_node`], of these processors below a folder.
fn numa_node_at(root: &Path, processors: impl Iterator<Item = usize>) -> Option<u32> {
    let mut nodes = processors.map(|cpu| {
        entries(&root.join(format!("cpu{cpu}"))).find_map(|name| name.strip_prefix("node")?.parse().ok())
    });
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

/// What a small file says, without the end of the line.
fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn entries(folder: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A tree of files that goes with the test.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let root = std::env::temp_dir().join(format!("weft-verbs-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (path, content) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn two_ports_of_a_card_for_both_links_are_read() {
        let tree = Tree::new(
            "mlx5",
            &[
                ("mlx5_0/node_type", "1: CA\n"),
                ("mlx5_0/device/numa_node", "1\n"),
                ("mlx5_0/device/local_cpulist", "16-31\n"),
                ("mlx5_0/ports/1/state", "4: ACTIVE\n"),
                ("mlx5_0/ports/1/link_layer", "InfiniBand\n"),
                ("mlx5_0/ports/1/lid", "0x1f\n"),
                ("mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n"),
                ("mlx5_0/ports/1/pkeys/0", "0x7fff\n"),
                ("mlx5_0/ports/1/pkeys/10", "0x8002\n"),
                ("mlx5_0/ports/1/pkeys/2", "0x0000\n"),
                ("mlx5_0/ports/1/pkeys/3", "0x8001\n"),
                ("mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0c42:a103:0065:1a2b\n"),
                ("mlx5_0/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
                ("mlx5_0/ports/2/state", "1: DOWN\n"),
                ("mlx5_0/ports/2/link_layer", "Ethernet\n"),
                ("mlx5_0/ports/2/lid", "0x0\n"),
                ("mlx5_0/ports/2/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0007\n"),
                ("mlx5_0/ports/2/gid_attrs/types/3", "RoCE v2\n"),
                ("mlx5_0/ports/2/gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0007\n"),
                ("mlx5_0/ports/2/gid_attrs/types/2", "IB/RoCE v1\n"),
                ("mlx5_0/ports/2/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0000\n"),
            ],
        );
        let ports = survey_at(&tree.0, &["mlx5_0".to_owned(), "gone_1".to_owned()]);
        assert_eq!(ports.len(), 2);
        let locality = Locality { pci: None, numa_node: Some(1), cpus: Some("16-31".to_owned()) };
        assert_eq!(ports[0].locality, locality);
        assert_eq!(
            (ports[0].link, ports[0].lid, ports[0].state.as_str()),
            (Link::InfiniBand, 0x1f, "ACTIVE")
        );
        assert_eq!(ports[0].gids.len(), 1, "empty entries are left out");
        let partitions: Vec<_> = ports[0].partitions.iter().map(|entry| (entry.index, entry.key)).collect();
        assert_eq!(partitions, [(0, 0x7fff), (3, 0x8001), (10, 0x8002)]);
        assert_eq!((ports[1].link, ports[1].state.as_str()), (Link::Ethernet, "DOWN"));
        let kinds: Vec<_> = ports[1].gids.iter().map(|gid| (gid.index, gid.kind, gid.address())).collect();
        let address = IpAddr::from([10, 0, 0, 7]);
        assert_eq!(
            kinds,
            [(2, GidKind::InfiniBandOrRoce1, address), (3, GidKind::Roce2, address)],
            "in the table's order"
        );
    }

    #[test]
    fn a_process_is_near_a_memory_node_when_all_its_processors_are() {
        let tree = Tree::new(
            "cpus",
            &[("cpu0/node0/x", ""), ("cpu1/node0/x", ""), ("cpu2/node1/x", ""), ("cpu3/x", "")],
        );
        let node = |cpus: &[usize]| numa_node_at(&tree.0, cpus.iter().copied());
        assert_eq!((node(&[0, 1]), node(&[2])), (Some(0), Some(1)));
        assert_eq!((node(&[1, 2]), node(&[0, 3]), node(&[3]), node(&[])), (None, None, None, None));
    }

    #[test]
    fn files_of_any_content_are_read_without_harm() {
        let tree = Tree::new(
            "odd",
            &[
                ("x/node_type", ""),
                ("x/ports/one/state", "4: ACTIVE"),
                ("x/ports/1/state", ""),
                ("x/ports/1/lid", "31"),
                ("x/ports/1/gids/0", "not an address"),
                ("x/ports/1/gids/300", "fe80::1"),
                ("x/device/numa_node", "-1"),
                ("x/device/local_cpulist", "\n"),
            ],
        );
        let ports = survey_at(&tree.0, &["x".to_owned()]);
        assert_eq!(ports.len(), 1);
        assert!(!ports[0].adapter && ports[0].gids.is_empty() && ports[0].lid == 0);
        assert_eq!(ports[0].locality, Locality::default());
    }
}
