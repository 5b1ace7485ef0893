//! How long a packet may be: what the ways of this host carry whole, as its kernel says.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockaddrStorage, getsockopt, sockopt};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Headers around a packet's payload that a frame must hold as well: IP, UDP, the longest of ours, CRC.
const HEADERS: u32 = 40 + 8 + 12 + 28 + 4;

/// What every network carries.
const USUAL: u32 = 1500;

/// The largest payload of packets that a network interface with such frames carries whole.
pub(crate) fn packet_mtu(link_mtu: u32) -> u32 {
    [4096, 2048, 1024, 512].into_iter().find(|mtu| mtu + HEADERS <= link_mtu).unwrap_or(256)
}

/// Longest IP packet that leaves whole towards an address by the way that the kernel takes from a local one; `None`: it does not say.
pub(crate) fn path_mtu(local: IpAddr, to: SocketAddr) -> Option<u32> {
    // A socket that is connected has a way. Nothing is sent.
    let socket = UdpSocket::bind((local, 0)).ok()?;
    socket.connect(to).ok()?;
    u32::try_from(getsockopt(&socket, sockopt::IpMtu).ok()?).ok()
}

/// Longest IP packet that leaves this host whole by the interface with an address: 1500 bytes where nothing better is known, 9000 where
/// the network is set up for jumbo frames.
pub fn link_mtu(address: IpAddr) -> u32 {
    let of = |address, to: Ipv4Addr| path_mtu(IpAddr::V4(address), (to, 9).into());
    let found = match address {
        IpAddr::V4(own) if own.is_loopback() => of(own, own),
        // The way to oneself is the loopback's, so it is asked for somebody who might be in the same network.
        IpAddr::V4(own) => mask_of(own).and_then(|mask| neighbour(own, mask)).and_then(|to| of(own, to)),
        IpAddr::V6(_) => None,
    };
    found.unwrap_or(USUAL)
}

/// Which bits of an own address name its network.
fn mask_of(own: Ipv4Addr) -> Option<u32> {
    let v4 = |of: &Option<SockaddrStorage>| of.as_ref()?.as_sockaddr_in().map(|v4| v4.ip());
    let mut all = getifaddrs().ok()?;
    all.find(|one| v4(&one.address) == Some(own)).and_then(|one| v4(&one.netmask)).map(Ipv4Addr::to_bits)
}

/// An address that another host of a network could have; `None`: there is room for one only.
fn neighbour(own: Ipv4Addr, mask: u32) -> Option<Ipv4Addr> {
    let (own, hosts) = (own.to_bits(), !mask);
    // Of networks of two addresses (RFC 3021) both are hosts'; otherwise the first and the last are nobody's.
    let nobody = |host: u32| hosts > 1 && (host == 0 || host == hosts);
    let mut others = (1..=3).map(|other| own ^ other).filter(|other| other & mask == own & mask);
    others.find(|other| !nobody(other & hosts)).map(Ipv4Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_the_largest_that_fit() {
        let fits = [
            (65_536, 4096),
            (9000, 4096),
            (4200, 4096),
            (4187, 2048),
            (2140, 2048),
            (1500, 1024),
            (604, 512),
            (576, 256),
        ];
        for (link, payload) in fits {
            assert_eq!(packet_mtu(link), payload, "{link}");
        }
    }

    #[test]
    fn a_neighbour_could_be_a_host_of_the_network() {
        let of = |own: [u8; 4], bits: u32| {
            neighbour(own.into(), (u64::from(u32::MAX) << (32 - bits)) as u32).map(|found| found.octets())
        };
        assert_eq!(of([10, 0, 0, 4], 24), Some([10, 0, 0, 5]));
        assert_eq!(of([10, 0, 0, 1], 24), Some([10, 0, 0, 3]), "0 is the network");
        assert_eq!(of([10, 0, 0, 254], 24), Some([10, 0, 0, 252]), "255 is everybody");
        assert_eq!(of([10, 0, 0, 5], 30), Some([10, 0, 0, 6]));
        assert_eq!(of([10, 0, 0, 6], 30), Some([10, 0, 0, 5]));
        assert_eq!(of([10, 0, 0, 7], 31), Some([10, 0, 0, 6]));
        assert_eq!(of([10, 0, 0, 7], 32), None);
        for own in 1..255_u32 {
            for bits in 8..31 {
                let mask = u32::MAX << (32 - bits);
                let own = 0x0a00_0000 | own;
                if let host @ 1.. = own & !mask
                    && host != !mask
                {
                    let found = neighbour(Ipv4Addr::from_bits(own), mask).unwrap().to_bits();
                    assert!(
                        found != own
                            && found & mask == own & mask
                            && found & !mask != 0
                            && found & !mask != !mask
                    );
                }
            }
        }
    }

    #[test]
    fn the_loopback_carries_more_than_a_network_does() {
        assert!(link_mtu(Ipv4Addr::LOCALHOST.into()) > 9000);
        // Nobody has it.
        assert_eq!(link_mtu(Ipv4Addr::new(192, 0, 2, 1).into()), USUAL);
    }
}
