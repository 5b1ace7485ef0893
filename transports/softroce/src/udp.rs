//! Datagrams over a UDP socket of the system.
//!
//! Datagrams of one length to one address leave with one call, and come in with one, where the kernel can cut and join them
//! (`UDP_SEGMENT`, `UDP_GRO`): they travel through a host, and from namespace to namespace, as one. What the network says of
//! addresses where nobody is, the kernel keeps for us (`IP_RECVERR`).

use crate::bell::{Due, UdpBell};
use crate::buffers::{SOCKET_BUFFER, widen};
use crate::card::Card;
use crate::entrance::{Doors, Entrance, Look};
use crate::exits::{self, Exits};
use crate::faults::{Faults, Mischief};
use crate::length::{packet_mtu, path_mtu};
use crate::requester::USUAL_WINDOW;
use crate::way::{Arrival, Clock, Unreachable, Wire, is_of_connection};
use crate::wire::UDP_PORT;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, getsockopt, recv, recvmsg, sendmsg,
    setsockopt, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use weft_api::sleepers::Sleepers;
use weft_api::verbs::Nanos;

/// Packets of a connection under way where it does: of a few such peers they find room at the same time, even if each takes a page or two.
const WIDE: u32 = 512;
/// And where it holds little and packets are long.
const LEAST_WINDOW: u32 = 16;

/// Most datagrams that leave with one call (the kernel's limit), and most bytes of them.
const MOST_JOINED: usize = 64;
const MOST_BYTES: usize = 65_000;
/// Datagrams in a row after which the first of them leave: the other end takes these in while the next are made.
const FIRST_JOINED: usize = 32;
/// Most bytes that come with one call: an IP packet.
const MOST_RECEIVED: usize = 1 << 16;
/// Turns in a row with something, after which each looks until there is nothing more.
const STREAM: u32 = 4;
/// Calls that may end with news of earlier datagrams before one is given up for this turn: a pending error is told once.
const TRIES: usize = 3;

/// A UDP socket that never waits.
#[derive(Debug)]
pub struct Udp {
    doors: Arc<Doors>,
    entrance: Entrance,
    sleepers: Arc<Sleepers>,
    due: Arc<Due>,
    started: Instant,
    mtu: u32,
    outgoing: Joined,
    mischief: Option<Mischief>,
    exits: Exits,
    /// What sending at an exit said of its other end.
    told: Vec<Unreachable>,
    /// Whether the kernel cuts what leaves together.
    cuts: bool,
    /// What came together: a buffer that is never filled anew, how much of it came, how long each datagram is, what was given
    /// out, and whom it is from.
    incoming: Box<[u8]>,
    /// For what the kernel says of it.
    control: Vec<u8>,
    came: usize,
    each: usize,
    given: usize,
    from: Option<SocketAddr>,
    /// Turns in a row that found something.
    streak: u32,
    /// Whether the kernel keeps news of datagrams that reached nobody.
    news: bool,
}

/// Datagrams that leave together: all as long as the first, but for the last.
#[derive(Debug, Default)]
struct Joined {
    /// The first `number`; behind them is room for others, changed for theirs.
    datagrams: Vec<Vec<u8>>,
    /// How many leave together at most.
    limit: usize,
    bytes: usize,
    to: Option<SocketAddr>,
    each: usize,
    number: usize,
    /// Its last one is shorter.
    closed: bool,
    /// They belong to connections, whose packets may leave by an exit.
    of_connections: bool,
}

impl Joined {
    /// Whether a datagram can leave with those that are here.
    fn takes(&self, to: SocketAddr, datagram: &[u8]) -> bool {
        let length = datagram.len();
        self.number == 0
            || self.to == Some(to)
                && self.of_connections == is_of_connection(datagram)
                && !self.closed
                && length <= self.each
                && self.number < self.limit
                && self.bytes + length <= MOST_BYTES
    }

    fn push(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) {
        if self.number == 0 {
            (self.to, self.each) = (Some(to), datagram.len());
            self.of_connections = is_of_connection(datagram);
        }
        self.closed = datagram.len() < self.each;
        self.bytes += datagram.len();
        if self.number == self.datagrams.len() {
            self.datagrams.push(Vec::new());
        }
        std::mem::swap(&mut self.datagrams[self.number], datagram);
        self.number += 1;
    }

