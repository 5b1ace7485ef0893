//! The vocabulary of RDMA devices: what is posted, what completes, how queue pairs are set up.
//!
//! The level is that of the verbs (InfiniBand Architecture Specification 1.7, chapters 10 and 11), the part of it that messages
//! and one-sided communication need. Drivers: the emulator in user space, and libibverbs.

mod addresses;
mod work;

pub use addresses::{
    DeviceAddress, MOST_ADDRESSES, MOST_WAYS, Packets, Pairing, PortAddress, Scope, scope, ways, ways_seen,
};
pub use work::{CompletedWork, Completion, CompletionStatus, Data, Work, WorkRequest};

/// Nanoseconds since any fixed moment; the clock is an argument, so that it can be virtual.
pub type Nanos = u64;

/// What regions and queue pairs belong to: only those of the same domain work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtectionDomain(pub u32);

/// A queue pair of a device, 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePairNumber(pub u32);

/// No queue pair that anybody makes: 0 is the subnet manager's (section 3.9.2).
pub const NOBODY: QueuePairNumber = QueuePairNumber(0);

/// A completion queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletionQueueId(pub u32);

/// A shared receive queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedReceiveQueueId(pub u32);

/// Names a memory region in own work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalKey(pub u32);

/// Names a memory region in work requests of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteKey(pub u32);

/// What may be done with a memory region, beside reading it locally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Receives, reads and atomics of this process may write to it.
    pub local_write: bool,
    /// Others may write to it; needs `local_write`.
    pub remote_write: bool,
    /// Others may read it.
    pub remote_read: bool,
    /// Others may do atomics on it; needs `local_write`.
    pub remote_atomic: bool,
}

impl Access {
    /// Everything.
    pub const ALL: Access =
        Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };

    /// Whether what needs `local_write` has it.
    pub const fn is_consistent(self) -> bool {
        self.local_write || !(self.remote_write || self.remote_atomic)
    }
}

/// A registered region's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionKeys {
    /// For own work requests.
    pub local: LocalKey,
    /// For other processes.
    pub remote: RemoteKey,
}

/// Part of a registered region: one entry of a scatter or gather list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The region.
    pub key: LocalKey,
}

/// Memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Where it begins, in that process's addresses.
    pub address: u64,
    /// The region there.
    pub key: RemoteKey,
}

/// The service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection: everything arrives, once and in order, or the queue pair is in error.
    ReliableConnection,
    /// Unreliable datagrams of at most one packet.
    Datagram,
}

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairPlan {
    /// Whose regions it may use.
    pub domain: ProtectionDomain,
    /// Its service.
    pub service: Service,
    /// Where send requests complete.
    pub send_queue: CompletionQueueId,
    /// Where receive requests complete.
    pub receive_queue: CompletionQueueId,
    /// Where receive requests come from; `None`: its own queue.
    pub shared_receive_queue: Option<SharedReceiveQueueId>,
    /// Most send requests that are posted and not complete.
    pub max_send: u32,
    /// Most receive requests that are posted and not complete; means nothing with a shared queue.
    pub max_receive: u32,
    /// Datagrams: what senders must know.
    pub qkey: u32,
}

/// The other end of a connection, and how to receive from it: what brings a queue pair from *initialised* to *ready to receive*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The device there.
    pub address: DeviceAddress,
    /// By which of the own addresses, counted as in [`Hca::addresses`].
    pub by: u8,
    /// The queue pair there.
    pub queue_pair: QueuePairNumber,
    /// The first packet number it will send.
    pub first_packet: u32,
    /// Largest payload of a packet in bytes: 256, 512, 1024, 2048 or 4096. Equal at both ends.
    pub mtu: u32,
    /// Reads and atomics of the peer that may be under way at a time.
    pub max_incoming_reads: u8,
    /// Code of the time that a sender without receive request shall wait (0 to 31).
    pub not_ready_code: u8,
    /// What the peer may do with the domain's memory.
    pub access: Access,
}

/// How to send: what brings a queue pair from *ready to receive* to *ready to send*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The first packet number.
    pub first_packet: u32,
    /// Silence before packets are repeated: 4.096 us * 2^this; 0: never.
    pub timeout: u8,
    /// How often without any answer.
    pub retries: u8,
    /// How often when the peer is not ready; 7: for ever.
    pub not_ready_retries: u8,
    /// Own reads and atomics that may be under way at a time.
    pub max_reads: u8,
}

/// The states of a queue pair that its owner sees (section 10.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// Just made, or reset.
    Reset,
    /// Receive requests may be posted.
    Initialised,
    /// Packets are taken.
    ReadyToReceive,
    /// Packets are taken and sent.
    ReadyToSend,
    /// Packets are taken; requests that have begun end, and no other begins.
    SendQueueDrained,
    /// A datagram could not be sent: packets are taken, and what is posted to be sent completes as flushed.
    SendQueueError,
    /// Nothing moves any more; everything posted completes as flushed.
    Error,
}

