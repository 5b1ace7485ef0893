//! Communicator construction (sections 7.4.2 and 7.6.2) as something that is polled: blocking and nonblocking forms are the same.
//!
//! ```text
//! dup, create, merge      one allreduce of 80 bytes on the parent's collective channel      -> communicator
//! split, create (inter)   colors and keys up a tree, groups down, the agreement with them   -> communicator
//! create_group, from_group   the agreement up and down a tree, by letters                    -> communicator
//! intercomm_create        leaders meet, each tells its group; then the agreement of both    -> communicator
//! ```
//!
//! When no channel of the window tried is free at all members (see [`crate::context`]) the agreement is repeated by letters: it
//! may happen inside any call at any time, when the parent's collectives are out of step or the parent is freed.

mod begin;
mod meeting;
#[cfg(test)]
mod scale;

mod sweep;
mod table;

use crate::attributes::{Attribute, Holder};
use crate::collective::Count;
use crate::comm::{Comm, Everyone, Inter, Sides};
use crate::context::{self, Proposal, Search};
use crate::group::Group;
use crate::info::Info;
use crate::letters::{Key, Letters};
use crate::process::Process;
use crate::request::{Local, Making};
use crate::topology::Topology;
use meeting::Meeting;
use std::sync::Arc;
use sweep::Sweep;
use weft_coll::{Call, Vector};
use weft_datatype::PredefinedOp;
use weft_datatype::{Datatype, Memory};
use weft_engine::{Arguments, Operation, PeerMap, Reduction, RequestId};
use weft_types::{Age, ContextId, ErrorClass, Handle, PeerId, Rank, Result, abi};

/// A construction under way.
#[derive(Debug)]
pub struct Construction {
    parent: Handle,
    /// Whether the parent remembers where the search for a channel ended: blocking constructions over the whole parent only.
    remembers: bool,
    errhandler: Handle,
    /// Who takes part in the agreement; in an intercommunicator's making known when the groups have met.
    everyone: Everyone,
    /// What letters about it are named by.
    key: Key,
    stage: Stage,
    result: Outcome,
    search: Search,
    /// What this process contributes to the agreement.
    flags: u64,
    /// The channel is agreed on; whether all have opened its lane is being agreed on.
    settled: Option<Settled>,
    /// The same: the age of the parent, or the life of this process.
    age: Age,
    attributes: Vec<Attribute>,
    hints: Info,
    /// The virtual topology of the new communicator; set before the first poll.
    pub topology: Option<Arc<Topology>>,
}

#[derive(Debug)]
enum Stage {
    /// A channel is being agreed on, by the parent's collective channel.
    Agreeing { request: RequestId, room: Memory },
    /// The same by letters, maybe with colors and keys.
    Sweeping(Box<Sweep>),
    /// Two groups get to know each other.
    Meeting(Box<Meeting>),
}

/// What an agreement has settled.
#[derive(Clone, Copy, Debug)]
struct Settled {
    context: ContextId,
    /// Where the parent's next search begins.
    hint: u32,
    agreed: Proposal,
    lane: u32,
}

/// What is being made.
#[derive(Clone, Debug)]
enum Outcome {
    /// Nothing for this process.
    Nothing,
    /// An intracommunicator.
    Intra(Arc<Group>),
    /// An intercommunicator.
    Inter(Inter),
    /// The part of a parent's group, or groups, with this process's color.
    Part { first: Arc<Group>, second: Option<Arc<Group>> },
    /// An intracommunicator of both groups, in the order they ask for.
    Merged(Arc<Sides>),
    /// An intercommunicator of this local group and one that is not known yet.
    Meeting(Arc<Group>),
}

/// What a construction is named by in letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Channel and number of a collective call on the parent.
    Parent = 1,
    /// Channel of the parent and tag.
    Tag,
    /// String tag.
    StringTag,
    /// Channel of the peer communicator and tag: two leaders.
    Greeting,
    /// As `Parent`: a leader and its group.
    Told,
    /// As `StringTag`: a leader and its group.
    ToldStringTag,
    /// Both leaders' numbers.
    Union,
}

