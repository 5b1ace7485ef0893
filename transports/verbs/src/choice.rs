//! Which port and which of its addresses: a pure function of what there is.

use crate::survey::{Gid, GidKind, Link, Partition, Port};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use weft_api::verbs::{DeviceAddress, MOST_ADDRESSES, Packets, PortAddress, Scope};

/// The UDP port of RoCE (annex A17.3.1.1).
const UDP_PORT: u16 = 4791;

/// What a process would like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// An address of this host that the others are known to reach.
    pub address: Option<IpAddr>,
    /// The memory node of the process.
    pub numa_node: Option<u32>,
    /// The partition of InfiniBand to be in (`WEFT_PARTITION`), with or without the bit of full members.
    pub partition: Option<u16>,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnGid {
    /// Its place in the port's table.
    pub index: u8,
    /// What others need to know of it.
    pub address: PortAddress,
}

/// A port and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// What it is connected to.
    pub link: Link,
    /// Its addresses, the preferred first; at least one, at most [`MOST_ADDRESSES`].
    pub gids: Vec<OwnGid>,
    /// Where others reach it best of all.
    pub address: DeviceAddress,
    /// The partition of its queue pairs.
    pub partition: Partition,
    /// Whether the device is one of software.
    pub emulated: bool,
    /// The card that it is on: its place on the bus without the function, or its name. Two devices may be two ports of one card.
    pub card: String,
    /// Why this one, and why not the others.
    pub why: String,
}

fn card_of(port: &Port) -> String {
    let pci = port.locality.pci.as_deref();
    let card = pci.map(|pci| pci.rsplit_once('.').map_or(pci, |(card, _)| card));
    card.unwrap_or(&port.device).to_owned()
}

/// All ports that can be used, the best first: of hardware before software; then by address, on Ethernet one that the others
/// can reach (routable packets before others; that of the job's network, else IPv4, then IPv6, then what stays on the link);
/// then near the process; then fast.
///
/// # Errors
/// None can; the text says why of each.
pub fn choose(ports: &[Port], wish: Wish) -> Result<Vec<Choice>, String> {
    let mut refused = String::new();
    let mut usable: Vec<(&Port, Vec<Gid>, Partition)> = Vec::new();
    for port in ports {
        match usable_gids(port, wish).and_then(|gids| Ok((gids, own_partition(port, wish)?))) {
            Ok((gids, partition)) => usable.push((port, gids, partition)),
            Err(why) => {
                let _ = write!(refused, "{}{} port {} {why}", separator(&refused), port.device, port.number);
            }
        }
    }
    if usable.is_empty() {
        return Err(if ports.is_empty() {
            "this host has no RDMA device (ibv_devices lists none)".to_owned()
        } else {
            refused
        });
    }
    // A stable order: equal ones stay as the system lists them, which is the same for all processes of a host.
    usable.sort_by_key(|(port, gids, _)| {
        (
            port.locality.pci.is_none(),
            preference(port.link, gids[0], wish),
            wish.numa_node.is_some()
                && port.locality.numa_node.is_some()
                && port.locality.numa_node != wish.numa_node,
            Reverse(gigabits(&port.rate)),
        )
    });
    let choices = usable.iter().map(|(port, gids, partition)| {
        let gid = gids[0];
        let mut why = format!("{} port {} ({}, {})", port.device, port.number, port.rate, gid.address());
        if let Some(pci) = &port.locality.pci {
            let _ = write!(why, " at PCI {pci}");
        }
        if partition.number() != Partition::DEFAULT.number() || !partition.is_full() {
            let member = if partition.is_full() { "full" } else { "limited" };
            let _ = write!(why, ", {member} member of partition {:#06x}", partition.key);
        }
        if usable.len() > 1 {
            let _ = write!(why, ", of {} usable ports", usable.len());
        }
        if !refused.is_empty() {
            let _ = write!(why, "; not {refused}");
        }
        if gids.len() > 1 {
            let text: Vec<String> = gids
                .iter()
                .map(|gid| format!("{} (index {}{})", gid.address(), gid.index, version(*gid)))
                .collect();
            let _ = write!(
                why,
                "\n  its addresses, tried in turn where one is not answered: {}",
                text.join(", ")
            );
        }
        let gids: Vec<OwnGid> =
            gids.iter().map(|&gid| OwnGid { index: gid.index, address: offered(port, gid) }).collect();
        Choice {
            device: port.device.clone(),
            port: port.number,
            link: port.link,
            address: gids[0].address.address,
            gids,
            partition: *partition,
            emulated: port.locality.pci.is_none(),
            card: card_of(port),
            why,
        }
    });
    Ok(choices.collect())
}

