//! From a collective call to a running schedule (chapter 6): the plan, its cache, its number.

mod check;
mod count;
mod nodes;
mod plans;
pub(crate) mod tuning;

pub use count::Count;
pub(crate) use nodes::layout;
pub use plans::{Plans, Work};

use crate::comm::{Comm, Everyone, REPRODUCIBLE};
use crate::group::Group;
use crate::lanes::Lane;
use crate::persistent::Operation;
use crate::process::Process;
use crate::request::COLLECTIVE;
use crate::rounds::{Asked, Begun};
use std::sync::Arc;
use weft_boot::Nodes;
use weft_coll::{Call, Figures, Layout, Model, Partition, Rules, Schedule};
use weft_engine::{Arguments, Channel, PeerMap, Reduction, RequestId, ScheduleRun};
use weft_types::{Error, ErrorClass, Handle, PeerId, Rank, Result};

impl PeerMap for Group {
    #[inline]
    fn peer(&self, rank: Rank) -> PeerId {
        Group::peer(self, rank)
    }

    fn contains(&self, process: PeerId) -> bool {
        self.rank_of(process).is_some()
    }
}

impl Process {
    /// What the cost formulas assume of this machine; the same at all ranks, because the launcher tells all the same.
    pub(crate) fn model(&self) -> Model {
        let ranks = self.job.local_ranks.len() as f64;
        // On several nodes each rank knows the cores of its own only: a card has no others, neither has any launcher's PMI. Ranks that
        // choose different algorithms wait for ever, so what one node has must not count, and asking all others at the start would be
        // a question for each node. Crowded jobs on several nodes are planned as if every rank had a core; a rule or a figure
        // (`WEFT_COLLECTIVES`, `WEFT_MODEL`), which mpiexec gives to all alike, can say otherwise.
        let alone = self.job.local_ranks.len() == self.job.size as usize;
        let ranks_per_core = if alone { ranks / self.job.cores.max(1) as f64 } else { 1.0 };
        self.tuning.figures.apply(Model { ranks_per_core, ..Model::default() })
    }

    /// How schedules are chosen; the same at all ranks.
    fn planning(&self) -> Planning {
        let several = self.job.local_ranks.len() != self.job.size as usize;
        Planning {
            model: self.model(),
            reproducible: self.parameters.reproducible,
            nodes: several.then(|| Arc::clone(&self.job.nodes)),
            rules: Arc::clone(&self.tuning.rules),
            figures: self.tuning.figures.clone(),
        }
    }

    /// Starts a collective. Local (section 2.4.1). The kind of work is that of the communicator: the caller has looked.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when send and receive argument are the same memory, `MPI_ERR_COMM` for a bad handle, `MPI_ERR_TOPOLOGY`
    /// for a neighbourhood where there is none, `MPI_ERR_NO_MEM`, `MPI_ERR_COUNT` as [`ScheduleRun::new`].
    pub fn start_work(
        &mut self,
        comm: Handle,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        // Before anything that the members count: a call that fails here has not been made.
        arguments.send.check_distinct(&arguments.recv)?;
        if let Work::Collective(call) = work
            && matches!(self.asked, Asked::Yes)
            && self.wants_group(comm, call)?
        {
            self.asked = Asked::Answered(Begun::Join(comm));
            return Ok(RequestId::COMPLETE);
        }
        if let Work::Collective(call) = work
            && self.take_over(comm, call, &arguments, reduction.as_ref())?
        {
            return Ok(RequestId::COMPLETE);
        }
        if let Work::Collective(call) = work
            && matches!(self.asked, Asked::No)
            && let Some(request) = self.start_by_rounds(comm, call, &arguments, reduction.as_ref())?
        {
            return Ok(request);
        }
        let planning = self.planning();
        let comm = self.comms.get_mut(comm)?;
        let run = comm.bind(work, &planning, arguments, reduction, Numbers::Once)?;
        let (owner, lane) = (comm.handle.0 | COLLECTIVE, comm.lane);
        self.start_run(run, owner, lane)
    }

