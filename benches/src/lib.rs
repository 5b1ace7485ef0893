//! Benchmarks: OSU-style C programs, criterion suite, instruction counts.
