//! The sending half of a reliable connection: packets, acknowledgements, retransmission (sections 9.7.3, 9.7.5.2).
//!
//! Requests lie in `queue` in posting order. Each gets its packet numbers when its first packet is due (`started` counts
//! those). `cursor` names the next packet to go out; going back N moves it to the oldest unacknowledged packet, and nothing
//! else. Everything before `unacknowledged` is done for good.

mod at_once;
mod window;

use crate::emission::emit;
use crate::memory::{self, Memory, Regions};
use crate::psn::Psn;
use crate::request::{Data, Posted};
use crate::wire::{Packet, Syndrome};
pub(crate) use at_once::Short;
use std::collections::VecDeque;
use weft_api::verbs::{
    CompletedWork, Completion, CompletionStatus, Nanos, ProtectionDomain, QueuePairNumber, Sending, Work,
};
use window::Window;

/// Packets in flight at most, unless the device says more ([`crate::Device::widen`]).
pub(crate) const USUAL_WINDOW: u32 = 128;
/// An acknowledgement is asked for at least this often, or eight times in a window.
const ACK_EVERY: u32 = 16;
/// Bytes of a read that are asked for at a time, unless half the window is less. Nothing but the requester paces the answers: with those
/// of the other reads under way they must fit into the buffers on the way.
const READ_PART: u32 = 256 << 10;
/// So many timeouts in a row are not explained by lost packets any more.
const OVERDUE: u8 = 3;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) request: Posted,
    /// Its first packet number; means nothing before it is started.
    pub(crate) first: Psn,
    /// Packet numbers it takes.
    pub(crate) packets: u32,
    /// Where its bytes begin in the request's, and how many they are: a long read is asked for in parts.
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// Whether the rest of the request follows in the next entry.
    pub(crate) part: bool,
    /// Answer packets that are here, for reads and atomics.
    pub(crate) answered: u32,
    /// What was wrong with it when it should have started.
    pub(crate) refused: Option<CompletionStatus>,
}

/// The next packet to go out: of which entry (by its distance from the front of the queue), which packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    entry: usize,
    packet: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Requester {
    queue: VecDeque<Entry>,
    /// Entries that have packet numbers.
    started: usize,
    /// Entries whose request goes on in the next one.
    parts: usize,
    /// Packets of all messages among them.
    messages: u32,
    cursor: Cursor,
    /// First number of the next entry that starts.
    next: Psn,
    unacknowledged: Psn,
    config: Sending,
    mtu: u32,
    window: Window,
    retries_left: u8,
    /// The network has said since the last answer that the peer cannot be reached.
    doubted: bool,
    not_ready_left: u8,
    deadline: Option<Nanos>,
    /// The peer was not ready: nothing goes out before.
    paused_until: Option<Nanos>,
    /// The oldest unacknowledged packet when we went back last for a reason other than a timeout or a request of the peer.
    went_back_at: Option<Psn>,
    /// The last packet that asked for an acknowledgement, or has an answer of its own.
    asked: Psn,
    /// Nothing that is under way asks, and that has lasted too long: the last packet shall.
    overdue: bool,
    /// Most requests that are posted and not complete.
    room: u32,
    /// No request begins.
    draining: bool,
    /// Of the last request that has begun, the rest is still to be asked for.
    midway: bool,
}

/// What became of a request, for its completion queue; and whether the queue pair can go on.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) completions: Vec<Completion>,
    pub(crate) fatal: bool,
    /// The send queue stops, and nothing else: only of datagrams.
    pub(crate) halted: bool,
}

impl Requester {
    pub(crate) fn new(config: Sending, mtu: u32, room: u32, widest: u32) -> Requester {
        let first = Psn::new(config.first_packet);
        Requester {
            queue: VecDeque::new(),
            started: 0,
            parts: 0,
            messages: 0,
            cursor: Cursor { entry: 0, packet: 0 },
            next: first,
            unacknowledged: first,
            config,
            mtu,
            window: Window::new(widest),
            retries_left: config.retries,
            doubted: false,
            not_ready_left: config.not_ready_retries,
            deadline: None,
            paused_until: None,
            went_back_at: None,
            asked: first.minus(1),
            overdue: false,
            room,
            draining: false,
            midway: false,
        }
    }

