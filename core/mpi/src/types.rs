//! Handles of datatypes, and what hangs on them: names (sections 5.1, 7.8).

use crate::comm::Changes;
use crate::table::{Table, stale};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_datatype::{Datatype, Unnamed};
use weft_types::{Error, ErrorClass, Handle, HandleKind, Result, abi};

/// First value of the predefined datatypes and the number of values reserved for them.
const FIRST: u32 = abi::MPI_DATATYPE_NULL;
const RESERVED: usize = 512;

/// What hangs on a datatype.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The name (section 7.8).
    pub name: Box<[u8]>,
}

#[derive(Debug)]
struct Derived {
    datatype: Datatype,
    extras: Extras,
}

/// All datatypes of the process.
#[derive(Debug)]
pub struct Types {
    predefined: Box<[Option<Datatype>]>,
    /// Bytes of the predefined types whose elements are gap-free; 0 for all other values.
    plain: Box<[u16; RESERVED]>,
    derived: Table<Derived>,
    /// The handles of the predefined types without a name that were asked for: each is made once (section 19.1.9).
    unnamed: BTreeMap<Unnamed, Handle>,
    /// What programs hung on predefined types.
    hung: BTreeMap<u32, Extras>,
    /// Counts what makes snapshots stale.
    changes: Arc<Changes>,
}

impl Default for Types {
    fn default() -> Types {
        let predefined = (FIRST..FIRST + RESERVED as u32)
            .map(|value| Datatype::predefined(value).map(Datatype::from))
            .collect();
        let plain = Box::new(std::array::from_fn(|index| {
            Datatype::predefined(FIRST + index as u32)
                .filter(|predefined| predefined.is_supported() && predefined.is_contiguous())
                .map_or(0, |predefined| predefined.size() as u16)
        }));
        let derived = Table::new(HandleKind::Datatype);
        let (unnamed, hung) = (BTreeMap::new(), BTreeMap::new());
        Types { predefined, plain, derived, unnamed, hung, changes: Arc::default() }
    }
}