impl QueuePairState {
    /// Whether the owner may bring a queue pair of a service from this state to another one (section 10.3.1; `ibv_modify_qp(3)`). To
    /// *send queue error* nobody brings one: a datagram that cannot be sent does. From a state to itself only attributes change,
    /// which is no transition here.
    pub fn may_become(self, next: QueuePairState, service: Service) -> bool {
        use QueuePairState::{
            Error, Initialised, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained, SendQueueError,
        };
        match (self, next) {
            (from, to) if from == to => false,
            (_, Reset | Error)
            | (Reset, Initialised)
            | (Initialised, ReadyToReceive)
            | (ReadyToReceive | SendQueueDrained, ReadyToSend)
            | (ReadyToSend, SendQueueDrained) => true,
            (SendQueueError, ReadyToSend) => service == Service::Datagram,
            _ => false,
        }
    }
}

/// Why a device refused a call. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HcaRefusal {
    /// There is no such object.
    Unknown,
    /// The queue pair is in a state that does not allow it.
    State(QueuePairState),
    /// The queue is full; try again when something has completed.
    Full,
    /// Too many segments, too many bytes, or a length that does not fit the operation.
    Size,
    /// The operation does not belong to this kind of queue pair, or the arguments contradict each other.
    Invalid,
    /// Keys, numbers, memory or other resources are exhausted.
    Exhausted,
}

/// What is known of the way to an address; see [`Hca::route`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// It is being found out, which takes a while: ask again.
    Asked,
    /// Packets there may have a payload of so many bytes, and what else belongs to it is put into them.
    Known {
        /// 256, 512, 1024, 2048 or 4096; what the other end says of its way here may be less.
        mtu: u32,
    },
    /// It must not be used.
    Barred,
}

/// What a device can do. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HcaLimits {
    /// Largest payload of a packet.
    pub mtu: u32,
    /// Largest message.
    pub max_message: u32,
    /// Largest inline request.
    pub max_inline: u32,
    /// Entries of a scatter or gather list.
    pub max_segments: u32,
    /// Send requests of one queue pair that are not complete.
    pub max_send: u32,
    /// Receive requests of one queue that are not complete.
    pub max_receive: u32,
    /// Entries of a completion queue.
    pub max_completions: u32,
    /// Queue pairs at a time, of all processes together, as far as it is known.
    pub max_queue_pairs: u32,
    /// Model: bytes of memory that a connection's queue pair takes.
    pub queue_pair_bytes: u32,
    /// Reads and atomics of one queue pair under way.
    pub max_reads: u8,
    /// Regions at a time, as far as it is known.
    pub max_regions: u32,
    /// Bytes that may be registered at a time, as far as it is known.
    pub max_registered: u64,
    /// Whether regions follow their addresses when other memory is mapped there (on-demand paging).
    pub follows_mappings: bool,
    /// Whether compare and swap and fetch and add work.
    pub atomics: bool,
    /// Whether they are atomic towards the processors too.
    pub atomic_with_processors: bool,
    /// Whether those of one connection are executed in their order; otherwise each has to wait for the one before
    /// ([`WorkRequest::fence`]).
    pub atomics_in_order: bool,
    /// Whether the device does nothing but inside this process's own calls of it: then none of its atomics is executed while
    /// the process does something else. False for whatever works by itself, a thread included.
    pub works_in_calls: bool,
    /// Whether short requests in a row are better told of at once: telling costs, or what is told of later waits anyhow.
    pub chains: bool,
    /// Model: seconds from a request to its completion, of one without data.
    pub latency: f64,
    /// Model: bytes per second of a port.
    pub bandwidth: f64,
    /// Model: bytes per second of messages that the processors of both ends copy.
    pub copied: f64,
    /// Model: seconds of registering a range and of giving it back.
    pub registration: f64,
    /// Model: seconds for each byte of it.
    pub registration_per_byte: f64,
}

/// Memory that the device made and registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBuffer {
    /// Where it begins, for segments and remote addresses.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Its region's keys.
    pub keys: RegionKeys,
}

/// A host channel adapter: what the transport over RDMA is written against, once for all devices.
///
/// One domain per device: everything that is made belongs together. No call waits.
pub trait Hca {
    /// What it sleeps on.
    type Bell: crate::Bell + Clone + Send;

    /// What it can do.
    fn limits(&self) -> HcaLimits;

    /// Where others reach it, best of all.
    fn address(&self) -> DeviceAddress;

    /// Everything under which others may reach it, the preferred first; at most [`MOST_ADDRESSES`].
    fn addresses(&self) -> Vec<PortAddress> {
        vec![self.address().into()]
    }

