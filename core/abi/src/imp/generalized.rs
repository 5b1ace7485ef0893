//! Generalized requests (section 13.2): the program's functions are called here, outside the gate.

use std::ffi::{c_int, c_void};

use weft::request::{Generalized, Local, MpiStatus};
use weft_types::{Error, ErrorClass, abi};

use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// `MPI_Grequest_start` (section 13.2).
pub(crate) unsafe fn grequest_start(
    query_fn: Callback<MPI_Grequest_query_function>,
    free_fn: Callback<MPI_Grequest_free_function>,
    cancel_fn: Callback<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    let generalized = Generalized {
        query: query_fn.raw(),
        free: free_fn.raw(),
        cancel: cancel_fn.raw(),
        extra_state: extra_state.expose_provenance(),
        complete: false,
        released: false,
    };
    let handle = gate::with(|process| process.requests.insert(Local::Generalized(generalized)))?;
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Grequest_complete` (section 13.2).
pub(crate) unsafe fn grequest_complete(request: MPI_Request) -> Result<(), Raised> {
    match gate::with(|process| process.complete_generalized(request.handle()))? {
        // SAFETY: the functions are those of MPI_Grequest_start.
        Some(generalized) => unsafe { call_free(&generalized) },
        None => Ok(()),
    }
}

fn outcome(function: &str, code: c_int) -> Result<(), Raised> {
    if code == abi::MPI_SUCCESS {
        return Ok(());
    }
    let class = gate::always(|always| always.codes.class(code)).unwrap_or(abi::MPI_ERR_UNKNOWN);
    let text = format!("the {function} function of a generalized request returned the error code {code}");
    Err(Raised::from(Error::new(ErrorClass(class), text)).returning(code))
}

fn state(generalized: &Generalized) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(generalized.extra_state)
}

/// Asks for the status.
///
/// # Safety
/// The functions come from `MPI_Grequest_start`.
pub(super) unsafe fn call_query(generalized: &Generalized, status: *mut MPI_Status) -> Result<(), Raised> {
    let mut own = MPI_Status::default();
    // SAFETY: our own status.
    unsafe { super::status::write(&raw mut own, &MpiStatus::EMPTY) };
    let mut queried = Ok(());
    if generalized.query != 0 {
        // SAFETY: the program passed this function as `query_fn`.
        let function =
            unsafe { std::mem::transmute::<usize, MPI_Grequest_query_function>(generalized.query) };
        // SAFETY: a program's function, called as section 13.2 says, with a valid status.
        queried = outcome("query", unsafe { function(state(generalized), &raw mut own) });
    }
    // What the function has set is the call's also where it returns an error code.
    if !status.is_null() {
        // SAFETY: the program's status; the error field is not the function's (section 13.2).
        unsafe { status.write(MPI_Status { error: (*status).error, ..own }) };
    }
    queried
}

/// Tells the program that the request is gone.
///
/// # Safety
/// As [`call_query`].
pub(super) unsafe fn call_free(generalized: &Generalized) -> Result<(), Raised> {
    if generalized.free == 0 {
        return Ok(());
    }
    // SAFETY: the program passed this function as `free_fn`.
    let function = unsafe { std::mem::transmute::<usize, MPI_Grequest_free_function>(generalized.free) };
    // SAFETY: a program's function, called as section 13.2 says.
    outcome("free", unsafe { function(state(generalized)) })
}

/// Passes a cancellation on.
///
/// # Safety
/// As [`call_query`].
pub(super) unsafe fn call_cancel(generalized: &Generalized) -> Result<(), Raised> {
    if generalized.cancel == 0 {
        return Ok(());
    }
    // SAFETY: the program passed this function as `cancel_fn`.
    let function = unsafe { std::mem::transmute::<usize, MPI_Grequest_cancel_function>(generalized.cancel) };
    // SAFETY: a program's function, called as section 13.2 says.
    outcome("cancel", unsafe { function(state(generalized), c_int::from(generalized.complete)) })
}
