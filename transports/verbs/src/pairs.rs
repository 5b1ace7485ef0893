//! Queue pairs: how they are made and opened, and how many requests each has room for.

use crate::choice::Choice;
use crate::completions::SILENT;
use crate::context::{Context, errno};
use crate::memory::flags;
use crate::route::{Attributes, silence};
use crate::routes::{Key, Routes};
use crate::survey::Link;
use crate::sys::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_CUR_STATE, IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC,
    IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT,
    IBV_QP_QKEY, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE,
    IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQE,
    IBV_QPT_RC, IBV_QPT_UD, ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp, ibv_qp_attr, ibv_qp_cap,
    ibv_qp_init_attr,
};
use libc::c_int;
use std::collections::{HashMap, VecDeque};
use std::mem::zeroed;
use std::net::IpAddr;
use std::ptr::null_mut;
use weft_api::verbs::{DeviceAddress, HcaRefusal, QueuePairNumber, QueuePairState, Remote, Sending, Service};

/// Destinations of datagrams that one queue pair remembers.
const MAX_HANDLES: usize = 1024;

/// The shortest silence before a device of software repeats packets: 268 ms.
const SOFTWARE_TIMEOUT: u8 = 16;

/// A destination of datagrams.
#[derive(Debug)]
struct Handle {
    raw: *mut ibv_ah,
    /// The last datagram that went there, by number.
    used: u64,
}

/// A queue pair. Its owner calls [`Pair::destroy`].
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) raw: *mut ibv_qp,
    pub(crate) service: Service,
    pub(crate) state: QueuePairState,
    /// Most requests that may be posted and not complete.
    room: u32,
    /// Those that are.
    open: u32,
    /// Those of them since the last one that will be heard of.
    unheard: u32,
    /// How many requests each completion to come stands for, the oldest first.
    heard: VecDeque<u32>,
    /// Requests that are over.
    over: u64,
    /// By destination and own address.
    handles: HashMap<Key, Handle>,
    /// Those whose way leads otherwise by now.
    outdated: Vec<Handle>,
    /// Pieces of the device's memory that requests are sent from, each with the count of those that are over when it is.
    pieces: VecDeque<(u64, u8)>,
}

impl Pair {
    /// A queue pair in state *initialised*.
    pub(crate) fn make(
        context: &Context,
        choice: &Choice,
        mut plan: ibv_qp_init_attr,
        (service, qkey): (Service, u32),
    ) -> Result<(QueuePairNumber, Pair), HcaRefusal> {
        let ibv_qp_cap { max_send_wr: room, .. } = plan.cap;
        plan.qp_type = match service {
            Service::ReliableConnection => IBV_QPT_RC,
            Service::Datagram => IBV_QPT_UD,
        };
        // SAFETY: the queues of the plan are live, and of the same context; the library writes what it gave into the plan.
        let raw = unsafe { (context.library.ibv_create_qp)(context.domain(), &mut plan) };
        if raw.is_null() {
            return Err(refusal(errno()));
        }
        // SAFETY: it was just made.
        let number = QueuePairNumber(unsafe { (*raw).qp_num });
        let mut pair = Pair {
            raw,
            service,
            state: QueuePairState::Reset,
            room,
            open: 0,
            unheard: 0,
            heard: VecDeque::new(),
            over: 0,
            handles: HashMap::new(),
            outdated: Vec::new(),
            pieces: VecDeque::new(),
        };
        let mut attr = attributes(IBV_QPS_INIT);
        attr.port_num = choice.port;
        attr.pkey_index = choice.partition.index;
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        let mask = match service {
            // Rights come with the peer.
            Service::ReliableConnection => mask | IBV_QP_ACCESS_FLAGS,
            Service::Datagram => {
                attr.qkey = qkey;
                mask | IBV_QP_QKEY
            }
        };
        match pair.modify(context, attr, mask) {
            Ok(()) => pair.state = QueuePairState::Initialised,
            Err(refusal) => {
                pair.destroy(context);
                return Err(refusal);
            }
        }
        Ok((number, pair))
    }

