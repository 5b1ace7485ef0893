//! Communicators: a group, a hidden channel, and what hangs on them (chapter 7).

mod routes;
mod sides;

pub use routes::Routes;
pub(crate) use sides::Everyone;
pub use sides::{Inter, Sides};

use crate::collective::{Count, Plans};
use crate::group::{Comparison, Group};
use crate::info::Info;
use crate::offload::AtDevice;
use crate::rounds::Node;
use crate::table::{Table, stale};
use crate::topology::Topology;
use std::sync::{Arc, OnceLock};
use weft_coll::Layout;
pub use weft_engine::changes::Changes;
use weft_engine::{Envelope, Selector};
use weft_types::{Age, ContextId, Error, ErrorClass, Handle, HandleKind, PeerId, Rank, Result, Tag, abi};

/// The hints of section 7.4.4; all are false unless set.
pub const HINTS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

/// The hint about the memory that messages will lie in (section 11.4.3); not set by default.
pub const ASSERTED_KINDS: &str = "mpi_assert_memory_alloc_kinds";

/// Our own hint: whether reductions on the communicator combine operands in one order that depends on its size alone.
pub const REPRODUCIBLE: &str = "weft_reproducible";

/// Our own hint: rules that say which algorithms its collectives take (`weft_coll::rules`).
pub const COLLECTIVES: &str = crate::collective::tuning::KEY;

/// One communicator as this process sees it.
#[derive(Debug)]
pub struct Comm {
    /// The handle programs hold.
    pub handle: Handle,
    /// Its channel for point-to-point traffic; the twin is for collectives.
    pub context: ContextId,
    /// Which lives of its members end it, the same at all members.
    pub age: Age,
    /// The lane in which all its traffic travels, the same at all members (see [`crate::lanes`]).
    pub lane: u32,
    /// Rank of this process.
    pub rank: Rank,
    /// Number of processes that ranks name: of the members, or of an intercommunicator's remote group. Valid ranks are below.
    pub size: u32,
    /// The processes that ranks name: the members, or an intercommunicator's remote group. See [`Comm::local_group`].
    pub group: Arc<Group>,
    /// Ways to the ranks used last.
    pub routes: Routes,
    /// The two groups of an intercommunicator.
    pub inter: Option<Box<Inter>>,
    /// The error handler attached (section 9.3.1).
    pub errhandler: Handle,
    /// The name (section 7.8).
    pub name: Box<[u8]>,
    /// Hints accepted (section 7.4.4).
    pub hints: Info,
    /// Where the next construction from this communicator looks for a channel; the same at all members.
    pub context_hint: u32,
    /// Collectives begun on the collective channel, so that each has tags of its own.
    pub collectives: Count,
    /// Persistent collectives made, which count apart: they may be started in any order.
    pub persistent_collectives: u32,
    /// Which members share a node, once a collective was planned in a job on several.
    pub layout: OnceLock<Box<Layout>>,
    /// Schedules of recent collectives.
    pub plans: Plans,
    /// Collectives by shared memory.
    pub node: Node,
    /// Collectives by the fabric's device.
    pub at_device: AtDevice,
    /// The virtual topology (chapter 8).
    pub topology: Option<Arc<Topology>>,
}

impl Comm {
    /// A communicator without name, attributes and hints.
    pub fn new(context: ContextId, rank: Rank, group: Arc<Group>, errhandler: Handle) -> Comm {
        Comm {
            handle: Handle(abi::MPI_COMM_NULL),
            context,
            age: Age::WORLD,
            lane: 0,
            rank,
            size: group.size(),
            group,
            routes: Routes::default(),
            inter: None,
            errhandler,
            name: Box::default(),
            hints: Info::default(),
            context_hint: 0,
            collectives: Count::default(),
            persistent_collectives: 0,
            layout: OnceLock::new(),
            plans: Plans::default(),
            node: Node::default(),
            at_device: AtDevice::default(),
            topology: None,
        }
    }

    /// What calls that only look need to know, and those that begin nonblocking collectives in a lane, without what else hangs
    /// on the communicator; for threads that keep it.
    pub fn snapshot(&self) -> Comm {
        let mut copy = Comm::new(self.context, self.rank, Arc::clone(&self.group), self.errhandler);
        (copy.handle, copy.lane, copy.name) = (self.handle, self.lane, self.name.clone());
        (copy.inter, copy.topology) = (self.inter.clone(), self.topology.clone());
        (copy.hints, copy.collectives) = (self.hints.clone(), self.collectives.share());
        copy.age = self.age;
        copy
    }

    /// An intercommunicator, at rank `rank` of the local group.
    pub fn new_inter(context: ContextId, rank: Rank, inter: Inter, errhandler: Handle) -> Comm {
        let remote = Arc::clone(inter.remote());
        Comm { inter: Some(Box::new(inter)), ..Comm::new(context, rank, remote, errhandler) }
    }