    /// Keeps a collective as a persistent request (sections 6.13 and 8.8). Then [`Process::agree_to_keep`].
    ///
    /// # Errors
    /// As [`Process::start_work`]; `MPI_ERR_OTHER` when its number is in use.
    pub fn keep_work(
        &mut self,
        comm: Handle,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<Handle> {
        // As in `start_work`.
        arguments.send.check_distinct(&arguments.recv)?;
        let planning = self.planning();
        let call = match work {
            Work::Collective(call) => self.kept_call(comm, call, &arguments, reduction.as_ref())?,
            _ => None,
        };
        let of = self.comms.get_mut(comm)?;
        let run = of.bind(work, &planning, arguments, reduction, Numbers::Persistent)?;
        let kept = self.keep_run(run, comm)?;
        if let Some(call) = call {
            self.keep_by_cells(kept, call);
        }
        Ok(kept)
    }

    /// How nonblocking collectives begin in lanes, without the process; `None` where all calls are checked.
    pub fn planner(&self) -> Option<Planner> {
        (!self.checks_collectives()).then(|| Planner(self.planning()))
    }

    /// Starts a collective on an intracommunicator.
    ///
    /// # Errors
    /// As [`Process::start_work`]; `MPI_ERR_COMM` for an intercommunicator.
    pub fn start_collective(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        self.comms.get(comm)?.check_intra("the operation")?;
        self.start_work(comm, &Work::Collective(call), arguments, reduction)
    }

    /// Starts a collective over all processes of a communicator, both groups of an intercommunicator. Local.
    ///
    /// # Errors
    /// As [`Process::start_work`].
    pub fn start_on_everyone(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        self.start_work(comm, &Work::Collective(call), arguments, reduction)
    }

    /// Makes a persistent request of a run. Its number is that of no other request alive: numbers come round again, and an early
    /// request may still be started at any time.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` when the number is in use, as [`crate::table::Table::insert`].
    pub(crate) fn keep_run(&mut self, run: ScheduleRun, comm: Handle) -> Result<Handle> {
        let of = self.comms.get(comm)?;
        if of.persistent_collectives > weft_coll::SEQUENCES && self.requests.keeps_number(comm, &run) {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "{} persistent collective operations were made on {} since one that is not freed yet; make new ones on a \
                     duplicate of it (MPI_Comm_dup)",
                    weft_coll::SEQUENCES,
                    of.display_name()
                ),
            ));
        }
        self.persistent(Operation::Collective(run.keep()), comm)
    }

    pub(crate) fn start_run(&mut self, run: ScheduleRun, owner: u32, lane: u32) -> Result<RequestId> {
        self.on_lane(lane, |engine| {
            let request = engine.start_schedule(run)?;
            engine.tag_request(request, owner);
            Ok(request.in_lane(lane))
        })
    }
}

/// How schedules are chosen.
#[derive(Clone, Debug, Default)]
struct Planning {
    model: Model,
    /// Whether reductions have one order on every communicator.
    reproducible: bool,
    /// Those of all communicators.
    rules: Arc<Rules>,
    /// The node of every process, in a job on several.
    nodes: Option<Arc<Nodes>>,
    /// Of the machine.
    figures: Figures,
}

impl Planning {
    /// The model for calls whose formulas know nothing of nodes: in a job on several all members are as if on different ones.
    fn model_apart(&self) -> Model {
        let model = self.model.clone();
        match self.nodes {
            None => model,
            Some(_) => {
                let Model { layout, .. } = Model::cluster(Partition::Block(1));
                self.figures.apply(Model { layout, ..model })
            }
        }
    }
}

/// How collectives are begun by threads that do not hold the process.
#[derive(Clone, Debug)]
pub struct Planner(Planning);

impl Planner {
    /// One that knows nothing of any machine.
    #[cfg(test)]
    pub(crate) fn plain() -> Planner {
        Planner(Planning::default())
    }

    /// Starts a nonblocking collective with the lock of its communicator's lane alone. `comm` is a snapshot of a communicator
    /// in a lane other than 0, so it goes by messages; what it keeps of schedules is its thread's own.
    ///
    /// # Errors
    /// As [`Process::start_work`].
    pub fn start(
        &self,
        (comm, lane): (&mut Comm, &Lane),
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<Handle> {
        let run = comm.bind(work, &self.0, arguments, reduction, Numbers::Once)?;
        lane.with(|inner| {
            let request = inner.engine.start_schedule(run)?;
            inner.engine.tag_request(request, comm.handle.0 | COLLECTIVE);
            Ok(inner.handle(request))
        })
    }
}

/// From which of a communicator's two counters a collective takes its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Of collectives that run once.
    Once,
    /// Of persistent ones, which may be started in any order.
    Persistent,
}

