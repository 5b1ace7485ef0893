//! What Weft finds on this machine and in this environment, as lines for people.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod explain;
pub mod measure;
pub mod params;
pub mod plot;
pub mod report;
pub mod scale;
mod single_copy;
pub mod transports;
pub mod tuning;
