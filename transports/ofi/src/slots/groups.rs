//! Groups of collectives as far as they are memory: the endpoint, the room that its operation works on, and the operation's
//! context.
//!
//! What the library works on is never the program's memory: an operation that a lost member leaves without an end could write
//! there at any time. Its room goes when the endpoint is closed, and its context, which the library might still look at, stays
//! until the device is.

use super::Slots;
use crate::abilities::Stage;
use crate::device::{Denied, GroupEndpoint, MemoryRegion, Operands};
use crate::sys::fi_context2;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};
use weft_api::offload::{Joining, Piece};
use weft_types::{Error, ErrorClass, Result};

/// Room that a group keeps for its next operation, in bytes; what is longer goes after each.
const KEPT: usize = 64 << 10;

/// Memory for two operands of equal length.
struct Room {
    // Closed before the memory goes.
    region: Option<MemoryRegion>,
    memory: NonNull<u8>,
    layout: Layout,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: allocated with this layout, and given back once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

/// A group's place.
struct Place {
    endpoint: Option<GroupEndpoint>,
    room: Option<Room>,
    /// The library writes into it and gives back the address.
    context: Box<UnsafeCell<fi_context2>>,
    /// The library has the room and the context.
    busy: bool,
    /// Somebody has its number, also of a group that has ended.
    taken: bool,
}

impl Place {
    /// Ends what the library does, then takes the room from it.
    fn close(&mut self) {
        if let Some(room) = &mut self.room
            && self.endpoint.as_ref().is_some_and(GroupEndpoint::holds_regions)
        {
            // Providers whose regions are bound to the endpoint want those closed first (fi_mr(3)).
            room.region = None;
        }
        self.endpoint = None;
        self.room = None;
    }
}

/// All groups; a place whose operation never ended is not used again.
#[derive(Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    pub(super) fn close(&mut self) {
        self.0.iter_mut().for_each(Place::close);
    }
}

/// One of the two halves of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// What is reduced.
    Operand,
    /// The outcome, and what is broadcast.
    Result,
}

impl Slots {
    /// Opens an endpoint for a group of so many members. Gives its place and its address.
    ///
    /// # Errors
    /// What the provider refused.
    pub(crate) fn open_group(&mut self, members: usize) -> Result<(u32, Vec<u8>)> {
        let (endpoint, name) = self.device.open_group(members)?;
        let places = &mut self.groups.0;
        let free = places.iter().position(|place| !(place.taken || place.busy));
        let at = free.unwrap_or(places.len());
        if free.is_none() {
            let context = Box::new(UnsafeCell::new(fi_context2 { internal: [null_mut(); 8] }));
            places.push(Place { endpoint: None, room: None, context, busy: false, taken: false });
        }
        (places[at].endpoint, places[at].taken) = (Some(endpoint), true);
        Ok((at as u32, name))
    }

    /// Begins to join the others; the addresses are of this provider, in the order of ranks.
    ///
    /// # Errors
    /// What the provider refused.
    pub(crate) fn join_group(&mut self, place: u32, cards: &[&[u8]]) -> Result<()> {
        let endpoint = self.groups.0[place as usize].endpoint.as_mut().expect("an open group");
        self.device.join_group(endpoint, cards)
    }

    /// Whether all have joined.
    pub(crate) fn has_joined(&mut self, place: u32) -> Joining {
        let endpoint = self.groups.0[place as usize].endpoint.as_mut().expect("an open group");
        self.device.has_joined(endpoint)
    }

    /// Lets the provider work in a group, and looks whether its call has ended: 0, or the error number.
    pub(crate) fn poll_group(&mut self, place: u32) -> Option<i64> {
        let of = &mut self.groups.0[place as usize];
        let ended = of.endpoint.as_mut()?.poll(of.context.get().cast());
        let ended = ended.filter(|_| of.busy)?;
        // What has failed may still be the library's.
        of.busy = ended != 0;
        Some(ended)
    }

    /// Closes a group, and with it what it has begun.
    pub(crate) fn close_group(&mut self, place: u32) {
        self.groups.0[place as usize].close();
    }

    /// Closes a group whose number nobody has any more.
    pub(crate) fn release_group(&mut self, place: u32) {
        self.close_group(place);
        self.groups.0[place as usize].taken = false;
    }

