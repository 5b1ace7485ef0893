//! The receiving half of a reliable connection: order, execution, answers (sections 9.7.4, 9.7.5.1).
//!
//! Requests are executed in the order of their packet numbers, each once. `answers` is what goes back, in that order; the
//! last executed reads and atomics are remembered, because their answers may be lost.

use crate::memory::{self, Fault, Memory, Regions, Right};
use crate::psn::Psn;
use crate::queues::ReceiveQueue;
use crate::request::Received;
use crate::wire::{Aeth, Opcode, Operation, Packet, Syndrome};
use std::collections::VecDeque;
use weft_api::verbs::{
    CompletedWork, Completion, CompletionStatus, ProtectionDomain, QueuePairNumber, Remote,
};

/// A message of which not all packets are here.
#[derive(Clone, Copy, Debug)]
enum Incoming {
    Send { request: Received, here: u32 },
    Write { address: u64, rkey: u32, length: u32, here: u32 },
}

/// Something to send back.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Acknowledge { psn: Psn, syndrome: Syndrome, msn: u32 },
    Read { psn: Psn, address: u64, rkey: u32, left: u32, first: bool, msn: u32 },
    Atomic { psn: Psn, original: u64, msn: u32 },
}

impl Answer {
    fn psn(&self) -> Psn {
        match *self {
            Answer::Acknowledge { psn, .. } | Answer::Read { psn, .. } | Answer::Atomic { psn, .. } => psn,
        }
    }
}

/// A request that may have to be answered again.
#[derive(Clone, Copy, Debug)]
enum Remembered {
    Read { first: Psn, packets: u32, address: u64, rkey: u32, length: u32, msn: u32 },
    Atomic { psn: Psn, original: u64, msn: u32 },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Responder {
    expected: Psn,
    msn: u32,
    incoming: Option<Incoming>,
    /// A packet was refused; until the expected one comes, all others are dropped in silence.
    refused: bool,
    answers: VecDeque<Answer>,
    remembered: VecDeque<Remembered>,
    config: Remote,
}

/// What a packet led to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// For the receive completion queue.
    pub(crate) completion: Option<Completion>,
    /// The shared receive queue's limit was crossed.
    pub(crate) limit: bool,
    /// The queue pair goes into error.
    pub(crate) fatal: bool,
}

/// What surrounds a responder.
pub(crate) struct Surroundings<'a, M> {
    pub(crate) own: QueuePairNumber,
    pub(crate) domain: ProtectionDomain,
    pub(crate) regions: &'a Regions,
    pub(crate) receives: &'a mut ReceiveQueue,
    pub(crate) memory: &'a mut M,
}

/// Why a request is not executed.
enum Refusal {
    NotReady,
    Fatal(Syndrome),
}

impl Responder {
    pub(crate) fn new(config: Remote) -> Responder {
        Responder {
            expected: Psn::new(config.first_packet),
            msn: 0,
            incoming: None,
            refused: false,
            answers: VecDeque::new(),
            remembered: VecDeque::new(),
            config,
        }
    }

