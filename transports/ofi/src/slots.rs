//! Registered memory in equal parts, each for one message, and who has which.

use crate::device::{Denied, Device, Ended, Object};
use crate::sys::{FI_RECV, FI_SEND, fi_context2, fid_mr};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
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
    slot: u32,
}

/// Slots that were made together.
struct Block {
    // Closed before the memory goes.
    region: Option<Object<fid_mr>>,
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
}

impl Drop for Slots {
    fn drop(&mut self) {
        // A domain with open regions stays open.
        self.blocks.iter_mut().for_each(|block| block.region = None);
    }
}

// SAFETY: the memory and the contexts belong to the slots alone.
unsafe impl Send for Slots {}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slots({:?}, {} slots, {} free)", self.device, self.holders.len(), self.free.len())
    }
}

impl Slots {
    /// No slots yet, each of `slot_bytes` when there are some.
    pub(crate) fn new(device: Device, slot_bytes: usize) -> Slots {
        Slots { device, blocks: Vec::new(), slot_bytes, free: Vec::new(), holders: Vec::new() }
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
        let context =
            |slot| Context { scratch: UnsafeCell::new(fi_context2 { internal: [null_mut(); 8] }), slot };
        let contexts = (first..first + BLOCK).map(context).collect();
        let mut block = Block { region: None, contexts, memory, layout };
        if self.device.registers_locally() {
            // SAFETY: the memory is freed after the region is closed (`Block::drop`).
            block.region = Some(unsafe { self.device.register(memory.as_ptr(), bytes, FI_SEND | FI_RECV) }?);
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
        // SAFETY: the slot and its context are left alone until the operation has ended (`Holder::Library`), and outlive the device.
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

    /// The slot of an operation that has ended, which is ours again. `None` for one without a slot.
    pub(crate) fn ended(&mut self, ended: &Ended) -> Option<Slot> {
        if ended.context.is_null() {
            return None;
        }
        // SAFETY: every context that is given to the library is one of ours, which live as long as the device.
        let slot = Slot(unsafe { (*ended.context.cast::<Context>()).slot });
        self.holders[slot.0 as usize] = Holder::Us;
        Some(slot)
    }
}
