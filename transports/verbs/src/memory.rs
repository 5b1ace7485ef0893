//! Memory that the device may touch: buffers of its own, and regions of others' memory.

use crate::context::{Context, errno};
use crate::sys::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_RELAXED_ORDERING, IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, ibv_mr,
};
use libc::{c_int, c_uint, c_void};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_api::verbs::{Access, DeviceBuffer, HcaRefusal, LocalKey, RegionKeys, RemoteKey, Segment};

/// Rights as the library wants them.
pub(crate) fn flags(access: Access) -> c_uint {
    let flag = |wanted, flag| if wanted { flag } else { 0 };
    flag(access.local_write, IBV_ACCESS_LOCAL_WRITE)
        | flag(access.remote_write, IBV_ACCESS_REMOTE_WRITE)
        | flag(access.remote_read, IBV_ACCESS_REMOTE_READ)
        | flag(access.remote_atomic, IBV_ACCESS_REMOTE_ATOMIC)
}

/// Bytes that were mapped for the device.
#[derive(Debug)]
struct Buffer {
    start: NonNull<c_void>,
    length: usize,
    region: *mut ibv_mr,
}

impl Buffer {
    fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }
}

/// All memory of one device. Its owner calls [`Memory::release`] before the context goes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Few, and looked through.
    buffers: Vec<Buffer>,
    regions: HashMap<u32, *mut ibv_mr>,
}

impl Memory {
    /// Maps zeroes and registers them.
    pub(crate) fn allocate(
        &mut self,
        context: &Context,
        bytes: u64,
        access: Access,
    ) -> Result<DeviceBuffer, HcaRefusal> {
        let length = usize::try_from(bytes).ok().and_then(NonZeroUsize::new).ok_or(HcaRefusal::Size)?;
        // SAFETY: a fresh mapping touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }
        .map_err(|_| HcaRefusal::Exhausted)?;
        // The device must not write a flag before the data in front of it here: these are polled.
        let Ok(region) = register(context, start.as_ptr() as u64, bytes, flags(access)) else {
            // SAFETY: it was just mapped, and nobody has seen it.
            let _ = unsafe { munmap(start, length.get()) };
            return Err(HcaRefusal::Exhausted);
        };
        self.buffers.push(Buffer { start, length: length.get(), region });
        Ok(DeviceBuffer { address: start.as_ptr() as u64, length: bytes, keys: keys(region) })
    }

    /// Registers memory of this process.
    pub(crate) fn register(
        &mut self,
        context: &Context,
        on_demand: bool,
        (address, length): (u64, u64),
        access: Access,
    ) -> Result<RegionKeys, HcaRefusal> {
        if length == 0 || !access.is_consistent() {
            return Err(HcaRefusal::Invalid);
        }
        // Whoever looks at it looks after a completion, so its parts may come in any order.
        let wishes = IBV_ACCESS_RELAXED_ORDERING | if on_demand { IBV_ACCESS_ON_DEMAND } else { 0 };
        let region =
            register(context, address, length, flags(access) | wishes).map_err(|errno| match errno {
                // Keys, or pages that may be pinned.
                libc::ENOMEM | libc::EAGAIN | libc::ENOSPC => HcaRefusal::Exhausted,
                _ => HcaRefusal::Invalid,
            })?;
        let keys = keys(region);
        self.regions.insert(keys.local.0, region);
        Ok(keys)
    }

    /// Gives a region of [`Memory::register`] back.
    pub(crate) fn deregister(&mut self, context: &Context, keys: RegionKeys) {
        if let Some(region) = self.regions.remove(&keys.local.0) {
            deregister(context, region);
        }
    }

