//! Reduction operations (section 6.9): predefined ones are plain handles, user-made ones have a table.

use crate::table::{Table, stale};
use crate::types::Types;
use std::fmt::Debug;
use std::sync::Arc;
use weft_datatype::{Datatype, Kernel, PredefinedOp};
use weft_engine::{Operation, Reduction, UserOperation};
use weft_types::{Error, ErrorClass, Handle, HandleKind, Result, abi};

/// What a predefined operation combines elements of `datatype` with; `None` for other operations. All predefined ones commute.
///
/// # Errors
/// `MPI_ERR_OP` for an operation that is not defined for the type (section 6.9.2).
pub fn predefined_reduction(op: Handle, datatype: &Datatype) -> Option<Result<Reduction>> {
    let predefined = PredefinedOp::from_abi(op.0)?;
    let bound = |kernel| Reduction {
        datatype: datatype.clone(),
        operation: Operation::Predefined(kernel),
        name: predefined.name(),
    };
    Some(predefined.kernel(datatype).map(bound))
}

/// A function that users made an operation of.
pub trait OpFunction: Send + Sync + Debug {
    /// The function for one call, which tells it the datatype by the caller's handle.
    fn bind(&self, datatype: Handle) -> Arc<dyn UserOperation>;
}

#[derive(Debug)]
struct UserOp {
    function: Arc<dyn OpFunction>,
    commutative: bool,
}

/// All operations users made.
#[derive(Debug)]
pub struct Ops {
    table: Table<UserOp>,
    /// What the last reduction in a hurry combined with: operation, datatype, loop.
    last: Option<(Handle, Handle, Kernel)>,
}

impl Default for Ops {
    fn default() -> Ops {
        Ops { table: Table::new(HandleKind::Op), last: None }
    }
}

impl Ops {
    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&mut self, place: fn() -> String) {
        self.table.remember_places(place);
    }

    /// Where each operation alive was made, if that was remembered.
    pub(crate) fn sites(&self) -> impl Iterator<Item = Option<&str>> {
        self.table.iter().map(|(handle, _)| self.table.site(handle))
    }

    /// `MPI_Op_create`
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn create(&mut self, function: Arc<dyn OpFunction>, commutative: bool) -> Result<Handle> {
        self.table.insert(UserOp { function, commutative })
    }

    /// `MPI_Op_free`; reductions under way keep the function.
    ///
    /// # Errors
    /// `MPI_ERR_OP` for a bad handle or a predefined operation.
    pub fn free(&mut self, handle: Handle) -> Result<()> {
        if PredefinedOp::from_abi(handle.0).is_some() {
            return Err(Error::new(ErrorClass::OP, "a predefined operation cannot be freed"));
        }
        self.table.remove(handle).map(|_| ())
    }

    /// `MPI_Op_commutative`
    ///
    /// # Errors
    /// `MPI_ERR_OP` for a bad handle.
    pub fn is_commutative(&self, handle: Handle) -> Result<bool> {
        if PredefinedOp::from_abi(handle.0).is_some() {
            return Ok(true);
        }
        match self.table.find(handle) {
            Some(op) => Ok(op.commutative),
            None => Err(self.explain(handle)),
        }
    }

    /// What combines elements of `datatype`, which the caller names by `handle`; and whether it commutes.
    ///
    /// # Errors
    /// `MPI_ERR_OP` for a bad handle, or an operation that is not defined for the type (section 6.9.2).
    pub fn reduction(&self, op: Handle, datatype: &Datatype, handle: Handle) -> Result<(Reduction, bool)> {
        if let Some(predefined) = predefined_reduction(op, datatype) {
            return predefined.map(|reduction| (reduction, true));
        }
        let Some(user) = self.table.find(op) else { return Err(self.explain(op)) };
        let operation = Operation::User(user.function.bind(handle));
        let name = "a user-defined operation";
        Ok((Reduction { datatype: datatype.clone(), operation, name }, user.commutative))
    }

    /// The loop of a predefined operation on a predefined type, remembered for the next call.
    #[inline(always)]
    pub fn plain_kernel(&mut self, types: &Types, op: Handle, datatype: Handle) -> Option<Kernel> {
        match self.last {
            Some((last_op, last_type, kernel)) if last_op == op && last_type == datatype => Some(kernel),
            _ => self.find_plain_kernel(types, op, datatype),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_plain_kernel(&mut self, types: &Types, op: Handle, datatype: Handle) -> Option<Kernel> {
        types.plain_size(datatype.0 as usize)?;
        let kernel = PredefinedOp::from_abi(op.0)?.kernel(types.usable(datatype).ok()?).ok()?;
        self.last = Some((op, datatype, kernel));
        Some(kernel)
    }

    #[cold]
    fn explain(&self, handle: Handle) -> Error {
        match self.table.get(handle) {
            Err(error) if handle.0 != abi::MPI_OP_NULL => error,
            _ => stale(HandleKind::Op, handle, true),
        }
    }
}
