//! What a thread remembers of groups and attributes, so that with locks it asks them without the process's lock.
//!
//! As [`crate::snapshot`], with counts of changes of their own: programs free groups and set attributes more often than
//! communicators, and the messages of other threads shall not pay for it. An answer is dropped when something of its kind has
//! changed anywhere.

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::Arc;

use weft::attributes::Holder;
use weft::group::Group;
use weft_types::{Handle, Result as Outcome, abi};

use crate::gate;

/// Groups that a thread remembers, and attributes; powers of two.
const GROUPS: usize = 8;
const ATTRIBUTES: usize = 16;

/// Which attribute of which object.
type Which = (Holder, Handle, c_int);

#[derive(Default)]
struct Answers {
    /// The counts of changes when the memory was empty last: of attributes, of communicators and datatypes, of groups.
    counts: [u64; 3],
    groups: [Option<(Handle, Arc<Group>)>; GROUPS],
    attributes: [Option<(Which, Option<usize>)>; ATTRIBUTES],
}

thread_local! {
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

/// Lends the calling thread's answers, as far as they still hold; `None` when the thread is about to end.
fn answers<R>(work: impl FnOnce(&mut Answers) -> R) -> Option<R> {
    let shared = gate::shared();
    // Read before anything is looked up: a change in between is noticed next time.
    let counts = [shared.answers.count(), shared.changes.count(), shared.groups.changes.count()];
    ANSWERS
        .try_with(|answers| {
            let mut answers = answers.borrow_mut();
            if answers.counts != counts {
                *answers = Answers { counts, ..Answers::default() };
            }
            work(&mut answers)
        })
        .ok()
}

/// Threads forget what they remember here. To be called by whoever has freed a key, or set or deleted an attribute, before the
/// call returns.
pub(crate) fn changed() {
    gate::shared().answers.add();
}

fn asked(handle: Handle) -> Outcome<Arc<Group>> {
    gate::shared().groups.get(handle)
}

/// The group of a handle; without the process's lock but for the first time.
///
/// # Errors
/// `MPI_ERR_GROUP`.
pub(crate) fn group(handle: Handle) -> Outcome<Arc<Group>> {
    if gate::phase() & gate::LOCKED == 0 || handle.0 == abi::MPI_GROUP_EMPTY {
        return asked(handle);
    }
    let place = handle.0 as usize % GROUPS;
    let found = answers(|answers| {
        if let Some((kept, group)) = &answers.groups[place]
            && *kept == handle
        {
            return Ok(Arc::clone(group));
        }
        let group = asked(handle)?;
        answers.groups[place] = Some((handle, Arc::clone(&group)));
        Ok(group)
    });
    found.unwrap_or_else(|| asked(handle))
}

/// An attribute, as `ask` finds it; without the process's lock but for the first time.
///
/// # Errors
/// What `ask` fails with, which is not remembered.
pub(crate) fn attribute(
    holder: Holder,
    object: Handle,
    key: c_int,
    ask: impl Fn() -> Outcome<Option<usize>>,
) -> Outcome<Option<usize>> {
    // The count of communicators and datatypes does not tell of windows that are gone.
    if gate::phase() & gate::LOCKED == 0 || holder == Holder::Win {
        return ask();
    }
    let which = (holder, object, key);
    let place = (object.0 as usize).wrapping_add(key as usize) % ATTRIBUTES;
    let found = answers(|answers| {
        if let Some((kept, value)) = answers.attributes[place]
            && kept == which
        {
            return Ok(value);
        }
        let value = ask()?;
        answers.attributes[place] = Some((which, value));
        Ok(value)
    });
    found.unwrap_or_else(ask)
}
