//! Where a collective call finds the objects that its arguments name: in the process, or, for a nonblocking one on a
//! communicator in a lane of its own, in what the calling thread remembers.

use std::ops::Deref;

use weft::Process;
use weft::comm::Comm;
use weft::op::predefined_reduction;
use weft_datatype::Datatype;
use weft_engine::Reduction;
use weft_types::{Handle, Result as Outcome};

use crate::gate;
use crate::snapshot::{self, Known};

/// The objects of a call.
pub(super) trait Objects {
    /// The communicator of the call.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    fn comm(&self, handle: Handle) -> Outcome<&Comm>;

    /// A datatype that can be used in communication.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    fn datatype(&self, handle: Handle) -> Outcome<Lent<'_>>;

    /// What combines elements of a datatype, which `handle` names; and whether it commutes.
    ///
    /// # Errors
    /// As [`weft::op::Ops::reduction`].
    fn reduction(&self, op: Handle, datatype: &Datatype, handle: Handle) -> Outcome<(Reduction, bool)>;
}

/// A datatype for as long as a call looks at it.
pub(super) enum Lent<'a> {
    /// Of a table.
    There(&'a Datatype),
    /// A copy: a plain pointer to a predefined one, otherwise a counted one.
    Copy(Datatype),
}

impl Deref for Lent<'_> {
    type Target = Datatype;

    #[inline]
    fn deref(&self) -> &Datatype {
        match self {
            Lent::There(datatype) => datatype,
            Lent::Copy(datatype) => datatype,
        }
    }
}

impl Objects for Process {
    #[inline]
    fn comm(&self, handle: Handle) -> Outcome<&Comm> {
        self.comms.get(handle)
    }

    #[inline]
    fn datatype(&self, handle: Handle) -> Outcome<Lent<'_>> {
        self.types.usable(handle).map(Lent::There)
    }

    #[inline]
    fn reduction(&self, op: Handle, datatype: &Datatype, handle: Handle) -> Outcome<(Reduction, bool)> {
        self.ops.reduction(op, datatype, handle)
    }
}

impl Objects for Known {
    fn comm(&self, handle: Handle) -> Outcome<&Comm> {
        assert!(self.comm.handle == handle, "a call has one communicator");
        Ok(&self.comm)
    }

    fn datatype(&self, handle: Handle) -> Outcome<Lent<'_>> {
        snapshot::datatype(handle, |datatype| Ok(datatype.clone())).map(Lent::Copy)
    }

    fn reduction(&self, op: Handle, datatype: &Datatype, handle: Handle) -> Outcome<(Reduction, bool)> {
        match predefined_reduction(op, datatype) {
            Some(predefined) => predefined.map(|reduction| (reduction, true)),
            // Functions of the program are in the process's table.
            None => gate::with(|process| process.ops.reduction(op, datatype, handle)),
        }
    }
}
