//! Procedures that need no initialised MPI: versions, time, addresses, handle and status conversions (MPI 4.1
//! sections 9.1.1, 9.6, 5.1.5, 19.3.4, 19.3.5, 3.2.5, and the ABI chapter of MPI 5.0).

use std::ffi::{c_char, c_int, c_void};

use weft_datatype::Booleans;
use weft_types::{Error, ErrorClass, abi};

use crate::ctypes::*;
use crate::raise::Raised;

/// What `MPI_Get_library_version` returns.
const LIBRARY_VERSION: &str =
    concat!("Weft ", env!("CARGO_PKG_VERSION"), " (MPI 4.1 on the MPI standard ABI 1.0)");

/// `MPI_Get_version`
pub(crate) unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null; the program passes places for two ints.
    unsafe {
        version.write(abi::MPI_VERSION);
        subversion.write(abi::MPI_SUBVERSION);
    }
    Ok(())
}

/// `MPI_Get_library_version`
pub(crate) unsafe fn get_library_version(version: *mut c_char, resultlen: *mut c_int) -> Result<(), Raised> {
    const { assert!(LIBRARY_VERSION.len() < abi::MPI_MAX_LIBRARY_VERSION_STRING as usize) };
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_LIBRARY_VERSION_STRING characters.
    unsafe {
        version.copy_from_nonoverlapping(LIBRARY_VERSION.as_ptr().cast(), LIBRARY_VERSION.len());
        version.add(LIBRARY_VERSION.len()).write(0);
        resultlen.write(LIBRARY_VERSION.len() as c_int);
    }
    Ok(())
}

/// `MPI_Abi_get_version`
pub(crate) unsafe fn abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null; the program passes places for two ints.
    unsafe {
        abi_major.write(abi::MPI_ABI_VERSION);
        abi_minor.write(abi::MPI_ABI_SUBVERSION);
    }
    Ok(())
}

fn logical_size(size: c_int) -> Result<usize, Raised> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(Error::new(
            ErrorClass::ARG,
            format!("logical_size is {size}, but it must be 1, 2, 4, 8 or 16"),
        )
        .into()),
    }
}

