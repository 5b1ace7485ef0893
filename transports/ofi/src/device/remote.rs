//! Reading, writing and changing the memory of other processes.

use super::{Denied, Device, MemoryRegion, begun};
use crate::select::REMOTE_MEMORY;
use crate::sys::{
    FI_ATOMIC, FI_CSWAP, FI_DELIVERY_COMPLETE, FI_ENOSYS, FI_MR_VIRT_ADDR, FI_SUM, FI_UINT64, fi_msg_rma,
    fi_ops_atomic, fi_ops_rma, fi_rma_iov, fid_ep,
};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use weft_api::zero_copy::RemoteMemory;

/// Most reads that one request of this process makes.
pub(crate) const MOST_TOGETHER: usize = 4;

/// One of the reads of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) room: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) descriptor: *mut c_void,
    pub(crate) there: RemoteMemory,
}

/// Whether a type and an operation go together, and how many numbers at a time.
type Validity = unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int;

impl Device {
    /// What others say to reach the first byte of a region at `address`.
    pub(crate) fn remote_name(&self, region: &MemoryRegion, address: u64) -> RemoteMemory {
        let by_address = self.offer.mr_mode & FI_MR_VIRT_ADDR != 0;
        // SAFETY: an open region.
        let key = unsafe { (*region.raw()).key };
        RemoteMemory { address: if by_address { address } else { 0 }, key }
    }

    /// Reads memory of another process.
    ///
    /// # Safety
    /// As [`Device::receive`], of the room.
    pub(crate) unsafe fn read(
        &mut self,
        room: *mut u8,
        bytes: usize,
        descriptor: *mut c_void,
        from: (u64, RemoteMemory),
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        // SAFETY: the table is looked for; the rest by contract.
        begun(unsafe {
            match self.remote_table().and_then(|table| table.read) {
                Some(read) => read(
                    self.endpoint.raw(),
                    room.cast(),
                    bytes,
                    descriptor,
                    from.0,
                    from.1.address,
                    from.1.key,
                    context,
                ),
                None => -FI_ENOSYS as isize,
            }
        })
    }

    /// Reads several runs of another process's memory, each into its own room, by one request: at most [`MOST_TOGETHER`], and no more than
    /// the provider takes.
    ///
    /// # Safety
    /// As [`Device::receive`], of each room.
    pub(crate) unsafe fn read_together(
        &mut self,
        parts: &[Part],
        from: u64,
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        let mut local = [libc::iovec { iov_base: null_mut(), iov_len: 0 }; MOST_TOGETHER];
        let mut remote = [fi_rma_iov { addr: 0, len: 0, key: 0 }; MOST_TOGETHER];
        let mut descriptors = [null_mut(); MOST_TOGETHER];
        for (at, part) in parts.iter().enumerate() {
            local[at] = libc::iovec { iov_base: part.room.cast(), iov_len: part.bytes };
            remote[at] = fi_rma_iov { addr: part.there.address, len: part.bytes, key: part.there.key };
            descriptors[at] = part.descriptor;
        }
        let message = fi_msg_rma {
            msg_iov: local.as_ptr(),
            desc: descriptors.as_mut_ptr(),
            iov_count: parts.len(),
            addr: from,
            rma_iov: remote.as_ptr(),
            rma_iov_count: parts.len(),
            context,
            data: 0,
        };
        // SAFETY: the table is looked for; the description is read before the call returns; the rest by contract.
        begun(unsafe {
            match self.remote_table().and_then(|table| table.readmsg) {
                Some(read) => read(self.endpoint.raw(), &message, 0),
                None => -FI_ENOSYS as isize,
            }
        })
    }

    /// Writes to memory of another process; ends when the bytes are visible there.
    ///
    /// # Safety
    /// As [`Device::receive`], of what is written.
    pub(crate) unsafe fn write(
        &mut self,
        source: *const u8,
        bytes: usize,
        descriptor: *mut c_void,
        to: (u64, RemoteMemory),
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        let local = libc::iovec { iov_base: source.cast_mut().cast(), iov_len: bytes };
        let remote = fi_rma_iov { addr: to.1.address, len: bytes, key: to.1.key };
        let mut descriptors = [descriptor];
        let message = fi_msg_rma {
            msg_iov: &raw const local,
            desc: descriptors.as_mut_ptr(),
            iov_count: 1,
            addr: to.0,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: the table is looked for; the description is read before the call returns; the rest by contract.
        begun(unsafe {
            match self.remote_table().and_then(|table| table.writemsg) {
                Some(write) => write(self.endpoint.raw(), &message, FI_DELIVERY_COMPLETE),
                None => -FI_ENOSYS as isize,
            }
        })
    }

    fn remote_table(&self) -> Option<&fi_ops_rma> {
        if !self.offer.can(REMOTE_MEMORY) {
            return None;
        }
        // SAFETY: an endpoint that was opened with the capability has the table, which lives as long as the endpoint.
        unsafe { (*self.endpoint.raw()).rma.as_ref() }
    }

    fn atomic_table(&self) -> Option<&fi_ops_atomic> {
        if !self.offer.can(FI_ATOMIC) {
            return None;
        }
        // SAFETY: as in `remote_table`.
        unsafe { (*self.endpoint.raw()).atomic.as_ref() }
    }

    /// Whether numbers of eight bytes can be added to and exchanged.
    pub(crate) fn has_atomics(&self) -> bool {
        let Some(table) = self.atomic_table() else { return false };
        let mut count = 0;
        let mut offered = |valid: Option<Validity>, operation| {
            // SAFETY: an open endpoint, and room for the answer.
            valid.is_some_and(
                |valid| unsafe { valid(self.endpoint.raw(), FI_UINT64, operation, &mut count) } == 0,
            )
        };
        offered(table.readwritevalid, FI_SUM) && offered(table.compwritevalid, FI_CSWAP) && count > 0
    }

    /// An atomic operation on eight bytes of another process: of the three numbers at `numbers` the first is the operand, the
    /// second what is compared with (where `compares`), the third becomes what was found.
    ///
    /// # Safety
    /// As [`Device::receive`], of the numbers.
    pub(crate) unsafe fn atomic(
        &mut self,
        numbers: *mut u64,
        compares: bool,
        descriptor: *mut c_void,
        at: (u64, RemoteMemory),
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        let Some(table) = self.atomic_table() else { return Err(Denied::Failed(i64::from(FI_ENOSYS))) };
        let (fetch, exchange) = (table.readwrite, table.compwrite);
        // SAFETY: three numbers by contract.
        let (operand, compared, found) =
            unsafe { (numbers.cast(), numbers.add(1).cast(), numbers.add(2).cast()) };
        let endpoint = self.endpoint.raw();
        let (to, RemoteMemory { address, key }) = at;
        // SAFETY: an endpoint with the table; the rest by contract.
        begun(unsafe {
            match (compares, fetch, exchange) {
                (false, Some(fetch), _) => fetch(
                    endpoint, operand, 1, descriptor, found, descriptor, to, address, key, FI_UINT64, FI_SUM,
                    context,
                ),
                (true, _, Some(exchange)) => exchange(
                    endpoint, operand, 1, descriptor, compared, descriptor, found, descriptor, to, address,
                    key, FI_UINT64, FI_CSWAP, context,
                ),
                _ => -FI_ENOSYS as isize,
            }
        })
    }
}
