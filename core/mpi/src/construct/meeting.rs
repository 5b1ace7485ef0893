//! How two groups that want an intercommunicator get to know each other (section 7.6.2): the leaders greet each other, and each
//! tells its group.
//!
//! ```text
//! leader A  -- own group, a number --> leader B        MPI_Intercomm_create only, by (peer communicator, tag)
//! leader A <-- own group, a number --  leader B
//! leader    -- remote group, order ->  its group       down a binomial tree; or what went wrong
//! ```
//!
//! The group whose leader has the lower process number is the first one. Two leaders' own numbers name the construction from
//! then on, or the string tag does.

use super::{Kind, key};
use crate::group::Group;
use crate::letters::{Key, Letters, Reader};
use std::sync::Arc;
use weft_engine::Engine;
use weft_types::{Error, ErrorClass, PeerId, Rank, Result};

/// What a member knows in the end.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) remote: Group,
    /// Whether the own group is the first one.
    pub(crate) is_first: bool,
    /// The name of the construction from here on.
    pub(crate) key: Key,
}

/// A member's part.
#[derive(Debug)]
pub(crate) struct Meeting {
    local: Arc<Group>,
    place: Rank,
    leader: Rank,
    /// Between the members of one group.
    told_by: Key,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// A leader waits for the other leader's greeting.
    Greeting { other: PeerId, by: Key, number: u64 },
    /// Waits for what the leader tells.
    Listening,
    /// A leader knows, or has failed.
    Knowing(Result<Option<Met>>),
}

const FINE: u32 = 0;
const NOBODY: u32 = 1;
const FAILED: u32 = 2;

impl Meeting {
    /// A member that is no leader.
    pub(crate) fn member(local: Arc<Group>, place: Rank, leader: Rank, told_by: Key) -> Meeting {
        Meeting { local, place, leader, told_by, stage: Stage::Listening }
    }

    /// A leader that knows all there is to know, or has found an error: `None` when there is to be no communicator.
    pub(crate) fn knowing(
        local: Arc<Group>,
        leader: Rank,
        told_by: Key,
        what: Result<Option<Met>>,
    ) -> Meeting {
        Meeting { local, place: leader, leader, told_by, stage: Stage::Knowing(what) }
    }

    /// A leader that greets the other one. `number` was never used here before.
    ///
    /// # Errors
    /// As [`Letters::send`].
    pub(crate) fn greet(
        engine: &mut Engine,
        local: Arc<Group>,
        leader: Rank,
        told_by: Key,
        (other, by, number): (PeerId, Key, u64),
    ) -> Result<Meeting> {
        let mut greeting = number.to_le_bytes().to_vec();
        local.write(&mut greeting);
        Letters::send(engine, other, &by, &greeting)?;
        let stage = Stage::Greeting { other, by, number };
        Ok(Meeting { local, place: leader, leader, told_by, stage })
    }

    /// The process whose letter comes next.
    pub(crate) fn awaits(&self) -> PeerId {
        let teller = super::sweep::Tree::new(self.relative(self.place), self.local.size()).parent;
        match &self.stage {
            Stage::Greeting { other, .. } => *other,
            _ => self.absolute(teller.unwrap_or(0)),
        }
    }

    /// Goes on as far as possible. `None`: not done yet. `Some(None)`: there is to be no communicator.
    ///
    /// # Errors
    /// What went wrong here or at the leader; the meeting is over.
    pub(crate) fn poll(&mut self, letters: &mut Letters, engine: &mut Engine) -> Result<Option<Option<Met>>> {
        if let Stage::Greeting { other, by, number } = &self.stage {
            let heard = match letters.take(engine, *other, by) {
                Ok(None) => return Ok(None),
                Ok(Some(letter)) => self.understand(*other, *number, &letter).map(Some),
                Err(error) => Err(error),
            };
            self.stage = Stage::Knowing(heard);
        }
        let tree = super::sweep::Tree::new(self.relative(self.place), self.local.size());
        if let Stage::Knowing(what) = &mut self.stage {
            let what = std::mem::replace(what, Ok(None));
            let letter = telling(&what);
            for &(child, _) in tree.children.iter().rev() {
                Letters::send(engine, self.absolute(child), &self.told_by, &letter)?;
            }
            return what.map(Some);
        }
        let Some(parent) = tree.parent else { return Ok(None) };
        let Some(letter) = letters.take(engine, self.absolute(parent), &self.told_by)? else {
            return Ok(None);
        };
        for &(child, _) in tree.children.iter().rev() {
            Letters::send(engine, self.absolute(child), &self.told_by, &letter)?;
        }
        told(&letter).map(Some)
    }

    fn understand(&self, other: PeerId, number: u64, letter: &[u8]) -> Result<Met> {
        let mut reader = Reader::new(letter);
        let their_number = reader.word()?;
        let remote = Group::read(&mut reader)?;
        check_disjoint(&self.local, &remote)?;
        let me = self.local.peer(self.leader);
        let is_first = me < other;
        let (mine, theirs) = ((me, number), (other, their_number));
        let (first, second) = if is_first { (mine, theirs) } else { (theirs, mine) };
        let words = [u64::from(first.0.0), first.1, u64::from(second.0.0), second.1];
        let key = key(Kind::Union, &words.map(u64::to_le_bytes).concat());
        Ok(Met { remote, is_first, key })
    }

    /// Ranks as the tree counts them, from the leader on.
    fn relative(&self, rank: Rank) -> u32 {
        (rank.0 + self.local.size() - self.leader.0) % self.local.size()
    }

    fn absolute(&self, relative: u32) -> PeerId {
        let rank = (u64::from(relative) + u64::from(self.leader.0)) % u64::from(self.local.size());
        self.local.peer(Rank(rank as u32))
    }
}

/// Refuses groups that have a process in common.
///
/// # Errors
/// `MPI_ERR_GROUP`.
pub(crate) fn check_disjoint(local: &Group, remote: &Group) -> Result<()> {
    let common = local.intersection(remote).size();
    if common > 0 {
        return Err(Error::new(
            ErrorClass::GROUP,
            format!(
                "the local and the remote group have {common} processes in common; they must have none (section 7.6.2)"
            ),
        ));
    }
    Ok(())
}

fn telling(what: &Result<Option<Met>>) -> Vec<u8> {
    let mut letter = Vec::new();
    let mut number = |number: u32| letter.extend_from_slice(&number.to_le_bytes());
    match what {
        Ok(Some(met)) => {
            number(FINE);
            number(met.is_first.into());
            number(met.key.len() as u32);
            letter.extend_from_slice(&met.key);
            met.remote.write(&mut letter);
        }
        Ok(None) => number(NOBODY),
        Err(error) => {
            number(FAILED);
            number(error.class().0 as u32);
            letter.extend_from_slice(error.text().as_bytes());
        }
    }
    letter
}

fn told(letter: &[u8]) -> Result<Option<Met>> {
    let mut reader = Reader::new(letter);
    match reader.number()? {
        FINE => {
            let is_first = reader.number()? != 0;
            let length = reader.number()? as usize;
            let key = reader.bytes(length)?.into();
            Ok(Some(Met { remote: Group::read(&mut reader)?, is_first, key }))
        }
        NOBODY => Ok(None),
        FAILED => {
            let class = ErrorClass(reader.number()? as i32);
            let text = String::from_utf8_lossy(reader.rest()).into_owned();
            Err(Error::new(class, format!("the leader of the local group found: {text}")))
        }
        _ => Err(reader.broken()),
    }
}
