//! The statuses and errors of a call that completes several requests (section 3.7.5).

use std::ffi::c_int;

use weft::request::Done;
use weft_types::abi;

use super::{element, report};
use crate::ctypes::*;
use crate::raise::Raised;

/// A call that completes several requests, one after the other, into the statuses of an array, or only looks at them. With an error the call returns
/// `MPI_ERR_IN_STATUS` and every status says how its request ended.
pub(in crate::imp) struct Several {
    pub(super) statuses: *mut MPI_Status,
    /// Requests whose statuses are written.
    pub(in crate::imp) number: usize,
    pub(super) first_error: Option<Raised>,
}

impl Several {
    pub(in crate::imp) fn new(statuses: *mut MPI_Status) -> Several {
        Several { statuses, number: 0, first_error: None }
    }

    /// Completes a request that is known to be done.
    ///
    /// # Safety
    /// The program's statuses, long enough for this one.
    pub(super) unsafe fn complete(&mut self, done: Done, request: &mut MPI_Request) {
        // SAFETY: the caller's promise.
        unsafe {
            let result = report(done, request, element(self.statuses, self.number));
            self.ended(result);
        }
    }

    /// The next request ended so, and its status is written.
    ///
    /// # Safety
    /// As [`Several::complete`].
    pub(in crate::imp) unsafe fn ended(&mut self, result: Result<(), Raised>) {
        match result {
            // SAFETY: the caller's promise.
            Ok(()) => unsafe { self.went_well() },
            Err(raised) => {
                if self.first_error.is_none() {
                    for earlier in 0..self.number {
                        // SAFETY: as above.
                        unsafe { set_error(element(self.statuses, earlier), abi::MPI_SUCCESS) };
                    }
                }
                // SAFETY: as above.
                unsafe { set_error(element(self.statuses, self.number), raised.code()) };
                self.first_error.get_or_insert(raised);
                self.number += 1;
            }
        }
    }

    /// The next request was completed without error, and its status is written.
    ///
    /// # Safety
    /// As [`Several::complete`].
    #[inline(always)]
    pub(super) unsafe fn went_well(&mut self) {
        if self.first_error.is_some() {
            // SAFETY: the caller's promise.
            unsafe { set_error(element(self.statuses, self.number), abi::MPI_SUCCESS) };
        }
        self.number += 1;
    }

    pub(in crate::imp) fn result(self) -> Result<(), Raised> {
        match self.first_error {
            None => Ok(()),
            Some(raised) => Err(raised.returning(abi::MPI_ERR_IN_STATUS)),
        }
    }
}

unsafe fn set_error(status: *mut MPI_Status, code: c_int) {
    if !status.is_null() {
        // SAFETY: the program's status.
        unsafe { (*status).error = code };
    }
}
