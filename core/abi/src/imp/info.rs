//! Info objects (chapter 10); callable at any time from any thread.

use std::ffi::{c_char, c_int};

use weft::environment::Requests;
use weft::info::{Info, MAX_KEY};
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::environment::{bytes, write_string};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

unsafe fn make(info: *mut MPI_Info, content: Info) -> Result<(), Raised> {
    let handle = gate::always(|always| always.infos.insert(content))?;
    // SAFETY: the entry has refused null.
    unsafe { info.write(MPI_Info::from_raw(handle.0)) };
    Ok(())
}

/// Names a new info object for a caller that returns one.
///
/// # Safety
/// `info` is writable.
pub(super) unsafe fn give(info: *mut MPI_Info, content: Info) -> Result<(), Raised> {
    // SAFETY: the caller's promise.
    unsafe { make(info, content) }
}

/// `MPI_Info_create`
pub(crate) unsafe fn info_create(info: *mut MPI_Info) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { make(info, Info::default()) }
}

/// What was asked of this process when it was launched, joined to its job or not.
fn requests() -> Requests {
    match gate::phase() & (gate::WORLD | gate::SESSION) {
        0 => Requests::before_joining(),
        _ => {
            gate::from_any_thread();
            gate::with(|process| process.job.requests())
        }
    }
}

/// `MPI_Info_create_env`: what `MPI_INFO_ENV` has, with the arguments given.
pub(crate) unsafe fn info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut MPI_Info,
) -> Result<(), Raised> {
    let mut words = Vec::new();
    if !argv.is_null() {
        for index in 0..argc.max(0) as usize {
            // SAFETY: the program passes `argc` strings, or fewer and a null pointer.
            let word = unsafe { argv.add(index).read() };
            if word.is_null() {
                break;
            }
            // SAFETY: as above.
            words.push(unsafe { bytes(word) }.to_vec());
        }
    }
    let content = weft::environment::information(&requests(), &words);
    // SAFETY: the entry has refused null.
    unsafe { make(info, content) }
}

/// `MPI_Info_dup`
pub(crate) unsafe fn info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> Result<(), Raised> {
    let content = gate::always(|always| always.info(info.handle()).cloned())?;
    // SAFETY: the entry has refused null.
    unsafe { make(newinfo, content) }
}

/// `MPI_Info_free`
pub(crate) unsafe fn info_free(info: *mut MPI_Info) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { info.read() }.handle();
    gate::always(|always| {
        always.info_mut(handle)?;
        always.infos.remove(handle)
    })?;
    // SAFETY: as above.
    unsafe { info.write(MPI_Info::from_raw(abi::MPI_INFO_NULL)) };
    Ok(())
}

/// `MPI_Info_set`
pub(crate) unsafe fn info_set(
    info: MPI_Info,
    key: *const c_char,
    value: *const c_char,
) -> Result<(), Raised> {
    // SAFETY: the program passes strings; the entry has refused null.
    let (key, value) = unsafe { (bytes(key), bytes(value)) };
    gate::always(|always| always.info_mut(info.handle())?.set(key, value))?;
    Ok(())
}

/// `MPI_Info_delete`
pub(crate) unsafe fn info_delete(info: MPI_Info, key: *const c_char) -> Result<(), Raised> {
    // SAFETY: as above.
    let key = unsafe { bytes(key) };
    gate::always(|always| always.info_mut(info.handle())?.delete(key))?;
    Ok(())
}

/// The value of a key.
///
/// # Safety
/// The program passes a string; the entry has refused null.
unsafe fn value(info: MPI_Info, key: *const c_char) -> Outcome<Option<Vec<u8>>> {
    // SAFETY: the caller's promise.
    let key = unsafe { bytes(key) };
    gate::always(|always| Ok(always.info(info.handle())?.get(key)?.map(<[u8]>::to_vec)))
}

/// `MPI_Info_get_string`: `buflen` tells the room and then the length needed, both with the NUL.
pub(crate) unsafe fn info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    to: *mut c_char,
    flag: *mut c_int,
) -> Result<(), Raised> {
    // SAFETY: the program's string and places; the entry has refused null for buflen and flag.
    unsafe {
        let found = value(info, key)?;
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            let room = buflen.read();
            if room > 0 && to.is_null() {
                return Err(Error::new(
                    ErrorClass::ARG,
                    format!("value is a null pointer, but buflen promises room for {room} characters"),
                )
                .into());
            }
            if room > 0 {
                write_string(&found, to, room as usize);
            }
            buflen.write(found.len() as c_int + 1);
        }
    }
    Ok(())
}

/// `MPI_Info_get` (section 16.3): `valuelen` does not count the NUL.
pub(crate) unsafe fn info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    to: *mut c_char,
    flag: *mut c_int,
) -> Result<(), Raised> {
    let room = usize::try_from(valuelen).map_err(|_| {
        Error::new(ErrorClass::ARG, format!("valuelen is {valuelen}, but a length is not negative"))
    })?;
    // SAFETY: as above; the buffer has `valuelen + 1` characters.
    unsafe {
        let found = value(info, key)?;
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            write_string(&found, to, room + 1);
        }
    }
    Ok(())
}

/// `MPI_Info_get_valuelen` (section 16.3)
pub(crate) unsafe fn info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe {
        let found = value(info, key)?;
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            valuelen.write(found.len() as c_int);
        }
    }
    Ok(())
}

/// `MPI_Info_get_nkeys`
pub(crate) unsafe fn info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> Result<(), Raised> {
    let number = gate::always(|always| always.info(info.handle()).map(Info::len))?;
    // SAFETY: the entry has refused null.
    unsafe { nkeys.write(number as c_int) };
    Ok(())
}

/// `MPI_Info_get_nthkey`
pub(crate) unsafe fn info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> Result<(), Raised> {
    let found = gate::always(|always| always.info(info.handle())?.key(n).map(<[u8]>::to_vec))?;
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_INFO_KEY characters.
    unsafe { write_string(&found, key, MAX_KEY + 1) };
    Ok(())
}
