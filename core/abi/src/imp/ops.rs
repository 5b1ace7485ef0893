//! Reduction operations (section 6.9.5): C functions as operations, and the local reduction (section 6.9.7).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft::op::OpFunction;
use weft_datatype::{Elements, Memory};
use weft_engine::{Callback as Due, Engine, Failure, Operation, UserOperation};
use weft_types::{Error, ErrorClass, Handle, abi};

use super::point_to_point::no_buffer;
use crate::ctypes::*;
use crate::gate;
use crate::raise::{self, Raised};

/// A function of the program that combines operands.
#[derive(Clone, Copy, Debug)]
struct CFunction(UserFunction);

/// The function with the datatype handle it is told.
#[derive(Debug)]
struct Bound {
    function: UserFunction,
    datatype: Handle,
}

impl OpFunction for CFunction {
    fn bind(&self, datatype: Handle) -> Arc<dyn UserOperation> {
        Arc::new(Bound { function: self.0, datatype })
    }
}

impl UserOperation for Bound {
    fn apply(&self, left: Elements, into: Elements) {
        let mut datatype = MPI_Datatype::from_raw(self.datatype.0);
        let pointer =
            |elements: &Elements| std::ptr::with_exposed_provenance_mut::<c_void>(elements.address());
        let (from, to) = (pointer(&left), pointer(&into));
        let count = into.count();
        match self.function {
            // SAFETY: the functions are those the program passed to MPI_Op_create; both operands have `count` elements
            // of the datatype and do not overlap.
            UserFunction::Large(function) => unsafe {
                if let Some(function) = function.function() {
                    let mut length = count as MPI_Count;
                    function(from, to, &raw mut length, &raw mut datatype);
                }
            },
            // SAFETY: as above. Counts beyond an int come in pieces (section 6.9.5).
            UserFunction::Int(function) => unsafe {
                let Some(function) = function.function() else { return };
                let extent =
                    gate::with(|process| process.types.get(self.datatype).map_or(0, |of| of.bounds().extent));
                let mut done = 0;
                while done < count {
                    let piece = (count - done).min(c_int::MAX as usize);
                    let mut length = piece as c_int;
                    let offset = done as isize * extent as isize;
                    function(
                        from.wrapping_byte_offset(offset),
                        to.wrapping_byte_offset(offset),
                        &raw mut length,
                        &raw mut datatype,
                    );
                    done += piece;
                }
            },
        }
    }
}

/// Runs the user functions that reductions under way in a lane wait for, and the error handlers of requests that were freed and
/// failed afterwards, outside all locks.
pub(crate) fn run_callbacks(lane: u32, mut due: Due) {
    loop {
        match due.failure() {
            Some(failure) => tell_failure(failure),
            None => due.run(),
        }
        let next = |engine: &mut Engine| {
            engine.callback_done(due);
            engine.take_callback()
        };
        let next = match lane {
            0 => gate::with(|process| next(&mut process.engine)),
            _ => gate::shared().lanes.at(lane).with(|inner| next(&mut inner.engine)),
        };
        match next {
            Some(callback) => due = callback,
            None => return,
        }
    }
}

/// The error of a request that was freed while it was active (section 3.7.3), or of a buffered message (section 3.4): no call
/// can return it, so the error handler of its communicator hears of it, or that of MPI_COMM_SELF when the communicator was
/// freed too.
#[cold]
fn tell_failure(failure: &Failure) {
    let (call, what) = match failure.freed {
        true => ("MPI_Request_free", "a request that was freed while it was active has failed"),
        false => ("MPI_Bsend", "a buffered message, whose send was complete before, has failed"),
    };
    let text = format!("{what}: {}", failure.error.text());
    let raised = Raised::on_comm(Handle(failure.owner), Error::new(failure.error.class(), text));
    raise::finish(call, Err(raised));
}

/// `MPI_Op_create` (section 6.9.5).
pub(crate) unsafe fn op_create(user_fn: UserFunction, commute: c_int, op: *mut MPI_Op) -> Result<(), Raised> {
    let address = match user_fn {
        UserFunction::Int(function) => function.raw(),
        UserFunction::Large(function) => function.raw(),
    };
    if address < 4096 {
        return Err(Error::new(ErrorClass::ARG, "user_fn is a null pointer, but a function is needed").into());
    }
    let handle = gate::with(|process| process.ops.create(Arc::new(CFunction(user_fn)), commute != 0))?;
    // SAFETY: the entry has refused null.
    unsafe { op.write(MPI_Op::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Op_free` (section 6.9.5).
pub(crate) unsafe fn op_free(op: *mut MPI_Op) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { op.read() }.handle();
    gate::with(|process| process.ops.free(handle))?;
    // SAFETY: as above.
    unsafe { op.write(MPI_Op::from_raw(abi::MPI_OP_NULL)) };
    Ok(())
}

/// `MPI_Op_commutative` (section 6.9.7).
pub(crate) unsafe fn op_commutative(op: MPI_Op, commute: *mut c_int) -> Result<(), Raised> {
    let is_commutative = gate::with(|process| process.ops.is_commutative(op.handle()))?;
    // SAFETY: the entry has refused null.
    unsafe { commute.write(c_int::from(is_commutative)) };
    Ok(())
}

/// `MPI_Reduce_local` (section 6.9.7).
pub(crate) unsafe fn reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<(), Raised> {
    let (operation, left, into) = gate::with(|process| {
        let of = process.types.usable(datatype.handle())?;
        let (reduction, _) = process.ops.reduction(op.handle(), of, datatype.handle())?;
        of.check_distinct(count as u64)?;
        let span = of.span(count as u64)?;
        let bytes = of.packed_bytes(count as u64)?;
        for address in [inbuf.addr(), inoutbuf.addr()] {
            if address <= abi::MPI_BUFFER_AUTOMATIC && bytes > 0 && of.is_contiguous() {
                return Err(no_buffer(address, bytes));
            }
        }
        // SAFETY: the program passes `count` elements in both buffers.
        let (left, into) =
            unsafe { (Memory::read(inbuf.cast(), of, span), Memory::write(inoutbuf.cast(), of, span)) };
        Ok((reduction.operation, left.elements(0, 0, bytes as u64), into.elements(0, 0, bytes as u64)))
    })?;
    if count > 0 {
        match operation {
            Operation::Predefined(kernel) => kernel.combine(left, into)?,
            Operation::User(user) => user.apply(left, into),
        }
    }
    Ok(())
}
