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

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::{Error, ErrorClass};

    /// What a status holds before a call.
    const UNTOUCHED: c_int = -7;

    /// Of any mixture of ends: without an error no `MPI_ERROR` is written, with one all are (sections 3.2.5 and 3.7.5).
    #[test]
    fn with_an_error_every_status_says_how_its_request_ended() {
        for failed in 0_u32..1 << 6 {
            let blank = || MPI_Status { source: 0, tag: 0, error: UNTOUCHED, internal: [0; 5] };
            let mut statuses: Vec<MPI_Status> = std::iter::repeat_with(blank).take(6).collect();
            for pointer in [statuses.as_mut_ptr(), std::ptr::null_mut()] {
                let mut several = Several::new(pointer);
                for index in 0..6 {
                    let result = match failed >> index & 1 {
                        0 => Ok(()),
                        _ => Err(Raised::from(Error::new(ErrorClass::TRUNCATE, "too long"))),
                    };
                    // SAFETY: as many statuses as requests, or none.
                    unsafe { several.ended(result) };
                }
                let code = several.result().map_err(|raised| raised.code()).err();
                assert_eq!(code, (failed != 0).then_some(abi::MPI_ERR_IN_STATUS), "ends {failed:06b}");
            }
            for (index, status) in statuses.iter().enumerate() {
                let expected = match (failed, failed >> index & 1) {
                    (0, _) => UNTOUCHED,
                    (_, 0) => abi::MPI_SUCCESS,
                    _ => abi::MPI_ERR_TRUNCATE,
                };
                assert_eq!(status.error, expected, "status {index} with ends {failed:06b}");
            }
        }
    }
}
