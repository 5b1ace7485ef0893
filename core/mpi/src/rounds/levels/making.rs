//! How the members of a communicator over several nodes come to cells on each of them.
//!
//! In its second call that could go by levels: the members of each node agree, by messages, on memory that the first of them took
//! from its node's pool, and join it; then all members agree, by messages, on whether every one has. One that has not is enough for all to stay
//! with messages, for good. What goes wrong on the way is not the call's error, and keeps nobody from the step that follows: the others may be
//! in it.
//!
//! Whether this is begun at all follows from what is the same at all members: the parameters, the nodes of the job, the communicator.

use super::super::{OnNode, least};
use super::{Inside, Levels, Seats};
use crate::comm::Comm;
use crate::process::Process;
use crate::request::COLLECTIVE;
use std::sync::Arc;
use weft_coll::{Call, Layout, Vector, plan_among};
use weft_datatype::Memory;
use weft_engine::{Arguments, RequestId, Rounds, ScheduleRun};
use weft_types::params::Choice;
use weft_types::{Handle, PeerId, Rank, Result};

/// Collectives by which members agree. Who took no part in one has counted it too, so that what comes next has one number everywhere.
const AGREEMENTS: u32 = 2;

/// Cells being made.
#[derive(Debug)]
pub struct Making {
    comm: Handle,
    /// The number of the first agreement.
    first: u32,
    layout: Layout,
    seats: Arc<Seats>,
    step: Step,
    /// What the others have said.
    heard: Memory,
    /// The memory that this member took for its node.
    taken: u64,
    rounds: Option<Box<Rounds>>,
}

/// The agreement under way.
#[derive(Clone, Copy, Debug)]
enum Step {
    OfNode(RequestId),
    OfAll(RequestId),
    Over,
}

impl Making {
    /// What it waits for; nothing when it is over.
    pub fn request(&self) -> Option<RequestId> {
        match self.step {
            Step::OfNode(request) | Step::OfAll(request) => Some(request),
            Step::Over => None,
        }
    }
}

impl Process {
    /// Whether the calls of a communicator may go by levels. The same at all members.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle.
    pub(in super::super) fn may_have_levels(&self, comm: Handle) -> Result<bool> {
        let of = self.comms.get(comm)?;
        if !matches!(of.node.way, OnNode::Apart | OnNode::Levels(_)) {
            return Ok(false);
        }
        let ruled = self.tuning.rules.name_algorithms(of.size)
            || of.hints.text(crate::collective::tuning::KEY).is_some();
        Ok(self.parameters.node_collectives != Choice::Off
            && !self.parameters.reproducible
            && !self.checks_collectives()
            && !ruled
            && !of.is_reproducible()
            && of.at_device.group().is_none())
    }

    /// Whether members of a communicator that are not all here share nodes. The same at all members: they are of one job, whose table of nodes
    /// all have.
    pub(in super::super) fn shares_nodes(&self, comm: Handle) -> Result<bool> {
        let of = self.comms.get(comm)?;
        // A process of another job is on a node that this one does not know.
        if of.inter.is_some() || of.group.peers().any(|peer| peer.0 >= self.job.size) {
            return Ok(false);
        }
        let groups = self.layout_of(comm)?.levels.first().map_or(0, |level| level.groups.groups(of.size));
        Ok((2..of.size).contains(&groups))
    }

    /// The nodes of a communicator's members.
    fn layout_of(&self, comm: Handle) -> Result<Layout> {
        let of = self.comms.get(comm)?;
        let peer = |rank| of.group.peer(Rank(rank));
        let layout =
            of.layout.get_or_init(|| Box::new(crate::collective::layout(&self.job.nodes, of.size, peer)));
        Ok(Layout::clone(layout))
    }

    /// Begins to make the cells of a communicator's nodes.
    ///
    /// # Errors
    /// As [`Process::start_collective`].
    pub fn begin_levels(&mut self, comm: Handle) -> Result<Making> {
        let layout = self.layout_of(comm)?;
        let of = self.comms.get(comm)?;
        let (seats, first) = (Arc::new(Seats::new(&layout, (of.rank, of.size), 0)), of.collectives.get());
        let mates = mates(of, &seats);
        let mut making = Making {
            comm,
            first,
            layout,
            seats,
            step: Step::Over,
            heard: Memory::none(),
            taken: 0,
            rounds: None,
        };
        let members = mates.len() as u32;
        if members == 1 {
            self.say_to_all(&mut making, true)?;
            return Ok(making);
        }
        let engine = &mut self.engine;
        let can =
            engine.can_join_rounds(members) && engine.are_here(mates.into_iter()) && engine.can_map_blocks();
        let is_first = making.seats.node.place == 0;
        let said = match is_first {
            _ if !can => 0,
            true => engine.take_block(members, false),
            false => u64::MAX,
        };
        if is_first {
            making.taken = said;
        }
        match self.say_to_node(&mut making, said) {
            Ok(()) => Ok(making),
            Err(error) => {
                self.give_back(&making);
                Err(error)
            }
        }
    }

