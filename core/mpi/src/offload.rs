//! Collectives that the fabric's device runs in groups of processes (`weft_api::offload`): how a communicator comes to its group.
//!
//! Late, as it comes to cells inside a node: the first call goes by messages; before the second the members find out together,
//! by messages, whether the devices of all of them offer the same, what the others must know of each, and whether all have
//! joined. One that cannot is enough for all to stay with messages, for good. Whatever goes wrong on the way is not the call's
//! error, and keeps nobody from the steps that follow: the others may be in them.
//!
//! Whether this is begun at all follows from what is the same at all members: the parameters, the fabric of the job, the
//! communicator. Afterwards its blocking and nonblocking barriers, broadcasts and reductions name the group, and the device
//! says of each whether it takes it; persistent ones, which may be started in any order, and reproducible reductions never do.

use crate::comm::Comm;
use crate::process::Process;
use crate::rounds::{Asked, least};
use weft_coll::{Call, Vector};
use weft_datatype::{Datatype, Memory};
use weft_engine::{Arguments, CARD, GroupId, Joining, Reduction, RequestId};
use weft_types::params::Choice;
use weft_types::{Handle, PeerId, Rank, Result, abi};

/// Calls that go by messages before the members look for a group: many communicators live for one.
const FIRST_CALLS: u32 = 1;
/// Bytes that each member shows of itself: a length, and as much of a card.
const SHOWN: usize = 1 + CARD;

/// What a communicator knows of its group.
#[derive(Debug)]
pub enum AtDevice {
    /// Not decided: calls so far.
    Undecided(u32),
    /// Its collectives are the engine's, for good.
    Never,
    /// All members have joined.
    Joined(GroupId),
}

impl Default for AtDevice {
    fn default() -> AtDevice {
        AtDevice::Undecided(0)
    }
}

impl AtDevice {
    /// The group, if all have joined.
    pub fn group(&self) -> Option<GroupId> {
        match self {
            AtDevice::Joined(group) => Some(*group),
            AtDevice::Undecided(_) | AtDevice::Never => None,
        }
    }
}

/// A group being made.
#[derive(Debug)]
pub struct Join {
    comm: Handle,
    step: Step,
    group: Option<GroupId>,
    /// What the others have said.
    heard: Memory,
    /// Why there will be none, as far as this member knows.
    why: Option<String>,
    /// The number of the first of the agreements.
    first: u32,
}

/// Collectives by which members agree. Who could not even begin one has counted it too, so that what comes next has one number
/// everywhere.
const AGREEMENTS: u32 = 3;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// All say what they offer.
    Offers(RequestId),
    /// All show their cards.
    Cards(RequestId),
    /// The device joins them.
    Joining,
    /// All say whether they have joined.
    Joined(RequestId),
    Over,
}

/// What the making of a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// The end of a request.
    Request(RequestId),
    /// [`Process::has_group_joined`].
    Others,
    /// It is over.
    Nothing,
}

impl Join {
    /// What it waits for.
    pub fn awaits(&self) -> Awaits {
        match self.step {
            Step::Offers(request) | Step::Cards(request) | Step::Joined(request) => Awaits::Request(request),
            Step::Joining => Awaits::Others,
            Step::Over => Awaits::Nothing,
        }
    }
}

impl Process {
    /// Whether the members of a communicator look for a group before this blocking call; the same at all of them.
    pub(crate) fn wants_group(&mut self, comm: Handle, call: &Call<'_>) -> Result<bool> {
        if self.parameters.offload == Choice::Off || !self.engine.may_offer_groups() {
            return Ok(false);
        }
        let handed =
            matches!(call, Call::Barrier | Call::Bcast { .. } | Call::Reduce { .. } | Call::Allreduce { .. });
        // Not by the own device: members with different ones would not do the same.
        let on = self.parameters.offload == Choice::On;
        if !(handed && on) || self.parameters.reproducible {
            return Ok(false);
        }
        let of = self.comms.get_mut(comm)?;
        let AtDevice::Undecided(calls) = &mut of.at_device else { return Ok(false) };
        if of.inter.is_some()
            || of.size < 2
            || of.lane != 0
            || of.hints.text(crate::comm::REPRODUCIBLE) == Some("true")
        {
            return Ok(false);
        }
        if *calls < FIRST_CALLS {
            *calls += 1;
            return Ok(false);
        }
        if self.engine.are_here(of.group.peers()) {
            // Inside a node they go by shared memory.
            of.at_device = AtDevice::Never;
            return Ok(false);
        }
        Ok(true)
    }

