//! The two groups of an intercommunicator (section 7.6).
//!
//! Inside, an intercommunicator is a hidden communicator of both groups: the *first* group's ranks come first, the *second*
//! group's follow. All members agree which is which when it is made. Its collective channel numbers its members so; only
//! point-to-point traffic has the ranks of the two groups that programs see.

use super::Comm;
use crate::group::Group;
use std::sync::Arc;
use weft_engine::PeerMap;
use weft_types::{Error, ErrorClass, PeerId, Rank, Result, abi};

/// Both groups, in the order all members agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Ranks from 0 on.
    pub first: Arc<Group>,
    /// Ranks from the first group's size on.
    pub second: Arc<Group>,
}

impl PeerMap for Sides {
    fn peer(&self, rank: Rank) -> PeerId {
        match rank.0.checked_sub(self.first.size()) {
            None => self.first.peer(rank),
            Some(rank) => self.second.peer(Rank(rank)),
        }
    }

    fn contains(&self, process: PeerId) -> bool {
        [&self.first, &self.second].iter().any(|group| group.rank_of(process).is_some())
    }
}

impl Sides {
    /// Members of both.
    pub fn size(&self) -> u32 {
        self.first.size() + self.second.size()
    }
}

/// What an intercommunicator has beside the remote group, which its point-to-point ranks name.
#[derive(Clone, Debug)]
pub struct Inter {
    /// Both groups.
    pub sides: Arc<Sides>,
    /// Whether the local group is the first one.
    pub is_first: bool,
}

impl Inter {
    /// The group of this process.
    pub fn local(&self) -> &Arc<Group> {
        if self.is_first { &self.sides.first } else { &self.sides.second }
    }

    /// The other group.
    pub fn remote(&self) -> &Arc<Group> {
        if self.is_first { &self.sides.second } else { &self.sides.first }
    }
}

/// Everybody in a communicator as its collective channel numbers them, and this process's number.
#[derive(Clone, Debug)]
pub(crate) struct Everyone {
    pub(crate) peers: Arc<dyn PeerMap>,
    pub(crate) place: Rank,
    pub(crate) size: u32,
}

impl Everyone {
    /// The members of one group.
    pub(crate) fn of_group(group: &Arc<Group>, place: Rank) -> Everyone {
        Everyone { peers: Arc::clone(group) as Arc<dyn PeerMap>, place, size: group.size() }
    }

    /// The members of two groups, as seen by rank `rank` of one of them.
    pub(crate) fn of_sides(inter: &Inter, rank: Rank) -> Everyone {
        let before = if inter.is_first { 0 } else { inter.sides.first.size() };
        Everyone {
            peers: Arc::clone(&inter.sides) as Arc<dyn PeerMap>,
            place: Rank(before + rank.0),
            size: inter.sides.size(),
        }
    }
}

impl Comm {
    /// The group of this process (section 7.6.1).
    pub fn local_group(&self) -> &Arc<Group> {
        self.inter.as_ref().map_or(&self.group, |inter| inter.local())
    }

    /// Everybody, both groups of an intercommunicator.
    pub(crate) fn everyone(&self) -> Everyone {
        match &self.inter {
            None => Everyone { peers: Arc::clone(&self.group) as _, place: self.rank, size: self.size },
            Some(inter) => Everyone::of_sides(inter, self.rank),
        }
    }

    /// All processes, of both groups of an intercommunicator.
    pub fn processes(&self) -> impl Iterator<Item = PeerId> + '_ {
        let remote = self.inter.as_ref().map(|inter| inter.remote());
        self.local_group().peers().chain(remote.into_iter().flat_map(|remote| remote.peers()))
    }

    /// The two groups of an intercommunicator.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for an intracommunicator.
    pub fn inter(&self) -> Result<&Inter> {
        self.inter.as_deref().ok_or_else(|| {
            let name = self.display_name();
            Error::new(ErrorClass::COMM, format!("{name} is an intracommunicator; it has no remote group"))
        })
    }

    /// The root argument of a collective on this intercommunicator (section 6.2.3).
    ///
    /// # Errors
    /// `MPI_ERR_ROOT`.
    pub fn inter_root(&self, root: i32) -> Result<weft_coll::Root> {
        match root {
            abi::MPI_ROOT => Ok(weft_coll::Root::Here),
            abi::MPI_PROC_NULL => Ok(weft_coll::Root::Elsewhere),
            _ if (root as u32) < self.size => Ok(weft_coll::Root::Remote(root as u32)),
            _ => Err(Error::new(
                ErrorClass::ROOT,
                format!(
                    "root is {root}; on the intercommunicator {} it is MPI_ROOT at the root, MPI_PROC_NULL in the rest of its group, and \
                     in the other group the root's rank, 0 to {}",
                    self.display_name(),
                    self.size - 1
                ),
            )),
        }
    }

    /// Refuses an intercommunicator where the standard wants one group.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`; `purpose` says what it is refused for.
    pub fn check_intra(&self, purpose: &str) -> Result<()> {
        match self.inter {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorClass::COMM,
                format!(
                    "{} is an intercommunicator; {purpose} needs an intracommunicator (MPI_Intercomm_merge makes one)",
                    self.display_name()
                ),
            )),
        }
    }
}