    /// *Initialised* to *ready to send*.
    pub(crate) fn open(
        &mut self,
        context: &Context,
        (choice, routes): (&Choice, &Routes),
        ends: Option<(Remote, Sending)>,
    ) -> Result<(), HcaRefusal> {
        if self.state != QueuePairState::Initialised {
            return Err(HcaRefusal::State(self.state));
        }
        let mut receive = attributes(IBV_QPS_RTR);
        let mut send = attributes(IBV_QPS_RTS);
        let (receive_mask, send_mask) = match (self.service, ends) {
            (Service::Datagram, None) => (IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN),
            (Service::ReliableConnection, Some((remote, sending))) => {
                let mtu = remote.mtu;
                if !(256..=4096).contains(&mtu) || !mtu.is_power_of_two() {
                    return Err(HcaRefusal::Invalid);
                }
                receive.path_mtu = mtu.ilog2() as c_int - 7;
                receive.dest_qp_num = remote.queue_pair.0;
                receive.rq_psn = remote.first_packet & 0xff_ffff;
                receive.max_dest_rd_atomic = remote.max_incoming_reads;
                receive.min_rnr_timer = remote.not_ready_code;
                receive.qp_access_flags = flags(remote.access);
                let attributes = routes.attributes((remote.address, remote.by));
                receive.ah_attr = route(choice, &attributes, remote.address, remote.by);
                let (timeout, retries) = silence(attributes.lifetime, sending.timeout, sending.retries);
                send.sq_psn = sending.first_packet & 0xff_ffff;
                (send.timeout, send.retry_cnt) = match choice.emulated {
                    // Its answers wait for a processor; and the kernel's soft-RoCE takes 7 retries for "for ever".
                    true => (timeout.max(SOFTWARE_TIMEOUT), retries.min(6)),
                    false => (timeout, retries),
                };
                send.rnr_retry = sending.not_ready_retries;
                send.max_rd_atomic = sending.max_reads;
                (
                    IBV_QP_STATE
                        | IBV_QP_AV
                        | IBV_QP_PATH_MTU
                        | IBV_QP_DEST_QPN
                        | IBV_QP_RQ_PSN
                        | IBV_QP_MAX_DEST_RD_ATOMIC
                        | IBV_QP_MIN_RNR_TIMER
                        | IBV_QP_ACCESS_FLAGS,
                    IBV_QP_STATE
                        | IBV_QP_SQ_PSN
                        | IBV_QP_TIMEOUT
                        | IBV_QP_RETRY_CNT
                        | IBV_QP_RNR_RETRY
                        | IBV_QP_MAX_QP_RD_ATOMIC,
                )
            }
            _ => return Err(HcaRefusal::Invalid),
        };
        self.modify(context, receive, receive_mask)?;
        self.state = QueuePairState::ReadyToReceive;
        self.modify(context, send, send_mask)?;
        self.state = QueuePairState::ReadyToSend;
        Ok(())
    }

    /// Back to *ready to send*, of a queue pair for datagrams that an error has stopped. Drivers may not know that it has.
    pub(crate) fn resume(&mut self, context: &Context) -> Result<(), HcaRefusal> {
        if self.state != QueuePairState::SendQueueError {
            return Err(HcaRefusal::State(self.state));
        }
        let mut attr = attributes(IBV_QPS_RTS);
        attr.cur_qp_state = IBV_QPS_SQE;
        self.modify(context, attr, IBV_QP_STATE | IBV_QP_CUR_STATE)?;
        self.state = QueuePairState::ReadyToSend;
        Ok(())
    }

    /// Whether send requests may be posted; the device flushes them where it does not send.
    #[inline]
    pub(crate) fn takes_sends(&self) -> bool {
        matches!(
            self.state,
            QueuePairState::ReadyToSend | QueuePairState::SendQueueError | QueuePairState::Error
        )
    }

    fn modify(&self, context: &Context, mut attr: ibv_qp_attr, mask: c_int) -> Result<(), HcaRefusal> {
        // SAFETY: the queue pair lives until `destroy`; the mask names the fields that were set.
        match unsafe { (context.library.ibv_modify_qp)(self.raw, &mut attr, mask) } {
            0 => Ok(()),
            // -1 with the reason elsewhere, from some drivers.
            -1 => Err(refusal(errno())),
            errno => Err(refusal(errno)),
        }
    }