    /// Begins to make a communicator's group: all say what their devices offer.
    ///
    /// # Errors
    /// As [`Process::start_collective`].
    pub fn begin_group(&mut self, comm: Handle) -> Result<Join> {
        let (size, first) = (self.comms.get(comm)?.size, self.comms.get(comm)?.collectives.get());
        let offer = self.engine.offers_groups(size);
        let why = offer.is_none().then(|| "the device of this process offers none".to_owned());
        // Where the least of the numbers and the least of their complements belong together, all are the same.
        let words = offer.map_or([0; 2], |digest| [digest, !digest]);
        let mut join = Join { comm, step: Step::Over, group: None, heard: Memory::none(), why, first };
        match self.say_least(comm, words) {
            Ok((request, heard)) => (join.step, join.heard) = (Step::Offers(request), heard),
            Err(error) => {
                join.why = Some(error.text().to_owned());
                self.decide(&mut join, false);
            }
        }
        Ok(join)
    }

    /// Goes on with what it waited for. What goes wrong here is no error of the call: the members stay with messages.
    pub fn go_on_with_group(&mut self, join: &mut Join, ended_well: bool) {
        if let Err(error) = self.next_step_to_group(join, ended_well) {
            join.why = Some(error.text().to_owned());
            self.decide(join, false);
        }
    }

    /// Every member takes every step, whatever it knows by then: who failed in one agreement cannot know whether the others
    /// did, and who left out the next one would leave them waiting in it. A step that fails ends at all that take it, as every
    /// collective does.
    fn next_step_to_group(&mut self, join: &mut Join, ended_well: bool) -> Result<()> {
        if !ended_well {
            join.why.get_or_insert_with(|| "the agreement with the other members has failed".into());
        }
        match join.step {
            Step::Offers(_) => {
                let [least, complement] = words(&join.heard);
                if least == 0 || least != !complement {
                    join.why.get_or_insert_with(|| {
                        "the other members' devices offer none, or another kind".into()
                    });
                }
                self.show_card(join)
            }
            Step::Cards(_) => {
                if join.why.is_none() {
                    match self.join_by_cards(join) {
                        Ok(true) => {}
                        Ok(false) => join.why = Some("a member's device could not open it".into()),
                        Err(error) => join.why = Some(error.text().to_owned()),
                    }
                }
                join.step = Step::Joining;
                Ok(())
            }
            Step::Joining => {
                if let Some(group) = join.group
                    && join.why.is_none()
                    && let Joining::Failed(why) = self.engine.joined_group(group)
                {
                    join.why = Some(why);
                }
                let here = u64::from(join.why.is_none());
                let (request, heard) = self.say_least(join.comm, [here; 2])?;
                (join.step, join.heard) = (Step::Joined(request), heard);
                Ok(())
            }
            Step::Joined(_) => {
                if join.why.is_none() && words(&join.heard)[0] != 1 {
                    join.why = Some("another member could not join".into());
                }
                let joined = join.why.is_none();
                self.decide(join, joined);
                Ok(())
            }
            Step::Over => Ok(()),
        }
    }

    /// Whether all have joined, or this member knows that they will not.
    pub fn has_group_joined(&mut self, join: &Join) -> bool {
        match join.group {
            Some(group) if join.why.is_none() => self.engine.joined_group(group) != Joining::Waiting,
            _ => true,
        }
    }

