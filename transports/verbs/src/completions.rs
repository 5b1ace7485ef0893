//! What completed, as the library says it and as it is told on.

use crate::sys::{
    IBV_WC_COMP_SWAP, IBV_WC_FATAL_ERR, IBV_WC_FETCH_ADD, IBV_WC_GENERAL_ERR, IBV_WC_LOC_ACCESS_ERR,
    IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE,
    IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_RD_REQ_ERR, IBV_WC_REM_INV_REQ_ERR,
    IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SUCCESS, IBV_WC_WITH_IMM,
    IBV_WC_WR_FLUSH_ERR, ibv_cq, ibv_wc,
};
use libc::c_int;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use weft_api::verbs::{CompletedWork, Completion, CompletionStatus, NOBODY, QueuePairNumber};

/// Marks, in the number of a request, one that was signaled for the queue's sake only.
pub(crate) const SILENT: u64 = 1 << 63;
/// Marks, in the number of a request, a receive: failed completions do not say what they were.
pub(crate) const RECEIVE: u64 = 1 << 62;

/// Completions taken from the device at a time.
const BATCH: usize = 16;

/// A completion queue, with what was taken from it and not yet told on.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) raw: *mut ibv_cq,
    taken: [MaybeUninit<ibv_wc>; BATCH],
    next: usize,
    count: usize,
    /// What was taken when a queue pair was destroyed; older than the others.
    kept: VecDeque<ibv_wc>,
}

impl Queue {
    pub(crate) fn new(raw: *mut ibv_cq) -> Queue {
        Queue { raw, taken: [MaybeUninit::uninit(); BATCH], next: 0, count: 0, kept: VecDeque::new() }
    }

    /// The oldest completion.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<ibv_wc> {
        if !self.kept.is_empty() {
            return self.kept.pop_front();
        }
        self.pop_taken()
    }

    #[inline]
    fn pop_taken(&mut self) -> Option<ibv_wc> {
        if self.next == self.count && !self.refill() {
            return None;
        }
        // SAFETY: the device wrote the first `count` entries.
        let done = unsafe { self.taken[self.next].assume_init() };
        self.next += 1;
        Some(done)
    }

    /// Takes over everything that the device has told.
    pub(crate) fn take_all(&mut self) {
        while let Some(done) = self.pop_taken() {
            self.kept.push_back(done);
        }
    }

    /// A queue pair is about to be destroyed, and its number may come again: what the device has told of it is taken out, but
    /// receive requests come back, as nobody's.
    pub(crate) fn let_go(&mut self, number: u32) {
        self.take_all();
        self.kept.retain_mut(|done| disown(done, number));
    }

    fn refill(&mut self) -> bool {
        // SAFETY: the queue lives as long as the context, which outlives us; the driver filled the table; it writes at most as
        // many entries as it is told there are.
        let count = unsafe {
            (*(*self.raw).context)
                .ops
                .poll_cq
                .map_or(0, |poll| poll(self.raw, BATCH as c_int, self.taken.as_mut_ptr().cast()))
        };
        // Negative: the queue is broken; its queue pairs are so too, and their peers find out.
        (self.next, self.count) = (0, usize::try_from(count).unwrap_or(0));
        self.count > 0
    }
}

/// Whether an entry is still somebody's business when a queue pair is gone.
fn disown(done: &mut ibv_wc, gone: u32) -> bool {
    if done.qp_num != gone {
        return true;
    }
    (done.qp_num, done.status) = (NOBODY.0, IBV_WC_WR_FLUSH_ERR);
    done.wr_id & RECEIVE != 0
}