    /// The process a message to `dest` goes to; `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for anything else that is no rank here.
    #[inline]
    pub fn destination(&self, dest: i32) -> Result<Option<PeerId>> {
        if (dest as u32) < self.size {
            return Ok(Some(self.group.peer(Rank(dest as u32))));
        }
        if dest == abi::MPI_PROC_NULL { Ok(None) } else { Err(self.bad_rank("dest", dest, "MPI_PROC_NULL")) }
    }

    /// The envelope of a message from here; the tag is checked.
    ///
    /// # Errors
    /// `MPI_ERR_TAG` for a negative tag.
    #[inline]
    pub fn envelope(&self, peer: PeerId, tag: i32) -> Result<Envelope> {
        if tag < 0 {
            return Err(bad_tag("tag", tag, ""));
        }
        Ok(Envelope { peer, context: self.context, source: self.rank, tag: Tag(tag) })
    }

    /// What a receive from `source` with `tag` accepts; `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_TAG` for values that are neither valid nor wildcards.
    #[inline]
    pub fn selector(&self, source: i32, tag: i32) -> Result<Option<Selector>> {
        let tag = if tag >= 0 {
            Some(Tag(tag))
        } else if tag == abi::MPI_ANY_TAG {
            None
        } else {
            return Err(bad_tag("tag", tag, ", or MPI_ANY_TAG"));
        };
        let context = self.context;
        if (source as u32) < self.size {
            let source = Rank(source as u32);
            return Ok(Some(Selector {
                context,
                peer: Some(self.group.peer(source)),
                source: Some(source),
                tag,
            }));
        }
        match source {
            abi::MPI_ANY_SOURCE => Ok(Some(Selector { context, peer: None, source: None, tag })),
            abi::MPI_PROC_NULL => Ok(None),
            _ => Err(self.bad_rank("source", source, "MPI_ANY_SOURCE, MPI_PROC_NULL")),
        }
    }

    /// A valid root of a collective.
    ///
    /// # Errors
    /// `MPI_ERR_ROOT`.
    #[inline]
    pub fn root(&self, root: i32) -> Result<Rank> {
        if (root as u32) < self.size {
            return Ok(Rank(root as u32));
        }
        Err(Error::new(
            ErrorClass::ROOT,
            format!("root is {root}; {} has the ranks 0 to {}", self.display_name(), self.size - 1),
        ))
    }

    /// Keeps the hints that mean something; others are ignored (chapter 10).
    ///
    /// Gives whether they change how collectives go: what threads remember of the communicator is stale then.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE` for rules of collectives that cannot be read.
    pub fn accept_hints(&mut self, hints: &Info) -> Result<bool> {
        // First what can be wrong, so that nothing is accepted by halves.
        let rules = hints.text(COLLECTIVES);
        rules.map(crate::collective::tuning::read_hint).transpose()?;
        let decides = |of: &Comm| (of.is_reproducible(), of.hints.text(COLLECTIVES).map(str::to_owned));
        let before = decides(self);
        for key in HINTS.into_iter().chain([REPRODUCIBLE]) {
            if let Some(value) = hints.text(key).filter(|value| ["true", "false"].contains(value)) {
                self.hints.set(key.as_bytes(), value.as_bytes())?;
            }
        }
        if let Some(text) = rules {
            self.hints.set(COLLECTIVES.as_bytes(), text.as_bytes())?;
        }
        if let Some(value) = hints.text(ASSERTED_KINDS).filter(|value| crate::kinds::supports_all(value)) {
            self.hints.set(ASSERTED_KINDS.as_bytes(), value.as_bytes())?;
        }
        let changed = decides(self) != before;
        if changed {
            self.forget_ways();
        }
        Ok(changed)
    }

    /// Which way its next collectives go is found out again. All members do this between the same two calls.
    pub(crate) fn forget_ways(&mut self) {
        self.plans = Plans::default();
        self.node = Node::default();
    }

    /// The name, or what stands for it in error texts.
    pub fn display_name(&self) -> String {
        match self.name.is_empty() {
            true => format!("the communicator {:#x}", self.handle.0),
            false => String::from_utf8_lossy(&self.name).into_owned(),
        }
    }

