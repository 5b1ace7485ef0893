//! Sessions (section 11.3): what is open, what was derived from what, and the process sets of the job.
//!
//! A communicator, window or group belongs to the session it was derived from, through any number of steps, or to the World
//! Model. That is remembered here and not in the objects: programs without sessions pay nothing for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_engine::Engine;
use weft_types::{Error, ErrorClass, Handle, HandleKind, PeerId, Result, abi};

use crate::group::Group;
use crate::process::Process;
use crate::table::Table;

/// An open session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its error handler.
    pub errhandler: Handle,
    /// The thread level it was given, by name.
    pub thread_level: &'static str,
    /// The memory allocation kinds it was given (section 11.4.3).
    pub memory_kinds: String,
}

/// All sessions of a process, and what was derived from them.
#[derive(Debug)]
pub struct Sessions {
    table: Table<Session>,
    /// The session of each communicator and group that has one. An entry may outlive its object: traffic of a freed
    /// communicator is its session's too.
    origins: HashMap<Handle, Handle>,
    /// When the map is looked through for entries without an object.
    sweep_at: usize,
    /// Whether anything was ever derived from a session, for threads that do not hold the process. Who has such an object has
    /// it from a thread that has seen this.
    derived: Arc<AtomicBool>,
}

/// Entries that are kept without asking whether they are needed.
const FEW: usize = 64;

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions {
            table: Table::new(HandleKind::Session),
            origins: HashMap::new(),
            sweep_at: FEW,
            derived: Arc::default(),
        }
    }
}

impl Sessions {
    /// Opens a session.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn open(&mut self, session: Session) -> Result<Handle> {
        self.table.insert(session)
    }

    /// An open session.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION` with kind, value and reason.
    pub fn get(&self, handle: Handle) -> Result<&Session> {
        self.table.get(handle)
    }

    /// As [`Sessions::get`], to change it.
    ///
    /// # Errors
    /// As [`Sessions::get`].
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut Session> {
        self.table.get_mut(handle)
    }

    /// Closes a session; its handle is stale from now on.
    ///
    /// # Errors
    /// As [`Sessions::get`].
    pub fn close(&mut self, handle: Handle) -> Result<Session> {
        self.table.remove(handle)
    }

    /// Whether another session than this one is open.
    pub fn others(&self, handle: Handle) -> bool {
        self.table.iter().any(|(other, _)| other != handle)
    }

    /// Whether no session is open.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The session a communicator or group was derived from, open or not; `None`: the World Model.
    pub fn origin(&self, object: Handle) -> Option<Handle> {
        self.origins.get(&object).copied()
    }

    /// Whether anything was ever derived from a session; as long as not, all objects are of the World Model.
    pub fn derived(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.derived)
    }

    /// Remembers that a new communicator or group was derived from a session.
    pub fn set_origin(&mut self, object: Handle, session: Handle) {
        if !object.is_predefined() {
            self.derived.store(true, Ordering::Release);
            self.origins.insert(object, session);
        }
    }

    /// Remembers that a new communicator or group belongs to the same session as an older one.
    pub fn inherit(&mut self, object: Handle, from: Handle) {
        if let Some(session) = self.origin(from) {
            self.set_origin(object, session);
        }
    }

    /// Forgets a group that is gone.
    pub fn forget(&mut self, group: Handle) {
        self.origins.remove(&group);
    }

    /// Whether anything under way belongs to the session (section 2.9: its end waits for that).
    fn is_quiet(&self, session: Handle, engine: &Engine) -> bool {
        let comms = self.origins.iter().filter(|&(object, &of)| of == session && is_comm(*object));
        !comms.into_iter().any(|(comm, _)| engine.moves_any(comm.0))
    }
}

fn is_comm(object: Handle) -> bool {
    object.kind_bits() == HandleKind::Comm as u32
}

impl Process {
    /// Remembers that the communicator `made` came from `parent`; entries whose communicator is gone without a trace go.
    pub(crate) fn inherit_session(&mut self, made: Handle, parent: Handle) {
        self.sessions.inherit(made, parent);
        if self.sessions.origins.len() < self.sessions.sweep_at {
            return;
        }
        let (comms, engine, lanes) = (&self.comms, &self.engine, &self.lanes);
        let owned = |object: u32| {
            engine.owns_any(object)
                || lanes.iter().any(|(_, lane)| lane.with(|inner| inner.engine.owns_any(object)))
        };
        self.sessions
            .origins
            .retain(|&object, _| !is_comm(object) || comms.exists(object) || owned(object.0));
        self.sessions.sweep_at = FEW.max(2 * self.sessions.origins.len());
    }

    /// Whether everything under way that belongs to the session is complete, as far as this process is concerned: its
    /// buffered messages are on their way, and none of its sends goes on. When nothing else keeps MPI going at this
    /// process, everything must be.
    pub fn is_session_quiet(&mut self, session: Handle, is_last: bool) -> bool {
        let flushed = self.requests.buffers.is_all_flushed(&mut self.engine);
        match is_last {
            true => flushed && self.engine.is_quiet() && self.lanes.are_quiet(),
            false => {
                let quiet = |engine: &Engine| self.sessions.is_quiet(session, engine);
                quiet(&self.engine)
                    && self.lanes.iter().all(|(_, lane)| lane.with(|inner| quiet(&inner.engine)))
            }
        }
    }

