//! Attributes of communicators, datatypes and windows (section 7.7). With locks they take that of the cache, for a look, and no
//! other but for a thread's first look at a communicator or datatype; the program's functions run outside of it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use weft::attributes::{Attribute, Cache, Callbacks, Holder};
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::remembered;
use crate::snapshot;

/// Fails unless the object exists. Of windows the cache knows.
fn check(holder: Holder, object: Handle) -> Outcome<()> {
    match (holder, gate::phase() & gate::LOCKED != 0) {
        (Holder::Comm, true) => snapshot::comm(object, |_| Ok(())),
        (Holder::Comm, false) => gate::with(|process| process.comms.get(object).map(drop)),
        (Holder::Datatype, true) => snapshot::ask(object, |_| Ok(())),
        (Holder::Datatype, false) => gate::with(|process| process.types.get(object).map(drop)),
        (Holder::Win, _) => Ok(()),
    }
}

fn cache() -> &'static Cache {
    &gate::shared().cache
}

fn failed(function: &str, key: c_int, code: c_int) -> Raised {
    let class = gate::always(|always| always.codes.class(code)).unwrap_or(abi::MPI_ERR_UNKNOWN);
    let text = format!("the attribute {function} function of key {key} returned the error code {code}");
    Raised::from(Error::new(ErrorClass(class), text)).returning(code)
}

fn pointer(word: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(word)
}

/// Calls the delete function of an attribute (small values stand for functions that do nothing).
fn call_delete(object: Handle, attribute: Attribute, callbacks: Callbacks) -> Result<(), Raised> {
    if callbacks.delete < 4096 {
        return Ok(());
    }
    // SAFETY: the address came from a create_keyval call; the delete functions of all kinds of objects have one shape: a handle
    // (a pointer), the key, two pointers.
    let function = unsafe { std::mem::transmute::<usize, MPI_Comm_delete_attr_function>(callbacks.delete) };
    // SAFETY: the program's function, called as section 7.7.2 says.
    let code = unsafe {
        function(
            MPI_Comm::from_raw(object.0),
            attribute.key,
            pointer(attribute.value),
            pointer(callbacks.extra_state),
        )
    };
    if code == abi::MPI_SUCCESS { Ok(()) } else { Err(failed("delete", attribute.key, code)) }
}

/// Calls the copy functions of all attributes of an object, in the order they were set; the values the copy gets.
///
/// # Errors
/// What a copy function returned.
pub(super) fn copies(holder: Holder, object: Handle) -> Result<Vec<Attribute>, Raised> {
    check(holder, object)?;
    let due = cache().all(holder, object)?;
    let mut copied = Vec::new();
    for (attribute, callbacks) in due {
        let value = match callbacks.copy {
            abi::MPI_COMM_NULL_COPY_FN => None,
            abi::MPI_COMM_DUP_FN => Some(attribute.value),
            address => call_copy(object, attribute, callbacks, address)?,
        };
        if let Some(value) = value {
            copied.push(Attribute { value, ..attribute });
        }
    }
    Ok(copied)
}

fn call_copy(
    object: Handle,
    attribute: Attribute,
    callbacks: Callbacks,
    address: usize,
) -> Result<Option<usize>, Raised> {
    // SAFETY: as in `call_delete`.
    let function = unsafe { std::mem::transmute::<usize, MPI_Comm_copy_attr_function>(address) };
    let mut value = std::ptr::null_mut::<c_void>();
    let mut flag = 0;
    // SAFETY: the program's function, called as section 7.7.2 says, with places for value and flag.
    let code = unsafe {
        function(
            MPI_Comm::from_raw(object.0),
            attribute.key,
            pointer(callbacks.extra_state),
            pointer(attribute.value),
            (&raw mut value).cast(),
            &raw mut flag,
        )
    };
    match (code, flag) {
        (abi::MPI_SUCCESS, 0) => Ok(None),
        (abi::MPI_SUCCESS, _) => Ok(Some(value.expose_provenance())),
        _ => Err(failed("copy", attribute.key, code)),
    }
}

