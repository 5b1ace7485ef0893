//! A described libfabric in place of the system's: a shared library with its functions, for tests.
//!
//! Behind them are providers of devices that no test machine has, in this process and without a network. Each is a line of a table
//! ([`profiles`]): what it can do, what it needs of the program, how its memory is registered and named, and how unkind it is.
//! Everything of `weft-ofi` runs as it does over the system's library: the structures, the tables of the objects, the queues.
//!
//! ```text
//! profiles.rs  what there is          listing.rs   fi_getinfo and what belongs to it   objects.rs  opening, binding, closing
//! world.rs     what was opened        transfer.rs  messages and remote memory          motion.rs   what moves, and when
//! faults.rs    what goes wrong, by seed               groups.rs    collectives of groups
//! ```
//!
//! It is stricter than a provider. What the manual forbids ends the process with a word about it: a context that is too small, touched
//! or used again before its operation has ended; memory without a region where one is needed, or of a region that is closed or not
//! enabled; a key wider than the domain's; an object that is closed while others use it, or used afterwards; a copied message longer
//! than may be; a capability that was not asked for. [`described_fabric_count`] tells a test what has happened.
//!
//! Its structures are those of `weft-ofi`, which a test compares with the headers.

mod faults;
mod groups;
mod listing;
mod motion;
mod objects;
mod profiles;
mod transfer;
mod world;

use faults::Faults;
use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

pub use listing::{fi_dupinfo, fi_fabric, fi_freeinfo, fi_getinfo, fi_strerror, fi_version};

/// What has happened with a provider: `what` is one of the counts of [`world::Counts`], or `alive`.
///
/// # Safety
/// Both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn described_fabric_count(provider: *const c_char, what: *const c_char) -> u64 {
    // SAFETY: C strings by contract.
    let [provider, what] = [provider, what].map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
    world::world().count(profiles::named(&provider), &what)
}

/// From now on faults happen so often, by the chance of this seed, which whoever ends the process names; all 0: none any more.
///
/// # Safety
/// The rates are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn described_fabric_faults(seed: u64, faults: *const Faults) {
    // SAFETY: by contract.
    world::world().go_wrong(seed, unsafe { *faults });
    // ORDERING: a word for a message; the test that sets it makes the calls.
    world::SEED.store(seed, Ordering::Relaxed);
}