    /// The way to an address, by one of the own ones, which counts as in [`Hca::addresses`]: asked of whoever knows (a subnet's
    /// manager) when it is asked for the first time. What is sent or opened there before it is known goes by defaults. An
    /// answer comes, one way or the other, within seconds, and rings the bell.
    fn route(&mut self, to: DeviceAddress, by: u8) -> Route {
        let _ = (to, by);
        Route::Known { mtu: self.limits().mtu }
    }

    /// A way has failed: where it may lead elsewhere by now, it is asked for again.
    fn renew_route(&mut self, to: DeviceAddress, by: u8) {
        let _ = (to, by);
    }

    /// In words, what belongs to a way that was asked for, and who said so; `None` where there is nothing to say.
    fn route_text(&self, to: DeviceAddress, by: u8) -> Option<String> {
        let _ = (to, by);
        None
    }

    /// Nanoseconds of the device's clock.
    fn now(&self) -> Nanos;

    /// When the last [`Hca::progress`] was, as good as [`Hca::now`] right after it: devices that have read the clock for it say
    /// what they read.
    fn turned(&self) -> Nanos {
        self.now()
    }

    /// Makes and registers memory.
    ///
    /// # Errors
    /// [`HcaRefusal::Exhausted`].
    fn allocate(&mut self, bytes: u64, access: Access) -> Result<DeviceBuffer, HcaRefusal>;

    /// Registers memory of this process that the device did not make. [`crate::zero_copy`] says who promises that it is there.
    ///
    /// # Errors
    /// [`HcaRefusal::Exhausted`] when fewer regions might help, [`HcaRefusal::Invalid`] when this memory cannot be registered.
    fn register(&mut self, address: u64, length: u64, access: Access) -> Result<RegionKeys, HcaRefusal> {
        let _ = (address, length, access);
        Err(HcaRefusal::Invalid)
    }

    /// Takes a region's keys back; nothing of this process uses them any more.
    fn deregister(&mut self, keys: RegionKeys) {
        let _ = keys;
    }

    /// Part of a buffer that it made.
    ///
    /// # Panics
    /// When the range lies in no buffer.
    fn bytes(&self, address: u64, length: usize) -> &[u8];

    /// Eight aligned bytes of a buffer that it made, which others may be writing: an acquire, so what is read after it is at
    /// least as new.
    ///
    /// # Panics
    /// As [`Hca::bytes`].
    fn word(&self, address: u64) -> u64 {
        // Of a device that works in calls of its own; others say how.
        u64::from_le_bytes(self.bytes(address, 8).try_into().expect("eight bytes"))
    }