fn key(kind: Kind, name: &[u8]) -> Key {
    [&[kind as u8], name].concat().into()
}

/// What all participants of a construction know, and no other construction under way has.
fn seed(key: &[u8]) -> u64 {
    // FNV-1a.
    key.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// What is kept of a freed communicator until its channel can be used again.
pub(crate) struct Retired {
    context: ContextId,
    lane: u32,
    handle: Handle,
    everyone: Arc<dyn PeerMap>,
}

impl Process {
    /// This process's flags of an agreement, all well.
    fn flags(&self) -> u64 {
        let room = self.comms.room() > self.contexts.proposals();
        let wide = if self.wide.is_some() { context::WIDE } else { 0 };
        let room = if room { context::ROOM } else { 0 };
        context::WELL | context::lane_flags(self.contexts.lanes) | wide | room
    }

    /// Starts the first round of agreement on the parent's collective channel.
    fn agree(&mut self, parent: Handle, search: &mut Search, flags: u64) -> Result<Stage> {
        self.reuse_retired();
        let word = Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"));
        let room = Memory::scratch(&word, Proposal::WORDS as u64)?;
        let proposal = self.contexts.propose(search, flags);
        room.recv_view(0, 0, Proposal::BYTES as u64).unpack(0, &proposal.to_bytes());
        let operation = Operation::Predefined(PredefinedOp::Band.kernel(&word)?);
        let reduction = Some(Reduction { datatype: word, operation, name: "" });
        let vector = Vector { count: Proposal::WORDS as u64, element: 8, commutative: true };
        let call = Call::Allreduce { vector, in_place: true };
        let arguments = Arguments::new(Memory::none(), room.clone());
        match self.start_on_everyone(parent, &call, arguments, reduction) {
            Ok(request) => Ok(Stage::Agreeing { request, room }),
            Err(error) => {
                self.contexts.abandon(search);
                Err(error)
            }
        }
    }

    /// Gives the channels of freed communicators back once no traffic uses them. One that has lost somebody is never used
    /// again: what calls that failed owed to others may arrive at any time, and would be taken for the new communicator's.
    fn reuse_retired(&mut self) {
        let mut retired = std::mem::take(&mut self.retired);
        retired.retain(|retired| {
            let (context, lane, handle) = (retired.context, retired.lane, retired.handle);
            let any = |context| weft_engine::Selector { context, peer: None, source: None, tag: None };
            let used = |engine: &mut weft_engine::Engine| {
                engine.has_lost_of(&*retired.everyone)
                    || engine.owns_any(handle.0)
                    || engine.iprobe(any(context)).is_some()
                    || engine.iprobe(any(context.collective())).is_some()
                    || engine.iprobe(any(context.partitioned())).is_some()
            };
            let in_use = self.requests.keeps(handle)
                || used(&mut self.engine)
                || lane != 0 && self.lanes.at(lane).with(|inner| used(&mut inner.engine));
            if !in_use {
                self.contexts.release(context);
                self.engine.close_channel(context);
                if lane != 0 {
                    self.lanes.at(lane).with(|inner| inner.engine.close_channel(context));
                }
            }
            in_use
        });
        self.retired = retired;
    }

    /// Frees a communicator whose attributes are gone: operations under way continue (section 7.4.3).
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle or a predefined communicator.
    pub fn free_comm(&mut self, handle: Handle) -> Result<Comm> {
        let mut comm = self.comms.remove(handle)?;
        comm.node = crate::rounds::Node::default();
        if let Some(group) = std::mem::take(&mut comm.at_device).group() {
            self.engine.leave_group(group);
        }
        self.engine.close_streams();
        let everyone = comm.everyone().peers;
        self.retired.push(Retired { context: comm.context, lane: comm.lane, handle, everyone });
        Ok(comm)
    }

    /// Lets a construction go on by itself, as part of all progress; gives its request.
    ///
    /// # Errors
    /// As [`crate::table::Table::insert`].
    pub fn build(&mut self, construction: Construction, parent: Handle, place: usize) -> Result<Handle> {
        let making = Making { construction: Some(construction), outcome: Ok(None), parent, place };
        let request = self.requests.insert(Local::Construction(Box::new(making)))?;
        self.building.push(request);
        Ok(request)
    }

    /// Takes every construction under way as far as it goes.
    #[cold]
    #[inline(never)]
    pub(crate) fn progress_constructions(&mut self) {
        for request in std::mem::take(&mut self.building) {
            let Local::Construction(making) = self.requests.local_mut(request) else { continue };
            let Some(mut construction) = making.construction.take() else { continue };
            let outcome = construction.poll(self);
            let Local::Construction(making) = self.requests.local_mut(request) else { continue };
            match outcome.transpose() {
                None => {
                    making.construction = Some(construction);
                    self.building.push(request);
                }
                // Nobody asks for it: this process only helped the others to fail too.
                Some(_) if making.place == 0 => self.requests.forget(request),
                Some(outcome) => making.outcome = outcome,
            }
        }
    }
}

/// What a construction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// A collective on the parent.
    Agreement(RequestId),
    /// What this process has to say.
    Process(PeerId),
}

