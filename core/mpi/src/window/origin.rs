//! The origin's part: turning operations into messages, and knowing when they are over.

use super::by_device::{Unflushed, waits_for_device};
use super::exposure::{basic_of, inside};
use super::message::{Kind, Message, Shape};
use super::target::{ANSWER, copy_of, tag_back, tag_forth};
use super::{Flavor, Window};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use weft_datatype::memory::copy;
use weft_datatype::{Datatype, Memory, PredefinedOp, Scratch, SendBuf};
use weft_engine::{Engine, Envelope, RequestId, Selector, SendMode, Started};
use weft_types::{Error, ErrorClass, Rank, Result, Tag, abi};

/// Elements of the calling process that an operation reads or writes.
#[derive(Clone, Debug)]
pub struct Elements {
    /// The elements.
    pub memory: Memory,
    /// Their packed bytes.
    pub bytes: u64,
}

/// Elements of a target that an operation reads or writes.
#[derive(Clone, Debug)]
pub struct Target {
    /// Rank in the window's group.
    pub rank: u32,
    /// Displacement in the target's units, an address for dynamic windows.
    pub disp: i64,
    /// Number of elements.
    pub count: u64,
    /// Their type.
    pub datatype: Datatype,
}

/// How far an operation is: what requests of `MPI_Rput` and its like stand for.
#[derive(Debug, Default)]
pub struct OperationState {
    /// Pieces under way. Relaxed: it is touched by whoever holds the process only.
    pub(super) left: AtomicU32,
    failed: OnceLock<Error>,
    /// Whether a call has reported that: of its request, or of a synchronisation, whichever came first. Relaxed, as above.
    told: AtomicBool,
}

/// A started operation.
pub type Operation = Arc<OperationState>;

impl OperationState {
    /// Whether the origin's memory belongs to the program again, and results are there.
    pub fn is_done(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// What went wrong, if anything did and no call has reported it yet; the caller does.
    pub fn take_error(&self) -> Option<Error> {
        self.failed.get().filter(|_| !self.told.swap(true, Ordering::Relaxed)).cloned()
    }

    /// The same, for a call that only looks.
    pub fn error(&self) -> Option<Error> {
        self.failed.get().filter(|_| !self.told.load(Ordering::Relaxed)).cloned()
    }
}

/// Data up to this size travel in the message; more go straight to their place.
const INLINE: u64 = 8 << 10;
/// Bytes that one accumulating message combines; as many as the target's shape takes where that is more.
pub(super) const PIECE: u64 = 32 << 10;
/// Numbers of messages before they repeat; a tag is twice as large.
const IDS: u32 = 1 << 29;

/// What this process has asked of others.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// What is awaited of each target, oldest first. One target's answers come in about that order, and all of them
    /// need nothing but that target's progress.
    awaited: BTreeMap<u32, VecDeque<Awaited>>,
    /// What is awaited of each target's device, oldest first.
    device: BTreeMap<u32, VecDeque<Awaited>>,
    /// Messages to each target that its device must be done before, and those behind them.
    held: BTreeMap<u32, VecDeque<(Kind, SendBuf)>>,
    /// Targets whose devices have something that nobody awaits.
    pub(super) unflushed: Unflushed,
    last_id: u32,
    /// Targets with operations that were not confirmed.
    pub(super) dirty: BTreeSet<u32>,
    /// Those that were told of the end of an epoch, and did not answer: what they have executed is not known.
    pub(super) unanswered: BTreeSet<u32>,
    /// What went wrong since the last synchronisation that reported something.
    pub(super) failures: Failures,
}

/// Errors that the next synchronisation reports the first of, unless the request of its operation has reported it by then.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(Option<Operation>, Error)>);

/// Most failures that are remembered at a time: requests that are waited for in the meantime have reported so many.
const MOST_FAILURES: usize = 64;

impl Failures {
    /// An operation has failed: noted once for all its pieces.
    fn fail(&mut self, operation: &Operation, error: Error) {
        if operation.failed.set(error.clone()).is_ok() {
            self.note(Some(operation), error);
        }
    }

    fn note(&mut self, operation: Option<&Operation>, error: Error) {
        if self.0.len() == MOST_FAILURES {
            self.0.retain(|(operation, _)| {
                operation.as_ref().is_none_or(|of| !of.told.load(Ordering::Relaxed))
            });
        }
        if self.0.len() < MOST_FAILURES {
            self.0.push((operation.cloned(), error));
        }
    }

