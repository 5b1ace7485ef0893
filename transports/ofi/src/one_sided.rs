//! Registered memory and operations on it. What the library does not take now is kept and offered again, so that an operation is
//! begun as a whole or not at all.

use crate::device::{Denied, MOST_TOGETHER};
use crate::select::REMOTE_MEMORY;
use crate::slots::{Piece, Slot};
use crate::sys::{FI_ORDER_SAW, FI_REMOTE_COMM};
use crate::transport::{Ofi, SOCKETS, Use};
use weft_api::Refused;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered, ZeroCopy,
};
use weft_types::PeerId;

/// Most runs of each side in one call.
const MAX_RUNS: usize = 16;
/// Longest piece, where the provider's longest message is longer: providers count in 32 bits here and there.
const LONGEST_PIECE: u64 = 1 << 30;
/// Pieces to one peer that wait for the library; beyond that operations are refused.
const MOST_WAITING: usize = 64;
/// Most bytes of reads from one peer under way at a time over sockets: what its socket takes at once. Beyond that the kernel sends the rest when
/// it hears from us, on whatever core that happens, and what lies in its buffers leaves the caches.
pub(crate) const MOST_READING: u64 = 768 << 10;
/// Bytes of reads that leave in one request: a longer one gains nothing by company.
const TOGETHER: u64 = 256 << 10;

impl Ofi {
    pub(crate) fn what_zero_copy_can(&self) -> Option<ZeroCopy> {
        let device = self.slots.device_ref();
        let offer = device.offer();
        // A provider that stays inside a node (shm) writes to memory that was taken back (2.5), or does not end (1.17).
        if !offer.can(REMOTE_MEMORY | FI_REMOTE_COMM) {
            return None;
        }
        let hardware = offer.drives_a_device();
        let speed = if offer.speed() > 0 { offer.speed() as f64 / 8.0 } else { SOCKETS };
        let latency = if hardware { 2e-6 } else { 25e-6 };
        Some(ZeroCopy {
            get: true,
            put: offer.tells_delivery,
            atomics: device.has_atomics() && self.longest >= 24,
            atomics_of_four: false,
            atomic_with_processors: false,
            atomic_with_packets: false,
            local_regions: device.registers_locally(),
            // Software copies through the addresses; a device has the pages.
            follows_mappings: !hardware,
            // Those up to there leave together, and cost no read.
            read_in_row: if self.reads_together > 1 { self.sent_together() as u64 + 1 } else { u64::MAX },
            put_before_send: offer.msg_order & FI_ORDER_SAW != 0,
            // What is longer than a message of the provider goes in pieces.
            max_bytes: u64::MAX,
            max_copy: self.longest,
            max_runs: MAX_RUNS,
            max_regions: if offer.mr_key_size < 4 { 1 << 14 } else { 1 << 20 },
            max_registered: u64::MAX,
            registration: if hardware { 20e-6 } else { 0.5e-6 },
            registration_per_byte: if hardware { 0.06e-9 } else { 0.0 },
            get_latency: latency,
            put_latency: latency,
            bandwidth: speed,
            per_run: latency / 10.0,
        })
    }

    pub(crate) fn register_memory(
        &mut self,
        memory: MemoryRange,
        access: Access,
    ) -> Result<Region, Unregistered> {
        if !self.slots.device_ref().offer().can(REMOTE_MEMORY) {
            return Err(Unregistered::Cannot);
        }
        self.slots.register(memory, access).map_err(|_| Unregistered::Exhausted)
    }

    pub(crate) fn deregister_memory(&mut self, region: RegionId) {
        self.slots.deregister(region);
    }

    /// The number of a peer to which an operation may begin.
    fn target(&mut self, id: PeerId) -> Result<u32, Refused> {
        let number = self.number(id)?;
        if self.peers[number as usize].gone {
            Err(Refused::Dead)
        } else if !self.has_place(number) {
            Err(self.refused(number, Denied::Again))
        } else if self.peers[number as usize].doubted || self.waiting_for(number) >= MOST_WAITING {
            Err(Refused::Full)
        } else {
            Ok(number)
        }
    }

