//! Which requests of a list a call that completes several takes (sections 3.7.5 and 3.7.6): of those of the process, and of
//! those of one lane.
//!
//! A null or inactive request is not active: "any" and "some" pass it over, "all" counts it as done. "Any" takes the first,
//! "some" take all, in the order of the list.

use crate::lanes::Inner;
use crate::request::{Requests, engine_handle};
use weft_engine::{Engine, RequestId};
use weft_types::{Handle, HandleKind};

impl Requests {
    #[inline]
    fn is_active_and_done(&self, engine: &Engine, request: Handle) -> bool {
        self.is_active(engine, request).unwrap_or(false) && self.is_done(engine, request)
    }

    /// The first request that is active and done.
    #[inline]
    pub fn first_done<R: Copy + Into<Handle>>(&self, engine: &Engine, requests: &[R]) -> Option<usize> {
        requests.iter().position(|&request| self.is_active_and_done(engine, request.into()))
    }

    /// The indices of all requests that are active and done; `None` when there is none.
    pub fn some_done<R: Copy + Into<Handle>>(&self, engine: &Engine, requests: &[R]) -> Option<Vec<usize>> {
        let is_done = |&index: &usize| self.is_active_and_done(engine, requests[index].into());
        let done: Vec<usize> = (0..requests.len()).filter(is_done).collect();
        (!done.is_empty()).then_some(done)
    }

    /// Whether all requests from `*from` on are done; moves `*from` past those that are, so that a long list is walked once.
    #[inline]
    pub fn all_done<R: Copy + Into<Handle>>(
        &self,
        engine: &Engine,
        requests: &[R],
        from: &mut usize,
    ) -> bool {
        while let Some(&request) = requests.get(*from) {
            if !self.is_done(engine, request.into()) {
                return false;
            }
            *from += 1;
        }
        true
    }
}

/// Of lists of requests of one lane, null ones and complete sends.
impl Inner {
    /// Whether a request is active and has ended. A stale one is not active.
    #[inline]
    pub fn has_ended(&self, request: Handle) -> bool {
        match request.kind_bits() == HandleKind::LaneRequest as u32 {
            true => self.find(request).is_some_and(|id| self.engine.is_complete(id)),
            false => is_complete_send(request),
        }
    }

    /// The first active request that has ended.
    #[inline]
    pub fn first_ended<R: Copy + Into<Handle>>(&self, requests: &[R]) -> Option<usize> {
        requests.iter().position(|&request| self.has_ended(request.into()))
    }

    /// The active requests that have ended; `None` when there is none.
    pub fn some_ended<R: Copy + Into<Handle>>(&self, requests: &[R]) -> Option<Vec<usize>> {
        let has_ended = |&index: &usize| self.has_ended(requests[index].into());
        let ended: Vec<usize> = (0..requests.len()).filter(has_ended).collect();
        (!ended.is_empty()).then_some(ended)
    }

    /// Whether all requests from `*from` on have ended; moves `*from` past those that have.
    #[inline]
    pub fn all_ended<R: Copy + Into<Handle>>(&self, requests: &[R], from: &mut usize) -> bool {
        while let Some(&request) = requests.get(*from) {
            let request: Handle = request.into();
            let under_way = request.kind_bits() == HandleKind::LaneRequest as u32
                && self.find(request).is_some_and(|id| !self.engine.is_complete(id));
            if under_way {
                return false;
            }
            *from += 1;
        }
        true
    }
}

/// Whether a request is a send that was complete when it started.
#[inline]
pub fn is_complete_send(request: Handle) -> bool {
    request == engine_handle(RequestId::COMPLETE)
}
