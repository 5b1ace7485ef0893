//! [`Card`]: the emulator as a host channel adapter, over any way for its datagrams.

use crate::device::{Device, Flow};
use crate::host_memory::HostMemory;
use crate::request::{MAX_INLINE, MAX_MESSAGE, MAX_SEGMENTS};
use crate::requester::Short;
use crate::way::{Clock, Wire};
use std::net::SocketAddr;
use weft_api::verbs::{
    Access, Completion, CompletionQueueId, Data, DeviceAddress, DeviceBuffer, Hca, HcaLimits, HcaRefusal,
    MOST_ADDRESSES, Nanos, PortAddress, ProtectionDomain, QueuePairNumber, QueuePairPlan, RegionKeys, Remote,
    RemoteAddress, Route, Segment, Sending, Service, SharedReceiveQueueId, Work, WorkRequest,
};

/// Datagrams taken in before answers leave, and given out before the caller gets its turn.
const TAKEN: usize = 64;
const GIVEN: usize = 256;

/// Requests to one peer in a row, outside of turns, that leave at once although they may wait for each other: programs that post a
/// few and then compute keep nothing back.
const ROW: u32 = 4;
/// Of those that follow, so many leave together.
const COMPANY: u32 = 16;

/// Entries of a completion queue.
const MOST_COMPLETIONS: u32 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub struct Card<W> {
    device: Device<HostMemory>,
    domain: ProtectionDomain,
    wire: W,
    /// A datagram that found no room, and where it goes.
    waiting: Option<SocketAddr>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Addresses where nobody is, for the owner.
    nobody: Vec<SocketAddr>,
    doorbells: u64,
    /// A turn is under way: it began with `progress` and ends with `push_out`.
    in_turn: bool,
    /// Something was posted in the turn, or is kept back.
    rung: bool,
    /// See [`Hca::keep_company`].
    keeps_company: bool,
    /// The queue pair that was posted to last outside of turns, how often in a row, and how often since anything left.
    last: Option<QueuePairNumber>,
    in_row: u32,
    kept_back: u32,
    /// When that turn was.
    turned: Nanos,
}

impl<W: Wire> Card<W> {
    /// A device that is reached at `local`.
    pub fn new(local: SocketAddr, wire: W) -> Card<W> {
        let mut device = Device::new(local, HostMemory::new());
        let domain = device.make_domain();
        device.wait_for_the_silent(wire.tells_unreachable());
        device.widen(wire.room());
        Card {
            device,
            domain,
            wire,
            waiting: None,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            nobody: Vec::new(),
            doorbells: 0,
            in_turn: false,
            rung: false,
            keeps_company: false,
            last: None,
            in_row: 0,
            kept_back: 0,
            turned: 0,
        }
    }

    /// The way of its datagrams.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// The way of its datagrams, to set what it does.
    pub fn wire_mut(&mut self) -> &mut W {
        &mut self.wire
    }

    /// The device inside.
    pub fn device(&self) -> &Device<HostMemory> {
        &self.device
    }

    /// Whether datagrams to an address can leave by this one of the own.
    fn leaves_by(&self, to: DeviceAddress, by: u8) -> bool {
        let Some(source) = self.wire.leaves_by(to.socket) else { return true };
        self.addresses().get(usize::from(by)).is_some_and(|own| own.address.socket == source)
    }

    /// Requests were posted, which leave now or later; see [`Card::waits`].
    fn ring(&mut self, waits: bool) {
        self.doorbells += 1;
        self.rung = true;
        if !waits {
            self.let_leave();
        }
        self.rung = self.in_turn || waits;
    }

    /// Whether what is posted now leaves later. In a turn the first requests leave at once, those that follow them wait for its end, and
    /// company. Outside they leave at once, or, where calls may keep each other company, in groups from the [`ROW`]th in a row to one
    /// peer on.
    #[inline]
    fn waits(&mut self, number: QueuePairNumber) -> bool {
        if self.in_turn { self.rung } else { self.keeps_company && self.follows_others(number) }
    }

