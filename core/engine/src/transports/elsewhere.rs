//! The hottest calls of [`Transports`], where a process has more or other than shared memory: out of line, so that a job on one
//! node keeps its registers and takes one branch.

use super::Transports;
use weft_api::{Handler, Refused, Sink, Transport};
use weft_types::PeerId;
use weft_wire::Header;

impl Transports {
    #[cold]
    #[inline(never)]
    pub(super) fn send_now_elsewhere(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        match self {
            Transports::Fabric(forced) => forced.fabric.send_now(route, header, payload),
            Transports::Both(both) => both.send_now(route, header, payload),
            // The general way does it.
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) | Transports::Wrapped(_) => false,
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn send_copy_elsewhere<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> Result<(), Refused> {
        match self {
            Transports::Alone(_) => Err(Refused::Dead),
            Transports::Shm(shm) => shm.send_copy(peer, header, len, fill),
            Transports::Fabric(forced) => forced.fabric.send_copy(peer, header, len, fill),
            Transports::Both(both) => both.send_copy(peer, header, len, fill),
            Transports::Sim(port) => port.send_copy(peer, header, len, fill),
            Transports::Wrapped(wrapped) => wrapped.layers.send_copy(peer, header, len, fill),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn receive_elsewhere<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.receive(peer, handler),
            Transports::Fabric(forced) => forced.fabric.receive(peer, handler),
            Transports::Both(both) => both.receive(peer, handler),
            Transports::Sim(port) => port.receive(peer, handler),
            Transports::Wrapped(wrapped) => wrapped.layers.receive(peer, handler),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn poll_elsewhere<S: Sink>(
        &mut self,
        burst: u32,
        left: &mut u32,
        sink: &mut S,
    ) -> Option<(PeerId, S::Outcome)> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.poll(burst, left, sink),
            Transports::Fabric(forced) => forced.fabric.poll(burst, left, sink),
            Transports::Both(both) => both.poll(burst, left, sink),
            Transports::Sim(port) => port.poll(burst, left, sink),
            Transports::Wrapped(wrapped) => wrapped.layers.poll(burst, left, sink),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn is_idle_elsewhere(&self) -> bool {
        match self {
            Transports::Alone(_) => true,
            Transports::Shm(shm) => shm.is_idle(),
            Transports::Fabric(forced) => forced.is_idle(),
            Transports::Both(both) => both.is_idle(),
            Transports::Sim(_) | Transports::Wrapped(_) => false,
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn progress_elsewhere(&mut self) -> bool {
        match self {
            Transports::Alone(_) => false,
            Transports::Shm(shm) => shm.progress(),
            Transports::Fabric(forced) => forced.progress(),
            Transports::Both(both) => both.progress(),
            Transports::Sim(port) => port.progress(),
            Transports::Wrapped(wrapped) => wrapped.layers.progress(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn push_out_elsewhere(&mut self) {
        match self {
            Transports::Alone(_) | Transports::Shm(_) => {}
            Transports::Fabric(forced) => forced.fabric.push_out(),
            Transports::Both(both) => both.push_out(),
            Transports::Sim(port) => port.push_out(),
            Transports::Wrapped(wrapped) => wrapped.layers.push_out(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn lost_elsewhere(&mut self) -> Option<PeerId> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.lost(),
            Transports::Fabric(forced) => forced.lost(),
            Transports::Both(both) => both.lost(),
            Transports::Sim(port) => port.lost(),
            Transports::Wrapped(wrapped) => wrapped.layers.lost(),
        }
    }
}
