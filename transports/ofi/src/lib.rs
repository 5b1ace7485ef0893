//! Messages over libfabric, which is opened at run time: Omni-Path (opx, psm2), Slingshot (cxi), EFA, verbs, TCP, shared memory.
//!
//! * The provider is chosen by what it can do and not by its name ([`select`]), and says why.
//! * A message is a prefix ([`packet`]), a 16-byte header and the payload, sent from a slot of memory that is registered where
//!   the provider wants that, or copied at once where it is small and the provider can.
//! * Nothing is set up to a process never talked to. Room for what has arrived and is not taken is bounded for each peer by a
//!   window ([`flow`]), so a receiver that does not keep up makes senders wait and not its memory grow. Packets carry numbers:
//!   a provider that does not keep the order will do.
//! * A peer to which a message fails is lost: what had arrived stays readable. A silent one is asked now and then.
//! * Idle processes sleep on the completion queue where the provider has a descriptor for it; else they nap.

pub mod abilities;
pub mod card;
pub mod clock;
pub mod flow;
pub mod offer;
pub mod packet;
pub mod select;
pub mod sys;

mod bell;
mod contact;
mod device;
mod environment;
mod groups;
mod knock;
mod library;
mod losses;
mod omni_path;
mod one_sided;
mod operations;
mod signals;
mod slots;
mod strangers;
mod survey;
mod transport;
mod universe;

pub use bell::OfiBell;
pub use card::{OfiCard, OfiDirectory};
pub use library::use_library;
pub use survey::offers;
pub use transport::Ofi;
