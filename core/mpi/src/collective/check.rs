//! Collective calls that do not fit together are found and named instead of hanging (`WEFT_CHECK=collectives`).
//!
//! Before a checked collective does anything, every member tells all others what it calls: the procedure, the root, the
//! operation, and type signature and amount of its data, where these are the same at all members. Where every pair of members
//! has an amount of its own (the `v` and `w` forms, neighbourhoods, intercommunicators), each tells the other what it gives,
//! and what one of them finds is told to all. All members then fail with the same error, or all go on: the steps are runs under
//! one request ([`weft_engine::Then`]), with numbers taken when the call is made, so that the communicator stays usable after
//! an error. Procedures that make communicators and windows say their name only, as a barrier does ([`Process::start_check`]).

mod compare;
mod said;

use super::{Numbers, Work};
use crate::comm::Comm;
use crate::process::Process;
use crate::request::COLLECTIVE;
use crate::topology::neighborhood::Blocks;
use crate::topology::steps::{bytes_of, memory_of};
use compare::{Verdict, compare_pairs, compare_records, judge};
use said::{Amount, Members, Pairs, Record};
use std::sync::Arc;
use weft_coll::{Call, InterCall, Model, Schedule};
use weft_datatype::Memory;
use weft_engine::{Arguments, Reduction, RequestId, ScheduleRun, Then};
use weft_types::{Handle, Result};

/// Where a call is made, for error texts.
#[derive(Clone, Debug)]
struct Place {
    comm: String,
    /// Members of the first group, when there are two, and whether the own group is it.
    first: Option<(u32, bool)>,
}

impl Place {
    /// A member by its number on the collective channel.
    fn member(&self, number: u32) -> String {
        match self.first {
            None => format!("rank {number}"),
            Some((first, is_first)) => {
                let (rank, in_first) = if number < first { (number, true) } else { (number - first, false) };
                format!("rank {rank} of the {} group", if in_first == is_first { "local" } else { "remote" })
            }
        }
    }
}

impl Process {
    /// Whether collective calls of the program are checked.
    #[inline]
    pub fn checks_collectives(&self) -> bool {
        self.parameters.check == weft_types::params::Check::Collectives
    }

    /// As [`Process::start_work`], after all members have found that their calls of `procedure` fit together.
    ///
    /// # Errors
    /// As [`Process::start_work`]. What does not fit is the request's error.
    pub fn start_checked(
        &mut self,
        procedure: &'static str,
        comm: Handle,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        let planning = self.planning();
        let comm = self.comms.get_mut(comm)?;
        let first = comm.collectives.get();
        let said = comm.say(procedure, work, &arguments, reduction.as_ref())?;
        comm.collectives.set(first.wrapping_add(STEPS));
        let real = comm.bind(work, &planning, arguments, reduction, Numbers::Once)?;
        let check = comm.check(first, work, said, Some(real), &planning.model)?;
        let (owner, lane) = (comm.handle.0 | COLLECTIVE, comm.lane);
        self.start_run(check, owner, lane)
    }

    /// The check alone, for a persistent collective, a communicator or a window that is about to be made. Its procedure may wait
    /// for the others (section 6.13).
    ///
    /// # Errors
    /// As [`Process::start_checked`].
    pub fn start_check(
        &mut self,
        procedure: &'static str,
        comm: Handle,
        work: &Work<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<RequestId> {
        let planning = self.planning();
        let comm = self.comms.get_mut(comm)?;
        let first = comm.collectives.get();
        let said = comm.say(procedure, work, arguments, reduction)?;
        let check = comm.check(first, work, said, None, &planning.model)?;
        comm.collectives.set(first.wrapping_add(STEPS + 1));
        let (owner, lane) = (comm.handle.0 | COLLECTIVE, comm.lane);
        self.start_run(check, owner, lane)
    }
}

/// Numbers of a check: of the records, the pairs and the verdicts. One more is the checked collective's own.
const STEPS: u32 = 3;

/// Memory of the library, and how much of it.
#[derive(Clone, Debug)]
struct Room {
    memory: Memory,
    length: usize,
}

impl Room {
    fn new(length: usize) -> Room {
        Room { memory: Memory::packed_scratch(length), length }
    }

