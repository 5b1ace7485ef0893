//! Pure protocol core: matching, eager and rendezvous state, credits.
#![forbid(unsafe_code)]
