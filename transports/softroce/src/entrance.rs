//! The sockets that datagrams come in by: the device's own, and one for the peer that most come from.
//!
//! The kernel finds the socket and the way of a datagram before it looks anything up where a *connected* socket waits for it;
//! that and taking one without asking for its sender saves a ninth of the time between two hosts. All must arrive at the
//! device's port, so the second socket is bound to the same one, connected to the address that the peer's packets leave from
//! ([`crate::exits`]). The own socket gets everything else.
//!
//! Invariants: nobody else can come to share the port, since the own socket allows it only while the second one is bound; the
//! second one is made once and lives as long as the first; from when it means another peer on, each datagram's sender is asked
//! for until it was empty once.

use nix::sys::socket::{SockaddrStorage, connect, setsockopt, sockopt};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// Datagrams that come alone from one address, and nothing by the entrance meanwhile, after which it has the entrance.
const ENOUGH: u32 = 256;
/// So many looks at the entrance alone, and the next one is at the own socket first, whatever comes: of those that found nothing, and of
/// those that found something, which take longer.
const BESIDE: u32 = 32;
const FULL: u32 = 4;
/// Looks after something came by the own socket in which it is looked at whenever the entrance is empty.
const MINDFUL: u32 = 64;
/// From this length on, a datagram is taken for one of many. In bytes.
const LONG: usize = 900;
/// Short datagrams that come alone, after which none are expected to come joined.
const LONELY: u32 = 64;

/// The sockets, shared with who sleeps on them.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) own: UdpSocket,
    pub(crate) entrance: OnceLock<UdpSocket>,
}