    pub(crate) fn post(&mut self, request: Posted) {
        let (packets, length) = (request.packets(self.mtu), request.length);
        self.messages += request.message_packets(packets);
        self.queue.push_back(Entry {
            request,
            first: self.next,
            packets,
            offset: 0,
            length,
            part: false,
            answered: 0,
            refused: None,
        });
    }

    /// Requests that are not complete.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() - self.parts
    }

    /// Whether there are packets that have not gone out, or must go out again.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.cursor.entry < self.queue.len()
    }

    /// Whether all packets of a message of so many bytes may go out before anything is acknowledged, as far as other messages go. What
    /// is longer than the window has to wait here, one message at a time. Of a small window, which losses leave, all is used; of
    /// another some of the packets ahead ask for an acknowledgement when a message has to wait.
    pub(crate) fn leaves_now(&self, bytes: usize) -> bool {
        let packets = (bytes as u32).div_ceil(self.mtu).max(1);
        let window = self.window.packets();
        let needed = if window < 2 * packets.max(ACK_EVERY) { 1 } else { packets };
        // Of the oldest message some packets may be acknowledged.
        let oldest =
            self.queue.front().filter(|entry| self.started > 0 && entry.request.message_packets(1) > 0);
        let over = oldest.map_or(0, |entry| self.unacknowledged.ahead_of(entry.first).max(0) as u32);
        self.messages == 0 || self.paused_until.is_none() && self.messages - over + needed <= window
    }

    /// No request begins any more, and those that have end. If none of what is under way asks for an acknowledgement, its last packet goes
    /// out once more and does: nothing that could ask comes behind it.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        let all_out = self.cursor.entry == self.started && self.started > 0 && !self.midway;
        if all_out && self.asked.ahead_of(self.next.minus(1)) < 0 {
            let last = self.started - 1;
            self.cursor = Cursor { entry: last, packet: self.queue[last].packets - 1 };
        }
    }

    /// Requests begin again.
    pub(crate) fn resume(&mut self) {
        self.draining = false;
    }

    /// Whether none that has begun has not ended.
    pub(crate) fn is_drained(&self) -> bool {
        self.started == 0 && !self.midway
    }

    /// When [`Requester::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.paused_until.or(self.deadline)
    }

    /// Writes the next packet that may go out now into `out`, without invariant CRC. `now` is asked for the time when it matters.
    pub(crate) fn transmit<M: Memory>(
        &mut self,
        now: impl Fn() -> Nanos,
        to: QueuePairNumber,
        domain: ProtectionDomain,
        regions: &Regions,
        memory: &M,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.paused_until.is_some() {
            return false;
        }
        if self.cursor.entry == self.started && !self.start(domain, regions) {
            return false;
        }
        let Cursor { entry: index, packet } = self.cursor;
        if self.must_wait_for_reads(index, packet) {
            return false;
        }
        let entry = &self.queue[index];
        let psn = entry.first.plus(packet);
        if psn.ahead_of(self.unacknowledged) >= self.window.packets() as i32 {
            return false;
        }
        if entry.refused.is_some() {
            return false;
        }
        let asks = self.asks(index, packet, psn);
        if emit(entry, packet, psn, to, self.mtu, asks, memory, out).is_err() {
            // The memory was there when it was registered. It ends when everything before it has.
            out.clear();
            self.queue[index].refused = Some(CompletionStatus::LocalProtection);
            return false;
        }
        let whole = entry.request.wants_answer() || packet + 1 == entry.packets;
        if asks || entry.request.wants_answer() {
            self.asked = psn;
        }
        self.cursor = if whole {
            Cursor { entry: index + 1, packet: 0 }
        } else {
            Cursor { entry: index, packet: packet + 1 }
        };
        if self.deadline.is_none() {
            self.arm(now());
        }
        true
    }

    /// Whether a packet asks for an acknowledgement: when somebody waits for its request, when it is the last one that may be
    /// sent without, when many have not asked, or when all that is under way has been unanswered for too long or shall be the last. Nobody waits for
    /// what is not signalled: a message that says nothing at its end is one packet, not two.
    fn asks(&self, index: usize, packet: u32, psn: Psn) -> bool {
        let entry = &self.queue[index];
        let last = packet + 1 == entry.packets;
        let newest = last && index + 1 == if self.draining { self.started } else { self.queue.len() };
        last && entry.request.signaled
            || psn.plus(1).ahead_of(self.unacknowledged) >= self.window.packets() as i32
            || psn.ahead_of(self.asked) >= (self.window.packets() / 8).max(ACK_EVERY) as i32
            || newest && (self.draining || self.overdue || self.len() * 2 >= self.room as usize)
    }

    /// Gives the next posted entry its packet numbers. False when there is none, or it must not start.
    fn start(&mut self, domain: ProtectionDomain, regions: &Regions) -> bool {
        if self.draining && !self.midway {
            return false;
        }
        let Some(entry) = self.queue.get_mut(self.started) else { return false };
        if entry.refused.is_some() {
            return false;
        }
        if let Data::Segments(segments) = &entry.request.data {
            let into = entry.request.wants_answer();
            if !segments.as_slice().iter().all(|&segment| regions.allows_local(domain, segment, into)) {
                // It ends when everything before it has.
                entry.refused = Some(CompletionStatus::LocalProtection);
                return false;
            }
        }
        let most = (READ_PART / self.mtu).min(self.window.packets() / 2).max(1);
        self.midway = matches!(entry.request.work, Work::Read { .. }) && entry.packets > most;
        if self.midway {
            let length = most * self.mtu;
            let part = Entry {
                request: Posted { signaled: false, ..entry.request.clone() },
                first: self.next,
                packets: most,
                offset: entry.offset,
                length,
                part: true,
                answered: 0,
                refused: None,
            };
            entry.request.fence = false; // The first part waits for what it must.
            entry.offset += length;
            entry.length -= length;
            entry.packets -= most;
            self.queue.insert(self.started, part);
            self.parts += 1;
        }
        let entry = &mut self.queue[self.started];
        entry.first = self.next;
        self.next = self.next.plus(entry.packets);
        self.started += 1;
        true
    }

    /// Whether the peer's limit of reads, or a fence, holds this packet back.
    fn must_wait_for_reads(&self, index: usize, packet: u32) -> bool {
        let entry = &self.queue[index];
        if !entry.request.wants_answer() && (packet > 0 || !entry.request.fence) {
            return false;
        }
        let open = self.queue.iter().take(index).filter(|entry| entry.request.wants_answer()).count();
        entry.request.fence && open > 0
            || entry.request.wants_answer() && open >= usize::from(self.config.max_reads)
    }

    /// An acknowledgement came.
    pub(crate) fn acknowledged(
        &mut self,
        now: Nanos,
        psn: Psn,
        syndrome: Syndrome,
        ended: &mut Ended,
        own: QueuePairNumber,
    ) {
        let named = if matches!(syndrome, Syndrome::Ack(_)) { psn.plus(1) } else { psn };
        if named.ahead_of(self.next) > 0 {
            return; // Of packets that were never sent.
        }
        let current = named.ahead_of(self.unacknowledged) >= 0;
        self.advance(now, named, ended, own);
        if !current || self.queue.is_empty() {
            return;
        }
        if named.ahead_of(self.unacknowledged) > 0 {
            // An answer before it was lost (section 9.7.5.1.3).
            return self.go_back_once(now);
        }
        match syndrome {
            Syndrome::Ack(_) => {}
            Syndrome::Sequence => {
                self.window.shrink();
                self.go_back(now);
            }
            Syndrome::NotReady(code) => {
                if self.not_ready_left == 0 {
                    return self.fail(CompletionStatus::NotReadyRetriesExceeded, ended, own);
                }
                if self.config.not_ready_retries != 7 {
                    self.not_ready_left -= 1;
                }
                self.go_back(now);
                self.paused_until = Some(now + Syndrome::delay_ns(code));
            }
            Syndrome::InvalidRequest => self.fail(CompletionStatus::RemoteInvalidRequest, ended, own),
            Syndrome::RemoteAccess => self.fail(CompletionStatus::RemoteAccess, ended, own),
            Syndrome::RemoteOperation => self.fail(CompletionStatus::RemoteOperation, ended, own),
            Syndrome::Reserved(_) => {}
        }
    }

    /// Part of the answer to a read, or the answer to an atomic, came.
    pub(crate) fn answered<M: Memory>(
        &mut self,
        now: Nanos,
        packet: &Packet<'_>,
        memory: &mut M,
        ended: &mut Ended,
        own: QueuePairNumber,
    ) {
        let psn = packet.psn;
        let Some(index) = self
            .queue
            .iter()
            .take(self.started)
            .position(|entry| entry.request.wants_answer() && entry.answered < entry.packets)
        else {
            return;
        };
        let entry = &self.queue[index];
        let expected = entry.first.plus(entry.answered);
        match psn.ahead_of(expected) {
            0 => {}
            1.. => return self.go_back_once(now), // One is missing.
            _ => return,                          // We have it.
        }
        let atomic = packet.original.is_some();
        if atomic == matches!(entry.request.work, Work::Read { .. }) {
            return; // A stray packet of an earlier life of this number.
        }
        let original = packet.original.map(u64::to_ne_bytes);
        let bytes = original.as_ref().map_or(packet.payload, |bytes| bytes.as_slice());
        let here = u64::from(entry.answered) * u64::from(self.mtu);
        let offset = u64::from(entry.offset) + here;
        let due = if atomic { 8 } else { (u64::from(entry.length) - here).min(u64::from(self.mtu)) };
        if bytes.len() as u64 != due {
            self.advance(now, entry.first, ended, own);
            return self.fail(CompletionStatus::LocalLength, ended, own);
        }
        if let Data::Segments(segments) = &entry.request.data
            && memory::scatter(memory, segments.as_slice(), offset, bytes).is_err()
        {
            self.advance(now, entry.first, ended, own);
            return self.fail(CompletionStatus::LocalProtection, ended, own);
        }
        self.queue[index].answered += 1;
        self.advance(now, psn.plus(1), ended, own);
    }

    /// Everything before `upto` is acknowledged, unless an answer is missing.
    fn advance(&mut self, now: Nanos, upto: Psn, ended: &mut Ended, own: QueuePairNumber) {
        let mut reached = upto;
        while self.started > 0 {
            let entry = &self.queue[0];
            if upto.ahead_of(entry.first.plus(entry.packets)) < 0 {
                break;
            }
            if entry.request.wants_answer() && entry.answered < entry.packets {
                break;
            }
            let done = self.queue.pop_front().expect("started entries are in the queue");
            self.started -= 1;
            self.parts -= usize::from(done.part);
            self.messages -= done.request.message_packets(done.packets);
            self.cursor = match self.cursor.entry {
                0 => Cursor { entry: 0, packet: 0 },
                entry => Cursor { entry: entry - 1, ..self.cursor },
            };
            if done.request.signaled {
                ended.completions.push(completion(&done.request, CompletionStatus::Success, own));
            }
        }
        if self.started > 0 {
            let entry = &self.queue[0];
            if entry.request.wants_answer() {
                let here = entry.first.plus(entry.answered);
                if reached.ahead_of(here) > 0 {
                    reached = here;
                }
            }
        }
        let progress = reached.ahead_of(self.unacknowledged);
        if progress > 0 {
            self.unacknowledged = reached;
            self.skip_acknowledged();
            self.window.grow(progress as u32);
            self.retries_left = self.config.retries;
            self.doubted = false;
            self.not_ready_left = self.config.not_ready_retries;
            self.went_back_at = None;
            self.overdue = false;
            if self.started > 0 { self.arm(now) } else { self.deadline = None }
        }
        self.end_refused(ended, own);
    }

    /// A refused request at the front, which nothing is waited for any more, ends here.
    pub(crate) fn end_refused(&mut self, ended: &mut Ended, own: QueuePairNumber) {
        if let Some(status) = self.queue.front().and_then(|entry| entry.refused) {
            self.fail(status, ended, own);
        }
    }

    /// The cursor never points at what is acknowledged.
    fn skip_acknowledged(&mut self) {
        if self.cursor.entry == 0 && self.started > 0 {
            let behind = self.unacknowledged.ahead_of(self.queue[0].first.plus(self.cursor.packet));
            if behind > 0 && !self.queue[0].request.wants_answer() {
                self.cursor.packet += behind as u32;
            } else if behind > 0 {
                self.cursor.packet = self.queue[0].answered;
            }
        }
    }

    fn go_back_once(&mut self, now: Nanos) {
        if self.went_back_at != Some(self.unacknowledged) {
            self.window.shrink();
            self.go_back(now);
            self.went_back_at = Some(self.unacknowledged);
        }
    }

    /// All from the oldest unacknowledged packet on goes out again.
    fn go_back(&mut self, now: Nanos) {
        if self.started == 0 {
            return;
        }
        let entry = &self.queue[0];
        let packet = if entry.request.wants_answer() {
            entry.answered
        } else {
            self.unacknowledged.ahead_of(entry.first).max(0) as u32
        };
        self.cursor = Cursor { entry: 0, packet };
        self.asked = self.unacknowledged.minus(1);
        // A read further on whose answer is partly here asks for the rest only; its packets start anew from there.
        self.arm(now);
    }

    /// The network says that the peer cannot be reached.
    pub(crate) fn doubt(&mut self, certain: bool, ended: &mut Ended, own: QueuePairNumber) {
        self.doubted = true;
        if certain {
            self.fail(CompletionStatus::RetriesExceeded, ended, own);
        }
    }

    /// Time passed. `patient`: retries are used up only by peers that are doubted.
    pub(crate) fn tick(&mut self, now: Nanos, patient: bool, ended: &mut Ended, own: QueuePairNumber) {
        if let Some(until) = self.paused_until {
            if now >= until {
                self.paused_until = None;
                if self.started > 0 {
                    self.arm(now);
                }
            }
            return;
        }
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.asked.ahead_of(self.unacknowledged) < 0 && !self.overdue {
            // Nobody was asked: that there is no answer says nothing.
            self.overdue = true;
            return self.go_back(now);
        }
        if self.retries_left == 0 && (!patient || self.doubted) {
            return self.fail(CompletionStatus::RetriesExceeded, ended, own);
        }
        self.retries_left = self.retries_left.saturating_sub(1);
        self.window.close();
        self.went_back_at = None;
        self.go_back(now);
    }

    /// Whether the peer has left a packet without an answer that was due.
    pub(crate) fn is_late(&self) -> bool {
        self.overdue || self.retries_left < self.config.retries
    }

    /// Whether the retries are so far used up that the reason may be another than a lost packet or two.
    pub(crate) fn is_overdue(&self) -> bool {
        self.retries_left.saturating_add(OVERDUE) <= self.config.retries
    }

    /// Starts the clock for the oldest unacknowledged packet; later tries wait longer.
    fn arm(&mut self, now: Nanos) {
        self.deadline = match self.config.timeout {
            0 => None,
            timeout => {
                let tried = u32::from(self.config.retries.saturating_sub(self.retries_left)).min(4);
                Some(now + (4096_u64 << timeout.min(31) << tried))
            }
        };
    }

    /// The oldest request ends with `status`; the queue pair cannot go on.
    fn fail(&mut self, status: CompletionStatus, ended: &mut Ended, own: QueuePairNumber) {
        while let Some(entry) = self.queue.pop_front() {
            self.started = self.started.saturating_sub(1);
            self.parts -= usize::from(entry.part);
            self.messages -= entry.request.message_packets(entry.packets);
            if !entry.part {
                ended.completions.push(completion(&entry.request, status, own));
                break;
            }
        }
        ended.fatal = true;
    }

    /// Everything posted ends as flushed.
    pub(crate) fn flush(&mut self, ended: &mut Ended, own: QueuePairNumber) {
        (self.parts, self.messages) = (0, 0);
        for entry in self.queue.drain(..).filter(|entry| !entry.part) {
            ended.completions.push(completion(&entry.request, CompletionStatus::Flushed, own));
        }
        (self.started, self.midway) = (0, false);
        self.cursor = Cursor { entry: 0, packet: 0 };
        self.deadline = None;
        self.paused_until = None;
    }
}

/// The completion of a send request.
pub(crate) fn completion(request: &Posted, status: CompletionStatus, own: QueuePairNumber) -> Completion {
    let work = match request.work {
        Work::Send { .. } | Work::Datagram { .. } => CompletedWork::Send,
        Work::Write { .. } => CompletedWork::Write,
        Work::Read { .. } => CompletedWork::Read,
        Work::CompareSwap { .. } => CompletedWork::CompareSwap,
        Work::FetchAdd { .. } => CompletedWork::FetchAdd,
    };
    Completion {
        id: request.id,
        status,
        work,
        bytes: request.length,
        queue_pair: own,
        immediate: None,
        solicited: false,
        from: None,
    }
}
