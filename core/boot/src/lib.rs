//! Who am I and who are the others: singleton, the Weft launcher, PMI-1, PMI-2.
#![forbid(unsafe_code)]
