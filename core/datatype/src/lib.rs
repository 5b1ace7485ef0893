//! Datatypes, their layouts in memory, packing and unpacking, and the predefined reductions (MPI 4.1 chapter 5,
//! sections 6.9.2, 6.9.4, 14.5.2 and 19.1.9).
//!
//! The copy kernels here are one of the four places where unsafe code lives: a [`SendBuf`] or [`RecvBuf`] is
//! made once, at the boundary, from the user's address; everything above handles it as a safe value.

#[cfg(test)]
extern crate self as weft_datatype;

mod beyond;
pub mod buffer;
mod constructors;
pub mod counts;
mod darray;
pub mod decode;
mod eights;
pub mod external;
mod fortran;
pub mod iovec;
mod kernels;
pub mod layout;
#[cfg(test)]
mod levels;
mod long;
pub mod memory;
mod object;
pub mod op;
mod overlap;
mod parts;
mod pool;
pub mod predefined;
mod processor;
pub mod serial;
mod shuffle;
pub mod signature;
mod strided;
mod transfer;
mod typemap;
mod unnamed;
mod value_index;
mod vector;
mod x87;

pub use buffer::{RecvBuf, Scratch, SendBuf};
pub use darray::Grid;
pub use decode::{Contents, Form};
pub use fortran::Booleans;
pub use layout::Layout;
pub use memory::{Elements, Memory};
pub use object::{Bounds, Datatype};
pub use op::{Kernel, PredefinedOp};
pub use pool::ScratchPool;
pub use predefined::{Class, Kind, Predefined};
pub use signature::{Basics, Signature};
pub use unnamed::{Unnamed, ValueIndex};
