//! MPI objects: groups, communicators, error handlers, info, attributes; the safe Rust API.
#![forbid(unsafe_code)]
