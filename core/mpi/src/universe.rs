//! The safe Rust API: one MPI process as a value.
//!
//! ```no_run
//! let universe = weft::Universe::init()?;
//! let world = universe.world();
//! let sum = world.allreduce(&[world.rank()? as i32], weft::Reduce::Sum)?[0];
//! if world.rank()? == 0 { world.send(&[sum], 1, 7)?; }
//! if world.rank()? == 1 { let (data, _) = world.receive::<i32>(Some(0), Some(7))?; assert_eq!(data, [sum]); }
//! # Ok::<(), weft_types::Error>(())
//! ```
//!
//! Data are copied into memory of the library, which is what lets this module be free of unsafe code. A `Universe` serves one
//! thread; C programs and other threads go through `libmpi_abi`.

use crate::construct::Construction;
use crate::process::Process;
use crate::request::MpiStatus;
use std::cell::RefCell;
use std::rc::Rc;
use weft_coll::{Call, Vector};
use weft_datatype::{Datatype, Memory, PredefinedOp, Scratch};
use weft_engine::{Arguments, Operation, Reduction, RequestId, SendMode, Started};
use weft_types::{Error, Handle, Result, abi};

/// A number that can travel.
pub trait Element: Copy {
    /// The predefined datatype, by its standard ABI value.
    const DATATYPE: u32;
    /// Bytes of one element.
    const BYTES: usize;
    /// Writes the element in the machine's byte order.
    fn write(self, to: &mut [u8]);
    /// Reads an element.
    fn read(from: &[u8]) -> Self;
}

macro_rules! elements {
    ($($ty:ty: $datatype:ident;)*) => {$(
        impl Element for $ty {
            const DATATYPE: u32 = abi::$datatype;
            const BYTES: usize = size_of::<$ty>();
            fn write(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_ne_bytes());
            }
            fn read(from: &[u8]) -> $ty {
                <$ty>::from_ne_bytes(std::array::from_fn(|byte| from[byte]))
            }
        }
    )*};
}

elements! {
    u8: MPI_UINT8_T; i8: MPI_INT8_T; u16: MPI_UINT16_T; i16: MPI_INT16_T; u32: MPI_UINT32_T; i32: MPI_INT32_T;
    u64: MPI_UINT64_T; i64: MPI_INT64_T; f32: MPI_FLOAT; f64: MPI_DOUBLE;
}

/// What an all-reduce does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl Reduce {
    const fn predefined(self) -> PredefinedOp {
        match self {
            Reduce::Sum => PredefinedOp::Sum,
            Reduce::Product => PredefinedOp::Prod,
            Reduce::Max => PredefinedOp::Max,
            Reduce::Min => PredefinedOp::Min,
        }
    }
}

/// This process's part in MPI, from initialisation to the drop, which finalises.
#[derive(Debug)]
pub struct Universe {
    shared: Shared,
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Process>>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let job = &self.0.borrow().job;
        write!(f, "rank {} of {}", job.rank, job.size)
    }
}

impl Shared {
    /// Blocks until `poll` gives an answer, progressing everything meanwhile.
    fn wait<T>(&self, mut poll: impl FnMut(&mut Process) -> Option<T>) -> T {
        let (mut waiter, bell) = {
            let process = self.0.borrow();
            (process.waiter(), process.bell())
        };
        loop {
            let (moved, answer) = {
                let mut process = self.0.borrow_mut();
                (process.progress(), poll(&mut process))
            };
            if let Some(answer) = answer {
                waiter.finish(&bell);
                return answer;
            }
            if moved {
                waiter.moved();
            }
            waiter.pause(&bell);
        }
    }

    fn complete(&self, request: RequestId) -> Result<MpiStatus> {
        let done =
            self.wait(|process| process.engine.is_complete(request).then(|| process.engine.take(request)));
        match done.error {
            None => Ok(done.status.into()),
            Some(error) => Err(error),
        }
    }
}

impl Universe {
    /// Joins the job, or makes one of one process.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn init() -> Result<Universe> {
        let mut process = Process::start()?;
        process.start_world();
        Ok(Universe { shared: Shared(Rc::new(RefCell::new(process))) })
    }

    /// All processes of the job.
    pub fn world(&self) -> Communicator {
        Communicator { shared: self.shared.clone(), handle: Handle(abi::MPI_COMM_WORLD) }
    }

    /// This process alone.
    pub fn alone(&self) -> Communicator {
        Communicator { shared: self.shared.clone(), handle: Handle(abi::MPI_COMM_SELF) }
    }
}

