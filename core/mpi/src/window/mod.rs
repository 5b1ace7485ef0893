//! Windows and one-sided communication (chapter 12): every operation is a message that the target executes in its progress (an
//! *active message*). What a process does to its own window happens at once, and so do puts to and gets from memory that it has
//! mapped or a device reaches ([`by_device`]); accumulating operations are the owner's, or a device's where that excludes the
//! owner or the owner goes by it, too ([`lines`]), so that one place has one kind of atomicity.
//!
//! ```text
//! origin                                             target
//! put, accumulate   -- message with the data ------> stores, combines
//! large put         -- message -- data ------------> data go straight to their place
//! get, fetching ops -- message -------------------->
//!                   <- data straight to their place -
//! flush, unlock     -- message -------------------->
//!                   <- answer ---------------------- when everything before is done
//! lock              -- message -------------------->
//!                   <- answer ---------------------- when the lock is held
//! post, complete    -- message --------------------> counted
//! ```
//!
//! Invariants: messages of one origin are executed in their order, by one thread, so accumulating operations are atomic and
//! ordered (section 12.7); an answer is sent only when the data of all earlier messages of that origin are in
//! place. Each window has a communicator of its own, so nothing of it can meet other traffic: messages have tag 0, the data and
//! answers that belong to message `id` the tags `2 id` (to the target) and `2 id + 1` (to the origin).
//!
//! Nothing here waits: calls start something, [`Window::is_settled`] tells when it is over.

mod by_device;
mod changing;
mod check;
mod exposure;
mod lines;
mod lock;
mod message;
mod origin;
mod rule;
mod steps;
mod sync;
mod target;
#[cfg(test)]
mod tests;

pub use by_device::UNEXPOSED;
pub use check::check_message;
pub use lock::LockKind;
pub use origin::{Elements, Operation, OperationState, Target};

use crate::group::Group;
use crate::info::Info;
use crate::table::Table;
use exposure::{Exposure, Region};
use origin::Outgoing;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use sync::Epochs;
use target::Incoming;
use weft_datatype::Memory;
use weft_engine::{Changes, Engine, RegionId, RemoteMemory};
use weft_types::{ContextId, Error, ErrorClass, Handle, HandleKind, Rank, Result, abi};

/// How the memory of a window came to be (section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// `MPI_Win_create`
    Create,
    /// `MPI_Win_allocate`
    Allocate,
    /// `MPI_Win_allocate_shared`
    Shared,
    /// `MPI_Win_create_dynamic`
    Dynamic,
}

/// What the predefined attributes point to (section 12.2.6).
#[derive(Debug)]
pub struct Facts {
    /// `MPI_WIN_BASE`
    pub base: usize,
    /// `MPI_WIN_SIZE`
    pub size: i64,
    /// `MPI_WIN_DISP_UNIT`
    pub disp_unit: i32,
    /// `MPI_WIN_CREATE_FLAVOR`
    pub flavor: i32,
    /// `MPI_WIN_MODEL`
    pub model: i32,
}

/// Size and displacement unit of a member's memory, and what others may have its device change there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub size: u64,
    /// Bytes of one displacement, an `int`.
    pub unit: u32,
    /// As the member said when the window was made.
    pub changes: Changes,
}

/// There is one a member.
const _: () = assert!(size_of::<Extent>() == 16);

impl Extent {
    /// Of memory that no device changes.
    pub const fn new(size: u64, unit: u32) -> Extent {
        Extent { size, unit, changes: Changes::None }
    }
}

/// Memory that lives as long as the window.
pub trait Keep: Any + Send + Debug {}
impl<T: Any + Send + Debug> Keep for T {}

/// What a window is made of; see [`Windows::insert`].
#[derive(Debug)]
pub struct Parts {
    /// The communicator of its own.
    pub comm: Handle,
    /// That communicator's channel.
    pub context: ContextId,
    /// Rank of this process.
    pub rank: Rank,
    /// The members.
    pub group: Arc<Group>,
    /// How the memory came to be.
    pub flavor: Flavor,
    /// The bytes exposed here; nothing for a dynamic window.
    pub memory: Memory,
    /// Size and unit of every member, by rank; empty for a dynamic window.
    pub extents: Vec<Extent>,
    /// The members' memory as this process has it mapped, by rank; empty unless shared.
    pub mapped: Vec<Memory>,
    /// The members' memory as devices know it, by rank, [`UNEXPOSED`] for those that expose none; empty when nobody does.
    pub places: Vec<RemoteMemory>,
    /// The own memory's registration.
    pub exposed: Option<RegionId>,
    /// Memory to free with the window.
    pub keep: Option<Box<dyn Keep>>,
    /// Hints accepted.
    pub hints: Info,
}

