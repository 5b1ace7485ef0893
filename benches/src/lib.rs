//! Benchmarks: OSU-style C programs, criterion suite, instruction counts.
#![forbid(unsafe_code)]
