//! Frames: short packets to neighbours leave with all their headers, past the kernel's IP and UDP.
//!
//! Of the 4.4 us that half a round trip takes between two hosts of one machine by connected UDP sockets, the way of a packet
//! down through UDP and IP is .7: a packet socket gives a frame to the interface's queue at once. That needs the right
//! CAP_NET_RAW, an Ethernet interface, and a peer in its network; everybody else's packets leave by [`crate::exits`], as do
//! those that leave together, of which the kernel makes one. Nothing comes in here, and who receives sees no difference: the
//! frame is the one that the exit's socket would have sent, but for the checksum of UDP, which IPv4 may do without
//! (RFC 768; annex A17.3.1.3 asks for that).
//!
//! What the kernel would notice is not noticed here: that nobody has the port any more, that the peer's address has moved
//! to another interface. So frames leave only while the peer is heard. When an answer is overdue ([`Exit::doubt`]) packets leave by the
//! socket until something has come from there, and then the neighbour is looked up anew.
//!
//! [`Exit::doubt`]: crate::exits::Exit::doubt

use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, bind, send, socket};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of the headers of Ethernet, of IP without options, of UDP.
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const HEADERS: usize = ETHERNET + IP + UDP;

/// Bytes of the longest datagram: what a usual frame carries.
const MOST: usize = 1500 - IP - UDP;

/// Where the kernel shows whom it knows in the networks of this host.
const NEIGHBOURS: &str = "/proc/net/arp";

/// An address of Ethernet.
type Station = [u8; 6];

/// An Ethernet interface of this host, and a socket for whole frames, which leave by it.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    interface: String,
    station: Station,
    own: Ipv4Addr,
    mask: u32,
}

impl Link {
    /// That of the interface which has this address.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn open(local: IpAddr) -> Result<Link, &'static str> {
        let IpAddr::V4(own) = local else { return Err("IPv6 wants a checksum") };
        let all: Vec<InterfaceAddress> =
            getifaddrs().map_err(|_| "the interfaces are not told")?.collect();
        let v4 = |of: &Option<nix::sys::socket::SockaddrStorage>| {
            of.as_ref().and_then(|address| address.as_sockaddr_in()).map(|v4| v4.ip())
        };
        let interface =
            all.iter().find(|one| v4(&one.address) == Some(own)).ok_or("no interface has the address")?;
        let mask = v4(&interface.netmask).ok_or("its network is not known")?;
        let plain = InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_NOARP | InterfaceFlags::IFF_POINTOPOINT;
        if interface.flags.intersects(plain) {
            return Err("the interface has no neighbours");
        }
        let same = all.iter().filter(|one| one.interface_name == interface.interface_name);
        let link = same.filter_map(|one| one.address.as_ref()?.as_link_addr()).next();
        let link = link.ok_or("the interface is no Ethernet")?;
        let station = link.addr().filter(|_| link.hatype() == ETHERNET_TYPE);
        let station = station.ok_or("the interface is no Ethernet")?;
        // Of no protocol: nothing comes in.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .map_err(|_| "the process has no CAP_NET_RAW")?;
        bind(socket.as_raw_fd(), link).map_err(|_| "the interface takes no frames")?;
        let interface = interface.interface_name.clone();
        Ok(Link { socket, interface, station, own, mask: mask.to_bits() })
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
        Some(Frame::new(self.station, station, from, to))
    }

    /// Sends a datagram in its frame. It must not be longer than [`Frame::takes`] says.
    #[inline]
    pub(crate) fn send(&self, frame: &mut Frame, datagram: &[u8]) -> Result<usize, Errno> {
        send(self.socket.as_raw_fd(), frame.around(datagram), MsgFlags::empty())
    }
}

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
    bytes: Box<[u8; HEADERS + MOST]>,
    /// The sum of the IP header without its length.
    sum: u32,
}

impl Frame {
    fn new(station: Station, neighbour: Station, from: SocketAddr, to: SocketAddr) -> Frame {
        let mut bytes = Box::new([0; HEADERS + MOST]);
        bytes[..6].copy_from_slice(&neighbour);
        bytes[6..12].copy_from_slice(&station);
        bytes[12..ETHERNET].copy_from_slice(&[8, 0]);
        let packet = crate::trace::with_headers(from, to, 0, &[]);
        bytes[ETHERNET..HEADERS].copy_from_slice(&packet);
        // Length and checksum are each packet's own.
        bytes[ETHERNET + 2..ETHERNET + 4].fill(0);
        bytes[ETHERNET + 10..ETHERNET + 12].fill(0);
        let header = bytes[ETHERNET..ETHERNET + IP].chunks(2);
        let sum = header.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        Frame { bytes, sum }
    }

    /// Whether it has room for a datagram.
    #[inline]
    pub(crate) fn takes(datagram: &[u8]) -> bool {
        datagram.len() <= MOST
    }

    /// The frame of a datagram.
    #[inline]
    fn around(&mut self, datagram: &[u8]) -> &[u8] {
        let length = (IP + UDP + datagram.len()) as u16;
        let sum = self.sum + u32::from(length);
        let sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let bytes = &mut self.bytes;
        bytes[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&length.to_be_bytes());
        bytes[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
        let udp = length - IP as u16;
        bytes[ETHERNET + IP + 4..ETHERNET + IP + 6].copy_from_slice(&udp.to_be_bytes());
        bytes[HEADERS..HEADERS + datagram.len()].copy_from_slice(datagram);
        &bytes[..HEADERS + datagram.len()]
    }
}
