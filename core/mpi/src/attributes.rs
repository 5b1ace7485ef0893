//! Attribute keys and the attributes cached on an object (section 7.7).
//!
//! Callbacks are addresses here; the C boundary calls them, outside any lock. This module knows which callback is
//! due with which values, and keeps a key alive until the last attribute that uses it is gone.

use std::collections::BTreeMap;
use weft_types::{Error, ErrorClass, Result, abi};

/// The classes of objects with keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Communicators.
    Comm,
    /// Datatypes.
    Datatype,
    /// Windows.
    Win,
}

impl Holder {
    const fn noun(self) -> &'static str {
        match self {
            Holder::Comm => "communicators",
            Holder::Datatype => "datatypes",
            Holder::Win => "windows",
        }
    }
}

/// The functions and the word a key was made with. The functions are addresses, or the small predefined values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callbacks {
    /// Called when the object is duplicated.
    pub copy: usize,
    /// Called when the attribute goes.
    pub delete: usize,
    /// Handed to both.
    pub extra_state: usize,
}

#[derive(Debug)]
struct Key {
    holder: Holder,
    callbacks: Callbacks,
    attributes: usize,
    freed: bool,
}

/// All keys users made.
#[derive(Debug, Default)]
pub struct Keys {
    keys: BTreeMap<i32, Key>,
    made: i32,
}

/// First key that users are given; those of the standard lie below.
const FIRST: i32 = 1024;

/// One cached value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The key.
    pub key: i32,
    /// The value, a pointer or an integer of its size.
    pub value: usize,
}

/// The attributes of one object in the order they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<Attribute>);

impl Keys {
    /// Makes a key (`MPI_Comm_create_keyval` and its like).
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` when 2^31 keys were made.
    pub fn create(&mut self, holder: Holder, callbacks: Callbacks) -> Result<i32> {
        let key = FIRST
            .checked_add(self.made)
            .ok_or_else(|| Error::new(ErrorClass::OTHER, "all attribute keys have been used"))?;
        self.made += 1;
        self.keys.insert(key, Key { holder, callbacks, attributes: 0, freed: false });
        Ok(key)
    }

    /// Keys that were not given up, and the kind of object they are for.
    pub(crate) fn left(&self) -> impl Iterator<Item = (i32, &'static str)> {
        self.keys.iter().filter(|(_, entry)| !entry.freed).map(|(key, entry)| (*key, entry.holder.noun()))
    }

    /// Gives a key up; attributes that use it keep it alive (section 7.7.2).
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL` as [`Keys::check`].
    pub fn free(&mut self, holder: Holder, key: i32) -> Result<()> {
        self.check(holder, key)?;
        if let Some(entry) = self.keys.get_mut(&key)
            && std::mem::replace(&mut entry.freed, true)
        {
            return Err(Error::new(ErrorClass::KEYVAL, format!("the attribute key {key} was freed before")));
        }
        self.collect(key);
        Ok(())
    }

