//! Everything of one MPI process: the engine, the job, and all objects but those that exist without it.

use crate::attributes::Cache;
use crate::collective::tuning::Tuning;
use crate::comm::{Comm, Comms};
use crate::context::Contexts;
use crate::fabric::Ways;
use crate::group::{Group, NamedGroups};
use crate::lanes::{Lane, Lanes};
use crate::op::Ops;
use crate::request::{Done, Requests};
use crate::types::Types;
use crate::wide::WideLanes;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_boot::{Job, Launcher, SharedLauncher};
use weft_engine::{Completion, Engine, EngineBell, EngineConfig, LAST_WORDS, MessageId, RequestId, Waiter};
use weft_types::params::{self, Choice, Parameters};
use weft_types::{ContextId, Farewell, Handle, PeerId, Rank, Result, abi};

/// One MPI process. Contains no lock and no static; whoever owns it decides about sharing.
pub struct Process {
    /// What moves messages: lane 0.
    pub engine: Engine,
    /// The other lanes, for programs with several threads.
    pub lanes: Arc<Lanes>,
    /// Who this process is.
    pub job: Job,
    /// The way to whoever started the job.
    pub launcher: Box<dyn Launcher>,
    /// The parameters in force.
    pub parameters: Parameters,
    /// Rules and figures of collectives.
    pub(crate) tuning: Tuning,
    /// Communicators.
    pub comms: Comms,
    /// Groups that have handles. `MPI_GROUP_EMPTY` has none.
    pub groups: Arc<NamedGroups>,
    /// Datatypes.
    pub types: Types,
    /// Windows.
    pub windows: crate::window::Windows,
    /// Reduction operations.
    pub ops: Ops,
    /// Sessions.
    pub sessions: crate::session::Sessions,
    /// Attribute keys and attributes.
    pub cache: Arc<Cache>,
    /// Requests that are not the engine's.
    pub requests: Requests,
    /// The communicators of messages taken by matched probes.
    pub messages: HashMap<MessageId, Handle>,
    /// Channels in use.
    pub contexts: Contexts,
    /// Letters about communicators being made.
    pub(crate) letters: crate::letters::Letters,
    /// Channels of freed communicators that traffic still uses.
    pub(crate) retired: Vec<crate::construct::Retired>,
    /// Requests of communicators being made.
    pub(crate) building: Vec<Handle>,
    /// Lanes that reach other nodes, where there can be such.
    pub(crate) wide: Option<Box<WideLanes>>,
    /// Whether it was said that a lane could not be opened.
    pub(crate) told_lane_shared: bool,
    /// The parts of the machine, once somebody has asked; then `None` inside when they cannot be read.
    pub(crate) machine: Option<Option<Arc<crate::topology::locality::Machine>>>,
    /// The default file error handler, attached to `MPI_FILE_NULL` (section 14.7).
    pub file_errhandler: Handle,
    /// The error handler that new predefined communicators get, and errors without an object before them.
    pub initial_errhandler: Handle,
    /// See [`Process::spins`].
    spins: u32,
    /// Whether the collective being started may go by shared memory.
    pub(crate) asked: crate::rounds::Asked,
    /// Whether the launcher was told that this process goes on when others are aborted.
    survives: bool,
    /// Whether the launcher was told that this process is done.
    said_goodbye: bool,
    /// How often this process has opened MPI, or a greater number that another member of a communicator had
    /// ([`weft_types::life`]).
    pub(crate) life: u32,
    /// Whether MPI is open.
    is_open: bool,
    /// Whether the World Model was and is over.
    world_is_over: bool,
}

/// One line about what was found and chosen. How messages travel over a fabric is told when that is open.
fn chosen(job: &Job, config: &EngineConfig, parameters: &Parameters, ways: &Ways) -> String {
    let large = match (ways, parameters.single_copy) {
        (Ways::Alone | Ways::Fabric(_), _) => "",
        (Ways::Shm | Ways::Both(_), Choice::Off) => {
            "; large messages on this node are copied through shared memory (WEFT_SINGLE_COPY)"
        }
        (Ways::Shm | Ways::Both(_), _) => {
            "; large messages on this node are read from the sender's memory where that is allowed and faster"
        }
    };
    format!(
        "rank {} of {} (process {}): {} ranks on this node share {} cores, waiting ranks {}; {}{large}; messages up to {} bytes are \
         sent without asking",
        job.rank,
        job.size,
        std::process::id(),
        job.local_ranks.len(),
        job.cores,
        if config.oversubscribed { "sleep at once" } else { "spin first" },
        ways.explain(job, parameters),
        config.eager_limit
    )
}

