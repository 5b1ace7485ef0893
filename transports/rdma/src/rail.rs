//! One device of a process: what is made on it once, and its receive requests.

use crate::card::RailCard;
use crate::peers::NO_PAIR;
use crate::slots::Slots;
use crate::transport::{COMPLETIONS, NO_KEY, RECEIVE_SLOTS, SLOT_BYTES, cannot};
use std::ops::{Index, IndexMut};
use weft_api::verbs::{
    Access, CompletionQueueId, DeviceBuffer, Hca, ProtectionDomain, QueuePairNumber, QueuePairPlan, Segment,
    Service, SharedReceiveQueueId,
};
use weft_types::Result;

/// Devices of one process. As many as large machines have network cards; each costs what is made on it once, a connection to each peer with
/// large operations, and some 60 bytes of what all must know of a process.
pub const MOST_RAILS: usize = 8;
/// Receive slots that go back to the device with one doorbell.
const RETURNED: usize = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Rail<H> {
    pub(crate) hca: H,
    pub(crate) card: RailCard,
    pub(crate) completions: CompletionQueueId,
    pub(crate) receives: SharedReceiveQueueId,
    pub(crate) receive_slots: Slots,
    /// Receive slots that are not posted.
    pub(crate) returned: Vec<u32>,
    /// Receive requests that the device has.
    pub(crate) posted_receives: u32,
    /// Queue pairs of connections that there are.
    pub(crate) pairs: u32,
    /// Where pieces of messages are that leave by datagrams, once there was one.
    pub(crate) letters: Option<Slots>,
}

/// The devices of a process. The first is not behind a pointer: every message asks for it.
#[derive(Debug)]
pub(crate) struct Rails<H> {
    first: Rail<H>,
    others: Vec<Rail<H>>,
}

impl<H> Rails<H> {
    /// All of them.
    ///
    /// # Panics
    /// When there is none, or more than [`MOST_RAILS`].
    pub(crate) fn new(all: Vec<Rail<H>>) -> Rails<H> {
        let mut all = all.into_iter();
        let rails = Rails { first: all.next().expect("there is a device"), others: all.collect() };
        assert!(rails.len() <= MOST_RAILS, "more than {MOST_RAILS} devices");
        rails
    }

    pub(crate) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// All but the first.
    pub(crate) fn others(&self) -> &[Rail<H>] {
        &self.others
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rail<H>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Rail<H>> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

impl<H> Index<usize> for Rails<H> {
    type Output = Rail<H>;

    #[inline(always)]
    fn index(&self, at: usize) -> &Rail<H> {
        if at == 0 { &self.first } else { self.others.get(at - 1).expect(NOT_THERE) }
    }
}

impl<H> IndexMut<usize> for Rails<H> {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut Rail<H> {
        if at == 0 { &mut self.first } else { self.others.get_mut(at - 1).expect(NOT_THERE) }
    }
}

const NOT_THERE: &str = "only devices that there are, are named";

impl<H: Hca> Rail<H> {
    /// Sets up a device.
    pub(crate) fn open(mut hca: H, qkey: u32) -> Result<Rail<H>> {
        let depth = hca.limits().max_completions.min(COMPLETIONS);
        let completions =
            hca.make_completion_queue(depth).map_err(|why| cannot("a completion queue", why))?;
        let receives = hca
            .make_shared_receive_queue(RECEIVE_SLOTS)
            .map_err(|why| cannot("a shared receive queue", why))?;
        let mut receive_slots = Slots::new(vec![buffer(&mut hca, RECEIVE_SLOTS, SLOT_BYTES)?], SLOT_BYTES);
        while let Some(slot) = receive_slots.take() {
            let segment = [receive_slots.segment(0, slot, SLOT_BYTES)];
            hca.post_receive(receives, u64::from(slot), &segment)
                .map_err(|why| cannot("a receive request", why))?;
        }
        let plan = QueuePairPlan {
            domain: ProtectionDomain(0),
            service: Service::Datagram,
            send_queue: completions,
            receive_queue: completions,
            shared_receive_queue: Some(receives),
            max_send: 1024,
            max_receive: 0,
            qkey,
        };
        let datagrams = hca.make_queue_pair(plan).map_err(|why| cannot("a queue pair", why))?;
        hca.open_queue_pair(datagrams, None).map_err(|why| cannot("a queue pair", why))?;
        let card = RailCard { addresses: hca.addresses(), datagrams, qkey };
        Ok(Rail {
            hca,
            card,
            completions,
            receives,
            receive_slots,
            returned: Vec::new(),
            posted_receives: RECEIVE_SLOTS,
            pairs: 0,
            letters: None,
        })
    }

    /// Makes the own end of a connection, for so many requests at a time.
    pub(crate) fn make_pair(&mut self, max_send: u32) -> Result<QueuePairNumber> {
        let plan = QueuePairPlan {
            domain: ProtectionDomain(0),
            service: Service::ReliableConnection,
            send_queue: self.completions,
            receive_queue: self.completions,
            shared_receive_queue: Some(self.receives),
            max_send,
            max_receive: 0,
            qkey: 0,
        };
        let made = self.hca.make_queue_pair(plan).map_err(|why| cannot("a queue pair", why))?;
        self.pairs += 1;
        Ok(made)
    }

    /// Ends a connection's own end, if there is one.
    pub(crate) fn destroy_pair(&mut self, pair: QueuePairNumber) {
        if pair != NO_PAIR {
            self.hca.destroy_queue_pair(pair);
            self.pairs -= 1;
        }
    }

    /// A receive slot can be used again. How often the doorbell was rung for it.
    pub(crate) fn repost(&mut self, slot: u32) -> u64 {
        self.returned.push(slot);
        if self.returned.len() >= RETURNED { self.return_slots() } else { 0 }
    }

    pub(crate) fn return_slots(&mut self) -> u64 {
        self.posted_receives += self.returned.len() as u32;
        let mut doorbells = 0;
        while !self.returned.is_empty() {
            let mut requests = [(0, Segment { address: 0, length: 0, key: NO_KEY }); RETURNED];
            let count = self.returned.len().min(RETURNED);
            for (request, slot) in requests.iter_mut().zip(self.returned.drain(..count)) {
                *request = (u64::from(slot), self.receive_slots.segment(0, slot, SLOT_BYTES));
            }
            doorbells += 1;
            let posted = self.hca.post_receives(self.receives, &requests[..count]);
            debug_assert_eq!(posted, Ok(()), "the queue has room for every slot");
        }
        doorbells
    }
}

/// Registered memory for slots.
pub(crate) fn buffer<H: Hca>(hca: &mut H, count: u32, bytes: u32) -> Result<DeviceBuffer> {
    let access = Access { local_write: true, ..Access::default() };
    hca.allocate(u64::from(count) * u64::from(bytes), access).map_err(|why| cannot("registered memory", why))
}