/// Puts copied values on a new object.
pub(super) fn attach(holder: Holder, object: Handle, copied: Vec<Attribute>) -> Outcome<()> {
    let put = cache().put(holder, object, copied);
    remembered::changed();
    put
}

/// Deletes all attributes of an object, the one set last first (section 11.2.4).
///
/// # Errors
/// What a delete function returned; the attributes not reached stay.
pub(super) fn delete_all_of(holder: Holder, object: Handle) -> Result<(), Raised> {
    check(holder, object)?;
    while let Some((attribute, callbacks)) = cache().last(holder, object)? {
        call_delete(object, attribute, callbacks)?;
        remove(holder, object, attribute.key);
    }
    Ok(())
}

/// Deletes all attributes of a communicator.
///
/// # Errors
/// As [`delete_all_of`].
pub(super) fn delete_all(comm: Handle) -> Result<(), Raised> {
    delete_all_of(Holder::Comm, comm)
}

fn remove(holder: Holder, object: Handle, key: c_int) {
    cache().remove(holder, object, key);
    remembered::changed();
}

fn create(
    holder: Holder,
    (copy, delete): (usize, usize),
    key: *mut c_int,
    extra_state: *mut c_void,
) -> Result<(), Raised> {
    let callbacks = Callbacks { copy, delete, extra_state: extra_state.expose_provenance() };
    let made = cache().create(holder, callbacks)?;
    // SAFETY: the entry has refused null.
    unsafe { key.write(made) };
    Ok(())
}

unsafe fn free(holder: Holder, key: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let given = unsafe { key.read() };
    let freed = cache().free(holder, given);
    remembered::changed();
    freed?;
    // SAFETY: as above.
    unsafe { key.write(abi::MPI_KEYVAL_INVALID) };
    Ok(())
}

fn set(holder: Holder, object: Handle, key: c_int, value: *mut c_void) -> Result<(), Raised> {
    check(holder, object)?;
    if let Some((attribute, callbacks)) = cache().get(holder, object, key)? {
        call_delete(object, attribute, callbacks)?;
    }
    attach(holder, object, vec![Attribute { key, value: value.expose_provenance() }])?;
    Ok(())
}

/// The value and whether there is one; predefined keys excluded.
fn get(holder: Holder, object: Handle, key: c_int) -> Outcome<Option<usize>> {
    remembered::attribute(holder, object, key, || {
        check(holder, object)?;
        Ok(cache().get(holder, object, key)?.map(|(attribute, _)| attribute.value))
    })
}

unsafe fn answer(found: Option<usize>, value: *mut c_void, flag: *mut c_int) {
    // SAFETY: the entry has refused null; `value` is the address of a pointer.
    unsafe {
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            value.cast::<usize>().write(found);
        }
    }
}

fn delete(holder: Holder, object: Handle, key: c_int) -> Result<(), Raised> {
    check(holder, object)?;
    let Some((attribute, callbacks)) = cache().get(holder, object, key)? else {
        let text = format!("no attribute is set under key {key}, so there is none to delete");
        return Err(Error::new(ErrorClass::KEYVAL, text).into());
    };
    call_delete(object, attribute, callbacks)?;
    remove(holder, object, key);
    Ok(())
}

/// The integers behind the predefined attributes: programs get pointers to them (section 9.1.2).
static PREDEFINED: [AtomicI32; 7] = [const { AtomicI32::new(0) }; 7];
static PREDEFINED_CHANGES: Mutex<()> = Mutex::new(());

