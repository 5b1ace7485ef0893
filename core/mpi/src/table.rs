//! Object tables: a slot and a generation for every handle made at run time.
//!
//! Freed slots are reused oldest first, so that a stale handle stays recognisable for as long as possible: its
//! slot must be made and freed 128 times before the number repeats.

use std::collections::{BTreeMap, VecDeque};
use weft_types::{Error, ErrorClass, Handle, HandleKind, Result, abi};

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: HandleKind,
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    /// Where objects were made, by slot; `None` unless somebody wants to know.
    places: Option<Box<Places>>,
}

#[derive(Debug)]
struct Places {
    place: fn() -> String,
    known: BTreeMap<u32, String>,
}

#[derive(Debug)]
struct Slot<T> {
    /// The handle of the object here, or of the next one to come.
    handle: Handle,
    value: Option<T>,
}

impl<T> Table<T> {
    /// An empty table of `kind`.
    pub const fn new(kind: HandleKind) -> Table<T> {
        Table { kind, slots: Vec::new(), free: VecDeque::new(), places: None }
    }

    /// Keeps `value` and names it.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when 2^20 objects of this kind are alive.
    pub fn insert(&mut self, value: T) -> Result<Handle> {
        let handle = self.keep(value)?;
        if let Some(places) = &mut self.places {
            places.known.insert(handle.slot(), (places.place)());
        }
        Ok(handle)
    }

    /// From now on remembers what `place` says whenever an object is made.
    pub fn remember_places(&mut self, place: fn() -> String) {
        self.places = Some(Box::new(Places { place, known: BTreeMap::new() }));
    }

    /// Where the object that `handle` names was made, if that was remembered.
    pub fn site(&self, handle: Handle) -> Option<&str> {
        self.places.as_ref()?.known.get(&handle.slot()).map(String::as_str)
    }

    fn keep(&mut self, value: T) -> Result<Handle> {
        if let Some(slot) = self.free.pop_front() {
            let entry = &mut self.slots[slot as usize];
            entry.value = Some(value);
            return Ok(entry.handle);
        }
        let slot = self.slots.len() as u32;
        if slot == Handle::SLOTS {
            return Err(Error::new(
                ErrorClass::NO_MEM,
                format!(
                    "{} objects of type {} are alive, the most there can be; free those that are no longer used",
                    Handle::SLOTS,
                    self.kind.c_name()
                ),
            ));
        }
        let handle = Handle::new(self.kind, 0, slot);
        self.slots.push(Slot { handle, value: Some(value) });
        Ok(handle)
    }

    /// The object `handle` names; `None` when it names none.
    #[inline]
    pub fn find(&self, handle: Handle) -> Option<&T> {
        // One comparison tells kind, generation and slot.
        let slot = self.slots.get(handle.slot() as usize)?;
        if slot.handle == handle { slot.value.as_ref() } else { None }
    }

    /// As [`Table::find`], to change the object.
    #[inline]
    pub fn find_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle.slot() as usize)?;
        if slot.handle == handle { slot.value.as_mut() } else { None }
    }

    /// The object `handle` names.
    ///
    /// # Errors
    /// The kind's error class, with kind, value and reason.
    #[inline]
    pub fn get(&self, handle: Handle) -> Result<&T> {
        match self.find(handle) {
            Some(value) => Ok(value),
            None => Err(self.explain(handle)),
        }
    }

    /// As [`Table::get`], to change the object.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut T> {
        if self.find(handle).is_none() {
            return Err(self.explain(handle));
        }
        Ok(self.find_mut(handle).expect("found just now"))
    }

    /// Takes the object out; from now on `handle` is stale.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn remove(&mut self, handle: Handle) -> Result<T> {
        if self.find(handle).is_none() {
            return Err(self.explain(handle));
        }
        let slot = &mut self.slots[handle.slot() as usize];
        slot.handle = Handle::new(self.kind, handle.generation() + 1, handle.slot());
        self.free.push_back(handle.slot());
        Ok(slot.value.take().expect("found just now"))
    }

    /// Every object alive with its handle.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref().map(|value| (slot.handle, value)))
    }

    /// As [`Table::iter`], to change the objects.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut().map(|value| (slot.handle, value)))
    }

    /// Number of objects alive.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no object is alive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[cold]
    #[inline(never)]
    fn explain(&self, handle: Handle) -> Error {
        let made = self.slots.get(handle.slot() as usize).is_some();
        stale(self.kind, handle, made)
    }
}

