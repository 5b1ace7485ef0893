//! Topology, binding and mapping decisions.
#![forbid(unsafe_code)]

pub mod cpus;

pub use cpus::CpuSet;
