//! A bad way: packets are lost in both directions; of those that leave some come twice, and some are overtaken.

use std::net::SocketAddr;
use weft_api::verbs::Nanos;
use weft_softroce::{Arrival, Clock, Unreachable, Wire};

/// A wire on which that happens, the same for the same seed and traffic.
pub struct Bad<W> {
    wire: W,
    /// Of a thousand packets of a direction, how many are lost; of those that leave, as many come twice, and as many are overtaken.
    share: u64,
    state: u64,
    late: Option<(SocketAddr, Vec<u8>)>,
}

impl<W> Bad<W> {
    pub fn new(wire: W, seed: u64, share: u64) -> Bad<W> {
        Bad { wire, share, state: seed, late: None }
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn strikes(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % 1000 < self.share
    }
}

impl<W: Wire> Wire for Bad<W> {
    type Bell = W::Bell;

    fn now(&self) -> Nanos {
        self.wire.now()
    }

    fn clock(&self) -> Clock {
        self.wire.clock()
    }

    fn send(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        if self.late.is_none() && self.strikes() {
            self.late = Some((to, datagram.clone()));
            return true;
        }
        if self.strikes() {
            return true;
        }
        let again = self.strikes().then(|| datagram.clone());
        if !self.wire.send(to, datagram) {
            return false;
        }
        // What finds no room now is lost.
        let more = again.map(|datagram| (to, datagram)).into_iter().chain(self.late.take());
        for (to, mut datagram) in more {
            self.wire.send(to, &mut datagram);
        }
        true
    }

    fn receive<'a>(&'a mut self, buffer: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        while self.strikes() {
            self.wire.receive(buffer)?;
        }
        self.wire.receive(buffer)
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

    fn bell(&self) -> W::Bell {
        self.wire.bell()
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

    fn room(&self) -> u32 {
        self.wire.room()
    }
}
