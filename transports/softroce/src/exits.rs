//! Sockets that packets of connections leave by: one for each address that much is sent to, connected to it.
//!
//! The kernel looks up the way of every datagram that an unconnected socket sends; a connected one keeps it, which saves a
//! sixth of the time between two hosts. Each has a port of its own, as the protocol allows (annex A17.3.1.1: any source port),
//! so nothing comes in here but news of datagrams that did not arrive. Answers go to the device's port.

use crate::hosts::Hosts;
use crate::way::Unreachable;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use weft_api::verbs::Nanos;

/// Most of them; other addresses are sent to from the device's own socket.
const MOST: usize = 64;

/// One of them.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) to: SocketAddr,
    pub(crate) from: SocketAddr,
    pub(crate) socket: UdpSocket,
}

/// All of them, the one used last in front.
#[derive(Debug)]
pub(crate) struct Exits {
    local: IpAddr,
    open: Vec<Exit>,
    /// The system gives no more.
    exhausted: bool,
    /// Where they lead.
    hosts: Hosts,
}

impl Exits {
    pub(crate) fn new(local: IpAddr) -> Exits {
        Exits { local, open: Vec::new(), exhausted: false, hosts: Hosts::default() }
    }

    /// The exit to an address, if it has one.
    #[inline]
    pub(crate) fn find(&mut self, to: SocketAddr) -> Option<&Exit> {
        if self.open.first()?.to != to {
            let place = self.open.iter().position(|exit| exit.to == to)?;
            self.open.swap(0, place);
        }
        self.open.first()
    }

    /// As [`Exits::find`]; makes one where there is room.
    pub(crate) fn find_or_open(&mut self, to: SocketAddr) -> Option<&Exit> {
        if self.open.first().is_none_or(|exit| exit.to != to)
            && !self.open.iter().any(|exit| exit.to == to)
            && self.open.len() < MOST
            && !self.exhausted
        {
            match open(self.local, to) {
                Ok(exit) => {
                    self.open.push(exit);
                    self.hosts.meet(to.ip());
                }
                // No descriptor is left: the device's own socket will do.
                Err(_) => self.exhausted = true,
            }
        }
        self.find(to)
    }
}

impl Exits {
    /// Packets to an address are overdue: whether its host is gone, as far as can be known.
    pub(crate) fn is_gone(&mut self, to: SocketAddr, now: Nanos) -> bool {
        self.hosts.is_gone(to.ip(), now)
    }
}

fn open(local: IpAddr, to: SocketAddr) -> io::Result<Exit> {
    let socket = UdpSocket::bind((local, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(to)?;
    // Nothing comes in; the least that the kernel gives is enough.
    setsockopt(&socket, sockopt::RcvBuf, &1)?;
    // Also of hosts that cannot be reached, not only of ports.
    match local {
        IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
        IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
    }
    Ok(Exit { to, from: socket.local_addr()?, socket })
}

/// What an error at a connected socket says of its other end.
pub(crate) fn told(to: SocketAddr, error: Errno) -> Option<Unreachable> {
    match error {
        Errno::ECONNREFUSED => Some(Unreachable { address: to, certain: true }),
        Errno::EHOSTUNREACH | Errno::ENETUNREACH => Some(Unreachable { address: to, certain: false }),
        _ => None,
    }
}
