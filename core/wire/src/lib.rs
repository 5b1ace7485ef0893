//! Headers that cross a wire or a shared ring: a 16-byte envelope that every packet begins with, and the
//! control payloads of the protocols behind it.
//!
//! Both ends are of one build on one byte order; the version in the boot exchange guards that. Parsing never
//! panics: bytes from outside give `None` instead.
#![forbid(unsafe_code)]

pub mod header;
pub mod payload;

pub use header::{Header, Kind};
pub use payload::{Announce, Announced, Cts, RemotePlace, SmallPacket, SyncPrefix};

/// Version of everything in this crate, and of what the crates above write into messages of their own (agreements, letters); peers
/// compare it before the first packet.
pub const VERSION: u32 = 8;
