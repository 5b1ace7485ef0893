//! Collective steps that a construction is written in, one after another.

use crate::construct::Construction;
use crate::process::Process;
use weft_coll::{Block, Call, Vector};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{Arguments, Operation, Reduction, RequestId};
use weft_types::{Handle, Result, abi};

/// Lends the process and waits, as the owner of the process knows how to: with or without lock, waking or spinning.
pub trait Driver {
    /// Lends the process for work that does not wait.
    fn with<R>(&self, work: impl FnOnce(&mut Process) -> R) -> R;

    /// Progresses everything until `poll` gives an answer.
    fn wait<T>(&self, poll: impl FnMut(&mut Process) -> Option<T>) -> T;

    /// Waits for a request of the engine.
    ///
    /// # Errors
    /// What went wrong on the way.
    fn complete(&self, request: RequestId) -> Result<()> {
        let done = self.wait(|process| process.has_ended(request).then(|| process.take_ended(request)));
        done.error.map_or(Ok(()), Err)
    }

    /// Takes the construction of a communicator from `parent` to its end; `None` when this process gets none.
    ///
    /// # Errors
    /// What went wrong on the way.
    fn construct(&self, _parent: Handle, mut construction: Construction) -> Result<Option<Handle>> {
        self.wait(|process| construction.poll(process).transpose())
    }
}

/// Memory of the library with these bytes.
pub(crate) fn memory_of(bytes: &[u8]) -> Memory {
    let memory = Memory::packed_scratch(bytes.len());
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, bytes);
    memory
}

/// The first `length` bytes of memory of the library.
pub(crate) fn bytes_of(memory: &Memory, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    memory.send_view(0, 0, length as u64).pack(0, &mut bytes);
    bytes
}

/// 32-bit words as they travel.
pub(super) fn bytes_of_words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The words of a message; a broken one at the end is left out.
pub(super) fn words_of_bytes(bytes: &[u8]) -> Vec<u32> {
    let word = |word: &[u8]| u32::from_le_bytes(std::array::from_fn(|byte| word[byte]));
    bytes.chunks_exact(4).map(word).collect()
}

/// The same for signed words.
pub(super) fn words_to_bytes(words: impl IntoIterator<Item = i32>) -> Vec<u8> {
    bytes_of_words(words.into_iter().map(|word| word as u32))
}

/// The same for signed words.
pub(super) fn bytes_to_words(bytes: &[u8]) -> Vec<i32> {
    words_of_bytes(bytes).into_iter().map(|word| word as i32).collect()
}

fn run<D: Driver>(
    driver: &D,
    comm: Handle,
    call: &Call<'_>,
    arguments: Arguments,
    reduction: Option<Reduction>,
) -> Result<()> {
    let request = driver.with(|process| process.start_on_everyone(comm, call, arguments, reduction))?;
    driver.complete(request)
}

/// Everybody's record, in rank order; records have one length.
pub(super) fn allgather<D: Driver>(driver: &D, comm: Handle, size: u32, record: &[u8]) -> Result<Vec<u8>> {
    let total = record.len() * size as usize;
    let room = Memory::packed_scratch(total);
    let call = Call::Allgather { bytes: record.len() as u64, in_place: false };
    run(driver, comm, &call, Arguments::new(memory_of(record), room.clone()), None)?;
    Ok(bytes_of(&room, total))
}

/// Everybody's record at rank 0, in rank order; empty elsewhere. Records differ in length.
pub(super) fn gather_to_first<D: Driver>(
    driver: &D,
    comm: Handle,
    size: u32,
    is_first: bool,
    record: &[u8],
) -> Result<Vec<Vec<u8>>> {
    let own = (record.len() as u64).to_le_bytes();
    let count = if is_first { size as usize } else { 0 };
    let room = Memory::packed_scratch(8 * count);
    let call = Call::Gather { root: 0, bytes: 8, in_place: false };
    run(driver, comm, &call, Arguments::new(memory_of(&own), room.clone()), None)?;
    let mut begin = 0;
    let blocks: Vec<Block> = bytes_of(&room, 8 * count)
        .chunks_exact(8)
        .map(|length| {
            let bytes = u64::from_le_bytes(std::array::from_fn(|byte| length[byte]));
            let block = Block { displacement: begin as i64, bytes };
            begin += bytes;
            block
        })
        .collect();
    let room = Memory::packed_scratch(begin as usize);
    let call = Call::Gatherv { root: 0, bytes: record.len() as u64, blocks: &blocks, in_place: false };
    run(driver, comm, &call, Arguments::new(memory_of(record), room.clone()), None)?;
    let all = bytes_of(&room, begin as usize);
    Ok(blocks
        .iter()
        .map(|block| {
            let begin = block.displacement as usize;
            all[begin..begin + block.bytes as usize].to_vec()
        })
        .collect())
}

/// What rank 0 says, `length` bytes.
pub(super) fn bcast<D: Driver>(
    driver: &D,
    comm: Handle,
    said: Option<&[u8]>,
    length: usize,
) -> Result<Vec<u8>> {
    let memory = said.map_or_else(|| Memory::packed_scratch(length), memory_of);
    let call = Call::Bcast { root: 0, bytes: length as u64 };
    run(driver, comm, &call, Arguments::new(Memory::none(), memory.clone()), None)?;
    Ok(bytes_of(&memory, length))
}

/// Starts the bitwise or of everybody's words, which is complete only when all have begun it; the memory holds the result.
pub(super) fn start_union<const N: usize>(
    process: &mut Process,
    comm: Handle,
    words: [u64; N],
) -> Result<(RequestId, Memory)> {
    let datatype = Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"));
    let memory = Memory::scratch(&datatype, N as u64)?;
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    let operation = Operation::Predefined(PredefinedOp::Bor.kernel(&datatype)?);
    let vector = Vector { count: N as u64, element: 8, commutative: true };
    let call = Call::Allreduce { vector, in_place: true };
    let arguments = Arguments::new(Memory::none(), memory.clone());
    let reduction = Some(Reduction { datatype, operation, name: "" });
    Ok((process.start_on_everyone(comm, &call, arguments, reduction)?, memory))
}

/// The result of [`start_union`] once it is complete.
pub(super) fn read_union<const N: usize>(memory: &Memory) -> [u64; N] {
    let bytes = bytes_of(memory, 8 * N);
    std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * word + byte])))
}

/// The bitwise or of everybody's words.
pub(super) fn union<D: Driver, const N: usize>(
    driver: &D,
    comm: Handle,
    words: [u64; N],
) -> Result<[u64; N]> {
    let (request, memory) = driver.with(|process| start_union(process, comm, words))?;
    driver.complete(request)?;
    Ok(read_union(&memory))
}