impl Construction {
    /// The error handler that the communicator will have.
    pub fn errhandler(&self) -> Handle {
        self.errhandler
    }

    /// What it waits for, to be described.
    pub fn awaits(&self) -> Awaits {
        match &self.stage {
            Stage::Agreeing { request, .. } => Awaits::Agreement(*request),
            Stage::Sweeping(sweep) => {
                Awaits::Process(self.everyone.peers.peer(Rank(sweep.next().unwrap_or(self.everyone.place.0))))
            }
            Stage::Meeting(meeting) => Awaits::Process(meeting.awaits()),
        }
    }

    /// The same, with hints for the new communicator (section 7.4.4).
    #[must_use]
    pub fn with_hints(mut self, hints: Info) -> Construction {
        self.hints = hints;
        self
    }

    /// Goes on as far as possible without waiting. `None`: not done yet; otherwise the new communicator, or none for this
    /// process. Not to be called again after that.
    ///
    /// # Errors
    /// What went wrong on the way; the construction is over.
    pub fn poll(&mut self, process: &mut Process) -> Result<Option<Option<Handle>>> {
        let polled = self.advance(process);
        if polled.is_err() {
            process.contexts.abandon(&mut self.search);
        }
        polled
    }

    fn advance(&mut self, process: &mut Process) -> Result<Option<Option<Handle>>> {
        loop {
            let agreed = match &mut self.stage {
                Stage::Agreeing { request, room } => {
                    if !process.has_ended(*request) {
                        return Ok(None);
                    }
                    if let Some(error) = process.take_ended(*request).error {
                        return Err(error);
                    }
                    let mut bytes = [0; Proposal::BYTES];
                    room.send_view(0, 0, Proposal::BYTES as u64).pack(0, &mut bytes);
                    Proposal::from_bytes(&bytes)
                }
                Stage::Sweeping(_) => match self.sweep(process)? {
                    Some(agreed) => agreed,
                    None => return Ok(None),
                },
                Stage::Meeting(meeting) => match meeting.poll(&mut process.letters, &mut process.engine)? {
                    None => return Ok(None),
                    Some(None) => return Ok(Some(None)),
                    Some(Some(met)) => {
                        self.meet(met);
                        self.sweep_again(process)?;
                        continue;
                    }
                },
            };
            if let Some(settled) = self.settled.take() {
                let lane = if agreed.flags & context::LANE_OPEN != 0 { settled.lane } else { 0 };
                return self.finish(process, Settled { lane, ..settled }).map(Some);
            }
            match process.contexts.answer(&mut self.search, &agreed)? {
                None => self.sweep_again(process)?,
                Some((context, hint)) => {
                    let settled = Settled { context, hint, agreed, lane: agreed.lane(context) };
                    if self.is_lane_open(process, &settled) {
                        return self.finish(process, settled).map(Some);
                    }
                    self.open_lane(process, settled);
                }
            }
        }
    }

