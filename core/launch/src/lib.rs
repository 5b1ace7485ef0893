//! mpiexec: parse, map, bind, start, forward, stop.
#![forbid(unsafe_code)]
