//! Programs as people write them, and packages of other people.
include!(concat!(env!("OUT_DIR"), "/real.rs"));