impl Types {
    /// As the default, with removals counted there.
    pub fn following(changes: &Arc<Changes>) -> Types {
        Types { changes: Arc::clone(changes), ..Types::default() }
    }

    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&mut self, place: fn() -> String) {
        self.derived.remember_places(place);
    }

    /// Name of each datatype that was made and not freed, and where it was made, if that was remembered.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&[u8], Option<&str>)> {
        let freeable = self.derived.iter().filter(|&(handle, _)| self.check_freeable(handle).is_ok());
        freeable.map(|(handle, derived)| (&*derived.extras.name, self.derived.site(handle)))
    }

    /// The datatype of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` with kind, value and reason.
    #[inline]
    pub fn get(&self, handle: Handle) -> Result<&Datatype> {
        let index = handle.0.wrapping_sub(FIRST) as usize;
        if let Some(Some(datatype)) = self.predefined.get(index) {
            return Ok(datatype);
        }
        match self.derived.find(handle) {
            Some(derived) => Ok(&derived.datatype),
            None => Err(self.explain(handle)),
        }
    }

    /// Bytes of an element of a predefined type whose elements are gap-free, by the value of the handle as programs hold it;
    /// at most 64.
    #[inline(always)]
    pub fn plain_size(&self, raw: usize) -> Option<usize> {
        let size = *self.plain.get(raw.wrapping_sub(FIRST as usize))?;
        if size == 0 { None } else { Some(usize::from(size)) }
    }

    /// Bytes of `count` elements, when they are one gap-free run of a predefined type: the hot path's only question.
    #[inline(always)]
    pub fn plain_bytes(&self, handle: Handle, count: i64) -> Option<usize> {
        let size = *self.plain.get(handle.0.wrapping_sub(FIRST) as usize)?;
        if size == 0 {
            return None;
        }
        (count as usize).checked_mul(usize::from(size))
    }

    /// The datatype of a handle, usable in communication: supported here and committed.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    #[inline]
    pub fn usable(&self, handle: Handle) -> Result<&Datatype> {
        let datatype = self.get(handle)?;
        datatype.check_usable()?;
        Ok(datatype)
    }

    /// Names a new datatype.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn insert(&mut self, datatype: Datatype) -> Result<Handle> {
        if let Some(predefined) = datatype.as_predefined() {
            return Ok(Handle(predefined.handle()));
        }
        self.derived.insert(Derived { datatype, extras: Extras::default() })
    }

    /// The handle of a predefined type without a name; always the same.
    ///
    /// # Errors
    /// As [`Unnamed::make`] and [`Table::insert`].
    pub fn unnamed(&mut self, name: Unnamed) -> Result<Handle> {
        if let Some(&handle) = self.unnamed.get(&name) {
            return Ok(handle);
        }
        let handle = self.insert(name.make()?)?;
        self.unnamed.insert(name, handle);
        Ok(handle)
    }

    /// Fails unless the datatype can be freed: it is derived.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for a bad handle or a predefined type.
    pub fn check_freeable(&self, handle: Handle) -> Result<()> {
        let datatype = self.get(handle)?;
        if !datatype.is_predefined() {
            return Ok(());
        }
        let name = datatype.as_predefined().map_or("the datatype", |predefined| predefined.name());
        Err(Error::new(ErrorClass::TYPE, format!("{name} is predefined and cannot be freed (section 5.1.9)")))
    }

    /// Frees a datatype (`MPI_Type_free`); communication that uses it continues.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for a bad handle or a predefined type.
    pub fn remove(&mut self, handle: Handle) -> Result<Extras> {
        self.check_freeable(handle)?;
        self.changes.add();
        Ok(self.derived.remove(handle)?.extras)
    }

    /// What hangs on a datatype, to change it.
    ///
    /// # Errors
    /// As [`Types::get`].
    pub fn extras_mut(&mut self, handle: Handle) -> Result<&mut Extras> {
        if let Some(predefined) = self.get(handle)?.as_predefined() {
            return Ok(self
                .hung
                .entry(predefined.handle())
                .or_insert_with(|| Extras { name: predefined.name().as_bytes().into() }));
        }
        Ok(&mut self.derived.get_mut(handle)?.extras)
    }

    /// The handle of a datatype: itself when predefined, a new reference otherwise.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn handle_of(&mut self, datatype: &Datatype) -> Result<Handle> {
        if let Some(name) = datatype.unnamed() {
            return self.unnamed(name);
        }
        self.insert(datatype.clone())
    }

    /// Number of derived datatypes alive.
    pub fn alive(&self) -> usize {
        self.derived.len() - self.unnamed.len()
    }

    #[cold]
    #[inline(never)]
    fn explain(&self, handle: Handle) -> Error {
        match self.derived.get(handle) {
            Err(error) => error,
            Ok(_) => stale(HandleKind::Datatype, handle, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_datatype::Form;

    #[test]
    fn predefined_types_are_found_and_cannot_be_freed() {
        let mut types = Types::default();
        let int = Handle(abi::MPI_INT);
        assert_eq!(types.get(int).expect("predefined").size(), Some(4));
        assert_eq!(types.remove(int).expect_err("predefined").class(), ErrorClass::TYPE);
        assert_eq!(&*types.extras_mut(int).expect("predefined").name, b"MPI_INT");
        assert!(
            types.get(Handle(abi::MPI_DATATYPE_NULL)).expect_err("null").text().contains("MPI_DATATYPE_NULL")
        );
        assert!(
            types.get(Handle(abi::MPI_COMM_WORLD)).expect_err("foreign").text().contains("of type MPI_Comm")
        );
    }

    #[test]
    fn unnamed_predefined_types_have_one_handle_each() {
        let mut types = Types::default();
        let long = types.unnamed(Unnamed::Integer(15)).expect("there is such a kind");
        assert_eq!(types.unnamed(Unnamed::Integer(15)), Ok(long));
        assert_ne!(types.unnamed(Unnamed::Integer(16)), Ok(long));
        let again = types.get(long).expect("alive").clone();
        assert_eq!(types.handle_of(&again), Ok(long));
        assert!(types.remove(long).expect_err("predefined").text().contains("cannot be freed"));
        assert_eq!(types.alive(), 0);
    }

    #[test]
    fn derived_types_are_unusable_until_committed_and_stale_once_freed() {
        let mut types = Types::default();
        let int = types.get(Handle(abi::MPI_INT)).expect("predefined").clone();
        let pair = Datatype::contiguous(2, &int, Form::Int).expect("legal");
        let handle = types.insert(pair).expect("room");
        assert!(types.usable(handle).expect_err("uncommitted").text().contains("MPI_Type_commit"));
        types.get(handle).expect("alive").commit();
        assert!(types.usable(handle).is_ok());
        types.remove(handle).expect("alive");
        assert!(types.get(handle).expect_err("freed").text().contains("was freed"));
    }
}
