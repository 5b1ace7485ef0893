//! Topology, binding and mapping decisions.
//!
//! Pure: the machine is read through [`system::System`], a view of the kernel's files, so that every machine whose files were
//! kept can be planned for in a test.
#![forbid(unsafe_code)]

pub mod agents;
pub mod agreed;
pub mod cpus;
pub mod described;
pub mod devices;
pub mod hardware;
mod kinds;
pub mod lanes;
pub mod libraries;
pub mod limits;
pub mod mapping;
pub mod pairs;
pub mod policy;
pub mod system;
pub mod topology;
pub mod transport;

pub use cpus::CpuSet;
pub use hardware::{Hardware, Resource};
pub use lanes::LaneCore;
pub use policy::{BindTo, MapBy, Placement};
pub use system::System;
pub use topology::Topology;