    /// Gives back the only one.
    fn take_back(&mut self, datagram: &mut Vec<u8>) {
        std::mem::swap(&mut self.datagrams[0], datagram);
        self.clear();
    }

    fn clear(&mut self) {
        (self.number, self.bytes, self.closed) = (0, 0, false);
    }
}

impl Udp {
    /// Opens a card at `address`; port 0 lets the system choose, which other programs' devices cannot talk to (they want 4791).
    /// `link_mtu` is that of the network interface: [`crate::link_mtu`].
    ///
    /// # Errors
    /// Of the system.
    pub fn open(address: IpAddr, port: Option<u16>, link_mtu: u32) -> io::Result<Card<Udp>> {
        Udp::open_with(address, port, link_mtu, None)
    }

    /// As [`Udp::open`], over a network that is bad on purpose.
    ///
    /// # Errors
    /// As [`Udp::open`].
    pub fn open_with(
        address: IpAddr,
        port: Option<u16>,
        link_mtu: u32,
        faults: Option<Faults>,
    ) -> io::Result<Card<Udp>> {
        let udp = Udp::new(address, port, link_mtu, faults)?;
        Ok(Card::new(udp.doors.own.local_addr()?, udp))
    }

    fn new(address: IpAddr, port: Option<u16>, link_mtu: u32, faults: Option<Faults>) -> io::Result<Udp> {
        let started = Instant::now();
        let socket = UdpSocket::bind((address, port.unwrap_or(UDP_PORT)))?;
        socket.set_nonblocking(true)?;
        widen(&socket);
        // Kernels that do not join give one datagram at a time.
        let _ = setsockopt(&socket, sockopt::UdpGroSegment, &true);
        match address {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
        }
        Ok(Udp {
            doors: Arc::new(Doors { own: socket, entrance: OnceLock::new() }),
            entrance: Entrance::default(),
            sleepers: Arc::new(Sleepers::new()?),
            due: Arc::new(Due::new(started)),
            started,
            mtu: packet_mtu(link_mtu),
            outgoing: Joined { limit: FIRST_JOINED, ..Joined::default() },
            mischief: faults.map(Mischief::new),
            exits: Exits::new(address),
            told: Vec::new(),
            cuts: true,
            incoming: vec![0; MOST_RECEIVED].into(),
            control: nix::cmsg_space!(i32),
            came: 0,
            each: 0,
            given: 0,
            from: None,
            streak: 0,
            news: false,
        })
    }
}

impl Wire for Udp {
    type Bell = UdpBell;

    fn now(&self) -> Nanos {
        self.clock().read()
    }

    #[inline]
    fn clock(&self) -> Clock {
        Clock::Since(self.started)
    }

    fn send(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        if let Some(mischief) = &mut self.mischief {
            // What finds no room now is lost as well.
            let mut leaving = mischief.of(to, datagram);
            for (to, datagram) in &mut leaving {
                let _ = self.join(*to, datagram);
            }
            return true;
        }
        self.join(to, datagram)
    }

    fn send_last(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        if self.outgoing.number > 0 || self.mischief.is_some() {
            return self.send(to, datagram);
        }
        self.give(to, std::slice::from_ref(datagram), is_of_connection(datagram))
    }

    fn flush(&mut self) -> bool {
        self.outgoing.limit = FIRST_JOINED;
        self.send_joined()
    }

