//! Work requests as the library wants them.

use crate::sys::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SOLICITED, IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, ibv_ah, ibv_recv_wr, ibv_send_wr, ibv_sge, wr, wr_atomic, wr_rdma,
    wr_ud,
};
use libc::{c_int, c_uint};
use std::ptr::null_mut;
use weft_api::verbs::{Data, HcaLimits, HcaRefusal, Work, WorkRequest};

pub(crate) const EMPTY_SGE: ibv_sge = ibv_sge { addr: 0, length: 0, lkey: 0 };

pub(crate) const EMPTY_REQUEST: ibv_send_wr = ibv_send_wr {
    wr_id: 0,
    next: null_mut(),
    sg_list: null_mut(),
    num_sge: 0,
    opcode: 0,
    send_flags: 0,
    imm_data: 0,
    wr: wr { rdma: wr_rdma { remote_addr: 0, rkey: 0 } },
    qp_type: 0,
    others: [0; 6],
};

pub(crate) const EMPTY_RECEIVE: ibv_recv_wr =
    ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 0 };

pub(crate) fn segments_of(data: &Data<'_>) -> usize {
    match data {
        Data::Segments(segments) => segments.len(),
        Data::Inline(parts) => parts.len(),
    }
}

/// Writes a request as the library wants it, but for number and signal.
#[inline]
pub(crate) fn fill(
    place: &mut ibv_send_wr,
    request: &WorkRequest<'_>,
    parts: &mut [ibv_sge],
    limits: &HcaLimits,
    target: Option<*mut ibv_ah>,
) -> Result<(), HcaRefusal> {
    let mut flags: c_uint = 0;
    let mut bytes = 0_u64;
    match request.data {
        Data::Segments(segments) => {
            for (part, segment) in parts.iter_mut().zip(segments) {
                *part = ibv_sge { addr: segment.address, length: segment.length, lkey: segment.key.0 };
                bytes += u64::from(segment.length);
            }
        }
        Data::Inline(own) => {
            for (part, own) in parts.iter_mut().zip(own) {
                bytes += own.len() as u64;
                *part = ibv_sge { addr: own.as_ptr() as u64, length: own.len() as u32, lkey: 0 };
            }
            if bytes > u64::from(limits.max_inline) {
                return Err(HcaRefusal::Size);
            }
            flags |= IBV_SEND_INLINE;
        }
    }
    if bytes > u64::from(limits.max_message) {
        return Err(HcaRefusal::Size);
    }
    let inline = flags & IBV_SEND_INLINE != 0;
    let with = |immediate: Option<u32>, without: c_int, with: c_int| match immediate {
        None => (without, 0),
        Some(immediate) => (with, immediate.to_be()),
    };
    (place.opcode, place.imm_data) = match request.work {
        Work::Send { immediate } => with(immediate, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM),
        Work::Write { to, immediate } => {
            place.wr.rdma = wr_rdma { remote_addr: to.address, rkey: to.key.0 };
            with(immediate, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM)
        }
        Work::Read { from } => {
            place.wr.rdma = wr_rdma { remote_addr: from.address, rkey: from.key.0 };
            (IBV_WR_RDMA_READ, 0)
        }
        Work::CompareSwap { at, compare, swap } => {
            place.wr.atomic =
                wr_atomic { remote_addr: at.address, compare_add: compare, swap, rkey: at.key.0 };
            (IBV_WR_ATOMIC_CMP_AND_SWP, 0)
        }
        Work::FetchAdd { at, add } => {
            place.wr.atomic =
                wr_atomic { remote_addr: at.address, compare_add: add, swap: 0, rkey: at.key.0 };
            (IBV_WR_ATOMIC_FETCH_AND_ADD, 0)
        }
        Work::Datagram { queue_pair, qkey, immediate, .. } => {
            let ah = target.unwrap_or(null_mut());
            place.wr.ud = wr_ud { ah, remote_qpn: queue_pair.0, remote_qkey: qkey };
            with(immediate, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM)
        }
    };
    let atomic = matches!(request.work, Work::CompareSwap { .. } | Work::FetchAdd { .. });
    if inline && (atomic || matches!(request.work, Work::Read { .. })) {
        return Err(HcaRefusal::Invalid);
    }
    if atomic && bytes != 8 || matches!(request.work, Work::Datagram { .. }) && bytes > u64::from(limits.mtu)
    {
        return Err(HcaRefusal::Size);
    }
    if request.fence {
        flags |= IBV_SEND_FENCE;
    }
    if request.solicited {
        flags |= IBV_SEND_SOLICITED;
    }
    place.send_flags = flags;
    place.sg_list = parts.as_mut_ptr();
    place.num_sge = parts.len() as c_int;
    Ok(())
}