    /// Sends and takes letters; the agreement, once it is known.
    fn sweep(&mut self, process: &mut Process) -> Result<Option<Proposal>> {
        let Stage::Sweeping(sweep) = &mut self.stage else { unreachable!("called while sweeping") };
        loop {
            for (to, letter) in sweep.leaving() {
                Letters::send(&mut process.engine, self.everyone.peers.peer(Rank(to)), &self.key, &letter)?;
            }
            let Some(from) = sweep.next() else { break };
            let from = self.everyone.peers.peer(Rank(from));
            match process.letters.take(&mut process.engine, from, &self.key)? {
                Some(letter) => sweep.hear(&letter)?,
                None => return Ok(None),
            }
            // Should this one fail of a loss, its farewell is to end what others may make of it.
            process.life = process.life.max(sweep.age().0);
        }
        let outcome = sweep.outcome().expect("nothing more comes");
        if let Outcome::Part { first, second } = &self.result {
            let sides = outcome.members.map(|members| match second {
                None => (members.processes(first, &Group::EMPTY).0, None),
                Some(second) => {
                    let (first, second) = members.processes(first, second);
                    (first, Some(second))
                }
            });
            let me = process.engine.config().me;
            self.result = match sides {
                None => Outcome::Nothing,
                Some((members, None)) => Outcome::Intra(Arc::new(members)),
                // Colors of one side only get nothing (section 7.4.2).
                Some((first, Some(second))) if first.size() == 0 || second.size() == 0 => Outcome::Nothing,
                Some((first, Some(second))) => {
                    let is_first = first.rank_of(me).is_some();
                    let sides = Arc::new(Sides { first: Arc::new(first), second: Arc::new(second) });
                    Outcome::Inter(Inter { sides, is_first })
                }
            };
        }
        Ok(Some(outcome.agreed))
    }

    /// Begins another round of agreement, by letters.
    fn sweep_again(&mut self, process: &mut Process) -> Result<()> {
        process.reuse_retired();
        let proposal = process.contexts.propose(&mut self.search, self.flags);
        let proposal = Proposal { age: self.age, ..proposal };
        let Everyone { place, size, .. } = self.everyone;
        self.stage = Stage::Sweeping(Box::new(Sweep::agree(place.0, size, proposal)));
        Ok(())
    }

    /// Whether everybody who takes part has the lane of the new communicator, as all of them know.
    fn is_lane_open(&self, process: &Process, settled: &Settled) -> bool {
        if settled.lane == 0 {
            return true;
        }
        let mut everyone = (0..self.everyone.size).map(|rank| self.everyone.peers.peer(Rank(rank)));
        // Communicators of some of them may be on one node all the same, and need less.
        let wide = settled.agreed.flags & context::WIDE != 0 && !process.engine.are_here(&mut everyone);
        settled.agreed.is_open(settled.lane, wide)
    }

    /// Opens the lane of the new communicator, if this process is to be a member that needs it, and asks whether all could.
    fn open_lane(&mut self, process: &mut Process, settled: Settled) {
        let members: Vec<PeerId> = match &self.result {
            Outcome::Nothing => Vec::new(),
            Outcome::Intra(group) => group.peers().collect(),
            Outcome::Inter(Inter { sides, .. }) | Outcome::Merged(sides) => {
                sides.first.peers().chain(sides.second.peers()).collect()
            }
            Outcome::Part { .. } | Outcome::Meeting(_) => unreachable!("resolved before the agreement ends"),
        };
        let wide = !process.engine.are_here(members.iter().copied());
        let needed = !members.is_empty() && (!wide || settled.agreed.flags & context::WIDE != 0);
        let opened = if needed { process.open_lane(settled.lane, wide) } else { Ok(()) };
        if let Err(error) = &opened {
            process.tell_lane_shared(settled.lane, error);
        }
        let flags = context::WELL | if opened.is_ok() { context::LANE_OPEN } else { 0 };
        let age = self.age.max(settled.agreed.age);
        let proposal = Proposal { mask: Default::default(), flags, open: 0, age };
        let Everyone { place, size, .. } = self.everyone;
        self.stage = Stage::Sweeping(Box::new(Sweep::agree(place.0, size, proposal)));
        self.settled = Some(settled);
    }

