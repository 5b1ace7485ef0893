//! Messages over any RDMA device, written once above [`Hca`](weft_api::verbs::Hca).
//!
//! * Nothing is set up to a process never talked to. First contact is three datagrams ([`handshake`]); then each side has one
//!   reliable connection to the other, and one more for shares of large operations for each further device.
//! * All connections of a device share one receive queue and one completion queue, so memory grows with what is in flight and
//!   not with peers.
//! * A message is a 16-byte header and up to [`MAX_COPY`] bytes, sent from a registered slot, or inline when it is small.
//! * User memory is registered by whoever uses it; gets, puts and atomics are work requests on it, one doorbell a call.
//! * Of the requests of a connection only some are signalled; the newest of a burst are closed by an empty write after a quiet
//!   moment.
//! * What cannot leave now is refused: the handshake is under way, no slot is free, or the connection's queue is full. A
//!   receiver that does not keep up runs out of receive requests, and the device itself makes senders wait.
//! * A connection that the device gives up is made anew, on another device where there are several, and what the peer has not had
//!   is posted again: nothing is lost or doubled. A peer that nobody reaches for a while is lost: what had arrived stays
//!   readable, nothing else is accepted.
#![forbid(unsafe_code)]

mod card;
mod completions;
mod contact;
mod flight;
pub mod handshake;
mod keys;
mod letter;
mod one_sided;
mod own;
mod paths;
mod peers;
mod posting;
mod rail;
mod recovery;
mod rest;
pub mod ring;
mod rings;
mod shares;
mod slots;
mod stream;
mod transport;
mod wide;

pub use card::{PeerCard, RailCard};
pub use keys::KeyWord;
pub use letter::check_letter;
pub use rail::MOST_RAILS;
pub use stream::check_conversation;
/// Version of what processes say to each other over a device; peers compare it before they are talked to, since datagrams of
/// another version are not understood and not answered.
pub const VERSION: u32 = handshake::VERSION << 8 | letter::VERSION;

pub use transport::{Counts, Directory, Held, MAX_COPY, Rdma};
pub use wide::most_connections;