/// The variables of the environment that are text.
pub(crate) fn environment_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Lines of [`Process::tell_ways`].
const MOST_WAYS_TOLD: usize = 64;

/// Whether a checker of memory looks on, which does not see what another process writes into this one's: a part of a message that its sender
/// writes ([`EngineConfig::shares_from`]) would stay "uninitialised" for it. (Valgrind loads its part of a program so.)
fn is_under_memcheck() -> bool {
    std::env::var("LD_PRELOAD").is_ok_and(|libraries| libraries.contains("vgpreload_"))
}

impl Process {
    /// Finds out who this process is, joins its node-mates and makes the engine. Under launchers other than Weft's it is
    /// collective over the job.
    ///
    /// # Errors
    /// What is wrong with the environment, the launcher or the memory, and what to do.
    pub fn start() -> Result<Process> {
        Process::start_with(Vec::new())
    }

    /// As [`Process::start`]; `settings` (variable, value) count before the environment.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_with(settings: Vec<(String, String)>) -> Result<Process> {
        let (parameters, unknown) = Parameters::from_environment(environment_variables().chain(settings))?;
        let (mut job, launcher) = Job::discover()?;
        let mut launcher = SharedLauncher::new(launcher);
        let tuning = Tuning::read(&job, &mut launcher, &parameters)?;
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
        let defaults = EngineConfig::new(PeerId(job.rank), job.size);
        let config = EngineConfig {
            oversubscribed,
            shares_from: if is_under_memcheck() { u32::MAX } else { defaults.shares_from },
            eager_budget_per_sender: parameters.eager_budget_per_sender,
            eager_budget_total: parameters.eager_budget_total,
            eager_limit: parameters.eager_limit,
            piece: parameters.piece,
            gaps: match parameters.gaps {
                params::Gaps::Auto => weft_engine::Gaps::Auto,
                params::Gaps::Read => weft_engine::Gaps::Read,
                params::Gaps::Stream => weft_engine::Gaps::Stream,
            },
            rendezvous: parameters.rendezvous.into(),
            keep_registered: parameters.keep_registered,
            ..defaults
        };
        let ways = crate::fabric::choose(&job, &parameters)?;
        if parameters.verbose >= 2 || parameters.verbose == 1 && job.rank == 0 {
            eprintln!("weft: {}", chosen(&job, &config, &parameters, &ways));
        }
        let (transports, opener) =
            crate::fabric::open(&mut job, &launcher, &parameters, &ways, oversubscribed)?;
        let engine = Engine::new(config, transports)?;
        let is_one_node = job.local_ranks.len() == job.size as usize;
        let tuning = tuning.carried_by(engine.carrier(), is_one_node);
        let spins = if oversubscribed { 1 } else { engine.looks() };
        let opener = opener.filter(|_| engine.takes_wide());
        let wide = opener.map(|opener| Box::new(WideLanes::new(opener, &engine)));
        let initial_errhandler = crate::environment::initial_errhandler(job.initial_errhandler.as_deref());
        let lanes = Arc::new(Lanes::default());
        let comms = Comms::default();
        let types = Types::following(&comms.changes);
        Ok(Process {
            engine,
            job,
            launcher: Box::new(launcher),
            parameters,
            tuning,
            comms,
            groups: Arc::default(),
            types,
            windows: crate::window::Windows::default(),
            ops: Ops::default(),
            sessions: crate::session::Sessions::default(),
            cache: Arc::default(),
            requests: Requests::of(&lanes),
            lanes,
            messages: HashMap::new(),
            contexts: Contexts::new(),
            letters: crate::letters::Letters::default(),
            retired: Vec::new(),
            building: Vec::new(),
            wide,
            told_lane_shared: false,
            machine: None,
            file_errhandler: Handle(abi::MPI_ERRORS_RETURN),
            initial_errhandler,
            spins,
            asked: crate::rounds::Asked::No,
            survives: false,
            said_goodbye: false,
            life: 0,
            is_open: false,
            world_is_over: false,
        })
    }

    /// Makes `MPI_COMM_WORLD` and `MPI_COMM_SELF` (section 11.2.1).
    pub fn start_world(&mut self) {
        self.begin_life();
        let me = PeerId(self.job.rank);
        let errhandler = self.initial_errhandler;
        let group = Arc::new(Group::world(self.job.size));
        let mut world = Comm::new(ContextId::WORLD, Rank(me.0), group, errhandler);
        world.name = b"MPI_COMM_WORLD"[..].into();
        let mut own = Comm::new(ContextId::SELF, Rank(0), Arc::new(Group::single(me)), errhandler);
        own.name = b"MPI_COMM_SELF"[..].into();
        self.comms.start(world, own);
        if errhandler.0 == abi::MPI_ERRORS_RETURN {
            self.survive_losses();
        }
    }

    /// From now on several threads may call: new communicators whose members all say so live in lanes.
    pub fn allow_lanes(&mut self) {
        if !self.engine.has_lanes() {
            return;
        }
        let job = &self.job;
        self.contexts.lanes =
            crate::lanes::number(self.parameters.lanes, job.cores, job.local_ranks.len(), job.lanes.len());
        // Memory of lane 0 is there already.
        let nodes: Vec<Option<u32>> = std::iter::once(None)
            .chain((1..self.contexts.lanes).map(|lane| crate::lanes::node(&self.job.lanes, lane)))
            .collect();
        self.engine.place_lanes(&nodes);
        if self.parameters.verbose > u32::from(self.job.rank != 0) {
            let far = match &self.wide {
                Some(wide) => format!(
                    "in each of them communicators with members elsewhere have an end of their own on {}, opened when the first one needs it",
                    wide.way()
                ),
                None => "communicators with members elsewhere share the first one".to_owned(),
            };
            let (lanes, rank) = (self.contexts.lanes, self.job.rank);
            eprintln!("weft: {lanes} lanes for the threads of rank {rank} (WEFT_LANES); {far}");
        }
    }

    /// Lends the engine of a lane. The caller holds the process and so may take any one lane.
    #[inline]
    pub fn on_lane<R>(&mut self, lane: u32, work: impl FnOnce(&mut Engine) -> R) -> R {
        match lane {
            0 => work(&mut self.engine),
            _ => self.lanes.at(lane).with(|inner| work(&mut inner.engine)),
        }
    }

    /// Whether a request of any lane has ended. No progress.
    pub fn has_ended(&mut self, request: RequestId) -> bool {
        self.on_lane(request.lane(), |engine| engine.is_complete(request.local()))
    }

    /// Takes a request of any lane that has ended.
    pub fn take_ended(&mut self, request: RequestId) -> Completion {
        self.on_lane(request.lane(), |engine| engine.take(request.local()))
    }

    /// Whether nothing is under way in any lane that finalize must wait for.
    pub fn is_quiet(&mut self) -> bool {
        self.requests.buffers.is_all_flushed(&mut self.engine)
            && self.engine.is_quiet()
            && self.lanes.are_quiet()
    }

    /// As [`Process::is_quiet`], after a loss and for a process that has waited for so long ([`Engine::is_quiet_since`]).
    pub fn is_quiet_since(&mut self, since: Duration) -> bool {
        self.building.is_empty()
            && self.requests.buffers.is_all_flushed(&mut self.engine)
            && self.engine.is_quiet_since(since)
            && self.lanes.iter().all(|(_, lane)| lane.with(|inner| inner.engine.is_quiet_since(since)))
    }

    /// A waiter for one blocked call.
    pub fn waiter(&self) -> Waiter {
        Waiter::new(self.spins == 1, self.spins)
    }

    /// How often a blocking receive looks before it posts a request: once where ranks share cores, otherwise as
    /// [`weft_engine::Engine::looks`] says.
    #[inline]
    pub fn spins(&self) -> u32 {
        self.spins
    }

    /// What a blocked call sleeps on.
    pub fn bell(&self) -> EngineBell {
        self.engine.bell()
    }

    /// Moves everything of this process that can move without waiting (section 2.9). True when something did.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = self.engine.progress();
        if !self.building.is_empty() {
            self.progress_constructions();
        }
        if self.wide.is_some() {
            moved |= self.progress_wide();
            if self.engine.asks_in_vain() {
                moved |= self.look_for_ways();
            }
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

    /// Marks what the calling thread is about to sleep for; false when marks are not enough, because the end of the request is
    /// not that of an engine's.
    pub fn watch(&mut self, request: Handle) -> bool {
        self.requests.watch(&mut self.engine, request)
    }

    /// The group of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`.
    pub fn group(&self, handle: Handle) -> Result<Arc<Group>> {
        self.groups.get(handle)
    }

    /// Names a group; an empty one is `MPI_GROUP_EMPTY`.
    ///
    /// # Errors
    /// As [`NamedGroups::name`].
    pub fn name_group(&mut self, group: Arc<Group>) -> Result<Handle> {
        self.groups.name(group)
    }
}

