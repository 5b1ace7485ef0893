//! From an error inside an entry point to the error handler and the returned code (section 9.3).

use std::ffi::c_int;

use weft_types::{Error, ErrorClass, abi};

/// An error on its way to a handler.
pub(crate) struct Raised {
    error: Error,
}

impl From<Error> for Raised {
    fn from(error: Error) -> Raised {
        Raised { error }
    }
}

/// The return value of the entry point `function`.
#[inline(always)]
pub(crate) fn finish(function: &'static str, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raise(function, raised),
    }
}

/// The return value of the `MPI_T_` entry point `function`: no error handler runs (section 15.3.10).
#[inline(always)]
#[allow(dead_code, reason = "called by generated code once an MPI_T procedure is implemented")]
pub(crate) fn finish_tool(_function: &'static str, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raised.error.class().code(),
    }
}

/// Runs the error handler for an error without an object, the initial one: `MPI_ERRORS_ARE_FATAL`.
#[cold]
#[inline(never)]
pub(crate) fn raise(function: &'static str, raised: Raised) -> c_int {
    eprintln!("{function}: {}", raised.error);
    std::process::abort()
}

/// Raises the error of a procedure that Weft does not have yet.
#[cold]
#[inline(never)]
pub(crate) fn unsupported(function: &'static str) -> c_int {
    raise(
        function,
        Error::new(ErrorClass::UNSUPPORTED_OPERATION, "this procedure is not implemented in Weft yet").into(),
    )
}

/// The same for `MPI_T_` procedures, which only return a code.
#[cold]
#[inline(never)]
pub(crate) fn unsupported_tool(_function: &'static str) -> c_int {
    abi::MPI_T_ERR_NOT_SUPPORTED
}
