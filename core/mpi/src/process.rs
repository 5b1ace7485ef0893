//! Everything of one MPI process: the engine, the job, and all objects but those that exist without it.

use crate::attributes::Keys;
use crate::comm::{Comm, Comms};
use crate::context::Contexts;
use crate::group::Group;
use crate::op::Ops;
use crate::request::{Done, Requests};
use crate::table::Table;
use crate::types::Types;
use std::collections::HashMap;
use std::sync::Arc;
use weft_boot::{Job, Launcher, SharedLauncher};
use weft_engine::{Engine, EngineBell, EngineConfig, MessageId, Waiter};
use weft_types::params::{Choice, Fabric, Parameters};
use weft_types::{ContextId, Handle, HandleKind, PeerId, Rank, Result, abi};

/// One MPI process. Contains no lock and no static; whoever owns it decides about sharing.
pub struct Process {
    /// What moves messages.
    pub engine: Engine,
    /// Who this process is.
    pub job: Job,
    /// The way to whoever started the job.
    pub launcher: Box<dyn Launcher>,
    /// The parameters in force.
    pub parameters: Parameters,
    /// Communicators.
    pub comms: Comms,
    /// Groups that have handles. `MPI_GROUP_EMPTY` has none.
    pub groups: Table<Arc<Group>>,
    /// Datatypes.
    pub types: Types,
    /// Windows.
    pub windows: crate::window::Windows,
    /// Reduction operations.
    pub ops: Ops,
    /// Sessions.
    pub sessions: crate::session::Sessions,
    /// Attribute keys.
    pub keys: Keys,
    /// Requests that are not the engine's.
    pub requests: Requests,
    /// The communicators of messages taken by matched probes.
    pub messages: HashMap<MessageId, Handle>,
    /// Channels in use.
    pub contexts: Contexts,
    /// Channels of freed communicators that traffic still uses.
    pub(crate) retired: Vec<(ContextId, Handle)>,
    /// Requests of communicators being made.
    pub(crate) building: Vec<Handle>,
    /// The default file error handler, attached to `MPI_FILE_NULL` (section 14.7).
    pub file_errhandler: Handle,
    /// The error handler that new predefined communicators get, and errors without an object before them.
    pub initial_errhandler: Handle,
    oversubscribed: bool,
    /// Whether the launcher was told that this process is done.
    said_goodbye: bool,
}

/// One line about what was found and chosen.
fn chosen(job: &Job, config: &EngineConfig, parameters: &Parameters) -> String {
    format!(
        "rank {} of {} (process {}): {} ranks on this node share {} cores, waiting ranks {}; {}; large messages {}; messages up \
         to {} bytes are sent without asking",
        job.rank,
        job.size,
        std::process::id(),
        job.local_ranks.len(),
        job.cores,
        if config.oversubscribed { "sleep at once" } else { "spin first" },
        match crate::fabric::choose(job, parameters.transport) {
            _ if job.size == 1 => "no transport is needed",
            Ok(Fabric::Softroce) => "all peers over softroce (the RDMA emulator, UDP)",
            _ => "all peers over shm",
        },
        match parameters.single_copy {
            Choice::Off => "are copied through shared memory (WEFT_SINGLE_COPY)",
            _ => "are read from the sender's memory where that is allowed and faster",
        },
        config.eager_limit
    )
}

