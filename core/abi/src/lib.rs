//! libmpi_abi: the C entry points on the MPI standard ABI.
//!
//! `generated/` holds one `PMPI_` function per procedure and its weak `MPI_` alias, made by `core/bindings` from the
//! procedure table. `ctypes` defines the C types and the convention; `gate`, `args` and `raise` are what every entry
//! goes through before and after the implementation in `imp`. The crate builds a static library, which
//! `scripts/link-abi` links into `libmpi_abi.so.1` and `libmpi_abi.a`.

mod args;
mod caller;
mod ctypes;
mod departure;
mod gate;
mod generated;
mod imp;
mod leftovers;
mod raise;
#[cfg(test)]
mod random_requests;
mod remembered;
mod say;
mod snapshot;
mod threads;
mod watch;