    fn take(&mut self) -> Option<Error> {
        let mut all = std::mem::take(&mut self.0).into_iter();
        all.find_map(|(operation, error)| operation.map_or(Some(error), |operation| operation.take_error()))
    }
}

#[derive(Debug)]
struct Awaited {
    request: RequestId,
    what: What,
    operation: Operation,
}

#[derive(Debug)]
pub(super) enum What {
    /// Data have left, or arrived: the request tells all.
    Left,
    /// The device has changed a number.
    Changed,
    /// So many bytes come back.
    Data(u64),
    /// An answer comes back.
    Answer(Arc<Scratch>),
}

impl Outgoing {
    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id % (IDS - 1) + 1;
        self.last_id
    }

    fn await_it(&mut self, target: u32, request: RequestId, what: What, operation: &Operation) {
        operation.left.fetch_add(1, Ordering::Relaxed);
        let operation = Arc::clone(operation);
        self.awaited.entry(target).or_default().push_back(Awaited { request, what, operation });
    }

    /// Awaits something of the target's device, unless it is done.
    pub(super) fn await_device(&mut self, target: u32, started: Started, what: What, operation: &Operation) {
        let Started::Pending(request) = started else { return };
        operation.left.fetch_add(1, Ordering::Relaxed);
        let operation = Arc::clone(operation);
        self.device.entry(target).or_default().push_back(Awaited { request, what, operation });
    }

    /// Whether a target may have accumulating messages of ours that it has not executed.
    pub(super) fn accumulates_by_message(&self, target: u32) -> bool {
        self.dirty.contains(&target)
            || self.unanswered.contains(&target)
            || self.awaited.contains_key(&target)
            || self.held.contains_key(&target)
    }

    /// Whether a message of that kind must wait for the target's device.
    fn waits(&self, target: u32, kind: Kind) -> bool {
        match waits_for_device(kind) {
            None => false,
            Some(true) => self.device.contains_key(&target),
            Some(false) => self
                .device
                .get(&target)
                .is_some_and(|queue| queue.iter().any(|one| matches!(one.what, What::Changed))),
        }
    }

    /// An operation has failed.
    pub(super) fn fail(&mut self, operation: &Operation, error: Error) {
        self.failures.fail(operation, error);
    }

    /// Whether nothing is awaited of a target, or of any.
    pub(super) fn is_settled(&self, target: Option<u32>) -> bool {
        match target {
            Some(target) => {
                !self.awaited.contains_key(&target)
                    && !self.device.contains_key(&target)
                    && !self.held.contains_key(&target)
            }
            None => self.awaited.is_empty() && self.device.is_empty() && self.held.is_empty(),
        }
    }

    /// The targets of whom something is awaited.
    pub(super) fn awaited_of(&self) -> BTreeSet<u32> {
        self.awaited.keys().chain(self.device.keys()).chain(self.held.keys()).copied().collect()
    }

    /// Takes what has come; true when something had.
    fn sweep(&mut self, engine: &mut Engine) -> bool {
        let mut moved = false;
        let failures = &mut self.failures;
        let mut sweep = |_: &u32, queue: &mut VecDeque<Awaited>| {
            while queue.front().is_some_and(|first| engine.is_complete(first.request)) {
                let Some(first) = queue.pop_front() else { break };
                moved = true;
                let completion = engine.take(first.request);
                let error = completion.error.or_else(|| first.what.judge(completion.status.bytes));
                if let Some(error) = error {
                    failures.fail(&first.operation, error);
                }
                first.operation.left.fetch_sub(1, Ordering::Relaxed);
            }
            !queue.is_empty()
        };
        self.awaited.retain(&mut sweep);
        self.device.retain(&mut sweep);
        moved
    }
}

impl What {
    fn judge(&self, bytes: u64) -> Option<Error> {
        let class = match self {
            What::Left | What::Changed => return None,
            What::Data(wanted) if *wanted == bytes => return None,
            What::Data(_) => ErrorClass::RMA_RANGE,
            What::Answer(room) => {
                let mut class = [0; ANSWER];
                room.send_buf(0, ANSWER).pack(0, &mut class);
                match i32::from_le_bytes(class) {
                    0 => return None,
                    code => ErrorClass(code),
                }
            }
        };
        Some(Error::new(
            class,
            "the target refused an operation: the memory it names is not part of the window there (for a dynamic window: not \
             attached)",
        ))
    }
}