impl Drop for Universe {
    /// Finalises (section 11.2.2): what is under way is brought to its end, here and at the others.
    fn drop(&mut self) {
        if self.world().barrier().is_err() {
            return;
        }
        self.shared.wait(|process| process.engine.is_quiet().then_some(()));
        // A launcher that went away is of no interest at the end.
        let _ = self.shared.0.borrow_mut().end_world();
    }
}

/// A communicator.
#[derive(Clone, Debug)]
pub struct Communicator {
    shared: Shared,
    handle: Handle,
}

impl Communicator {
    /// Rank of this process.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` after [`Communicator::free`].
    pub fn rank(&self) -> Result<u32> {
        Ok(self.shared.0.borrow().comms.get(self.handle)?.rank.0)
    }

    /// Number of processes.
    ///
    /// # Errors
    /// As [`Communicator::rank`].
    pub fn size(&self) -> Result<u32> {
        Ok(self.shared.0.borrow().comms.get(self.handle)?.size)
    }

    /// Sends `data` to `dest` (section 3.2.1); returns when they have left or are kept.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_TAG` for wrong arguments; what went wrong on the way.
    pub fn send<T: Element>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        let copy = Scratch::new(data.len() * T::BYTES);
        copy.recv_buf(0, copy.len()).unpack(0, &pack(data));
        let started = {
            let mut process = self.shared.0.borrow_mut();
            let comm = process.comms.get(self.handle)?;
            let Some(peer) = comm.destination(signed(dest))? else { return Ok(()) };
            let envelope = comm.envelope(peer, tag)?;
            process.engine.send(envelope, SendMode::Standard, copy.send_buf(0, copy.len()))?
        };
        match started {
            Started::Complete => Ok(()),
            Started::Pending(request) => self.shared.complete(request).map(|_| ()),
        }
    }

    /// Receives a message of any length; `None` stands for any source or any tag.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_TAG` for wrong arguments; `MPI_ERR_TRUNCATE` for a message of broken elements.
    pub fn receive<T: Element>(&self, source: Option<u32>, tag: Option<i32>) -> Result<(Vec<T>, MpiStatus)> {
        let source = source.map_or(abi::MPI_ANY_SOURCE, signed);
        let selector = {
            let process = self.shared.0.borrow();
            process.comms.get(self.handle)?.selector(source, tag.unwrap_or(abi::MPI_ANY_TAG))?
        };
        let Some(selector) = selector else { return Ok((Vec::new(), MpiStatus::PROC_NULL)) };
        let (message, found) = self.shared.wait(|process| process.engine.improbe(selector));
        let room = Scratch::new(found.bytes as usize);
        let request = self.shared.0.borrow_mut().engine.imrecv(message, room.recv_buf(0, room.len()))?;
        let status = self.shared.complete(request)?;
        if !room.len().is_multiple_of(T::BYTES) {
            return Err(Error::new(
                weft_types::ErrorClass::TRUNCATE,
                format!("the message has {} bytes, no whole number of elements of {}", room.len(), T::BYTES),
            ));
        }
        let mut bytes = vec![0; room.len()];
        room.send_buf(0, room.len()).pack(0, &mut bytes);
        Ok((unpack(&bytes), status))
    }

    /// Returns once every process has called it (section 6.3).
    ///
    /// # Errors
    /// What went wrong on the way.
    pub fn barrier(&self) -> Result<()> {
        let arguments = Arguments::new(Memory::none(), Memory::none());
        let request =
            self.shared.0.borrow_mut().start_collective(self.handle, &Call::Barrier, arguments, None)?;
        self.shared.complete(request).map(|_| ())
    }

    /// Combines the processes' `data` element by element; everybody gets the result (section 6.9.6).
    ///
    /// # Errors
    /// `MPI_ERR_TRUNCATE` when the lengths differ; what went wrong on the way.
    pub fn allreduce<T: Element>(&self, data: &[T], reduce: Reduce) -> Result<Vec<T>> {
        let datatype =
            Datatype::from(Datatype::predefined(T::DATATYPE).expect("elements have predefined types"));
        let bytes = (data.len() * T::BYTES) as u64;
        let memory = Memory::scratch(&datatype, data.len() as u64)?;
        memory.recv_view(0, 0, bytes).unpack(0, &pack(data));
        let operation = Operation::Predefined(reduce.predefined().kernel(&datatype)?);
        let vector = Vector { count: data.len() as u64, element: T::BYTES as u64, commutative: true };
        let request = self.shared.0.borrow_mut().start_collective(
            self.handle,
            &Call::Allreduce { vector, in_place: true },
            Arguments::new(Memory::none(), memory.clone()),
            Some(Reduction { datatype, operation, name: "" }),
        )?;
        self.shared.complete(request)?;
        let mut result = vec![0; bytes as usize];
        memory.send_view(0, 0, bytes).pack(0, &mut result);
        Ok(unpack(&result))
    }

    /// A communicator with the same members (section 7.4.2); collective.
    ///
    /// # Errors
    /// What went wrong on the way.
    pub fn duplicate(&self) -> Result<Communicator> {
        let begun = self.shared.0.borrow_mut().duplicate(self.handle, Vec::new())?;
        Ok(self.build(begun)?.expect("every member of the parent is a member"))
    }

    /// Communicators of those who give the same color, ordered by key (section 7.4.2); collective.
    ///
    /// # Errors
    /// What went wrong on the way.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Communicator>> {
        let begun = self.shared.0.borrow_mut().split(self.handle, color, key)?;
        self.build(begun)
    }

    fn build(&self, mut construction: Construction) -> Result<Option<Communicator>> {
        let made = self.shared.wait(|process| construction.poll(process).transpose())?;
        Ok(made.map(|handle| Communicator { shared: self.shared.clone(), handle }))
    }

    /// Frees the communicator; its clones name nothing any more.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` when it was freed before, or is predefined.
    pub fn free(self) -> Result<()> {
        self.shared.0.borrow_mut().free_comm(self.handle).map(|_| ())
    }
}

