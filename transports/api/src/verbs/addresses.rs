//! Where a device is reached: its addresses, and in which order two devices try theirs.
//!
//! A port on Ethernet has several (its table of GIDs): those of each network of its interface, of each version of RoCE, and one
//! that is valid on its link alone. Which of them reach another host depends on switches, routers and firewalls that nobody
//! asks us about. So they are tried: [`ways`] says in which order.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Where a device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceAddress {
    /// Its global identifier (GID): on Ethernet its IP address, on InfiniBand the 16 bytes as an IPv6 address. With it goes the
    /// UDP port at which packets are taken, 4791 for all devices but emulated ones.
    pub socket: SocketAddr,
    /// Its local identifier (LID) in an InfiniBand subnet; 0 on Ethernet, which has none.
    pub lid: u16,
}

impl From<SocketAddr> for DeviceAddress {
    fn from(socket: SocketAddr) -> DeviceAddress {
        DeviceAddress { socket, lid: 0 }
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lid {
            0 => write!(f, "{}", self.socket),
            lid => write!(f, "{}@{lid:x}", self.socket),
        }
    }
}

impl FromStr for DeviceAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<DeviceAddress, ()> {
        let (socket, lid) = match text.split_once('@') {
            None => (text, Some(0)),
            Some((socket, lid)) => (socket, u16::from_str_radix(lid, 16).ok().filter(|&lid| lid != 0)),
        };
        match (socket.parse(), lid) {
            (Ok(socket), Some(lid)) => Ok(DeviceAddress { socket, lid }),
            _ => Err(()),
        }
    }
}
/// What packets to an address look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packets {
    /// Those of UDP, which routers forward (RoCE version 2), or of an InfiniBand subnet.
    Routable,
    /// Ethernet frames of their own (RoCE version 1), which end at the first router.
    OfOneLink,
}

/// One of the addresses of a device's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortAddress {
    /// The address.
    pub address: DeviceAddress,
    /// What is sent to it.
    pub packets: Packets,
}

/// How far an address is known, the farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// IPv4, wherever there is a route.
    Wide4,
    /// IPv6, wherever there is a route.
    Wide6,
    /// IPv4 of one link alone (RFC 3927).
    Link4,
    /// IPv6 of one link alone (RFC 4291, section 2.5.6).
    Link6,
}

/// Most addresses that a port tells others of.
pub const MOST_ADDRESSES: usize = 4;

/// Most ways between two devices that are tried.
pub const MOST_WAYS: usize = 8;

/// How far an address is known.
pub const fn scope(address: IpAddr) -> Scope {
    match address {
        IpAddr::V4(address) if address.is_link_local() => Scope::Link4,
        IpAddr::V4(_) => Scope::Wide4,
        IpAddr::V6(address) if address.is_unicast_link_local() => Scope::Link6,
        IpAddr::V6(_) => Scope::Wide6,
    }
}

impl PortAddress {
    /// One of a device that has no other.
    pub fn routable(address: impl Into<DeviceAddress>) -> PortAddress {
        PortAddress { address: address.into(), packets: Packets::Routable }
    }

    fn ip(&self) -> IpAddr {
        self.address.socket.ip()
    }

    /// What an address is worth while nobody knows who will be talked to; smaller is better. Packets that routers forward come
    /// first, then what is known farther.
    pub const fn preference(self) -> (Packets, Scope) {
        (self.packets, scope(self.address.socket.ip()))
    }

    /// The network that it is taken to be in: masks are not known, so 24 bits of an IPv4 address, 64 of another.
    pub fn network(&self) -> u128 {
        match self.ip() {
            IpAddr::V4(address) => (1 << 127) | u128::from(address.to_bits() >> 8),
            IpAddr::V6(address) => address.to_bits() >> 64,
        }
    }

    /// Whether packets can go from one to the other at all: of one kind and family, and both of one link or neither.
    fn matches(&self, other: &PortAddress) -> bool {
        let kind = |it: &PortAddress| (it.packets, scope(it.ip()), it.address.lid == 0);
        kind(self) == kind(other)
    }

    /// How near two addresses are: 0 in one network, 1 where more than half of what names it is common.
    fn distance(&self, other: &PortAddress) -> u8 {
        let common = match (self.ip(), other.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => 2 * (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => 3 * (a.to_bits() ^ b.to_bits()).leading_zeros() / 4,
            _ => 0,
        };
        match common {
            48.. => 0,
            32.. => 1,
            _ => 2,
        }
    }
}

/// A way between two devices: the places of their addresses in the lists of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// Of the first device's.
    pub first: u8,
    /// Of the second's.
    pub second: u8,
}

impl Pairing {
    /// As the other device sees it.
    pub const fn turned(self) -> Pairing {
        Pairing { first: self.second, second: self.first }
    }
}

