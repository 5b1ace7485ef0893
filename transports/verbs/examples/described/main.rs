//! A described device in place of libibverbs: a shared library with its functions, for tests; and in place of librdmacm.
//!
//! Behind them is the emulator's core, in this process and without a network: what is posted is executed by a device that works by
//! itself. Everything of `weft-verbs` runs as it does over the system's library: the structures, the chains of requests, the queues,
//! the events. What no test machine has is a line of a table here: paging on demand, memory of the device, a limit of regions or
//! of queue pairs, a port that is down, a device without datagrams.
//!
//! ```text
//! devices.rs   what there is      objects.rs   what programs get pointers to     library.rs   the functions found by name
//! world.rs     the devices        posting.rs   requests and completions          extended.rs  those found by the context
//! pairs.rs     queue pairs         manager.rs   librdmacm's functions, for routes
//! ```
//!
//! It is stricter than a device: what is destroyed while something else uses it, or twice, and a completion queue that runs over,
//! end the process with a word about it. [`library::described_count`] tells a test what is there and what was asked for.
//!
//! Its structures are those of `weft-verbs`, which a test compares with the header.

#![allow(non_camel_case_types, missing_docs, reason = "the names are those of the header")]

mod devices;
mod extended;
pub mod library;
pub mod manager;
mod objects;
pub mod pairs;
mod posting;
#[allow(dead_code, clippy::duplicate_mod, reason = "shared with the library's user, which uses more of it")]
#[path = "../../src/sys.rs"]
mod sys;
mod world;
