//! The functions for queue pairs and ways of datagrams, found by their names too.

use crate::devices::{Kind, by_gid, by_lid, kind, socket};
use crate::library::{PAIR, WAY, access_of, fail};
use crate::objects::*;
use crate::posting::queue_id;
use crate::sys::*;
use crate::world::{PairFacts, misuse, world};
use libc::c_int;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use weft_api::verbs::{
    ProtectionDomain, QueuePairNumber, QueuePairPlan, Remote, Sending, Service, SharedReceiveQueueId,
};

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(domain: *mut ibv_pd, plan: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the program's own structures.
    let (context, domain_number, plan) = unsafe { ((*domain).context, (*domain).handle, &*plan) };
    let object = around(context);
    let kind = kind(object.at);
    let is_datagram = plan.qp_type == IBV_QPT_UD;
    if !is_datagram && !kind.connections {
        return fail(libc::EOPNOTSUPP);
    }
    if plan.cap.max_inline_data > kind.inline || plan.cap.max_send_sge > 4 {
        return fail(libc::EINVAL);
    }
    let mut world = world();
    let unit = world.unit(object.at);
    let count = unit.pairs_of.entry(object.number).or_default();
    if *count >= kind.most_pairs {
        return fail(libc::ENOMEM);
    }
    // SAFETY: the program names a queue that it has, or none.
    let shared = unsafe { plan.srq.cast::<Receives>().as_ref() }.map(|queue| queue.number);
    let (send_queue, receive_queue) = (queue_id(plan.send_cq), queue_id(plan.recv_cq));
    let made = unit.core.make_queue_pair(QueuePairPlan {
        domain: ProtectionDomain(domain_number),
        service: if is_datagram { Service::Datagram } else { Service::ReliableConnection },
        send_queue,
        receive_queue,
        shared_receive_queue: shared.map(SharedReceiveQueueId),
        max_send: plan.cap.max_send_wr,
        max_receive: plan.cap.max_recv_wr,
        // Keys come later: senders compare them.
        qkey: 0,
    });
    let Ok(number) = made else { return fail(libc::EINVAL) };
    *count += 1;
    *unit.users_of_domain.entry(domain_number).or_default() += 1;
    if let Some(shared) = shared {
        *unit.users_of_receives.entry(shared).or_default() += 1;
    }
    let queues = [send_queue.0, receive_queue.0];
    for queue in queues {
        unit.queues.get_mut(&queue).unwrap_or_else(|| misuse("a queue that is gone is named")).users += 1;
    }
    let facts = PairFacts { qkey: 0, domain: domain_number, context: object.number, queues, shared };
    unit.pairs.insert(number.0, facts);
    unit.count(PAIR, true);
    let base = ibv_qp {
        context,
        qp_context: plan.qp_context,
        pd: domain,
        send_cq: plan.send_cq,
        recv_cq: plan.recv_cq,
        srq: plan.srq,
        handle: 0,
        qp_num: number.0,
        state: IBV_QPS_RESET,
        qp_type: plan.qp_type,
    };
    hand_out(Pair { base, remote: None }).cast()
}