    /// Whether so many more requests may be posted.
    #[inline]
    pub(crate) fn has_room(&self, requests: u32) -> bool {
        self.open + requests <= self.room
    }

    /// The number under which a request is posted, and whether it must be signaled: wanted ones are, and some of the others, so
    /// that room comes back.
    #[inline]
    pub(crate) fn number(&self, id: u64, wanted: bool, before: u32) -> (u64, bool) {
        if wanted {
            (id, true)
        } else if (self.unheard + before + 1) * 2 >= self.room {
            (id | SILENT, true)
        } else {
            (id, false)
        }
    }

    /// A request was posted, `signaled` or not.
    #[inline]
    pub(crate) fn posted(&mut self, signaled: bool) {
        self.open += 1;
        self.unheard += 1;
        if signaled {
            self.heard.push_back(self.unheard);
            self.unheard = 0;
        }
    }

    /// Requests that are posted and not complete.
    pub(crate) fn under_way(&self) -> u32 {
        self.open
    }

    /// A request is over, and with it all before it. When it failed, each of the others says so too. How many those are.
    #[inline]
    pub(crate) fn completed(&mut self, success: bool) -> u32 {
        let requests = if success { self.heard.pop_front().unwrap_or(0) } else { 1 }.min(self.open);
        self.open -= requests;
        self.over += u64::from(requests);
        if !success && self.state != QueuePairState::Error {
            self.state = match self.service {
                Service::ReliableConnection => QueuePairState::Error,
                Service::Datagram => QueuePairState::SendQueueError,
            };
        }
        requests
    }

    /// The request that was posted last is sent from this piece.
    pub(crate) fn uses(&mut self, piece: u8) {
        self.pieces.push_back((self.over + u64::from(self.open), piece));
    }

    /// A piece whose request is over; with `all`, of a queue pair that is no more, any.
    #[inline]
    pub(crate) fn is_done_with(&mut self, all: bool) -> Option<u8> {
        let &(at, piece) = self.pieces.front()?;
        (all || at <= self.over).then(|| {
            self.pieces.pop_front();
            piece
        })
    }

    /// The way of datagrams to a device, by one of the own addresses.
    pub(crate) fn handle(
        &mut self,
        context: &Context,
        (choice, routes): (&Choice, &Routes),
        to: DeviceAddress,
        by: u8,
    ) -> Result<*mut ibv_ah, HcaRefusal> {
        let now = self.over + u64::from(self.open);
        if let Some(handle) = self.handles.get_mut(&(to, by)) {
            handle.used = now;
            return Ok(handle.raw);
        }
        // Those whose datagrams have all left.
        let over = self.over;
        let keep = |handle: &Handle| {
            let keep = handle.used >= over;
            if !keep {
                // SAFETY: no request uses it any more, and it leaves its list with this.
                unsafe { (context.library.ibv_destroy_ah)(handle.raw) };
            }
            keep
        };
        self.outdated.retain(keep);
        if self.handles.len() >= MAX_HANDLES {
            self.handles.retain(|_, handle| keep(handle));
            if self.handles.len() >= MAX_HANDLES {
                return Err(HcaRefusal::Full);
            }
        }
        let mut way = route(choice, &routes.attributes((to, by)), to, by);
        // SAFETY: the domain is live; the library copies the route.
        let raw = unsafe { (context.library.ibv_create_ah)(context.domain(), &mut way) };
        if raw.is_null() {
            return Err(refusal(errno()));
        }
        self.handles.insert((to, by), Handle { raw, used: now });
        Ok(raw)
    }

    /// A way leads otherwise than it did: datagrams from now on get another handle.
    pub(crate) fn outdate(&mut self, key: Key) {
        self.outdated.extend(self.handles.remove(&key));
    }

    /// Nothing moves any more, and what was posted is flushed.
    pub(crate) fn fail(&self, context: &Context) {
        // One that cannot is so already.
        let _ = self.modify(context, attributes(IBV_QPS_ERR), IBV_QP_STATE);
    }

