//! What the protocols put in front of, or instead of, user data.

use crate::Header;

/// Payload of [`crate::Kind::Rts`]: a message is kept at the sender. Data of the lead may follow in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// Packed length of the whole message in bytes.
    pub length: u64,
    /// Where the message begins in the sender's memory, when it lies in one run there; else 0.
    pub address: u64,
    /// The sender's request.
    pub request: u32,
    /// How many of the first bytes follow without being asked for: in this packet and in the fragments behind it.
    pub lead: u32,
}

impl Announce {
    /// Bytes on the wire.
    pub const BYTES: usize = 24;
    /// Where data begin that follow in the packet: on a cache line, for copies between cores are fastest from line to line.
    pub const DATA: usize = 64;
    /// Header flag: the sender waits until the receive has started (synchronous mode).
    pub const SYNCHRONOUS: u8 = 1;
    /// Header flag: announced because the receiver asked for more ([`crate::Kind::More`]), beyond the usual number.
    pub const ASKED: u8 = 2;

    /// As it travels.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..16].copy_from_slice(&self.address.to_le_bytes());
        out[16..20].copy_from_slice(&self.request.to_le_bytes());
        out[20..].copy_from_slice(&self.lead.to_le_bytes());
        out
    }

    /// Bytes of a packet that carries `data` bytes of the lead.
    pub const fn packet(data: usize) -> usize {
        if data == 0 { Self::BYTES } else { Self::DATA + data }
    }

    /// Writes the announcement, and nought up to where data begin, into a packet of that length; answers where data go.
    pub fn put(self, packet: &mut [u8]) -> &mut [u8] {
        let (front, rest) = packet.split_at_mut(Self::BYTES);
        front.copy_from_slice(&self.emit());
        let gap = rest.len().min(Self::DATA - Self::BYTES);
        let (gap, data) = rest.split_at_mut(gap);
        gap.fill(0);
        data
    }

    /// Splits a payload into the announcement and the data behind it; `None` when the bytes make no sense.
    pub fn parse(payload: &[u8]) -> Option<(Announce, &[u8])> {
        let (length, rest) = payload.split_first_chunk()?;
        let (address, rest) = rest.split_first_chunk()?;
        let (request, rest) = rest.split_first_chunk()?;
        let (lead, rest) = rest.split_first_chunk()?;
        let data = match rest.split_at_checked(Self::DATA - Self::BYTES) {
            Some((_, data)) if !data.is_empty() => data,
            None if rest.is_empty() => rest,
            _ => return None,
        };
        let announce = Announce {
            length: u64::from_le_bytes(*length),
            address: u64::from_le_bytes(*address),
            request: u32::from_le_bytes(*request),
            lead: u32::from_le_bytes(*lead),
        };
        let fits = u64::from(announce.lead) <= announce.length && data.len() <= announce.lead as usize;
        fits.then_some((announce, data))
    }
}

/// Payload of [`crate::Kind::Cts`]: where the fragments shall go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cts {
    /// The receiver's request, the `id` of the fragments.
    pub request: u32,
}

impl Cts {
    /// Bytes on the wire.
    pub const BYTES: usize = 4;

    /// As it travels.
    pub const fn emit(&self) -> [u8; Self::BYTES] {
        self.request.to_le_bytes()
    }

    /// Reads a payload; `None` for another length.
    pub fn parse(payload: &[u8]) -> Option<Cts> {
        Some(Cts { request: u32::from_le_bytes(payload.try_into().ok()?) })
    }
}

/// Payload of [`crate::Kind::EagerSync`]: the sender's request in front of the data, padded to keep it aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPrefix {
    /// The sender's request, the `id` of [`crate::Kind::Matched`].
    pub request: u32,
}

impl SyncPrefix {
    /// Bytes on the wire.
    pub const BYTES: usize = 8;

    /// As it travels.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        u64::from(self.request).to_le_bytes()
    }

    /// Splits a payload into the prefix and the data; `None` when the bytes make no sense.
    pub fn parse(payload: &[u8]) -> Option<(SyncPrefix, &[u8])> {
        let (prefix, data) = payload.split_first_chunk()?;
        let request = u32::try_from(u64::from_le_bytes(*prefix)).ok()?;
        Some((SyncPrefix { request }, data))
    }
}

/// A packet with at most [`Announce::BYTES`] payload bytes, as kept while a transport has no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallPacket {
    /// The envelope.
    pub header: Header,
    bytes: [u8; Announce::BYTES],
    len: u8,
}

impl SmallPacket {
    /// A packet of header and payload.
    ///
    /// # Panics
    /// When the payload is longer than [`Announce::BYTES`].
    pub fn new(header: Header, payload: &[u8]) -> SmallPacket {
        let mut bytes = [0; Announce::BYTES];
        bytes[..payload.len()].copy_from_slice(payload);
        SmallPacket { header, bytes, len: payload.len() as u8 }
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_parses_is_emitted_again(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some((announce, data)) = Announce::parse(&bytes) {
                let mut packet = vec![0; Announce::packet(data.len())];
                announce.put(&mut packet).copy_from_slice(data);
                prop_assert_eq!(&packet[..Announce::BYTES], &bytes[..Announce::BYTES]);
                prop_assert_eq!(&packet[bytes.len() - data.len()..], data);
                prop_assert_eq!(packet.len(), bytes.len());
            }
            if let Some((prefix, data)) = SyncPrefix::parse(&bytes) {
                prop_assert_eq!([&prefix.emit()[..], data].concat(), bytes.clone());
            }
            if let Some(cts) = Cts::parse(&bytes) {
                prop_assert_eq!(&cts.emit()[..], &bytes[..]);
            }
        }

        #[test]
        fn every_announcement_survives_the_trip(
            length: u64, address: u64, request: u32, lead: u32, data in proptest::collection::vec(any::<u8>(), 0..16)
        ) {
            let announce = Announce { length, address, request, lead };
            let mut bytes = vec![1; Announce::packet(data.len())];
            announce.put(&mut bytes).copy_from_slice(&data);
            let sensible = u64::from(lead) <= length && data.len() <= lead as usize;
            prop_assert_eq!(Announce::parse(&bytes), sensible.then_some((announce, &data[..])));
        }
    }
}
