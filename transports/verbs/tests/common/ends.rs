//! Two devices of any kinds, joined.

use std::time::{Duration, Instant};
use weft_api::verbs::{
    Access, Completion, CompletionQueueId, DeviceBuffer, Hca, ProtectionDomain, QueuePairNumber,
    QueuePairPlan, Remote, RemoteAddress, Segment, Sending, Service, SharedReceiveQueueId, Work, WorkRequest,
};

/// Longer than anything takes on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Requests that a queue pair has room for.
pub const MAX_SEND: u32 = 16;

/// The key of datagrams.
pub const QKEY: u32 = 0x1234;

/// One end of a connection, or of datagrams, with a buffer that everybody may use.
pub struct End<H> {
    pub hca: H,
    pub queue: CompletionQueueId,
    pub receives: SharedReceiveQueueId,
    pub pair: QueuePairNumber,
    pub buffer: DeviceBuffer,
}

impl<H: Hca> End<H> {
    pub fn new(mut hca: H, service: Service) -> End<H> {
        let queue = hca.make_completion_queue(256).unwrap();
        let receives = hca.make_shared_receive_queue(64).unwrap();
        let plan = QueuePairPlan {
            domain: ProtectionDomain(0),
            service,
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: Some(receives),
            max_send: MAX_SEND,
            max_receive: 0,
            qkey: QKEY,
        };
        let pair = hca.make_queue_pair(plan).unwrap();
        let buffer = hca.allocate(1 << 20, Access::ALL).unwrap();
        End { hca, queue, receives, pair, buffer }
    }

    pub fn segment(&self, offset: u64, length: u32) -> Segment {
        Segment { address: self.buffer.address + offset, length, key: self.buffer.keys.local }
    }

    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: self.buffer.address + offset, key: self.buffer.keys.remote }
    }

    pub fn post_receive(&mut self, id: u64, offset: u64, length: u32) {
        let segment = [self.segment(offset, length)];
        self.hca.post_receive(self.receives, id, &segment).unwrap();
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.hca.bytes_mut(self.buffer.address + offset, bytes.len()).copy_from_slice(bytes);
    }

    pub fn read(&self, offset: u64, length: usize) -> &[u8] {
        self.hca.bytes(self.buffer.address + offset, length)
    }

    pub fn post(&mut self, id: u64, work: Work, segments: &[Segment]) {
        self.hca.post_send(self.pair, &WorkRequest::new(id, work, segments)).unwrap();
    }

    fn as_remote(&self, first_packet: u32, mtu: u32, access: Access) -> Remote {
        Remote {
            address: self.hca.address(),
            by: 0,
            queue_pair: self.pair,
            first_packet,
            mtu,
            max_incoming_reads: 4,
            not_ready_code: 12,
            access,
        }
    }
}

/// Both ends, and what holds back others that want the same devices.
pub struct Two<A, B, G = ()> {
    pub a: End<A>,
    pub b: End<B>,
    pub guard: G,
}

impl<A: Hca, B: Hca, G> Two<A, B, G> {
    /// Two devices, not joined yet.
    pub fn new(a: A, b: B, service: Service, guard: G) -> Two<A, B, G> {
        Two { a: End::new(a, service), b: End::new(b, service), guard }
    }

    /// Connects them: packets as large as both can, and each may do with the other's memory what `access` says. Numbers wrap
    /// soon.
    pub fn connect(&mut self, access: Access) {
        let mtu = self.a.hca.limits().mtu.min(self.b.hca.limits().mtu);
        let (first_of_a, first_of_b) = (0xff_fff0, 0xff_ff00);
        let to_a = self.a.as_remote(first_of_a, mtu, access);
        let to_b = self.b.as_remote(first_of_b, mtu, access);
        let sending = |first_packet| Sending {
            first_packet,
            // A second: both ends may wait for the same processor.
            timeout: 18,
            retries: 7,
            not_ready_retries: 7,
            max_reads: 4,
        };
        self.a.hca.open_queue_pair(self.a.pair, Some((to_b, sending(first_of_a)))).unwrap();
        self.b.hca.open_queue_pair(self.b.pair, Some((to_a, sending(first_of_b)))).unwrap();
    }

    pub fn progress(&mut self) {
        self.a.hca.progress();
        self.b.hca.progress();
        // The kernel's device needs a processor too.
        std::thread::yield_now();
    }

    /// Waits until `look` finds something.
    pub fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if begun.elapsed() > PATIENCE {
                // What came instead says why.
                let others = [self.a.hca.poll(self.a.queue), self.b.hca.poll(self.b.queue)];
                panic!("waited in vain: {what}; the queues of both ends hold {others:?}");
            }
            self.progress();
        }
    }

    /// The next completion of the first end.
    pub fn of_a(&mut self) -> Completion {
        self.until("a completion at the first end", |two| two.a.hca.poll(two.a.queue))
    }

    /// The next completion of the second end.
    pub fn of_b(&mut self) -> Completion {
        self.until("a completion at the second end", |two| two.b.hca.poll(two.b.queue))
    }
}

/// Bytes that tell where they belong.
pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}
