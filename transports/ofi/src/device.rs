//! An open endpoint with what belongs to it: fabric, domain, address vector, completion queue, registered memory.
//!
//! The interface is safe because all memory that operations work on is owned here: messages lie in slots ([`crate::slots`]),
//! which nobody can touch while the library has them, and everything is closed before the memory goes.

mod group;
mod keys;
mod object;
mod remote;

pub(crate) use group::{GroupEndpoint, Operands};
pub(crate) use keys::MemoryRegion;
pub(crate) use object::Object;
pub(crate) use remote::{MOST_TOGETHER, Part};

use crate::abilities::Abilities;
use crate::library::{InfoList, Library, library};
use crate::offer::{Carrier, Offer};
use crate::omni_path;
use crate::select::{Collectives, Wanted};
use crate::survey::{Found, choose, describe, find_again, offers_capability};
use crate::sys::*;
use crate::universe;
use keys::{Key, Keys};
use object::wait_object;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};
use weft_types::{Error, ErrorClass, Result};

/// The tag of packets, where they have one: matching is the engine's, and all that arrives is taken in turn. A low bit is in every
/// provider's format of tags.
const PACKET: u64 = 1;

/// Why an operation was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Not now: its queue is full, or a connection is being made.
    Again,
    /// Never: an error number of the library.
    Failed(i64),
}

fn begun(result: isize) -> std::result::Result<(), Denied> {
    match -(result as i64) {
        0 => Ok(()),
        number if number == i64::from(FI_EAGAIN) => Err(Denied::Again),
        number => Err(Denied::Failed(number)),
    }
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The address that was given as its context; null for a failed one that had none.
    pub(crate) context: *mut c_void,
    /// Bytes received.
    pub(crate) bytes: usize,
    /// 0, or the error number.
    pub(crate) error: i64,
}

/// An open endpoint.
pub(crate) struct Device {
    // In the order in which they are closed.
    endpoint: Object<fid_ep>,
    completions: Object<fid_cq>,
    addresses: Object<fid_av>,
    domain: Object<fid_domain>,
    fabric: Object<fid_fabric>,
    _list: InfoList,
    /// In the list.
    info: *mut fi_info,
    /// Collectives that the provider runs in groups, where they are used.
    abilities: Option<Abilities>,
    /// Who runs collectives, and why.
    collectives: Collectives,
    library: &'static Library,
    offer: Offer,
    /// By which of the library's ways packets go.
    carrier: Carrier,
    /// Readable when something completes.
    wait: Option<OwnedFd>,
    keys: Arc<Mutex<Keys>>,
}

// SAFETY: the objects are used by one thread at a time (`&mut`, or the engine's lock around everything), which is what
// `FI_THREAD_DOMAIN` asks.
unsafe impl Send for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {})", self.offer, self.library)
    }
}

impl Device {
    /// Opens an endpoint of the best provider. Also returns why that one.
    ///
    /// # Errors
    /// No library, no provider, or what the provider refused.
    pub(crate) fn open(wanted: &Wanted) -> Result<(Device, String)> {
        if let Some(job) = &wanted.job {
            omni_path::name_job(job);
        }
        if let Some(processes) = wanted.processes {
            universe::tell(processes);
        }
        let library = library()?;
        let (offer, why) = choose(library, wanted)?;
        let carrier = offer.carrier(wanted);
        Ok((Device::open_offer(library, offer, carrier, wanted.offload)?, why))
    }