/// The error for a handle that names nothing of `expected`; `slot_was_made` tells a freed handle from one that never was.
#[cold]
#[inline(never)]
pub fn stale(expected: HandleKind, handle: Handle, slot_was_made: bool) -> Error {
    let c_name = expected.c_name();
    let reason = if handle.0 == 0 {
        "is a null pointer or not a handle at all; was the variable ever set?".to_owned()
    } else if handle.is_predefined() {
        match predefined_name(handle) {
            Some((kind, name)) if kind == expected && name.ends_with("_NULL") => {
                format!(
                    "is {name}, which names no object; was the object freed, or is this process not a member?"
                )
            }
            Some((kind, name)) if kind == expected => format!("is {name}, which cannot be used here"),
            Some((kind, name)) => format!("is {name}, of type {}", kind.c_name()),
            None => "lies in the range of predefined handles but is none".to_owned(),
        }
    } else if handle.kind_bits() == expected as u32 {
        if slot_was_made {
            "was freed, or completed, before this call".to_owned()
        } else {
            "was never made by this process".to_owned()
        }
    } else {
        match kind_of_bits(handle.kind_bits()) {
            Some(kind) => format!("is of type {}", kind.c_name()),
            None => "is not a handle made by this library".to_owned(),
        }
    };
    Error::new(class_of(expected), format!("the {c_name} handle {:#x} {reason}", handle.0))
}

/// The error class of a bad handle of `kind` (section 9.4).
pub const fn class_of(kind: HandleKind) -> ErrorClass {
    match kind {
        HandleKind::Comm => ErrorClass::COMM,
        HandleKind::Datatype => ErrorClass::TYPE,
        HandleKind::Errhandler => ErrorClass::ERRHANDLER,
        HandleKind::File => ErrorClass::FILE,
        HandleKind::Group => ErrorClass::GROUP,
        HandleKind::Info => ErrorClass::INFO,
        HandleKind::Op => ErrorClass::OP,
        HandleKind::Message
        | HandleKind::LaneMessage
        | HandleKind::Request
        | HandleKind::LocalRequest
        | HandleKind::LaneRequest => ErrorClass::REQUEST,
        HandleKind::Session => ErrorClass::SESSION,
        HandleKind::Win => ErrorClass::WIN,
    }
}

fn kind_of_bits(bits: u32) -> Option<HandleKind> {
    const KINDS: [HandleKind; 14] = [
        HandleKind::Comm,
        HandleKind::Datatype,
        HandleKind::Errhandler,
        HandleKind::File,
        HandleKind::Group,
        HandleKind::Info,
        HandleKind::Message,
        HandleKind::Op,
        HandleKind::Request,
        HandleKind::Session,
        HandleKind::Win,
        HandleKind::LocalRequest,
        HandleKind::LaneRequest,
        HandleKind::LaneMessage,
    ];
    KINDS.into_iter().find(|&kind| kind as u32 == bits)
}

