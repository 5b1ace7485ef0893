//! Registered memory in equal parts, each for one message, and who has which; regions of the program's memory and operations on
//! them.

mod groups;

pub(crate) use groups::Half;

use crate::device::{Denied, Device, MOST_TOGETHER, MemoryRegion, Part};
use crate::operations::OperationId;
use crate::sys::{FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE, fi_context2};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use weft_api::verbs::Access;
use weft_api::zero_copy::{LocalRun, MemoryRange, Region, RegionId, RemoteMemory};
use weft_types::{Error, ErrorClass, Result};

/// Slots that are made at a time.
const BLOCK: u32 = 64;

/// A part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Its place among all slots.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an operation was known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It was on this slot.
    Slot(Slot),
    /// It was a piece of this operation on the program's memory.
    Piece(OperationId),
    /// A failed one that nobody keeps track of.
    Unknown,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Which.
    pub(crate) work: Work,
    /// Bytes received.
    pub(crate) bytes: usize,
    /// 0, or the error number.
    pub(crate) error: i64,
}

/// Who may touch a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Nobody: it is in the list of free ones.
    Nobody,
    /// This process.
    Us,
    /// The library, until the operation ends.
    Library,
}

/// What an operation is known by: the library writes into the first part and gives back the address.
#[repr(C)]
struct Context {
    scratch: UnsafeCell<fi_context2>,
    /// Of a slot: its index. Of a piece: its place in the list.
    index: u32,
    is_piece: bool,
}

impl Context {
    fn new(index: u32, is_piece: bool) -> Context {
        Context { scratch: UnsafeCell::new(fi_context2 { internal: [null_mut(); 8] }), index, is_piece }
    }
}

/// A range of the program's memory that was registered.
struct Registered {
    object: MemoryRegion,
    range: MemoryRange,
}

/// A piece of an operation: bytes of one run here and of one run there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) operation: OperationId,
    /// The peer's place in the address vector.
    pub(crate) to: u64,
    pub(crate) local: LocalRun,
    pub(crate) remote: RemoteMemory,
    pub(crate) put: bool,
}

/// What the library was given in one call: pieces, and the context that it tells of their end by, at an address of its own.
struct Begun {
    context: Box<Context>,
    operations: [OperationId; MOST_TOGETHER],
    count: usize,
}

/// Slots that were made together.
struct Block {
    // Closed before the memory goes.
    region: Option<MemoryRegion>,
    contexts: Box<[Context]>,
    memory: NonNull<u8>,
    layout: Layout,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: allocated with this layout, and given back once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

/// All slots of a device, and the device: it is closed before the memory goes.
pub(crate) struct Slots {
    device: Device,
    blocks: Vec<Block>,
    slot_bytes: usize,
    free: Vec<Slot>,
    holders: Vec<Holder>,
    /// Pieces under way, and places for others.
    pieces: Vec<Begun>,
    free_pieces: Vec<u32>,
    regions: Vec<Option<Registered>>,
    free_regions: Vec<u32>,
    groups: groups::Places,
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.groups.close();
        self.device.end();
        // A domain with open regions stays open.
        self.blocks.iter_mut().for_each(|block| block.region = None);
        self.regions.clear();
    }
}

// SAFETY: the memory and the contexts belong to the slots alone.
unsafe impl Send for Slots {}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slots({:?}, {} slots, {} free)", self.device, self.holders.len(), self.free.len())
    }
}

/// Whether an address is that of a slot's or a piece's context.
fn is_ours(context: *mut c_void, blocks: &[Block], pieces: &[Begun]) -> bool {
    let of_slot = |block: &Block| block.contexts.iter().any(|ours| std::ptr::eq(ours, context.cast()));
    blocks.iter().any(of_slot)
        || pieces.iter().any(|begun| std::ptr::eq(&raw const *begun.context, context.cast()))
}

