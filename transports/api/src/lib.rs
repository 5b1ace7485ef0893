//! The seam between engine and fabrics: Transport, Capabilities, back-pressure.
#![forbid(unsafe_code)]