    fn receive<'a>(&'a mut self, _: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        if self.given >= self.came && self.take_in().is_none() {
            self.streak = 0;
            return None;
        }
        let begin = self.given;
        self.given = (begin + self.each).min(self.came);
        Some(Arrival::new(self.from?, &self.incoming[begin..self.given]))
    }

    fn goes_on(&self) -> bool {
        // Behind as many together as leave in one call there are often others, and in a stream. Fewer are the end of what somebody had to say, and a look in vain
        // is half a microsecond in which nobody has them.
        let many = self.each < self.came
            && (self.came >= self.each * FIRST_JOINED || self.came + self.each > MOST_BYTES);
        self.given < self.came || many || self.streak >= STREAM
    }

    fn source(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        self.exits.find_or_open(to).map(|exit| exit.from)
    }

    #[inline]
    fn unreachable(&mut self) -> Option<Unreachable> {
        if self.told.is_empty() && !self.news { None } else { self.next_news() }
    }

    fn tells_unreachable(&self) -> bool {
        true
    }

    fn doubt(&mut self, address: SocketAddr) {
        self.exits.doubt(address);
    }

    fn is_gone(&mut self, address: SocketAddr) -> bool {
        let now = self.now();
        self.exits.is_gone(address, now)
    }

    fn bell(&self) -> UdpBell {
        UdpBell::new(Arc::clone(&self.doors) as _, Arc::clone(&self.sleepers), Arc::clone(&self.due))
    }

    #[inline]
    fn is_awaited(&self) -> bool {
        self.sleepers.is_awaited()
    }

    fn wakes_at(&self, deadline: Option<Nanos>) {
        self.due.set(deadline);
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn mtu_to(&self, to: SocketAddr) -> u32 {
        // A router may be between, or another network.
        path_mtu(self.exits.local(), to).map_or(self.mtu, |path| self.mtu.min(packet_mtu(path)))
    }

    fn room(&self) -> u32 {
        // The other end's is taken to be like this one.
        let granted = getsockopt(&self.doors.own, sockopt::RcvBuf).unwrap_or(0);
        let packets = granted as u32 / (self.mtu + 256);
        if granted >= SOCKET_BUFFER { WIDE } else { packets.clamp(LEAST_WINDOW, USUAL_WINDOW) }
    }
}

impl Udp {
    /// Sets whether short packets may leave in frames of Ethernet, where they can.
    pub fn set_frames(&mut self, wanted: bool) {
        self.exits.set_frames(wanted);
    }

