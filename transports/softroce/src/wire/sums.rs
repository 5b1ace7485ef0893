//! Invariant CRCs of many packets, most of which are as long as an earlier one and go the same way.
//!
//! What is in front of such a packet (IP, UDP) is the same, so how far the CRC has come there is kept. Of the packet itself one byte counts as ones: that
//! the CRC is computed of the byte as it is instead changes it by something that depends on this byte and on the length alone, since a CRC is
//! linear in what is exclusively or-ed to it. So the second of two such packets is looked through once, as it lies there.

use super::icrc::{Flow, beginning, icrc};
use crc32fast::Hasher;

/// Kinds of packets that are remembered; a power of two.
const KINDS: usize = 16;
/// Where the byte is that counts as ones.
const MARKS: usize = 4;

/// Packets that go one way, of one length.
#[derive(Clone, Debug)]
struct Kind {
    flow: Flow,
    identification: u16,
    length: usize,
    marks: u8,
    /// Behind the headers.
    begun: Hasher,
    /// What the marks change.
    change: u32,
}

/// Computes CRCs, and remembers a few kinds of packets.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    kinds: [Option<Kind>; KINDS],
}

impl Sums {
    /// [`icrc`], faster from the second packet of a kind on.
    #[inline]
    pub fn icrc(&mut self, flow: Flow, identification: u16, packet: &[u8]) -> u32 {
        let Some(&marks) = packet.get(MARKS) else { return icrc(flow, identification, packet) };
        let ports = usize::from(flow.source.port() ^ flow.destination.port());
        let place = ((packet.len() / 4) ^ ports) % KINDS;
        if let Some(kind) = &self.kinds[place]
            && kind.length == packet.len()
            && (kind.marks, kind.identification) == (marks, identification)
            && kind.flow == flow
        {
            let mut crc = kind.begun.clone();
            crc.update(packet);
            return crc.finalize() ^ kind.change;
        }
        let (right, begun) =
            (icrc(flow, identification, packet), beginning(flow, identification, packet.len()));
        let mut as_it_is = begun.clone();
        as_it_is.update(packet);
        let change = right ^ as_it_is.finalize();
        self.kinds[place] = Some(Kind { flow, identification, length: packet.len(), marks, begun, change });
        right
    }

    /// Appends the invariant CRC to a packet.
    #[inline]
    pub fn seal(&mut self, flow: Flow, packet: &mut Vec<u8>) {
        let crc = self.icrc(flow, 0, packet);
        packet.extend(crc.to_le_bytes());
    }

    /// The packet in front of a right invariant CRC; `None` when it is wrong or missing.
    #[inline]
    pub fn open<'a>(&mut self, flow: Flow, identification: u16, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let (packet, crc) = datagram.split_last_chunk::<4>()?;
        (self.icrc(flow, identification, packet) == u32::from_le_bytes(*crc)).then_some(packet)
    }
}
