//! Whether another host is reached from an address of this one: the kernel's route, and a datagram that comes back or not.
//!
//! A datagram to a port where nobody listens is answered by the other host's kernel ("port unreachable"), so nothing has to run
//! there. It takes the route, the interface and the source address that packets of an RDMA device with that address take.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The other host answered.
    Answered,
    /// Nothing came back in time: the host is down, or a firewall drops such datagrams or their answers.
    Silent,
    /// The kernel knows no way, and why.
    NoRoute(String),
    /// The own address belongs to no interface of this host.
    NotOurs,
}

/// A try to reach `peer` from the address `from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// An address of this host.
    pub from: IpAddr,
    /// The other host, as it was named.
    pub peer: String,
    /// What came of it.
    pub reach: Reach,
}

/// How long an answer is waited for: longer than an address takes to be found not to exist on an Ethernet.
pub const LIMIT: Duration = Duration::from_millis(3500);

/// Between repetitions: answers of this kind are limited in number, and datagrams may be lost.
const AGAIN: Duration = Duration::from_millis(500);

/// Nobody listens at the port that traces of routes begin at.
const PORT: u16 = 33434;

/// Tries to reach `to` from `from` for `limit` at most.
pub fn reach(from: IpAddr, to: IpAddr, limit: Duration) -> Reach {
    let begun = Instant::now();
    let socket = match UdpSocket::bind((from, 0)) {
        Ok(socket) => socket,
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return Reach::NotOurs,
        Err(error) => return Reach::NoRoute(error.to_string()),
    };
    // The kernel looks its route up here.
    if let Err(error) = socket.connect(SocketAddr::new(to, PORT)) {
        return Reach::NoRoute(error.to_string());
    }
    let tries = || -> io::Result<Reach> {
        while begun.elapsed() < limit {
            let left = limit.saturating_sub(begun.elapsed()).min(AGAIN).max(Duration::from_millis(1));
            socket.set_read_timeout(Some(left))?;
            // News of the datagram before it may come here.
            socket.send(b"weft-doctor")?;
            match socket.recv(&mut [0; 64]) {
                Ok(_) => return Ok(Reach::Answered),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Reach::Silent)
    };
    tries().unwrap_or_else(|error| match error.kind() {
        ErrorKind::ConnectionRefused => Reach::Answered,
        _ => Reach::NoRoute(error.to_string()),
    })
}

/// Of a host's addresses the first of the family of `from`.
pub(crate) fn same_family(addresses: impl IntoIterator<Item = IpAddr>, from: &IpAddr) -> Option<IpAddr> {
    let plain = |address: IpAddr| match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    addresses.into_iter().map(plain).find(|address| address.is_ipv4() == from.is_ipv4())
}

/// The address of a GID, an IPv4 address as such.
pub(crate) fn of_gid(gid: Ipv6Addr) -> IpAddr {
    gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn this_host_answers_itself() {
        assert_eq!(reach(address("127.0.0.1"), address("127.0.0.1"), LIMIT), Reach::Answered);
    }

    #[test]
    fn what_cannot_be_reached_is_told_apart() {
        // An address for documents, which nobody has.
        assert_eq!(reach(address("192.0.2.1"), address("127.0.0.1"), LIMIT), Reach::NotOurs);
        assert!(matches!(reach(address("127.0.0.1"), address("::1"), LIMIT), Reach::NoRoute(_)));
        // What has the loopback's address may not leave it.
        assert!(matches!(reach(address("127.0.0.1"), address("192.0.2.7"), LIMIT), Reach::NoRoute(_)));
    }

    #[test]
    fn names_lead_to_the_family_of_the_own_address() {
        let all = [address("::1"), address("::ffff:10.0.0.1"), address("10.0.0.2")];
        assert_eq!(same_family(all, &address("10.9.9.9")), Some(address("10.0.0.1")));
        assert_eq!(same_family(all, &address("fd00::1")), Some(address("::1")));
        assert_eq!(same_family([], &address("fd00::1")), None);
    }
}