    /// Why packets leave by sockets only; `None`: to neighbours they leave in frames.
    pub fn lacks_frames(&self) -> Option<&'static str> {
        self.exits.lacks_frames()
    }

    /// What the kernel says of addresses where nobody is.
    #[cold]
    fn next_news(&mut self) -> Option<Unreachable> {
        if let Some(told) = self.told.pop() {
            return Some(told);
        }
        while std::mem::take(&mut self.news) {
            let mut bytes = [0; 64];
            let mut iov = [IoSliceMut::new(&mut bytes)];
            let mut space = nix::cmsg_space!([u8; 128]);
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let Ok(message) =
                recvmsg::<SockaddrStorage>(self.doors.own.as_raw_fd(), &mut iov, Some(&mut space), flags)
            else {
                return None;
            };
            self.news = true;
            let Some(address) = message.address.as_ref().and_then(socket_address) else { continue };
            for control in message.cmsgs().ok()? {
                let (ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)) =
                    control
                else {
                    continue;
                };
                match Errno::from_raw(error.ee_errno as i32) {
                    Errno::ECONNREFUSED => return Some(Unreachable { address, certain: true }),
                    Errno::EHOSTUNREACH | Errno::ENETUNREACH => {
                        return Some(Unreachable { address, certain: false });
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// Puts a datagram to those that leave together. `false`: no room now.
    fn join(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        if !self.outgoing.takes(to, datagram) {
            if self.outgoing.number == self.outgoing.limit {
                self.outgoing.limit = MOST_JOINED;
            }
            if !self.send_joined() {
                return false;
            }
        }
        self.outgoing.push(to, datagram);
        if self.cuts || self.send_joined() {
            return true;
        }
        // It will be offered again.
        self.outgoing.take_back(datagram);
        false
    }

    fn send_joined(&mut self) -> bool {
        let Some(to) = self.outgoing.to.filter(|_| self.outgoing.number > 0) else { return true };
        let Joined { number, of_connections, .. } = self.outgoing;
        let datagrams = std::mem::take(&mut self.outgoing.datagrams);
        let sent = self.give(to, &datagrams[..number], of_connections);
        self.outgoing.datagrams = datagrams;
        if sent {
            self.outgoing.clear();
        }
        sent
    }

    /// Gives the kernel datagrams, as many as [`MOST_JOINED`] at most, all as long as the first but for the last. `false`: no room now.
    fn give(&mut self, to: SocketAddr, datagrams: &[Vec<u8>], of_connections: bool) -> bool {
        // Datagrams of no connection leave from the device's own port, and so does everything to those that have no exit.
        for _ in 0..TRIES {
            let sent = match datagrams {
                _ if !of_connections => None,
                [datagram] => self.exits.send(to, datagram),
                _ => self.exits.send_together(to, datagrams),
            };
            let by_exit = sent.is_some();
            let sent = sent.unwrap_or_else(|| send_together(&self.doors.own, datagrams, Some(to)));
            match sent {
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return false,
                Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE) if datagrams.len() > 1 => {
                    // This way does not cut; what is lost here comes again, one by one.
                    self.cuts = false;
                    break;
                }
                // News of an earlier datagram, and this one has not left; or it cannot leave, and is a lost one: retries find
                // out.
                Err(error) if by_exit => {
                    self.exits.find(to).into_iter().for_each(|exit| drain_errors(&exit.socket));
                    self.told.extend(exits::told(to, error));
                }
                Err(_) => self.news = true,
                Ok(_) => break,
            }
        }
        self.entrance.sent();
        true
    }

    /// Receives what has come together.
    fn take_in(&mut self) -> Option<()> {
        self.came = 0;
        self.given = 0;
        match self.entrance.next_look() {
            Look::Own => self.take_beside(),
            Look::OwnFirst => self.take_beside().or_else(|| self.take_at_entrance()),
            Look::EntranceFirst => self.take_at_entrance().or_else(|| self.take_beside()),
            Look::Entrance => self.take_at_entrance(),
        }
    }

    /// At the device's own socket.
    fn take_beside(&mut self) -> Option<()> {
        for _ in 0..TRIES {
            match take_asking(&self.doors.own, &mut self.incoming, &mut self.control) {
                Ok(taken) => {
                    let (from, joined) = (self.took(taken)?, self.each < self.came);
                    if self.entrance.came_beside(from, joined) && self.entrance.give(&self.doors, from) {
                        // Who sleeps knows of one socket.
                        self.sleepers.ring();
                    }
                    return (self.came > 0).then_some(());
                }
                Err(Errno::EAGAIN) => {
                    self.entrance.nothing_beside();
                    return None;
                }
                // News of an earlier datagram that did not arrive, whatever the reason: as long as nobody takes it, sleeps end
                // at once.
                Err(_) => self.news = true,
            }
        }
        None
    }

    /// At the socket of the peer that most come from.
    fn take_at_entrance(&mut self) -> Option<()> {
        let entrance = self.doors.entrance.get()?;
        let taken = if self.entrance.asks || self.entrance.joins {
            take_asking(entrance, &mut self.incoming, &mut self.control)
        } else {
            let from = self.entrance.from;
            recv(entrance.as_raw_fd(), &mut self.incoming, MsgFlags::MSG_DONTWAIT).map(|came| Taken {
                from,
                came,
                each: came,
            })
        };
        match taken {
            Ok(taken) => {
                let joined = taken.each < taken.came;
                if self.entrance.came(taken.came, joined, self.streak + 1 >= STREAM) {
                    self.entrance.set_joins(entrance, true);
                }
                self.took(taken)?;
                (self.came > 0).then_some(())
            }
            Err(error) => {
                // Nothing leaves by it, so there is no news.
                if error == Errno::EAGAIN && self.entrance.nothing() {
                    self.entrance.set_joins(entrance, false);
                    // Of what came joined meanwhile, the kernel would not say how.
                    let peek = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
                    if recv(entrance.as_raw_fd(), &mut [0], peek).is_ok() {
                        self.entrance.set_joins(entrance, true);
                    }
                }
                None
            }
        }
    }

    /// Notes what was taken, and says whom it is from.
    fn took(&mut self, taken: Taken) -> Option<SocketAddr> {
        (self.from, self.came, self.each) = (taken.from, taken.came, taken.each.max(1));
        self.streak += 1;
        if let Some(from) = taken.from {
            self.exits.heard(from);
        }
        taken.from
    }
}

/// Sends datagrams by one call, as [`Udp::give`] has them; `to` where the socket is not connected.
#[inline(never)]
pub(crate) fn send_together(
    socket: &UdpSocket,
    datagrams: &[Vec<u8>],
    to: Option<SocketAddr>,
) -> Result<usize, Errno> {
    let each = datagrams[0].len() as u16;
    let cut = [ControlMessage::UdpGsoSegments(&each)];
    let control = if datagrams.len() > 1 { &cut[..] } else { &[] };
    let mut bytes = [IoSlice::new(&[]); MOST_JOINED];
    for (place, datagram) in bytes.iter_mut().zip(datagrams) {
        *place = IoSlice::new(datagram);
    }
    let bytes = &bytes[..datagrams.len()];
    let to = to.map(SockaddrStorage::from);
    sendmsg(socket.as_raw_fd(), bytes, control, MsgFlags::empty(), to.as_ref())
}

/// One datagram, or joined ones.
struct Taken {
    from: Option<SocketAddr>,
    /// Bytes of all, and of each but the last.
    came: usize,
    each: usize,
}

/// Takes from a socket where datagrams may come joined, and from whomever.
fn take_asking(socket: &UdpSocket, into: &mut [u8], control: &mut [u8]) -> Result<Taken, Errno> {
    let mut iov = [IoSliceMut::new(into)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(control), flags)?;
    let joined = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::UdpGroSegments(each) => usize::try_from(each).ok(),
        _ => None,
    });
    let (came, from) = (message.bytes, message.address.as_ref().and_then(socket_address));
    Ok(Taken { from, came, each: joined.unwrap_or(came) })
}