    /// Whether what was posted to a queue pair outside of turns may wait for company.
    fn follows_others(&mut self, number: QueuePairNumber) -> bool {
        if self.last.replace(number) != Some(number) {
            (self.in_row, self.kept_back) = (0, 0);
        }
        self.in_row += 1;
        if self.in_row <= ROW {
            return false;
        }
        self.kept_back = (self.kept_back + 1) % COMPANY;
        self.kept_back != 0
    }

    /// Tells those who sleep when the device wants to be called: what it waits for changes with every packet.
    #[inline]
    fn tell_sleepers(&self) {
        if self.wire.is_awaited() {
            self.wire.wakes_at(self.device.deadline());
        }
    }

    /// Gives out what was posted.
    fn let_leave(&mut self) {
        self.device.memory_mut().begin();
        self.transmit(self.wire.clock());
    }

    #[inline(always)]
    fn post_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        work: Work,
        bytes: &[u8],
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        let waits = self.waits(number);
        if !waits && self.waiting.is_none() && self.send_at_once(Short { number, id, work, bytes, signaled })
        {
            self.doorbells += 1;
            self.rung = self.in_turn;
            return Ok(());
        }
        if matches!(work, Work::Send { .. }) && !self.device.leaves_now(number, bytes.len()) {
            return Err(HcaRefusal::Full);
        }
        let request = WorkRequest::new(id, work, &[]);
        let data = [bytes];
        let request = WorkRequest { data: Data::Inline(&data), signaled, ..request };
        self.device.post_send(number, &request)?;
        self.ring(waits);
        Ok(())
    }

    /// The usual case in one piece: a short request that may leave before anything else does. False: nothing was done.
    #[inline]
    fn send_at_once(&mut self, short: Short<'_>) -> bool {
        let (clock, local) = (self.wire.clock(), self.device.local());
        let wire = &mut self.wire;
        let source = |to| wire.source(to).unwrap_or(local);
        let Some(to) = self.device.send_at_once(&short, || clock.read(), &mut self.outgoing, source) else {
            return false;
        };
        // What finds no room is offered again the next time.
        if !self.wire.send_last(to, &mut self.outgoing) {
            self.waiting = Some(to);
        }
        // It may have been put to others that found none.
        self.wire.flush();
        true
    }

    /// Gives out what may leave. True when something did.
    #[inline]
    fn transmit(&mut self, clock: Clock) -> bool {
        // What finds no room is offered again the next time.
        if self.waiting.is_none() && !self.device.is_active() {
            self.wire.flush();
            return false;
        }
        self.transmit_all(clock)
    }

    fn transmit_all(&mut self, clock: Clock) -> bool {
        let mut moved = false;
        for _ in 0..GIVEN {
            let to = match self.waiting.take() {
                Some(to) => to,
                None => {
                    let (wire, local) = (&mut self.wire, self.device.local());
                    let source = |to, service| match service {
                        Service::ReliableConnection => wire.source(to).unwrap_or(local),
                        Service::Datagram => wire.leaves_by(to).unwrap_or(local),
                    };
                    match self.device.transmit_from(|| clock.read(), &mut self.outgoing, source) {
                        Some(to) => to,
                        None => break,
                    }
                }
            };
            let sent = match self.device.is_active() {
                true => self.wire.send(to, &mut self.outgoing),
                false => self.wire.send_last(to, &mut self.outgoing),
            };
            if !sent {
                self.waiting = Some(to);
                break;
            }
            moved = true;
            if !self.device.is_active() {
                break;
            }
        }
        // What finds no room is offered again the next time.
        self.wire.flush();
        moved
    }
}

impl<W: Wire> Hca for Card<W> {
    type Bell = W::Bell;