impl Comm {
    /// Binds the schedule of a call to memory and to the communicator's next number.
    ///
    /// # Errors
    /// As [`Process::start_work`].
    fn bind(
        &mut self,
        work: &Work<'_>,
        planning: &Planning,
        arguments: Arguments,
        reduction: Option<Reduction>,
        numbers: Numbers,
    ) -> Result<ScheduleRun> {
        let everyone = self.everyone();
        let mut plans = std::mem::take(&mut self.plans);
        let schedule = plans.get(work, || self.plan(work, &everyone, planning));
        self.plans = plans;
        let persistent = numbers == Numbers::Persistent;
        let sequence = if persistent { self.persistent_collectives } else { self.collectives.get() };
        let mut channel = self.channel(everyone, sequence, persistent);
        if !persistent && !planning.reproducible && !self.is_reproducible() {
            channel.group = self.at_device.group();
        }
        let run = ScheduleRun::new(schedule?, arguments, reduction, channel)?;
        match numbers {
            Numbers::Once => self.collectives.advance(),
            Numbers::Persistent => self.persistent_collectives = sequence.wrapping_add(1),
        }
        Ok(run)
    }

    /// Whether its info asks for reductions that do not depend on layout and algorithm.
    pub(crate) fn is_reproducible(&self) -> bool {
        self.hints.text(REPRODUCIBLE) == Some("true")
    }

    /// The rules that its info gives for its collectives.
    ///
    /// # Errors
    /// None: they were read when they were given.
    pub(crate) fn rules(&self) -> Result<Rules> {
        match self.hints.text(tuning::KEY) {
            Some(text) => tuning::read_hint(text),
            None => Ok(Rules::default()),
        }
    }

    /// Where the messages of the collective of that number travel.
    pub(crate) fn channel(
        &self,
        Everyone { peers, place, .. }: Everyone,
        sequence: u32,
        persistent: bool,
    ) -> Channel {
        let context = self.context.collective();
        Channel { context, rank: place, peers, sequence, persistent, group: None }
    }

    #[cold]
    fn plan(&self, work: &Work<'_>, everyone: &Everyone, planning: &Planning) -> Result<Schedule> {
        let model = &planning.model;
        match *work {
            Work::Collective(call) => {
                let group = weft_coll::Group { rank: everyone.place.0, size: everyone.size };
                if planning.reproducible || self.is_reproducible() {
                    return Ok(weft_coll::plan_reproducible(call, group, model));
                }
                let own = self.rules()?;
                let rules = [&own, &*planning.rules];
                let Some(nodes) = &planning.nodes else {
                    return Ok(weft_coll::plan_by(call, group, model, &rules));
                };
                let of = |rank| everyone.peers.peer(Rank(rank));
                let layout =
                    Layout::clone(self.layout.get_or_init(|| Box::new(layout(nodes, everyone.size, of))));
                let model = planning.figures.apply(Model { layout, ..model.clone() });
                Ok(weft_coll::plan_by(call, group, &model, &rules))
            }
            Work::Inter(call) if planning.reproducible || self.is_reproducible() => {
                Ok(weft_coll::plan_inter_reproducible(call, self.sides()?, &planning.model_apart()))
            }
            Work::Inter(call) => {
                let own = self.rules()?;
                let rules = [&own, &*planning.rules];
                Ok(weft_coll::plan_inter_by(call, self.sides()?, &planning.model_apart(), &rules))
            }
            Work::Neighborhood(send, recv) => {
                let own = self.rules()?;
                self.plan_neighborhood(send, recv, &planning.model_apart(), &[&own, &planning.rules])
            }
        }
    }

    /// The two groups of an intercommunicator as the builders of schedules want them.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for an intracommunicator.
    fn sides(&self) -> Result<weft_coll::Sides> {
        let inter = self.inter()?;
        let (local, remote) = (inter.local().size(), inter.remote().size());
        Ok(weft_coll::Sides { rank: self.rank.0, local, remote, is_first: inter.is_first })
    }
}