    /// Makes room for two operands of so many bytes.
    ///
    /// # Errors
    /// No memory, or it cannot be registered.
    pub(crate) fn make_room(&mut self, place: u32, bytes: usize) -> Result<()> {
        let half = bytes.max(64).next_multiple_of(64);
        let of = &mut self.groups.0[place as usize];
        assert!(!of.busy, "one operation at a time");
        if of.room.as_ref().is_some_and(|room| room.layout.size() >= 2 * half) {
            return Ok(());
        }
        of.room = None;
        let layout = Layout::from_size_align(2 * half, 4096).expect("at most a few MiB");
        // SAFETY: the layout has bytes.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| {
            Error::new(ErrorClass::NO_MEM, format!("no memory for a collective of {bytes} bytes"))
        })?;
        let mut room = Room { region: None, memory, layout };
        let endpoint = of.endpoint.as_ref().expect("an open group");
        // SAFETY: the memory is freed after the region is closed (`Room::drop`), and the room before or with the endpoint
        // (`Place::close`).
        room.region = unsafe { self.device.register_for_group(endpoint, memory.as_ptr(), layout.size()) }?;
        of.room = Some(room);
        Ok(())
    }

    /// Lets a long room go.
    pub(crate) fn trim_room(&mut self, place: u32) {
        let of = &mut self.groups.0[place as usize];
        if !of.busy && of.room.as_ref().is_some_and(|room| room.layout.size() > KEPT) {
            of.room = None;
        }
    }

    /// The first bytes of a half of the room.
    fn half(&mut self, place: u32, half: Half, bytes: usize) -> &mut [u8] {
        let of = &mut self.groups.0[place as usize];
        assert!(!of.busy, "the library has it");
        let room = of.room.as_mut().expect("room was made");
        let middle = room.layout.size() / 2;
        assert!(bytes <= middle);
        let at = if half == Half::Operand { 0 } else { middle };
        // SAFETY: the room has two halves of this length, was zero at first, and is neither the library's nor anybody else's.
        unsafe { std::slice::from_raw_parts_mut(room.memory.as_ptr().add(at), bytes) }
    }

    /// Copies an operand into the room.
    pub(crate) fn bring(&mut self, place: u32, half: Half, from: Piece) {
        let bytes = from.bytes as usize;
        if bytes == 0 {
            return;
        }
        let into = self.half(place, half, bytes).as_mut_ptr();
        // SAFETY: the memory of a program that was handed over is there until its end is told (`weft_api::offload`), and is
        // none of ours.
        unsafe { std::ptr::copy_nonoverlapping(from.address as *const u8, into, bytes) }
    }

    /// Copies the outcome out of the room.
    pub(crate) fn fetch(&mut self, place: u32, into: Piece) {
        let bytes = into.bytes as usize;
        if bytes == 0 {
            return;
        }
        let from = self.half(place, Half::Result, bytes).as_ptr();
        // SAFETY: as in `bring`, and it may be written.
        unsafe { std::ptr::copy_nonoverlapping(from, into.address as *mut u8, bytes) }
    }

    /// Begins one call of the provider on the operands in the room.
    pub(crate) fn begin_in_group(&mut self, place: u32, stage: Stage) -> std::result::Result<(), Denied> {
        let of = &mut self.groups.0[place as usize];
        assert!(!of.busy, "one operation at a time");
        let (Some(endpoint), Some(room)) = (&mut of.endpoint, &of.room) else {
            unreachable!("an open group with room for its operation")
        };
        let operand = room.memory.as_ptr();
        // SAFETY: the second half begins inside the room.
        let result = unsafe { operand.add(room.layout.size() / 2) };
        // SAFETY: an open region.
        let descriptor =
            room.region.as_ref().map_or(null_mut(), |region| unsafe { (*region.raw()).mem_desc });
        let context = of.context.get().cast();
        // SAFETY: room was made for the longest stage; nobody touches it before the end (`busy`), and it goes after the
        // endpoint is closed; the context stays as long as the device.
        unsafe { endpoint.begin(stage, Operands { operand, result, descriptor }, context) }?;
        of.busy = true;
        Ok(())
    }
}
