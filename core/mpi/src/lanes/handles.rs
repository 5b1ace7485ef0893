//! Handles of requests and messages that carry their lane.
//!
//! ```text
//!  30..27   26..22   21..20       19..0
//!  kind     lane     generation   slot
//! ```
//!
//! The slot has as many bits as an engine has slots, so a lane's engine, which refuses what it has no slot for
//! (`MPI_ERR_NO_MEM`), never has a request that its handle does not name: a correct program finds the same limit in every lane.
//! What is left for the generation serves programs that keep handles for too long: such a handle is found out until its slot was
//! used four times more.

use super::LANES;
use weft_engine::{MessageId, RequestId};
use weft_types::{Handle, HandleKind};

pub(super) const GENERATION_BITS: u32 = 2;
pub(super) const SLOT_BITS: u32 = 20;
/// Bits of a handle below its kind and lane.
pub const LANE_BITS: u32 = SLOT_BITS + GENERATION_BITS;

const _: () =
    assert!(LANES.is_power_of_two() && LANES <= 1 << (27 - LANE_BITS) && 1 << SLOT_BITS == RequestId::SLOTS);
const _: () = assert!(RequestId::SLOTS == Handle::SLOTS);

/// The handle of a request or message that carries its lane: `kind` is that of lanes other than 0.
#[inline(always)]
pub(super) fn compose(kind: HandleKind, id: u32, lane: u32) -> Handle {
    let short = id & ((1 << LANE_BITS) - 1);
    Handle((kind as u32) << 27 | lane << LANE_BITS | short)
}

/// The handle of a request, whatever its lane.
#[inline]
pub fn request_handle(id: RequestId) -> Handle {
    match id.lane() {
        0 => crate::request::engine_handle(id),
        lane => compose(HandleKind::LaneRequest, id.0, lane),
    }
}

/// The handle of a matched message, whatever its lane.
pub fn message_handle(id: MessageId) -> Handle {
    match id.lane() {
        0 => Handle((HandleKind::Message as u32) << 27 | id.0),
        lane => compose(HandleKind::LaneMessage, id.0, lane),
    }
}

/// The lane of a handle of kind [`HandleKind::LaneRequest`] or [`HandleKind::LaneMessage`].
#[inline]
pub const fn lane_of(handle: Handle) -> u32 {
    handle.0 >> LANE_BITS & (LANES - 1)
}