fn separator(text: &str) -> &'static str {
    if text.is_empty() { "" } else { ", " }
}

/// What others need to know of an address.
fn offered(port: &Port, gid: Gid) -> PortAddress {
    let address = DeviceAddress { socket: SocketAddr::new(gid.address(), UDP_PORT), lid: port.lid };
    let packets = match (port.link, gid.kind) {
        (Link::Ethernet, GidKind::InfiniBandOrRoce1) => Packets::OfOneLink,
        _ => Packets::Routable,
    };
    PortAddress { address, packets }
}

fn version(gid: Gid) -> &'static str {
    match gid.kind {
        GidKind::Roce2 => "",
        GidKind::InfiniBandOrRoce1 => ", version 1",
    }
}

/// The addresses of a port that can be used, the preferred first. There is one at least.
fn usable_gids(port: &Port, wish: Wish) -> Result<Vec<Gid>, String> {
    if !port.adapter {
        return Err("is iWARP or of another kind that connects by a manager".to_owned());
    }
    if port.state != "ACTIVE" {
        return Err(format!("is {} (cable, switch, or subnet manager)", port.state));
    }
    if port.link == Link::InfiniBand && port.lid == 0 {
        return Err("has no local identifier: no subnet manager runs".to_owned());
    }
    let mut gids = port.gids.clone();
    gids.sort_by_key(|&gid| preference(port.link, gid, wish));
    // A subnet manager knows the way to the first one; nobody need be asked.
    gids.truncate(if port.link == Link::InfiniBand { 1 } else { MOST_ADDRESSES });
    match gids.is_empty() {
        true => Err("has no address: its network interface is down or without one".to_owned()),
        false => Ok(gids),
    }
}

/// The partition that a port's queue pairs are in: the one asked for, as a full member where it is both; otherwise the first of the
/// table, unless the port is a limited member of it and a full member of another: limited members cannot talk to each other.
fn own_partition(port: &Port, wish: Wish) -> Result<Partition, String> {
    let all = &port.partitions;
    let full_first = |with: &dyn Fn(&Partition) -> bool| {
        let mut found = all.iter().copied().filter(|partition| with(partition)).collect::<Vec<_>>();
        found.sort_by_key(|partition| !partition.is_full());
        found.first().copied()
    };
    // On Ethernet there is one for all, and partitions are the business of VLANs.
    let Some(wanted) = wish.partition.filter(|_| port.link == Link::InfiniBand) else {
        let default = all.first().copied().filter(|first| first.is_full());
        return Ok(default.or_else(|| full_first(&|_| true)).unwrap_or(Partition::DEFAULT));
    };
    full_first(&|partition| partition.number() == wanted & 0x7fff).ok_or_else(|| {
        let keys: Vec<String> = all.iter().map(|partition| format!("{:#06x}", partition.key)).collect();
        let of = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        format!("is not in partition {wanted:#06x} (WEFT_PARTITION), but in {of}")
    })
}

/// Smaller is better.
fn preference(link: Link, gid: Gid, wish: Wish) -> (Packets, bool, Scope) {
    let packets = match gid.kind {
        GidKind::Roce2 => Packets::Routable,
        GidKind::InfiniBandOrRoce1 => Packets::OfOneLink,
    };
    let address = SocketAddr::new(gid.address(), UDP_PORT);
    match link {
        Link::InfiniBand => (Packets::Routable, false, Scope::Wide4),
        Link::Ethernet => {
            let (packets, scope) = PortAddress { address: address.into(), packets }.preference();
            (packets, wish.address != Some(gid.address()), scope)
        }
    }
}

