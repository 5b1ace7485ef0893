//! Conformance, fault and real-program tests that run installed Weft as a user would.
