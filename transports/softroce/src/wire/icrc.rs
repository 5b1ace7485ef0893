//! The invariant CRC (annex A17.3.3; section 7.8.1): CRC-32 over everything that no router changes.
//!
//! Covered are eight bytes of ones (where an InfiniBand local route header would be), the IP header, the UDP header and the
//! packet, with all that may change on the way replaced by ones. Addresses are covered, so address translation breaks it. It is
//! sent with its least significant byte first.

use crc32fast::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

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

/// Bytes that are laid out anew: all of short packets, and of long ones the headers and what follows up to a multiple of [`BLOCK`].
const HEAD: usize = 128;
/// What the processor's instructions take at a time. Whatever is left over is looked up byte by byte, in tables that take half of the
/// nearest cache.
const BLOCK: usize = 16;

/// The invariant CRC of `packet` (all between UDP header and CRC) on `flow`.
///
/// `identification` is the field of the IPv4 header; for IPv6 it means nothing. Sockets of UDP do not show it: where both ends
/// are ours, it is taken to be 0, whatever the kernel wrote.
pub fn icrc(flow: Flow, identification: u16, packet: &[u8]) -> u32 {
    let mut head = [0; HEAD];
    let begin = headers(flow, identification, packet.len(), &mut head);
    let (near, rest) = packet.split_at(packet.len().min(HEAD - begin));
    let end = begin + near.len();
    head[begin..end].copy_from_slice(near);
    if near.len() > 4 {
        head[begin + 4] = 0xff; // Congestion marks and the reserved bits beside them.
    }
    let mut crc = BEGIN.clone();
    crc.update(&head[..end]);
    if !rest.is_empty() {
        crc.update(rest);
    }
    crc.finalize()
}

// What the processor can is asked for once.
static BEGIN: LazyLock<Hasher> = LazyLock::new(|| Hasher::new_with_initial(!0));

/// How far the CRC has come in front of a packet so long.
pub(super) fn beginning(flow: Flow, identification: u16, length: usize) -> Hasher {
    let mut head = [0; HEAD];
    let end = headers(flow, identification, length, &mut head);
    let mut crc = BEGIN.clone();
    crc.update(&head[..end]);
    crc
}

/// Writes what is covered in front of a packet so long, and says where it ends.
fn headers(flow: Flow, identification: u16, length: usize, head: &mut [u8; HEAD]) -> usize {
    let udp_bytes = (8 + length + 4) as u16;
    let addresses = (flow.source.ip(), flow.destination.ip());
    let ip_bytes = if matches!(addresses, (IpAddr::V4(_), IpAddr::V4(_))) { 20 } else { 40 };
    // Zeroes in front change nothing where the division begins with zero: then the first four bytes of ones are zeroes.
    let ones = (8 + ip_bytes + 8 + length).wrapping_neg() % BLOCK + 4;
    head[ones..ones + 4].fill(0xff);
    let ip = &mut head[ones + 4..];
    match addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = ip.first_chunk_mut::<20>().expect("there is room for headers");
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
        }
        (source, destination) => {
            let ip = ip.first_chunk_mut::<40>().expect("there is room for headers");
            ip[..4].copy_from_slice(&[0x6f, 0xff, 0xff, 0xff]); // Version; traffic class and flow label as ones.
            ip[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
            ip[6] = UDP;
            ip[7] = 0xff; // Hop limit.
            ip[8..24].copy_from_slice(&v6(source));
            ip[24..40].copy_from_slice(&v6(destination));
        }
    }
    let begin = ones + 4 + ip_bytes + 8;
    let udp = &mut head[begin - 8..begin];
    udp[..2].copy_from_slice(&flow.source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&flow.destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
    udp[6..].fill(0xff); // The checksum.
    begin
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