/// Takes the news that the kernel keeps of a connected socket's datagrams: the call that failed has said it.
fn drain_errors(socket: &UdpSocket) {
    let mut bytes = [0; 64];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let mut iov = [IoSliceMut::new(&mut bytes)];
    while recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, None, flags).is_ok() {}
}

fn socket_address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

#[cfg(test)]
mod entering;
#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, sendto, socket};
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd;

    /// What the kernel says of the socket within a time that is long enough for anything on the loopback.
    fn says(udp: &Udp, limit: u16) -> PollFlags {
        let mut list = [PollFd::new(udp.doors.own.as_fd(), PollFlags::POLLIN)];
        poll(&mut list, PollTimeout::from(limit)).unwrap();
        list[0].revents().unwrap()
    }

    /// The internet checksum (RFC 1071).
    fn checksum(bytes: &[u8]) -> u16 {
        let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// As long as the kernel keeps an error, sleeps on the socket end at once: one of a kind that means nothing to us must be
    /// taken too.
    #[test]
    fn errors_of_any_kind_are_taken_from_the_kernel() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let flags = SockFlag::SOCK_CLOEXEC;
        let Ok(forger) = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp) else {
            return println!("skip: no raw sockets");
        };
        let mut udp = Udp::new(local, Some(0), 65_536, None).unwrap();
        let peer = UdpSocket::bind((local, 0)).unwrap();
        let port = udp.doors.own.local_addr().unwrap().port();
        // Destination unreachable, of protocol: about a datagram of ours (RFC 792).
        let mut icmp = vec![3, 2, 0, 0, 0, 0, 0, 0];
        icmp.extend([0x45, 0, 0, 32, 0, 1, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        icmp.extend(port.to_be_bytes());
        icmp.extend(peer.local_addr().unwrap().port().to_be_bytes());
        icmp.extend([0, 12, 0, 0]);
        let sum = checksum(&icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let to = SockaddrStorage::from(SocketAddr::new(local, 0));
        sendto(forger.as_raw_fd(), &icmp, &to, MsgFlags::empty()).unwrap();
        assert!(says(&udp, 10_000).contains(PollFlags::POLLERR), "the kernel told nothing");
        assert_eq!(udp.receive(&mut Vec::new()), None);
        assert_eq!(udp.unreachable(), None, "it says of no address that nobody is there");
        assert_eq!(says(&udp, 0), PollFlags::empty(), "nothing is left");
    }
}
