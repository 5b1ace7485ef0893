//! Datagrams over a UDP socket of the system.

use crate::card::{Card, Wire};
use crate::wire::UDP_PORT;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_api::verbs::Nanos;
use weft_api::{Bell, Pollable};

/// Headers around a packet's payload that an Ethernet frame of 1500 bytes must hold as well: IP, UDP, the longest of ours, CRC.
const HEADERS: u32 = 40 + 8 + 12 + 28 + 4;

/// Bytes the kernel shall hold for us; it may hold fewer.
const SOCKET_BUFFER: usize = 8 << 20;

/// A UDP socket that never waits.
#[derive(Debug)]
pub struct Udp {
    socket: Arc<UdpSocket>,
    sleepers: Arc<Sleepers>,
    started: Instant,
    mtu: u32,
}

impl Udp {
    /// Opens a card at `address`; port 0 lets the system choose, which other programs' devices cannot talk to (they want 4791).
    /// `link_mtu` is that of the network interface, 1500 where nothing better is known.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(address: IpAddr, port: Option<u16>, link_mtu: u32) -> io::Result<Card<Udp>> {
        let socket = UdpSocket::bind((address, port.unwrap_or(UDP_PORT)))?;
        socket.set_nonblocking(true)?;
        // What is not granted costs retransmissions, not correctness.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER);
        let _ = setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER);
        let sleepers = Arc::new(Sleepers {
            number: AtomicU32::new(0),
            called: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        });
        let local = socket.local_addr()?;
        let mtu = [4096, 2048, 1024, 512].into_iter().find(|mtu| mtu + HEADERS <= link_mtu).unwrap_or(256);
        Ok(Card::new(local, Udp { socket: Arc::new(socket), sleepers, started: Instant::now(), mtu }))
    }
}

impl Wire for Udp {
    type Bell = UdpBell;

    fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }

    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> bool {
        // Any other failure (an unreachable peer, say) is a lost datagram: retries find out.
        !matches!(self.socket.send_to(datagram, to), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        buffer.resize(1 << 13, 0);
        loop {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) => {
                    buffer.truncate(length);
                    return Some(from);
                }
                // News of an earlier datagram that reached nobody; retries find out.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => return None,
            }
        }
    }

    fn bell(&self, deadline: Option<Nanos>) -> UdpBell {
        UdpBell {
            socket: Arc::clone(&self.socket),
            sleepers: Arc::clone(&self.sleepers),
            deadline: deadline.map(|at| self.started + Duration::from_nanos(at)),
        }
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }
}

/// The threads of this process that sleep, or are about to.
#[derive(Debug)]
struct Sleepers {
    number: AtomicU32,
    /// Readable from a call until the last sleeper has gone: who comes in between wakes up once for nothing.
    called: EventFd,
}

/// Sleeps until a datagram comes, another thread rings, or the device's clock does.
#[derive(Clone, Debug)]
pub struct UdpBell {
    socket: Arc<UdpSocket>,
    sleepers: Arc<Sleepers>,
    deadline: Option<Instant>,
}

impl UdpBell {
    /// Wakes the threads of this process that sleep, or are about to: those that armed their bell before.
    pub fn ring(&self) {
        // Ordered with the sleeper's arming by whatever lock both took: see the caller. SeqCst costs nothing here.
        if self.sleepers.number.load(Ordering::SeqCst) > 0 {
            // It can only be full, and then it is readable.
            let _ = self.sleepers.called.write(1);
        }
    }
}

impl Bell for UdpBell {
    // The kernel keeps what arrives between a look and a sleep.
    fn arm(&self) {
        self.sleepers.number.fetch_add(1, Ordering::SeqCst);
    }

    fn sleep(&self, limit: Duration) {
        let limit = PollTimeout::try_from(self.limit(limit)).unwrap_or(PollTimeout::MAX);
        let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
        // An interrupted sleep is a short one.
        let _ = poll(&mut [of(self.socket.as_fd()), of(self.sleepers.called.as_fd())], limit);
        self.disarm();
    }

    fn disarm(&self) {
        if self.sleepers.number.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Nothing to read is fine.
            let _ = self.sleepers.called.read();
        }
    }
}

impl Pollable for UdpBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend([self.socket.as_fd(), self.sleepers.called.as_fd()]);
    }

    fn limit(&self, limit: Duration) -> Duration {
        let left = self.deadline.map_or(limit, |at| at.saturating_duration_since(Instant::now()).min(limit));
        left.max(Duration::from_millis(1))
    }
}
