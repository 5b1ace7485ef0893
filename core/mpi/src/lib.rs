//! The MPI objects of one process: groups, communicators, contexts, error handlers, info, attributes, requests.
//!
//! `process::Process` is everything one MPI process is; it contains no lock and no static. The C boundary (`core/abi`)
//! decides about sharing. `universe::Universe` is the safe Rust API on top.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod codes;
pub mod context;
pub mod group;
pub mod info;
pub mod table;
