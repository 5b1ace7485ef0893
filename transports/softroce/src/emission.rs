//! Packets of requests: which opcode, which headers, which bytes.

use crate::memory::{self, Fault, Memory};
use crate::psn::Psn;
use crate::request::{Data, Posted};
use crate::requester::Entry;
use crate::wire::{AtomicEth, Opcode, Packet, Reth};
use weft_api::verbs::{QueuePairNumber, Work};

/// Writes packet number `packet` of an entry.
pub(crate) fn emit<M: Memory>(
    entry: &Entry,
    packet: u32,
    psn: Psn,
    to: QueuePairNumber,
    mtu: u32,
    asks: bool,
    memory: &M,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let request = &entry.request;
    let last = packet + 1 == entry.packets;
    let mut wire = Packet::new(opcode(request.work, packet == 0, last), to.0, psn);
    match request.work {
        Work::Read { from } => {
            let skipped = packet * mtu;
            wire.reth = Some(Reth {
                address: from.address.wrapping_add(u64::from(entry.offset + skipped)),
                rkey: from.key.0,
                length: entry.length - skipped,
            });
            wire.ack_request = true;
            wire.emit(out);
            return Ok(());
        }
        Work::CompareSwap { at, compare, swap } => {
            wire.atomic = Some(AtomicEth { address: at.address, rkey: at.key.0, swap_or_add: swap, compare });
            wire.ack_request = true;
            wire.emit(out);
            return Ok(());
        }
        Work::FetchAdd { at, add } => {
            wire.atomic =
                Some(AtomicEth { address: at.address, rkey: at.key.0, swap_or_add: add, compare: 0 });
            wire.ack_request = true;
            wire.emit(out);
            return Ok(());
        }
        Work::Write { to, immediate } => {
            if packet == 0 {
                wire.reth = Some(Reth { address: to.address, rkey: to.key.0, length: request.length });
            }
            wire.immediate = immediate.filter(|_| last);
        }
        Work::Send { immediate } => wire.immediate = immediate.filter(|_| last),
        Work::Datagram { .. } => unreachable!("datagrams are not posted to connections"),
    }
    wire.ack_request = asks;
    wire.solicited = request.solicited && last;
    let offset = packet * mtu;
    let length = (request.length - offset).min(mtu);
    let mut read = Ok(());
    wire.emit_around(length as usize, out, |out| read = bytes_of(request, offset, length, memory, out));
    read
}

/// Appends `length` bytes from `offset` on of a request's data.
///
/// # Errors
/// Some of them are not there (any more); as many others were appended.
pub(crate) fn bytes_of<M: Memory>(
    request: &Posted,
    offset: u32,
    length: u32,
    memory: &M,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let end = out.len() + length as usize;
    match &request.data {
        Data::Inline(bytes) => {
            out.extend(&bytes[offset as usize..][..length as usize]);
            Ok(())
        }
        Data::Few(few) => {
            out.extend(&few.as_slice()[offset as usize..][..length as usize]);
            Ok(())
        }
        Data::Segments(segments) => {
            memory::gather(memory, segments.as_slice(), u64::from(offset), length as usize, out)
                .inspect_err(|Fault| out.resize(end, 0)) // As many as were promised.
        }
    }
}

fn opcode(work: Work, first: bool, last: bool) -> Opcode {
    match work {
        Work::Send { immediate } => match (first, last, immediate.is_some()) {
            (true, false, _) => Opcode::SEND_FIRST,
            (false, false, _) => Opcode::SEND_MIDDLE,
            (false, true, false) => Opcode::SEND_LAST,
            (false, true, true) => Opcode::SEND_LAST_IMMEDIATE,
            (true, true, false) => Opcode::SEND_ONLY,
            (true, true, true) => Opcode::SEND_ONLY_IMMEDIATE,
        },
        Work::Write { immediate, .. } => match (first, last, immediate.is_some()) {
            (true, false, _) => Opcode::WRITE_FIRST,
            (false, false, _) => Opcode::WRITE_MIDDLE,
            (false, true, false) => Opcode::WRITE_LAST,
            (false, true, true) => Opcode::WRITE_LAST_IMMEDIATE,
            (true, true, false) => Opcode::WRITE_ONLY,
            (true, true, true) => Opcode::WRITE_ONLY_IMMEDIATE,
        },
        Work::Read { .. } => Opcode::READ_REQUEST,
        Work::CompareSwap { .. } => Opcode::COMPARE_SWAP,
        Work::FetchAdd { .. } => Opcode::FETCH_ADD,
        Work::Datagram { immediate, .. } => {
            if immediate.is_some() {
                Opcode::DATAGRAM_SEND_IMMEDIATE
            } else {
                Opcode::DATAGRAM_SEND
            }
        }
    }
}
