//! Completion queues and receive queues.

use crate::queue_pair::flushed_receive;
use crate::request::Received;
use std::collections::VecDeque;
use weft_api::verbs::{CompletedWork, Completion, NOBODY, QueuePairNumber};

/// A completion queue of bounded depth.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    entries: VecDeque<Completion>,
    depth: u32,
    /// An entry was lost, and with it everything that this queue was good for (section 10.10).
    pub(crate) overrun: bool,
}

impl CompletionQueue {
    pub(crate) fn new(depth: u32) -> CompletionQueue {
        CompletionQueue { entries: VecDeque::new(), depth, overrun: false }
    }

    pub(crate) fn push(&mut self, completion: Completion) {
        if self.entries.len() as u32 >= self.depth {
            self.overrun = true;
        } else {
            self.entries.push_back(completion);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }

    /// Takes out what belongs to a queue pair that is no more. `shared`: it took receive requests from a shared queue, which
    /// come back.
    pub(crate) fn forget(&mut self, queue_pair: QueuePairNumber, shared: bool) {
        self.entries.retain_mut(|entry| {
            if entry.queue_pair != queue_pair {
                return true;
            }
            let received = matches!(entry.work, CompletedWork::Receive | CompletedWork::ReceiveWrite);
            if received && shared {
                *entry = flushed_receive(entry.id, NOBODY);
            }
            received && shared
        });
    }
}

/// Receive requests, of one queue pair or shared by many.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    requests: VecDeque<Received>,
    depth: u32,
    /// When fewer than this are left, the owner is told once; 0: not asked for.
    pub(crate) limit: u32,
}

impl ReceiveQueue {
    pub(crate) fn new(depth: u32) -> ReceiveQueue {
        ReceiveQueue { requests: VecDeque::new(), depth, limit: 0 }
    }

    /// `false`: the queue is full.
    pub(crate) fn post(&mut self, request: Received) -> bool {
        let room = (self.requests.len() as u32) < self.depth;
        if room {
            self.requests.push_back(request);
        }
        room
    }

    /// The oldest request, and whether the limit was crossed by taking it.
    pub(crate) fn take(&mut self) -> Option<(Received, bool)> {
        let request = self.requests.pop_front()?;
        let crossed = (self.requests.len() as u32) < self.limit;
        if crossed {
            self.limit = 0;
        }
        Some((request, crossed))
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }
}
