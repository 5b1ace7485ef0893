//! The implementations behind the generated entry points, one function per procedure; see `crate::ctypes` for the
//! convention. Every procedure is re-exported here under its C name without `MPI_`, in lower case.

mod abi_support;
mod attributes;
mod collective;
mod communicators;
mod completion;
mod datatypes;
mod environment;
mod errors;
mod generalized;
mod groups;
mod info;
mod init;
mod one_sided;
mod ops;
mod partitioned;
mod persistent;
mod point_to_point;
mod probe;
mod sessions;
mod shared_memory;
mod status;
mod window_sync;
mod windows;

pub(crate) use abi_support::*;
pub(crate) use attributes::*;
pub(crate) use collective::*;
pub(crate) use communicators::*;
pub(crate) use completion::*;
pub(crate) use datatypes::*;
pub(crate) use environment::*;
pub(crate) use errors::*;
pub(crate) use generalized::*;
pub(crate) use groups::*;
pub(crate) use info::*;
pub(crate) use init::*;
pub(crate) use one_sided::*;
pub(crate) use ops::*;
pub(crate) use partitioned::*;
pub(crate) use persistent::*;
pub(crate) use point_to_point::*;
pub(crate) use probe::*;
pub(crate) use sessions::*;
pub(crate) use status::*;
pub(crate) use window_sync::*;
pub(crate) use windows::*;
