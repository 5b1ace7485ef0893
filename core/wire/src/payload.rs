//! What the protocols put in front of, or instead of, user data.

use crate::Header;

/// Payload of [`crate::Kind::Rts`]: a message is kept at the sender. Data of the lead may follow in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// Packed length of the whole message in bytes.
    pub length: u64,
    /// Where the message begins in the sender's memory, when it lies in one run there; else 0.
    pub address: u64,
    /// The sender's request; 0 where the receiver has nothing to say about it: the lead is the whole message, which is not
    /// synchronous.
    pub request: u32,
    /// How many of the first bytes follow without being asked for: in this packet and in the fragments behind it.
    pub lead: u32,
}

/// Flag of [`crate::Kind::Took`]: the message was read.
pub const READ: u8 = 1;
/// Flag of [`crate::Kind::Taken`]: no receive waited for the message when it was offered.
pub const LATE: u8 = 1;

impl Announce {
    /// Bytes on the wire.
    pub const BYTES: usize = 24;
    /// Where data begin that follow in the packet: on a cache line, for copies between cores are fastest from line to line.
    pub const DATA: usize = 64;
    /// Header flag: the sender waits until the receive has started (synchronous mode).
    pub const SYNCHRONOUS: u8 = 1;
    /// Header flag: the message has gaps in the sender's memory; `address` is that of its first element, and how it lies there
    /// follows ([`Announced`]). Such an announcement has no lead.
    pub const SCATTERED: u8 = 4;
    /// Header flag: the receiver may read the message from the [`RemotePlace`] that follows. Such an announcement has no lead.
    pub const KEYED: u8 = 8;
    /// Header flag: announced because the receiver asked for more ([`crate::Kind::More`]), beyond the usual number.
    pub const ASKED: u8 = 2;
    /// Header flag: the message could leave unasked and uses as much of the budget, but its receiver shall read it as soon as it hears of it,
    /// whether or not a receive waits. Such an announcement has no lead, and the time behind it ([`Announce::stamped`]).
    pub const OFFERED: u8 = 16;
    /// Header flag: the receiver shall say how long the message took ([`crate::Kind::Took`]). Where all of it is the lead, `address` is the time
    /// at which its sender began, by the clock of the node in nanoseconds.
    pub const TIMED: u8 = 32;
    /// Header flag: it could have left unasked, but its receiver has said that it would rather read such messages.
    pub const RATHER: u8 = 64;

    /// As an offer travels: with the time at which its sender began.
    pub fn stamped(&self, stamp: u64) -> [u8; Self::BYTES + 8] {
        let mut out = [0; Self::BYTES + 8];
        out[..Self::BYTES].copy_from_slice(&self.emit());
        out[Self::BYTES..].copy_from_slice(&stamp.to_le_bytes());
        out
    }

    /// The announcement and the time of an offer; `None` when the bytes make no sense.
    pub fn parse_stamped(payload: &[u8]) -> Option<(Announce, u64)> {
        let (front, stamp) = payload.split_last_chunk()?;
        let (announce, data) = Announce::parse(front)?;
        let sensible = data.is_empty() && announce.lead == 0 && announce.length > 0 && announce.address != 0;
        sensible.then_some((announce, u64::from_le_bytes(*stamp)))
    }

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

/// What follows an announcement of a message with gaps: its layout in the sender's memory, or which of those that the sender has
/// told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced<'a> {
    /// Packed bytes of the elements at the address that come before the message's first byte.
    pub skip: u64,
    /// Which of the sender's layouts at this receiver; below [`Announced::SLOTS`].
    pub slot: u32,
    /// The layout as bytes, which the slot means from now on; empty: what it means already.
    pub program: &'a [u8],
}

impl<'a> Announced<'a> {
    /// Layouts that a receiver remembers of one sender.
    pub const SLOTS: usize = 16;
    /// Bytes of the longest layout that travels.
    pub const LONGEST: usize = 1024;
    /// Bytes without the layout itself.
    pub const BYTES: usize = 16;

