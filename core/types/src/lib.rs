//! The vocabulary of the house: ranks, tags, contexts, error classes, handle bits, standard constants, parameters.
//!
//! Plain values without behaviour. Every other crate stands on this one; it stands on nothing.
#![forbid(unsafe_code)]

pub mod error;
pub mod handle;
pub mod ids;
pub mod life;
pub mod params;

/// Constants of the MPI standard ABI, generated from the table in `core/bindings`.
#[path = "generated/constants.rs"]
pub mod abi;

pub use error::{Error, ErrorClass, Result, Side};
pub use handle::{Handle, HandleKind};
pub use ids::{ContextId, PeerId, Rank, Tag};
pub use life::{Age, Farewell};
