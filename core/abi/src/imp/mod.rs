//! The implementations behind the generated entry points, one function per procedure; see `crate::ctypes` for the
//! convention. Every procedure is re-exported here under its C name without `MPI_`, in lower case.

mod abi_support;
mod attributes;
mod collective;
mod communicators;
mod completion;
mod environment;
mod generalized;
mod init;
mod point_to_point;
mod status;

pub(crate) use abi_support::*;
pub(crate) use attributes::*;
pub(crate) use communicators::*;
pub(crate) use completion::*;
pub(crate) use environment::*;
pub(crate) use generalized::*;
pub(crate) use init::*;
pub(crate) use point_to_point::*;
pub(crate) use status::*;