    /// Writes it behind an announcement.
    ///
    /// # Panics
    /// When `out` has another length than [`Announced::BYTES`] and the layout's.
    pub fn put(&self, out: &mut [u8]) {
        let (front, program) = out.split_at_mut(Self::BYTES);
        front[..8].copy_from_slice(&self.skip.to_le_bytes());
        front[8..12].copy_from_slice(&self.slot.to_le_bytes());
        front[12..].copy_from_slice(&(self.program.len() as u32).to_le_bytes());
        program.copy_from_slice(self.program);
    }

    /// Splits a payload into an announcement without a lead and this; `None` when the bytes make no sense.
    pub fn parse(payload: &'a [u8]) -> Option<(Announce, Announced<'a>)> {
        let (front, rest) = payload.split_at_checked(Announce::BYTES)?;
        let (announce, _) = Announce::parse(front)?;
        let (skip, rest) = rest.split_first_chunk()?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (length, program) = rest.split_first_chunk()?;
        let announced =
            Announced { skip: u64::from_le_bytes(*skip), slot: u32::from_le_bytes(*slot), program };
        let sensible = announce.lead == 0
            && (announced.slot as usize) < Self::SLOTS
            && u32::from_le_bytes(*length) as usize == program.len()
            && program.len() <= Self::LONGEST;
        sensible.then_some((announce, announced))
    }
}

/// Where a message is, or shall go, in registered memory: what opens it follows the rest of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePlace {
    /// Of its first byte, as its owner's transport counts.
    pub address: u64,
    /// The region's key.
    pub key: u64,
}

impl RemotePlace {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// Writes it into the last bytes of a payload.
    ///
    /// # Panics
    /// When the payload is shorter.
    pub fn put(self, payload: &mut [u8]) {
        let at = payload.len() - Self::BYTES;
        payload[at..at + 8].copy_from_slice(&self.address.to_le_bytes());
        payload[at + 8..].copy_from_slice(&self.key.to_le_bytes());
    }

    /// Splits a payload into what is in front and the place; `None` when it is too short.
    pub fn parse(payload: &[u8]) -> Option<(&[u8], RemotePlace)> {
        let (front, key) = payload.split_last_chunk()?;
        let (front, address) = front.split_last_chunk()?;
        Some((front, RemotePlace { address: u64::from_le_bytes(*address), key: u64::from_le_bytes(*key) }))
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
    /// Header flag: the data shall be written to the [`RemotePlace`] that follows, and no fragments come.
    pub const INTO: u8 = 1;

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
            if let Some((announce, stamp)) = Announce::parse_stamped(&bytes) {
                prop_assert_eq!(&announce.stamped(stamp)[..], &bytes[..]);
            }
            if let Some((announce, announced)) = Announced::parse(&bytes) {
                let mut packet = vec![0; bytes.len()];
                let (front, back) = packet.split_at_mut(Announce::BYTES);
                front.copy_from_slice(&announce.emit());
                announced.put(back);
                prop_assert_eq!(packet, bytes.clone());
            }
            if let Some((prefix, data)) = SyncPrefix::parse(&bytes) {
                prop_assert_eq!([&prefix.emit()[..], data].concat(), bytes.clone());
            }
            if let Some((front, place)) = RemotePlace::parse(&bytes) {
                let mut packet = vec![0; bytes.len()];
                packet[..front.len()].copy_from_slice(front);
                place.put(&mut packet);
                prop_assert_eq!(packet, bytes.clone());
            }
            if let Some(cts) = Cts::parse(&bytes) {
                prop_assert_eq!(&cts.emit()[..], &bytes[..]);
            }
        }

        #[test]
        fn announced_layouts_survive_the_trip(
            skip: u64, slot in 0_u32..20, program in proptest::collection::vec(any::<u8>(), 0..1100)
        ) {
            let announce = Announce { length: 9, address: 8, request: 7, lead: 0 };
            let announced = Announced { skip, slot, program: &program };
            let mut bytes = vec![1; Announce::BYTES + Announced::BYTES + program.len()];
            bytes[..Announce::BYTES].copy_from_slice(&announce.emit());
            announced.put(&mut bytes[Announce::BYTES..]);
            let sensible = slot < 16 && program.len() <= Announced::LONGEST;
            prop_assert_eq!(Announced::parse(&bytes), sensible.then_some((announce, announced)));
            bytes.pop();
            prop_assert_eq!(Announced::parse(&bytes), None);
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
