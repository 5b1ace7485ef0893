//! weft-info: what this library found and decided.
#![forbid(unsafe_code)]