    /// As [`Hca::bytes`], to write to. The caller keeps off what is posted.
    ///
    /// # Panics
    /// When the range lies in no buffer.
    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8];

    /// A completion queue for at least `depth` entries.
    ///
    /// # Errors
    /// [`HcaRefusal::Exhausted`].
    fn make_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, HcaRefusal>;

    /// A shared receive queue for `depth` requests.
    ///
    /// # Errors
    /// [`HcaRefusal::Exhausted`].
    fn make_shared_receive_queue(&mut self, depth: u32) -> Result<SharedReceiveQueueId, HcaRefusal>;

    /// A queue pair in state *initialised*. The plan's domain is ignored.
    ///
    /// # Errors
    /// See [`HcaRefusal`].
    fn make_queue_pair(&mut self, plan: QueuePairPlan) -> Result<QueuePairNumber, HcaRefusal>;

    /// Brings a queue pair to *ready to send*; both arguments for connections only.
    ///
    /// # Errors
    /// See [`HcaRefusal`].
    fn open_queue_pair(
        &mut self,
        number: QueuePairNumber,
        ends: Option<(Remote, Sending)>,
    ) -> Result<(), HcaRefusal>;

    /// Brings a queue pair for datagrams back to *ready to send* after one of them could not be sent, which has stopped its send queue
    /// ([`QueuePairState::SendQueueError`]): to be said when the completion with the error was polled. What was posted before it was said
    /// completes as flushed.
    ///
    /// # Errors
    /// See [`HcaRefusal`]; some devices put such a queue pair into *error*, from where it does not come back.
    fn resume_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), HcaRefusal>;

    /// Puts a queue pair into *error*: nothing arrives at it any more, and everything posted completes as flushed. What had
    /// arrived can still be polled; [`Hca::destroy_queue_pair`] comes after that.
    fn stop_queue_pair(&mut self, number: QueuePairNumber);

    /// Waits until the device has let go of a queue pair that was stopped: it touches no memory for it any more, and what
    /// arrived in the meantime can be polled. A device that moves only while it is called has done so before.
    fn finish_queue_pair(&mut self, number: QueuePairNumber) {
        let _ = number;
    }

    /// Ends a queue pair; nothing of it completes any more, but for the requests that it took from a shared receive queue and
    /// that were not polled yet: these complete as flushed and as [`NOBODY`]'s, so that they can be posted again.
    fn destroy_queue_pair(&mut self, number: QueuePairNumber);

    /// Whether what an open connection writes into a buffer of [`Hca::allocate`] is seen in the order of its addresses, a
    /// request at a time: whoever sees the last byte, sees all. The specification promises it of no device (section 9.5,
    /// o9-20); some say it of their connections.
    fn writes_in_order(&self, number: QueuePairNumber) -> bool {
        let _ = number;
        false
    }

    /// Posts a send request.
    ///
    /// # Errors
    /// See [`HcaRefusal`].
    fn post_send(&mut self, number: QueuePairNumber, request: &WorkRequest<'_>) -> Result<(), HcaRefusal>;

    /// Posts a message of a few bytes inline: [`Hca::post_send`] for callers that count instructions.
    ///
    /// # Errors
    /// See [`HcaRefusal`].
    #[inline]
    fn send_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        let request = WorkRequest::new(id, Work::Send { immediate: None }, &[]);
        self.post_send(number, &WorkRequest { data: Data::Inline(&[bytes]), signaled, ..request })
    }

    /// As [`Hca::send_few`], a write of a few bytes.
    ///
    /// # Errors
    /// See [`HcaRefusal`].
    #[inline]
    fn write_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        to: RemoteAddress,
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        let request = WorkRequest::new(id, Work::Write { to, immediate: None }, &[]);
        self.post_send(number, &WorkRequest { data: Data::Inline(&[bytes]), signaled, ..request })
    }

    /// Posts send requests one after another, with as few doorbells as the device can.
    ///
    /// # Errors
    /// See [`HcaRefusal`]. [`HcaRefusal::Full`]: the queue has no room for all of them, and none is posted. After any other
    /// refusal those before the one that it is about are posted.
    fn post_sends(&mut self, number: QueuePairNumber, requests: &[WorkRequest<'_>])
    -> Result<(), HcaRefusal>;

    /// How often the device was told of send requests so far.
    fn doorbells(&self) -> u64;

    /// Whether the queue pairs together have so many requests under way that completions of a few hundred more might find no
    /// room in their queue. Whoever posts waits until something has completed.
    fn is_crowded(&self) -> bool;

    /// Whether a message of so many bytes that is posted to a connection now leaves by itself. An adapter sends what was posted
    /// whatever the program does. A device that works in calls ([`HcaLimits::works_in_calls`]) says no when more is under way than
    /// it sends without an acknowledgement: who has posted may compute for long after the call that did. Its
    /// [`Hca::send_few`] then refuses with [`HcaRefusal::Full`].
    #[inline]
    fn leaves_now(&self, queue_pair: QueuePairNumber, bytes: usize) -> bool {
        let _ = (queue_pair, bytes);
        true
    }

    /// Posts a receive request to a shared queue.
    ///
    /// # Errors
    /// See [`HcaRefusal`].
    fn post_receive(
        &mut self,
        queue: SharedReceiveQueueId,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), HcaRefusal>;

    /// Posts receive requests to a shared queue, each with its identifier, with as few doorbells as the device can.
    ///
    /// # Errors
    /// As [`Hca::post_receive`]; those before one that is refused are posted.
    fn post_receives(
        &mut self,
        queue: SharedReceiveQueueId,
        requests: &[(u64, Segment)],
    ) -> Result<(), HcaRefusal> {
        requests.iter().try_for_each(|&(id, segment)| self.post_receive(queue, id, &[segment]))
    }

    /// The oldest completion of a queue.
    fn poll(&mut self, queue: CompletionQueueId) -> Option<Completion>;

    /// Lets the device work, where it has no hardware that does. True when something moved.
    fn progress(&mut self) -> bool;

    /// The owner has had its turn: what it posted during it leaves, and does not keep the next request waiting for company.
    /// Nothing to do for devices that send what is posted.
    fn end_turn(&mut self) {}

    /// As [`Hca::end_turn`], and what is posted from now on, before the next [`Hca::progress`], leaves at once, unless
    /// [`Hca::keep_company`] says otherwise.
    fn push_out(&mut self) {
        self.end_turn();
    }

    /// Whether requests that are posted outside of turns to one peer in a row may wait for each other; whoever says so calls
    /// [`Hca::push_out`] before the program goes on without the device.
    fn keep_company(&mut self, keep: bool) {
        let _ = keep;
    }

    /// Whether anything was posted outside of turns since the last [`Hca::push_out`], where requests may wait for each other.
    fn is_in_row(&self) -> bool {
        false
    }

    /// An address of which the network says for certain that nobody is there, each once; most devices never know.
    fn unreachable(&mut self) -> Option<DeviceAddress> {
        None
    }

    /// The bell to sleep on.
    fn bell(&self) -> Self::Bell;
}