/// "200 Gb/sec (4X HDR)", "2.5 Gb/sec (1X SDR)": in tenths.
fn gigabits(rate: &str) -> u32 {
    let number: f64 = rate.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
    (number * 10.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::Locality;

    fn gid(index: u8, address: &str, kind: GidKind) -> Gid {
        let address = match address.parse::<IpAddr>().unwrap() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Gid { index, gid: address, kind }
    }

    fn ethernet(device: &str, gids: Vec<Gid>) -> Port {
        Port {
            device: device.to_owned(),
            number: 1,
            adapter: true,
            link: Link::Ethernet,
            state: "ACTIVE".to_owned(),
            rate: "100 Gb/sec (4X EDR)".to_owned(),
            lid: 0,
            gids,
            partitions: vec![Partition::DEFAULT],
            locality: Locality { pci: Some("0000:3b:00.0".to_owned()), ..Locality::default() },
        }
    }

    /// The table of a usual card: each address twice, once for each version, and one that stays on the link first.
    fn usual() -> Vec<Gid> {
        use GidKind::{InfiniBandOrRoce1 as V1, Roce2 as V2};
        vec![
            gid(0, "fe80::e42:a1ff:fe65:1a2b", V1),
            gid(1, "fe80::e42:a1ff:fe65:1a2b", V2),
            gid(2, "10.1.0.7", V1),
            gid(3, "10.1.0.7", V2),
            gid(4, "10.2.0.7", V1),
            gid(5, "10.2.0.7", V2),
            gid(6, "2001:db8::7", V2),
        ]
    }

    fn first(ports: &[Port], wish: Wish) -> (String, u8) {
        let choices = choose(ports, wish).unwrap();
        (choices[0].device.clone(), choices[0].gids[0].index)
    }

    #[test]
    fn the_address_is_chosen_by_reach() {
        let mut port = ethernet("mlx5_0", usual());
        let own: Vec<u8> =
            choose(&[port.clone()], Wish::default()).unwrap()[0].gids.iter().map(|gid| gid.index).collect();
        assert_eq!(own, [3, 5, 6, 1], "of these others are told");
        assert_eq!(first(&[port.clone()], Wish::default()).1, 3, "routable, IPv4, first of its kind");
        let wish = Wish { address: Some("10.2.0.7".parse().unwrap()), numa_node: None, ..Wish::default() };
        assert_eq!(first(&[port.clone()], wish).1, 5, "that of the job's network");
        let wish = Wish { address: Some("192.168.0.7".parse().unwrap()), numa_node: None, ..Wish::default() };
        assert_eq!(first(&[port.clone()], wish).1, 3, "which RDMA does not go over: as without");
        port.gids.retain(|gid| gid.address().is_ipv6());
        assert_eq!(first(&[port.clone()], Wish::default()).1, 6);
        port.gids.pop();
        assert_eq!(first(&[port.clone()], Wish::default()).1, 1);
        port.gids.pop();
        assert_eq!(first(&[port.clone()], Wish::default()).1, 0, "better than none");
        port.gids.pop();
        assert!(choose(&[port], Wish::default()).unwrap_err().contains("has no address"));
    }

    #[test]
    fn the_device_is_chosen_by_locality_then_speed() {
        let mut near = ethernet("mlx5_0", usual());
        near.locality.numa_node = Some(1);
        let mut far = ethernet("mlx5_1", usual());
        far.locality.numa_node = Some(0);
        far.rate = "400 Gb/sec (4X NDR)".to_owned();
        let mut soft = ethernet("rxe0", usual());
        soft.locality = Locality::default();
        let ports = [soft, far, near];
        assert_eq!(first(&ports, Wish { numa_node: Some(1), ..Wish::default() }).0, "mlx5_0");
        assert_eq!(first(&ports, Wish { numa_node: Some(0), ..Wish::default() }).0, "mlx5_1");
        assert_eq!(first(&ports, Wish::default()).0, "mlx5_1");
        assert_eq!(choose(&ports, Wish::default()).unwrap().len(), 3, "all are rails");
        assert_eq!(first(&ports[..1], Wish::default()).0, "rxe0");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_the_reason() {
        let mut down = ethernet("mlx5_0", usual());
        down.state = "DOWN".to_owned();
        let mut iwarp = ethernet("siw0", usual());
        iwarp.adapter = false;
        let mut unmanaged = ethernet("ib0", usual());
        unmanaged.link = Link::InfiniBand;
        let text = choose(&[down.clone(), iwarp, unmanaged], Wish::default()).unwrap_err();
        for part in ["mlx5_0 port 1 is DOWN", "siw0 port 1 is iWARP", "ib0 port 1 has no local identifier"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(choose(&[], Wish::default()).unwrap_err().contains("no RDMA device"));
        let choices = choose(&[down, ethernet("mlx5_1", usual())], Wish::default()).unwrap();
        assert!(
            choices[0].why.contains("mlx5_1 port 1") && choices[0].why.contains("not mlx5_0 port 1 is DOWN")
        );
    }

    #[test]
    fn infiniband_goes_by_the_local_identifier() {
        let mut port = ethernet("mlx5_0", vec![gid(0, "fe80::c42:a103:65:1a2b", GidKind::InfiniBandOrRoce1)]);
        port.link = Link::InfiniBand;
        port.lid = 31;
        let choice = choose(&[port], Wish::default()).unwrap().remove(0);
        assert_eq!(choice.address.lid, 31);
        assert_eq!(choice.address.socket.ip(), "fe80::c42:a103:65:1a2b".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn the_partition_is_the_first_that_lets_all_talk_or_the_one_asked_for() {
        let mut port = ethernet("mlx5_0", vec![gid(0, "fe80::c42:a103:65:1a2b", GidKind::InfiniBandOrRoce1)]);
        (port.link, port.lid) = (Link::InfiniBand, 31);
        let of = |keys: &[(u16, u16)], wanted: Option<u16>| {
            let partitions = keys.iter().map(|&(index, key)| Partition { index, key }).collect();
            let port = Port { partitions, ..port.clone() };
            let choices = choose(&[port], Wish { partition: wanted, ..Wish::default() });
            choices.map(|mut choices| (choices[0].partition.index, choices.remove(0).why))
        };
        assert_eq!(of(&[], None).unwrap().0, 0, "the system does not say");
        assert_eq!(of(&[(0, 0xffff), (1, 0x8001)], None).unwrap().0, 0);
        let (index, why) = of(&[(0, 0x7fff), (1, 0x0002), (2, 0x8001)], None).unwrap();
        assert_eq!(index, 2, "a full member there");
        assert!(why.contains("full member of partition 0x8001"), "{why}");
        let (index, why) = of(&[(0, 0x7fff)], None).unwrap();
        assert_eq!(index, 0, "full members can be talked to");
        assert!(why.contains("limited member of partition 0x7fff"), "{why}");
        for wanted in [0x0005, 0x8005] {
            assert_eq!(
                of(&[(0, 0xffff), (3, 0x0005), (4, 0x8005)], Some(wanted)).unwrap().0,
                4,
                "{wanted:#x}"
            );
        }
        let error = of(&[(0, 0xffff), (3, 0x8005)], Some(0x8007)).unwrap_err();
        for part in ["0x8007", "WEFT_PARTITION", "0xffff, 0x8005"] {
            assert!(error.contains(part), "{error}");
        }
        let roce = ethernet("mlx5_1", usual());
        let wish = Wish { partition: Some(7), ..Wish::default() };
        assert_eq!(choose(&[roce], wish).unwrap()[0].partition, Partition::DEFAULT, "of InfiniBand only");
    }
}