    /// The callbacks of a key the user may use: one that was freed works as long as an attribute uses it (section 7.7.2).
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`: never made, freed, of another class of objects, or of the standard.
    pub fn check(&self, holder: Holder, key: i32) -> Result<Callbacks> {
        let reason = match self.keys.get(&key) {
            Some(entry) if entry.holder != holder => {
                format!("was made for {}, not for {}", entry.holder.noun(), holder.noun())
            }
            Some(entry) => return Ok(entry.callbacks),
            None if key == abi::MPI_KEYVAL_INVALID => "is MPI_KEYVAL_INVALID".to_owned(),
            None if is_predefined(key) => "is a key of the standard, which programs can only read".to_owned(),
            None if key >= FIRST && key - FIRST < self.made => "was freed".to_owned(),
            None => "was never made".to_owned(),
        };
        Err(Error::new(ErrorClass::KEYVAL, format!("the attribute key {key} {reason}")))
    }

    /// The callbacks of a key in use, freed or not.
    pub fn callbacks(&self, key: i32) -> Callbacks {
        self.keys.get(&key).map(|entry| entry.callbacks).expect("an attribute keeps its key alive")
    }

    /// Sets an attribute. Setting it again is deleting and setting it (section 7.7.2): it is the latest one then.
    pub fn put(&mut self, attributes: &mut Attributes, attribute: Attribute) {
        let before = attributes.0.len();
        attributes.0.retain(|old| old.key != attribute.key);
        if attributes.0.len() == before
            && let Some(entry) = self.keys.get_mut(&attribute.key)
        {
            entry.attributes += 1;
        }
        attributes.0.push(attribute);
    }

    /// Removes an attribute; nothing happens when it is not set.
    pub fn remove(&mut self, attributes: &mut Attributes, key: i32) {
        let Some(index) = attributes.0.iter().position(|attribute| attribute.key == key) else { return };
        attributes.0.remove(index);
        if let Some(entry) = self.keys.get_mut(&key) {
            entry.attributes -= 1;
        }
        self.collect(key);
    }

    fn collect(&mut self, key: i32) {
        if self.keys.get(&key).is_some_and(|entry| entry.freed && entry.attributes == 0) {
            self.keys.remove(&key);
        }
    }
}

impl Attributes {
    /// The value under `key`, if one is set.
    pub fn get(&self, key: i32) -> Option<usize> {
        self.0.iter().find(|attribute| attribute.key == key).map(|attribute| attribute.value)
    }

    /// All attributes in the order they were set.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Attribute> + '_ {
        self.0.iter().copied()
    }

    /// The attribute set last, which is deleted first (section 11.2.4).
    pub fn last(&self) -> Option<Attribute> {
        self.0.last().copied()
    }
}

/// Whether the key belongs to the standard (sections 9.1.2, 11.10.1, 12.2.6).
pub fn is_predefined(key: i32) -> bool {
    (abi::MPI_TAG_UB..=abi::MPI_UNIVERSE_SIZE).contains(&key)
        || (abi::MPI_WIN_BASE..=abi::MPI_WIN_MODEL).contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLBACKS: Callbacks = Callbacks { copy: 1, delete: 0, extra_state: 7 };

    #[test]
    fn a_freed_key_lives_until_its_last_attribute_is_gone() {
        let (mut keys, mut attributes) = (Keys::default(), Attributes::default());
        let key = keys.create(Holder::Comm, CALLBACKS).expect("room");
        keys.put(&mut attributes, Attribute { key, value: 1 });
        keys.free(Holder::Comm, key).expect("made");
        assert_eq!(keys.check(Holder::Comm, key), Ok(CALLBACKS));
        assert_eq!(keys.free(Holder::Comm, key).expect_err("twice").class(), ErrorClass::KEYVAL);
        keys.remove(&mut attributes, key);
        assert!(keys.keys.is_empty());
        assert!(keys.check(Holder::Comm, key).expect_err("gone").text().contains("was freed"));
    }

    #[test]
    fn keys_of_another_class_and_of_the_standard_are_refused() {
        let mut keys = Keys::default();
        let key = keys.create(Holder::Win, CALLBACKS).expect("room");
        for (key, reason) in [
            (key, "was made for windows, not for communicators"),
            (abi::MPI_KEYVAL_INVALID, "MPI_KEYVAL_INVALID"),
            (abi::MPI_TAG_UB, "of the standard"),
            (abi::MPI_WIN_MODEL, "of the standard"),
            (key + 1, "never made"),
            (-5, "never made"),
        ] {
            let error = keys.check(Holder::Comm, key).expect_err("refused");
            assert!(error.text().contains(reason), "{error}");
        }
    }

    #[test]
    fn setting_again_makes_it_the_latest() {
        let (mut keys, mut attributes) = (Keys::default(), Attributes::default());
        let a = keys.create(Holder::Comm, CALLBACKS).expect("room");
        let b = keys.create(Holder::Comm, CALLBACKS).expect("room");
        for (key, value) in [(a, 1), (b, 2), (a, 3)] {
            keys.put(&mut attributes, Attribute { key, value });
        }
        assert_eq!(attributes.iter().map(|attribute| attribute.value).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(attributes.last().map(|attribute| attribute.key), Some(a));
        assert_eq!(attributes.get(a), Some(3));
    }
}