impl Process {
    /// Ends the World Model: its communicators are gone, and the launcher knows that this process is done.
    ///
    /// # Errors
    /// The launcher went away.
    pub fn end_world(&mut self) -> Result<()> {
        self.comms.stop();
        self.tell_ways();
        self.world_is_over = true;
        if self.sessions.is_empty() {
            self.rest();
        } else if self.knows_losses() {
            // What sessions have made goes on.
            self.part(Farewell { life: 0, world: true });
        }
        self.say_goodbye()?;
        if !self.sessions.is_empty() {
            self.goes_on();
        }
        Ok(())
    }

    /// This process has ended MPI: nobody shall wait for it.
    pub fn rest(&mut self) {
        if self.knows_losses() {
            self.part(Farewell { life: self.life, world: self.world_is_over });
        }
        for (_, lane) in self.lanes.iter().filter(|(_, lane)| lane.is_wide()) {
            lane.with(|inner| inner.engine.rest());
        }
        self.is_open = false;
        self.engine.rest();
    }

    /// Whether a process of the job was found lost, as any lane knows or has heard.
    pub fn knows_losses(&self) -> bool {
        let knows = |lane: &Lane| lane.with(|inner| inner.engine.knows_losses());
        self.engine.knows_losses() || self.lanes.iter().any(|(_, lane)| knows(lane))
    }

