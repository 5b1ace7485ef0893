//! Frames: short packets to neighbours leave with all their headers, past the kernel's IP and UDP.
//!
//! Of the 4.4 us that half a round trip takes between two hosts of one machine by connected UDP sockets, the way of a packet
//! down through UDP and IP is .7: a packet socket gives a frame to the interface's queue at once. That needs the right
//! CAP_NET_RAW, an Ethernet interface, and a peer in its network; everybody else's packets leave by [`crate::exits`], as do
//! many that leave together, of which the kernel makes one. A few leave in one long frame that says where it is to be cut. Nothing
//! comes in here, and who receives sees no difference: the frame is the one that the exit's socket would have sent, but for the checksum
//! of UDP, which IPv4 may do without (RFC 768).
//!
//! What the kernel would notice is not noticed here: that nobody has the port any more, that the peer's address has moved
//! to another interface. So frames leave only while the peer is heard. When an answer is overdue ([`Exit::doubt`]) packets leave by the
//! socket until something has come from there, and then the neighbour is looked up anew.
//!
//! [`Exit::doubt`]: crate::exits::Exit::doubt

use crate::length::link_mtu;
use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, bind, send, sendmsg, setsockopt, socket, sockopt,
};
use nix::{libc, setsockopt_impl};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of what is in front of a frame that is to be cut, of the headers of Ethernet, of IP without options, of UDP.
const FRONT: usize = 10;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const HEADERS: usize = ETHERNET + IP + UDP;

/// Bytes of the longest datagram: a packet of 4096 bytes with its own headers.
const MOST: usize = 4096 + 64;

/// Bytes of the longest datagram that the kernel keeps in one piece without being told: a page holds it with its headers and what the kernel adds.
/// Of longer ones it asks for pages, .7 us more, unless the header in front says that all is header.
const MOST_IN_A_PAGE: usize = 3800;

/// Most datagrams that leave in one frame: two take 4.6 us so and 5.3 by a socket that cuts, five 5.6 and 6.0, seventeen 8.0 either way.
const FEW: usize = 8;

/// Bytes of frames that may be under way, where the system grants it.
const SEND_BUFFER: usize = 1 << 20;

/// Where the kernel shows whom it knows in the networks of this host.
const NEIGHBOURS: &str = "/proc/net/arp";

/// An address of Ethernet.
type Station = [u8; 6];

/// An Ethernet interface of this host, and a socket for whole frames, which leave by it.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    /// The same for frames that are to be cut, where the kernel does it.
    cutter: Option<OwnedFd>,
    interface: String,
    station: Station,
    own: Ipv4Addr,
    mask: u32,
    /// Bytes of the longest datagram that it carries whole.
    most: usize,
}