    /// Opens this member's end, and shows the others how it is found; nothing where it cannot or shall not be opened.
    fn show_card(&mut self, join: &mut Join) -> Result<()> {
        let size = self.comms.get(join.comm)?.size;
        let mut shown = [0; SHOWN];
        if join.why.is_none() {
            match self.engine.open_group(size) {
                Ok((group, card)) => {
                    join.group = Some(group);
                    shown[0] = card.len() as u8;
                    shown[1..=card.len()].copy_from_slice(&card);
                }
                Err(error) => join.why = Some(error.text().to_owned()),
            }
        }
        let byte = Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("predefined"));
        let said = Memory::scratch(&byte, SHOWN as u64)?;
        said.recv_view(0, 0, SHOWN as u64).unpack(0, &shown);
        let heard = Memory::scratch(&byte, SHOWN as u64 * u64::from(size))?;
        let call = Call::Allgather { bytes: SHOWN as u64, in_place: false };
        let request = self.by_messages(join.comm, &call, Arguments::new(said, heard.clone()), None)?;
        (join.step, join.heard) = (Step::Cards(request), heard);
        Ok(())
    }

    /// Joins the others; `false` where one of them has no card, which all of them see.
    fn join_by_cards(&mut self, join: &Join) -> Result<bool> {
        let of = self.comms.get(join.comm)?;
        let mut all = vec![0; SHOWN * of.size as usize];
        join.heard.send_view(0, 0, all.len() as u64).pack(0, &mut all);
        // An empty one is found below.
        let card = |shown: &'_ [u8]| shown[0] as usize;
        let cards: Vec<&[u8]> = all.chunks(SHOWN).map(|shown| &shown[1..=card(shown).min(CARD)]).collect();
        let (Some(group), true) = (join.group, cards.iter().all(|card| !card.is_empty())) else {
            return Ok(false);
        };
        let members: Vec<PeerId> = (0..of.size).map(|rank| of.group.peer(Rank(rank))).collect();
        let name = of.context.0;
        self.engine.join_group(group, name, &members, &cards)?;
        Ok(true)
    }

    /// The members know now.
    fn decide(&mut self, join: &mut Join, joined: bool) {
        join.step = Step::Over;
        let verbose = self.parameters.verbose;
        let Ok(of) = self.comms.get_mut(join.comm) else { return };
        of.collectives
            .set(join.first.wrapping_add(of.collectives.get().wrapping_sub(join.first).max(AGREEMENTS)));
        of.at_device = match join.group {
            Some(group) if joined => AtDevice::Joined(group),
            _ => AtDevice::Never,
        };
        if verbose > u32::from(of.rank.0 != 0) {
            eprintln!("weft: {}", told(of, join.why.as_deref()));
        }
        if let (Some(group), false) = (join.group.take(), joined) {
            self.engine.leave_group(group);
        }
    }

    /// Starts the least of two words of each member.
    fn say_least(&mut self, comm: Handle, words: [u64; 2]) -> Result<(RequestId, Memory)> {
        let reduction = least()?;
        let (said, heard) =
            (Memory::scratch(&reduction.datatype, 2)?, Memory::scratch(&reduction.datatype, 2)?);
        said.recv_view(0, 0, 16).unpack(0, words.map(u64::to_ne_bytes).as_flattened());
        let call =
            Call::Allreduce { vector: Vector { count: 2, element: 8, commutative: true }, in_place: false };
        let request = self.by_messages(comm, &call, Arguments::new(said, heard.clone()), Some(reduction))?;
        Ok((request, heard))
    }

    /// Starts a collective that goes by messages, come what may.
    pub(crate) fn by_messages(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        self.asked = Asked::Messages;
        let request = self.start_collective(comm, call, arguments, reduction);
        self.asked = Asked::No;
        request
    }
}

/// The two words of an agreement.
fn words(heard: &Memory) -> [u64; 2] {
    let mut bytes = [[0; 8]; 2];
    heard.send_view(0, 0, 16).pack(0, bytes.as_flattened_mut());
    bytes.map(u64::from_ne_bytes)
}

/// What became of it, for people.
fn told(of: &Comm, why: Option<&str>) -> String {
    match of.at_device {
        AtDevice::Joined(_) => format!(
            "{}: its {} members have joined a group of the fabric's provider, which runs its barriers, broadcasts and reductions",
            of.display_name(),
            of.size
        ),
        _ => format!(
            "{}: its collectives stay with the engine, no group of the fabric's provider was made: {}",
            of.display_name(),
            why.unwrap_or("not all members have joined")
        ),
    }
}
