//! Datatypes: sizes, names, constructors, decoding (section 5.1).

use std::ffi::{c_char, c_int};

use weft::Process;
use weft::attributes::Holder;
use weft_datatype::{Bounds, Datatype, Form, Grid, Unnamed, ValueIndex};
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::attributes;
use super::environment::{bytes, datatype, write_string};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

const fn form(width: Width) -> Form {
    match width {
        Width::Int => Form::Int,
        Width::Large => Form::Large,
    }
}

/// Makes a datatype and names it.
unsafe fn make(
    newtype: *mut MPI_Datatype,
    build: impl FnOnce(&Process) -> Outcome<Datatype>,
) -> Result<(), Raised> {
    let handle = gate::with(|process| {
        let datatype = build(process)?;
        process.types.insert(datatype)
    })?;
    // SAFETY: the entry has refused null.
    unsafe { newtype.write(MPI_Datatype::from_raw(handle.0)) };
    Ok(())
}

/// The elements of a count array.
///
/// # Safety
/// The program passes `count` elements; the entry has refused a null array of positive length.
unsafe fn numbers(array: IntArray, count: usize) -> Vec<i64> {
    // SAFETY: the caller's promise.
    (0..count).map(|index| unsafe { array.get(index) }).collect()
}

/// `MPI_Type_size` (section 5.1.5).
pub(crate) unsafe fn type_size(of: MPI_Datatype, size: CountOut) -> Result<(), Raised> {
    let bytes = datatype(of, |of| Ok(of.size()))?;
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(i64::from(abi::MPI_UNDEFINED));
    // SAFETY: the entry has refused null.
    unsafe { size.set(bytes) };
    Ok(())
}

/// `MPI_Type_size_x` (section 16.4).
pub(crate) unsafe fn type_size_x(of: MPI_Datatype, size: *mut MPI_Count) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { type_size(of, CountOut::I64(size)) }
}

unsafe fn bounds(
    of: MPI_Datatype,
    low: *mut i64,
    extent: *mut i64,
    pick: impl FnOnce(Bounds) -> (i64, i64),
) -> Result<(), Raised> {
    let (from, length) = pick(datatype(of, |of| Ok(of.bounds()))?);
    // SAFETY: the entry has refused null.
    unsafe {
        low.write(from);
        extent.write(length);
    }
    Ok(())
}

/// `MPI_Type_get_extent` (section 5.1.7).
pub(crate) unsafe fn type_get_extent(of: MPI_Datatype, lb: *mut i64, extent: *mut i64) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { bounds(of, lb, extent, |bounds| (bounds.lb, bounds.extent)) }
}

/// `MPI_Type_get_extent_x` (section 16.4).
pub(crate) unsafe fn type_get_extent_x(
    of: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { bounds(of, lb, extent, |bounds| (bounds.lb, bounds.extent)) }
}

/// `MPI_Type_get_true_extent` (section 5.1.8).
pub(crate) unsafe fn type_get_true_extent(
    of: MPI_Datatype,
    lb: *mut i64,
    extent: *mut i64,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { bounds(of, lb, extent, |bounds| (bounds.true_lb, bounds.true_extent)) }
}

/// `MPI_Type_get_true_extent_x` (section 16.4).
pub(crate) unsafe fn type_get_true_extent_x(
    of: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { bounds(of, lb, extent, |bounds| (bounds.true_lb, bounds.true_extent)) }
}

/// `MPI_Type_commit` (section 5.1.9).
pub(crate) unsafe fn type_commit(of: *mut MPI_Datatype) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    datatype(unsafe { of.read() }, |of| {
        of.commit();
        Ok(())
    })?;
    Ok(())
}

/// `MPI_Type_free` (section 5.1.9).
pub(crate) unsafe fn type_free(of: *mut MPI_Datatype) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { of.read() }.handle();
    gate::with(|process| process.types.check_freeable(handle))?;
    attributes::delete_all_of(Holder::Datatype, handle)?;
    gate::with(|process| process.types.remove(handle))?;
    // SAFETY: as above.
    unsafe { of.write(MPI_Datatype::from_raw(abi::MPI_DATATYPE_NULL)) };
    Ok(())
}

