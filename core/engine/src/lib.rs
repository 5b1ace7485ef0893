//! Progress engine: endpoints, requests, protocols in motion, schedule executor, waiting.
#![forbid(unsafe_code)]