    /// Goes on with what it waited for.
    pub fn go_on_with_levels(&mut self, making: &mut Making, ended_well: bool) {
        let said = if ended_well { word(&making.heard) } else { 0 };
        match making.step {
            Step::OfNode(_) => {
                if said != 0 {
                    self.join_cells(making, said);
                }
                // Of an agreement that failed here the others may know the result.
                if ended_well && said != making.taken {
                    self.give_back(making);
                }
                let joined = making.rounds.is_some();
                if self.say_to_all(making, joined).is_err() {
                    self.decide_on_levels(making, false);
                }
            }
            Step::OfAll(_) => self.decide_on_levels(making, said == 1),
            Step::Over => {}
        }
    }

    fn join_cells(&mut self, making: &mut Making, block: u64) {
        let Ok(of) = self.comms.get(making.comm) else { return };
        let mates = mates(of, &making.seats);
        if let Ok(mut rounds) = self.engine.join_rounds(block, making.seats.node.place, &mates) {
            rounds.cells().join_in(making.first.wrapping_add(AGREEMENTS));
            making.rounds = Some(Box::new(rounds));
        }
    }

    fn give_back(&mut self, making: &Making) {
        if making.taken != 0 {
            self.engine.give_block_back(making.taken);
        }
    }

    /// Says a word to the other members of the node, of which the least counts.
    fn say_to_node(&mut self, making: &mut Making, said: u64) -> Result<()> {
        let reduction = least()?;
        let (own, heard) =
            (Memory::scratch(&reduction.datatype, 1)?, Memory::scratch(&reduction.datatype, 1)?);
        own.recv_view(0, 0, 8).unpack(0, &said.to_ne_bytes());
        let schedule = plan_among(&ONE_WORD, &making.seats.node, &self.model_of(&making.layout, false));
        let of = self.comms.get(making.comm)?;
        let channel = of.channel(of.everyone(), making.first, false);
        let (owner, lane) = (of.handle.0 | COLLECTIVE, of.lane);
        let arguments = Arguments::new(own, heard.clone());
        let run = ScheduleRun::new(Arc::new(schedule), arguments, Some(reduction), channel)?;
        let request = self.start_run(run, owner, lane)?;
        (making.step, making.heard) = (Step::OfNode(request), heard);
        Ok(())
    }

    /// Says to all members whether this one is ready.
    fn say_to_all(&mut self, making: &mut Making, ready: bool) -> Result<()> {
        self.comms.get_mut(making.comm)?.collectives.set(making.first.wrapping_add(1));
        let reduction = least()?;
        let (own, heard) =
            (Memory::scratch(&reduction.datatype, 1)?, Memory::scratch(&reduction.datatype, 1)?);
        own.recv_view(0, 0, 8).unpack(0, &u64::from(ready).to_ne_bytes());
        let arguments = Arguments::new(own, heard.clone());
        let request = self.by_messages(making.comm, &ONE_WORD, arguments, Some(reduction))?;
        (making.step, making.heard) = (Step::OfAll(request), heard);
        Ok(())
    }

    /// The members know now.
    fn decide_on_levels(&mut self, making: &mut Making, all: bool) {
        making.step = Step::Over;
        let Ok(of) = self.comms.get_mut(making.comm) else { return };
        of.collectives.set(making.first.wrapping_add(AGREEMENTS));
        of.node.way = OnNode::Never;
        if !all {
            return;
        }
        let inside = match making.rounds.take() {
            Some(rounds) => Inside::Cells(rounds),
            None => Inside::Alone,
        };
        of.node.way = OnNode::Levels(Box::new(Levels {
            layout: std::mem::take(&mut making.layout),
            inside,
            seats: vec![Arc::clone(&making.seats)],
            oldest: 0,
            plans: Default::default(),
            partial: None,
        }));
    }
}

/// The members of this node.
fn mates(of: &Comm, seats: &Seats) -> Vec<PeerId> {
    let members = &seats.node.members;
    (0..members.len()).map(|place| of.group.peer(Rank(members.rank(place)))).collect()
}

/// What members say of one word.
const ONE_WORD: Call<'static> =
    Call::Allreduce { vector: Vector { count: 1, element: 8, commutative: true }, in_place: false };

/// The word of an agreement.
fn word(heard: &Memory) -> u64 {
    let mut bytes = [0; 8];
    heard.send_view(0, 0, 8).pack(0, &mut bytes);
    u64::from_ne_bytes(bytes)
}
