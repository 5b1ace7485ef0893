//! Collective schedules: the step format, the algorithm registry and the builders.
#![forbid(unsafe_code)]
