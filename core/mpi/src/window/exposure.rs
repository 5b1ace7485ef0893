//! The memory of a window at its owner, and what one-sided operations do to it.

use super::Extent;
use super::changing::Changing;
use super::message::{Kind, Message, Shape, predefined};
use super::origin::PIECE;
use super::rule::is_long;
use super::steps;
use weft_datatype::{Datatype, Memory, PredefinedOp, RecvBuf, SendBuf};
use weft_engine::Changes;
use weft_types::{Error, ErrorClass, Result, abi};

/// Memory attached to a dynamic window (section 12.2.4).
#[derive(Debug)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) memory: Memory,
}

/// What origins may touch here.
#[derive(Debug)]
pub(super) enum Exposure {
    /// One range, addressed in units from its base; what devices change there, too.
    Fixed { memory: Memory, size: u64, unit: u64, changes: Changes },
    /// Whatever is attached, addressed absolutely.
    Attached(Vec<Region>),
}

#[cold]
pub(super) fn outside(text: String) -> Error {
    Error::new(ErrorClass::RMA_RANGE, text)
}

/// Checks that bytes `span`, relative to `disp` units, lie in a window of `size` bytes; the displacement in bytes.
pub(super) fn inside(disp: i64, unit: u64, (low, high): (i64, i64), size: u64) -> Result<i64> {
    let at = i128::from(disp) * i128::from(unit);
    let (first, last) = (at + i128::from(low), at + i128::from(high));
    if low == high || (first >= 0 && last <= i128::from(size)) {
        return Ok(at as i64);
    }
    Err(outside(format!(
        "target_disp {disp} (times {unit} bytes) with the target datatype and count covers the bytes {first} to {} of the \
         target's window, which has {size} bytes",
        last - 1
    )))
}

impl Exposure {
    pub(super) fn fixed(memory: Memory, extent: Extent) -> Exposure {
        let Extent { size, unit, changes } = extent;
        Exposure::Fixed { memory, size, unit: unit.into(), changes }
    }

    /// Memory of the elements of `datatype`, and the displacement of the first in it.
    fn locate(&self, disp: i64, count: u64, datatype: &Datatype) -> Result<(Memory, i64)> {
        let span = datatype.span(count)?;
        match self {
            Exposure::Fixed { memory, size, unit, .. } => {
                let at = inside(disp, *unit, span, *size)?;
                Ok((memory.retyped(datatype), at))
            }
            Exposure::Attached(regions) => {
                let at = i128::from(disp as u64);
                let (first, last) = (at + i128::from(span.0), at + i128::from(span.1));
                let found = regions.iter().find(|region| {
                    let start = i128::from(region.address);
                    first >= start && last <= start + i128::from(region.size)
                });
                if let Some(region) = found {
                    let at = (disp as u64).wrapping_sub(region.address) as i64;
                    return Ok((region.memory.retyped(datatype), at));
                }
                // Elements may lie in several regions.
                let parts: Vec<&Memory> = regions.iter().map(|region| &region.memory).collect();
                let joined = Memory::across(&parts, datatype, count, disp)?;
                joined.map(|memory| (memory, disp)).ok_or_else(|| {
                    outside(format!(
                        "the target addresses {first:#x} to {last:#x} are not attached to the dynamic window there \
                         (MPI_Win_attach)"
                    ))
                })
            }
        }
    }

    /// Checks that the slice of a message lies in its elements.
    fn view(&self, message: &Message<'_>) -> Result<(Memory, i64)> {
        let datatype = message.datatype()?;
        let total = datatype.packed_bytes(message.count)? as u64;
        if message.start.checked_add(message.bytes).is_none_or(|end| end > total) {
            return Err(Error::new(
                ErrorClass::INTERN,
                "a one-sided message is about more bytes than its elements have",
            ));
        }
        self.locate(message.disp, message.count, &datatype)
    }

    /// Where data go.
    pub(super) fn room(&self, message: &Message<'_>) -> Result<RecvBuf> {
        let (memory, at) = self.view(message)?;
        Ok(memory.recv_view(at, message.start, message.bytes))
    }

    /// The data that are asked for.
    pub(super) fn data(&self, message: &Message<'_>) -> Result<SendBuf> {
        let (memory, at) = self.view(message)?;
        Ok(memory.send_view(at, message.start, message.bytes))
    }

    /// Checks a message that is executed from its own data; the memory of its elements.
    fn check(&self, message: &Message<'_>) -> Result<(Memory, i64)> {
        let wanted = match message.kind {
            Kind::Get => Some(0),
            Kind::CompareAndSwap => message.bytes.checked_mul(2),
            Kind::GetAccumulate if message.op == abi::MPI_NO_OP => Some(0),
            _ => Some(message.bytes),
        };
        // Elements may lie on top of each other: the window's size is no bound for what is answered.
        let most = PIECE.max(message.shape.as_ref().map_or(0, Shape::bytes));
        let answers_much = message.kind == Kind::GetAccumulate && message.bytes > most;
        if wanted != Some(message.data.len() as u64) || answers_much {
            return Err(Error::new(ErrorClass::INTERN, "a one-sided message with too few or too many data"));
        }
        self.view(message)
    }

