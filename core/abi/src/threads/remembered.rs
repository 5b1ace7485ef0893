//! Persistent requests of messages in a lane (section 3.9), as the thread remembers them that has started them: it starts and
//! completes them with that lane's lock and no other. A thread that completes what another one started goes through the
//! process.

use std::cell::RefCell;

use weft::persistent::Kept;
use weft_types::{Handle, HandleKind, Result as Outcome, abi};

use super::lane;
use crate::ctypes::*;
use crate::gate;
use crate::snapshot::Here;

thread_local! {
    /// By the slot of the handle: as many as the process ever had at once.
    static KEPT: RefCell<Vec<Option<Box<Kept>>>> = const { RefCell::new(Vec::new()) };
}

/// Remembers a request.
pub(crate) fn keep(kept: Kept) {
    let place = kept.handle.slot() as usize;
    // A thread that is about to end remembers nothing.
    let _ = KEPT.try_with(|all| {
        let mut all = all.borrow_mut();
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        all[place] = Some(Box::new(kept));
    });
}

/// Lends a request that this thread remembers; `None` when it does not, or it was freed.
#[inline]
fn kept<R>(request: Handle, work: impl FnOnce(&Kept) -> R) -> Option<R> {
    if request.kind_bits() != HandleKind::LocalRequest as u32 || gate::phase() & gate::MULTIPLE == 0 {
        return None;
    }
    KEPT.try_with(|all| {
        let all = all.borrow();
        let kept = all.get(request.slot() as usize)?.as_deref()?;
        (kept.handle == request && !kept.is_gone()).then(|| work(kept))
    })
    .ok()
    .flatten()
}

/// `MPI_Start`; `None`: not here.
#[inline]
pub(crate) fn start(request: Handle) -> Option<Outcome<()>> {
    kept(request, |kept| lane(kept.lane).with(|inner| kept.start(&mut inner.engine)))
}

/// `MPI_Start`, by the thread to which the lane is biased; `None`: nothing was done, or it failed and is to be tried again by
/// who can tell.
#[inline]
pub(crate) fn start_at_once(here: &Here, request: Handle) -> Option<()> {
    let start = |kept: &Kept| {
        let mut own = here.lanes.get(kept.lane)?.own(here.mine)?;
        if let Some((envelope, bytes)) = kept.plain_send()
            && own.inner.engine.send_at_once(envelope, bytes)
        {
            own.end();
            kept.sent();
            return Some(());
        }
        let started = kept.start(&mut own.inner.engine);
        own.leave(true);
        started.ok()
    };
    kept(request, start).flatten()
}

/// The request under way of a persistent one that this thread remembers, the null one when it is inactive.
#[inline]
pub(crate) fn under_way(request: MPI_Request) -> Option<MPI_Request> {
    let active = kept(request.handle(), Kept::active)?;
    Some(MPI_Request::from_raw(active.map_or(abi::MPI_REQUEST_NULL, |active| active.0)))
}

/// Whether a handle is of the table of the process, where persistent requests are.
#[inline]
fn is_local(request: MPI_Request) -> bool {
    request.raw() >> 27 == HandleKind::LocalRequest as usize
}

/// Says what came of the request under way: `now` is null when it was completed.
#[inline]
pub(crate) fn tell(request: MPI_Request, now: MPI_Request) {
    if now.raw() == abi::MPI_REQUEST_NULL as usize {
        kept(request.handle(), Kept::end);
    }
}

/// Does `work` with the requests under way in the place of persistent ones; `None` when there is none, or not all are
/// remembered here.
pub(crate) fn instead<R>(
    requests: &mut [MPI_Request],
    work: impl FnOnce(&mut [MPI_Request]) -> R,
) -> Option<R> {
    if gate::phase() & gate::MULTIPLE == 0 || !requests.iter().any(|&request| is_local(request)) {
        return None;
    }
    let mut inner = Vec::with_capacity(requests.len());
    for &request in requests.iter() {
        inner.push(if is_local(request) { under_way(request)? } else { request });
    }
    let result = work(&mut inner);
    for (request, now) in requests.iter_mut().zip(inner) {
        match is_local(*request) {
            true => tell(*request, now),
            false => *request = now,
        }
    }
    Some(result)
}
