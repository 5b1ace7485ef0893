//! Topology, binding and mapping decisions.
#![forbid(unsafe_code)]