    pub(crate) fn transfer(
        &mut self,
        id: PeerId,
        put: bool,
        remote: &[RemoteRun],
        local: &[LocalRun],
        token: Option<Token>,
    ) -> Result<(), Refused> {
        let number = self.target(id)?;
        let bytes = if put { 0 } else { local.iter().map(|run| run.length).sum() };
        let reading = if put { 0 } else { self.operations.reading(number) };
        if reading > 0 && reading + bytes > self.most_reading {
            return Err(Refused::Full);
        }
        let parts = cut(remote, local, self.longest_piece());
        let operation = self.operations.begin(number, token, parts.len() as u32, put);
        if !put {
            self.operations.reads(operation, bytes);
        }
        let to = self.peers[number as usize].address;
        let (waiting, more) = (self.waiting_for(number), parts.len());
        let short = !put && parts.iter().all(|(run, _)| run.length <= TOGETHER / 2);
        let mut parts = parts.into_iter().map(|(local, remote)| Piece { operation, to, local, remote, put });
        if waiting > 0 || short && self.may_read_together() {
            self.wait(number, parts);
            // As many as a request takes are there: they need not wait for the end of the turn.
            if (waiting + 1..=waiting + more).contains(&self.reads_together) {
                self.begin_waiting();
            }
            return Ok(());
        }
        let mut begun = false;
        while let Some(piece) = parts.next() {
            let taken =
                if self.has_place_for_piece() { self.slots.begin(&[piece]) } else { Err(Denied::Again) };
            match taken {
                Ok(()) => {
                    self.requests += 1;
                    begun = true;
                }
                Err(Denied::Again) if begun => {
                    self.wait(number, std::iter::once(piece).chain(parts));
                    return Ok(());
                }
                Err(Denied::Again) => {
                    self.operations.undo(operation);
                    return Err(self.refused(number, Denied::Again));
                }
                // The peer may be well: it is the memory that was not allowed.
                Err(Denied::Failed(_)) => {
                    begun = true;
                    self.operations.piece_ended(operation, false, 0);
                }
            }
        }
        Ok(())
    }

    /// Keeps pieces for the library. Packets do not pass those of puts where they are promised not to.
    fn wait(&mut self, number: u32, pieces: impl Iterator<Item = Piece>) {
        for piece in pieces {
            self.peers[number as usize].puts_waiting += u32::from(piece.put);
            self.waiting.push_back((number, piece));
        }
        self.peers[number as usize].look_whether_shut(self.orders_puts);
    }

    /// A piece waits no more.
    fn waits_no_more(&mut self, number: u32, piece: &Piece) {
        if piece.put {
            let peer = &mut self.peers[number as usize];
            peer.puts_waiting -= 1;
            peer.look_whether_shut(self.orders_puts);
        }
    }

    /// Whether the library may have another request: messages have room beside them, so that news, and those whom others wait for,
    /// get away whatever waits here.
    fn has_place_for_piece(&self) -> bool {
        let sends = self.slots.device_ref().offer().tx_size;
        self.slots.pieces_under_way() < (sends - sends / 4).max(1)
    }

    /// Most bytes that the provider moves in one piece.
    fn longest_piece(&self) -> u64 {
        LONGEST_PIECE.min(self.slots.device_ref().offer().max_msg_size as u64)
    }

    /// Whether reads wait for the end of the turn, so that several leave in one request.
    fn may_read_together(&self) -> bool {
        self.reads_together > 1 && self.in_turn()
    }

    /// Offers the pieces that wait; reads of one peer that follow one another leave in one request, where that gains.
    pub(crate) fn begin_waiting(&mut self) {
        // One turn of the list, which keeps its order for each peer: one that takes nothing holds up no other.
        let mut refusing = Vec::new();
        let together = TOGETHER.min(self.longest_piece());
        let mut left = self.waiting.len();
        while left > 0 {
            let Some((number, piece)) = self.waiting.pop_front() else { return };
            left -= 1;
            if self.peers[number as usize].gone {
                self.waits_no_more(number, &piece);
                self.operations.piece_ended(piece.operation, false, 0);
                continue;
            }
            if refusing.contains(&number) || !self.has_place_for_piece() {
                self.waiting.push_back((number, piece));
                continue;
            }
            let (mut pieces, mut count, mut bytes) = ([piece; MOST_TOGETHER], 1, piece.local.length);
            while left > 0
                && count < self.reads_together
                && let Some(&(other, next)) = self.waiting.front()
                && other == number
                && !(piece.put || next.put)
                && bytes + next.local.length <= together
            {
                self.waiting.pop_front();
                pieces[count] = next;
                (left, count, bytes) = (left - 1, count + 1, bytes + next.local.length);
            }
            let pieces = &pieces[..count];
            match self.slots.begin(pieces) {
                Ok(()) => {
                    self.requests += 1;
                    self.waits_no_more(number, &pieces[0]);
                }
                Err(Denied::Again) => {
                    refusing.push(number);
                    self.waiting.extend(pieces.iter().map(|&piece| (number, piece)));
                    // Whoever refuses everything for long is looked after.
                    let _ = self.refused(number, Denied::Again);
                }
                Err(Denied::Failed(_)) => {
                    self.waits_no_more(number, &pieces[0]);
                    pieces.iter().for_each(|piece| self.operations.piece_ended(piece.operation, false, 0));
                }
            }
        }
    }

    /// Pieces that wait for one peer.
    fn waiting_for(&self, number: u32) -> usize {
        self.waiting.iter().filter(|(other, _)| *other == number).count()
    }

