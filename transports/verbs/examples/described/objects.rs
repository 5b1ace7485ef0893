//! What programs get pointers to: the header's structures, with what the functions need of each behind them.

use crate::sys::{
    ibv_context, ibv_cq, ibv_device, ibv_dm, ibv_mr, ibv_pd, ibv_qp, ibv_srq, verbs_context_end,
};
use std::mem::offset_of;
use std::net::SocketAddr;

#[repr(C)]
pub(crate) struct Listed {
    pub(crate) base: ibv_device,
    pub(crate) at: usize,
}

#[repr(C)]
pub(crate) struct Context {
    pub(crate) around: verbs_context_end,
    pub(crate) at: usize,
    /// Among all that were ever opened.
    pub(crate) number: u32,
}

#[repr(C)]
pub(crate) struct Domain {
    pub(crate) base: ibv_pd,
}

#[repr(C)]
pub(crate) struct Queue {
    pub(crate) base: ibv_cq,
}

#[repr(C)]
pub(crate) struct Receives {
    pub(crate) base: ibv_srq,
    pub(crate) number: u32,
}

#[repr(C)]
pub(crate) struct Pair {
    pub(crate) base: ibv_qp,
    /// The other end's device.
    pub(crate) remote: Option<SocketAddr>,
}

#[repr(C)]
pub(crate) struct Region {
    pub(crate) base: ibv_mr,
}

#[repr(C)]
pub(crate) struct Inner {
    pub(crate) base: ibv_dm,
    pub(crate) bytes: Box<[u8]>,
}

pub(crate) struct Way {
    pub(crate) context: *mut ibv_context,
    pub(crate) to: SocketAddr,
}

/// The object that a context is inside of.
pub(crate) fn outer(context: *mut ibv_context) -> *mut Context {
    let inside = offset_of!(Context, around) + offset_of!(verbs_context_end, context);
    // SAFETY: all contexts that programs have were made by `ibv_open_device`, inside such an object.
    unsafe { context.byte_sub(inside).cast() }
}

/// As [`outer`], to look at.
pub(crate) fn around<'a>(context: *mut ibv_context) -> &'a Context {
    // SAFETY: contexts are used before `ibv_close_device` only, as the library demands, and nobody writes to the object.
    unsafe { &*outer(context) }
}

/// A new object for the program.
pub(crate) fn hand_out<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// An object that the program gives back.
///
/// # Safety
/// It came from [`hand_out`] as this type, and was not taken back.
pub(crate) unsafe fn take_back<T>(object: *mut T) -> T {
    // SAFETY: the caller's promise.
    *unsafe { Box::from_raw(object) }
}
