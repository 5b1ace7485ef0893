//! Unreliable datagrams, as they come in (section 9.8.3).

use crate::device::{Device, Flow};
use crate::memory::{self, Memory};
use crate::responder::Outcome;
use crate::wire::Packet;
use std::net::SocketAddr;
use weft_api::verbs::{CompletedWork, Completion, CompletionStatus, QueuePairNumber, Service};

/// Bytes in front of a received datagram: room for a global route header (section 11.4.1.2).
pub const DATAGRAM_PREFIX: u32 = 40;

/// Largest payload of a datagram: one packet of the largest MTU.
pub const MAX_DATAGRAM: u32 = 4096;

impl<M: Memory> Device<M> {
    /// A datagram goes into the next receive request behind 40 bytes, or is lost (section 9.8.3.2).
    pub(crate) fn receive_datagram(&mut self, flow: Flow, packet: &Packet<'_>) -> bool {
        let Some(pair) = self.queue_pairs.get_mut(&packet.to) else { return false };
        let Some(deth) = packet.deth.filter(|deth| deth.qkey == pair.plan.qkey) else { return false };
        if pair.plan.service != Service::Datagram || !pair.receives_packets() {
            return false;
        }
        let (number, plan) = (pair.number, pair.plan);
        let receives = match plan.shared_receive_queue {
            Some(shared) => &mut self.shared_receives[shared.0 as usize],
            None => &mut pair.receives,
        };
        let Some((request, limit)) = receives.take() else {
            self.counters.no_receive += 1;
            return true;
        };
        let segments = request.segments.as_slice();
        let bytes = DATAGRAM_PREFIX + packet.payload.len() as u32;
        let fits = u64::from(bytes) <= memory::total(segments);
        let allowed = segments.iter().all(|&segment| self.regions.allows_local(plan.domain, segment, true));
        let mut status = match (fits, allowed) {
            (true, true) => CompletionStatus::Success,
            (false, _) => CompletionStatus::LocalLength,
            (_, false) => CompletionStatus::LocalProtection,
        };
        if status == CompletionStatus::Success {
            let header = route_header(flow.source, flow.destination, packet.payload.len());
            let written = memory::scatter(&mut self.memory, segments, 0, &header).and_then(|()| {
                memory::scatter(&mut self.memory, segments, u64::from(DATAGRAM_PREFIX), packet.payload)
            });
            if written.is_err() {
                status = CompletionStatus::LocalProtection;
            }
        }
        let completion = Completion {
            id: request.id,
            status,
            work: CompletedWork::Receive,
            bytes,
            queue_pair: number,
            immediate: packet.immediate,
            solicited: packet.solicited,
            from: Some((flow.source.into(), QueuePairNumber(deth.from))),
        };
        let fatal = status != CompletionStatus::Success;
        self.received(number, plan, Outcome { completion: Some(completion), limit, fatal });
        true
    }
}

/// What stands in front of a received datagram: the IPv6 header, or the IPv4 header in the last 20 bytes (annex A17.4.5.1).
fn route_header(from: SocketAddr, to: SocketAddr, payload: usize) -> [u8; DATAGRAM_PREFIX as usize] {
    use std::net::IpAddr;
    let mut header = [0; DATAGRAM_PREFIX as usize];
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header[20] = 0x45;
            header[22..24].copy_from_slice(&(payload as u16 + 20 + 8 + 12 + 8 + 4).to_be_bytes());
            header[28] = 64;
            header[29] = 17;
            header[32..36].copy_from_slice(&from.octets());
            header[36..40].copy_from_slice(&to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(payload as u16 + 8 + 12 + 8 + 4).to_be_bytes());
            header[6] = 17;
            header[7] = 64;
            header[8..24].copy_from_slice(&from.octets());
            header[24..40].copy_from_slice(&to.octets());
        }
        _ => {}
    }
    header
}
