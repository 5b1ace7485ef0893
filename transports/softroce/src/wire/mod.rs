//! RoCEv2 packets as they lie in a UDP datagram: base transport header, extended headers, payload, pad, invariant CRC.
//!
//! A [`Packet`] is a plain value with its payload borrowed; [`Packet::parse`] and [`Packet::emit`] are each other's
//! inverse. Sources: InfiniBand Architecture Specification 1.7, chapters 5 and 9; its annex A17 (RoCEv2).

mod headers;
pub mod icrc;
mod opcode;
pub mod sums;

pub use headers::{Aeth, AtomicEth, Deth, Reth, Syndrome};
pub use opcode::{Opcode, Operation};

use crate::psn::Psn;
use headers::Cursor;

/// The UDP port of RoCEv2.
pub const UDP_PORT: u16 = 4791;

/// The default partition key, with full membership.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// Bytes of the base transport header.
pub const BTH_BYTES: usize = 12;

/// One packet, without its invariant CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is, and of which transport service.
    pub opcode: Opcode,
    /// Whether the receiver asked for events shall get one.
    pub solicited: bool,
    /// The partition.
    pub pkey: u16,
    /// The queue pair it goes to.
    pub to: u32,
    /// Whether an acknowledgement is wanted.
    pub ack_request: bool,
    /// Its number.
    pub psn: Psn,
    /// RDMA: where and how much.
    pub reth: Option<Reth>,
    /// Atomics: where and with what.
    pub atomic: Option<AtomicEth>,
    /// Acknowledgements: how it went.
    pub aeth: Option<Aeth>,
    /// Answers to atomics: what was there before.
    pub original: Option<u64>,
    /// Immediate data, in host order.
    pub immediate: Option<u32>,
    /// The key that the receiver shall take back.
    pub invalidate: Option<u32>,
    /// Datagrams: who sends, and with which key.
    pub deth: Option<Deth>,
    /// The data, without pad.
    pub payload: &'a [u8],
}

/// Why bytes are no packet that we understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its headers.
    Short,
    /// A transport service or operation that is not ours.
    Opcode(u8),
    /// Another version of the header.
    Version(u8),
    /// More pad than payload.
    Pad,
}

impl<'a> Packet<'a> {
    /// A packet with neither extended headers nor payload.
    pub const fn new(opcode: Opcode, to: u32, psn: Psn) -> Packet<'a> {
        Packet {
            opcode,
            solicited: false,
            pkey: DEFAULT_PKEY,
            to,
            ack_request: false,
            psn,
            reth: None,
            atomic: None,
            aeth: None,
            original: None,
            immediate: None,
            invalidate: None,
            deth: None,
            payload: &[],
        }
    }

    /// Reads a packet from the bytes between the UDP header and the invariant CRC.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let (bth, rest) = bytes.split_at_checked(BTH_BYTES).ok_or(Malformed::Short)?;
        let opcode = Opcode::from_byte(bth[0]).ok_or(Malformed::Opcode(bth[0]))?;
        let (flags, version) = (bth[1], bth[1] & 15);
        if version != 0 {
            return Err(Malformed::Version(version));
        }
        let word = |at: usize| u32::from_be_bytes([bth[at], bth[at + 1], bth[at + 2], bth[at + 3]]);
        let mut packet = Packet::new(opcode, word(4) & 0x00ff_ffff, Psn::new(word(8)));
        packet.solicited = flags & 0x80 != 0;
        packet.pkey = u16::from_be_bytes([bth[2], bth[3]]);
        packet.ack_request = bth[8] & 0x80 != 0;
        let mut cursor = Cursor(rest);
        let has = opcode.headers();
        if has.deth {
            packet.deth = Some(Deth::parse(&mut cursor)?);
        }
        if has.reth {
            packet.reth = Some(Reth::parse(&mut cursor)?);
        }
        if has.atomic {
            packet.atomic = Some(AtomicEth::parse(&mut cursor)?);
        }
        if has.aeth {
            packet.aeth = Some(Aeth::parse(&mut cursor)?);
        }
        if has.original {
            packet.original = Some(cursor.u64()?);
        }
        if has.immediate {
            packet.immediate = Some(cursor.u32()?);
        }
        if has.invalidate {
            packet.invalidate = Some(cursor.u32()?);
        }
        let pad = usize::from(flags >> 4 & 3);
        let length = cursor.0.len().checked_sub(pad).ok_or(Malformed::Pad)?;
        packet.payload = &cursor.0[..length];
        Ok(packet)
    }

    /// Appends the packet without invariant CRC. Reserved bits are zero; the payload is padded to a multiple of four bytes.
    ///
    /// # Panics
    /// When the extended headers are not those of the opcode: a fault of the caller.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_around(self.payload.len(), out, |out| out.extend(self.payload));
    }

    /// As [`Packet::emit`] with a payload of `length` bytes that `fill` appends in place of the packet's own.
    ///
    /// # Panics
    /// As [`Packet::emit`].
    #[inline(always)]
    pub fn emit_around(&self, length: usize, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        let has = self.opcode.headers();
        let given = headers::Present {
            deth: self.deth.is_some(),
            reth: self.reth.is_some(),
            atomic: self.atomic.is_some(),
            aeth: self.aeth.is_some(),
            original: self.original.is_some(),
            immediate: self.immediate.is_some(),
            invalidate: self.invalidate.is_some(),
        };
        assert_eq!(has, given, "the extended headers of {:?}", self.opcode);
        let pad = length.wrapping_neg() & 3;
        /// The migration state of a path that never migrated.
        const MIGRATED: u8 = 0x40;
        let mut bth = [0; BTH_BYTES];
        bth[0] = self.opcode.byte();
        bth[1] = u8::from(self.solicited) << 7 | MIGRATED | (pad as u8) << 4;
        bth[2..4].copy_from_slice(&self.pkey.to_be_bytes());
        bth[4..8].copy_from_slice(&(self.to & 0x00ff_ffff).to_be_bytes());
        bth[8..].copy_from_slice(&(u32::from(self.ack_request) << 31 | self.psn.get()).to_be_bytes());
        out.extend_from_slice(&bth);
        if let Some(deth) = self.deth {
            deth.emit(out);
        }
        if let Some(reth) = self.reth {
            reth.emit(out);
        }
        if let Some(atomic) = self.atomic {
            atomic.emit(out);
        }
        if let Some(aeth) = self.aeth {
            aeth.emit(out);
        }
        if let Some(original) = self.original {
            out.extend(original.to_be_bytes());
        }
        if let Some(immediate) = self.immediate {
            out.extend(immediate.to_be_bytes());
        }
        if let Some(key) = self.invalidate {
            out.extend(key.to_be_bytes());
        }
        let start = out.len();
        fill(out);
        debug_assert_eq!(out.len() - start, length, "the payload that was promised");
        out.extend(&[0; 3][..pad]);
    }
}

#[cfg(test)]
mod tests;
