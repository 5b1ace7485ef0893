//! [`Wire`]: a way for datagrams and a clock, which a [`crate::Card`] is made over.

use crate::requester::USUAL_WINDOW;
use std::net::SocketAddr;
use std::time::Instant;
use weft_api::Bell;
use weft_api::verbs::Nanos;

/// What says the time of a wire without it.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The time, which stands still meanwhile.
    At(Nanos),
    /// The moment at which the wire's time began.
    Since(Instant),
}

impl Clock {
    /// As [`Wire::now`].
    #[inline]
    pub fn read(self) -> Nanos {
        match self {
            Clock::At(now) => now,
            Clock::Since(began) => began.elapsed().as_nanos() as Nanos,
        }
    }
}

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// At which of the device's addresses it arrived; `None`: at its own.
    pub at: Option<SocketAddr>,
    /// The identification in its IPv4 header, where the wire sees it; 0 elsewhere.
    pub identification: u16,
    /// What it carries.
    pub datagram: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// At the device's own address, of a wire that sees no IPv4 header.
    pub fn new(from: SocketAddr, datagram: &'a [u8]) -> Arrival<'a> {
        Arrival { from, at: None, identification: 0, datagram }
    }
}

/// A way for datagrams, and a clock.
pub trait Wire {
    /// What sleeps until a datagram comes.
    type Bell: Bell + Clone + Send;
    /// Nanoseconds since any fixed moment.
    fn now(&self) -> Nanos;
    /// The same for whoever may not need the time after all.
    fn clock(&self) -> Clock {
        Clock::At(self.now())
    }
    /// Sends a datagram, now or with the next ones; what is in `datagram` afterwards means nothing. `false`: no room now; it is as it was and
    /// must be offered again.
    fn send(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool;
    /// As [`Wire::send`], of the last datagram for now, which nothing need wait for. `false`: it must be offered again.
    fn send_last(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        self.send(to, datagram)
    }
    /// Lets what was kept back for company leave. `false`: no room now.
    fn flush(&mut self) -> bool {
        true
    }
    /// Where packets of connections to an address will be seen to come from; `None`: from the device's own.
    fn source(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        let _ = to;
        None
    }
    /// Further addresses under which the device is reached, beside its own.
    fn more_addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }
    /// Which of its addresses datagrams of none of its connections leave from; `None`: the device's own.
    fn leaves_by(&self, to: SocketAddr) -> Option<SocketAddr> {
        let _ = to;
        None
    }
    /// Receives a datagram. `buffer` is room for it, where the wire has none.
    fn receive<'a>(&'a mut self, buffer: &'a mut Vec<u8>) -> Option<Arrival<'a>>;
    /// Whether another datagram is likely to be there already: a look may cost as much as a datagram.
    fn goes_on(&self) -> bool {
        true
    }
    /// What the network has said of an address where nobody is, each once.
    fn unreachable(&mut self) -> Option<Unreachable> {
        None
    }
    /// Whether it says so. Then silence alone is no sign of a death: the device at the other end moves only while its program
    /// calls it, which may compute for long.
    fn tells_unreachable(&self) -> bool {
        false
    }
    /// The answer to a packet to an address is overdue.
    fn doubt(&mut self, address: SocketAddr) {
        let _ = address;
    }
    /// Packets to an address are overdue for the third time or more: whether its host cannot be reached, whatever its device
    /// does. Each call may ask, and take the answer to what an earlier one asked.
    fn is_gone(&mut self, address: SocketAddr) -> bool {
        let _ = address;
        false
    }
    /// The bell.
    fn bell(&self) -> Self::Bell;
    /// Whether somebody sleeps on a bell or is about to, who must be told of the device's clock: [`Wire::wakes_at`].
    fn is_awaited(&self) -> bool {
        false
    }
    /// From now on all bells ring at this time, if nothing comes before; `None`: not by the clock.
    fn wakes_at(&self, deadline: Option<Nanos>) {
        let _ = deadline;
    }
    /// Largest payload of a packet that the way carries whole.
    fn mtu(&self) -> u32;
    /// The same of the way to an address, where that is known to carry less.
    fn mtu_to(&self, to: SocketAddr) -> u32 {
        let _ = to;
        self.mtu()
    }
    /// Packets of one connection that find room at the other end while nobody takes them in, as far as is known.
    fn room(&self) -> u32 {
        USUAL_WINDOW
    }
}

/// Nobody is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Where.
    pub address: SocketAddr,
    /// The host itself says that nobody has the port. Otherwise the way may be down for a moment only.
    pub certain: bool,
}

/// Whether a packet belongs to a connection (the highest three bits of its opcode, table 38: 0) and not to datagrams.
pub(crate) fn is_of_connection(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|opcode| opcode >> 5 == 0)
}
