//! Requests as the emulator's core wants them, and completions as the library has them.

use crate::objects::{Pair, Receives, Way, around};
use crate::sys::*;
use crate::world::{Unit, misuse, world};
use libc::c_int;
use std::ptr::null_mut;
use weft_api::verbs::{
    CompletedWork, Completion, CompletionQueueId, CompletionStatus, Data, HcaRefusal, LocalKey,
    QueuePairNumber, RemoteAddress, RemoteKey, Segment, SharedReceiveQueueId, Work, WorkRequest,
};

const IBV_WC_SEND: c_int = 0;
const IBV_WC_RECV: c_int = 128;
const IBV_WC_REM_OP_ERR: c_int = 11;

fn status(status: CompletionStatus) -> c_int {
    match status {
        CompletionStatus::Success => IBV_WC_SUCCESS,
        CompletionStatus::LocalLength => IBV_WC_LOC_LEN_ERR,
        CompletionStatus::LocalProtection => IBV_WC_LOC_PROT_ERR,
        CompletionStatus::Flushed => IBV_WC_WR_FLUSH_ERR,
        CompletionStatus::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        CompletionStatus::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        CompletionStatus::RemoteOperation => IBV_WC_REM_OP_ERR,
        CompletionStatus::RetriesExceeded => IBV_WC_RETRY_EXC_ERR,
        CompletionStatus::NotReadyRetriesExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
    }
}