    /// MPI is open from now on.
    fn begin_life(&mut self) {
        self.life += u32::from(!std::mem::replace(&mut self.is_open, true));
    }

    /// After a loss, what this process owes to others leaves in all lanes, and then its farewell.
    #[cold]
    fn part(&mut self, farewell: Farewell) {
        let begun = Instant::now();
        self.say_last_words(farewell, begun);
        self.engine.part(farewell);
        if self.wide.is_some() {
            // The launcher's word goes by another way than what is in flight, which it must not overtake.
            self.see_off(begun);
            self.launcher.part(farewell.to_word());
        }
    }

    /// Until what the fabrics of all lanes have in flight has arrived, for as long as [`Engine::may_be_in_flight`] says of a wait
    /// since `begun`.
    #[cold]
    fn see_off(&mut self, begun: Instant) {
        loop {
            let since = begun.elapsed();
            self.engine.progress();
            self.progress_wide();
            let mut flies = self.engine.may_be_in_flight(since);
            for (_, lane) in self.lanes.iter() {
                flies |= lane.with(|inner| {
                    inner.engine.progress();
                    inner.engine.may_be_in_flight(since)
                });
            }
            if !flies {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// What streams goes by no queue, and a farewell would overtake it: it leaves first.
    #[cold]
    fn say_last_words(&mut self, farewell: Farewell, begun: Instant) {
        self.push_last_words(begun);
        for (_, lane) in self.lanes.iter() {
            lane.with(|inner| inner.engine.farewell(farewell));
        }
        self.engine.farewell(farewell);
        self.push_last_words(begun);
    }

    /// Until all that is under way in all lanes has left, for [`LAST_WORDS`] from `begun` on at most.
    fn push_last_words(&mut self, begun: Instant) {
        loop {
            let since = begun.elapsed();
            if self.wide.is_some() {
                // What lanes have for processes that they have not talked to waits for letters, here and there.
                self.engine.progress();
                self.progress_wide();
            }
            let mut are_left = self.engine.push_last_words(since);
            for (_, lane) in self.lanes.iter() {
                are_left |= lane.with(|inner| inner.engine.push_last_words(since));
            }
            if !are_left || since >= LAST_WORDS {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Says by which addresses and devices others were reached, to whoever asked for that (`WEFT_VERBOSE`): what works was
    /// found out by trying. And what was done to them on purpose.
    fn tell_ways(&self) {
        if self.parameters.verbose > u32::from(self.job.rank != 0) {
            for (peer, way) in self.engine.ways(MOST_WAYS_TOLD) {
                eprintln!("weft: process {} reached {}: {way}", self.job.rank, peer.0);
            }
            if let Some(injected) = self.engine.injected().filter(|_| self.parameters.faults.is_some()) {
                eprintln!("weft: process {} had faults on purpose: {injected}", self.job.rank);
            }
        }
    }

    /// A session is open: should the launcher have been told that this process is done, others may wait for it all the same.
    pub fn goes_on(&mut self) {
        self.begin_life();
        if self.said_goodbye {
            self.launcher.reopen();
        }
    }

    /// Tells the launcher, once, that errors on `MPI_COMM_WORLD` do not end this process: it goes on when others are
    /// aborted (section 11.4.2).
    pub fn survive_losses(&mut self) {
        if !std::mem::replace(&mut self.survives, true) {
            self.launcher.survives_losses();
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
