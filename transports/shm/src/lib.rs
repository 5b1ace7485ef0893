//! Node-local transport: rings, inline cells, single copy, sleeping and waking.
//!
//! All ranks of a node share one sparse, unnamed file (the *node segment*, [`segment`]). Every ordered pair of ranks
//! has a ring at a place given by arithmetic ([`layout`]); a pair that never talks costs a bit. A ring ([`ring`]) is
//! a circle of cells and a data area. A cell carries stamp, envelope and up to 40 payload bytes in its first cache
//! line, up to 104 with its second; larger payloads, up to `max_copy`, go to the data area. An 8-byte message is one
//! line written by the sender and one line polled by the receiver; neither side does a read-modify-write. Large
//! messages are read straight from the sender's memory ([`Config::single_copy`]) or streamed through the data area
//! with both cores working, as the engine decides. Idle processes sleep on a futex and are woken without a fence on
//! the sender's side ([`bell`]).
//!
//! What must hold, and where it is argued: who may touch which byte when ([`ring`], rules A and B); no lost wake-up
//! ([`bell`]); all memory is backed before it is touched, so a full `/dev/shm` is an error and not a SIGBUS
//! (`Shm::attach`, `Shm::connect`, `RawRing::grow`); the numbers in shared memory that lead to addresses are checked
//! before use (`RawRing::payload`).
//!
//! Messages to oneself are the engine's business.

pub mod arrivals;
pub mod bell;
pub mod bias;
pub mod board;
pub mod changes;
mod demote;
pub mod doorbell;
mod fetch;
pub mod handover;
pub mod layout;
pub mod lone;
mod near;
mod past;
mod peers;
pub mod pool;
mod raw;
pub mod ring;
pub mod rounds;
pub mod segment;
mod single_copy;
mod sleeping;
pub mod slots;
pub mod staging;
#[cfg(not(miri))]
mod sys;
#[cfg(miri)]
#[path = "sys/interpreted.rs"]
mod sys;
mod transport;
mod words;

pub use near::Near;
pub use past::copy_past_caches;
pub use rounds::Rounds;
pub use segment::{PeerState, Waking, create, mark_dead, mark_far_dead, tell};
pub use single_copy::Readers;
pub use sleeping::{LonelyBell, ShmBell};
pub use transport::{Config, Inquiry, Shm};
pub use words::Word;