    fn open_offer(
        library: &'static Library,
        offer: Offer,
        carrier: Carrier,
        offload: Option<bool>,
    ) -> Result<Device> {
        let wants_collectives = offload.unwrap_or(false);
        let Found { list, info, tells_delivery, collective } =
            find_again(library, &offer, carrier, wants_collectives)?;
        let failed = |what: &str, number: c_int| {
            Error::new(
                ErrorClass::OTHER,
                format!(
                    "{library}: {offer} cannot open {what}: {}. WEFT_OFI_PROVIDER chooses another provider, WEFT_TRANSPORT another fabric",
                    library.reason(i64::from(number))
                ),
            )
        };
        // SAFETY: the calls are those of the manual (fi_fabric(3), fi_domain(3), fi_endpoint(3)): the description lives in
        // `list`, every object is made by the one before it, and the attributes live as long as the calls.
        unsafe {
            let mut fabric = null_mut();
            let result = (library.fabric)((*info).fabric_attr, &mut fabric, null_mut());
            let fabric =
                Object::new(fabric).filter(|_| result == 0).ok_or_else(|| failed("its fabric", result))?;
            let mut domain = null_mut();
            let result = match (*(*fabric.raw()).ops).domain {
                Some(open) => open(fabric.raw(), info, &mut domain, null_mut()),
                None => -FI_ENOSYS,
            };
            let domain =
                Object::new(domain).filter(|_| result == 0).ok_or_else(|| failed("its domain", result))?;
            let tables = &*(*domain.raw()).ops;
            let mut attributes = fi_av_attr {
                r#type: if (*(*info).domain_attr).av_type == 0 {
                    FI_AV_TABLE
                } else {
                    (*(*info).domain_attr).av_type
                },
                rx_ctx_bits: 0,
                count: 64,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            let mut addresses = null_mut();
            let result = match tables.av_open {
                Some(open) => open(domain.raw(), &mut attributes, &mut addresses, null_mut()),
                None => -FI_ENOSYS,
            };
            let addresses = Object::new(addresses)
                .filter(|_| result == 0)
                .ok_or_else(|| failed("an address vector", result))?;
            let mut completions = null_mut();
            let mut result = -FI_ENOSYS;
            for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
                let mut attributes = fi_cq_attr {
                    size: offer.tx_size.min(4096) + offer.rx_size.min(4096),
                    flags: 0,
                    format: FI_CQ_FORMAT_MSG,
                    wait_obj,
                    signaling_vector: 0,
                    wait_cond: 0,
                    wait_set: null_mut(),
                };
                if let Some(open) = tables.cq_open {
                    result = open(domain.raw(), &mut attributes, &mut completions, null_mut());
                }
                if result == 0 {
                    break;
                }
                // Providers that cannot wake sleepers are looked at again and again.
                completions = null_mut();
            }
            let completions = Object::new(completions)
                .filter(|_| result == 0)
                .ok_or_else(|| failed("a completion queue", result))?;
            // Only those of groups need it, and it costs the others time.
            (*info).caps &= !FI_COLLECTIVE;
            let mut endpoint = null_mut();
            let result = match tables.endpoint {
                Some(open) => open(domain.raw(), info, &mut endpoint, null_mut()),
                None => -FI_ENOSYS,
            };
            let endpoint =
                Object::new(endpoint).filter(|_| result == 0).ok_or_else(|| failed("an endpoint", result))?;
            for result in [
                endpoint.bind(addresses.fid(), 0),
                endpoint.bind(completions.fid(), FI_TRANSMIT | FI_RECV),
                endpoint.control(FI_ENABLE, null_mut()),
            ] {
                if result != 0 {
                    return Err(failed("an endpoint", result));
                }
            }
            let wait = wait_object(&completions);
            let offer = Offer { tells_delivery, nic: offer.nic, ..describe(&*info) };
            let abilities = collective.then(|| group::abilities(&domain)).filter(|found| !found.is_empty());
            let collectives = match &abilities {
                Some(abilities) => Collectives::Provider(abilities.describe()),
                None if collective => Collectives::Useless,
                None if offload == Some(false) => Collectives::NotWanted,
                None if offers_capability(library, &offer, FI_COLLECTIVE) => Collectives::OnProcessor,
                None if offers_capability(library, &offer, FI_TRIGGER) => Collectives::OnlyDeferred,
                None => Collectives::NotOffered,
            };
            let keys = Arc::new(Mutex::new(Keys::new(offer.mr_key_size)));
            Ok(Device {
                endpoint,
                completions,
                addresses,
                domain,
                fabric,
                _list: list,
                info,
                abilities,
                collectives,
                library,
                offer,
                carrier,
                wait,
                keys,
            })
        }
    }

    /// Ends everything that the library has, before the memory that it works on is taken from it. Providers whose regions are
    /// bound to the endpoint want those closed first (fi_mr(3)): for them it stays open until the device is dropped.
    pub(crate) fn end(&mut self) {
        if self.offer.mr_mode & FI_MR_ENDPOINT == 0 {
            self.endpoint.close();
        }
    }

    /// By which of the library's ways packets go.
    pub(crate) fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// What was opened.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Version and file of the library.
    pub(crate) fn library(&self) -> String {
        self.library.to_string()
    }

    /// Who runs collectives, and why.
    pub(crate) fn collectives(&self) -> &Collectives {
        &self.collectives
    }

    /// What the provider runs in groups, if it does.
    pub(crate) fn abilities(&self) -> Option<&Abilities> {
        self.abilities.as_ref()
    }

    /// What an error number means.
    pub(crate) fn reason(&self, number: i64) -> String {
        self.library.reason(number)
    }

    /// What to sleep on, if the provider has such a thing.
    pub(crate) fn wait(&self) -> Option<OwnedFd> {
        self.wait.as_ref().and_then(|fd| fd.try_clone().ok())
    }

    /// Whether the wait object may be slept on now: nothing has completed, nor can without a signal.
    pub(crate) fn may_sleep(&mut self) -> bool {
        let mut fids = [self.completions.fid()];
        // SAFETY: the fabric is open, and the one object of the list is.
        unsafe {
            match (*(*self.fabric.raw()).ops).trywait {
                Some(trywait) => trywait(self.fabric.raw(), fids.as_mut_ptr(), 1) == 0,
                None => true,
            }
        }
    }

    /// The own address, as others insert it.
    pub(crate) fn name(&self) -> Result<Vec<u8>> {
        self.name_of(&self.endpoint)
    }

    /// The address of an endpoint of this device.
    fn name_of(&self, endpoint: &Object<fid_ep>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; 256];
        let mut length = bytes.len();
        // SAFETY: an enabled endpoint, and a buffer of the length that is given.
        let result = unsafe {
            match (*(*endpoint.raw()).cm).getname {
                Some(getname) => getname(endpoint.fid(), bytes.as_mut_ptr().cast(), &mut length),
                None => -FI_ENOSYS,
            }
        };
        if result != 0 || length > bytes.len() {
            let why = self.reason(i64::from(result));
            return Err(Error::new(
                ErrorClass::OTHER,
                format!("{} does not tell its address: {why}", self.offer),
            ));
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Makes a process's address usable. `None`: the library has no place for it now.
    ///
    /// # Errors
    /// It does not take this address.
    pub(crate) fn insert(&mut self, address: &[u8]) -> Result<Option<u64>> {
        let mut place = FI_ADDR_UNSPEC;
        // SAFETY: an open address vector and an address of this provider: the caller compared the providers' names and the
        // lengths.
        let inserted = unsafe {
            match (*(*self.addresses.raw()).ops).insert {
                Some(insert) => {
                    insert(self.addresses.raw(), address.as_ptr().cast(), 1, &mut place, 0, null_mut())
                }
                None => -FI_ENOSYS,
            }
        };
        if inserted == 1 && place != FI_ADDR_UNSPEC {
            return Ok(Some(place));
        }
        if [FI_EAGAIN, libc::ENOMEM, libc::EBUSY].contains(&-inserted) {
            return Ok(None);
        }
        let why = if inserted < 0 {
            self.reason(i64::from(inserted))
        } else {
            "the address is not understood".into()
        };
        Err(Error::new(ErrorClass::OTHER, format!("{} refuses the address of a process: {why}", self.offer)))
    }

    /// Nothing is sent to an address any more: a provider with a connection to it closes that.
    ///
    /// # Errors
    /// It keeps the address for now, or for ever.
    pub(crate) fn forget(&mut self, mut address: u64) -> std::result::Result<(), Denied> {
        // SAFETY: an open address vector, and one address that was inserted into it.
        unsafe {
            match (*(*self.addresses.raw()).ops)
                .remove
                .map(|remove| remove(self.addresses.raw(), &mut address, 1, 0))
            {
                Some(result) if [FI_EAGAIN, libc::EBUSY].contains(&-result) => Err(Denied::Again),
                Some(result) => begun(result as isize),
                None => Err(Denied::Failed(i64::from(FI_ENOSYS))),
            }
        }
    }

    /// Registers memory where `access` (`FI_SEND` and such) asks for it.
    ///
    /// # Safety
    /// The memory stays mapped until the region is dropped.
    pub(crate) unsafe fn register(
        &mut self,
        address: *mut u8,
        bytes: usize,
        access: u64,
    ) -> Result<MemoryRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.register_at(None, address, bytes, access) }
    }

    /// As [`Device::register`], for an endpoint of a group.
    ///
    /// # Safety
    /// As there.
    unsafe fn register_at(
        &mut self,
        of_group: Option<&Object<fid_ep>>,
        address: *mut u8,
        bytes: usize,
        access: u64,
    ) -> Result<MemoryRegion> {
        let mut region = null_mut();
        let key = Key::of(&self.keys).ok_or_else(|| {
            Error::new(
                ErrorClass::NO_MEM,
                format!(
                    "{} has {}-byte keys, and memory is registered under all of them",
                    self.offer, self.offer.mr_key_size
                ),
            )
        })?;
        // SAFETY: an open domain, and memory by contract.
        let mut result = unsafe {
            match (*(*self.domain.raw()).mr).reg {
                Some(register) => register(
                    self.domain.fid(),
                    address.cast(),
                    bytes,
                    access,
                    0,
                    key.number,
                    0,
                    &mut region,
                    null_mut(),
                ),
                None => -FI_ENOSYS,
            }
        };
        // SAFETY: null or a region that was just opened.
        let region = unsafe { Object::new(region) }.filter(|_| result == 0);
        if let Some(region) = &region
            && self.offer.mr_mode & FI_MR_ENDPOINT != 0
        {
            result = region.bind(of_group.unwrap_or(&self.endpoint).fid(), 0);
            if result == 0 {
                result = region.control(FI_ENABLE, null_mut());
            }
        }
        let region = region.filter(|_| result == 0).map(|object| MemoryRegion { object, _key: key });
        region.ok_or_else(|| {
            let why = self.reason(i64::from(result));
            Error::new(
                ErrorClass::NO_MEM,
                format!(
                    "{} cannot register {bytes} bytes: {why}. See `ulimit -l` for memory that may be locked",
                    self.offer
                ),
            )
        })
    }

    /// Whether also memory that only this process uses must be registered.
    pub(crate) fn registers_locally(&self) -> bool {
        self.offer.mr_mode & FI_MR_LOCAL != 0
    }

    /// Posts room for a message.
    ///
    /// # Safety
    /// The room and the context (room for a [`fi_context2`]) stay valid and untouched until the operation has ended or the
    /// device is dropped; `descriptor` belongs to a region around the room where regions are needed.
    pub(crate) unsafe fn receive(
        &mut self,
        room: *mut u8,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        // SAFETY: an enabled endpoint has the table; the rest by contract.
        begun(unsafe {
            let (endpoint, from) = (self.endpoint.raw(), FI_ADDR_UNSPEC);
            match self.carrier {
                Carrier::Messages => match (*(*endpoint).msg).recv {
                    Some(recv) => recv(endpoint, room.cast(), bytes, descriptor, from, context),
                    None => -FI_ENOSYS as isize,
                },
                Carrier::Tags => match (*(*endpoint).tagged).recv {
                    Some(recv) => recv(endpoint, room.cast(), bytes, descriptor, from, PACKET, 0, context),
                    None => -FI_ENOSYS as isize,
                },
            }
        })
    }

    /// Sends a message.
    ///
    /// # Safety
    /// As [`Device::receive`], of the message.
    pub(crate) unsafe fn send(
        &mut self,
        message: *const u8,
        bytes: usize,
        descriptor: *mut c_void,
        to: u64,
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        // SAFETY: an enabled endpoint has the table; the rest by contract.
        begun(unsafe {
            let endpoint = self.endpoint.raw();
            match self.carrier {
                Carrier::Messages => match (*(*endpoint).msg).send {
                    Some(send) => send(endpoint, message.cast(), bytes, descriptor, to, context),
                    None => -FI_ENOSYS as isize,
                },
                Carrier::Tags => match (*(*endpoint).tagged).send {
                    Some(send) => send(endpoint, message.cast(), bytes, descriptor, to, PACKET, context),
                    None => -FI_ENOSYS as isize,
                },
            }
        })
    }

    /// Sends a message of at most `inject_size` bytes, which is copied before this returns.
    pub(crate) fn inject(&mut self, message: &[u8], to: u64) -> std::result::Result<(), Denied> {
        debug_assert!(message.len() <= self.offer.inject_size);
        // SAFETY: an enabled endpoint has the table, and the message is no longer needed afterwards.
        begun(unsafe {
            let (endpoint, bytes) = (self.endpoint.raw(), message.as_ptr().cast());
            match self.carrier {
                Carrier::Messages => match (*(*endpoint).msg).inject {
                    Some(inject) => inject(endpoint, bytes, message.len(), to),
                    None => -FI_ENOSYS as isize,
                },
                Carrier::Tags => match (*(*endpoint).tagged).inject {
                    Some(inject) => inject(endpoint, bytes, message.len(), to, PACKET),
                    None => -FI_ENOSYS as isize,
                },
            }
        })
    }

    /// Lets the provider work, and takes what has ended, in order.
    pub(crate) fn poll(&mut self, ended: impl FnMut(Ended)) {
        poll(&self.completions, ended);
    }
}

