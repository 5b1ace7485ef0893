//! What programs find by the context: the device's further facts, and its own memory.

use crate::devices::kind;
use crate::library::{access_of, fail, plain_region};
use crate::objects::{Inner, around, hand_out, take_back};
use crate::sys::*;
use crate::world::{Unit, misuse, world};
use libc::{c_int, c_uint, c_void, size_t};
use std::ptr::null_mut;

unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _input: *const c_void,
    attr: *mut ibv_device_attr_ex,
    size: size_t,
) -> c_int {
    if size < size_of::<ibv_device_attr_ex>() {
        return libc::EINVAL;
    }
    let kind = kind(around(context).at);
    // SAFETY: the program gives room for so much.
    let attr = unsafe { &mut *attr };
    attr.odp_caps.general_caps = if kind.on_demand == 0 { 0 } else { IBV_ODP_SUPPORT };
    attr.odp_caps.rc_odp_caps = kind.on_demand;
    attr.max_dm_size = kind.memory;
    attr.pci_atomic_caps = ibv_pci_atomic_caps { fetch_add: kind.by_bus, swap: 0, compare_swap: kind.by_bus };
    0
}

unsafe extern "C" fn alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm {
    // SAFETY: the program's own structure.
    let length = unsafe { (*attr).length };
    let at = around(context).at;
    let mut world = world();
    let unit = world.unit(at);
    if unit.counts.own_memory + length as u64 > unit.kind.memory {
        return fail(libc::ENOMEM);
    }
    unit.counts.own_memory += length as u64;
    unit.count(8, true);
    let base = ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: 0,
        handle: 0,
    };
    hand_out(Inner { base, bytes: vec![0; length].into() }).cast()
}

unsafe extern "C" fn free_dm(raw: *mut ibv_dm) -> c_int {
    // SAFETY: made by `alloc_dm`, and given back by its owner.
    let inner: Inner = unsafe { take_back(raw.cast()) };
    let mut world = world();
    let unit = world.unit(around(inner.base.context).at);
    let range = inner.bytes.as_ptr_range();
    if unit.bases.values().any(|&base| range.contains(&(base as *const u8))) {
        misuse("memory of the device is given back while it is registered");
    }
    unit.counts.own_memory -= inner.bytes.len() as u64;
    unit.count(8, false);
    0
}

unsafe extern "C" fn memcpy_to_dm(raw: *mut ibv_dm, at: u64, from: *const c_void, length: size_t) -> c_int {
    // SAFETY: made by `alloc_dm`; the world's lock keeps the device off.
    let (_world, inner) = unsafe { (world(), &mut *raw.cast::<Inner>()) };
    let Some(into) = inner.bytes.get_mut(at as usize..).and_then(|rest| rest.get_mut(..length)) else {
        misuse("a copy beyond the device's memory");
    };
    // Cards want words (the manual page of `ibv_alloc_dm`).
    if !at.is_multiple_of(4) || !length.is_multiple_of(4) {
        return libc::EFAULT;
    }
    // SAFETY: the program's bytes, which it lends for the call.
    into.copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) });
    0
}

unsafe extern "C" fn memcpy_from_dm(into: *mut c_void, raw: *mut ibv_dm, at: u64, length: size_t) -> c_int {
    // SAFETY: made by `alloc_dm`; the world's lock keeps the device off.
    let (_world, inner) = unsafe { (world(), &*raw.cast::<Inner>()) };
    let Some(from) = inner.bytes.get(at as usize..).and_then(|rest| rest.get(..length)) else {
        misuse("a copy beyond the device's memory");
    };
    // SAFETY: the program gives room for so much.
    unsafe { into.cast::<u8>().copy_from(from.as_ptr(), length) };
    0
}

unsafe extern "C" fn reg_dm_mr(
    domain: *mut ibv_pd,
    raw: *mut ibv_dm,
    at: u64,
    length: size_t,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: both were made by this library, and are the program's.
    let (context, number, inner) = unsafe { ((*domain).context, (*domain).handle, &*raw.cast::<Inner>()) };
    if access & IBV_ACCESS_ZERO_BASED == 0 || at + length as u64 > inner.bytes.len() as u64 {
        return fail(libc::EINVAL);
    }
    let mut world = world();
    let unit: &mut Unit = world.unit(around(context).at);
    let base = inner.bytes.as_ptr() as u64 + at;
    let Ok(keys) = unit.core.register(Unit::domain(number), base, length as u64, access_of(access)) else {
        return fail(libc::EINVAL);
    };
    unit.bases.insert(keys.local.0, base);
    plain_region(unit, (context, domain), (0, length), keys)
}

/// The members of the larger structure, empty where a device has nothing of it.
pub(crate) fn around_context(at: usize, context: ibv_context) -> verbs_context_end {
    let with_memory = kind(at).memory > 0;
    verbs_context_end {
        reg_dm_mr: with_memory.then_some(reg_dm_mr),
        alloc_dm: with_memory.then_some(alloc_dm),
        free_dm: with_memory.then_some(free_dm),
        before_query_device_ex: [null_mut(); 17],
        query_device_ex: Some(query_device_ex),
        before_sz: [null_mut(); 11],
        sz: size_of::<verbs_context_end>(),
        context,
    }
}
