//! The library and the header as a C programmer meets them: everything here goes through a C compiler and a linker.

mod harness;
mod header;
mod interception;
mod programs;
mod symbols;