    /// Compares two communicators (section 7.4.1); intercommunicators by both groups (section 7.6.1).
    pub fn compare(&self, other: &Comm) -> Comparison {
        if self.handle == other.handle {
            return Comparison::Identical;
        }
        let groups = self.local_group().compare(other.local_group());
        let remote = match (&self.inter, &other.inter) {
            (None, None) => Comparison::Identical,
            (Some(one), Some(other)) => one.remote().compare(other.remote()),
            _ => Comparison::Unequal,
        };
        match (groups, remote) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
            _ => Comparison::Similar,
        }
    }

    #[cold]
    #[inline(never)]
    fn bad_rank(&self, argument: &str, rank: i32, also: &str) -> Error {
        Error::new(
            ErrorClass::RANK,
            format!(
                "{argument} is {rank}; {}{} has the ranks 0 to {} (also allowed: {also})",
                if self.inter.is_some() { "the remote group of " } else { "" },
                self.display_name(),
                self.size - 1
            ),
        )
    }
}

#[cold]
#[inline(never)]
fn bad_tag(argument: &str, tag: i32, also: &str) -> Error {
    Error::new(ErrorClass::TAG, format!("{argument} is {tag}; tags are 0 to {} (MPI_TAG_UB){also}", i32::MAX))
}

/// All communicators of the process.
#[derive(Debug)]
pub struct Comms {
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF`, while the World Model is active.
    predefined: [Option<Box<Comm>>; 2],
    table: Table<Box<Comm>>,
    /// Counts what makes snapshots stale.
    pub changes: Arc<Changes>,
}

impl Default for Comms {
    fn default() -> Comms {
        Comms { predefined: [None, None], table: Table::new(HandleKind::Comm), changes: Arc::default() }
    }
}

/// Place of a predefined communicator; anything else lies outside the array.
#[inline]
const fn place(handle: Handle) -> usize {
    const { assert!(abi::MPI_COMM_SELF == abi::MPI_COMM_WORLD + 1) };
    handle.0.wrapping_sub(abi::MPI_COMM_WORLD) as usize
}

impl Comms {
    /// Adds the predefined communicators.
    pub fn start(&mut self, mut world: Comm, mut own: Comm) {
        world.handle = Handle(abi::MPI_COMM_WORLD);
        own.handle = Handle(abi::MPI_COMM_SELF);
        self.predefined = [Some(Box::new(world)), Some(Box::new(own))];
    }

    /// Takes the predefined communicators away, at the end of the World Model.
    pub fn stop(&mut self) {
        self.predefined = [None, None];
        self.changes.add();
    }

    /// How many more communicators can be made here.
    pub fn room(&self) -> usize {
        Handle::SLOTS as usize - self.table.len()
    }

    /// Adds a communicator and names it.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn insert(&mut self, comm: Comm) -> Result<Handle> {
        let handle = self.table.insert(Box::new(comm))?;
        self.table.get_mut(handle)?.handle = handle;
        Ok(handle)
    }

    /// `MPI_COMM_WORLD` or `MPI_COMM_SELF`, by the value of the handle as programs hold it; `None` for any other value, and
    /// while there are none.
    #[inline(always)]
    pub fn predefined(&self, raw: usize) -> Option<&Comm> {
        self.predefined.get(raw.wrapping_sub(abi::MPI_COMM_WORLD as usize))?.as_deref()
    }

    /// The communicator of a handle as programs hold it, to change it; `None` when there is none.
    #[inline(always)]
    pub(crate) fn at(&mut self, raw: usize) -> Option<&mut Comm> {
        match self.predefined.get_mut(raw.wrapping_sub(abi::MPI_COMM_WORLD as usize)) {
            Some(predefined) => predefined.as_deref_mut(),
            None => self.table.find_mut(Handle(raw as u32)).map(|comm| &mut **comm),
        }
    }

    /// The communicator of a handle; `None` when there is none.
    #[inline]
    pub fn find(&self, handle: Handle) -> Option<&Comm> {
        match self.predefined.get(place(handle)) {
            Some(predefined) => predefined.as_deref(),
            None => self.table.find(handle).map(|comm| &**comm),
        }
    }

    /// The communicator of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` with kind, value and reason.
    #[inline]
    pub fn get(&self, handle: Handle) -> Result<&Comm> {
        match self.find(handle) {
            Some(comm) => Ok(comm),
            None => Err(self.explain(handle)),
        }
    }

    /// As [`Comms::get`], to change it.
    ///
    /// # Errors
    /// As [`Comms::get`].
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut Comm> {
        self.get(handle)?;
        let found = match self.predefined.get_mut(place(handle)) {
            Some(predefined) => predefined.as_deref_mut(),
            None => self.table.find_mut(handle).map(|comm| &mut **comm),
        };
        Ok(found.expect("found just now"))
    }

    /// Whether the handle names a communicator now.
    pub fn exists(&self, handle: Handle) -> bool {
        self.get(handle).is_ok()
    }