/// A rank as arguments carry it; what does not fit is no rank either way.
fn signed(rank: u32) -> i32 {
    i32::try_from(rank).unwrap_or(i32::MAX)
}

fn pack<T: Element>(data: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; data.len() * T::BYTES];
    for (element, place) in data.iter().zip(bytes.chunks_exact_mut(T::BYTES)) {
        element.write(place);
    }
    bytes
}

fn unpack<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::BYTES).map(T::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::ErrorClass;

    /// A job of one process, whatever launched the tests.
    fn alone() -> Universe {
        Universe::init().expect("nobody launched the tests")
    }

    #[test]
    fn a_process_sends_itself_messages_of_any_length() {
        let universe = alone();
        let world = universe.world();
        assert_eq!((world.rank(), world.size()), (Ok(0), Ok(1)));
        let data: Vec<f64> = (0..300).map(f64::from).collect();
        world.send(&data, 0, 3).expect("sent");
        world.send::<i32>(&[], 0, 4).expect("sent");
        let (empty, status) = world.receive::<i32>(Some(0), Some(4)).expect("received");
        assert_eq!((empty, status.tag, status.bytes), (vec![], 4, 0));
        let (got, status) = world.receive::<f64>(None, None).expect("received");
        assert_eq!((got, status.source, status.tag), (data, 0, 3));
    }

    #[test]
    fn wrong_arguments_come_back_as_errors() {
        let universe = alone();
        let world = universe.world();
        assert_eq!(world.send(&[1], 1, 0).expect_err("no rank 1").class(), ErrorClass::RANK);
        assert_eq!(world.send(&[1], 0, -1).expect_err("no tag").class(), ErrorClass::TAG);
        world.send(&[1_u8, 2, 3], 0, 0).expect("sent");
        assert_eq!(world.receive::<u16>(None, None).expect_err("3 bytes").class(), ErrorClass::TRUNCATE);
    }

    #[test]
    fn communicators_are_made_used_and_freed() {
        let universe = alone();
        let world = universe.world();
        let twin = world.duplicate().expect("made");
        world.send(&[1], 0, 0).expect("sent");
        twin.send(&[2], 0, 0).expect("sent");
        assert_eq!(twin.receive::<i32>(None, None).expect("received").0, [2], "channels are apart");
        assert_eq!(world.receive::<i32>(None, None).expect("received").0, [1]);
        assert_eq!(twin.allreduce(&[3, 4], Reduce::Max), Ok(vec![3, 4]));
        assert!(world.split(None, 0).expect("split").is_none());
        let part = world.split(Some(5), 0).expect("split").expect("a member");
        part.barrier().expect("alone in it");
        part.free().expect("once");
        let copy = twin.clone();
        twin.free().expect("once");
        assert_eq!(copy.rank().expect_err("freed").class(), ErrorClass::COMM);
        assert_eq!(world.free().expect_err("predefined").class(), ErrorClass::COMM);
    }
}