/// The address of a predefined attribute's value; `None` when it is not set on this communicator.
fn predefined(comm: Handle, key: c_int) -> Outcome<Option<usize>> {
    let value = gate::with(|process| {
        process.comms.get(comm)?;
        // The others describe MPI_COMM_WORLD: communicators of sessions have none of them (section 9.1.2).
        if process.sessions.origin(comm).is_some() && key != abi::MPI_TAG_UB {
            return Ok(None);
        }
        Ok(match key {
            abi::MPI_LASTUSEDCODE => Some(gate::always(|always| always.codes.last_used())),
            abi::MPI_TAG_UB => Some(i32::MAX),
            abi::MPI_IO => Some(abi::MPI_ANY_SOURCE),
            abi::MPI_HOST => Some(abi::MPI_PROC_NULL),
            abi::MPI_WTIME_IS_GLOBAL => {
                Some(c_int::from(process.job.local_ranks.len() == process.job.size as usize))
            }
            abi::MPI_APPNUM => process.job.appnum,
            abi::MPI_UNIVERSE_SIZE => process.job.universe_size,
            _ => None,
        })
    })?;
    Ok(value.map(|value| {
        let place = &PREDEFINED[(key - abi::MPI_TAG_UB) as usize];
        // Other threads of the program may be reading it, and not as an atomic: a value that is there is not written again, and
        // who finds it (Acquire) comes after the write. The lock is for those who both find another one.
        if place.load(Ordering::Acquire) != value {
            let _one = PREDEFINED_CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
            if place.load(Ordering::Relaxed) != value {
                place.store(value, Ordering::Release);
            }
        }
        place.as_ptr().expose_provenance()
    }))
}

/// `MPI_Comm_create_keyval` (section 7.7.2).
pub(crate) unsafe fn comm_create_keyval(
    copy: Callback<MPI_Comm_copy_attr_function>,
    delete: Callback<MPI_Comm_delete_attr_function>,
    key: *mut c_int,
    extra_state: *mut c_void,
) -> Result<(), Raised> {
    create(Holder::Comm, (copy.raw(), delete.raw()), key, extra_state)
}

/// `MPI_Keyval_create` (section 16.1).
pub(crate) unsafe fn keyval_create(
    copy: Callback<MPI_Copy_function>,
    delete: Callback<MPI_Delete_function>,
    key: *mut c_int,
    extra_state: *mut c_void,
) -> Result<(), Raised> {
    create(Holder::Comm, (copy.raw(), delete.raw()), key, extra_state)
}

/// `MPI_Type_create_keyval` (section 7.7.4).
pub(crate) unsafe fn type_create_keyval(
    copy: Callback<MPI_Type_copy_attr_function>,
    delete: Callback<MPI_Type_delete_attr_function>,
    key: *mut c_int,
    extra_state: *mut c_void,
) -> Result<(), Raised> {
    create(Holder::Datatype, (copy.raw(), delete.raw()), key, extra_state)
}

/// `MPI_Win_create_keyval` (section 7.7.3).
pub(crate) unsafe fn win_create_keyval(
    copy: Callback<MPI_Win_copy_attr_function>,
    delete: Callback<MPI_Win_delete_attr_function>,
    key: *mut c_int,
    extra_state: *mut c_void,
) -> Result<(), Raised> {
    create(Holder::Win, (copy.raw(), delete.raw()), key, extra_state)
}

/// `MPI_Comm_free_keyval` (section 7.7.2).
pub(crate) unsafe fn comm_free_keyval(key: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { free(Holder::Comm, key) }
}

/// `MPI_Keyval_free` (section 16.1).
pub(crate) unsafe fn keyval_free(key: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { free(Holder::Comm, key) }
}

/// `MPI_Type_free_keyval` (section 7.7.4).
pub(crate) unsafe fn type_free_keyval(key: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { free(Holder::Datatype, key) }
}

/// `MPI_Win_free_keyval` (section 7.7.3).
pub(crate) unsafe fn win_free_keyval(key: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { free(Holder::Win, key) }
}

/// `MPI_Comm_set_attr` (section 7.7.2).
pub(crate) unsafe fn comm_set_attr(comm: MPI_Comm, key: c_int, value: *mut c_void) -> Result<(), Raised> {
    set(Holder::Comm, comm.handle(), key, value)
}

/// `MPI_Attr_put` (section 16.1).
pub(crate) unsafe fn attr_put(comm: MPI_Comm, key: c_int, value: *mut c_void) -> Result<(), Raised> {
    set(Holder::Comm, comm.handle(), key, value)
}

