//! Datatypes, their layouts in memory, packing and unpacking, and the predefined reductions (MPI 4.1 chapter 5,
//! sections 6.9.2 and 6.9.4).
//!
//! The copy kernels here are one of the four places where unsafe code lives: a [`SendBuf`] or [`RecvBuf`] is
//! made once, at the boundary, from the user's address; everything above handles it as a safe value.

pub mod buffer;
pub mod layout;

pub use buffer::{RecvBuf, Scratch, SendBuf};
pub use layout::Layout;