    /// The groups of an intercommunicator know each other.
    fn meet(&mut self, met: meeting::Met) {
        let Outcome::Meeting(local) = &self.result else { unreachable!("only these meet") };
        let (local, remote) = (Arc::clone(local), Arc::new(met.remote));
        let (first, second) = if met.is_first { (local, remote) } else { (remote, local) };
        let inter = Inter { sides: Arc::new(Sides { first, second }), is_first: met.is_first };
        self.everyone = Everyone::of_sides(&inter, self.everyone.place);
        self.search = Search::anywhere(seed(&met.key));
        self.key = met.key;
        self.result = Outcome::Inter(inter);
    }

    fn finish(
        &mut self,
        process: &mut Process,
        Settled { context, hint, agreed, lane }: Settled,
    ) -> Result<Option<Handle>> {
        if self.remembers
            && let Ok(parent) = process.comms.get_mut(self.parent)
        {
            parent.context_hint = hint;
        }
        let me = PeerId(process.job.rank);
        let rank_in = |group: &Group| group.rank_of(me).expect("members only get this far");
        let made = match std::mem::replace(&mut self.result, Outcome::Nothing) {
            Outcome::Nothing => None,
            Outcome::Intra(group) => Some(Comm::new(context, rank_in(&group), group, self.errhandler)),
            Outcome::Inter(inter) => {
                Some(Comm::new_inter(context, rank_in(inter.local()), inter, self.errhandler))
            }
            Outcome::Merged(sides) => match merge(&sides, agreed.flags) {
                Ok(group) => Some(Comm::new(context, rank_in(&group), Arc::new(group), self.errhandler)),
                Err(error) => {
                    process.contexts.release(context);
                    return Err(error);
                }
            },
            Outcome::Part { .. } | Outcome::Meeting(_) => unreachable!("resolved before the agreement ends"),
        };
        let Some(mut comm) = made else {
            process.contexts.release(context);
            return Ok(None);
        };
        // Whether all members are on one node is the same at all of them, and so is whether all have lanes that reach other
        // nodes.
        let wide = !process.engine.are_here(comm.processes());
        comm.lane = if !wide || agreed.flags & context::WIDE != 0 { lane } else { 0 };
        comm.age = self.age.max(agreed.age);
        process.life = process.life.max(comm.age.0);
        let (lane, age, number) = (comm.lane, comm.age, comm.size);
        process.engine.open_channel(context, age, Arc::clone(&comm.group) as Arc<dyn PeerMap>, number);
        if lane != 0 {
            let group = Arc::clone(&comm.group) as Arc<dyn PeerMap>;
            process.lanes.at(lane).with(|inner| inner.engine.open_channel(context, age, group, number));
        }
        if comm.lane != 0 {
            comm.collectives = Count::shared();
        }
        comm.accept_hints(&self.hints)?;
        comm.topology = self.topology.take();
        let made = process.comms.insert(comm)?;
        for attribute in self.attributes.drain(..) {
            // A key that was freed with its last attribute while this was under way: nobody can ask for it any more.
            let _ = process.cache.put(Holder::Comm, made, [attribute]);
        }
        process.inherit_session(made, self.parent);
        Ok(Some(made))
    }
}

/// The union of both groups, the low one first; the first one where both ask for the same (section 7.6.2).
fn merge(sides: &Sides, flags: u64) -> Result<Group> {
    let says = |flag: u64| flags & flag != 0;
    for (high, low) in
        [(context::FIRST_HIGH, context::FIRST_LOW), (context::SECOND_HIGH, context::SECOND_LOW)]
    {
        if !says(high) && !says(low) {
            return Err(weft_types::Error::new(
                ErrorClass::ARG,
                "high differs between processes of one group; all members of a group must give the same (section 7.6.2)",
            ));
        }
    }
    let second_first = says(context::FIRST_HIGH) && says(context::SECOND_LOW);
    Ok(match second_first {
        true => sides.second.followed_by(&sides.first),
        false => sides.first.followed_by(&sides.second),
    })
}