    fn limits(&self) -> HcaLimits {
        HcaLimits {
            mtu: self.wire.mtu(),
            max_message: MAX_MESSAGE,
            max_inline: MAX_INLINE as u32,
            max_segments: MAX_SEGMENTS as u32,
            max_send: 1 << 16,
            max_receive: 1 << 16,
            max_completions: MOST_COMPLETIONS,
            max_queue_pairs: 1 << 24,
            queue_pair_bytes: 4 << 10,
            max_reads: 16,
            max_regions: 1 << 16,
            max_registered: u64::MAX,
            // The emulator goes by addresses at the moment of every access.
            follows_mappings: true,
            atomics: true,
            atomic_with_processors: false,
            atomics_in_order: true,
            // In `progress`. Whoever lets a thread do that must say false here: windows count on it.
            works_in_calls: true,
            // What follows a request in the same turn leaves at its end: see `Card::ring`.
            chains: true,
            latency: 30e-6,
            bandwidth: 0.8e9,
            // More: the kernel looks up every page of memory that the device does not own.
            copied: 0.88e9,
            registration: 0.2e-6,
            registration_per_byte: 0.0,
        }
    }

    fn address(&self) -> DeviceAddress {
        self.device.local().into()
    }

    fn addresses(&self) -> Vec<PortAddress> {
        let own = [self.device.local()].into_iter();
        own.chain(self.wire.more_addresses()).take(MOST_ADDRESSES).map(PortAddress::routable).collect()
    }

    fn route(&mut self, to: DeviceAddress, _: u8) -> Route {
        Route::Known { mtu: self.wire.mtu_to(to.socket) }
    }

    fn now(&self) -> Nanos {
        self.wire.now()
    }

    // In `progress`, and nobody looks meanwhile.
    fn writes_in_order(&self, _: QueuePairNumber) -> bool {
        true
    }

    fn allocate(&mut self, bytes: u64, access: Access) -> Result<DeviceBuffer, HcaRefusal> {
        let address = self.device.memory_mut().arena.allocate(bytes);
        let keys = self.device.register(self.domain, address, bytes, access)?;
        Ok(DeviceBuffer { address, length: bytes, keys })
    }

    fn register(&mut self, address: u64, length: u64, access: Access) -> Result<RegionKeys, HcaRefusal> {
        if !self.device.memory().exists(address, length) {
            return Err(HcaRefusal::Invalid);
        }
        self.device.register(self.domain, address, length, access)
    }