impl Link {
    /// That of the interface which has this address.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn open(local: IpAddr) -> Result<Link, &'static str> {
        let IpAddr::V4(own) = local else { return Err("IPv6 wants a checksum") };
        let all: Vec<InterfaceAddress> = getifaddrs().map_err(|_| "the interfaces are not told")?.collect();
        let v4 = |of: &Option<nix::sys::socket::SockaddrStorage>| {
            of.as_ref().and_then(|address| address.as_sockaddr_in()).map(|v4| v4.ip())
        };
        let interface =
            all.iter().find(|one| v4(&one.address) == Some(own)).ok_or("no interface has the address")?;
        let mask = v4(&interface.netmask).ok_or("its network is not known")?;
        let plain =
            InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_NOARP | InterfaceFlags::IFF_POINTOPOINT;
        if interface.flags.intersects(plain) {
            return Err("the interface has no neighbours");
        }
        let same = all.iter().filter(|one| one.interface_name == interface.interface_name);
        let link = same.filter_map(|one| one.address.as_ref()?.as_link_addr()).next();
        let link = link.ok_or("the interface is no Ethernet")?;
        let station = link.addr().filter(|_| link.hatype() == ETHERNET_TYPE);
        let station = station.ok_or("the interface is no Ethernet")?;
        let socket = open(link).ok_or("the process has no CAP_NET_RAW")?;
        let cutter = open(link).filter(|cutter| setsockopt(cutter, FrontHeader, &true).is_ok());
        let interface = interface.interface_name.clone();
        let most = link_mtu(local) as usize - IP - UDP;
        Ok(Link { socket, cutter, interface, station, own, mask: mask.to_bits(), most })
    }

    /// What packets from here to a neighbour look like; `None`: it is none, or not known now.
    pub(crate) fn frame(&self, from: SocketAddr, to: SocketAddr) -> Option<Frame> {
        let (SocketAddr::V4(source), SocketAddr::V4(target)) = (from, to) else { return None };
        let (near, other) = (self.own.to_bits() & self.mask, target.ip().to_bits() & self.mask);
        if near != other || *source.ip() != self.own || *target.ip() == self.own {
            return None;
        }
        let neighbours = std::fs::read_to_string(NEIGHBOURS).ok()?;
        let station = station_of(&neighbours, *target.ip(), &self.interface)?;
        Some(Frame::new(self.station, station, from, to, self.most))
    }

    /// Sends a datagram in its frame. It must not be longer than [`Frame::takes`] says.
    #[inline]
    pub(crate) fn send(&mut self, frame: &mut Frame, datagram: &[u8]) -> Result<usize, Errno> {
        if datagram.len() > MOST_IN_A_PAGE
            && let Some(cutter) = &self.cutter
        {
            let sent = send(cutter.as_raw_fd(), frame.around_in_one(datagram), MsgFlags::empty());
            match sent {
                Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS) => return sent,
                Err(_) => self.cuts_nothing(),
            }
        }
        send(self.socket.as_raw_fd(), frame.around(datagram), MsgFlags::empty())
    }

    /// Whether datagrams may leave in one frame.
    #[inline]
    pub(crate) fn takes_together(&self, datagrams: &[Vec<u8>]) -> bool {
        datagrams.len() <= FEW && self.cutter.is_some()
    }

    /// Sends datagrams in one frame, all as long as the first but for the last.
    pub(crate) fn send_together(&self, frame: &mut Frame, datagrams: &[Vec<u8>]) -> Result<usize, Errno> {
        let Some(cutter) = &self.cutter else { return Err(Errno::EOPNOTSUPP) };
        let mut bytes = [IoSlice::new(&[]); 1 + FEW];
        bytes[0] = IoSlice::new(frame.in_front_of(datagrams));
        for (place, datagram) in bytes[1..].iter_mut().zip(datagrams) {
            *place = IoSlice::new(datagram);
        }
        let bytes = &bytes[..1 + datagrams.len()];
        sendmsg::<LinkAddr>(cutter.as_raw_fd(), bytes, &[], MsgFlags::empty(), None)
    }

    /// The kernel does not cut.
    pub(crate) fn cuts_nothing(&mut self) {
        self.cutter = None;
    }
}

/// A socket for frames that leave by an interface. Of no protocol: nothing comes in.
fn open(link: &LinkAddr) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).ok()?;
    if setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER).is_err() {
        let _ = setsockopt(&socket, sockopt::SndBuf, &SEND_BUFFER);
    }
    bind(socket.as_raw_fd(), link).ok()?;
    Some(socket)
}

// A header of ours is in front of each frame, which says how it is to be cut (`packet(7)`).
setsockopt_impl!(FrontHeader, libc::SOL_PACKET, libc::PACKET_VNET_HDR, bool, sockopt::SetBool);

#[derive(Clone, Copy, Debug)]
struct FrontHeader;

/// Ethernet, among the kinds of interfaces (ARPHRD_ETHER).
const ETHERNET_TYPE: u16 = 1;

/// The address of a neighbour in the kernel's table: a line for each, of which the first field is the address, the third are the flags (2: it
/// has answered), the fourth the address of Ethernet and the last the interface.
fn station_of(neighbours: &str, address: Ipv4Addr, interface: &str) -> Option<Station> {
    neighbours.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[at, "0x1", flags, station, _, by] = fields.as_slice() else { return None };
        let answered = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()? & 2 != 0;
        if at.parse() != Ok(address) || by != interface || !answered {
            return None;
        }
        let mut bytes = station.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
        let station: Station = std::array::from_fn(|_| bytes.next().flatten().unwrap_or(0));
        (bytes.next().is_none() && station != [0; 6]).then_some(station)
    })
}

