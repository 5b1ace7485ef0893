//! The C types of the MPI standard ABI as Rust sees them, and the views through which the generated entry
//! points hand arguments to the implementations.
//!
//! # The convention between generated entry points and implementations
//!
//! `core/bindings` generates one `PMPI_` entry point for every procedure (and its weak `MPI_` alias) into
//! `generated/`. People write `crate::imp::<name>`: the C name without `MPI_`, in lower case (`MPI_Isend` is
//! `imp::isend`, `MPI_T_cvar_read` is `imp::t_cvar_read`). A procedure becomes live by a row in
//! `core/bindings/table/implemented.tsv` and a run of `weft-generate`; `weft-generate --signature MPI_Isend`
//! prints the signature to write. Until then its entry raises `MPI_ERR_UNSUPPORTED_OPERATION` and names itself.
//!
//! An entry of a procedure that returns an error code does, in this order:
//!
//! 1. `gate::check_active()?`, unless the procedure may be called at any time (section 11.4.1);
//! 2. the checks the table can derive, through [`crate::args`]: null OUT pointers, negative counts, null arrays of
//!    positive length, null strings;
//! 3. `imp::<name>(arguments...) -> Result<(), raise::Raised>`, in an `unsafe` block (the function may be safe);
//! 4. `raise::finish(NAME, result) -> c_int`, which runs the error handler when the result is an error.
//!
//! Procedures that return a value (`MPI_Wtime`, `MPI_Aint_add`, `MPI_Comm_c2f`, ...) call `imp::<name>` plainly,
//! with neither gate nor checks. `MPI_T_` procedures have no gate and no checks, and end in `raise::finish_tool`:
//! they return their code and never run an error handler (section 15.3.10).
//!
//! `MPI_X` and `MPI_X_c` share one `imp::x`. Arguments whose C type differs between the two arrive widened, all
//! others with their C type:
//!
//! | C types of `MPI_X`, `MPI_X_c` | type of the argument of `imp::x` |
//! | --- | --- |
//! | `int` or `MPI_Aint`, `MPI_Count` or `MPI_Aint` | `i64` |
//! | `const int[]`, `const MPI_Count[]` or `const MPI_Aint[]` | [`IntArray`] |
//! | `int *`, `MPI_Count *` or `MPI_Aint *` | [`CountOut`] |
//! | `MPI_Aint *`, `MPI_Count *` (both 64 bits), OUT or array | `*mut i64`, `*const i64` |
//! | user function pointers | [`UserFunction`], [`ConversionFunction`] |
//!
//! `MPI_Type_get_envelope` and `MPI_Type_get_contents` have more arguments in their `_c` form; the `int` form
//! passes [`CountOut::Absent`], 0 and a null array there. The datatype constructors get one more last argument,
//! [`Width`], because the standard lets a program ask which form made a type (section 5.1.13).
//!
//! Handles arrive as the transparent wrappers below, OUT handles as raw pointers to them. Status and error code
//! arrays keep their C pointers: null is `MPI_STATUS_IGNORE` and the like.
#![allow(non_camel_case_types, reason = "the names of the C header, so that prototypes read alike")]
#![allow(
    dead_code,
    reason = "the vocabulary is complete from the start; its words get used as procedures arrive"
)]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use weft_types::{Handle, abi};

const _: () = assert!(size_of::<usize>() == 8, "the ABI is defined here for 64-bit machines only");

/// An address or a byte displacement (section 2.5.6).
pub(crate) type MPI_Aint = i64;
/// A count of elements or bytes (section 2.5.8).
pub(crate) type MPI_Count = i64;
/// A byte position in a file (section 2.5.7).
pub(crate) type MPI_Offset = i64;
/// A default Fortran INTEGER (section 19.3.4).
pub(crate) type MPI_Fint = c_int;
/// `MPI_T_cb_safety`, a C enumeration (section 15.3.8).
pub(crate) type MPI_T_cb_safety = c_int;
/// `MPI_T_source_order`, a C enumeration (section 15.3.8).
pub(crate) type MPI_T_source_order = c_int;

macro_rules! handles {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "` as C programs hold it: an opaque pointer whose value is the handle.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(usize);

        impl $name {
            /// The handle of that value: a predefined constant or a run-time handle.
            #[inline(always)]
            pub(crate) const fn from_raw(value: u32) -> $name {
                $name(value as usize)
            }

            /// The pointer value as the program passed it.
            #[inline(always)]
            pub(crate) const fn raw(self) -> usize {
                self.0
            }

            /// The 31-bit handle, or 0 (which never is a handle) when the program passed something larger.
            #[inline(always)]
            pub(crate) const fn handle(self) -> Handle {
                Handle(if self.0 <= i32::MAX as usize { self.0 as u32 } else { 0 })
            }
        }
    )*};
}

