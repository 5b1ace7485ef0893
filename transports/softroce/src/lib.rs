//! The fabric emulator: a host channel adapter in user space that speaks RoCEv2.
//!
//! The core is sans-IO. A [`Device`] owns protection domains, memory regions, completion queues, queue pairs and shared
//! receive queues; it takes requests, datagrams and the time, and gives datagrams and completions. Drivers move the datagrams:
//! over UDP, or over a simulated network with virtual time. The packets are those of RoCEv2, so that dissectors read them
//! and other devices can be the peer.
//!
//! ```text
//! wire/          packets, invariant CRC                      psn.rs        numbers that wrap
//! memory.rs      regions: keys, bounds, rights               queues.rs     completion and receive queues
//! requester.rs   the sending half of a connection            request.rs    work requests as they are kept
//! emission.rs    its packets
//! responder.rs   the receiving half                          queue_pair.rs states, both halves, datagrams
//! device.rs      the doors                               arrivals.rs   what comes in, departures.rs what goes out
//! arena.rs       memory of its own, host_memory.rs all memory
//! card.rs        the device as an `Hca`                   way.rs        what it needs of a way for datagrams
//! udp.rs         datagrams over a socket              length.rs     how long they may be
//! trace.rs       a wire that writes down what passes         faults.rs     a network that is bad on purpose
//! raw.rs         packets of and for other devices      exits.rs       sockets that packets leave by
//! entrance.rs    sockets that they come in by         frames.rs      frames that they leave in
//! bell.rs        what those sleep on who wait for them    states.rs      of queue pairs, and what leads to which
//! ```
//!
//! What holds:
//! * Every request is executed once and in order, however often its packets come: the responder goes by packet numbers and
//!   remembers the answers of reads and atomics that may be asked for again.
//! * No byte outside a region that the key names, with the right, and of the queue pair's domain, is touched.
//! * Everything is bounded: packets in flight by a window that loss halves, answers by the requests of the peer's window,
//!   remembered answers by `max_incoming_reads`, tries by `retries`.
#![forbid(unsafe_code)]

mod arena;
mod arrivals;
mod bell;
mod buffers;
mod card;
mod datagram;
mod departures;
mod device;
mod emission;
mod entrance;
mod exits;
mod faults;
mod frames;
mod host_memory;
mod hosts;
mod length;
mod memory;
mod psn;
mod queue_pair;
mod queues;
mod raw;
mod request;
mod requester;
mod responder;
mod states;
mod trace;
mod udp;
mod way;
pub mod wire;

pub use arena::Arena;
pub use bell::UdpBell;
pub use buffers::SocketBuffers;
pub use card::Card;
pub use datagram::{DATAGRAM_PREFIX, MAX_DATAGRAM};
pub use device::{Counters, Device, Event, Flow};
pub use faults::Faults;
pub use host_memory::HostMemory;
pub use length::link_mtu;
pub use memory::{Fault, Memory};
pub use psn::Psn;
pub use raw::{Raw, Received, parse_ipv4};
pub use request::{MAX_INLINE, MAX_MESSAGE, MAX_SEGMENTS};
pub use trace::{Capture, Traced};
pub use udp::Udp;
pub use way::{Arrival, Clock, Unreachable, Wire};
