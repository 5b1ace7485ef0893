//! Beginnings: arguments are checked, and the first message leaves.

use super::meeting::{self, Meeting, Met};
use super::sweep::Sweep;
use super::table::Entry;
use super::{Construction, Kind, Outcome, Stage, key, seed};
use crate::attributes::Attribute;
use crate::comm::{Comm, Everyone};
use crate::context::{self, Proposal, Search};
use crate::group::Group;
use crate::info::Info;
use crate::letters::Key;
use crate::process::Process;
use std::sync::Arc;
use weft_types::{Age, Error, ErrorClass, Handle, PeerId, Rank, Result, abi};

/// Channel and number of the next collective call on a communicator.
fn name_of_call(comm: &Comm) -> [u8; 8] {
    let [a, b, c, d] = comm.context.0.to_le_bytes();
    let [e, f, g, h] = comm.collectives.get().to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

fn check_tag(tag: i32) -> Result<()> {
    match tag {
        0.. => Ok(()),
        _ => {
            Err(Error::new(ErrorClass::TAG, format!("tag is {tag}; tags are 0 to {} (MPI_TAG_UB)", i32::MAX)))
        }
    }
}

impl Process {
    /// Begins `MPI_Comm_dup`. `attributes` are those the copy functions gave.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle; exhausted resources.
    pub fn duplicate(&mut self, parent: Handle, attributes: Vec<Attribute>) -> Result<Construction> {
        self.begin_duplicate(parent, attributes, true, context::WELL)
    }

    /// Begins `MPI_Comm_idup`. The parent may be freed, and other collectives started on it, before it ends.
    ///
    /// # Errors
    /// As [`Process::duplicate`].
    pub fn duplicate_nonblocking(
        &mut self,
        parent: Handle,
        attributes: Vec<Attribute>,
    ) -> Result<Construction> {
        self.begin_duplicate(parent, attributes, false, context::WELL)
    }

    /// Takes part in a duplication that must fail, because a copy function failed here (section 7.7.2): the others learn of it
    /// instead of waiting for ever. `blocking` as all members call it.
    ///
    /// # Errors
    /// As [`Process::duplicate`].
    pub fn duplicate_in_vain(&mut self, parent: Handle, blocking: bool) -> Result<Construction> {
        self.begin_duplicate(parent, Vec::new(), blocking, 0)
    }

    fn begin_duplicate(
        &mut self,
        parent: Handle,
        attributes: Vec<Attribute>,
        blocking: bool,
        well: u64,
    ) -> Result<Construction> {
        let comm = self.comms.get(parent)?;
        let result = match &comm.inter {
            None => Outcome::Intra(Arc::clone(&comm.group)),
            Some(inter) => Outcome::Inter((**inter).clone()),
        };
        let topology = comm.topology.clone();
        let flags = self.flags() & (!context::WELL | well);
        let begun = self.begin_over_parent(parent, result, blocking, flags)?;
        Ok(Construction { attributes, topology, ..begun })
    }

    /// Begins `MPI_Comm_split`; `color` is `None` for `MPI_UNDEFINED`. On an intercommunicator both sides' equal colors make an
    /// intercommunicator.
    ///
    /// # Errors
    /// As [`Process::duplicate`].
    pub fn split(&mut self, parent: Handle, color: Option<i32>, key: i32) -> Result<Construction> {
        let flags = self.flags();
        self.reuse_retired();
        let comm = self.comms.get_mut(parent)?;
        let name = super::key(Kind::Parent, &name_of_call(comm));
        comm.collectives.advance();
        let everyone = comm.everyone();
        let (first, second) = match &comm.inter {
            None => (Arc::clone(&comm.group), None),
            Some(inter) => (Arc::clone(&inter.sides.first), Some(Arc::clone(&inter.sides.second))),
        };
        let own = Entry { color: color.unwrap_or(Entry::NO_COLOR), key };
        let age = comm.age;
        let mut search = Search::after(comm.context_hint, seed(&name));
        let proposal = Proposal { age, ..self.contexts.propose(&mut search, flags) };
        let sweep = Sweep::split(everyone.place.0, everyone.size, first.size(), own, proposal);
        Ok(Construction {
            parent,
            remembers: true,
            errhandler: comm.errhandler,
            everyone,
            key: name,
            stage: Stage::Sweeping(Box::new(sweep)),
            result: Outcome::Part { first, second },
            search,
            flags,
            settled: None,
            age,
            attributes: Vec::new(),
            hints: Info::default(),
            topology: None,
        })
    }

    /// Begins `MPI_Comm_create`: `group` is a part of the parent's local group.
    ///
    /// # Errors
    /// As [`Process::duplicate`]; `MPI_ERR_GROUP` when the group is no part.
    pub fn create(&mut self, parent: Handle, group: &Arc<Group>) -> Result<Construction> {
        self.check_part(parent, group)?;
        let rank = group.rank_of(PeerId(self.job.rank));
        if self.comms.get(parent)?.inter.is_some() {
            // Who is in the other side's group is known there only.
            return self.split(parent, rank.map(|_| 0), rank.map_or(0, |rank| rank.0 as i32));
        }
        let result = rank.map_or(Outcome::Nothing, |_| Outcome::Intra(Arc::clone(group)));
        let flags = self.flags();
        self.begin_over_parent(parent, result, true, flags)
    }

    /// Begins `MPI_Intercomm_merge`.
    ///
    /// # Errors
    /// As [`Process::duplicate`]; `MPI_ERR_COMM` for an intracommunicator.
    pub fn merge(&mut self, parent: Handle, high: bool) -> Result<Construction> {
        let inter = self.comms.get(parent)?.inter()?;
        let sides = Arc::clone(&inter.sides);
        let (first, second) =
            (context::FIRST_HIGH | context::FIRST_LOW, context::SECOND_HIGH | context::SECOND_LOW);
        // A process says nothing about the other group.
        let silent = if inter.is_first { first } else { second };
        let said = if high {
            context::FIRST_HIGH | context::SECOND_HIGH
        } else {
            context::FIRST_LOW | context::SECOND_LOW
        };
        let flags = self.flags() | ((first | second) & (!silent | said));
        self.begin_over_parent(parent, Outcome::Merged(sides), true, flags)
    }

    /// Begins `MPI_Comm_create_group`; only members of `group` call it. `None` when this process is no member.
    ///
    /// # Errors
    /// As [`Process::create`]; `MPI_ERR_TAG` for a negative tag, `MPI_ERR_COMM` for an intercommunicator.
    pub fn create_group(
        &mut self,
        parent: Handle,
        group: &Arc<Group>,
        tag: i32,
    ) -> Result<Option<Construction>> {
        self.comms.get(parent)?.check_intra("MPI_Comm_create_group")?;
        check_tag(tag)?;
        self.check_part(parent, group)?;
        let comm = self.comms.get(parent)?;
        let name = key(Kind::Tag, &[comm.context.0.to_le_bytes(), tag.to_le_bytes()].concat());
        let errhandler = comm.errhandler;
        Ok(self.begin_by_letters(group, name, parent, errhandler))
    }

    /// Begins `MPI_Comm_create_from_group`: no parent. `None` when this process is no member.
    pub fn create_from_group(
        &mut self,
        group: &Arc<Group>,
        stringtag: &[u8],
        errhandler: Handle,
    ) -> Option<Construction> {
        self.begin_by_letters(group, key(Kind::StringTag, stringtag), Handle(abi::MPI_COMM_NULL), errhandler)
    }

    /// Begins `MPI_Intercomm_create`. `peer` is significant at the leader only: the peer communicator and the other leader's rank
    /// in it.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG` for wrong arguments. What only the leader can find wrong its group learns
    /// from it.
    pub fn meet(
        &mut self,
        local: Handle,
        leader: i32,
        peer: (Handle, i32),
        tag: i32,
    ) -> Result<Construction> {
        let comm = self.comms.get(local)?;
        comm.check_intra("the local side of MPI_Intercomm_create")?;
        check_tag(tag)?;
        let leader = check_leader("local_leader", leader, &comm.group)?;
        let (group, place, errhandler) = (Arc::clone(&comm.group), comm.rank, comm.errhandler);
        let name = name_of_call(comm);
        let (told_by, name) = (key(Kind::Told, &name), key(Kind::Parent, &name));
        let comm = self.comms.get_mut(local)?;
        comm.collectives.advance();
        let meeting = if place != leader {
            Meeting::member(Arc::clone(&group), place, leader, told_by)
        } else {
            match self.other_leader(peer, tag) {
                Ok((other, by)) => {
                    let number = self.letters.number();
                    let greeting = (other, by, number);
                    Meeting::greet(&mut self.engine, Arc::clone(&group), leader, told_by, greeting)?
                }
                Err(error) => Meeting::knowing(Arc::clone(&group), leader, told_by, Err(error)),
            }
        };
        Ok(self.begin_meeting(local, errhandler, (group, place), name, meeting))
    }

    /// The process of the other leader, and what greetings between the two are named by.
    fn other_leader(&self, (comm, rank): (Handle, i32), tag: i32) -> Result<(PeerId, Key)> {
        let comm = self
            .comms
            .get(comm)
            .map_err(|error| Error::new(error.class(), format!("peer_comm: {}", error.text())))?;
        let wrong = |reason: String| Error::new(ErrorClass::RANK, format!("remote_leader is {rank}{reason}"));
        let Ok(Some(other)) = comm.destination(rank) else {
            let limit = comm.size - 1;
            return Err(wrong(format!("; peer_comm, {}, has the ranks 0 to {limit}", comm.display_name())));
        };
        if other == PeerId(self.job.rank) {
            return Err(wrong(", which is this process itself; it must lead the other group".to_owned()));
        }
        Ok((other, key(Kind::Greeting, &[comm.context.0.to_le_bytes(), tag.to_le_bytes()].concat())))
    }

    /// Begins `MPI_Intercomm_create_from_groups`. `remote` is significant at the leader only: the other group and its leader's
    /// rank there. `None` when there is to be no communicator.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP` when this process is not in `group`, `MPI_ERR_RANK` for wrong leaders. What only the leader can find wrong
    /// its group learns from it.
    pub fn meet_from_groups(
        &mut self,
        group: &Arc<Group>,
        leader: i32,
        remote: impl FnOnce(&Process) -> Result<(Arc<Group>, i32)>,
        stringtag: &[u8],
        errhandler: Handle,
    ) -> Result<Option<Construction>> {
        if group.size() == 0 {
            return Ok(None);
        }
        let Some(place) = group.rank_of(PeerId(self.job.rank)) else {
            return Err(Error::new(ErrorClass::GROUP, "this process is not in local_group"));
        };
        let leader = check_leader("local_leader", leader, group)?;
        let told_by = key(Kind::ToldStringTag, stringtag);
        let name = key(Kind::StringTag, stringtag);
        let meeting = if place == leader {
            let what = remote(self).and_then(|(remote, other)| {
                if remote.size() == 0 {
                    return Ok(None);
                }
                let other = remote.peer(check_leader("remote_leader", other, &remote)?);
                meeting::check_disjoint(group, &remote)?;
                let is_first = group.peer(leader) < other;
                Ok(Some(Met { remote: (*remote).clone(), is_first, key: Arc::clone(&name) }))
            });
            Meeting::knowing(Arc::clone(group), leader, told_by, what)
        } else {
            Meeting::member(Arc::clone(group), place, leader, told_by)
        };
        let nobody = Handle(abi::MPI_COMM_NULL);
        let members = (Arc::clone(group), place);
        Ok(Some(self.begin_meeting(nobody, errhandler, members, name, meeting)))
    }

    fn begin_meeting(
        &self,
        parent: Handle,
        errhandler: Handle,
        (group, place): (Arc<Group>, Rank),
        name: Key,
        meeting: Meeting,
    ) -> Construction {
        Construction {
            parent,
            remembers: false,
            errhandler,
            everyone: Everyone::of_group(&group, place),
            search: Search::anywhere(seed(&name)),
            key: name,
            stage: Stage::Meeting(Box::new(meeting)),
            result: Outcome::Meeting(group),
            flags: self.flags(),
            settled: None,
            age: self.age_below(parent),
            attributes: Vec::new(),
            hints: Info::default(),
            topology: None,
        }
    }

    fn begin_over_parent(
        &mut self,
        parent: Handle,
        result: Outcome,
        blocking: bool,
        flags: u64,
    ) -> Result<Construction> {
        let comm = self.comms.get(parent)?;
        let (everyone, errhandler, age) = (comm.everyone(), comm.errhandler, comm.age);
        let name = key(Kind::Parent, &name_of_call(comm));
        let mut search = match blocking {
            true => Search::after(comm.context_hint, seed(&name)),
            false => Search::anywhere(seed(&name)),
        };
        let stage = self.agree(parent, &mut search, flags)?;
        Ok(Construction {
            parent,
            remembers: blocking,
            errhandler,
            everyone,
            key: name,
            stage,
            result,
            search,
            flags,
            settled: None,
            age,
            attributes: Vec::new(),
            hints: Info::default(),
            topology: None,
        })
    }

    /// For the members of a group that have no channel of their own. `None` when this process is no member.
    fn begin_by_letters(
        &mut self,
        group: &Arc<Group>,
        name: Key,
        parent: Handle,
        errhandler: Handle,
    ) -> Option<Construction> {
        let place = group.rank_of(PeerId(self.job.rank))?;
        self.reuse_retired();
        let everyone = Everyone::of_group(group, place);
        let flags = self.flags();
        let age = self.age_below(parent);
        let mut search = Search::anywhere(seed(&name));
        let proposal = Proposal { age, ..self.contexts.propose(&mut search, flags) };
        Some(Construction {
            parent,
            remembers: false,
            errhandler,
            stage: Stage::Sweeping(Box::new(Sweep::agree(place.0, everyone.size, proposal))),
            everyone,
            key: name,
            result: Outcome::Intra(Arc::clone(group)),
            search,
            flags,
            settled: None,
            age,
            attributes: Vec::new(),
            hints: Info::default(),
            topology: None,
        })
    }

    /// That of a communicator made from `parent`, as far as this process knows; of one without a parent the number of this life.
    fn age_below(&self, parent: Handle) -> Age {
        self.comms.get(parent).map_or(Age(self.life), |comm| comm.age)
    }

    fn check_part(&self, parent: Handle, group: &Group) -> Result<()> {
        let comm = self.comms.get(parent)?;
        let strangers = group.difference(comm.local_group()).size();
        if strangers > 0 {
            return Err(Error::new(
                ErrorClass::GROUP,
                format!("group has {strangers} processes that are not in {}", comm.display_name()),
            ));
        }
        Ok(())
    }
}

fn check_leader(argument: &str, leader: i32, group: &Group) -> Result<Rank> {
    match u32::try_from(leader) {
        Ok(rank) if rank < group.size() => Ok(Rank(rank)),
        _ => Err(Error::new(
            ErrorClass::RANK,
            format!("{argument} is {leader}; its group has the ranks 0 to {}", group.size() - 1),
        )),
    }
}
