//! Attribute keys and the attributes cached on an object (section 7.7).
//!
//! Callbacks are addresses here; the C boundary calls them, outside any lock. This module knows which callback is
//! due with which values, and keeps a key alive until the last attribute that uses it is gone.
//!
//! Keys and attributes of a process lie behind one lock of their own ([`Cache`]), which is held for a few instructions and
//! never while a function of the program runs. Who holds the process's lock may take it; who holds it takes nothing more. That
//! an object exists, the caller has found out before; of windows, which threads do not remember, the cache knows itself.

use crate::window::Facts;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_types::{Error, ErrorClass, Handle, HandleKind, Result, abi};

/// The classes of objects with keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL` when another thread has freed the key since it was checked.
    pub fn put(&mut self, holder: Holder, attributes: &mut Attributes, attribute: Attribute) -> Result<()> {
        self.check(holder, attribute.key)?;
        let before = attributes.0.len();
        attributes.0.retain(|old| old.key != attribute.key);
        if attributes.0.len() == before
            && let Some(entry) = self.keys.get_mut(&attribute.key)
        {
            entry.attributes += 1;
        }
        attributes.0.push(attribute);
        Ok(())
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

/// An attribute and the functions of its key.
pub type Due = (Attribute, Callbacks);

/// All keys and attributes of a process.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    keys: Keys,
    /// Of objects that have any.
    attributes: HashMap<(Holder, Handle), Attributes>,
    windows: HashMap<Handle, Arc<Facts>>,
}

impl Cached {
    fn of(&self, holder: Holder, object: Handle) -> Result<Option<&Attributes>> {
        if holder == Holder::Win {
            self.facts(object)?;
        }
        Ok(self.attributes.get(&(holder, object)))
    }

    fn facts(&self, window: Handle) -> Result<&Arc<Facts>> {
        self.windows.get(&window).ok_or_else(|| crate::table::stale(HandleKind::Win, window, true))
    }
}

impl Cache {
    fn cached(&self) -> MutexGuard<'_, Cached> {
        // A panic ends the process or the test.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Keys::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, holder: Holder, callbacks: Callbacks) -> Result<i32> {
        self.cached().keys.create(holder, callbacks)
    }

    /// As [`Keys::free`].
    ///
    /// # Errors
    /// As there.
    pub fn free(&self, holder: Holder, key: i32) -> Result<()> {
        self.cached().keys.free(holder, key)
    }

    /// Keys that were not given up, and the kind of object they are for.
    pub(crate) fn left(&self) -> Vec<(i32, &'static str)> {
        self.cached().keys.left().collect()
    }

    /// A window exists from now on; what its predefined attributes point to.
    pub fn open_window(&self, window: Handle, facts: Arc<Facts>) {
        self.cached().windows.insert(window, facts);
    }

    /// A window is gone, and its attributes with it.
    pub fn close_window(&self, window: Handle) {
        let mut cached = self.cached();
        cached.windows.remove(&window);
        cached.attributes.remove(&(Holder::Win, window));
    }

    /// What the predefined attributes of a window point to.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    pub fn facts(&self, window: Handle) -> Result<Arc<Facts>> {
        self.cached().facts(window).cloned()
    }

    /// The attribute of an object under a key that the program may use, if one is set, and the functions of the key.
    ///
    /// # Errors
    /// As [`Keys::check`]; `MPI_ERR_WIN`.
    pub fn get(&self, holder: Holder, object: Handle, key: i32) -> Result<Option<Due>> {
        let cached = self.cached();
        let attributes = cached.of(holder, object)?;
        let callbacks = cached.keys.check(holder, key)?;
        Ok(attributes.and_then(|all| all.get(key)).map(|value| (Attribute { key, value }, callbacks)))
    }

    /// All attributes of an object with the functions of their keys, in the order they were set.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    pub fn all(&self, holder: Holder, object: Handle) -> Result<Vec<Due>> {
        let cached = self.cached();
        let all = cached.of(holder, object)?.into_iter().flat_map(Attributes::iter);
        Ok(all.map(|attribute| (attribute, cached.keys.callbacks(attribute.key))).collect())
    }

    /// The attribute of an object that was set last.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    pub fn last(&self, holder: Holder, object: Handle) -> Result<Option<Due>> {
        let cached = self.cached();
        let last = cached.of(holder, object)?.and_then(Attributes::last);
        Ok(last.map(|attribute| (attribute, cached.keys.callbacks(attribute.key))))
    }

    /// Sets attributes of an object that exists.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL` when a key was freed since it was looked up; those before it are set. `MPI_ERR_WIN`.
    pub fn put(
        &self,
        holder: Holder,
        object: Handle,
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> Result<()> {
        let mut cached = self.cached();
        cached.of(holder, object)?;
        let Cached { keys, attributes: all, .. } = &mut *cached;
        let mut fresh = attributes.into_iter().peekable();
        if fresh.peek().is_none() {
            return Ok(());
        }
        let own = all.entry((holder, object)).or_default();
        let put = fresh.try_for_each(|attribute| keys.put(holder, own, attribute));
        if own.0.is_empty() {
            all.remove(&(holder, object));
        }
        put
    }

    /// Removes an attribute; nothing happens when it is not set.
    pub fn remove(&self, holder: Holder, object: Handle, key: i32) {
        let mut cached = self.cached();
        let Cached { keys, attributes, .. } = &mut *cached;
        if let Some(own) = attributes.get_mut(&(holder, object)) {
            keys.remove(own, key);
            if own.0.is_empty() {
                attributes.remove(&(holder, object));
            }
        }
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
        keys.put(Holder::Comm, &mut attributes, Attribute { key, value: 1 }).expect("made");
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
            keys.put(Holder::Comm, &mut attributes, Attribute { key, value }).expect("made");
        }
        assert_eq!(attributes.iter().map(|attribute| attribute.value).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(attributes.last().map(|attribute| attribute.key), Some(a));
        assert_eq!(attributes.get(a), Some(3));
    }

    #[test]
    fn a_key_that_another_thread_frees_is_not_used() {
        let (cache, comm) = (Cache::default(), Handle(abi::MPI_COMM_WORLD));
        let key = cache.create(Holder::Comm, CALLBACKS).expect("room");
        assert_eq!(cache.get(Holder::Comm, comm, key), Ok(None));
        cache.free(Holder::Comm, key).expect("made");
        let put = cache.put(Holder::Comm, comm, [Attribute { key, value: 1 }]);
        assert_eq!(put.expect_err("freed").class(), ErrorClass::KEYVAL);
        assert_eq!(cache.all(Holder::Comm, comm), Ok(Vec::new()));
        assert!(cache.cached().attributes.is_empty(), "an object without attributes takes no room");
    }

    #[test]
    fn windows_have_attributes_while_they_exist() {
        let (cache, window) = (Cache::default(), Handle((HandleKind::Win as u32) << 27 | 1));
        let key = cache.create(Holder::Win, CALLBACKS).expect("room");
        let attribute = Attribute { key, value: 1 };
        assert_eq!(cache.put(Holder::Win, window, [attribute]).expect_err("none").class(), ErrorClass::WIN);
        let facts = Facts { base: 1, size: 2, disp_unit: 3, flavor: 4, model: 5 };
        cache.open_window(window, Arc::new(facts));
        cache.put(Holder::Win, window, [attribute]).expect("open");
        assert_eq!(cache.last(Holder::Win, window), Ok(Some((attribute, CALLBACKS))));
        cache.close_window(window);
        assert_eq!(cache.get(Holder::Win, window, key).expect_err("closed").class(), ErrorClass::WIN);
    }
}