impl Process {
    /// Finds out who this process is, joins its node-mates and makes the engine. Under launchers other than Weft's it is
    /// collective over the job.
    ///
    /// # Errors
    /// What is wrong with the environment, the launcher or the memory, and what to do.
    pub fn start() -> Result<Process> {
        let (parameters, unknown) = Parameters::from_environment(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )?;
        let (mut job, launcher) = Job::discover()?;
        let launcher = SharedLauncher::new(launcher);
        if job.rank == 0 {
            for line in unknown {
                eprintln!("weft: {line}");
            }
        }
        let oversubscribed = match parameters.oversubscribed {
            Choice::Auto => job.is_oversubscribed(),
            Choice::On => true,
            Choice::Off => false,
        };
        let config = EngineConfig {
            oversubscribed,
            eager_budget_per_sender: parameters.eager_budget_per_sender,
            eager_budget_total: parameters.eager_budget_total,
            eager_limit: parameters.eager_limit,
            ..EngineConfig::new(PeerId(job.rank), job.size)
        };
        let transports = crate::fabric::open(&mut job, &launcher, &parameters, oversubscribed)?;
        if parameters.verbose >= 2 || parameters.verbose == 1 && job.rank == 0 {
            eprintln!("weft: {}", chosen(&job, &config, &parameters));
        }
        let engine = Engine::new(config, transports)?;
        let initial_errhandler = crate::environment::initial_errhandler(job.initial_errhandler.as_deref());
        Ok(Process {
            engine,
            job,
            launcher: Box::new(launcher),
            parameters,
            comms: Comms::default(),
            groups: Table::new(HandleKind::Group),
            types: Types::default(),
            windows: crate::window::Windows::default(),
            ops: Ops::default(),
            sessions: crate::session::Sessions::default(),
            keys: Keys::default(),
            requests: Requests::default(),
            messages: HashMap::new(),
            contexts: Contexts::new(),
            retired: Vec::new(),
            building: Vec::new(),
            file_errhandler: Handle(abi::MPI_ERRORS_RETURN),
            initial_errhandler,
            oversubscribed,
            said_goodbye: false,
        })
    }

    /// Makes `MPI_COMM_WORLD` and `MPI_COMM_SELF` (section 11.2.1).
    pub fn start_world(&mut self) {
        let me = PeerId(self.job.rank);
        let errhandler = self.initial_errhandler;
        let group = Arc::new(Group::world(self.job.size));
        let mut world = Comm::new(ContextId::WORLD, Rank(me.0), group, errhandler);
        world.name = b"MPI_COMM_WORLD"[..].into();
        let mut own = Comm::new(ContextId::SELF, Rank(0), Arc::new(Group::single(me)), errhandler);
        own.name = b"MPI_COMM_SELF"[..].into();
        self.comms.start(world, own);
    }

    /// A waiter for one blocked call.
    pub fn waiter(&self) -> Waiter {
        Waiter::new(self.oversubscribed)
    }

    /// How often a blocking receive looks before it posts a request: once where ranks share cores, otherwise for about 20 us.
    #[inline]
    pub fn spins(&self) -> u32 {
        if self.oversubscribed { 1 } else { 2000 }
    }

    /// What a blocked call sleeps on.
    pub fn bell(&self) -> EngineBell {
        self.engine.bell()
    }

    /// Moves everything of this process that can move without waiting (section 2.9). True when something did.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let moved = self.engine.progress();
        if !self.building.is_empty() {
            self.progress_constructions();
        }
        self.requests.progress(&mut self.engine) | self.windows.progress(&mut self.engine) | moved
    }

    /// Takes the result of a done request; see [`Requests::finish`].
    pub fn finish(&mut self, request: Handle) -> Done {
        self.requests.finish(&mut self.engine, request)
    }

    /// Whether an active request is complete. Makes no progress.
    #[inline]
    pub fn is_done(&self, request: Handle) -> bool {
        self.requests.is_done(&self.engine, request)
    }

    /// The group of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`.
    pub fn group(&self, handle: Handle) -> Result<Arc<Group>> {
        if handle.0 == abi::MPI_GROUP_EMPTY {
            return Ok(Arc::new(Group::EMPTY));
        }
        self.groups.get(handle).cloned()
    }

    /// Names a group; an empty one is `MPI_GROUP_EMPTY`.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn name_group(&mut self, group: Arc<Group>) -> Result<Handle> {
        if group.size() == 0 {
            return Ok(Handle(abi::MPI_GROUP_EMPTY));
        }
        self.groups.insert(group)
    }
}

impl Process {
    /// Ends the World Model: its communicators are gone, and the launcher knows that this process is done.
    ///
    /// # Errors
    /// The launcher went away.
    pub fn end_world(&mut self) -> Result<()> {
        self.comms.stop();
        self.say_goodbye()?;
        if !self.sessions.is_empty() {
            self.goes_on();
        }
        Ok(())
    }

    /// A session is open: should the launcher have been told that this process is done, others may wait for it all the same.
    pub fn goes_on(&mut self) {
        if self.said_goodbye {
            self.launcher.reopen();
        }
    }

    /// Tells the launcher, once, that this process has finished MPI: from now on its exit is no failure.
    ///
    /// # Errors
    /// The launcher went away.
    pub fn say_goodbye(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.said_goodbye, true) {
            true => Ok(()),
            false => self.launcher.finalize(),
        }
    }
}