/// `MPI_Type_set_attr` (section 7.7.4).
pub(crate) unsafe fn type_set_attr(
    datatype: MPI_Datatype,
    key: c_int,
    value: *mut c_void,
) -> Result<(), Raised> {
    set(Holder::Datatype, datatype.handle(), key, value)
}

/// `MPI_Comm_get_attr` (section 7.7.2).
pub(crate) unsafe fn comm_get_attr(
    comm: MPI_Comm,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<(), Raised> {
    let found = match (abi::MPI_TAG_UB..=abi::MPI_UNIVERSE_SIZE).contains(&key) {
        // Grows while the program runs.
        true if key == abi::MPI_LASTUSEDCODE => predefined(comm.handle(), key)?,
        true => remembered::attribute(Holder::Comm, comm.handle(), key, || predefined(comm.handle(), key))?,
        false => get(Holder::Comm, comm.handle(), key)?,
    };
    // SAFETY: the entry has refused null.
    unsafe { answer(found, value, flag) };
    Ok(())
}

/// `MPI_Attr_get` (section 16.1).
pub(crate) unsafe fn attr_get(
    comm: MPI_Comm,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<(), Raised> {
    // SAFETY: the arguments are those of MPI_Comm_get_attr.
    unsafe { comm_get_attr(comm, key, value, flag) }
}

/// `MPI_Type_get_attr` (section 7.7.4).
pub(crate) unsafe fn type_get_attr(
    datatype: MPI_Datatype,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<(), Raised> {
    let found = get(Holder::Datatype, datatype.handle(), key)?;
    // SAFETY: the entry has refused null.
    unsafe { answer(found, value, flag) };
    Ok(())
}

/// `MPI_Comm_delete_attr` (section 7.7.2).
pub(crate) unsafe fn comm_delete_attr(comm: MPI_Comm, key: c_int) -> Result<(), Raised> {
    delete(Holder::Comm, comm.handle(), key)
}

/// `MPI_Attr_delete` (section 16.1).
pub(crate) unsafe fn attr_delete(comm: MPI_Comm, key: c_int) -> Result<(), Raised> {
    delete(Holder::Comm, comm.handle(), key)
}

/// `MPI_Type_delete_attr` (section 7.7.4).
pub(crate) unsafe fn type_delete_attr(datatype: MPI_Datatype, key: c_int) -> Result<(), Raised> {
    delete(Holder::Datatype, datatype.handle(), key)
}

/// `MPI_Win_set_attr` (section 7.7.3).
pub(crate) unsafe fn win_set_attr(win: MPI_Win, key: c_int, value: *mut c_void) -> Result<(), Raised> {
    set(Holder::Win, win.handle(), key, value)
}

/// The value of a predefined attribute of a window (section 12.2.6): the base itself, of the others the address.
fn predefined_of_window(win: Handle, key: c_int) -> Outcome<Option<usize>> {
    // They live as long as the window has them, which the program keeps while it uses the addresses.
    let facts = cache().facts(win)?;
    Ok(Some(match key {
        abi::MPI_WIN_BASE => facts.base,
        abi::MPI_WIN_SIZE => (&raw const facts.size).expose_provenance(),
        abi::MPI_WIN_DISP_UNIT => (&raw const facts.disp_unit).expose_provenance(),
        abi::MPI_WIN_CREATE_FLAVOR => (&raw const facts.flavor).expose_provenance(),
        _ => (&raw const facts.model).expose_provenance(),
    }))
}

/// `MPI_Win_get_attr` (section 7.7.3).
pub(crate) unsafe fn win_get_attr(
    win: MPI_Win,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<(), Raised> {
    let found = match (abi::MPI_WIN_BASE..=abi::MPI_WIN_MODEL).contains(&key) {
        true => predefined_of_window(win.handle(), key)?,
        false => get(Holder::Win, win.handle(), key)?,
    };
    // SAFETY: the entry has refused null.
    unsafe { answer(found, value, flag) };
    Ok(())
}

/// `MPI_Win_delete_attr` (section 7.7.3).
pub(crate) unsafe fn win_delete_attr(win: MPI_Win, key: c_int) -> Result<(), Raised> {
    delete(Holder::Win, win.handle(), key)
}
