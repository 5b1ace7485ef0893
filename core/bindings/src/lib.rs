//! The table of every MPI procedure and the generator of header, entry points and status pages.
//!
//! [`Model::load`] reads the tables of `table/`, compares them with each other and gives every procedure with its typed
//! arguments; [`emit::all`] makes every generated file from the model as text. The binary `weft-generate` writes or
//! compares them. See README.md for the files.
#![forbid(unsafe_code)]

pub mod constants;
pub mod emit;
mod facts;
pub mod model;
pub mod prototype;
mod sources;
mod tsv;

pub use constants::{Constant, ConstantKind, Standard};
pub use model::{Argument, Check, Direction, Form, Kind, Model, Procedure};
pub use prototype::{CType, Prototype};

use std::fmt;

/// What is wrong with a table, in words that name the file and the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError(pub String);

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TableError {}

/// Result of reading or generating.
pub type Result<T> = std::result::Result<T, TableError>;