impl Window {
    fn is_me(&self, target: u32) -> bool {
        target == self.rank.0
    }

    /// Sends a message to another member, now or when it may be sent.
    pub(super) fn tell(&mut self, engine: &mut Engine, target: u32, message: &Message<'_>) -> Result<()> {
        let bytes = copy_of(&message.emit());
        let outgoing = &mut self.outgoing;
        if outgoing.held.contains_key(&target) || outgoing.waits(target, message.kind) {
            outgoing.held.entry(target).or_default().push_back((message.kind, bytes));
            return Ok(());
        }
        self.send_message(engine, target, bytes)
    }

    fn send_message(&self, engine: &mut Engine, target: u32, bytes: SendBuf) -> Result<()> {
        let envelope = self.envelope(target, Tag(0));
        if let Started::Pending(request) = engine.send(envelope, SendMode::Standard, bytes)? {
            engine.release(request);
        }
        Ok(())
    }

    /// Takes what has come, and sends what waited for it; true when something had.
    pub(super) fn sweep(&mut self, engine: &mut Engine) -> bool {
        let moved = self.outgoing.sweep(engine);
        if !self.outgoing.held.is_empty() {
            let mut held = std::mem::take(&mut self.outgoing.held);
            held.retain(|&target, queue| {
                while queue.front().is_some_and(|&(kind, _)| !self.outgoing.waits(target, kind)) {
                    let Some((_, bytes)) = queue.pop_front() else { break };
                    if let Err(error) = self.send_message(engine, target, bytes) {
                        self.outgoing.failures.note(None, error);
                    }
                }
                !queue.is_empty()
            });
            self.outgoing.held = held;
        }
        moved
    }

    fn envelope(&self, target: u32, tag: Tag) -> Envelope {
        Envelope { peer: self.group.peer(Rank(target)), context: self.context, source: self.rank, tag }
    }

    fn from(&self, target: u32, id: u32) -> Selector {
        let rank = Rank(target);
        let tag = Some(tag_back(id));
        Selector { context: self.context, peer: Some(self.group.peer(rank)), source: Some(rank), tag }
    }

    /// Sends a message that is answered; the target is not settled until the answer is here.
    pub(super) fn ask(&mut self, engine: &mut Engine, target: u32, kind: Kind, op: u32) -> Result<()> {
        let id = self.outgoing.next_id();
        let room = Scratch::new(ANSWER);
        let request = engine.recv(self.from(target, id), room.recv_buf(0, ANSWER))?;
        self.outgoing.await_it(target, request, What::Answer(room), &Operation::default());
        self.tell(engine, target, &Message::bare(kind, op, id))
    }

    /// Checks an operation on `to`: epoch and range, as far as known here.
    fn check(&mut self, to: &Target) -> Result<()> {
        self.epochs.check_access(to.rank)?;
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        let extent = self.extents[to.rank as usize];
        inside(to.disp, extent.unit.into(), to.datatype.span(to.count)?, extent.size).map(drop)
    }