/// Sockets that become readable when a datagram comes.
pub(crate) trait Sockets: std::fmt::Debug + Send + Sync {
    /// The one that there always is.
    fn own(&self) -> BorrowedFd<'_>;
    /// One more.
    fn second(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Sockets for OwnedFd {
    fn own(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Sockets for Doors {
    fn own(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    fn second(&self) -> Option<BorrowedFd<'_>> {
        self.entrance.get().map(AsFd::as_fd)
    }
}

/// Where the next look goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At the own socket alone.
    Own,
    /// At the own one, then at the entrance.
    OwnFirst,
    /// At the entrance, then at the own one.
    EntranceFirst,
    /// At the entrance alone.
    Entrance,
}

/// Who has the entrance, and who may get it.
#[derive(Debug, Default)]
pub(crate) struct Entrance {
    /// Whose datagrams it takes.
    pub(crate) from: Option<SocketAddr>,
    /// Something may be in it that is from another.
    pub(crate) asks: bool,
    /// Whether the kernel joins datagrams there.
    pub(crate) joins: bool,
    /// Older datagrams of its peer may still be in the own socket.
    older_beside: bool,
    /// Short datagrams in a row that came alone by it.
    lonely: u32,
    looks: u32,
    /// How many of them since the own socket was looked at; those that found something count [`FULL`] times.
    alone: u32,
    /// Something has just left: who it is for cannot have answered, so the time for a look at the own socket costs nothing now.
    sent: bool,
    /// The look that last found something in the own socket.
    found_beside: u32,
    /// Who the last datagrams of the own socket were from, and how many came alone, one after another.
    latest: Option<SocketAddr>,
    run: u32,
    /// The system does not do it.
    impossible: bool,
}

impl Entrance {
    pub(crate) fn next_look(&mut self) -> Look {
        if self.from.is_none() {
            return Look::Own;
        }
        self.looks = self.looks.wrapping_add(1);
        self.alone += 1;
        if self.older_beside || std::mem::take(&mut self.sent) || self.alone > BESIDE {
            self.alone = 0;
            Look::OwnFirst
        } else if self.looks.wrapping_sub(self.found_beside) < MINDFUL {
            Look::EntranceFirst
        } else {
            Look::Entrance
        }
    }

    /// Something has left.
    #[inline]
    pub(crate) fn sent(&mut self) {
        self.sent = true;
    }

    /// The own socket was empty.
    pub(crate) fn nothing_beside(&mut self) {
        self.older_beside = false;
    }

    /// A datagram, or several joined ones, came by the own socket. True when its sender shall have the entrance.
    pub(crate) fn came_beside(&mut self, from: SocketAddr, joined: bool) -> bool {
        self.found_beside = self.looks;
        if joined || self.latest != Some(from) || self.from == Some(from) {
            (self.latest, self.run) = (Some(from), 0);
        }
        self.run += 1;
        self.run >= ENOUGH && !self.impossible
    }

    /// A datagram, or several joined ones, came by the entrance. True when others should come joined.
    pub(crate) fn came(&mut self, length: usize, joined: bool, stream: bool) -> bool {
        self.run = 0;
        self.alone += FULL - 1;
        let many = joined || stream || length >= LONG;
        self.lonely = if many { 0 } else { self.lonely.saturating_add(1) };
        many && !self.joins
    }

    /// The entrance was empty. True when those to come will hardly come joined.
    pub(crate) fn nothing(&mut self) -> bool {
        self.asks = false;
        self.joins && self.lonely >= LONELY
    }

    /// Whether the kernel joins datagrams there from now on.
    pub(crate) fn set_joins(&mut self, entrance: &UdpSocket, joins: bool) {
        let able = setsockopt(entrance, sockopt::UdpGroSegment, &joins).is_ok();
        self.joins = joins && able;
        self.lonely = 0;
    }

    /// Gives the entrance to a peer. True when it was made just now.
    pub(crate) fn give(&mut self, doors: &Doors, from: SocketAddr) -> bool {
        let new = doors.entrance.get().is_none();
        let given = if new { make(doors, from) } else { lead(doors.entrance.get(), from) };
        self.run = 0;
        match given {
            Some(()) => (self.from, self.asks, self.older_beside) = (Some(from), true, true),
            // Whoever had it keeps it.
            None => self.impossible = true,
        }
        new && given.is_some()
    }
}

/// Binds a second socket to the port of the first, and connects it.
fn make(doors: &Doors, from: SocketAddr) -> Option<()> {
    let local = doors.own.local_addr().ok().filter(|local| !local.ip().is_unspecified())?;
    let family = match local {
        SocketAddr::V4(_) => nix::sys::socket::AddressFamily::Inet,
        SocketAddr::V6(_) => nix::sys::socket::AddressFamily::Inet6,
    };
    let flags = nix::sys::socket::SockFlag::SOCK_CLOEXEC | nix::sys::socket::SockFlag::SOCK_NONBLOCK;
    let socket = nix::sys::socket::socket(family, nix::sys::socket::SockType::Datagram, flags, None).ok()?;
    let socket = UdpSocket::from(socket);
    // As much as the own one has.
    if let Ok(room) = nix::sys::socket::getsockopt(&doors.own, sockopt::RcvBuf) {
        // The kernel doubles what it is told, and says the double.
        let room = room / 2;
        if setsockopt(&socket, sockopt::RcvBufForce, &room).is_err() {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &room);
        }
    }
    setsockopt(&socket, sockopt::ReuseAddr, &true).ok()?;
    setsockopt(&doors.own, sockopt::ReuseAddr, &true).ok()?;
    let bound = nix::sys::socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(local));
    // Until it is connected it gets everybody's datagrams, which is why their senders are asked for at first.
    let led = bound.ok().and_then(|()| lead(Some(&socket), from));
    setsockopt(&doors.own, sockopt::ReuseAddr, &false).ok()?;
    // Where only connecting failed, the device's datagrams may be in the socket: it is closed, and they are lost ones.
    led?;
    doors.entrance.set(socket).ok()
}

fn lead(entrance: Option<&UdpSocket>, from: SocketAddr) -> Option<()> {
    connect(entrance?.as_raw_fd(), &SockaddrStorage::from(from)).ok()
}