    /// The device has nothing to do with it any more when this returns; what it was at work at may have completed meanwhile.
    pub(crate) fn reset(&self, context: &Context) {
        // One that cannot is ended by its destruction.
        let _ = self.modify(context, attributes(IBV_QPS_RESET), IBV_QP_STATE);
    }

    /// Gives everything back.
    pub(crate) fn destroy(self, context: &Context) {
        // SAFETY: made by `make`, and nobody else has it; its handles are used by nothing else.
        unsafe {
            (context.library.ibv_destroy_qp)(self.raw);
            for handle in self.handles.values().chain(&self.outdated) {
                (context.library.ibv_destroy_ah)(handle.raw);
            }
        }
    }
}

fn attributes(state: c_int) -> ibv_qp_attr {
    // SAFETY: numbers only.
    ibv_qp_attr { qp_state: state, ..unsafe { zeroed() } }
}

/// The way to a device, by one of the own addresses; there is a first one always.
fn route(choice: &Choice, found: &Attributes, to: DeviceAddress, by: u8) -> ibv_ah_attr {
    let own = choice.gids.get(usize::from(by)).unwrap_or(&choice.gids[0]);
    let raw = match to.socket.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    // Within an InfiniBand subnet, the local identifier is enough; routers go by the global one.
    let own_prefix = match own.address.address.socket.ip() {
        IpAddr::V6(own) => own.octets()[..8] == raw[..8],
        IpAddr::V4(_) => false,
    };
    let is_global = choice.link.is_global() || !own_prefix || to.lid == 0 || found.is_routed;
    let dlid = if choice.link == Link::InfiniBand { found.lid.unwrap_or(to.lid) } else { 0 };
    let grh = ibv_global_route {
        dgid: ibv_gid { raw },
        flow_label: found.flow_label,
        sgid_index: own.index,
        hop_limit: found.hop_limit,
        traffic_class: found.traffic_class,
    };
    ibv_ah_attr {
        grh,
        dlid,
        sl: found.service_level,
        src_path_bits: found.path_bits,
        static_rate: found.static_rate,
        is_global: u8::from(is_global),
        port_num: choice.port,
    }
}

/// The library's reason as one of ours.
pub(crate) fn refusal(errno: i32) -> HcaRefusal {
    match errno {
        libc::ENOMEM | libc::EAGAIN | libc::ENOSPC | libc::EMFILE | libc::ENFILE => HcaRefusal::Exhausted,
        libc::EMSGSIZE | libc::E2BIG => HcaRefusal::Size,
        _ => HcaRefusal::Invalid,
    }
}