    /// Checks that the handle names a communicator that may be freed.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle or a predefined communicator.
    pub fn check_removable(&self, handle: Handle) -> Result<()> {
        self.get(handle)?;
        if handle.is_predefined() {
            let name = if handle.0 == abi::MPI_COMM_WORLD { "MPI_COMM_WORLD" } else { "MPI_COMM_SELF" };
            return Err(Error::new(ErrorClass::COMM, format!("{name} is predefined and cannot be freed")));
        }
        Ok(())
    }

    /// Takes a communicator made at run time out; its handle is stale from now on.
    ///
    /// # Errors
    /// As [`Comms::check_removable`].
    pub fn remove(&mut self, handle: Handle) -> Result<Comm> {
        self.check_removable(handle)?;
        self.changes.add();
        self.table.remove(handle).map(|comm| *comm)
    }

    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&mut self, place: fn() -> String) {
        self.table.remember_places(place);
    }

    /// As [`Table::site`].
    pub(crate) fn site(&self, handle: Handle) -> Option<&str> {
        self.table.site(handle)
    }

    /// Every communicator.
    pub fn iter(&self) -> impl Iterator<Item = &Comm> {
        self.predefined.iter().flatten().chain(self.table.iter().map(|(_, comm)| comm)).map(|comm| &**comm)
    }

    #[cold]
    #[inline(never)]
    fn explain(&self, handle: Handle) -> Error {
        match handle.0 {
            abi::MPI_COMM_WORLD | abi::MPI_COMM_SELF => Error::new(
                ErrorClass::COMM,
                "MPI_COMM_WORLD and MPI_COMM_SELF exist between MPI_Init and MPI_Finalize only (section 11.3: sessions make their own)",
            ),
            _ => match self.table.get(handle) {
                Err(error) => error,
                Ok(_) => stale(HandleKind::Comm, handle, true),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(size: u32) -> Comm {
        let mut comm = Comm::new(
            ContextId::WORLD,
            Rank(0),
            Arc::new(Group::world(size)),
            Handle(abi::MPI_ERRORS_ARE_FATAL),
        );
        comm.name = b"MPI_COMM_WORLD"[..].into();
        comm
    }

    fn comms() -> Comms {
        let mut comms = Comms::default();
        let own =
            Comm::new(ContextId::SELF, Rank(0), Arc::new(Group::world(1)), Handle(abi::MPI_ERRORS_RETURN));
        comms.start(world(2), own);
        comms
    }

    #[test]
    fn a_wrong_destination_names_argument_value_and_rule() {
        let error = world(2).destination(7).expect_err("outside");
        assert_eq!(error.class(), ErrorClass::RANK);
        assert_eq!(
            error.text(),
            "dest is 7; MPI_COMM_WORLD has the ranks 0 to 1 (also allowed: MPI_PROC_NULL)"
        );
        assert_eq!(world(2).destination(abi::MPI_PROC_NULL), Ok(None));
        assert!(world(2).destination(abi::MPI_ANY_SOURCE).is_err());
    }

    #[test]
    fn wildcards_are_for_receives_only() {
        let comm = world(2);
        let selector =
            comm.selector(abi::MPI_ANY_SOURCE, abi::MPI_ANY_TAG).expect("legal").expect("not null");
        assert_eq!((selector.peer, selector.source, selector.tag), (None, None, None));
        assert_eq!(comm.selector(abi::MPI_PROC_NULL, 0), Ok(None));
        assert_eq!(comm.selector(0, -7).expect_err("no tag").class(), ErrorClass::TAG);
        assert_eq!(comm.envelope(PeerId(1), abi::MPI_ANY_TAG).expect_err("no tag").class(), ErrorClass::TAG);
        assert!(comm.envelope(PeerId(1), i32::MAX).is_ok());
    }

    #[test]
    fn predefined_communicators_are_found_and_cannot_be_freed() {
        let mut comms = comms();
        assert_eq!(comms.get(Handle(abi::MPI_COMM_WORLD)).map(|comm| comm.size), Ok(2));
        assert_eq!(comms.get(Handle(abi::MPI_COMM_SELF)).map(|comm| comm.size), Ok(1));
        assert_eq!(
            comms.remove(Handle(abi::MPI_COMM_WORLD)).expect_err("predefined").class(),
            ErrorClass::COMM
        );
        comms.stop();
        assert!(
            comms.get(Handle(abi::MPI_COMM_WORLD)).expect_err("over").text().contains("between MPI_Init")
        );
    }

    #[test]
    fn a_freed_communicator_is_named_as_freed() {
        let mut comms = comms();
        let handle = comms.insert(world(2)).expect("room");
        assert_eq!(comms.get(handle).map(|comm| comm.handle), Ok(handle));
        comms.remove(handle).expect("alive");
        assert!(comms.get(handle).expect_err("freed").text().contains("was freed"));
    }
}