impl From<MPI_Request> for Handle {
    #[inline(always)]
    fn from(request: MPI_Request) -> Handle {
        request.handle()
    }
}

handles! {
    MPI_Comm MPI_Datatype MPI_Errhandler MPI_File MPI_Group MPI_Info MPI_Message MPI_Op MPI_Request MPI_Session MPI_Win
    MPI_T_enum MPI_T_cvar_handle MPI_T_pvar_handle MPI_T_pvar_session MPI_T_event_registration MPI_T_event_instance
}

/// `MPI_Status` (section 3.2.5): 32 bytes, aligned like `int`. What `internal` means is the implementation's own
/// affair; it travels unchanged through the Fortran conversions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct MPI_Status {
    /// `MPI_SOURCE`
    pub(crate) source: c_int,
    /// `MPI_TAG`
    pub(crate) tag: c_int,
    /// `MPI_ERROR`
    pub(crate) error: c_int,
    /// Hidden: count and cancellation.
    pub(crate) internal: [c_int; 5],
}

/// `MPI_F08_status`: a Fortran `TYPE(MPI_Status)`, of the same layout as the C status (section 19.3.5).
pub(crate) type MPI_F08_status = MPI_Status;

const _: () = assert!(size_of::<MPI_Status>() == 32 && align_of::<MPI_Status>() == 4);
const _: () = assert!(size_of::<MPI_Status>() == abi::MPI_F_STATUS_SIZE as usize * size_of::<MPI_Fint>());

/// A user function as the program passed it: its address, or one of the small predefined values that stand for
/// functions which do not exist (`MPI_COMM_NULL_COPY_FN` is 0, `MPI_COMM_DUP_FN` is 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Callback<F>(usize, PhantomData<F>);

impl<F: Copy> Callback<F> {
    /// The address, or the value of the predefined constant.
    #[inline(always)]
    pub(crate) const fn raw(self) -> usize {
        self.0
    }

    /// The function, or `None` for the predefined values (below 4096, where no function can be).
    ///
    /// # Safety
    /// The value must come from a program that passed a function of type `F` or a predefined constant.
    #[inline]
    pub(crate) unsafe fn function(self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        if self.0 < 4096 {
            return None;
        }
        // SAFETY: F is a function pointer type (same size, asserted), and the caller vouches for the address.
        Some(unsafe { std::mem::transmute_copy::<usize, F>(&self.0) })
    }
}

/// `MPI_User_function` (section 6.9.5).
pub(crate) type MPI_User_function =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
/// `MPI_User_function_c` (section 6.9.5).
pub(crate) type MPI_User_function_c =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);
/// `MPI_Grequest_query_function` (section 13.2).
pub(crate) type MPI_Grequest_query_function = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
/// `MPI_Grequest_free_function` (section 13.2).
pub(crate) type MPI_Grequest_free_function = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function` (section 13.2).
pub(crate) type MPI_Grequest_cancel_function = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// `MPI_Comm_copy_attr_function` (section 7.7.2).
pub(crate) type MPI_Comm_copy_attr_function =
    unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// `MPI_Comm_delete_attr_function` (section 7.7.2).
pub(crate) type MPI_Comm_delete_attr_function =
    unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Copy_function` (section 16.1, deprecated).