/// What a plan without queues looks like.
pub(crate) fn empty_plan(cap: ibv_qp_cap) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        cap,
        qp_type: 0,
        sq_sig_all: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::OwnGid;
    use crate::route::{Answer, PortFacts, RouteWish, decide};
    use crate::survey::Partition;

    fn choice(link: Link, own: &str) -> Choice {
        Choice {
            device: "mlx5_0".to_owned(),
            port: 2,
            link,
            gids: vec![
                OwnGid { index: 3, address: DeviceAddress { socket: own.parse().unwrap(), lid: 7 }.into() },
                OwnGid { index: 9, address: "[fe80::7]:4791".parse().unwrap() },
            ],
            address: DeviceAddress { socket: own.parse().unwrap(), lid: 7 },
            partition: Partition::DEFAULT,
            emulated: false,
            card: String::new(),
            why: String::new(),
        }
    }

    /// A queue pair that no device knows: only its bookkeeping can be used.
    fn pair(room: u32) -> Pair {
        Pair {
            raw: null_mut(),
            service: Service::ReliableConnection,
            state: QueuePairState::ReadyToSend,
            room,
            open: 0,
            unheard: 0,
            heard: VecDeque::new(),
            over: 0,
            handles: HashMap::new(),
            outdated: Vec::new(),
            pieces: VecDeque::new(),
        }
    }

    /// Without an answer of a manager.
    fn plain(own: &Choice, answer: Option<&Answer>) -> Attributes {
        let port = PortFacts { link: own.link, mtu: 4096, bytes_per_second: 1e9, lid: own.address.lid };
        decide(answer, &RouteWish::default(), &port)
    }

    #[test]
    fn ethernet_goes_by_the_global_identifier() {
        let own = choice(Link::Ethernet, "10.0.0.7:4791");
        let found = plain(&own, None);
        let route = route(&own, &found, "10.0.0.9:4791".parse().unwrap(), 0);
        assert_eq!((route.is_global, route.dlid, route.port_num), (1, 0, 2));
        assert_eq!((route.grh.sgid_index, route.grh.hop_limit), (3, 64));
        assert_eq!(route.grh.dgid.raw, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 9]);
        let other = self::route(&own, &found, "[fe80::9]:4791".parse().unwrap(), 1);
        assert_eq!((other.is_global, other.grh.sgid_index), (1, 9), "by the other of its addresses");
        assert_eq!(other.grh.dgid.raw, [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn infiniband_goes_by_the_local_identifier_within_its_subnet() {
        let own = choice(Link::InfiniBand, "[fe80::2:c903]:4791");
        let found = plain(&own, None);
        let near = route(&own, &found, "[fe80::2:c904]:4791@1f".parse().unwrap(), 0);
        assert_eq!((near.is_global, near.dlid, near.sl), (0, 0x1f, 0));
        let far = route(&own, &found, "[fec0::2:c904]:4791@1f".parse().unwrap(), 0);
        assert_eq!((far.is_global, far.dlid), (1, 0x1f), "a router is asked");
    }

    #[test]
    fn a_route_goes_into_the_way() {
        let own = choice(Link::InfiniBand, "[fe80::2:c903]:4791");
        let answer = Answer {
            destination_lid: 0x30,
            source_lid: 9,
            service_level: 5,
            rate: 2,
            traffic_class: 8,
            ..Answer::default()
        };
        let way =
            |answer| route(&own, &plain(&own, Some(answer)), "[fe80::2:c904]:4791@1f".parse().unwrap(), 0);
        let near = way(&answer);
        assert_eq!(
            (near.sl, near.dlid, near.src_path_bits, near.static_rate, near.is_global),
            (5, 0x30, 2, 2, 0)
        );
        let routed = way(&Answer { hop_limit: 9, flow_label: 3, ..answer });
        assert_eq!((routed.is_global, routed.grh.hop_limit, routed.grh.traffic_class), (1, 9, 8));
        assert_eq!((routed.grh.flow_label, routed.dlid), (3, 0x30), "the router's identifier");
    }

    #[test]
    fn room_comes_back_with_what_is_heard_of() {
        let mut pair = pair(8);
        let post = |pair: &mut Pair, wanted| {
            assert!(pair.has_room(1));
            let (id, signaled) = pair.number(5, wanted, 0);
            pair.posted(signaled);
            (id & SILENT != 0, signaled)
        };
        for _ in 0..3 {
            assert_eq!(post(&mut pair, false), (false, false));
        }
        assert_eq!(post(&mut pair, false), (true, true), "half of the queue is unheard of");
        assert_eq!(post(&mut pair, true), (false, true));
        for _ in 0..3 {
            post(&mut pair, false);
        }
        assert!(!pair.has_room(1));
        pair.completed(true);
        assert!(pair.has_room(4) && !pair.has_room(5), "one stands for four");
        pair.completed(true);
        assert!(pair.has_room(5) && !pair.has_room(6), "the wanted one for itself");
        for _ in 0..3 {
            pair.completed(false);
        }
        assert!(pair.has_room(8), "each that is flushed says so");
        assert_eq!(pair.state, QueuePairState::Error);
    }

    #[test]
    fn a_full_queue_always_has_one_that_will_be_heard_of() {
        for room in 1..20 {
            let mut pair = pair(room);
            while pair.has_room(1) {
                let (_, signaled) = pair.number(1, false, 0);
                pair.posted(signaled);
            }
            assert!(!pair.heard.is_empty(), "with room for {room}");
        }
    }
}