    /// Refuses objects of different sessions, or of a session and the World Model, in one call (section 11.3). The empty
    /// group belongs to all.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`.
    pub fn check_same_origin(&self, object: Handle, group: Handle) -> Result<()> {
        let neutral = |handle: Handle| handle.0 == abi::MPI_GROUP_EMPTY;
        let (first, second) = (self.sessions.origin(object), self.sessions.origin(group));
        if first == second || neutral(object) || neutral(group) {
            return Ok(());
        }
        let name = |origin: Option<Handle>| match origin {
            Some(session) => format!("the session {:#x}", session.0),
            None => "the World Model".to_owned(),
        };
        Err(Error::new(
            ErrorClass::GROUP,
            format!(
                "the objects of this call were derived from {} and from {}; objects of different sessions cannot be mixed in \
                 one call (section 11.3)",
                name(first),
                name(second)
            ),
        ))
    }

    /// The ranks in the job that an abort on a communicator is about; `None`: all. Sessions make all processes of their sets
    /// connected, and an abort ends those (section 11.4.2).
    pub fn abort_scope(&self, comm: Handle) -> Option<Vec<u32>> {
        let group = &self.comms.get(comm).ok().filter(|_| self.sessions.origin(comm).is_none())?.group;
        self.some_ranks(group)
    }

    /// The ranks of the members in the job, ascending; `None` for all.
    pub fn some_ranks(&self, group: &Group) -> Option<Vec<u32>> {
        let mut ranks: Vec<u32> = group.peers().map(|peer| peer.0).collect();
        ranks.sort_unstable();
        Some(ranks).filter(|ranks| ranks.len() < self.job.size as usize)
    }

    /// The memory allocation kinds of a communicator or window made on it (section 11.4.3).
    pub fn memory_kinds(&self, comm: Handle) -> String {
        let session = self.sessions.origin(comm).and_then(|session| self.sessions.get(session).ok());
        match session {
            Some(session) => session.memory_kinds.clone(),
            None => crate::kinds::granted(self.job.memory_alloc_kinds.as_deref()),
        }
    }

    /// The names of the process sets this process belongs to; the order never changes (section 11.3.3).
    pub fn process_sets(&self) -> Vec<&str> {
        let member = |set: &&weft_boot::ProcessSet| set.ranks.binary_search(&self.job.rank).is_ok();
        let named = self.job.psets.iter().filter(member).map(|set| set.name.as_str());
        [WORLD, OWN, NODE].into_iter().chain(named).collect()
    }

    /// The members of a process set, also of one without this process; `None` for a name nobody knows.
    ///
    /// Names are URIs (section 11.3.2), whose scheme and authority are the same in small and capital letters (RFC 3986, 6.2.2.1):
    /// "mpi://self" is "mpi://SELF". What else there is of a name is compared as it stands.
    pub fn process_set(&self, name: &[u8]) -> Option<Group> {
        let group = |ranks: &[u32]| Group::from_peers(ranks.iter().map(|&rank| PeerId(rank)));
        let name = std::str::from_utf8(name).ok()?;
        let is = |set: &str| name.eq_ignore_ascii_case(set);
        if is(WORLD) {
            Some(Group::world(self.job.size))
        } else if is(OWN) {
            Some(Group::single(PeerId(self.job.rank)))
        } else if is(NODE) {
            Some(group(&self.job.local_ranks))
        } else {
            Some(group(&self.job.psets.iter().find(|set| set.name == name)?.ranks))
        }
    }
}

/// Every process of the job (section 11.3.2).
const WORLD: &str = "mpi://WORLD";
/// The process itself (section 11.3.2).
const OWN: &str = "mpi://SELF";
/// The processes of the job on this process's node.
const NODE: &str = "weft://node";

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            errhandler: Handle(abi::MPI_ERRORS_RETURN),
            thread_level: "MPI_THREAD_MULTIPLE",
            memory_kinds: crate::kinds::granted(None),
        }
    }

    #[test]
    fn origins_are_handed_down() {
        let mut sessions = Sessions::default();
        let (first, second) =
            (sessions.open(session()).expect("room"), sessions.open(session()).expect("room"));
        let comm = |slot| Handle::new(HandleKind::Comm, 0, slot);
        sessions.set_origin(comm(1), first);
        sessions.inherit(comm(2), comm(1));
        sessions.inherit(comm(3), comm(0));
        assert_eq!((sessions.origin(comm(2)), sessions.origin(comm(3))), (Some(first), None));
        sessions.set_origin(Handle(abi::MPI_GROUP_EMPTY), second);
        assert_eq!(sessions.origin(Handle(abi::MPI_GROUP_EMPTY)), None);
        sessions.close(first).expect("open");
        assert!(sessions.close(first).expect_err("closed").text().contains("was freed"));
        assert!(!sessions.is_empty());
    }
}
