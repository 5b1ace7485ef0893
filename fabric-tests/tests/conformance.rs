//! What the standard asks of every implementation: one test for each program of `conformance/` and number of ranks.
include!(concat!(env!("OUT_DIR"), "/conformance.rs"));
