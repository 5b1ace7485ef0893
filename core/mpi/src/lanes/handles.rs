//! Handles of requests and messages that carry their lane.

use super::LANES;
use weft_engine::{MessageId, RequestId};
use weft_types::{Handle, HandleKind};

pub(super) const GENERATION_BITS: u32 = 4;
pub(super) const SLOT_BITS: u32 = 20;
/// Bits of a handle below its kind and lane.
pub const LANE_BITS: u32 = SLOT_BITS + GENERATION_BITS;

/// The handle of a request or message that carries its lane: `kind` is that of lanes other than 0.
#[inline(always)]
pub(super) fn compose(kind: HandleKind, id: u32, lane: u32) -> Handle {
    let short = id & ((1 << (SLOT_BITS + GENERATION_BITS)) - 1);
    Handle((kind as u32) << 27 | lane << (SLOT_BITS + GENERATION_BITS) | short)
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
    handle.0 >> (SLOT_BITS + GENERATION_BITS) & (LANES - 1)
}
