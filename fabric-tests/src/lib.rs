//! Tests that judge an installed MPI as its user would: compile a C program with `mpicc`, start it under `mpiexec`,
//! read what it printed.
//!
//! * `conformance/chNN/*.c`: what the standard asks of every implementation, by chapter. A correct peer passes them.
//! * `quality/*.c`: what Weft asks of itself beyond the standard (texts of errors, exit codes, classes of errors
//!   that the standard leaves open).
//! * `real/`: programs and packages of other people, and a stencil solver.
//!
//! The head comment of every C program says what it covers and how it is run; see [`head`]. The build script turns
//! each (program, number of ranks) into one `#[test]`, so a new file is a new test and no list can forget it.
#![forbid(unsafe_code)]

pub mod harness;
pub mod head;
