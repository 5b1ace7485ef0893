//! Virtual fabric with a virtual clock and injected faults, for worlds of ranks in one process.
#![forbid(unsafe_code)]
