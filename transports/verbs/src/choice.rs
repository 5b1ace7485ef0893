//! Which port and which of its addresses: a pure function of what there is.

use crate::survey::{Gid, GidKind, Link, Port};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use weft_api::verbs::DeviceAddress;

/// The UDP port of RoCE (annex A17.3.1.1).
const UDP_PORT: u16 = 4791;

/// What a process would like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// An address of this host that the others are known to reach.
    pub address: Option<IpAddr>,
    /// The memory node of the process.
    pub numa_node: Option<u32>,
}

/// A port and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// What it is connected to.
    pub link: Link,
    /// The place of its address in the port's table.
    pub gid_index: u8,
    /// Where others reach it.
    pub address: DeviceAddress,
    /// Whether the device is one of software.
    pub emulated: bool,
    /// Why this one, and why not the others.
    pub why: String,
}

/// All ports that can be used, the best first: of hardware before software; then by address, on Ethernet one that the others can reach
/// (routable packets before others; that of the job's network, else IPv4, then IPv6, then what stays on the link); then near the process;
/// then fast.
///
/// # Errors
/// None can; the text says why of each.
pub fn choose(ports: &[Port], wish: Wish) -> Result<Vec<Choice>, String> {
    let mut refused = String::new();
    let mut usable: Vec<(&Port, Gid)> = Vec::new();
    for port in ports {
        match usable_gid(port, wish) {
            Ok(gid) => usable.push((port, gid)),
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
    usable.sort_by_key(|(port, gid)| {
        (
            port.locality.pci.is_none(),
            preference(port.link, *gid, wish),
            wish.numa_node.is_some()
                && port.locality.numa_node.is_some()
                && port.locality.numa_node != wish.numa_node,
            Reverse(gigabits(&port.rate)),
        )
    });
    let choices = usable.iter().map(|(port, gid)| {
        let mut why = format!("{} port {} ({}, {})", port.device, port.number, port.rate, gid.address());
        if let Some(pci) = &port.locality.pci {
            let _ = write!(why, " at PCI {pci}");
        }
        if usable.len() > 1 {
            let _ = write!(why, ", of {} usable ports", usable.len());
        }
        if !refused.is_empty() {
            let _ = write!(why, "; not {refused}");
        }
        Choice {
            device: port.device.clone(),
            port: port.number,
            link: port.link,
            gid_index: gid.index,
            address: DeviceAddress { socket: SocketAddr::new(gid.address(), UDP_PORT), lid: port.lid },
            emulated: port.locality.pci.is_none(),
            why,
        }
    });
    Ok(choices.collect())
}

fn separator(text: &str) -> &'static str {
    if text.is_empty() { "" } else { ", " }
}

fn usable_gid(port: &Port, wish: Wish) -> Result<Gid, String> {
    if !port.adapter {
        return Err("is iWARP or of another kind that connects by a manager".to_owned());
    }
    if port.state != "ACTIVE" {
        return Err(format!("is {} (cable, switch, or subnet manager)", port.state));
    }
    if port.link == Link::InfiniBand && port.lid == 0 {
        return Err("has no local identifier: no subnet manager runs".to_owned());
    }
    port.gids
        .iter()
        .copied()
        .min_by_key(|&gid| preference(port.link, gid, wish))
        .ok_or_else(|| "has no address: its network interface is down or without one".to_owned())
}

/// Smaller is better.
fn preference(link: Link, gid: Gid, wish: Wish) -> (bool, bool, u8) {
    match link {
        Link::InfiniBand => (false, false, 0),
        Link::Ethernet => {
            let reach = match gid.address() {
                IpAddr::V4(address) if address.is_link_local() => 2,
                IpAddr::V4(_) => 0,
                IpAddr::V6(address) if address.is_unicast_link_local() => 3,
                IpAddr::V6(_) => 1,
            };
            (gid.kind != GidKind::Roce2, wish.address != Some(gid.address()), reach)
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
        (choices[0].device.clone(), choices[0].gid_index)
    }

    #[test]
    fn the_address_is_chosen_by_reach() {
        let mut port = ethernet("mlx5_0", usual());
        assert_eq!(first(&[port.clone()], Wish::default()).1, 3, "routable, IPv4, first of its kind");
        let wish = Wish { address: Some("10.2.0.7".parse().unwrap()), numa_node: None };
        assert_eq!(first(&[port.clone()], wish).1, 5, "that of the job's network");
        let wish = Wish { address: Some("192.168.0.7".parse().unwrap()), numa_node: None };
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
        assert_eq!(first(&ports, Wish { address: None, numa_node: Some(1) }).0, "mlx5_0");
        assert_eq!(first(&ports, Wish { address: None, numa_node: Some(0) }).0, "mlx5_1");
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
}
