//! The MPI objects of one process: groups, communicators, contexts, error handlers, info, attributes, requests.
//!
//! [`Process`] is everything one MPI process is; it contains no lock and no static. The C boundary (`core/abi`)
//! decides about sharing. [`Universe`] is the safe Rust API on top.
#![forbid(unsafe_code)]

pub mod always;
pub mod attributes;
pub mod buffered;
pub mod codes;
pub mod collective;
pub mod comm;
pub mod completion;
pub mod construct;
pub mod context;
pub mod environment;
pub mod errhandler;
mod fabric;
pub mod group;
pub mod info;
pub mod kinds;
pub mod lanes;
pub mod leaks;
mod letters;
pub mod offload;
pub mod op;
pub mod partitioned;
pub mod persistent;
pub mod process;
#[cfg(test)]
mod random_programs;
pub mod request;
mod request_calls;
pub mod rounds;
pub mod session;
pub mod stall;
pub mod table;
pub mod tool_interface;
pub mod topology;
pub mod types;
pub mod universe;
mod ways;
mod wide;
pub mod window;

pub use process::Process;
pub use universe::{Communicator, Element, Reduce, Universe};
pub use wide::check_lane_letters;