/// `MPI_Type_dup` (section 5.1.10): attributes are copied, the name is not.
pub(crate) unsafe fn type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> Result<(), Raised> {
    let duplicate = datatype(oldtype, Datatype::duplicate)?;
    let copied = attributes::copies(Holder::Datatype, oldtype.handle())?;
    let handle = gate::with(|process| process.types.insert(duplicate))?;
    attributes::attach(Holder::Datatype, handle, copied)?;
    // SAFETY: the entry has refused null.
    unsafe { newtype.write(MPI_Datatype::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Type_set_name` (section 7.8).
pub(crate) unsafe fn type_set_name(of: MPI_Datatype, name: *const c_char) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(name) };
    let kept = &name[..name.len().min(abi::MPI_MAX_OBJECT_NAME as usize - 1)];
    gate::with(|process| process.types.extras_mut(of.handle()).map(|extras| extras.name = kept.into()))?;
    Ok(())
}

/// `MPI_Type_get_name` (section 7.8).
pub(crate) unsafe fn type_get_name(
    of: MPI_Datatype,
    name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<(), Raised> {
    let found = match of.handle().0 {
        abi::MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL"[..].into(),
        _ => gate::with(|process| process.types.extras_mut(of.handle()).map(|extras| extras.name.clone()))?,
    };
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_OBJECT_NAME characters.
    unsafe { resultlen.write(write_string(&found, name, abi::MPI_MAX_OBJECT_NAME as usize) as c_int) };
    Ok(())
}

/// `MPI_Type_contiguous` (section 5.1.2).
pub(crate) unsafe fn type_contiguous(
    count: i64,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    width: Width,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe {
        make(newtype, |process| {
            Datatype::contiguous(count, process.types.get(oldtype.handle())?, form(width))
        })
    }
}

macro_rules! strided {
    ($($name:ident: $method:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) unsafe fn $name(
            count: i64,
            blocklength: i64,
            stride: i64,
            oldtype: MPI_Datatype,
            newtype: *mut MPI_Datatype,
            width: Width,
        ) -> Result<(), Raised> {
            // SAFETY: the entry has refused null.
            unsafe {
                make(newtype, |process| {
                    let old = process.types.get(oldtype.handle())?;
                    Datatype::$method(count, blocklength, stride, old, form(width))
                })
            }
        }
    )*};
}

strided! {
    type_vector: vector, "`MPI_Type_vector` (section 5.1.2).";
    type_create_hvector: hvector, "`MPI_Type_create_hvector` (section 5.1.2).";
}

macro_rules! indexed {
    ($($name:ident($array:ty, $read:ident): $method:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) unsafe fn $name(
            count: i64,
            blocklengths: IntArray,
            displacements: $array,
            oldtype: MPI_Datatype,
            newtype: *mut MPI_Datatype,
            width: Width,
        ) -> Result<(), Raised> {
            // SAFETY: the program passes arrays of `count` numbers; the entry has refused null.
            unsafe {
                let (lengths, places) = (numbers(blocklengths, count as usize), $read(displacements, count as usize));
                make(newtype, |process| {
                    Datatype::$method(&lengths, &places, process.types.get(oldtype.handle())?, form(width))
                })
            }
        }
    )*};
}

/// The elements of an array of addresses, which has one C type in both forms.
///
/// # Safety
/// As [`numbers`].
unsafe fn addresses(array: *const i64, count: usize) -> Vec<i64> {
    // SAFETY: the caller's promise.
    unsafe { numbers(IntArray::I64(array), count) }
}

indexed! {
    type_indexed(IntArray, numbers): indexed, "`MPI_Type_indexed` (section 5.1.2).";
    type_create_hindexed(*const i64, addresses): hindexed, "`MPI_Type_create_hindexed` (section 5.1.2).";
}

macro_rules! indexed_blocks {
    ($($name:ident($array:ty, $read:ident): $method:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) unsafe fn $name(
            count: i64,
            blocklength: i64,
            displacements: $array,
            oldtype: MPI_Datatype,
            newtype: *mut MPI_Datatype,
            width: Width,
        ) -> Result<(), Raised> {
            // SAFETY: the program passes an array of `count` numbers; the entry has refused null.
            unsafe {
                let places = $read(displacements, count as usize);
                make(newtype, |process| {
                    Datatype::$method(blocklength, &places, process.types.get(oldtype.handle())?, form(width))
                })
            }
        }
    )*};
}

indexed_blocks! {
    type_create_indexed_block(IntArray, numbers): indexed_block, "`MPI_Type_create_indexed_block` (section 5.1.2).";
    type_create_hindexed_block(*const i64, addresses): hindexed_block, "`MPI_Type_create_hindexed_block` (section 5.1.2).";
}

/// `MPI_Type_create_struct` (section 5.1.2).
pub(crate) unsafe fn type_create_struct(
    count: i64,
    blocklengths: IntArray,
    displacements: *const i64,
    types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
    width: Width,
) -> Result<(), Raised> {
    // SAFETY: the program passes arrays of `count` elements; the entry has refused null.
    unsafe {
        let count = count as usize;
        let (lengths, places) = (numbers(blocklengths, count), addresses(displacements, count));
        make(newtype, |process| {
            let olds: Vec<Datatype> = (0..count)
                .map(|index| {
                    process.types.get(types.add(index).read().handle()).cloned().map_err(|error| {
                        Error::new(error.class(), format!("array_of_types[{index}]: {}", error.text()))
                    })
                })
                .collect::<Outcome<_>>()?;
            Datatype::structure(&lengths, &places, &olds, form(width))
        })
    }
}

/// `MPI_Type_create_resized` (section 5.1.7).
pub(crate) unsafe fn type_create_resized(
    oldtype: MPI_Datatype,
    lb: i64,
    extent: i64,
    newtype: *mut MPI_Datatype,
    width: Width,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe {
        make(newtype, |process| {
            Datatype::resized(process.types.get(oldtype.handle())?, lb, extent, form(width))
        })
    }
}

/// `MPI_Type_create_subarray` (section 5.1.3).
pub(crate) unsafe fn type_create_subarray(
    ndims: c_int,
    sizes: IntArray,
    subsizes: IntArray,
    starts: IntArray,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    width: Width,
) -> Result<(), Raised> {
    let count = usize::try_from(ndims).unwrap_or(0);
    // SAFETY: the program passes arrays of `ndims` numbers; the entry has refused null.
    unsafe {
        let (sizes, subsizes, starts) =
            (numbers(sizes, count), numbers(subsizes, count), numbers(starts, count));
        make(newtype, |process| {
            let old = process.types.get(oldtype.handle())?;
            Datatype::subarray(&sizes, &subsizes, &starts, order, old, form(width))
        })
    }
}

/// `MPI_Type_create_darray` (section 5.1.4).
pub(crate) unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: IntArray,
    distribs: *const c_int,
    dargs: *const c_int,
    psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    width: Width,
) -> Result<(), Raised> {
    let count = usize::try_from(ndims).unwrap_or(0);
    // SAFETY: the program passes arrays of `ndims` numbers; the entry has refused null.
    unsafe {
        let ints = |array: *const c_int| -> Vec<c_int> { (0..count).map(|i| array.add(i).read()).collect() };
        let sizes = numbers(gsizes, count);
        let (distributions, arguments, processes) = (ints(distribs), ints(dargs), ints(psizes));
        let grid = Grid {
            size,
            rank,
            sizes: &sizes,
            distributions: &distributions,
            arguments: &arguments,
            processes: &processes,
            order,
        };
        make(newtype, |process| Datatype::darray(&grid, process.types.get(oldtype.handle())?, form(width)))
    }
}

/// Answers the handle of a predefined type without a name.
unsafe fn answer_unnamed(newtype: *mut MPI_Datatype, name: Unnamed) -> Result<(), Raised> {
    let handle = gate::with(|process| process.types.unnamed(name))?;
    // SAFETY: the entry has refused null.
    unsafe { newtype.write(MPI_Datatype::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Type_create_f90_real` (section 19.1.9).
pub(crate) unsafe fn type_create_f90_real(
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { answer_unnamed(newtype, Unnamed::Real(p, r)) }
}

/// `MPI_Type_create_f90_complex` (section 19.1.9).
pub(crate) unsafe fn type_create_f90_complex(
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { answer_unnamed(newtype, Unnamed::Complex(p, r)) }
}

/// `MPI_Type_create_f90_integer` (section 19.1.9).
pub(crate) unsafe fn type_create_f90_integer(r: c_int, newtype: *mut MPI_Datatype) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { answer_unnamed(newtype, Unnamed::Integer(r)) }
}

/// `MPI_Type_match_size` (section 19.1.9).
pub(crate) unsafe fn type_match_size(
    typeclass: c_int,
    size: c_int,
    found: *mut MPI_Datatype,
) -> Result<(), Raised> {
    let classes = [abi::MPI_TYPECLASS_INTEGER, abi::MPI_TYPECLASS_REAL, abi::MPI_TYPECLASS_COMPLEX];
    let matching = weft_datatype::Predefined::matching(typeclass, size).ok_or_else(|| {
        let text = if classes.contains(&typeclass) {
            format!("size is {size}; no type of this typeclass has so many bytes here")
        } else {
            format!(
                "typeclass is {typeclass}; it must be MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL or \
                 MPI_TYPECLASS_COMPLEX"
            )
        };
        Error::new(ErrorClass::ARG, text)
    })?;
    // SAFETY: the entry has refused null.
    unsafe { found.write(MPI_Datatype::from_raw(matching.handle())) };
    Ok(())
}

/// `MPI_Type_get_value_index` (section 6.9.4).
pub(crate) unsafe fn type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> Result<(), Raised> {
    let handle = gate::with(|process| {
        let types = &mut process.types;
        let found = ValueIndex::of(types.get(value_type.handle())?, types.get(index_type.handle())?);
        Outcome::Ok(match found {
            Some(ValueIndex::Named(pair)) => pair.handle(),
            Some(ValueIndex::Unnamed(name)) => types.unnamed(name)?.0,
            None => abi::MPI_DATATYPE_NULL,
        })
    })?;
    // SAFETY: the entry has refused null.
    unsafe { pair_type.write(MPI_Datatype::from_raw(handle)) };
    Ok(())
}

/// `MPI_Type_get_envelope` (section 5.1.13).
pub(crate) unsafe fn type_get_envelope(
    of: MPI_Datatype,
    integers: CountOut,
    addresses: CountOut,
    large_counts: CountOut,
    datatypes: CountOut,
    combiner: *mut c_int,
) -> Result<(), Raised> {
    let (counts, made_by) = datatype(of, |of| {
        let counts = of.contents().map_or([0; 4], |contents| {
            [
                contents.integers.len(),
                contents.addresses.len(),
                contents.large_counts.len(),
                contents.datatypes.len(),
            ]
        });
        if counts[2] > 0 && matches!(large_counts, CountOut::Absent) {
            return Err(Error::new(
                ErrorClass::TYPE,
                "the datatype was made with large counts; ask with MPI_Type_get_envelope_c",
            ));
        }
        Ok((counts, weft_datatype::decode::combiner(of)))
    })?;
    // SAFETY: the entry has refused null.
    unsafe {
        for (place, count) in [integers, addresses, large_counts, datatypes].into_iter().zip(counts) {
            place.set(count as i64);
        }
        combiner.write(made_by);
    }
    Ok(())
}

/// `MPI_Type_get_contents` (section 5.1.13).
pub(crate) unsafe fn type_get_contents(
    of: MPI_Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: *mut c_int,
    addresses: *mut MPI_Aint,
    large_counts: *mut MPI_Count,
    datatypes: *mut MPI_Datatype,
) -> Result<(), Raised> {
    let contents = datatype(of, |of| {
        of.contents().cloned().ok_or_else(|| {
            Error::new(ErrorClass::TYPE, "the datatype is predefined; it was not made by a constructor call")
        })
    })?;
    if large_counts.is_null() && !contents.large_counts.is_empty() {
        return Err(Error::new(
            ErrorClass::TYPE,
            "the datatype was made with large counts; ask with MPI_Type_get_contents_c",
        )
        .into());
    }
    for (what, max, have) in [
        ("max_integers", max_integers, contents.integers.len()),
        ("max_addresses", max_addresses, contents.addresses.len()),
        ("max_large_counts", max_large_counts, contents.large_counts.len()),
        ("max_datatypes", max_datatypes, contents.datatypes.len()),
    ] {
        if max < have as i64 {
            return Err(Error::new(
                ErrorClass::ARG,
                format!("{what} is {max}, but the constructor call had {have}; MPI_Type_get_envelope tells the numbers"),
            )
            .into());
        }
    }
    // SAFETY: the program passes arrays with room for the numbers checked.
    unsafe {
        for (index, &value) in contents.integers.iter().enumerate() {
            integers.add(index).write(value);
        }
        for (index, &value) in contents.addresses.iter().enumerate() {
            addresses.add(index).write(value);
        }
        for (index, &value) in contents.large_counts.iter().enumerate() {
            large_counts.add(index).write(value);
        }
        for (index, old) in contents.datatypes.iter().enumerate() {
            let handle = gate::with(|process| process.types.handle_of(old))?;
            datatypes.add(index).write(MPI_Datatype::from_raw(handle.0));
        }
    }
    Ok(())
}