    /// The type of the elements that a message changes, where devices change such elements here, too, at any moment.
    fn shared_with_devices(&self, message: &Message<'_>) -> Result<Option<(Datatype, Changes)>> {
        let accumulates =
            matches!(message.kind, Kind::Accumulate | Kind::GetAccumulate | Kind::CompareAndSwap);
        match *self {
            Exposure::Fixed { changes, .. }
                if accumulates && matches!(changes, Changes::AtAnyMoment | Changes::Alone) =>
            {
                Ok(Some((predefined(message.basic)?, changes)).filter(|(basic, _)| is_long(basic)))
            }
            _ => Ok(None),
        }
    }

    /// What a message asks for, if the own device must do it.
    pub(super) fn for_device(&self, message: &Message<'_>) -> Result<Option<Changing>> {
        match self.shared_with_devices(message)? {
            Some((basic, Changes::Alone)) => {
                let (memory, at) = self.check(message)?;
                Changing::new(&memory, at, message, &basic).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Executes a message that [`Exposure::for_device`] is not for; what is to be answered: the data before, for those that ask for
    /// them.
    pub(super) fn execute(&self, message: &Message<'_>) -> Result<Vec<u8>> {
        let (memory, at) = self.check(message)?;
        let bytes = message.bytes as usize;
        match self.shared_with_devices(message)? {
            Some((basic, Changes::AtAnyMoment)) => {
                let old = steps::execute(&memory, at, message, &basic)?;
                return Ok(if message.kind == Kind::Accumulate { Vec::new() } else { old });
            }
            Some(_) => return Err(Error::internal("a device's elements were to be changed by a processor")),
            None => {}
        }
        let mut old = Vec::new();
        if matches!(message.kind, Kind::Get | Kind::GetAccumulate | Kind::CompareAndSwap) {
            old.resize(bytes, 0);
            memory.send_view(at, message.start, message.bytes).pack(0, &mut old);
        }
        match message.kind {
            Kind::Put => memory.recv_view(at, message.start, message.bytes).unpack(0, message.data),
            Kind::Accumulate | Kind::GetAccumulate => combine(&memory, at, message)?,
            Kind::CompareAndSwap => {
                let (compare, new) = message.data.split_at(bytes);
                if old == compare {
                    memory.recv_view(at, message.start, message.bytes).unpack(0, new);
                }
            }
            _ => {}
        }
        Ok(old)
    }
}

/// The operation that a message names.
pub(super) fn op_of(message: &Message<'_>) -> Result<PredefinedOp> {
    PredefinedOp::from_abi(message.op)
        .ok_or_else(|| Error::new(ErrorClass::INTERN, "a one-sided message with an unknown operation"))
}

/// `target = data op target`, element by element of the basic type.
fn combine(memory: &Memory, at: i64, message: &Message<'_>) -> Result<()> {
    let op = op_of(message)?;
    let mut room = memory.recv_view(at, message.start, message.bytes);
    match op {
        PredefinedOp::NoOp => return Ok(()),
        PredefinedOp::Replace => {
            room.unpack(0, message.data);
            return Ok(());
        }
        _ => {}
    }
    let basic = predefined(message.basic)?;
    whole_elements(&basic, message)?;
    let mut packed = vec![0; message.bytes as usize];
    memory.send_view(at, message.start, message.bytes).pack(0, &mut packed);
    apply(op, &basic, message.data, &mut packed)?;
    room.unpack(0, &packed);
    Ok(())
}

/// Checks that a message is about whole elements of its basic type.
pub(super) fn whole_elements(basic: &Datatype, message: &Message<'_>) -> Result<()> {
    let size = basic.element_bytes() as u64;
    match size > 0 && message.bytes.is_multiple_of(size) && message.start.is_multiple_of(size) {
        true => Ok(()),
        false => Err(Error::new(ErrorClass::TYPE, "an accumulate of parts of elements")),
    }
}

/// `packed = data op packed`, of as many packed elements of the basic type.
pub(super) fn apply(op: PredefinedOp, basic: &Datatype, data: &[u8], packed: &mut [u8]) -> Result<()> {
    let kernel = op.kernel(basic)?;
    // In the memory layout of the basic type, where the kernels work; its alignment there is right.
    let bytes = data.len() as u64;
    let count = bytes / basic.element_bytes().max(1) as u64;
    let (left, into) = (Memory::scratch(basic, count)?, Memory::scratch(basic, count)?);
    left.recv_view(0, 0, bytes).unpack(0, data);
    into.recv_view(0, 0, bytes).unpack(0, packed);
    kernel.apply_elements(left.elements(0, 0, bytes), into.elements(0, 0, bytes));
    into.send_view(0, 0, bytes).pack(0, packed);
    Ok(())
}

/// The one predefined type that a datatype consists of (section 12.3.4).
pub(super) fn basic_of(datatype: &Datatype) -> Result<Datatype> {
    fn visit(datatype: &Datatype, found: &mut Option<u32>) -> bool {
        match (datatype.as_predefined(), datatype.contents()) {
            (Some(predefined), _) => *found.get_or_insert(predefined.handle()) == predefined.handle(),
            (None, Some(contents)) => contents.datatypes.iter().all(|inner| visit(inner, found)),
            (None, None) => false,
        }
    }
    let mut found = None;
    match (visit(datatype, &mut found), found) {
        (true, Some(handle)) => predefined(handle),
        _ => Err(Error::new(
            ErrorClass::TYPE,
            "the datatype consists of different predefined types; accumulating operations need one (section 12.3.4)",
        )),
    }
}
