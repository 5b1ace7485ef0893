//! Messages over any RDMA device, written once above [`Hca`](weft_api::verbs::Hca).
//!
//! * Nothing is set up to a process never talked to. First contact is two datagrams ([`handshake`]); then each side has one
//!   reliable connection to the other.
//! * All connections share one receive queue and one completion queue, so memory grows with what is in flight and not with peers.
//! * A message is a 16-byte header and up to [`MAX_COPY`] bytes, sent from a registered slot, or inline when it is small.
//! * What cannot leave now is refused: the handshake is under way, no slot is free, or the connection's queue is full. A receiver that
//!   does not keep up runs out of receive requests, and the device itself makes senders wait.
//! * A connection that the device gives up is a lost peer: what had arrived stays readable, nothing else is accepted.
#![forbid(unsafe_code)]

pub mod handshake;
mod slots;
mod transport;

pub use handshake::PeerCard;
pub use transport::{Directory, MAX_COPY, Rdma};
