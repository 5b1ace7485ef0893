//! Groups (section 7.3).

use std::ffi::c_int;
use std::sync::Arc;

use weft::group::Group;
use weft_types::{Error, ErrorClass, PeerId, Result as Outcome, abi};

use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::{remembered, snapshot};

/// The elements of an array argument.
///
/// # Safety
/// The program passes `count` elements; the entry has refused a null array of positive length.
pub(super) unsafe fn slice<'a, T>(count: c_int, array: *const T) -> &'a [T] {
    if count <= 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(array, count as usize) }
}

/// Names a group that was made out of one or two others, which are of the same session; it belongs to that.
unsafe fn make(
    from: MPI_Group,
    and: MPI_Group,
    newgroup: *mut MPI_Group,
    group: Group,
) -> Result<(), Raised> {
    let group = Arc::new(group);
    let handle = match gate::shared().no_sessions() {
        true => gate::shared().groups.name(group)?,
        false => gate::with(|process| {
            process.check_same_origin(from.handle(), and.handle())?;
            let named = process.name_group(group)?;
            process.sessions.inherit(named, from.handle());
            Ok(named)
        })
        .map_err(|error: Error| Raised::from(error))?,
    };
    // SAFETY: the entry has refused null.
    unsafe { newgroup.write(MPI_Group::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Group_size` (section 7.3.1).
pub(crate) unsafe fn group_size(group: MPI_Group, size: *mut c_int) -> Result<(), Raised> {
    let group = remembered::group(group.handle())?;
    // SAFETY: the entry has refused null.
    unsafe { size.write(group.size() as c_int) };
    Ok(())
}

/// `MPI_Group_rank` (section 7.3.1).
pub(crate) unsafe fn group_rank(group: MPI_Group, rank: *mut c_int) -> Result<(), Raised> {
    let found = remembered::group(group.handle())?.rank_of(PeerId(gate::shared().rank));
    // SAFETY: the entry has refused null.
    unsafe { rank.write(found.map_or(abi::MPI_UNDEFINED, |rank| rank.0 as c_int)) };
    Ok(())
}

/// `MPI_Group_translate_ranks` (section 7.3.1).
pub(crate) unsafe fn group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> Result<(), Raised> {
    let (from, to) = two(group1, group2)?;
    // SAFETY: the program passes arrays of `n` ranks.
    unsafe {
        let translated = from.translate(slice(n, ranks1), &to)?;
        for (index, rank) in translated.into_iter().enumerate() {
            ranks2.add(index).write(rank);
        }
    }
    Ok(())
}

fn two(group1: MPI_Group, group2: MPI_Group) -> Outcome<(Arc<Group>, Arc<Group>)> {
    Ok((remembered::group(group1.handle())?, remembered::group(group2.handle())?))
}

/// `MPI_Group_compare` (section 7.3.1).
pub(crate) unsafe fn group_compare(
    group1: MPI_Group,
    group2: MPI_Group,
    result: *mut c_int,
) -> Result<(), Raised> {
    let (first, second) = two(group1, group2)?;
    // SAFETY: the entry has refused null.
    unsafe { result.write(first.compare(&second) as c_int) };
    Ok(())
}

macro_rules! set_operations {
    ($($name:ident: $method:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) unsafe fn $name(
            group1: MPI_Group,
            group2: MPI_Group,
            newgroup: *mut MPI_Group,
        ) -> Result<(), Raised> {
            let (first, second) = two(group1, group2)?;
            // SAFETY: the entry has refused null.
            unsafe { make(group1, group2, newgroup, first.$method(&second)) }
        }
    )*};
}

set_operations! {
    group_union: union, "`MPI_Group_union` (section 7.3.2).";
    group_intersection: intersection, "`MPI_Group_intersection` (section 7.3.2).";
    group_difference: difference, "`MPI_Group_difference` (section 7.3.2).";
}

/// `MPI_Group_incl` (section 7.3.2).
pub(crate) unsafe fn group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<(), Raised> {
    // SAFETY: the program passes `n` ranks; the entry has refused a null group.
    unsafe {
        let made = remembered::group(group.handle())?.include(slice(n, ranks).iter().copied())?;
        make(group, group, newgroup, made)
    }
}

/// `MPI_Group_excl` (section 7.3.2).
pub(crate) unsafe fn group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe {
        let made = remembered::group(group.handle())?.exclude(slice(n, ranks).iter().copied())?;
        make(group, group, newgroup, made)
    }
}

fn check_range_count(n: c_int) -> Outcome<()> {
    if n < 0 {
        return Err(Error::new(ErrorClass::ARG, format!("n is {n}, but a number of ranges is not negative")));
    }
    Ok(())
}

/// `MPI_Group_range_incl` (section 7.3.2).
pub(crate) unsafe fn group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<(), Raised> {
    check_range_count(n)?;
    // SAFETY: as above, with triplets.
    unsafe {
        let made = remembered::group(group.handle())?.include_ranges(slice(n, ranges))?;
        make(group, group, newgroup, made)
    }
}

/// `MPI_Group_range_excl` (section 7.3.2).
pub(crate) unsafe fn group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<(), Raised> {
    check_range_count(n)?;
    // SAFETY: as above.
    unsafe {
        let made = remembered::group(group.handle())?.exclude_ranges(slice(n, ranges))?;
        make(group, group, newgroup, made)
    }
}

/// `MPI_Group_free` (section 7.3.3).
pub(crate) unsafe fn group_free(group: *mut MPI_Group) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { group.read() }.handle();
    // The empty group is predefined; freeing what an empty result gave is common, so it only clears the variable.
    if handle.0 != abi::MPI_GROUP_EMPTY {
        if !gate::shared().no_sessions() {
            gate::with(|process| process.sessions.forget(handle));
        }
        gate::shared().groups.remove(handle)?;
    }
    // SAFETY: as above.
    unsafe { group.write(MPI_Group::from_raw(abi::MPI_GROUP_NULL)) };
    Ok(())
}

/// `MPI_Comm_group` (section 7.3.2).
pub(crate) unsafe fn comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<(), Raised> {
    let handle = match gate::phase() & gate::LOCKED != 0 && gate::shared().no_sessions() {
        true => {
            let members = snapshot::comm(comm.handle(), |comm| Ok(Arc::clone(comm.local_group())))?;
            gate::shared().groups.name(members)?
        }
        false => gate::with(|process| {
            let members = Arc::clone(process.comms.get(comm.handle())?.local_group());
            let named = process.name_group(members)?;
            process.sessions.inherit(named, comm.handle());
            Ok(named)
        })
        .map_err(|error: Error| Raised::from(error))?,
    };
    // SAFETY: the entry has refused null.
    unsafe { group.write(MPI_Group::from_raw(handle.0)) };
    Ok(())
}