pub(crate) type MPI_Copy_function = MPI_Comm_copy_attr_function;
/// `MPI_Delete_function` (section 16.1, deprecated).
pub(crate) type MPI_Delete_function = MPI_Comm_delete_attr_function;
/// `MPI_Type_copy_attr_function` (section 7.7.4).
pub(crate) type MPI_Type_copy_attr_function =
    unsafe extern "C" fn(MPI_Datatype, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// `MPI_Type_delete_attr_function` (section 7.7.4).
pub(crate) type MPI_Type_delete_attr_function =
    unsafe extern "C" fn(MPI_Datatype, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Win_copy_attr_function` (section 7.7.3).
pub(crate) type MPI_Win_copy_attr_function =
    unsafe extern "C" fn(MPI_Win, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// `MPI_Win_delete_attr_function` (section 7.7.3).
pub(crate) type MPI_Win_delete_attr_function =
    unsafe extern "C" fn(MPI_Win, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Datarep_extent_function` (section 14.5.3).
pub(crate) type MPI_Datarep_extent_function =
    unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function` (section 14.5.3).
pub(crate) type MPI_Datarep_conversion_function =
    unsafe extern "C" fn(*mut c_void, MPI_Datatype, c_int, *mut c_void, MPI_Offset, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function_c` (section 14.5.3).
pub(crate) type MPI_Datarep_conversion_function_c =
    unsafe extern "C" fn(*mut c_void, MPI_Datatype, MPI_Count, *mut c_void, MPI_Offset, *mut c_void) -> c_int;
/// `MPI_Comm_errhandler_function` (section 9.3.1); variadic in C, called with nothing behind the code.
pub(crate) type MPI_Comm_errhandler_function = unsafe extern "C" fn(*mut MPI_Comm, *mut c_int, ...);
/// `MPI_File_errhandler_function` (section 9.3.3).
pub(crate) type MPI_File_errhandler_function = unsafe extern "C" fn(*mut MPI_File, *mut c_int, ...);
/// `MPI_Win_errhandler_function` (section 9.3.2).
pub(crate) type MPI_Win_errhandler_function = unsafe extern "C" fn(*mut MPI_Win, *mut c_int, ...);
/// `MPI_Session_errhandler_function` (section 9.3.4).
pub(crate) type MPI_Session_errhandler_function = unsafe extern "C" fn(*mut MPI_Session, *mut c_int, ...);
/// `MPI_T_event_cb_function` (section 15.3.8).
pub(crate) type MPI_T_event_cb_function =
    unsafe extern "C" fn(MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
/// `MPI_T_event_free_cb_function` (section 15.3.8).
pub(crate) type MPI_T_event_free_cb_function =
    unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
/// `MPI_T_event_dropped_cb_function` (section 15.3.8).
pub(crate) type MPI_T_event_dropped_cb_function =
    unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void);

/// Which of the two C forms of a procedure was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// The form with `int` counts.
    Int,
    /// The form with `MPI_Count` counts, whose name ends in `_c`.
    Large,
}

/// An array of counts or displacements as the program passed it. Its length is another argument's affair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IntArray {
    /// `const int[]`
    I32(*const c_int),
    /// `const MPI_Count[]` or `const MPI_Aint[]`
    I64(*const i64),
}

impl IntArray {
    /// Whether the program passed a null pointer.
    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        match self {
            IntArray::I32(array) => array.is_null(),
            IntArray::I64(array) => array.is_null(),
        }
    }

    /// The element at `index`.
    ///
    /// # Safety
    /// The array must have more than `index` elements.
    #[inline(always)]
    pub(crate) unsafe fn get(self, index: usize) -> i64 {
        match self {
            // SAFETY: the caller vouches for the length of the program's array.
            IntArray::I32(array) => i64::from(unsafe { array.add(index).read() }),
            // SAFETY: as above.
            IntArray::I64(array) => unsafe { array.add(index).read() },
        }
    }
}

/// A place for a count that the program passed, `int` or 64 bits wide; OUT or INOUT.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountOut {
    /// `int *`
    I32(*mut c_int),
    /// `MPI_Count *` or `MPI_Aint *`
    I64(*mut i64),
    /// The form of the procedure that was called has no such argument.
    Absent,
}

impl CountOut {
    /// Writes `value`, or `MPI_UNDEFINED` where it does not fit (sections 3.2.5 and 5.1.5).
    ///
    /// # Safety
    /// The pointer must be valid for writing; the entry point has refused null.
    #[inline(always)]
    pub(crate) unsafe fn set(self, value: i64) {
        match self {
            // SAFETY: the caller vouches for the pointer.
            CountOut::I32(place) => unsafe {
                place.write(c_int::try_from(value).unwrap_or(abi::MPI_UNDEFINED))
            },
            // SAFETY: as above.
            CountOut::I64(place) => unsafe { place.write(value) },
            CountOut::Absent => {}
        }
    }

    /// The value the program put there (INOUT arguments such as the position of `MPI_Pack`); 0 if absent.
    ///
    /// # Safety
    /// The pointer must be valid for reading; the entry point has refused null.
    #[inline(always)]
    pub(crate) unsafe fn get(self) -> i64 {
        match self {
            // SAFETY: the caller vouches for the pointer.
            CountOut::I32(place) => i64::from(unsafe { place.read() }),
            // SAFETY: as above.
            CountOut::I64(place) => unsafe { place.read() },
            CountOut::Absent => 0,
        }
    }

    /// Whether `value` can be written without turning into `MPI_UNDEFINED`.
    #[inline(always)]
    pub(crate) fn fits(self, value: i64) -> bool {
        !matches!(self, CountOut::I32(_)) || c_int::try_from(value).is_ok()
    }
}

/// The function behind `MPI_Op_create` or `MPI_Op_create_c`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserFunction {
    /// From `MPI_Op_create`.
    Int(Callback<MPI_User_function>),
    /// From `MPI_Op_create_c`.
    Large(Callback<MPI_User_function_c>),
}

/// A conversion function of `MPI_Register_datarep` or `MPI_Register_datarep_c`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConversionFunction {
    /// From `MPI_Register_datarep`.
    Int(Callback<MPI_Datarep_conversion_function>),
    /// From `MPI_Register_datarep_c`.
    Large(Callback<MPI_Datarep_conversion_function_c>),
}
