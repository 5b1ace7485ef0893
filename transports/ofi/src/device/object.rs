//! An object of the library with what all objects can do.

use crate::sys::{FI_ENOSYS, FI_GETWAIT, fi_ops, fid, fid_cq};
use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

/// An object of the library, closed on drop; `None` when it was closed before, which only who drops its owner does.
pub(crate) struct Object<T>(Option<NonNull<T>>);

impl<T> Object<T> {
    /// # Safety
    /// `raw` is null or an open object of the library that nobody else closes, and `T` begins with a [`fid`].
    pub(super) unsafe fn new(raw: *mut T) -> Option<Object<T>> {
        NonNull::new(raw).map(|raw| Object(Some(raw)))
    }

    pub(crate) fn raw(&self) -> *mut T {
        self.0.map_or(null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn fid(&self) -> *mut fid {
        self.raw().cast()
    }

    /// The base table of the object.
    fn ops(&self) -> &fi_ops {
        // SAFETY: an open object begins with its `fid`, and its table lives as long as the object.
        unsafe { &*(*self.fid()).ops }
    }

    pub(super) fn bind(&self, other: *mut fid, flags: u64) -> c_int {
        let Some(bind) = self.ops().bind else { return -FI_ENOSYS };
        // SAFETY: both are open objects.
        unsafe { bind(self.fid(), other, flags) }
    }

    pub(super) fn control(&self, command: c_int, argument: *mut c_void) -> c_int {
        let Some(control) = self.ops().control else { return -FI_ENOSYS };
        // SAFETY: an open object; the callers give each command the argument that the manual wants.
        unsafe { control(self.fid(), command, argument) }
    }
}

impl<T> Object<T> {
    /// Closes it before its time. Nothing may be done with it afterwards.
    pub(super) fn close(&mut self) {
        if self.0.is_some()
            && let Some(close) = self.ops().close
        {
            // SAFETY: it is open, and closed once. What it answers (busy, say) cannot be mended here.
            unsafe { close(self.fid()) };
        }
        self.0 = None;
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The descriptor behind a completion queue, as one of our own.
pub(super) fn wait_object(completions: &Object<fid_cq>) -> Option<OwnedFd> {
    let mut fd: c_int = -1;
    if completions.control(FI_GETWAIT, (&raw mut fd).cast()) != 0 || fd < 0 {
        return None;
    }
    // SAFETY: the queue has the descriptor open.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()
}
