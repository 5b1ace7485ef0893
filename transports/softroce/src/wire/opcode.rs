//! Operation codes (section 9.2.2 and table 38): which packet it is, and which headers follow.

use super::headers::Present;

/// The first byte of a packet: a transport service and an operation that we know.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(u8);

/// What a packet does, whatever the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Part of a message into a receive request.
    Send,
    /// Part of a write into memory.
    Write,
    /// A request to read memory.
    ReadRequest,
    /// Part of the answer to a read.
    ReadResponse,
    /// A positive or negative acknowledgement.
    Acknowledge,
    /// The answer to an atomic.
    AtomicAcknowledge,
    /// Compare and swap of eight bytes.
    CompareSwap,
    /// Fetch and add of eight bytes.
    FetchAdd,
}

const RELIABLE: u8 = 0x00;
const DATAGRAM: u8 = 0x60;

impl Opcode {
    /// First packet of several of a send.
    pub const SEND_FIRST: Opcode = Opcode(0x00);
    /// Neither first nor last packet of a send.
    pub const SEND_MIDDLE: Opcode = Opcode(0x01);
    /// Last packet of a send.
    pub const SEND_LAST: Opcode = Opcode(0x02);
    /// Last packet of a send with immediate data.
    pub const SEND_LAST_IMMEDIATE: Opcode = Opcode(0x03);
    /// Only packet of a send.
    pub const SEND_ONLY: Opcode = Opcode(0x04);
    /// Only packet of a send with immediate data.
    pub const SEND_ONLY_IMMEDIATE: Opcode = Opcode(0x05);
    /// First packet of several of a write.
    pub const WRITE_FIRST: Opcode = Opcode(0x06);
    /// Neither first nor last packet of a write.
    pub const WRITE_MIDDLE: Opcode = Opcode(0x07);
    /// Last packet of a write.
    pub const WRITE_LAST: Opcode = Opcode(0x08);
    /// Last packet of a write with immediate data.
    pub const WRITE_LAST_IMMEDIATE: Opcode = Opcode(0x09);
    /// Only packet of a write.
    pub const WRITE_ONLY: Opcode = Opcode(0x0a);
    /// Only packet of a write with immediate data.
    pub const WRITE_ONLY_IMMEDIATE: Opcode = Opcode(0x0b);
    /// A read request.
    pub const READ_REQUEST: Opcode = Opcode(0x0c);
    /// First of several packets of a read's answer.
    pub const READ_RESPONSE_FIRST: Opcode = Opcode(0x0d);
    /// Neither first nor last packet of a read's answer.
    pub const READ_RESPONSE_MIDDLE: Opcode = Opcode(0x0e);
    /// Last packet of a read's answer.
    pub const READ_RESPONSE_LAST: Opcode = Opcode(0x0f);
    /// Only packet of a read's answer.
    pub const READ_RESPONSE_ONLY: Opcode = Opcode(0x10);
    /// An acknowledgement.
    pub const ACKNOWLEDGE: Opcode = Opcode(0x11);
    /// The answer to an atomic.
    pub const ATOMIC_ACKNOWLEDGE: Opcode = Opcode(0x12);
    /// A compare and swap.
    pub const COMPARE_SWAP: Opcode = Opcode(0x13);
    /// A fetch and add.
    pub const FETCH_ADD: Opcode = Opcode(0x14);
    /// Last packet of a send that takes a key back.
    pub const SEND_LAST_INVALIDATE: Opcode = Opcode(0x16);
    /// Only packet of a send that takes a key back.
    pub const SEND_ONLY_INVALIDATE: Opcode = Opcode(0x17);
    /// A datagram.
    pub const DATAGRAM_SEND: Opcode = Opcode(DATAGRAM | 0x04);
    /// A datagram with immediate data.
    pub const DATAGRAM_SEND_IMMEDIATE: Opcode = Opcode(DATAGRAM | 0x05);

    /// The opcode of a byte: reliable connections and unreliable datagrams only.
    pub const fn from_byte(byte: u8) -> Option<Opcode> {
        match (byte & 0xe0, byte & 0x1f) {
            (RELIABLE, 0x00..=0x14 | 0x16 | 0x17) | (DATAGRAM, 0x04 | 0x05) => Some(Opcode(byte)),
            _ => None,
        }
    }

    /// The byte on the wire.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// Whether it belongs to the unreliable datagram service.
    pub const fn is_datagram(self) -> bool {
        self.0 & 0xe0 == DATAGRAM
    }

    /// What the packet does.
    #[inline]
    pub const fn operation(self) -> Operation {
        OPERATIONS[(self.0 & 0x1f) as usize]
    }

    const fn find_operation(byte: u8) -> Operation {
        match byte {
            0x06..=0x0b => Operation::Write,
            0x0c => Operation::ReadRequest,
            0x0d..=0x10 => Operation::ReadResponse,
            0x11 => Operation::Acknowledge,
            0x12 => Operation::AtomicAcknowledge,
            0x13 => Operation::CompareSwap,
            0x14 => Operation::FetchAdd,
            _ => Operation::Send,
        }
    }

    /// Whether it is the first packet of its message (or the only one).
    #[inline]
    pub const fn begins(self) -> bool {
        !matches!(self.0 & 0x1f, 0x01..=0x03 | 0x07..=0x09 | 0x0e | 0x0f | 0x16)
    }

    /// Whether it is the last packet of its message (or the only one).
    #[inline]
    pub const fn ends(self) -> bool {
        !matches!(self.0 & 0x1f, 0x00 | 0x01 | 0x06 | 0x07 | 0x0d | 0x0e)
    }

    /// Whether it goes from responder to requester.
    pub const fn is_response(self) -> bool {
        matches!(
            self.operation(),
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
        )
    }

    /// The extended headers that follow.
    #[inline]
    pub(super) const fn headers(self) -> Present {
        HEADERS[self.0 as usize]
    }

    const fn find_headers(self) -> Present {
        let operation = self.0 & 0x1f;
        Present {
            deth: self.is_datagram(),
            reth: matches!(operation, 0x06 | 0x0a | 0x0b | 0x0c),
            atomic: matches!(operation, 0x13 | 0x14),
            aeth: matches!(operation, 0x0d | 0x0f..=0x12),
            original: operation == 0x12,
            immediate: matches!(operation, 0x03 | 0x05 | 0x09 | 0x0b),
            invalidate: matches!(operation, 0x16 | 0x17),
        }
    }
}

/// What each operation does, by the lowest five bits: every packet is asked several times.
const OPERATIONS: [Operation; 32] = {
    let mut all = [Operation::Send; 32];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = Opcode::find_operation(byte as u8);
        byte += 1;
    }
    all
};

/// The extended headers of all bytes that are opcodes, for the same reason; nothing elsewhere.
const HEADERS: [Present; 256] = {
    let mut all = [Opcode(0xff).find_headers(); 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = Opcode(byte as u8).find_headers();
        byte += 1;
    }
    all
};

impl std::fmt::Debug for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opcode({:#04x} {:?})", self.0, self.operation())
    }
}