    fn look_for(&self, address: u64, length: usize) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| {
            address.checked_sub(buffer.address()).is_some_and(|offset| {
                offset as usize <= buffer.length && length <= buffer.length - offset as usize
            })
        })
    }

    fn find(&self, address: u64, length: usize) -> &Buffer {
        self.look_for(address, length).expect("a range of a buffer of this device")
    }

    /// Whether a range lies in one of our buffers, under its key.
    pub(crate) fn is_own(&self, segment: &Segment) -> bool {
        self.look_for(segment.address, segment.length as usize)
            // SAFETY: a live region of the library.
            .is_some_and(|buffer| unsafe { (*buffer.region).lkey } == segment.key.0)
    }

    /// Part of a buffer.
    ///
    /// # Panics
    /// When the range lies in no buffer.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> &[u8] {
        let buffer = self.find(address, length);
        // SAFETY: the range is inside a mapping that lives as long as `self`. The device writes only to what is posted for it,
        // which its poster keeps off (see `Hca::bytes_mut`); nobody else has the buffer's address but for that.
        unsafe {
            std::slice::from_raw_parts(
                buffer.start.as_ptr().cast::<u8>().add((address - buffer.address()) as usize),
                length,
            )
        }
    }

    /// Eight aligned bytes of a buffer, which the device may be writing.
    ///
    /// # Panics
    /// When the range lies in no buffer, or is not aligned.
    pub(crate) fn word(&self, address: u64) -> u64 {
        let buffer = self.find(address, 8);
        assert!(address.is_multiple_of(8), "a word at {address:#x}");
        // SAFETY: the range is inside a mapping that lives as long as `self`, and aligned. The device may write there at any
        // time, as another thread with atomic stores of bytes would; nobody has a reference to it meanwhile: what is looked at
        // by words is no slice until its word says that the device is done.
        let word = unsafe {
            AtomicU64::from_ptr(
                buffer.start.as_ptr().cast::<u8>().add((address - buffer.address()) as usize).cast(),
            )
        };
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// As [`Memory::bytes`], to write to.
    ///
    /// # Panics
    /// When the range lies in no buffer.
    pub(crate) fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let buffer = self.find(address, length);
        // SAFETY: as above; and `self` is borrowed as a whole, so this is the only slice of it.
        unsafe {
            std::slice::from_raw_parts_mut(
                buffer.start.as_ptr().cast::<u8>().add((address - buffer.address()) as usize),
                length,
            )
        }
    }

    /// Gives everything back; nothing that was posted uses it any more.
    pub(crate) fn release(&mut self, context: &Context) {
        for (_, region) in self.regions.drain() {
            // SAFETY: it came from the library, and leaves our list here.
            unsafe { (context.library.ibv_dereg_mr)(region) };
        }
        for buffer in self.buffers.drain(..) {
            // SAFETY: as above; the mapping is ours, and no slice of it outlives the borrow of `self`.
            unsafe {
                (context.library.ibv_dereg_mr)(buffer.region);
                let _ = munmap(buffer.start, buffer.length);
            }
        }
    }
}

fn keys(region: *mut ibv_mr) -> RegionKeys {
    // SAFETY: a live region of the library.
    unsafe { RegionKeys { local: LocalKey((*region).lkey), remote: RemoteKey((*region).rkey) } }
}

/// Registers a range, with what the library knows of the flags.
/// A region of memory of this process.
pub(crate) fn register(
    context: &Context,
    address: u64,
    length: u64,
    flags: c_uint,
) -> Result<*mut ibv_mr, i32> {
    let length = usize::try_from(length).map_err(|_| libc::EINVAL)?;
    let (library, domain) = (context.library, context.domain());
    // SAFETY: the kernel looks whether the range is there; the domain is live.
    let region = unsafe {
        match library.ibv_reg_mr_iova2 {
            Some(register) => register(domain, address as *mut c_void, length, address, flags),
            None => {
                let flags = flags & !IBV_ACCESS_RELAXED_ORDERING;
                (library.ibv_reg_mr)(domain, address as *mut c_void, length, flags as c_int)
            }
        }
    };
    if region.is_null() { Err(errno()) } else { Ok(region) }
}

/// Gives back what [`register`] gave.
pub(crate) fn deregister(context: &Context, region: *mut ibv_mr) {
    // SAFETY: its owner has it from the library and gives it away with this call.
    unsafe { (context.library.ibv_dereg_mr)(region) };
}