    fn deregister(&mut self, keys: RegionKeys) {
        // Keys that name nothing are nobody's.
        let _ = self.device.deregister(keys.local);
    }

    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        self.device.memory().arena.bytes(address, length)
    }

    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        self.device.memory_mut().arena.bytes_mut(address, length)
    }

    fn make_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, HcaRefusal> {
        // Entries take memory when they are there: room for all that the queue pairs of a large job may have under way.
        Ok(self.device.make_completion_queue(depth.max(MOST_COMPLETIONS)))
    }

    fn make_shared_receive_queue(&mut self, depth: u32) -> Result<SharedReceiveQueueId, HcaRefusal> {
        Ok(self.device.make_shared_receive_queue(depth))
    }

    fn make_queue_pair(&mut self, plan: QueuePairPlan) -> Result<QueuePairNumber, HcaRefusal> {
        let number = self.device.make_queue_pair(QueuePairPlan { domain: self.domain, ..plan })?;
        self.device.initialise(number)?;
        Ok(number)
    }

    fn open_queue_pair(
        &mut self,
        number: QueuePairNumber,
        ends: Option<(Remote, Sending)>,
    ) -> Result<(), HcaRefusal> {
        self.device.ready_to_receive(number, ends.map(|(remote, _)| remote))?;
        self.device.ready_to_send(number, ends.map(|(_, sending)| sending))
    }

    fn resume_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), HcaRefusal> {
        self.device.resume(number)
    }

    fn stop_queue_pair(&mut self, number: QueuePairNumber) {
        // Nobody else has the number, so it exists.
        let _ = self.device.fail(number);
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) {
        // Nobody else has the number, so it exists.
        let _ = self.device.destroy_queue_pair(number);
    }

    // Where benches/instructions takes the device off.
    #[inline(never)]
    fn post_send(&mut self, number: QueuePairNumber, request: &WorkRequest<'_>) -> Result<(), HcaRefusal> {
        if let Work::Datagram { to, by, .. } = request.work
            && !self.leaves_by(to, by)
        {
            return Err(HcaRefusal::Invalid);
        }
        let waits = self.waits(number);
        self.device.post_send(number, request)?;
        self.ring(waits);
        Ok(())
    }

    // As `post_send`.
    #[inline(never)]
    fn send_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        self.post_few(number, id, Work::Send { immediate: None }, bytes, signaled)
    }

    // As `post_send`.
    #[inline(never)]
    fn write_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        to: RemoteAddress,
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        self.post_few(number, id, Work::Write { to, immediate: None }, bytes, signaled)
    }

    fn post_sends(
        &mut self,
        number: QueuePairNumber,
        requests: &[WorkRequest<'_>],
    ) -> Result<(), HcaRefusal> {
        if !self.device.has_room(number, requests.len()) {
            return Err(HcaRefusal::Full);
        }
        let waits = self.waits(number);
        let posted = requests.iter().try_for_each(|request| self.device.post_send(number, request));
        self.ring(waits);
        posted
    }

    fn doorbells(&self) -> u64 {
        self.doorbells
    }

    fn is_crowded(&self) -> bool {
        false
    }

    // As `post_send`.
    #[inline(never)]
    fn leaves_now(&self, number: QueuePairNumber, bytes: usize) -> bool {
        self.device.leaves_now(number, bytes)
    }

    fn post_receive(
        &mut self,
        queue: SharedReceiveQueueId,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), HcaRefusal> {
        self.device.post_shared_receive(queue, id, segments)
    }

    fn poll(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        self.device.poll(queue)
    }

    fn turned(&self) -> Nanos {
        self.turned
    }

    fn progress(&mut self) -> bool {
        let now = self.wire.now();
        self.turned = now;
        let mut moved = false;
        self.device.memory_mut().begin();
        for _ in 0..TAKEN {
            let Some(arrival) = self.wire.receive(&mut self.incoming) else { break };
            let destination = arrival.at.unwrap_or_else(|| self.device.local());
            let flow = Flow { source: arrival.from, destination };
            self.device.receive_by(now, flow, arrival.identification, arrival.datagram);
            moved = true;
            if !self.wire.goes_on() {
                break;
            }
        }
        (self.in_turn, self.rung) = (true, false);
        (self.last, self.in_row, self.kept_back) = (None, 0, 0);
        while let Some(news) = self.wire.unreachable() {
            self.device.unreachable(news.address, news.certain);
            if news.certain {
                self.nobody.push(news.address);
            }
            moved = true;
        }
        if self.device.deadline().is_some_and(|at| at <= now) {
            self.device.tick(now);
            while let Some(address) = self.device.doubted() {
                self.wire.doubt(address);
            }
            while let Some(address) = self.device.overdue() {
                if self.wire.is_gone(address) {
                    self.device.unreachable(address, false);
                }
            }
        }
        // Before anybody is told of it.
        self.device.memory().settle();
        moved |= self.transmit(Clock::At(now));
        self.tell_sleepers();
        moved
    }

    fn end_turn(&mut self) {
        if std::mem::take(&mut self.rung) {
            self.let_leave();
            self.tell_sleepers();
        }
    }

    #[inline]
    fn push_out(&mut self) {
        self.in_turn = false;
        if self.rung {
            self.end_turn();
        }
        (self.last, self.in_row, self.kept_back) = (None, 0, 0);
    }

    fn keep_company(&mut self, keep: bool) {
        self.keeps_company = keep;
        self.push_out();
    }

    fn is_in_row(&self) -> bool {
        self.in_row > 0
    }

    fn unreachable(&mut self) -> Option<DeviceAddress> {
        self.nobody.pop().map(DeviceAddress::from)
    }

    fn bell(&self) -> W::Bell {
        self.wire.wakes_at(self.device.deadline());
        self.wire.bell()
    }
}