/// A packet to one peer: its headers, and room for a datagram.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Box<[u8; FRONT + HEADERS + MOST]>,
    /// Bytes of the longest datagram.
    most: usize,
    /// The sum of the IP header without its length, and of the addresses and the protocol, which the checksum of UDP covers.
    header: u32,
    addresses: u32,
}

/// Where the headers begin.
const AT_IP: usize = FRONT + ETHERNET;
const AT_UDP: usize = AT_IP + IP;
const AT_DATA: usize = AT_UDP + UDP;

impl Frame {
    fn new(station: Station, neighbour: Station, from: SocketAddr, to: SocketAddr, most: usize) -> Frame {
        let mut bytes = Box::new([0; FRONT + HEADERS + MOST]);
        bytes[FRONT..FRONT + 6].copy_from_slice(&neighbour);
        bytes[FRONT + 6..FRONT + 12].copy_from_slice(&station);
        bytes[FRONT + 12..AT_IP].copy_from_slice(&[8, 0]);
        bytes[AT_IP..AT_DATA].copy_from_slice(&crate::trace::with_headers(from, to, 0, &[]));
        // Length and checksum are each packet's own.
        bytes[AT_IP + 2..AT_IP + 4].fill(0);
        bytes[AT_IP + 10..AT_IP + 12].fill(0);
        let header = sum(&bytes[AT_IP..AT_UDP]);
        let addresses = sum(&bytes[AT_IP + 12..AT_UDP]) + u32::from(bytes[AT_IP + 9]);
        Frame { bytes, most: most.min(MOST), header, addresses }
    }

    /// Whether it has room for a datagram.
    #[inline]
    pub(crate) fn takes(&self, datagram: &[u8]) -> bool {
        datagram.len() <= self.most
    }

    /// The frame of a datagram.
    #[inline]
    fn around(&mut self, datagram: &[u8]) -> &[u8] {
        self.set_length(datagram.len());
        // None.
        self.bytes[AT_UDP + 6..AT_DATA].fill(0);
        self.bytes[AT_DATA..AT_DATA + datagram.len()].copy_from_slice(datagram);
        &self.bytes[FRONT..AT_DATA + datagram.len()]
    }

    /// The frame of a long datagram behind a header that wants nothing done, but all of it in one piece.
    fn around_in_one(&mut self, datagram: &[u8]) -> &[u8] {
        let whole = self.around(datagram).len();
        self.bytes[..FRONT].fill(0);
        self.bytes[2..4].copy_from_slice(&(whole as u16).to_ne_bytes());
        &self.bytes[..FRONT + whole]
    }

    /// What is in front of several in one frame: how it is to be cut (section 5.1.6 of the specification of virtio), and the headers, of
    /// which the kernel makes those of each.
    fn in_front_of(&mut self, datagrams: &[Vec<u8>]) -> &[u8] {
        const WANTS_CHECKSUM: u8 = 1;
        const BY_UDP: u8 = 5;
        let length = datagrams.iter().map(Vec::len).sum();
        let each = datagrams.first().map_or(0, Vec::len) as u16;
        let udp = self.set_length(length);
        // All of it is header, as far as the kernel must know: then it is kept in one piece.
        let words = [(HEADERS + length) as u16, each, (ETHERNET + IP) as u16, 6];
        self.bytes[..2].copy_from_slice(&[WANTS_CHECKSUM, BY_UDP]);
        for (place, word) in self.bytes[2..FRONT].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let begun = fold(self.addresses + u32::from(udp));
        self.bytes[AT_UDP + 6..AT_DATA].copy_from_slice(&begun.to_be_bytes());
        &self.bytes[..AT_DATA]
    }

    /// Enters how many bytes the headers are of. The length that the one of UDP says.
    #[inline]
    fn set_length(&mut self, data: usize) -> u16 {
        let (all, udp) = ((IP + UDP + data) as u16, (UDP + data) as u16);
        let checksum = !fold(self.header + u32::from(all));
        self.bytes[AT_IP + 2..AT_IP + 4].copy_from_slice(&all.to_be_bytes());
        self.bytes[AT_IP + 10..AT_IP + 12].copy_from_slice(&checksum.to_be_bytes());
        self.bytes[AT_UDP + 4..AT_UDP + 6].copy_from_slice(&udp.to_be_bytes());
        udp
    }
}

/// The sum of words (RFC 1071).
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
}

/// In sixteen bits, with the carries.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests;
