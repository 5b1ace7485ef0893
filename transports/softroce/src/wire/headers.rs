//! The extended transport headers (section 9.3 to 9.6). All numbers are big-endian.

use super::Malformed;

/// Which extended headers a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) deth: bool,
    pub(super) reth: bool,
    pub(super) atomic: bool,
    pub(super) aeth: bool,
    pub(super) original: bool,
    pub(super) immediate: bool,
    pub(super) invalidate: bool,
}

/// The bytes not yet read.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }
}

/// RDMA extended transport header (section 9.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Address in the responder's memory region.
    pub address: u64,
    /// The region's remote key.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

impl Reth {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Reth, Malformed> {
        Ok(Reth { address: cursor.u64()?, rkey: cursor.u32()?, length: cursor.u32()? })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend(self.address.to_be_bytes());
        out.extend(self.rkey.to_be_bytes());
        out.extend(self.length.to_be_bytes());
    }
}

/// Atomic extended transport header (section 9.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address of eight aligned bytes in the responder's memory region.
    pub address: u64,
    /// The region's remote key.
    pub rkey: u32,
    /// What is added, or stored when the comparison holds.
    pub swap_or_add: u64,
    /// What is compared with.
    pub compare: u64,
}

impl AtomicEth {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<AtomicEth, Malformed> {
        Ok(AtomicEth {
            address: cursor.u64()?,
            rkey: cursor.u32()?,
            swap_or_add: cursor.u64()?,
            compare: cursor.u64()?,
        })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend(self.address.to_be_bytes());
        out.extend(self.rkey.to_be_bytes());
        out.extend(self.swap_or_add.to_be_bytes());
        out.extend(self.compare.to_be_bytes());
    }
}

/// Datagram extended transport header (section 9.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Must be the receiving queue pair's key.
    pub qkey: u32,
    /// The sending queue pair.
    pub from: u32,
}

impl Deth {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Deth, Malformed> {
        Ok(Deth { qkey: cursor.u32()?, from: cursor.u32()? & 0x00ff_ffff })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend(self.qkey.to_be_bytes());
        out.extend((self.from & 0x00ff_ffff).to_be_bytes());
    }
}

/// Acknowledge extended transport header (section 9.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// How it went.
    pub syndrome: Syndrome,
    /// Messages the responder has finished, 24 bits.
    pub msn: u32,
}

/// What an acknowledgement says (table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive, with a code for the receive requests that are posted; 31 says "not counted".
    Ack(u8),
    /// No receive request was posted; try again after the time of this code ([`Syndrome::delay_ns`]).
    NotReady(u8),
    /// A packet is missing: send again from this packet's number on.
    Sequence,
    /// The request makes no sense to the responder.
    InvalidRequest,
    /// Key, bounds or rights do not allow it.
    RemoteAccess,
    /// The responder could not finish it.
    RemoteOperation,
    /// Anything else.
    Reserved(u8),
}

impl Syndrome {
    /// A positive acknowledgement that does not count receive requests.
    pub const UNCOUNTED: Syndrome = Syndrome::Ack(31);

    const fn from_byte(byte: u8) -> Syndrome {
        match byte {
            0x00..=0x1f => Syndrome::Ack(byte),
            0x20..=0x3f => Syndrome::NotReady(byte & 0x1f),
            0x60 => Syndrome::Sequence,
            0x61 => Syndrome::InvalidRequest,
            0x62 => Syndrome::RemoteAccess,
            0x63 => Syndrome::RemoteOperation,
            _ => Syndrome::Reserved(byte),
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Syndrome::Ack(code) => code & 0x1f,
            Syndrome::NotReady(code) => 0x20 | code & 0x1f,
            Syndrome::Sequence => 0x60,
            Syndrome::InvalidRequest => 0x61,
            Syndrome::RemoteAccess => 0x62,
            Syndrome::RemoteOperation => 0x63,
            Syndrome::Reserved(byte) => byte,
        }
    }

    /// The time of a not-ready code in nanoseconds (table 45): 0.01 ms (code 1) to 491.52 ms (31); code 0 is 655.36 ms.
    pub const fn delay_ns(code: u8) -> u64 {
        const HUNDREDTHS_OF_MS: [u64; 32] = [
            65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
            2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
        ];
        HUNDREDTHS_OF_MS[(code & 0x1f) as usize] * 10_000
    }
}

impl Aeth {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Aeth, Malformed> {
        let word = cursor.u32()?;
        Ok(Aeth { syndrome: Syndrome::from_byte((word >> 24) as u8), msn: word & 0x00ff_ffff })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend((u32::from(self.syndrome.byte()) << 24 | self.msn & 0x00ff_ffff).to_be_bytes());
    }
}