    /// A request packet came.
    pub(crate) fn receive<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        around: &mut Surroundings<'_, M>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let ahead = packet.psn.ahead_of(self.expected);
        if ahead > 0 {
            if !self.refused {
                self.refused = true;
                self.acknowledge(self.expected, Syndrome::Sequence);
            }
            return outcome;
        }
        if ahead < 0 {
            self.repeat(packet);
            return outcome;
        }
        match self.execute(packet, around, &mut outcome) {
            Ok(packets) => {
                self.refused = false;
                self.expected = self.expected.plus(packets);
                let answers_itself = matches!(
                    packet.opcode.operation(),
                    Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd
                );
                if packet.ack_request && !answers_itself {
                    self.acknowledge(packet.psn, Syndrome::UNCOUNTED);
                }
            }
            Err(Refusal::NotReady) => {
                self.refused = true;
                self.acknowledge(packet.psn, Syndrome::NotReady(self.config.not_ready_code));
            }
            Err(Refusal::Fatal(syndrome)) => {
                self.acknowledge(packet.psn, syndrome);
                if let (Some(Incoming::Send { request, .. }), None) = (self.incoming, outcome.completion) {
                    // Its message will never be whole.
                    let status = match syndrome {
                        Syndrome::RemoteOperation => CompletionStatus::LocalProtection,
                        _ => CompletionStatus::LocalLength,
                    };
                    outcome.completion = Some(received(request.id, status, 0, None, packet, around.own));
                }
                self.incoming = None;
                outcome.fatal = true;
            }
        }
        outcome
    }

    /// Executes the expected packet; the packet numbers it takes.
    fn execute<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        around: &mut Surroundings<'_, M>,
        outcome: &mut Outcome,
    ) -> Result<u32, Refusal> {
        let invalid = Err(Refusal::Fatal(Syndrome::InvalidRequest));
        let operation = packet.opcode.operation();
        let fits = match (self.incoming, operation) {
            (None, _) => packet.opcode.begins(),
            (Some(Incoming::Send { .. }), Operation::Send)
            | (Some(Incoming::Write { .. }), Operation::Write) => !packet.opcode.begins(),
            _ => false,
        };
        if !fits || !self.has_right_length(packet) {
            return invalid;
        }
        match operation {
            Operation::Send => self.send(packet, around, outcome).map(|()| 1),
            Operation::Write => self.write(packet, around, outcome).map(|()| 1),
            Operation::ReadRequest => self.read(packet, around),
            Operation::CompareSwap | Operation::FetchAdd => self.atomic(packet, around),
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge => invalid,
        }
    }

    /// All packets of a message but the last are full.
    fn has_right_length(&self, packet: &Packet<'_>) -> bool {
        let (length, mtu) = (packet.payload.len(), self.config.mtu as usize);
        match packet.opcode.operation() {
            Operation::Send | Operation::Write => match (packet.opcode.begins(), packet.opcode.ends()) {
                (_, false) => length == mtu,
                (false, true) => (1..=mtu).contains(&length),
                (true, true) => length <= mtu,
            },
            _ => length == 0,
        }
    }

    fn send<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        around: &mut Surroundings<'_, M>,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let (request, here) = match self.incoming {
            Some(Incoming::Send { request, here }) => (request, here),
            _ => {
                let (request, limit) = around.receives.take().ok_or(Refusal::NotReady)?;
                outcome.limit = limit;
                (request, 0)
            }
        };
        let segments = request.segments.as_slice();
        let total = here + packet.payload.len() as u32;
        let placed = if here == 0
            && !segments.iter().all(|&segment| around.regions.allows_local(around.domain, segment, true))
        {
            Err(Syndrome::RemoteOperation)
        } else if u64::from(total) > memory::total(segments) {
            Err(Syndrome::InvalidRequest)
        } else {
            memory::scatter(around.memory, segments, u64::from(here), packet.payload)
                .map_err(|Fault| Syndrome::RemoteOperation)
        };
        if let Err(syndrome) = placed {
            // The receive request is taken, and must be told of.
            self.incoming = Some(Incoming::Send { request, here });
            return Err(Refusal::Fatal(syndrome));
        }
        if !packet.opcode.ends() {
            self.incoming = Some(Incoming::Send { request, here: total });
            return Ok(());
        }
        self.incoming = None;
        self.finished();
        outcome.completion = Some(received(
            request.id,
            CompletionStatus::Success,
            total,
            Some(CompletedWork::Receive),
            packet,
            around.own,
        ));
        Ok(())
    }

    fn write<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        around: &mut Surroundings<'_, M>,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let (address, rkey, length, here) = match (self.incoming, packet.reth) {
            (Some(Incoming::Write { address, rkey, length, here }), _) => (address, rkey, length, here),
            (_, Some(reth)) => (reth.address, reth.rkey, reth.length, 0),
            (_, None) => return Err(Refusal::Fatal(Syndrome::InvalidRequest)),
        };
        let after = u64::from(here) + packet.payload.len() as u64;
        let whole = after == u64::from(length);
        if after > u64::from(length) || packet.opcode.ends() != whole {
            return Err(Refusal::Fatal(Syndrome::InvalidRequest));
        }
        let after = after as u32;
        // Asked for every packet: the region may be taken back in the middle of a message.
        let regions = around.regions;
        let allowed = self.config.access.remote_write
            && regions.allows_remote(around.domain, rkey, address, length, Right::Write);
        if !allowed && length > 0 {
            return Err(Refusal::Fatal(Syndrome::RemoteAccess));
        }
        let receive = match packet.immediate {
            None => None,
            Some(_) => {
                let (request, limit) = around.receives.take().ok_or(Refusal::NotReady)?;
                outcome.limit = limit;
                Some(request)
            }
        };
        if !packet.payload.is_empty() {
            let written = around.memory.write(address + u64::from(here), packet.payload);
            written.map_err(|Fault| Refusal::Fatal(Syndrome::RemoteOperation))?;
        }
        self.incoming = Some(Incoming::Write { address, rkey, length, here: after });
        if packet.opcode.ends() {
            self.incoming = None;
            self.finished();
        }
        if let Some(request) = receive {
            outcome.completion = Some(received(
                request.id,
                CompletionStatus::Success,
                length,
                Some(CompletedWork::ReceiveWrite),
                packet,
                around.own,
            ));
        }
        Ok(())
    }

    fn read<M: Memory>(&mut self, packet: &Packet<'_>, around: &Surroundings<'_, M>) -> Result<u32, Refusal> {
        let Some(reth) = packet.reth.filter(|_| self.config.max_incoming_reads > 0) else {
            return Err(Refusal::Fatal(Syndrome::InvalidRequest));
        };
        let allowed = self.config.access.remote_read
            && around.regions.allows_remote(around.domain, reth.rkey, reth.address, reth.length, Right::Read);
        if !allowed && reth.length > 0 {
            return Err(Refusal::Fatal(Syndrome::RemoteAccess));
        }
        let packets = reth.length.div_ceil(self.config.mtu).max(1);
        self.finished();
        let (address, rkey, length, msn) = (reth.address, reth.rkey, reth.length, self.msn);
        self.remember(Remembered::Read { first: packet.psn, packets, address, rkey, length, msn });
        self.answers.push_back(Answer::Read {
            psn: packet.psn,
            address,
            rkey,
            left: length,
            first: true,
            msn,
        });
        Ok(packets)
    }

    fn atomic<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        around: &mut Surroundings<'_, M>,
    ) -> Result<u32, Refusal> {
        let Some(atomic) = packet
            .atomic
            .filter(|atomic| atomic.address.is_multiple_of(8) && self.config.max_incoming_reads > 0)
        else {
            return Err(Refusal::Fatal(Syndrome::InvalidRequest));
        };
        let allowed = self.config.access.remote_atomic
            && around.regions.allows_remote(around.domain, atomic.rkey, atomic.address, 8, Right::Atomic);
        if !allowed {
            return Err(Refusal::Fatal(Syndrome::RemoteAccess));
        }
        let swaps = packet.opcode.operation() == Operation::CompareSwap;
        let updated = around.memory.update(atomic.address, |old| match swaps {
            true if old == atomic.compare => atomic.swap_or_add,
            true => old,
            false => old.wrapping_add(atomic.swap_or_add),
        });
        let original = updated.map_err(|Fault| Refusal::Fatal(Syndrome::RemoteOperation))?;
        self.finished();
        let (psn, msn) = (packet.psn, self.msn);
        self.remember(Remembered::Atomic { psn, original, msn });
        self.answers.push_back(Answer::Atomic { psn, original, msn });
        Ok(1)
    }

    /// A message is complete.
    fn finished(&mut self) {
        self.msn = (self.msn + 1) & 0x00ff_ffff;
    }

    fn remember(&mut self, executed: Remembered) {
        if self.remembered.len() >= usize::from(self.config.max_incoming_reads) {
            self.remembered.pop_front();
        }
        self.remembered.push_back(executed);
    }

    fn acknowledge(&mut self, psn: Psn, syndrome: Syndrome) {
        let answer = Answer::Acknowledge { psn, syndrome, msn: self.msn };
        // A later positive acknowledgement says everything that an earlier one does.
        match (self.answers.back_mut(), syndrome) {
            (Some(last @ Answer::Acknowledge { syndrome: Syndrome::Ack(_), .. }), Syndrome::Ack(_)) => {
                *last = answer;
            }
            _ => self.answers.push_back(answer),
        }
    }

    /// A packet that was executed came again: its answer may have been lost.
    fn repeat(&mut self, packet: &Packet<'_>) {
        let psn = packet.psn;
        match packet.opcode.operation() {
            Operation::Send | Operation::Write => {
                self.acknowledge(self.expected.minus(1), Syndrome::UNCOUNTED);
            }
            Operation::ReadRequest => {
                let Some(reth) = packet.reth else { return };
                let again = self.remembered.iter().find_map(|done| match *done {
                    Remembered::Read { first, packets, address, rkey, length, msn } => {
                        let skipped = u32::try_from(psn.ahead_of(first)).ok().filter(|&s| s < packets)?;
                        let bytes = skipped * self.config.mtu;
                        let same = rkey == reth.rkey
                            && reth.address == address + u64::from(bytes)
                            && reth.length == length - bytes;
                        same.then_some(Answer::Read {
                            psn,
                            address: reth.address,
                            rkey,
                            left: reth.length,
                            first: true,
                            msn,
                        })
                    }
                    Remembered::Atomic { .. } => None,
                });
                self.answer_again(psn, again);
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let again = self.remembered.iter().find_map(|done| match *done {
                    Remembered::Atomic { psn: of, original, msn } if of == psn => {
                        Some(Answer::Atomic { psn, original, msn })
                    }
                    _ => None,
                });
                self.answer_again(psn, again);
            }
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge => {}
        }
    }

    /// The requester went back to `psn`: whatever was to be answered from there on it will ask for again.
    fn answer_again(&mut self, psn: Psn, again: Option<Answer>) {
        let Some(again) = again else { return };
        self.answers.retain(|answer| match answer {
            Answer::Acknowledge { .. } => answer.psn().ahead_of(psn) < 0,
            Answer::Read { .. } | Answer::Atomic { .. } => answer.psn().ahead_of(psn) < 0,
        });
        self.answers.push_back(again);
    }

    /// Whether there is an answer to write.
    #[inline]
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Writes the next answer into `out`, without invariant CRC. False when there is none.
    pub(crate) fn transmit<M: Memory>(
        &mut self,
        domain: ProtectionDomain,
        regions: &Regions,
        memory: &M,
        out: &mut Vec<u8>,
    ) -> bool {
        let to = self.config.queue_pair.0;
        let Some(answer) = self.answers.front_mut() else { return false };
        match answer {
            &mut Answer::Acknowledge { psn, syndrome, msn } => {
                let mut packet = Packet::new(Opcode::ACKNOWLEDGE, to, psn);
                packet.aeth = Some(Aeth { syndrome, msn });
                packet.emit(out);
                self.answers.pop_front();
            }
            &mut Answer::Atomic { psn, original, msn } => {
                let mut packet = Packet::new(Opcode::ATOMIC_ACKNOWLEDGE, to, psn);
                packet.aeth = Some(Aeth { syndrome: Syndrome::UNCOUNTED, msn });
                packet.original = Some(original);
                packet.emit(out);
                self.answers.pop_front();
            }
            Answer::Read { psn, address, rkey, left, first, msn } => {
                let length = (*left).min(self.config.mtu);
                let allowed = regions.allows_remote(domain, *rkey, *address, length, Right::Read);
                let opcode = match (*first, length == *left) {
                    (true, true) => Opcode::READ_RESPONSE_ONLY,
                    (true, false) => Opcode::READ_RESPONSE_FIRST,
                    (false, true) => Opcode::READ_RESPONSE_LAST,
                    (false, false) => Opcode::READ_RESPONSE_MIDDLE,
                };
                let mut packet = Packet::new(opcode, to, *psn);
                if opcode != Opcode::READ_RESPONSE_MIDDLE {
                    packet.aeth = Some(Aeth { syndrome: Syndrome::UNCOUNTED, msn: *msn });
                }
                let begin = out.len();
                let mut read = Ok(());
                packet.emit_around(length as usize, out, |out| {
                    let end = out.len() + length as usize;
                    if allowed && length > 0 {
                        read = memory.append(*address, length as usize, u64::from(*left - length), out);
                    }
                    out.resize(end, 0);
                });
                if !allowed || read.is_err() {
                    // The region was taken back, or the memory unmapped, while it was being read.
                    let (psn, msn) = (*psn, *msn);
                    let syndrome = if allowed { Syndrome::RemoteOperation } else { Syndrome::RemoteAccess };
                    out.truncate(begin);
                    self.answers.clear();
                    self.answers.push_back(Answer::Acknowledge { psn, syndrome, msn });
                    return self.transmit(domain, regions, memory, out);
                }
                *psn = psn.plus(1);
                *address += u64::from(length);
                *left -= length;
                *first = false;
                if *left == 0 {
                    self.answers.pop_front();
                }
            }
        }
        true
    }

    /// The receive request of a message that will never be whole.
    pub(crate) fn abandon(&mut self) -> Option<u64> {
        match self.incoming.take() {
            Some(Incoming::Send { request, .. }) => Some(request.id),
            _ => None,
        }
    }
}

fn received(
    id: u64,
    status: CompletionStatus,
    bytes: u32,
    work: Option<CompletedWork>,
    packet: &Packet<'_>,
    own: QueuePairNumber,
) -> Completion {
    Completion {
        id,
        status,
        work: work.unwrap_or(CompletedWork::Receive),
        bytes,
        queue_pair: own,
        immediate: packet.immediate,
        solicited: packet.solicited,
        from: None,
    }
}