    fn bytes(&self) -> Vec<u8> {
        bytes_of(&self.memory, self.length)
    }
}

/// What a member says.
struct Said {
    procedure: &'static str,
    record: Record,
    pairs: Option<Pairs>,
}

impl Comm {
    fn say(
        &self,
        procedure: &'static str,
        work: &Work<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<Said> {
        let members = match work {
            Work::Neighborhood(..) => {
                let (sources, destinations) = self.any_topology()?.degrees(self.rank.0 as i32)?;
                Members { sources, destinations, own: self.rank.0 }
            }
            _ => Members { sources: self.size, destinations: self.size, own: self.rank.0 },
        };
        let record = Record::of(procedure, work, arguments, reduction, &members);
        Ok(Said { procedure, record, pairs: Pairs::of(work, arguments, reduction, &members) })
    }

    /// The runs of a check, and what follows.
    fn check(
        &self,
        first: u32,
        work: &Work<'_>,
        Said { procedure, record, pairs }: Said,
        real: Option<ScheduleRun>,
        model: &Model,
    ) -> Result<ScheduleRun> {
        let everyone = self.everyone();
        let place = Place {
            comm: self.display_name(),
            first: self.inter.as_ref().map(|inter| (inter.sides.first.size(), inter.is_first)),
        };
        let group = weft_coll::Group { rank: everyone.place.0, size: everyone.size };
        let step = |schedule: Schedule, send: Memory, recv: &Room, sequence: u32| {
            let channel = self.channel(everyone.clone(), first.wrapping_add(sequence), false);
            ScheduleRun::new(Arc::new(schedule), Arguments::new(send, recv.memory.clone()), None, channel)
        };
        let allgather = |own: Memory, length: usize, sequence: u32| {
            let all = Room::new(length * everyone.size as usize);
            let call = Call::Allgather { bytes: length as u64, in_place: false };
            Ok((step(weft_coll::plan(&call, group, model), own, &all, sequence)?, all))
        };
        let pairs = match pairs {
            None => None,
            Some(pairs) => {
                let own = Room::new(Verdict::BYTES);
                let (run, verdicts) = allgather(own.memory.clone(), Verdict::BYTES, 2)?;
                let members = self.members_of_pairs(work)?;
                let came = Room::new(Amount::BYTES * members.len());
                let schedule = self.plan_pairs(work, model)?;
                let exchange = step(schedule, memory_of(&pairs.given()), &came, 1)?;
                let number = everyone.place.0;
                let place = place.clone();
                Some((
                    exchange,
                    AfterPairs { procedure, pairs, members, number, came, own, verdicts, run, place },
                ))
            }
        };
        let (run, all) = allgather(memory_of(&record.bytes()), Record::BYTES, 0)?;
        Ok(run.then(Box::new(AfterRecords { all, place, pairs, real })))
    }

    /// The exchange of one amount between each pair that a call has an amount for.
    fn plan_pairs(&self, work: &Work<'_>, model: &Model) -> Result<Schedule> {
        let bytes = Amount::BYTES as u64;
        Ok(match work {
            Work::Collective(_) => {
                let group = weft_coll::Group { rank: self.rank.0, size: self.size };
                weft_coll::plan(&Call::Alltoall { bytes, in_place: false }, group, model)
            }
            Work::Inter(_) => {
                let call = InterCall::Alltoall { sent: bytes, received: bytes };
                weft_coll::plan_inter(&call, self.sides()?, model)
            }
            Work::Neighborhood(..) => {
                self.plan_neighborhood(&Blocks::Even(bytes), &Blocks::Even(bytes), model, &[])?
            }
        })
    }

    /// The number on the collective channel of the member that each incoming amount is of; `None` beyond a border.
    fn members_of_pairs(&self, work: &Work<'_>) -> Result<Vec<Option<u32>>> {
        Ok(match work {
            Work::Collective(_) => (0..self.size).map(Some).collect(),
            Work::Inter(_) => {
                let inter = self.inter()?;
                let base = if inter.is_first { inter.sides.first.size() } else { 0 };
                (0..self.size).map(|rank| Some(base + rank)).collect()
            }
            Work::Neighborhood(..) => {
                let ends = self.any_topology()?.ends(self.rank.0 as i32)?;
                ends.sources.iter().map(|end| end.map(|(rank, _)| rank)).collect()
            }
        })
    }
}

/// Everybody's record has come.
#[derive(Debug)]
struct AfterRecords {
    all: Room,
    place: Place,
    pairs: Option<(ScheduleRun, AfterPairs)>,
    real: Option<ScheduleRun>,
}

impl Then for AfterRecords {
    fn next(self: Box<Self>) -> Result<Option<ScheduleRun>> {
        let AfterRecords { all, place, pairs, real } = *self;
        compare_records(&Record::parse_all(&all.bytes()), &place)?;
        Ok(match pairs {
            Some((exchange, after)) => {
                Some(exchange.then(Box::new(BeforeVerdicts { after: Box::new(after), real })))
            }
            None => real,
        })
    }
}

/// What a member needs when its pairs' amounts have come.
#[derive(Debug)]
struct AfterPairs {
    procedure: &'static str,
    pairs: Pairs,
    members: Vec<Option<u32>>,
    number: u32,
    came: Room,
    own: Room,
    verdicts: Room,
    run: ScheduleRun,
    place: Place,
}

/// The amounts of all pairs have come.
#[derive(Debug)]
struct BeforeVerdicts {
    after: Box<AfterPairs>,
    real: Option<ScheduleRun>,
}

impl Then for BeforeVerdicts {
    fn next(self: Box<Self>) -> Result<Option<ScheduleRun>> {
        let AfterPairs { procedure, pairs, members, number, came, own, verdicts, run, place } = *self.after;
        let verdict = compare_pairs(&pairs, &members, number, &Amount::parse_all(&came.bytes()));
        own.memory.recv_view(0, 0, Verdict::BYTES as u64).unpack(0, &verdict.bytes());
        Ok(Some(run.then(Box::new(AfterVerdicts { verdicts, place, procedure, real: self.real }))))
    }
}

/// Everybody's verdict has come.
#[derive(Debug)]
struct AfterVerdicts {
    verdicts: Room,
    place: Place,
    procedure: &'static str,
    real: Option<ScheduleRun>,
}

impl Then for AfterVerdicts {
    fn next(self: Box<Self>) -> Result<Option<ScheduleRun>> {
        judge(&Verdict::parse_all(&self.verdicts.bytes()), self.procedure, &self.place)?;
        Ok(self.real)
    }
}