/// Where a way leads, of a device of this kind; `None`: it is none.
fn socket_of(kind: &Kind, attr: &ibv_ah_attr) -> Option<SocketAddr> {
    if attr.port_num != 1 || attr.sl > 15 {
        return None;
    }
    if kind.infiniband {
        let there =
            by_lid(attr.dlid).filter(|&at| attr.is_global == 0 || by_gid(attr.grh.dgid.raw) == Some(at));
        return there.map(socket);
    }
    let gid = Ipv6Addr::from(attr.grh.dgid.raw);
    let is_whole = attr.is_global == 1 && attr.sl < 8 && attr.grh.hop_limit > 0;
    is_whole.then(|| SocketAddr::new(gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4), 4791))
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(raw: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the program's own structures.
    let (pair, attr) = unsafe { (&mut *raw.cast::<Pair>(), &*attr) };
    let number = QueuePairNumber(pair.base.qp_num);
    let is_datagram = pair.base.qp_type == IBV_QPT_UD;
    let mut world = world();
    let unit = world.unit(around(pair.base.context).at);
    let needed = match (attr.qp_state, is_datagram) {
        (IBV_QPS_INIT, true) => IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
        (IBV_QPS_INIT, false) => IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        (IBV_QPS_RTR, false) => {
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER
        }
        // From a stopped send queue, which the program must name: the driver has not heard of it.
        (IBV_QPS_RTS, true) if attr.cur_qp_state == IBV_QPS_SQE && mask & IBV_QP_CUR_STATE != 0 => 0,
        (IBV_QPS_RTS, true) => IBV_QP_SQ_PSN,
        (IBV_QPS_RTS, false) => {
            IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
        }
        _ => 0,
    };
    if mask & (needed | IBV_QP_STATE) != needed | IBV_QP_STATE {
        return libc::EINVAL;
    }
    let done = match attr.qp_state {
        IBV_QPS_INIT => {
            if attr.port_num != 1 {
                return libc::EINVAL;
            }
            if let Some(facts) = unit.pairs.get_mut(&number.0) {
                facts.qkey = attr.qkey;
            }
            unit.counts.partitions[usize::from(is_datagram)] = attr.pkey_index.into();
            unit.core.initialise(number)
        }
        IBV_QPS_RTR if is_datagram => unit.core.ready_to_receive(number, None),
        IBV_QPS_RTR => {
            let Some(address) = socket_of(unit.kind, &attr.ah_attr) else { return libc::EINVAL };
            (unit.counts.connection, unit.counts.path_mtu) = ((&attr.ah_attr).into(), attr.path_mtu as u64);
            unit.goes_by((&attr.ah_attr).into());
            pair.remote = Some(address);
            let remote = Remote {
                address: address.into(),
                by: 0,
                queue_pair: QueuePairNumber(attr.dest_qp_num),
                first_packet: attr.rq_psn,
                mtu: 128 << attr.path_mtu,
                max_incoming_reads: attr.max_dest_rd_atomic,
                not_ready_code: attr.min_rnr_timer,
                access: access_of(attr.qp_access_flags),
            };
            unit.core.ready_to_receive(number, Some(remote))
        }
        IBV_QPS_RTS if mask & IBV_QP_CUR_STATE != 0 => unit.core.resume(number),
        IBV_QPS_RTS if is_datagram => unit.core.ready_to_send(number, None),
        IBV_QPS_RTS => {
            (unit.counts.timeout, unit.counts.retries) = (attr.timeout.into(), attr.retry_cnt.into());
            let sending = Sending {
                first_packet: attr.sq_psn,
                timeout: attr.timeout,
                retries: attr.retry_cnt,
                not_ready_retries: attr.rnr_retry,
                max_reads: attr.max_rd_atomic,
            };
            unit.core.ready_to_send(number, Some(sending))
        }
        IBV_QPS_ERR => {
            unit.stop(number.0);
            Ok(())
        }
        IBV_QPS_RESET => {
            unit.stop(number.0);
            unit.forget(number.0);
            Ok(())
        }
        _ => return libc::EINVAL,
    };
    pair.base.state = attr.qp_state;
    if done.is_ok() { 0 } else { libc::EINVAL }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(raw: *mut ibv_qp) -> c_int {
    // SAFETY: made by `ibv_create_qp`, and given back by its owner.
    let pair: Pair = unsafe { take_back(raw.cast()) };
    let number = pair.base.qp_num;
    let mut world = world();
    let unit = world.unit(around(pair.base.context).at);
    unit.stop(number);
    unit.forget(number);
    let Some(facts) = unit.pairs.remove(&number) else { misuse("a queue pair is given back twice") };
    // Nothing is left in the core's queues, and nothing at work.
    let _ = unit.core.destroy_queue_pair(QueuePairNumber(number));
    *unit.pairs_of.entry(facts.context).or_default() -= 1;
    *unit.users_of_domain.entry(facts.domain).or_default() -= 1;
    if let Some(shared) = facts.shared {
        *unit.users_of_receives.entry(shared).or_default() -= 1;
    }
    for queue in facts.queues {
        if let Some(queue) = unit.queues.get_mut(&queue) {
            queue.users -= 1;
        }
    }
    unit.count(PAIR, false);
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(pair: *mut ibv_qp, opcode: c_int, _: u32) -> c_int {
    // SAFETY: the program asks of a queue pair that it has.
    let context = unsafe { (*pair).context };
    c_int::from(opcode == IBV_WR_RDMA_WRITE && kind(around(context).at).in_order)
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(domain: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the program's own structures.
    let (context, attr) = unsafe { ((*domain).context, &*attr) };
    let mut world = world();
    let unit = world.unit(around(context).at);
    let Some(to) = socket_of(unit.kind, attr) else { return fail(libc::EINVAL) };
    unit.count(WAY, true);
    unit.counts.datagrams = attr.into();
    unit.goes_by(attr.into());
    hand_out(Way { context, to }).cast()
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(way: *mut ibv_ah) -> c_int {
    // SAFETY: made by `ibv_create_ah`, and given back by its owner.
    let way: Way = unsafe { take_back(way.cast()) };
    world().unit(around(way.context).at).count(WAY, false);
    0
}