/// A completion as the library has it. What failed says nothing of what it was, as with cards.
pub(crate) fn entry(done: &Completion) -> ibv_wc {
    let opcode = match done.work {
        _ if done.status != CompletionStatus::Success => 0x55,
        CompletedWork::Send => IBV_WC_SEND,
        CompletedWork::Write => IBV_WC_RDMA_WRITE,
        CompletedWork::Read => IBV_WC_RDMA_READ,
        CompletedWork::CompareSwap => IBV_WC_COMP_SWAP,
        CompletedWork::FetchAdd => IBV_WC_FETCH_ADD,
        CompletedWork::Receive => IBV_WC_RECV,
        CompletedWork::ReceiveWrite => IBV_WC_RECV_RDMA_WITH_IMM,
    };
    ibv_wc {
        wr_id: done.id,
        status: status(done.status),
        opcode,
        vendor_err: 0,
        byte_len: done.bytes,
        imm_data: done.immediate.unwrap_or(0).to_be(),
        qp_num: done.queue_pair.0,
        src_qp: 0,
        wc_flags: if done.immediate.is_some() { IBV_WC_WITH_IMM } else { 0 },
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

pub(crate) fn errno_of(refusal: HcaRefusal) -> c_int {
    match refusal {
        HcaRefusal::Full | HcaRefusal::Exhausted => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}

/// A list of the header's, which has a count.
///
/// # Safety
/// There are so many.
unsafe fn listed<'a, T>(first: *const T, count: c_int) -> &'a [T] {
    if count <= 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

fn segments(unit: &Unit, list: &[ibv_sge]) -> Vec<Segment> {
    let segment = |part: &ibv_sge| Segment {
        address: part.addr + unit.bases.get(&part.lkey).copied().unwrap_or(0),
        length: part.length,
        key: LocalKey(part.lkey),
    };
    list.iter().map(segment).collect()
}

pub(crate) unsafe extern "C" fn post_send(
    raw: *mut ibv_qp,
    mut request: *mut ibv_send_wr,
    refused: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program posts to a queue pair that it has.
    let pair = unsafe { &*raw.cast::<Pair>() };
    let at = around(pair.base.context).at;
    let mut world = world();
    let mut result = 0;
    while !request.is_null() {
        // SAFETY: the chain of the program's requests ends with a null pointer.
        let now = unsafe { &*request };
        // SAFETY: the request's own list.
        result = match unsafe { post_one(&mut world, at, pair, now) } {
            Ok(()) => 0,
            Err(why) => errno_of(why),
        };
        if result != 0 {
            // SAFETY: the program gives room for it.
            unsafe { *refused = request };
            break;
        }
        request = now.next;
    }
    world.pump();
    result
}

/// # Safety
/// What the request points to is there.
unsafe fn post_one(
    world: &mut crate::world::World,
    at: usize,
    pair: &Pair,
    request: &ibv_send_wr,
) -> Result<(), HcaRefusal> {
    let number = QueuePairNumber(pair.base.qp_num);
    // SAFETY: the caller's promise.
    let list = unsafe { listed(request.sg_list, request.num_sge) };
    let base_there = |world: &mut crate::world::World, key: u32| {
        let there = pair.remote.and_then(crate::devices::find);
        there.and_then(|there| world.unit(there).bases.get(&key).copied()).unwrap_or(0)
    };
    let immediate = || Some(u32::from_be(request.imm_data));
    // SAFETY: the member of the union that goes with the operation.
    let (rdma, atomic, ud) = unsafe { (request.wr.rdma, request.wr.atomic, request.wr.ud) };
    let datagram = pair.base.qp_type == IBV_QPT_UD;
    let remote = |world: &mut crate::world::World, address: u64, key: u32| RemoteAddress {
        address: address + base_there(world, key),
        key: RemoteKey(key),
    };
    let work = match request.opcode {
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => {
            let immediate = if request.opcode == IBV_WR_SEND { None } else { immediate() };
            if datagram {
                // SAFETY: a way that the program made with `ibv_create_ah` and has not given back.
                let way = unsafe { &*ud.ah.cast::<Way>() };
                let there = crate::devices::find(way.to);
                let known = there.and_then(|there| world.unit(there).pairs.get(&ud.remote_qpn).copied());
                let wrong_key = known.is_none_or(|known| known.qkey != ud.remote_qkey);
                let queue_pair = QueuePairNumber(ud.remote_qpn);
                Work::Datagram { to: way.to.into(), by: 0, queue_pair, qkey: u32::from(wrong_key), immediate }
            } else {
                Work::Send { immediate }
            }
        }
        IBV_WR_RDMA_WRITE => Work::Write { to: remote(world, rdma.remote_addr, rdma.rkey), immediate: None },
        IBV_WR_RDMA_WRITE_WITH_IMM => {
            Work::Write { to: remote(world, rdma.remote_addr, rdma.rkey), immediate: immediate() }
        }
        IBV_WR_RDMA_READ => Work::Read { from: remote(world, rdma.remote_addr, rdma.rkey) },
        IBV_WR_ATOMIC_CMP_AND_SWP => Work::CompareSwap {
            at: remote(world, atomic.remote_addr, atomic.rkey),
            compare: atomic.compare_add,
            swap: atomic.swap,
        },
        IBV_WR_ATOMIC_FETCH_AND_ADD => {
            Work::FetchAdd { at: remote(world, atomic.remote_addr, atomic.rkey), add: atomic.compare_add }
        }
        _ => return Err(HcaRefusal::Invalid),
    };
    let unit = world.unit(at);
    let is_atomic = matches!(work, Work::CompareSwap { .. } | Work::FetchAdd { .. });
    if is_atomic && unit.kind.atomics == IBV_ATOMIC_NONE {
        return Err(HcaRefusal::Invalid);
    }
    let inline = request.send_flags & IBV_SEND_INLINE != 0;
    // SAFETY: inline data are bytes of the program, which the call may read.
    let bytes = |part: &ibv_sge| unsafe { listed(part.addr as *const u8, part.length as c_int) };
    let parts: Vec<&[u8]> = if inline { list.iter().map(bytes).collect() } else { Vec::new() };
    let own = segments(unit, if inline { &[] } else { list });
    if parts.iter().map(|part| part.len()).sum::<usize>() > unit.kind.inline as usize {
        return Err(HcaRefusal::Size);
    }
    if list.iter().any(|part| !inline && unit.bases.contains_key(&part.lkey)) {
        unit.counts.from_own_memory += 1;
    }
    let request = WorkRequest {
        id: request.wr_id,
        work,
        data: if inline { Data::Inline(&parts) } else { Data::Segments(&own) },
        signaled: request.send_flags & IBV_SEND_SIGNALED != 0,
        fence: request.send_flags & IBV_SEND_FENCE != 0,
        solicited: request.send_flags & IBV_SEND_SOLICITED != 0,
    };
    unit.counts.fenced += u64::from(request.fence);
    unit.core.post_send(number, &request)
}

pub(crate) unsafe extern "C" fn post_srq_recv(
    raw: *mut ibv_srq,
    mut request: *mut ibv_recv_wr,
    refused: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program posts to a queue that it has.
    let queue = unsafe { &*raw.cast::<Receives>() };
    let mut world = world();
    let unit = world.unit(around(queue.base.context).at);
    let mut result = 0;
    while !request.is_null() {
        // SAFETY: the chain of the program's requests ends with a null pointer.
        let now = unsafe { &*request };
        // SAFETY: the request's own list.
        let own = segments(unit, unsafe { listed(now.sg_list, now.num_sge) });
        if let Err(why) = unit.core.post_shared_receive(SharedReceiveQueueId(queue.number), now.wr_id, &own) {
            result = errno_of(why);
            // SAFETY: the program gives room for it.
            unsafe { *refused = request };
            break;
        }
        request = now.next;
    }
    world.pump();
    result
}

pub(crate) unsafe extern "C" fn poll_cq(raw: *mut ibv_cq, most: c_int, into: *mut ibv_wc) -> c_int {
    // SAFETY: the program polls a queue that it has.
    let (context, number) = unsafe { ((*raw).context, (*raw).handle) };
    let mut world = world();
    let unit = world.unit(around(context).at);
    let Some(queue) = unit.queues.get_mut(&number) else { misuse("a queue that is gone is polled") };
    let mut count = 0;
    while count < most {
        let Some(done) = queue.entries.pop_front() else { break };
        // SAFETY: the program gives room for so many.
        unsafe { into.add(count as usize).write(done) };
        count += 1;
    }
    count
}

pub(crate) unsafe extern "C" fn req_notify_cq(raw: *mut ibv_cq, _solicited_only: c_int) -> c_int {
    // SAFETY: the program arms a queue that it has.
    let (context, number) = unsafe { ((*raw).context, (*raw).handle) };
    let mut world = world();
    match world.unit(around(context).at).queues.get_mut(&number) {
        Some(queue) => queue.armed = true,
        None => misuse("a queue that is gone is armed"),
    }
    0
}

/// The table of calls for every message.
pub(crate) fn table() -> ibv_context_ops {
    let nothing: *const libc::c_void = null_mut();
    ibv_context_ops {
        before_poll_cq: [nothing; 11],
        poll_cq: Some(poll_cq),
        req_notify_cq: Some(req_notify_cq),
        before_post_srq_recv: [nothing; 7],
        post_srq_recv: Some(post_srq_recv),
        before_post_send: [nothing; 4],
        post_send: Some(post_send),
        post_recv: None,
        after_post_recv: [nothing; 5],
    }
}

/// The core's number of a queue.
pub(crate) fn queue_id(raw: *mut ibv_cq) -> CompletionQueueId {
    // SAFETY: the program names queues that it has.
    CompletionQueueId(unsafe { (*raw).handle })
}
