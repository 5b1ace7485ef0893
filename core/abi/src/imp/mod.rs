//! The implementations behind the generated entry points, one function per procedure; see `crate::ctypes` for the
//! convention. Every procedure is re-exported here under its C name without `MPI_`, in lower case.

mod abi_support;

pub(crate) use abi_support::*;
