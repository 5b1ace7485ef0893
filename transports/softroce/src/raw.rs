//! Packets to and from devices that are not ours, on the port of RoCE: what [`Udp`](crate::Udp) cannot do.
//!
//! The invariant CRC covers the identification in the IPv4 header, which a UDP socket neither shows nor lets one choose:
//! headers are read and written here, by raw sockets (which need the right CAP_NET_RAW). Nothing is joined or cut on the way,
//! for that makes identifications of its own. An ordinary socket holds the port, so that the kernel does not answer that nobody
//! has it. IPv6 has no identification; its packets leave from that socket.

use crate::bell::{Due, UdpBell};
use crate::card::Card;
use crate::length::packet_mtu;
use crate::trace::with_headers;
use crate::way::{Arrival, Wire};
use crate::wire::UDP_PORT;
use crate::wire::icrc::{Flow, icrc};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, recvfrom, sendto,
    setsockopt, socket, sockopt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use weft_api::sleepers::Sleepers;
use weft_api::verbs::Nanos;

/// Bytes the kernel shall hold for us; it may hold fewer.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Of all that we send. Not 0, which the kernel would replace; with fragmentation forbidden, it means nothing (RFC 6864).
const IDENTIFICATION: u16 = 1;

const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// A raw socket for what comes, and the port for what leaves. Neither waits.
#[derive(Debug)]
pub struct Raw {
    local: SocketAddr,
    incoming: Arc<OwnedFd>,
    /// Takes packets with their IPv4 header.
    outgoing: Option<OwnedFd>,
    port: UdpSocket,
    sleepers: Arc<Sleepers>,
    due: Arc<Due>,
    started: Instant,
    mtu: u32,
    bytes: Vec<u8>,
}

impl Raw {
    /// Opens a card at `address` and the port of RoCE. `link_mtu` is that of the network interface.
    ///
    /// # Errors
    /// Of the system: raw sockets need CAP_NET_RAW, and one device of a host (also the kernel's rxe) can have the port.
    pub fn open(address: IpAddr, link_mtu: u32) -> io::Result<Card<Raw>> {
        let wire = Raw::new(address, link_mtu)?;
        Ok(Card::new(wire.local, wire))
    }

    /// The wire alone, to be wrapped; its device is at port 4791 of `address`.
    ///
    /// # Errors
    /// See [`Raw::open`].
    pub fn new(address: IpAddr, link_mtu: u32) -> io::Result<Raw> {
        let local = SocketAddr::new(address, UDP_PORT);
        let started = Instant::now();
        let port = UdpSocket::bind(local)?;
        port.set_nonblocking(true)?;
        // It gets a copy of everything, that nobody reads: as few as possible are kept.
        setsockopt(&port, sockopt::RcvBuf, &1)?;
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let incoming = socket(family, SockType::Raw, flags, SockProtocol::Udp)?;
        // What is not granted costs retransmissions, not correctness.
        if setsockopt(&incoming, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            let _ = setsockopt(&incoming, sockopt::RcvBuf, &RECEIVE_BUFFER);
        }
        let outgoing = match family {
            AddressFamily::Inet => Some(socket(family, SockType::Raw, flags, SockProtocol::Raw)?),
            _ => None,
        };
        bind(incoming.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(address, 0)))?;
        Ok(Raw {
            local,
            incoming: Arc::new(incoming),
            outgoing,
            port,
            sleepers: Arc::new(Sleepers::new()?),
            due: Arc::new(Due::new(started)),
            started,
            mtu: packet_mtu(link_mtu),
            bytes: Vec::new(),
        })
    }

    /// The next packet of any kind, into `bytes`.
    fn take_in(&mut self) -> Option<IpAddr> {
        self.bytes.resize(1 << 13, 0);
        let (length, from) = recvfrom::<SockaddrStorage>(self.incoming.as_raw_fd(), &mut self.bytes).ok()?;
        self.bytes.truncate(length);
        let from = from.as_ref().and_then(|storage| {
            let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        });
        Some(from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }
}

impl Wire for Raw {
    type Bell = UdpBell;

    fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }

    fn send(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        // Any other failure (an unreachable peer, say) is a lost datagram: retries find out.
        let Some(outgoing) = &self.outgoing else {
            let result = self.port.send_to(datagram, to);
            return !matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        };
        let (content, _) = datagram.split_at(datagram.len() - 4);
        let mut sealed = content.to_vec();
        let flow = Flow { source: self.local, destination: to };
        sealed.extend(icrc(flow, IDENTIFICATION, content).to_le_bytes());
        let packet = with_headers(self.local, to, IDENTIFICATION, &sealed);
        let to = SockaddrStorage::from(SocketAddr::new(to.ip(), 0));
        !matches!(
            sendto(outgoing.as_raw_fd(), &packet, &to, MsgFlags::empty()),
            Err(Errno::EAGAIN | Errno::ENOBUFS)
        )
    }

    fn receive<'a>(&'a mut self, buffer: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        loop {
            let from = self.take_in()?;
            let parsed =
                if from.is_ipv4() { parse_ipv4(&self.bytes) } else { parse_udp(from, 0, &self.bytes) };
            if let Some(packet) = parsed.filter(|packet| packet.port == self.local.port()) {
                buffer.clear();
                buffer.extend(packet.datagram);
                return Some(Arrival {
                    identification: packet.identification,
                    ..Arrival::new(packet.from, buffer)
                });
            }
        }
    }

    fn bell(&self) -> UdpBell {
        UdpBell::new(Arc::clone(&self.incoming) as _, Arc::clone(&self.sleepers), Arc::clone(&self.due))
    }

    fn is_awaited(&self) -> bool {
        self.sleepers.is_awaited()
    }

    fn wakes_at(&self, deadline: Option<Nanos>) {
        self.due.set(deadline);
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }
}

/// A UDP datagram and what stands around it.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The port it was sent to.
    pub port: u16,
    /// The field of the IPv4 header, which the invariant CRC covers.
    pub identification: u16,
    /// What it carries.
    pub datagram: &'a [u8],
}

/// A packet that begins with an IPv4 header without options. Fragments come joined.
pub fn parse_ipv4(bytes: &[u8]) -> Option<Received<'_>> {
    let (header, rest) = bytes.split_first_chunk::<IPV4_HEADER>()?;
    if header[0] != 0x45 {
        return None;
    }
    let identification = u16::from_be_bytes([header[4], header[5]]);
    let source = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    parse_udp(IpAddr::V4(source), identification, rest)
}

/// A packet that begins with its UDP header.
fn parse_udp(from: IpAddr, identification: u16, bytes: &[u8]) -> Option<Received<'_>> {
    let (header, rest) = bytes.split_first_chunk::<UDP_HEADER>()?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let length = usize::from(word(4)).checked_sub(UDP_HEADER)?;
    let datagram = rest.get(..length)?;
    Some(Received { from: SocketAddr::new(from, word(0)), port: word(2), identification, datagram })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 32] = [
        0x45, 0, 0, 32, 0xab, 0xcd, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2, // IPv4
        0xc1, 0x23, 0x12, 0xb7, 0, 12, 0, 0, // UDP
        1, 2, 3, 4,
    ];

    #[test]
    fn a_packet_is_taken_apart() {
        let packet = parse_ipv4(&PACKET).unwrap();
        let expected = Received {
            from: "10.9.0.1:49443".parse().unwrap(),
            port: 4791,
            identification: 0xabcd,
            datagram: &[1, 2, 3, 4],
        };
        assert_eq!(packet, expected);
        for length in 0..PACKET.len() {
            assert_eq!(parse_ipv4(&PACKET[..length]), None, "of {length} bytes");
        }
        let mut with_options = PACKET;
        with_options[0] = 0x46;
        assert_eq!(parse_ipv4(&with_options), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
            if let Some(packet) = parse_ipv4(&bytes) {
                proptest::prop_assert!(packet.datagram.len() + IPV4_HEADER + UDP_HEADER <= bytes.len());
            }
        }
    }
}