    pub(crate) fn write_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        id: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> Result<(), Refused> {
        let number = self.target(id)?;
        if self.waiting_for(number) > 0 {
            return Err(Refused::Full);
        }
        let slot = self.slot_for_data().ok_or(Refused::Full)?;
        fill(self.slots.bytes_mut(slot, length));
        let operation = self.operations.begin(number, token, 1, true);
        let address = self.peers[number as usize].address;
        let written = self.slots.write(slot, length, address, to);
        self.on_slot(slot, number, Use::Operation(operation), written)
    }

    pub(crate) fn change(
        &mut self,
        id: PeerId,
        at: RemoteMemory,
        atomic: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        let number = self.target(id)?;
        let slot = self.slot_for_data().ok_or(Refused::Full)?;
        let (operand, compared, compares) = match atomic {
            Atomic::FetchAdd(add) => (add, 0, false),
            Atomic::CompareSwap { compare, swap } => (swap, compare, true),
        };
        let numbers = self.slots.bytes_mut(slot, 24);
        numbers[..8].copy_from_slice(&operand.to_ne_bytes());
        numbers[8..16].copy_from_slice(&compared.to_ne_bytes());
        let operation = self.operations.begin(number, Some(token), 1, false);
        let address = self.peers[number as usize].address;
        let begun = self.slots.atomic(slot, compares, address, at);
        self.on_slot(slot, number, Use::Atomic(operation), begun)
    }

    /// Notes an operation of one piece on a slot, or that there is none.
    fn on_slot(
        &mut self,
        slot: Slot,
        number: u32,
        work: Use,
        begun: Result<(), Denied>,
    ) -> Result<(), Refused> {
        let (Use::Operation(operation) | Use::Atomic(operation)) = work else {
            unreachable!("a message is no operation")
        };
        match begun {
            Ok(()) => {
                self.uses[slot.index()] = work;
                self.sending += 1;
                Ok(())
            }
            Err(denied) => {
                self.slots.give_back(slot);
                if denied == Denied::Again {
                    self.operations.undo(operation);
                    return Err(self.refused(number, denied));
                }
                self.operations.piece_ended(operation, false, 0);
                Ok(())
            }
        }
    }

    pub(crate) fn tell_when_flushed(&mut self, id: PeerId, token: Token) -> Result<(), Refused> {
        let number = self.number(id)?;
        if self.peers[number as usize].gone {
            return Err(Refused::Dead);
        }
        self.operations.flush(number, token);
        Ok(())
    }
}

/// Cuts two lists of runs with the same number of bytes into pieces of one run each, of at most `longest` bytes.
fn cut(remote: &[RemoteRun], local: &[LocalRun], longest: u64) -> Vec<(LocalRun, RemoteMemory)> {
    let mut pieces = Vec::with_capacity(remote.len().max(local.len()));
    let mut locals = local.iter().filter(|run| run.length > 0);
    let (mut run, mut used) = (locals.next(), 0);
    for there in remote {
        let mut done = 0;
        while done < there.length
            && let Some(here) = run
        {
            let length = (here.length - used).min(there.length - done).min(longest);
            let local = LocalRun { address: here.address + used, length, region: here.region };
            pieces.push((local, there.memory.plus(done)));
            (done, used) = (done + length, used + length);
            if used == here.length {
                (run, used) = (locals.next(), 0);
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_every_byte_once(cuts in prop::collection::vec(0_u64..50, 1..8), others in prop::collection::vec(0_u64..50, 1..8), longest in 1_u64..60) {
            // Both lists get the same sum: the shorter one is made longer at its end.
            let (mut ones, mut twos) = (cuts, others);
            let (sum, other): (u64, u64) = (ones.iter().sum(), twos.iter().sum());
            if sum < other { ones.push(other - sum) } else { twos.push(sum - other) }
            let memory = |at: usize| RemoteMemory { address: 1_000 * at as u64, key: 7 };
            let remote: Vec<_> = ones.iter().enumerate().map(|(at, &length)| RemoteRun { memory: memory(at), length }).collect();
            let local: Vec<_> = twos.iter().enumerate()
                .map(|(at, &length)| LocalRun { address: 500_000 + 1_000 * at as u64, length, region: RegionId(at as u32) }).collect();
            let bytes = |runs: Vec<(u64, u64)>| -> Vec<u64> { runs.into_iter().flat_map(|(at, length)| at..at + length).collect() };
            let pieces = cut(&remote, &local, longest);
            prop_assert!(pieces.iter().all(|(here, _)| here.length <= longest));
            prop_assert_eq!(
                bytes(pieces.iter().map(|(here, _)| (here.address, here.length)).collect()),
                bytes(local.iter().map(|run| (run.address, run.length)).collect())
            );
            prop_assert_eq!(
                bytes(pieces.iter().map(|(here, there)| (there.address, here.length)).collect()),
                bytes(remote.iter().map(|run| (run.memory.address, run.length)).collect())
            );
        }
    }
}