/// Reads a completion queue.
fn poll(completions: &Object<fid_cq>, mut ended: impl FnMut(Ended)) {
    const BATCH: usize = 32;
    // Nearly every look finds nothing, so room for what it may find is not written first.
    let mut entries = [const { MaybeUninit::<fi_cq_msg_entry>::uninit() }; BATCH];
    // SAFETY: an open completion queue of this entry format, and as many entries as are said to be.
    let count = unsafe {
        match (*(*completions.raw()).ops).read {
            Some(read) => read(completions.raw(), entries.as_mut_ptr().cast(), BATCH),
            None => 0,
        }
    };
    if count > 0 {
        for entry in &entries[..count as usize] {
            // SAFETY: the library has written as many entries as it says.
            let entry = unsafe { entry.assume_init_ref() };
            ended(Ended { context: entry.op_context, bytes: entry.len, error: 0 });
        }
    } else if count == -(FI_EAVAIL as isize)
        && let Some(failure) = failure(completions)
    {
        ended(failure);
    }
}

/// The failed operation at the head of a queue.
fn failure(completions: &Object<fid_cq>) -> Option<Ended> {
    // SAFETY: zero is a value of every field: no buffer for details.
    let mut entry: fi_cq_err_entry = unsafe { std::mem::zeroed() };
    // SAFETY: an open completion queue.
    let count = unsafe {
        match (*(*completions.raw()).ops).readerr {
            Some(readerr) => readerr(completions.raw(), &mut entry, 0),
            None => 0,
        }
    };
    (count > 0).then(|| Ended { context: entry.op_context, bytes: 0, error: i64::from(entry.err.max(1)) })
}