/// One window as this process sees it.
#[derive(Debug)]
pub struct Window {
    /// The handle programs hold.
    pub handle: Handle,
    /// The communicator of its own.
    pub comm: Handle,
    /// The members.
    pub group: Arc<Group>,
    /// How the memory came to be.
    pub flavor: Flavor,
    /// The error handler attached (section 12.6.1).
    pub errhandler: Handle,
    /// The name (section 7.8).
    pub name: Box<[u8]>,
    /// Hints accepted (section 12.2.7).
    pub hints: Info,
    /// What the predefined attributes point to.
    pub facts: Arc<Facts>,
    /// Size and unit of every member, by rank; empty for a dynamic window.
    pub extents: Vec<Extent>,
    /// The members' memory as this process has it mapped, by rank; empty unless shared.
    mapped: Vec<Exposure>,
    /// The members' memory as devices know it, by rank; empty when nobody exposes any.
    places: Vec<RemoteMemory>,
    /// The own memory's registration.
    exposed: Option<RegionId>,
    context: ContextId,
    rank: Rank,
    exposure: Exposure,
    outgoing: Outgoing,
    incoming: Incoming,
    epochs: Epochs,
    /// Dropped with the window.
    _keep: Option<Box<dyn Keep>>,
}

impl Window {
    fn new(parts: Parts) -> Window {
        let extent = parts.extents.get(parts.rank.0 as usize).copied().unwrap_or(Extent::new(0, 1));
        let (flavor, exposure) = match parts.flavor {
            Flavor::Create => (abi::MPI_WIN_FLAVOR_CREATE, None),
            Flavor::Allocate => (abi::MPI_WIN_FLAVOR_ALLOCATE, None),
            Flavor::Shared => (abi::MPI_WIN_FLAVOR_SHARED, None),
            Flavor::Dynamic => (abi::MPI_WIN_FLAVOR_DYNAMIC, Some(Exposure::Attached(Vec::new()))),
        };
        Window {
            handle: Handle(abi::MPI_WIN_NULL),
            comm: parts.comm,
            group: parts.group,
            flavor: parts.flavor,
            errhandler: Handle(abi::MPI_ERRORS_ARE_FATAL),
            name: Box::default(),
            hints: parts.hints,
            facts: Arc::new(Facts {
                base: parts.memory.address(),
                size: extent.size as i64,
                disp_unit: extent.unit as i32,
                flavor,
                model: abi::MPI_WIN_UNIFIED,
            }),
            mapped: parts
                .mapped
                .into_iter()
                .zip(&parts.extents)
                .map(|(memory, &extent)| Exposure::fixed(memory, extent))
                .collect(),
            extents: parts.extents,
            places: parts.places,
            exposed: parts.exposed,
            context: parts.context,
            rank: parts.rank,
            exposure: exposure.unwrap_or_else(|| Exposure::fixed(parts.memory, extent)),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            epochs: Epochs::default(),
            _keep: parts.keep,
        }
    }

    /// The name, or what stands for it in error texts.
    pub fn display_name(&self) -> String {
        match self.name.is_empty() {
            true => format!("the window {:#x}", self.handle.0),
            false => String::from_utf8_lossy(&self.name).into_owned(),
        }
    }

    /// Where the memory of a member lies in this process, if it can be reached (section 12.2.3).
    pub fn address_of(&self, rank: u32) -> Option<usize> {
        match self.mapped.get(rank as usize) {
            Some(Exposure::Fixed { memory, .. }) => Some(memory.address()),
            _ if rank == self.rank.0 => Some(self.facts.base),
            _ => None,
        }
    }

    /// What others may have devices change in this process's part.
    pub fn changes(&self) -> Changes {
        self.extents.get(self.rank.0 as usize).map_or(Changes::None, |extent| extent.changes)
    }

