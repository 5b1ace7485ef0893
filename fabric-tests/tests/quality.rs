//! What Weft asks of itself beyond the standard: one test for each program of `quality/` and number of ranks.
include!(concat!(env!("OUT_DIR"), "/quality.rs"));
