//! The invariant CRC (annex A17.3.3; section 7.8.1): CRC-32 over everything that no router changes.
//!
//! Covered are eight bytes of ones (where an InfiniBand local route header would be), the IP header, the UDP header and the
//! packet, with all that may change on the way replaced by ones. Addresses are covered, so address translation breaks it. It is
//! sent with its least significant byte first.

use std::net::{IpAddr, SocketAddr};

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
}

impl Flow {
    /// The other direction.
    #[must_use]
    pub const fn reversed(self) -> Flow {
        Flow { source: self.destination, destination: self.source }
    }
}

const UDP: u8 = 17;

/// The invariant CRC of `packet` (all between UDP header and CRC) on `flow`.
///
/// `identification` is the field of the IPv4 header; for IPv6 it means nothing. Sockets of UDP do not show it: where both ends
/// are ours, it is taken to be 0, whatever the kernel wrote.
pub fn icrc(flow: Flow, identification: u16, packet: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    let udp_bytes = (8 + packet.len() + 4) as u16;
    match (flow.source.ip(), flow.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut ip = [0_u8; 20];
            ip[0] = 0x45;
            ip[1] = 0xff; // Type of service.
            ip[2..4].copy_from_slice(&(20 + udp_bytes).to_be_bytes());
            ip[4..6].copy_from_slice(&identification.to_be_bytes());
            ip[6] = 0x40; // Don't fragment.
            ip[8] = 0xff; // Time to live.
            ip[9] = UDP;
            ip[10..12].copy_from_slice(&[0xff; 2]); // Checksum.
            ip[12..16].copy_from_slice(&source.octets());
            ip[16..20].copy_from_slice(&destination.octets());
            crc.update(&ip);
        }
        (source, destination) => {
            let mut ip = [0_u8; 40];
            ip[..4].copy_from_slice(&[0x6f, 0xff, 0xff, 0xff]); // Version; traffic class and flow label as ones.
            ip[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
            ip[6] = UDP;
            ip[7] = 0xff; // Hop limit.
            ip[8..24].copy_from_slice(&v6(source));
            ip[24..40].copy_from_slice(&v6(destination));
            crc.update(&ip);
        }
    }
    let mut udp = [0xff_u8; 8]; // The checksum stays as ones.
    udp[..2].copy_from_slice(&flow.source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&flow.destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
    crc.update(&udp);
    // Congestion marks and the reserved bits beside them.
    let masked = 4..5.min(packet.len());
    crc.update(&packet[..4.min(packet.len())]);
    if !masked.is_empty() {
        crc.update(&[0xff]);
        crc.update(&packet[5..]);
    }
    crc.finalize()
}

/// Appends the invariant CRC to a packet.
pub fn seal(flow: Flow, packet: &mut Vec<u8>) {
    let crc = icrc(flow, 0, packet);
    packet.extend(crc.to_le_bytes());
}

/// The packet in front of a right invariant CRC; `None` when it is wrong or missing.
pub fn open(flow: Flow, identification: u16, datagram: &[u8]) -> Option<&[u8]> {
    let (packet, crc) = datagram.split_last_chunk::<4>()?;
    (icrc(flow, identification, packet) == u32::from_le_bytes(*crc)).then_some(packet)
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
