//! Sockets that packets of connections leave by: one for each address that much is sent to, connected to it.
//!
//! The kernel looks up the way of every datagram that an unconnected socket sends; a connected one keeps it, which saves a
//! sixth of the time between two hosts. Each has a port of its own, as the protocol allows (annex A17.3.1.1: any source port),
//! so nothing comes in here but news of datagrams that did not arrive. Answers go to the device's port.
//! Single packets, and a few together, go past the sockets where they can: [`crate::frames`].

use crate::frames::{Frame, Link};
use crate::hosts::Hosts;
use crate::udp::send_together;
use crate::way::Unreachable;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use weft_api::verbs::Nanos;

/// Most of them; other addresses are sent to from the device's own socket.
const MOST: usize = 64;

/// One of them.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) to: SocketAddr,
    pub(crate) from: SocketAddr,
    pub(crate) socket: UdpSocket,
    short: Short,
}

/// How one datagram leaves, or a few together.
#[derive(Debug)]
enum Short {
    /// By the socket, until the peer is doubted.
    BySocket,
    /// By the socket, until the peer is heard.
    Doubted,
    /// In a frame.
    InFrame(Frame),
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
    /// What frames leave by, or why there are none.
    link: Result<Link, &'static str>,
    /// Some are doubted.
    doubts: bool,
}

impl Exits {
    pub(crate) fn new(local: IpAddr) -> Exits {
        let (open, hosts) = (Vec::new(), Hosts::default());
        Exits { local, open, exhausted: false, hosts, link: Link::open(local), doubts: false }
    }

    /// Where all of them leave from.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// Sets whether frames are used.
    pub(crate) fn set_frames(&mut self, wanted: bool) {
        self.link = if wanted { Link::open(self.local) } else { Err("WEFT_FRAMES=no") };
        self.doubts = wanted;
        self.open.iter_mut().for_each(|exit| exit.short = Short::Doubted);
    }

    /// Why there are no frames, if so.
    pub(crate) fn lacks_frames(&self) -> Option<&'static str> {
        self.link.as_ref().err().copied()
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
                    self.doubts = self.link.is_ok();
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
    /// Sends a packet by the exit to an address; `None`: it has none.
    #[inline]
    pub(crate) fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> Option<Result<usize, Errno>> {
        self.find(to)?;
        let exit = self.open.first_mut()?;
        if let (Short::InFrame(frame), Ok(link)) = (&mut exit.short, &mut self.link)
            && frame.takes(datagram)
        {
            match link.send(frame, datagram) {
                sent @ (Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS)) => return Some(sent),
                // The interface is down or gone: the kernel knows best.
                Err(_) => exit.short = Short::BySocket,
            }
        }
        Some(send(exit.socket.as_raw_fd(), datagram, MsgFlags::empty()))
    }

    /// As [`Exits::send`], of several datagrams, all as long as the first but for the last.
    pub(crate) fn send_together(
        &mut self,
        to: SocketAddr,
        datagrams: &[Vec<u8>],
    ) -> Option<Result<usize, Errno>> {
        self.find(to)?;
        let exit = self.open.first_mut()?;
        if let (Short::InFrame(frame), Ok(link)) = (&mut exit.short, &mut self.link)
            && link.takes_together(datagrams)
        {
            match link.send_together(frame, datagrams) {
                sent @ (Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS)) => return Some(sent),
                Err(_) => link.cuts_nothing(),
            }
        }
        Some(send_together(&exit.socket, datagrams, None))
    }

    /// Something came from there.
    #[inline]
    pub(crate) fn heard(&mut self, from: SocketAddr) {
        if self.doubts {
            self.believe(from.ip());
        }
    }

    #[cold]
    fn believe(&mut self, from: IpAddr) {
        let Ok(link) = &self.link else {
            self.doubts = false;
            return;
        };
        let doubted = self.open.iter_mut().filter(|exit| matches!(exit.short, Short::Doubted));
        self.doubts = false;
        for exit in doubted {
            if exit.to.ip() == from {
                exit.short = link.frame(exit.from, exit.to).map_or(Short::BySocket, Short::InFrame);
            } else {
                self.doubts = true;
            }
        }
    }

    /// An answer from an address is overdue: what the kernel knows of it will be told by the socket.
    pub(crate) fn doubt(&mut self, to: SocketAddr) {
        let Some(exit) = self.open.iter_mut().find(|exit| exit.to == to) else { return };
        exit.short = Short::Doubted;
        self.doubts = self.link.is_ok();
    }

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
    Ok(Exit { to, from: socket.local_addr()?, socket, short: Short::Doubted })
}

/// What an error at a connected socket says of its other end.
pub(crate) fn told(to: SocketAddr, error: Errno) -> Option<Unreachable> {
    match error {
        Errno::ECONNREFUSED => Some(Unreachable { address: to, certain: true }),
        Errno::EHOSTUNREACH | Errno::ENETUNREACH => Some(Unreachable { address: to, certain: false }),
        _ => None,
    }
}
