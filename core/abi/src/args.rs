//! The argument checks that the table derives: each costs a compare and a branch, its text is made in a cold path.
//!
//! The texts name the argument, its value and the rule; `raise::finish` puts the procedure's name before them.
#![allow(
    dead_code,
    reason = "called by generated code, which uses a check once a procedure that needs it arrives"
)]

use weft_types::{Error, ErrorClass};

use crate::raise::Raised;

/// An OUT or INOUT pointer must not be null.
#[inline(always)]
pub(crate) fn out<T>(argument: &'static str, pointer: *const T) -> Result<(), Raised> {
    if pointer.is_null() { Err(null_out(argument)) } else { Ok(()) }
}

/// A number of elements must not be negative; `class` is `MPI_ERR_COUNT` for message counts.
#[inline(always)]
pub(crate) fn not_negative(class: ErrorClass, argument: &'static str, value: i64) -> Result<(), Raised> {
    if value < 0 { Err(negative(class, argument, value)) } else { Ok(()) }
}

/// An array must not be null when its length is positive.
#[inline(always)]
pub(crate) fn array(argument: &'static str, is_null: bool, length: i64) -> Result<(), Raised> {
    if is_null && length > 0 { Err(null_array(argument, length)) } else { Ok(()) }
}

/// A string must not be null; `class` is that of the argument (`MPI_ERR_INFO_KEY` for keys and so on).
#[inline(always)]
pub(crate) fn string<T>(class: ErrorClass, argument: &'static str, pointer: *const T) -> Result<(), Raised> {
    if pointer.is_null() { Err(null_string(class, argument)) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn null_out(argument: &'static str) -> Raised {
    Error::new(
        ErrorClass::ARG,
        format!("{argument} is a null pointer, but a result is returned through it; pass the address of a variable"),
    )
    .into()
}

#[cold]
#[inline(never)]
fn negative(class: ErrorClass, argument: &'static str, value: i64) -> Raised {
    Error::new(class, format!("{argument} is {value}, but it must not be negative")).into()
}

#[cold]
#[inline(never)]
fn null_array(argument: &'static str, length: i64) -> Raised {
    Error::new(
        ErrorClass::ARG,
        format!("{argument} is a null pointer, but {length} elements are to be read there"),
    )
    .into()
}

#[cold]
#[inline(never)]
fn null_string(class: ErrorClass, argument: &'static str) -> Raised {
    Error::new(class, format!("{argument} is a null pointer, but a string is needed")).into()
}