/// Kind and name of a predefined handle that is not a datatype or operation in use; `None` for a hole in the range.
fn predefined_name(handle: Handle) -> Option<(HandleKind, String)> {
    let named = [
        (abi::MPI_COMM_NULL, HandleKind::Comm, "MPI_COMM_NULL"),
        (abi::MPI_COMM_WORLD, HandleKind::Comm, "MPI_COMM_WORLD"),
        (abi::MPI_COMM_SELF, HandleKind::Comm, "MPI_COMM_SELF"),
        (abi::MPI_GROUP_NULL, HandleKind::Group, "MPI_GROUP_NULL"),
        (abi::MPI_GROUP_EMPTY, HandleKind::Group, "MPI_GROUP_EMPTY"),
        (abi::MPI_WIN_NULL, HandleKind::Win, "MPI_WIN_NULL"),
        (abi::MPI_FILE_NULL, HandleKind::File, "MPI_FILE_NULL"),
        (abi::MPI_SESSION_NULL, HandleKind::Session, "MPI_SESSION_NULL"),
        (abi::MPI_MESSAGE_NULL, HandleKind::Message, "MPI_MESSAGE_NULL"),
        (abi::MPI_MESSAGE_NO_PROC, HandleKind::Message, "MPI_MESSAGE_NO_PROC"),
        (abi::MPI_INFO_NULL, HandleKind::Info, "MPI_INFO_NULL"),
        (abi::MPI_INFO_ENV, HandleKind::Info, "MPI_INFO_ENV"),
        (abi::MPI_ERRHANDLER_NULL, HandleKind::Errhandler, "MPI_ERRHANDLER_NULL"),
        (abi::MPI_ERRORS_ARE_FATAL, HandleKind::Errhandler, "MPI_ERRORS_ARE_FATAL"),
        (abi::MPI_ERRORS_ABORT, HandleKind::Errhandler, "MPI_ERRORS_ABORT"),
        (abi::MPI_ERRORS_RETURN, HandleKind::Errhandler, "MPI_ERRORS_RETURN"),
        (abi::MPI_REQUEST_NULL, HandleKind::Request, "MPI_REQUEST_NULL"),
        (abi::MPI_OP_NULL, HandleKind::Op, "MPI_OP_NULL"),
        (abi::MPI_DATATYPE_NULL, HandleKind::Datatype, "MPI_DATATYPE_NULL"),
    ];
    if let Some((_, kind, name)) = named.into_iter().find(|(value, ..)| *value == handle.0) {
        return Some((kind, name.to_owned()));
    }
    match handle.0 {
        0x20..=0x3f => Some((HandleKind::Op, "a predefined operation".to_owned())),
        0x200..=0x3ff => Some((HandleKind::Datatype, "a predefined datatype".to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_found_even_when_its_slot_is_used_again() {
        let mut table = Table::new(HandleKind::Group);
        let first = table.insert("first").expect("room");
        assert_eq!(table.get(first).ok(), Some(&"first"));
        table.remove(first).expect("alive");
        let second = table.insert("second").expect("room");
        assert_eq!(second.slot(), first.slot());
        assert_eq!(table.get(second).ok(), Some(&"second"));
        let error = table.get(first).expect_err("stale");
        assert_eq!(error.class(), ErrorClass::GROUP);
        assert!(error.text().contains("was freed"), "{error}");
        assert!(table.remove(first).is_err());
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn foreign_handles_are_named_with_kind_value_and_reason() {
        let mut table: Table<()> = Table::new(HandleKind::Comm);
        let group = Handle::new(HandleKind::Group, 0, 0);
        for (handle, reason) in [
            (Handle(0), "was the variable ever set"),
            (Handle(abi::MPI_COMM_NULL), "MPI_COMM_NULL"),
            (Handle(abi::MPI_SUM), "of type MPI_Op"),
            (Handle(abi::MPI_INT), "of type MPI_Datatype"),
            (Handle(abi::MPI_GROUP_EMPTY), "MPI_GROUP_EMPTY, of type MPI_Group"),
            (group, "is of type MPI_Group"),
            (Handle::new(HandleKind::Comm, 0, 5), "was never made"),
            (Handle(15 << 27), "is not a handle"),
            (Handle(77), "range of predefined handles"),
        ] {
            let error = table.get_mut(handle).expect_err("names nothing");
            assert_eq!(error.class(), ErrorClass::COMM);
            assert!(error.text().contains(reason), "{error} should contain {reason:?}");
            assert!(error.text().contains(&format!("{:#x}", handle.0)), "{error} should name the value");
        }
    }

    #[test]
    fn freed_slots_are_reused_oldest_first() {
        let mut table = Table::new(HandleKind::Op);
        let handles: Vec<Handle> = (0..3).map(|i| table.insert(i).expect("room")).collect();
        table.remove(handles[1]).expect("alive");
        table.remove(handles[0]).expect("alive");
        assert_eq!(table.insert(7).expect("room").slot(), 1);
        assert_eq!(table.insert(8).expect("room").slot(), 0);
        assert_eq!(table.iter().map(|(_, &value)| value).collect::<Vec<_>>(), [8, 7, 2]);
    }
}