fn status(code: c_int) -> CompletionStatus {
    match code {
        IBV_WC_SUCCESS => CompletionStatus::Success,
        IBV_WC_LOC_LEN_ERR => CompletionStatus::LocalLength,
        IBV_WC_LOC_QP_OP_ERR | IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => {
            CompletionStatus::LocalProtection
        }
        IBV_WC_WR_FLUSH_ERR | IBV_WC_FATAL_ERR | IBV_WC_GENERAL_ERR => CompletionStatus::Flushed,
        IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_INV_RD_REQ_ERR => CompletionStatus::RemoteInvalidRequest,
        IBV_WC_REM_ACCESS_ERR => CompletionStatus::RemoteAccess,
        IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR => CompletionStatus::RetriesExceeded,
        IBV_WC_RNR_RETRY_EXC_ERR => CompletionStatus::NotReadyRetriesExceeded,
        // Answers that make no sense, aborted operations, and what connections do not have.
        _ => CompletionStatus::RemoteOperation,
    }
}

/// A completion as it is told on.
#[inline]
pub(crate) fn translate(done: &ibv_wc) -> Completion {
    let success = done.status == IBV_WC_SUCCESS;
    let work = match (done.wr_id & RECEIVE != 0, done.opcode) {
        (true, IBV_WC_RECV_RDMA_WITH_IMM) if success => CompletedWork::ReceiveWrite,
        (true, _) => CompletedWork::Receive,
        (false, IBV_WC_RDMA_WRITE) if success => CompletedWork::Write,
        (false, IBV_WC_RDMA_READ) if success => CompletedWork::Read,
        (false, IBV_WC_COMP_SWAP) if success => CompletedWork::CompareSwap,
        (false, IBV_WC_FETCH_ADD) if success => CompletedWork::FetchAdd,
        (false, _) => CompletedWork::Send,
    };
    Completion {
        id: done.wr_id & !(SILENT | RECEIVE),
        status: status(done.status),
        work,
        bytes: if success { done.byte_len } else { 0 },
        queue_pair: QueuePairNumber(done.qp_num),
        immediate: (success && done.wc_flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(done.imm_data)),
        solicited: false,
        from: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IBV_WC_SEND: c_int = 0;
    const IBV_WC_RECV: c_int = 128;

    const DONE: ibv_wc = ibv_wc {
        wr_id: 7,
        status: IBV_WC_SUCCESS,
        opcode: IBV_WC_SEND,
        vendor_err: 0,
        byte_len: 100,
        imm_data: 0,
        qp_num: 17,
        src_qp: 0,
        wc_flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    };

    #[test]
    fn a_failed_receive_is_one_although_the_device_does_not_say_so() {
        let lost = ibv_wc { wr_id: 7 | RECEIVE, status: IBV_WC_WR_FLUSH_ERR, opcode: 99, ..DONE };
        let told = translate(&lost);
        assert_eq!((told.id, told.work, told.status), (7, CompletedWork::Receive, CompletionStatus::Flushed));
        let sent = ibv_wc { status: IBV_WC_RETRY_EXC_ERR, opcode: IBV_WC_RECV, ..DONE };
        assert_eq!(translate(&sent).work, CompletedWork::Send);
    }

    #[test]
    fn of_a_queue_pair_that_is_gone_only_receive_requests_come_back() {
        let (sent, received) = (ibv_wc { wr_id: 7, ..DONE }, ibv_wc { wr_id: 8 | RECEIVE, ..DONE });
        for mut of_another in [sent, received] {
            assert!(disown(&mut of_another, 18) && of_another.qp_num == 17);
        }
        assert!(!disown(&mut sent.clone(), 17));
        let mut back = received;
        assert!(disown(&mut back, 17));
        let told = translate(&back);
        assert_eq!(
            (told.id, told.work, told.status, told.queue_pair),
            (8, CompletedWork::Receive, CompletionStatus::Flushed, NOBODY)
        );
    }

    #[test]
    fn immediate_data_is_told_where_there_is_some() {
        let plain = ibv_wc { wr_id: 7 | RECEIVE, opcode: IBV_WC_RECV, imm_data: 0x0403_0201, ..DONE };
        assert_eq!(translate(&plain).immediate, None);
        let with = ibv_wc { wc_flags: IBV_WC_WITH_IMM, imm_data: 0x0102_0304_u32.to_be(), ..plain };
        assert_eq!(translate(&with).immediate, Some(0x0102_0304));
    }
}