/// `MPI_Abi_set_fortran_booleans`: only the first call has an effect, later ones fail with `MPI_ERR_ABI`. Reductions on logical
/// types write these values from then on.
pub(crate) unsafe fn abi_set_fortran_booleans(
    size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<(), Raised> {
    let size = logical_size(size)?;
    // SAFETY: the entry has refused null; both point to a LOGICAL of `size` bytes.
    let (yes, no) = unsafe {
        (
            std::slice::from_raw_parts(logical_true.cast::<u8>(), size),
            std::slice::from_raw_parts(logical_false.cast::<u8>(), size),
        )
    };
    if yes == no {
        let text =
            "logical_true and logical_false hold the same bytes; pass the values of .TRUE. and .FALSE.";
        return Err(Error::new(ErrorClass::ARG, text).into());
    }
    let booleans = Booleans::new(yes, no).expect("both have a size that was looked at");
    if !booleans.tell() {
        return Err(Error::new(ErrorClass::ABI, "the Fortran booleans have been set before").into());
    }
    Ok(())
}

/// `MPI_Abi_get_fortran_booleans`: `is_set` is false, and nothing else written, when the values for this size are
/// unknown.
pub(crate) unsafe fn abi_get_fortran_booleans(
    size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> Result<(), Raised> {
    let size = logical_size(size)?;
    let known = Booleans::told().filter(|known| known.size() == size);
    // SAFETY: the entry has refused null; both point to room for a LOGICAL of `size` bytes.
    unsafe {
        if let Some(known) = known {
            logical_true.cast::<u8>().copy_from_nonoverlapping(known.yes().as_ptr(), size);
            logical_false.cast::<u8>().copy_from_nonoverlapping(known.no().as_ptr(), size);
        }
        is_set.write(c_int::from(known.is_some()));
    }
    Ok(())
}

fn monotonic(read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `read` is clock_gettime or clock_getres, and `time` is writable.
    unsafe { read(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// `MPI_Wtime`: seconds of the monotonic clock, which all processes of a node share.
pub(crate) fn wtime() -> f64 {
    monotonic(libc::clock_gettime)
}

/// `MPI_Wtick`: the resolution of `MPI_Wtime` in seconds.
pub(crate) fn wtick() -> f64 {
    monotonic(libc::clock_getres)
}

/// `MPI_Aint_add`; addresses are numbers that may wrap.
pub(crate) fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// `MPI_Aint_diff`
pub(crate) fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

/// `MPI_Get_address`
pub(crate) unsafe fn get_address(location: *const c_void, address: *mut MPI_Aint) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { address.write(location.addr() as MPI_Aint) };
    Ok(())
}

/// Handles are 31-bit numbers, so both directions are casts. What is no handle becomes 0, which never is one
/// (section 19.3.4: an invalid handle is mapped to an invalid handle).
macro_rules! conversions {
    ($($ty:ident: $c2f:ident $f2c:ident $toint:ident $fromint:ident,)*) => {$(
        #[doc = concat!("The Fortran value of an `", stringify!($ty), "`.")]
        pub(crate) fn $c2f(handle: $ty) -> MPI_Fint {
            handle.handle().0 as MPI_Fint
        }
        #[doc = concat!("The `", stringify!($ty), "` of a Fortran value.")]
        pub(crate) fn $f2c(handle: MPI_Fint) -> $ty {
            $ty::from_raw(u32::try_from(handle).unwrap_or(0))
        }
        #[doc = concat!("The integer of an `", stringify!($ty), "`, the same as its Fortran value.")]
        pub(crate) fn $toint(handle: $ty) -> c_int {
            $c2f(handle)
        }
        #[doc = concat!("The `", stringify!($ty), "` of an integer.")]
        pub(crate) fn $fromint(handle: c_int) -> $ty {
            $f2c(handle)
        }
    )*};
}

conversions! {
    MPI_Comm: comm_c2f comm_f2c comm_toint comm_fromint,
    MPI_Datatype: type_c2f type_f2c type_toint type_fromint,
    MPI_Errhandler: errhandler_c2f errhandler_f2c errhandler_toint errhandler_fromint,
    MPI_File: file_c2f file_f2c file_toint file_fromint,
    MPI_Group: group_c2f group_f2c group_toint group_fromint,
    MPI_Info: info_c2f info_f2c info_toint info_fromint,
    MPI_Message: message_c2f message_f2c message_toint message_fromint,
    MPI_Op: op_c2f op_f2c op_toint op_fromint,
    MPI_Request: request_c2f request_f2c request_toint request_fromint,
    MPI_Session: session_c2f session_f2c session_toint session_fromint,
    MPI_Win: win_c2f win_f2c win_toint win_fromint,
}

/// Copies a status between its C and Fortran forms, which have one layout: three fields, then five hidden integers.
unsafe fn copy_status(from: *const c_void, to: *mut c_void) -> Result<(), Raised> {
    if from.is_null() || to.is_null() {
        let text = "a null status: MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE cannot be converted";
        return Err(Error::new(ErrorClass::ARG, text).into());
    }
    // SAFETY: the program passes two statuses of 32 bytes, aligned like an int; they may be the same one.
    unsafe { to.cast::<MPI_Status>().write(from.cast::<MPI_Status>().read()) };
    Ok(())
}

macro_rules! status_conversions {
    ($($name:ident: $from:ty => $to:ty,)*) => {$(
        #[doc = concat!("`MPI_S", stringify!($name), "` without the first letter: section 19.3.5.")]
        pub(crate) unsafe fn $name(from: *const $from, to: *mut $to) -> Result<(), Raised> {
            // SAFETY: the program passes statuses of the types in the prototype.
            unsafe { copy_status(from.cast(), to.cast()) }
        }
    )*};
}

status_conversions! {
    status_c2f: MPI_Status => MPI_Fint,
    status_f2c: MPI_Fint => MPI_Status,
    status_c2f08: MPI_Status => MPI_F08_status,
    status_f082c: MPI_F08_status => MPI_Status,
    status_f2f08: MPI_Fint => MPI_F08_status,
    status_f082f: MPI_F08_status => MPI_Fint,
}

fn ignored() -> Raised {
    Error::new(ErrorClass::ARG, "status is MPI_STATUS_IGNORE, but a status object is needed").into()
}

macro_rules! status_fields {
    ($($get:ident $set:ident $field:ident,)*) => {$(
        #[doc = concat!("Reads the ", stringify!($field), " field (section 3.2.5).")]
        pub(crate) unsafe fn $get(status: *const MPI_Status, value: *mut c_int) -> Result<(), Raised> {
            if status.is_null() {
                return Err(ignored());
            }
            // SAFETY: the program passes a status; the entry has refused a null `value`.
            unsafe { value.write((*status).$field) };
            Ok(())
        }
        #[doc = concat!("Sets the ", stringify!($field), " field (section 13.3).")]
        pub(crate) unsafe fn $set(status: *mut MPI_Status, value: c_int) -> Result<(), Raised> {
            if status.is_null() {
                return Err(ignored());
            }
            // SAFETY: the program passes a status.
            unsafe { (*status).$field = value };
            Ok(())
        }
    )*};
}

status_fields! {
    status_get_source status_set_source source,
    status_get_tag status_set_tag tag,
    status_get_error status_set_error error,
}

/// The Fortran values of `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE` are addresses, which a Fortran library stores
/// here when it starts. Until then they are addresses of our own, so that no status of a program equals them.
mod fortran_ignore {
    use std::sync::atomic::AtomicPtr;

    use super::{MPI_F08_status, MPI_Fint};

    static PLACES: [AtomicPtr<()>; 4] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];

    const fn place<T>(index: usize) -> AtomicPtr<T> {
        AtomicPtr::new((&raw const PLACES[index]).cast_mut().cast())
    }

    #[unsafe(no_mangle)]
    static MPI_F_STATUS_IGNORE: AtomicPtr<MPI_Fint> = place(0);
    #[unsafe(no_mangle)]
    static MPI_F_STATUSES_IGNORE: AtomicPtr<MPI_Fint> = place(1);
    #[unsafe(no_mangle)]
    static MPI_F08_STATUS_IGNORE: AtomicPtr<MPI_F08_status> = place(2);
    #[unsafe(no_mangle)]
    static MPI_F08_STATUSES_IGNORE: AtomicPtr<MPI_F08_status> = place(3);
}
