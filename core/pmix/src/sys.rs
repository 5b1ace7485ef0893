//! What of `pmix.h` and `pmix_common.h` is used here, under its own names: a test compares every field and number with the
//! installed headers.
//!
//! PMIx 3, 4 and 5 agree in all of it: structures grew by members of the union in `pmix_value_t` only, which leave its size as it
//! is, and numbers and keys were added and never changed.

#![allow(non_camel_case_types, reason = "the names are those of the headers")]
#![allow(missing_docs, reason = "the headers and the PMIx standard say what they mean")]

use libc::{c_char, c_int, size_t};
use std::ffi::CStr;

pub(crate) const PMIX_MAX_NSLEN: usize = 255;
pub(crate) const PMIX_MAX_KEYLEN: usize = 511;

pub(crate) const PMIX_RANK_WILDCARD: u32 = u32::MAX - 1;

pub(crate) const PMIX_SUCCESS: c_int = 0;
pub(crate) const PMIX_ERR_UNREACH: c_int = -25;
pub(crate) const PMIX_ERR_NOT_FOUND: c_int = -46;
pub(crate) const PMIX_ERR_NOT_SUPPORTED: c_int = -47;

/// Seen by all processes, of this node and of others (`pmix_scope_t`).
pub(crate) const PMIX_GLOBAL: u8 = 3;

pub(crate) const PMIX_BOOL: u16 = 1;
pub(crate) const PMIX_STRING: u16 = 3;
pub(crate) const PMIX_SIZE: u16 = 4;
pub(crate) const PMIX_INT: u16 = 6;
pub(crate) const PMIX_INT8: u16 = 7;
pub(crate) const PMIX_INT16: u16 = 8;
pub(crate) const PMIX_INT32: u16 = 9;
pub(crate) const PMIX_INT64: u16 = 10;
pub(crate) const PMIX_UINT: u16 = 11;
pub(crate) const PMIX_UINT8: u16 = 12;
pub(crate) const PMIX_UINT16: u16 = 13;
pub(crate) const PMIX_UINT32: u16 = 14;
pub(crate) const PMIX_UINT64: u16 = 15;
pub(crate) const PMIX_BYTE_OBJECT: u16 = 27;
pub(crate) const PMIX_PROC_RANK: u16 = 40;

pub(crate) const PMIX_JOB_SIZE: &CStr = c"pmix.job.size";
pub(crate) const PMIX_UNIV_SIZE: &CStr = c"pmix.univ.size";
pub(crate) const PMIX_APPNUM: &CStr = c"pmix.appnum";
pub(crate) const PMIX_ANL_MAP: &CStr = c"pmix.anlmap";
pub(crate) const PMIX_COLLECT_DATA: &CStr = c"pmix.collect";
pub(crate) const PMIX_IMMEDIATE: &CStr = c"pmix.immediate";

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_proc {
    pub(crate) nspace: [c_char; PMIX_MAX_NSLEN + 1],
    pub(crate) rank: u32,
}

/// `pmix_byte_object_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_byte_object {
    pub(crate) bytes: *mut c_char,
    pub(crate) size: size_t,
}

/// What of the union is used, and its largest members.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union pmix_value_data {
    pub(crate) flag: bool,
    pub(crate) string: *mut c_char,
    pub(crate) size: size_t,
    pub(crate) integer: c_int,
    pub(crate) int8: i8,
    pub(crate) int16: i16,
    pub(crate) int32: i32,
    pub(crate) int64: i64,
    pub(crate) uint8: u8,
    pub(crate) uint16: u16,
    pub(crate) uint32: u32,
    pub(crate) uint64: u64,
    pub(crate) rank: u32,
    pub(crate) bo: pmix_byte_object,
    /// `pmix_envar_t`: two pointers and a character.
    pub(crate) widest: [u64; 3],
}

/// `pmix_value_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_value {
    pub(crate) r#type: u16,
    pub(crate) data: pmix_value_data,
}

/// `pmix_info_t`
#[repr(C)]
pub(crate) struct pmix_info {
    pub(crate) key: [c_char; PMIX_MAX_KEYLEN + 1],
    pub(crate) flags: u32,
    pub(crate) value: pmix_value,
}

/// `pmix_pdata_t`
#[repr(C)]
pub(crate) struct pmix_pdata {
    pub(crate) proc: pmix_proc,
    pub(crate) key: [c_char; PMIX_MAX_KEYLEN + 1],
    pub(crate) value: pmix_value,
}

#[cfg(test)]
mod tests;