    /// A valid target; `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    pub fn target(&self, rank: i32) -> Result<Option<u32>> {
        match u32::try_from(rank) {
            Ok(index) if index < self.group.size() => Ok(Some(index)),
            _ if rank == abi::MPI_PROC_NULL => Ok(None),
            _ => Err(Error::new(
                ErrorClass::RANK,
                format!(
                    "the target rank is {rank}; {} has the ranks 0 to {} (also allowed: MPI_PROC_NULL)",
                    self.display_name(),
                    self.group.size() - 1
                ),
            )),
        }
    }

    /// Attaches memory to a dynamic window (section 12.2.4).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for another kind of window, `MPI_ERR_RMA_ATTACH` when the memory overlaps attached memory.
    pub fn attach(&mut self, memory: Memory, size: u64) -> Result<()> {
        let address = memory.address() as u64;
        let regions = self.regions()?;
        let overlaps =
            |region: &Region| address < region.address + region.size && region.address < address + size;
        if let Some(other) = regions.iter().find(|region| size > 0 && overlaps(region)) {
            return Err(Error::new(
                ErrorClass::RMA_ATTACH,
                format!(
                    "the {size} bytes at {address:#x} overlap the {} bytes at {:#x}, which are attached already",
                    other.size, other.address
                ),
            ));
        }
        regions.push(Region { address, size, memory });
        Ok(())
    }

    /// Detaches the memory that begins at `address`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for another kind of window, `MPI_ERR_RMA_ATTACH` when nothing attached begins there.
    pub fn detach(&mut self, address: u64) -> Result<()> {
        let regions = self.regions()?;
        match regions.iter().position(|region| region.address == address) {
            Some(index) => {
                regions.swap_remove(index);
                Ok(())
            }
            None => Err(Error::new(
                ErrorClass::RMA_ATTACH,
                format!(
                    "no attached memory begins at {address:#x}; pass the address given to MPI_Win_attach"
                ),
            )),
        }
    }

    fn regions(&mut self) -> Result<&mut Vec<Region>> {
        match &mut self.exposure {
            Exposure::Attached(regions) => Ok(regions),
            Exposure::Fixed { .. } => Err(Error::new(
                ErrorClass::RMA_FLAVOR,
                "memory can be attached to windows of MPI_Win_create_dynamic only",
            )),
        }
    }
}

/// All windows of the process.
#[derive(Debug)]
pub struct Windows {
    table: Table<Window>,
    alive: Vec<Handle>,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows { table: Table::new(HandleKind::Win), alive: Vec::new() }
    }
}

impl Windows {
    /// Adds a window and names it.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn insert(&mut self, parts: Parts) -> Result<Handle> {
        let handle = self.table.insert(Window::new(parts))?;
        self.table.get_mut(handle)?.handle = handle;
        self.alive.push(handle);
        Ok(handle)
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.alive.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.alive.is_empty()
    }

    /// The window of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_WIN` with kind, value and reason.
    pub fn get(&self, handle: Handle) -> Result<&Window> {
        self.table.get(handle)
    }

    /// As [`Windows::get_mut`], for callers that take another way when there is none.
    #[inline(always)]
    pub fn find_mut(&mut self, handle: Handle) -> Option<&mut Window> {
        self.table.find_mut(handle)
    }

    /// As [`Windows::get`], to change it.
    ///
    /// # Errors
    /// As [`Windows::get`].
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut Window> {
        self.table.get_mut(handle)
    }

    /// Takes a window out, and with it its memory when the library owns it.
    ///
    /// # Errors
    /// As [`Windows::get`].
    pub fn remove(&mut self, handle: Handle) -> Result<Window> {
        let window = self.table.remove(handle)?;
        self.alive.retain(|&other| other != handle);
        Ok(window)
    }

    /// Every window, and where it was made, if that was remembered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Window, Option<&str>)> {
        self.table.iter().map(|(handle, window)| (window, self.table.site(handle)))
    }

    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&mut self, place: fn() -> String) {
        self.table.remember_places(place);
    }

    /// On whose doing this process may answer somebody by itself: where a lock is awaited, anybody may hold it.
    pub(crate) fn reacts_to(&self) -> impl Iterator<Item = weft_boot::stall::Ranks> + '_ {
        let awaited = self.table.iter().filter(|(_, window)| window.incoming.lock.is_awaited());
        awaited.map(|(_, window)| window.group.peers().map(|peer| peer.0).collect())
    }

    /// Serves what others ask for, and takes what has come back; true when something happened.
    #[inline]
    pub fn progress(&mut self, engine: &mut Engine) -> bool {
        !self.alive.is_empty() && self.serve(engine)
    }

    #[inline(never)]
    fn serve(&mut self, engine: &mut Engine) -> bool {
        let mut moved = false;
        for &handle in &self.alive {
            if let Some(window) = self.table.find_mut(handle) {
                moved |= window.serve(engine) | window.tend_lines(engine) | window.sweep(engine);
            }
        }
        moved
    }
}

/// Counts by rank, for the few ranks that count.
type Counts = BTreeMap<u32, u32>;

/// Takes one of a rank's count.
fn take_one(counts: &mut Counts, rank: u32) {
    match counts.get_mut(&rank) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            counts.remove(&rank);
        }
    }
}