/// In which order two devices try their addresses, a pure function of both lists, which have the preferred ones in front:
/// packets that routers forward before others, addresses that are known far before those of one link, addresses of one network
/// before others, and then as the lists stand. Where nothing matches, the first of each: they know best. At most [`MOST_WAYS`].
///
/// Both ends must name the same way by the same number: both give the same device's list first.
pub fn ways(first: &[PortAddress], second: &[PortAddress]) -> Vec<Pairing> {
    let mut ways: Vec<_> = (0..)
        .zip(first)
        .flat_map(|(i, a)| (0..).zip(second).map(move |(j, b)| (i, j, a, b)))
        .filter(|(_, _, a, b)| a.matches(b))
        .map(|(i, j, a, b)| {
            let is_of_link = matches!(scope(a.ip()), Scope::Link4 | Scope::Link6);
            ((a.packets, is_of_link, a.distance(b), i + j, i), Pairing { first: i, second: j })
        })
        .collect();
    ways.sort_unstable_by_key(|&(key, _)| key);
    ways.truncate(MOST_WAYS);
    match ways.is_empty() {
        true => vec![Pairing::default()],
        false => ways.into_iter().map(|(_, way)| way).collect(),
    }
}

/// The same as one of the two sees them, its own addresses first. `goes_first`: its list is the first for both; of two
/// processes that of the lower number is.
pub fn ways_seen(own: &[PortAddress], theirs: &[PortAddress], goes_first: bool) -> Vec<Pairing> {
    if goes_first { ways(own, theirs) } else { ways(theirs, own).into_iter().map(Pairing::turned).collect() }
}

impl From<DeviceAddress> for PortAddress {
    fn from(address: DeviceAddress) -> PortAddress {
        PortAddress::routable(address)
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.packets {
            Packets::Routable => "",
            Packets::OfOneLink => "~1",
        };
        write!(f, "{}{end}", self.address)
    }
}

impl FromStr for PortAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<PortAddress, ()> {
        let (address, packets) = match text.strip_suffix("~1") {
            Some(address) => (address, Packets::OfOneLink),
            None => (text, Packets::Routable),
        };
        Ok(PortAddress { address: address.parse()?, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<PortAddress> {
        let one = |word: &str| {
            let (ip, end) = word.split_once('~').map_or((word, ""), |(ip, _)| (ip, "~1"));
            let socket = SocketAddr::new(ip.parse().unwrap(), 4791);
            format!("{socket}{end}").parse().unwrap()
        };
        text.split_whitespace().map(one).collect()
    }

    /// The ways as two processes find them, each on its own: both name the same pair of addresses by the same number.
    fn named(first: &str, second: &str) -> Vec<(u8, u8)> {
        let (first, second) = (list(first), list(second));
        let pairs = |(own, theirs): (&[PortAddress], &[PortAddress]), goes_first| -> Vec<_> {
            let seen = ways_seen(own, theirs, goes_first).into_iter();
            seen.map(|way| (own[usize::from(way.first)], theirs[usize::from(way.second)])).collect()
        };
        let here = pairs((&first, &second), true);
        let there = pairs((&second, &first), false);
        assert_eq!(here, there.into_iter().map(|(own, theirs)| (theirs, own)).collect::<Vec<_>>());
        let place = |list: &[PortAddress], one| list.iter().position(|it| *it == one).unwrap() as u8;
        here.into_iter().map(|(a, b)| (place(&first, a), place(&second, b))).collect()
    }

    #[test]
    fn ways_are_tried_by_reach_then_nearness_then_order() {
        let usual = "10.1.0.7 10.2.0.7 2001:db8::7 fe80::7";
        let other = "10.1.0.9 10.2.0.9 2001:db8::9 fe80::9";
        assert_eq!(named(usual, other), [(0, 0), (1, 1), (2, 2), (0, 1), (1, 0), (3, 3)]);
        assert_eq!(
            named("10.1.0.7 10.2.0.7", "10.2.0.9 10.1.0.9")[..2],
            [(0, 1), (1, 0)],
            "one network first"
        );
        assert_eq!(named("10.1.0.7", "192.168.3.4 10.1.5.9"), [(0, 1), (0, 0)], "near before far");
        assert_eq!(
            named("fe80::7 10.1.0.7", "fe80::9 10.9.0.7"),
            [(1, 1), (0, 0)],
            "what routers forward first"
        );
        assert_eq!(named("10.1.0.7~1 10.1.0.7", "10.1.0.9~1 10.1.0.9"), [(1, 1), (0, 0)], "version 2 first");
        assert_eq!(named("10.1.0.7~1", "10.1.0.9"), [(0, 0)], "nothing matches: they know best");
        assert_eq!(named("10.1.0.7", "fe80::9"), [(0, 0)]);
        let many = "10.0.0.1 10.1.0.1 10.2.0.1 10.3.0.1";
        assert_eq!(named(many, many).len(), MOST_WAYS);
    }

    #[test]
    fn addresses_come_back() {
        for text in ["10.0.0.1:4791", "[fe80::1]:4791~1", "[fe80::2:c903]:4791@1f"] {
            assert_eq!(text.parse::<PortAddress>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1:4791~2", "~1", "10.0.0.1:4791~1~1", "10.0.0.1:4791@0"] {
            assert!(text.parse::<PortAddress>().is_err(), "{text}");
        }
    }
}