    fn sizes(origin: u64, target: u64, larger: &str) -> Result<()> {
        if origin <= target {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::TRUNCATE,
            format!("{origin} bytes are to be moved, but the {larger} side has room for {target} only"),
        ))
    }

    /// `MPI_Put` (section 12.3.1).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` outside an epoch, `MPI_ERR_RMA_RANGE`, `MPI_ERR_TRUNCATE`; errors of the engine.
    pub fn put(&mut self, engine: &mut Engine, from: &Elements, to: &Target) -> Result<Operation> {
        self.check(to)?;
        Self::sizes(from.bytes, to.datatype.packed_bytes(to.count)? as u64, "target")?;
        let operation = Operation::default();
        if from.bytes == 0 {
            return Ok(operation);
        }
        let (id, bytes) = (self.outgoing.next_id(), from.bytes);
        if let Some(exposure) = self.mapped.get(to.rank as usize) {
            let message = message(Kind::PutFar, to, byte_like(&to.datatype), (id, 0), (0, bytes), &[]);
            copy(&from.memory.send_view(0, 0, bytes), &mut exposure.room(&message)?);
            return Ok(operation);
        }
        if self.put_by_device(engine, from, to, &operation)? {
            return Ok(operation);
        }
        let far = bytes > INLINE && !self.is_me(to.rank);
        let data = if far { Vec::new() } else { packed(from, 0, bytes) };
        let kind = if far { Kind::PutFar } else { Kind::Put };
        let message = message(kind, to, byte_like(&to.datatype), (id, 0), (0, bytes), &data);
        if self.is_me(to.rank) {
            self.exposure.execute(&message)?;
            return Ok(operation);
        }
        self.outgoing.dirty.insert(to.rank);
        self.tell(engine, to.rank, &message)?;
        if far {
            let envelope = self.envelope(to.rank, tag_forth(id));
            let data = from.memory.send_view(0, 0, bytes);
            if let Started::Pending(request) = engine.send(envelope, SendMode::Standard, data)? {
                self.outgoing.await_it(to.rank, request, What::Left, &operation);
            }
        }
        Ok(operation)
    }

    /// `MPI_Get` (section 12.3.2).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn get(&mut self, engine: &mut Engine, into: &Elements, of: &Target) -> Result<Operation> {
        self.check(of)?;
        let bytes = of.datatype.packed_bytes(of.count)? as u64;
        Self::sizes(bytes, into.bytes, "origin")?;
        let operation = Operation::default();
        if bytes == 0 {
            return Ok(operation);
        }
        let id = self.outgoing.next_id();
        let message = message(Kind::Get, of, byte_like(&of.datatype), (id, 0), (0, bytes), &[]);
        if let Some(exposure) = self.mapped.get(of.rank as usize) {
            copy(&exposure.data(&message)?, &mut into.memory.recv_view(0, 0, bytes));
            return Ok(operation);
        }
        if !self.get_by_device(engine, (into, bytes), of, &operation)? {
            self.fetch(engine, &message, of.rank, (into, 0), &operation)?;
        }
        Ok(operation)
    }

    /// Sends a message whose answer goes to packed byte `start` of `into`; to oneself it is executed.
    fn fetch(
        &mut self,
        engine: &mut Engine,
        message: &Message<'_>,
        target: u32,
        (into, start): (&Elements, u64),
        operation: &Operation,
    ) -> Result<()> {
        let room = into.memory.recv_view(0, start, message.bytes);
        if self.is_me(target) {
            return self.execute_own(engine, message, Some(room), operation);
        }
        let request = engine.recv(self.from(target, message.id), room)?;
        // The data coming back tell that the message was executed, so the target needs no flush for it.
        self.outgoing.await_it(target, request, What::Data(message.bytes), operation);
        self.tell(engine, target, message)
    }

    /// `MPI_Accumulate`, or with `result` `MPI_Get_accumulate` and `MPI_Fetch_and_op` (section 12.3.4). `from` is not looked
    /// at for `MPI_NO_OP`.
    ///
    /// # Errors
    /// As [`Window::put`]; `MPI_ERR_OP` and `MPI_ERR_TYPE` for what cannot be combined.
    pub fn accumulate(
        &mut self,
        engine: &mut Engine,
        from: Option<(&Elements, &Datatype)>,
        result: Option<&Elements>,
        to: &Target,
        op: (PredefinedOp, u32),
    ) -> Result<Operation> {
        self.check(to)?;
        let basic = basic_of(&to.datatype)?;
        let bytes = to.datatype.packed_bytes(to.count)? as u64;
        if let Some((from, datatype)) = from {
            let other = basic_of(datatype)?;
            if other != basic {
                return Err(Error::new(
                    ErrorClass::TYPE,
                    format!(
                        "the origin's data are of {}, the target's of {}; accumulating operations need one predefined type \
                         (section 12.3.4)",
                        other.default_name(),
                        basic.default_name()
                    ),
                ));
            }
            Self::sizes(from.bytes, bytes, "target")?;
        }
        let bytes = from.map_or(bytes, |(from, _)| from.bytes);
        if let Some(result) = result {
            Self::sizes(bytes, result.bytes, "result")?;
        }
        // Without elements there is nothing that could not be combined.
        if bytes > 0 && !matches!(op.0, PredefinedOp::Replace | PredefinedOp::NoOp) {
            op.0.kernel(&basic)?;
        }
        let handle = basic.as_predefined().map_or(abi::MPI_BYTE, |basic| basic.handle());
        let size = basic.element_bytes().max(1) as u64;
        let operation = Operation::default();
        if self.accumulate_by_device(
            engine,
            from.map(|(from, _)| from),
            result,
            to,
            (&basic, op.0),
            &operation,
        )? {
            return Ok(operation);
        }
        let kind = if result.is_some() { Kind::GetAccumulate } else { Kind::Accumulate };
        let Message { count, mut shape, .. } = message(kind, to, handle, (0, op.1), (0, 0), &[]);
        // Every piece brings the shape: it is not to be the larger part, however torn the memory is.
        let piece = (PIECE.max(shape.as_ref().map_or(0, Shape::bytes)) / size).max(1) * size;
        for start in (0..bytes).step_by(piece as usize) {
            let length = piece.min(bytes - start);
            let data = from.map_or_else(Vec::new, |(from, _)| packed(from, start, length));
            let id = self.outgoing.next_id();
            let message = Message {
                kind,
                op: op.1,
                basic: handle,
                id,
                disp: to.disp,
                count,
                start,
                bytes: length,
                shape: shape.take(),
                data: &data,
            };
            match result {
                Some(result) => self.fetch(engine, &message, to.rank, (result, start), &operation)?,
                None if self.is_me(to.rank) => self.execute_own(engine, &message, None, &operation)?,
                None => {
                    self.outgoing.dirty.insert(to.rank);
                    self.tell(engine, to.rank, &message)?;
                }
            }
            shape = message.shape;
        }
        Ok(operation)
    }

    /// `MPI_Compare_and_swap` (section 12.3.4): all three are one element of the target's type.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn compare_and_swap(
        &mut self,
        engine: &mut Engine,
        (compare, new): (&Elements, &Elements),
        result: &Elements,
        to: &Target,
    ) -> Result<Operation> {
        self.check(to)?;
        let bytes = result.bytes;
        let mut data = packed(compare, 0, bytes);
        data.extend_from_slice(&packed(new, 0, bytes));
        let operation = Operation::default();
        if self.swap_by_device(engine, (compare, new), result, to, &operation)? {
            return Ok(operation);
        }
        let id = self.outgoing.next_id();
        let basic = to.datatype.as_predefined().map_or(abi::MPI_BYTE, |basic| basic.handle());
        let message = message(Kind::CompareAndSwap, to, basic, (id, 0), (0, bytes), &data);
        self.fetch(engine, &message, to.rank, (result, 0), &operation)?;
        Ok(operation)
    }

    /// Whether nothing that was asked of a target (or of any) is still awaited, the lock of the own window included.
    pub fn is_settled(&self, target: Option<u32>) -> bool {
        let own = target.is_none_or(|target| self.is_me(target));
        self.outgoing.is_settled(target)
            && !(own && self.is_in_line(self.rank.0))
            && !(own && self.epochs.waits_for_own_lock() && !self.incoming.own_lock)
    }

    /// Whose answers a call needs that waits until a target, or all, are settled, and whether it needs the lock of the own
    /// window.
    pub fn unsettled(&self, target: Option<u32>) -> (Vec<u32>, bool) {
        let ranks =
            self.outgoing.awaited_of().into_iter().filter(|&rank| target.is_none_or(|target| target == rank));
        let own = target.is_none_or(|target| self.is_me(target));
        (ranks.collect(), own && self.epochs.waits_for_own_lock() && !self.incoming.own_lock)
    }

    /// The first error of an operation that no call has reported yet.
    pub fn take_error(&mut self) -> Option<Error> {
        self.outgoing.failures.take()
    }
}

