//! A wire that writes down what passes, in the format that packet dissectors read.

use crate::way::{Arrival, Clock, Unreachable, Wire, is_of_connection};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use weft_api::verbs::Nanos;

/// Packets that begin with their IP header (LINKTYPE_RAW).
const LINK_TYPE: u32 = 101;

/// Writes datagrams as a capture file (pcap, with nanoseconds).
#[derive(Debug)]
pub struct Capture<O>(O);

impl<O: Write> Capture<O> {
    /// Begins a file.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(mut output: O) -> io::Result<Capture<O>> {
        const NANOSECOND_MAGIC: u32 = 0xa1b2_3c4d;
        const VERSION: u32 = 4 << 16 | 2;
        for word in [NANOSECOND_MAGIC, VERSION, 0, 0, 1 << 16, LINK_TYPE] {
            output.write_all(&word.to_le_bytes())?;
        }
        Ok(Capture(output))
    }

    /// Writes one datagram, with the headers that it has on the way.
    ///
    /// # Errors
    /// Of the output.
    pub fn write(&mut self, at: Nanos, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        self.write_identified(at, (from, to), 0, datagram)
    }

    /// As [`Capture::write`], of one whose IPv4 header has an identification.
    ///
    /// # Errors
    /// Of the output.
    pub fn write_identified(
        &mut self,
        at: Nanos,
        (from, to): (SocketAddr, SocketAddr),
        identification: u16,
        datagram: &[u8],
    ) -> io::Result<()> {
        self.record(at, &with_headers(from, to, identification, datagram), 0)
    }

    /// As [`Capture::write`], of the first bytes of a datagram that has so many more. Returns what the file has grown by.
    ///
    /// # Errors
    /// Of the output.
    pub fn write_beginning(
        &mut self,
        at: Nanos,
        (from, to): (SocketAddr, SocketAddr),
        beginning: &[u8],
        more: u16,
    ) -> io::Result<u64> {
        let packet = with_headers_of(from, to, 0, beginning, more);
        self.record(at, &packet, u32::from(more))?;
        Ok(16 + packet.len() as u64)
    }

    fn record(&mut self, at: Nanos, packet: &[u8], more: u32) -> io::Result<()> {
        let length = packet.len() as u32;
        for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, length, length + more] {
            self.0.write_all(&word.to_le_bytes())?;
        }
        self.0.write_all(packet)
    }

    /// The output, to work with.
    pub const fn output(&mut self) -> &mut O {
        &mut self.0
    }

    /// The output.
    pub fn into_inner(self) -> O {
        self.0
    }
}

/// A packet from its IP header on.
pub(crate) fn with_headers(
    from: SocketAddr,
    to: SocketAddr,
    identification: u16,
    datagram: &[u8],
) -> Vec<u8> {
    with_headers_of(from, to, identification, datagram, 0)
}

/// The same of the first bytes of a datagram that has so many more.
fn with_headers_of(
    from: SocketAddr,
    to: SocketAddr,
    identification: u16,
    datagram: &[u8],
    more: u16,
) -> Vec<u8> {
    let udp_bytes = (8 + datagram.len()) as u16 + more;
    let mut packet = Vec::with_capacity(48 + datagram.len());
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + udp_bytes).to_be_bytes());
            packet.extend(identification.to_be_bytes());
            packet.extend([0x40, 0, 64, 17, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(udp_bytes.to_be_bytes());
            packet.extend([17, 64]);
            packet.extend(octets(from));
            packet.extend(octets(to));
        }
    }
    for word in [from.port(), to.port(), udp_bytes, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(datagram);
    packet
}

/// The checksum of an IPv4 header whose own field is zero (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// A wire whose traffic is written down. A capture that cannot be written any more stops, and the traffic goes on.
#[derive(Debug)]
pub struct Traced<W, O> {
    wire: W,
    local: SocketAddr,
    capture: Option<Capture<O>>,
}

impl<W: Wire, O: Write> Traced<W, O> {
    /// Writes down what passes the wire of the device at `local`.
    pub fn new(wire: W, local: SocketAddr, capture: Capture<O>) -> Traced<W, O> {
        Traced { wire, local, capture: Some(capture) }
    }
}

/// Writes a datagram down, from where to where.
fn note<O: Write>(
    capture: &mut Option<Capture<O>>,
    now: Nanos,
    way: (SocketAddr, SocketAddr),
    identification: u16,
    datagram: &[u8],
) {
    if let Some(going_on) = capture
        && going_on.write_identified(now, way, identification, datagram).is_err()
    {
        *capture = None;
    }
}

impl<W: Wire, O: Write> Wire for Traced<W, O> {
    type Bell = W::Bell;

    fn now(&self) -> Nanos {
        self.wire.now()
    }

    fn clock(&self) -> Clock {
        self.wire.clock()
    }

    fn send(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        let copy = datagram.clone();
        let sent = self.wire.send(to, datagram);
        if sent {
            let exit = match is_of_connection(&copy) {
                true => self.wire.source(to),
                false => self.wire.leaves_by(to),
            };
            let way = (exit.unwrap_or(self.local), to);
            note(&mut self.capture, self.wire.now(), way, 0, &copy);
        }
        sent
    }

    fn receive<'a>(&'a mut self, buffer: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        let now = self.wire.now();
        let arrival = self.wire.receive(buffer)?;
        let way = (arrival.from, arrival.at.unwrap_or(self.local));
        note(&mut self.capture, now, way, arrival.identification, arrival.datagram);
        Some(arrival)
    }

    fn flush(&mut self) -> bool {
        self.wire.flush()
    }

    fn source(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        self.wire.source(to)
    }

    fn more_addresses(&self) -> Vec<SocketAddr> {
        self.wire.more_addresses()
    }

    fn leaves_by(&self, to: SocketAddr) -> Option<SocketAddr> {
        self.wire.leaves_by(to)
    }

    fn goes_on(&self) -> bool {
        self.wire.goes_on()
    }

    fn unreachable(&mut self) -> Option<Unreachable> {
        self.wire.unreachable()
    }

    fn tells_unreachable(&self) -> bool {
        self.wire.tells_unreachable()
    }

    fn is_gone(&mut self, address: SocketAddr) -> bool {
        self.wire.is_gone(address)
    }

    fn bell(&self) -> W::Bell {
        self.wire.bell()
    }

    fn room(&self) -> u32 {
        self.wire.room()
    }

    fn is_awaited(&self) -> bool {
        self.wire.is_awaited()
    }

    fn wakes_at(&self, deadline: Option<Nanos>) {
        self.wire.wakes_at(deadline);
    }

    fn mtu(&self) -> u32 {
        self.wire.mtu()
    }

    fn mtu_to(&self, to: SocketAddr) -> u32 {
        self.wire.mtu_to(to)
    }
}
