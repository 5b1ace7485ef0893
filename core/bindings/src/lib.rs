//! The table of every MPI procedure and the generator of header, entry points and status pages.
#![forbid(unsafe_code)]