impl Slots {
    /// No slots yet, each of `slot_bytes` when there are some.
    pub(crate) fn new(device: Device, slot_bytes: usize) -> Slots {
        Slots {
            device,
            blocks: Vec::new(),
            slot_bytes: slot_bytes.next_multiple_of(64),
            free: Vec::new(),
            holders: Vec::new(),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            regions: Vec::new(),
            free_regions: Vec::new(),
            groups: groups::Places::default(),
        }
    }

    pub(crate) fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    pub(crate) fn device_ref(&self) -> &Device {
        &self.device
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.holders.len()
    }

    /// How many are not free.
    pub(crate) fn in_use(&self) -> usize {
        self.holders.len() - self.free.len()
    }

    /// Makes more of them.
    ///
    /// # Errors
    /// No memory, or it cannot be registered.
    pub(crate) fn grow(&mut self) -> Result<()> {
        let bytes = self.slot_bytes * BLOCK as usize;
        let layout = Layout::from_size_align(bytes, 4096).expect("some pages");
        // SAFETY: the layout has bytes.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| {
            Error::new(
                ErrorClass::NO_MEM,
                format!("no memory for {BLOCK} messages of libfabric ({bytes} bytes)"),
            )
        })?;
        let first = self.holders.len() as u32;
        let contexts = (first..first + BLOCK).map(|slot| Context::new(slot, false)).collect();
        let mut block = Block { region: None, contexts, memory, layout };
        if self.device.registers_locally() {
            // SAFETY: the memory is freed after the region is closed (`Block::drop`).
            block.region = Some(unsafe {
                self.device.register(memory.as_ptr(), bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE)
            }?);
        }
        self.blocks.push(block);
        self.holders.resize(self.holders.len() + BLOCK as usize, Holder::Nobody);
        // Those with the lowest addresses are used first, so that memory is touched as it is needed.
        self.free.splice(0..0, (first..first + BLOCK).rev().map(Slot));
        Ok(())
    }

    /// A free one.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let slot = self.free.pop()?;
        self.holders[slot.0 as usize] = Holder::Us;
        Some(slot)
    }

    /// Gives one back that this process holds.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        assert_eq!(self.holders[slot.0 as usize], Holder::Us, "only what is held can be given back");
        self.holders[slot.0 as usize] = Holder::Nobody;
        self.free.push(slot);
    }

    fn parts(&self, slot: Slot) -> (*mut u8, *mut c_void, *mut c_void) {
        let block = &self.blocks[(slot.0 / BLOCK) as usize];
        let index = (slot.0 % BLOCK) as usize;
        // SAFETY: the index is below the number of slots in the block.
        let memory = unsafe { block.memory.as_ptr().add(index * self.slot_bytes) };
        // SAFETY: an open region.
        let descriptor =
            block.region.as_ref().map_or(null_mut(), |region| unsafe { (*region.raw()).mem_desc });
        let context = (&raw const block.contexts[index]).cast_mut().cast();
        (memory, descriptor, context)
    }

    /// The first bytes of a slot that this process holds.
    pub(crate) fn bytes(&self, slot: Slot, bytes: usize) -> &[u8] {
        assert!(self.holders[slot.0 as usize] == Holder::Us && bytes <= self.slot_bytes);
        // SAFETY: the library does not have it, it is that long, and was zero at first; who writes borrows all slots.
        unsafe { std::slice::from_raw_parts(self.parts(slot).0, bytes) }
    }

    /// The first bytes of a slot that this process holds, to be written.
    pub(crate) fn bytes_mut(&mut self, slot: Slot, bytes: usize) -> &mut [u8] {
        assert!(self.holders[slot.0 as usize] == Holder::Us && bytes <= self.slot_bytes);
        // SAFETY: as in `bytes`, and all slots are borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.parts(slot).0, bytes) }
    }

    /// Posts a slot for a message to come.
    pub(crate) fn receive(&mut self, slot: Slot) -> std::result::Result<(), Denied> {
        assert_eq!(self.holders[slot.0 as usize], Holder::Us);
        let (room, descriptor, context) = self.parts(slot);
        // SAFETY: the slot and its context are left alone until the operation has ended (`Holder::Library`), and outlive the
        // device.
        unsafe { self.device.receive(room, self.slot_bytes, descriptor, context) }?;
        self.holders[slot.0 as usize] = Holder::Library;
        Ok(())
    }

    /// Sends what lies in a slot.
    pub(crate) fn send(&mut self, slot: Slot, bytes: usize, to: u64) -> std::result::Result<(), Denied> {
        assert!(self.holders[slot.0 as usize] == Holder::Us && bytes <= self.slot_bytes);
        let (message, descriptor, context) = self.parts(slot);
        // SAFETY: as in `receive`.
        unsafe { self.device.send(message, bytes, descriptor, to, context) }?;
        self.holders[slot.0 as usize] = Holder::Library;
        Ok(())
    }

    /// Sends the first bytes of a slot that this process holds, at most what may be injected; it stays ours.
    pub(crate) fn inject(&mut self, slot: Slot, bytes: usize, to: u64) -> std::result::Result<(), Denied> {
        assert!(self.holders[slot.0 as usize] == Holder::Us && bytes <= self.slot_bytes);
        let (message, ..) = self.parts(slot);
        // SAFETY: as in `bytes`; nobody writes there before the call is over.
        self.device.inject(unsafe { std::slice::from_raw_parts(message, bytes) }, to)
    }

    /// Lets the provider work, and takes what has ended, in order. The slots are ours again.
    pub(crate) fn poll(&mut self, done: &mut Vec<Done>) {
        let Slots { device, blocks, holders, pieces, free_pieces, .. } = self;
        device.poll(|ended| {
            let (bytes, error) = (ended.bytes, ended.error);
            let work =
                if ended.context.is_null() || ended.error != 0 && !is_ours(ended.context, blocks, pieces) {
                    Work::Unknown
                } else {
                    // SAFETY: every context that is given to the library is one of ours, which live as long as the device.
                    // Failures of what was injected have none, and what a provider shows there instead was looked at.
                    let context = unsafe { &*ended.context.cast::<Context>() };
                    if context.is_piece {
                        free_pieces.push(context.index);
                        let begun = &pieces[context.index as usize];
                        let pieces = begun.operations[..begun.count].iter();
                        done.extend(pieces.map(|&piece| Done { work: Work::Piece(piece), bytes, error }));
                        return;
                    } else {
                        holders[context.index as usize] = Holder::Us;
                        Work::Slot(Slot(context.index))
                    }
                };
            done.push(Done { work, bytes, error });
        });
    }

    /// Registers memory of the program; see [`weft_api::zero_copy`] for who promises that it is there.
    pub(crate) fn register(&mut self, range: MemoryRange, access: Access) -> Result<Region> {
        let mut rights = FI_READ | FI_WRITE;
        if access.remote_read || access.remote_atomic {
            rights |= FI_REMOTE_READ;
        }
        if access.remote_write || access.remote_atomic {
            rights |= FI_REMOTE_WRITE;
        }
        // Providers refuse regions of no bytes.
        let bytes = range.length.max(1) as usize;
        // SAFETY: whoever registers promises that the memory stays until the region is given back.
        let object = unsafe { self.device.register(range.address as *mut u8, bytes, rights) }?;
        let remote = self.device.remote_name(&object, range.address);
        let entry = Some(Registered { object, range });
        let id = match self.free_regions.pop() {
            Some(id) => {
                self.regions[id as usize] = entry;
                id
            }
            None => {
                self.regions.push(entry);
                self.regions.len() as u32 - 1
            }
        };
        Ok(Region { id: RegionId(id), remote })
    }

    /// Gives a region back.
    pub(crate) fn deregister(&mut self, id: RegionId) {
        if self.regions.get_mut(id.0 as usize).and_then(Option::take).is_some() {
            self.free_regions.push(id.0);
        }
    }

    /// The descriptor of a run; `None` for one that is not in its region, where that must be.
    fn descriptor(&self, run: &LocalRun) -> Option<*mut c_void> {
        if !self.device.registers_locally() {
            return Some(null_mut());
        }
        let region = self.regions.get(run.region.0 as usize)?.as_ref()?;
        let end = region.range.end()?;
        let inside = run.address >= region.range.address && run.address.checked_add(run.length)? <= end;
        // SAFETY: an open region.
        inside.then(|| unsafe { (*region.object.raw()).mem_desc })
    }

    /// Calls by which the library was given pieces that have not ended.
    pub(crate) fn pieces_under_way(&self) -> usize {
        self.pieces.len() - self.free_pieces.len()
    }

    /// Begins pieces by one call of the library: one, or several reads of one peer's memory, at most [`MOST_TOGETHER`].
    pub(crate) fn begin(&mut self, pieces: &[Piece]) -> std::result::Result<(), Denied> {
        let first = pieces[0];
        debug_assert!(pieces.len() == 1 || pieces.iter().all(|piece| !piece.put && piece.to == first.to));
        let nothing = Part {
            room: null_mut(),
            bytes: 0,
            descriptor: null_mut(),
            there: RemoteMemory { address: 0, key: 0 },
        };
        let (mut parts, mut operations) = ([nothing; MOST_TOGETHER], [first.operation; MOST_TOGETHER]);
        for (at, piece) in pieces.iter().enumerate() {
            let descriptor = self.descriptor(&piece.local).ok_or(Denied::Failed(i64::from(libc::EACCES)))?;
            let (room, bytes) = (piece.local.address as *mut u8, piece.local.length as usize);
            parts[at] = Part { room, bytes, descriptor, there: piece.remote };
            operations[at] = piece.operation;
        }
        let place = match self.free_pieces.pop() {
            Some(place) => place,
            None => {
                let place = self.pieces.len() as u32;
                let context = Box::new(Context::new(place, true));
                self.pieces.push(Begun { context, operations, count: 0 });
                place
            }
        };
        let entry = &mut self.pieces[place as usize];
        (entry.operations, entry.count) = (operations, pieces.len());
        let context = (&raw mut *entry.context).cast();
        let Part { room, bytes, descriptor, there } = parts[0];
        // SAFETY: whoever gives a run to an operation promises that its bytes are there, and left alone, until the operation is
        // over; the context is not used again before its end.
        let begun = unsafe {
            if first.put {
                self.device.write(room, bytes, descriptor, (first.to, there), context)
            } else if pieces.len() == 1 {
                self.device.read(room, bytes, descriptor, (first.to, there), context)
            } else {
                self.device.read_together(&parts[..pieces.len()], first.to, context)
            }
        };
        if begun.is_err() {
            self.free_pieces.push(place);
        }
        begun
    }

    /// Writes what lies in a slot to memory of another process.
    pub(crate) fn write(
        &mut self,
        slot: Slot,
        bytes: usize,
        to: u64,
        remote: RemoteMemory,
    ) -> std::result::Result<(), Denied> {
        assert!(self.holders[slot.index()] == Holder::Us && bytes <= self.slot_bytes);
        let (source, descriptor, context) = self.parts(slot);
        // SAFETY: as in `receive`.
        unsafe { self.device.write(source, bytes, descriptor, (to, remote), context) }?;
        self.holders[slot.index()] = Holder::Library;
        Ok(())
    }

    /// An atomic operation with the numbers in a slot; see [`Device::atomic`].
    pub(crate) fn atomic(
        &mut self,
        slot: Slot,
        compares: bool,
        to: u64,
        remote: RemoteMemory,
    ) -> std::result::Result<(), Denied> {
        assert!(self.holders[slot.index()] == Holder::Us && self.slot_bytes >= 24);
        let (numbers, descriptor, context) = self.parts(slot);
        // SAFETY: as in `receive`; slots begin at multiples of 64 bytes.
        unsafe { self.device.atomic(numbers.cast(), compares, descriptor, (to, remote), context) }?;
        self.holders[slot.index()] = Holder::Library;
        Ok(())
    }
}