/// A predefined type stands for the elements where only bytes count: the own one, or bytes when the message has a shape.
fn byte_like(datatype: &Datatype) -> u32 {
    datatype.as_predefined().map_or(abi::MPI_BYTE, |predefined| predefined.handle())
}

/// A message about packed bytes of the target's elements.
fn message<'a>(
    kind: Kind,
    to: &Target,
    basic: u32,
    (id, op): (u32, u32),
    (start, bytes): (u64, u64),
    data: &'a [u8],
) -> Message<'a> {
    let predefined = to.datatype.as_predefined().is_some();
    // Elements back to back are as many basic ones; others need their shape told.
    let (count, shape) = match (predefined, Shape::of(&to.datatype)) {
        (true, _) => (to.count, None),
        (false, Some(shape)) => (to.count, Some(shape)),
        (false, None) => {
            let size = Datatype::predefined(basic).map_or(1, |basic| basic.size().max(1)) as u64;
            (to.count * to.datatype.element_bytes() as u64 / size, None)
        }
    };
    Message { kind, op, basic, id, disp: to.disp, count, start, bytes, shape, data }
}

fn packed(from: &Elements, start: u64, bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    let view: SendBuf = from.memory.send_view(0, start, bytes);
    view.pack(0, &mut data);
    data
}
