//! How often a process has opened MPI, and what it says when it ends MPI without waiting for the others.
//!
//! A process may open MPI again after it has closed it (sections 11.2 and 11.3), so that it has several *lives*, numbered from 1. A communicator
//! has an *age*: 0 when it descends from `MPI_COMM_WORLD`, otherwise at least the number of the life in which each of its members made
//! it, and never more than the number of the life that a member ends with it (members take the largest number of all for their
//! own). So the number of the life that ends says which communicators end with it, however late it is heard.

/// The age of a communicator's channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(pub u32);

impl Age {
    /// That of `MPI_COMM_WORLD` and of what descends from it: the World Model is begun once.
    pub const WORLD: Age = Age(0);
}

/// Which communicators a process has nothing to do with any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Farewell {
    /// The last of its lives that is over; 0: none.
    pub life: u32,
    /// Whether its World Model is over.
    pub world: bool,
}

impl Farewell {
    /// None was said.
    pub const NONE: Farewell = Farewell { life: 0, world: false };
    /// That of a process that has left for good.
    pub const ALL: Farewell = Farewell { life: u32::MAX >> 1, world: true };

    /// Whether a communicator is over.
    #[inline]
    pub const fn ends(self, age: Age) -> bool {
        if age.0 == 0 { self.world } else { age.0 <= self.life }
    }

    /// What is over after both.
    #[must_use]
    pub fn and(self, other: Farewell) -> Farewell {
        Farewell { life: self.life.max(other.life), world: self.world | other.world }
    }

    /// As it travels and lies in memory: not 0, unless it is none.
    pub const fn to_word(self) -> u32 {
        self.life << 1 | self.world as u32
    }

    /// The farewell of a word.
    pub const fn from_word(word: u32) -> Farewell {
        Farewell { life: word >> 1, world: word & 1 != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Age, Farewell};

    #[test]
    fn a_farewell_ends_what_is_not_younger() {
        let second = Farewell { life: 2, world: false };
        assert_eq!([0, 1, 2, 3].map(|age| second.ends(Age(age))), [false, true, true, false]);
        let world = Farewell { life: 0, world: true };
        assert_eq!([0, 1].map(|age| world.ends(Age(age))), [true, false]);
        assert_eq!([0, 2, 3].map(|age| second.and(world).ends(Age(age))), [true, true, false]);
        assert!([0, 1, 1000].into_iter().all(|age| Farewell::ALL.ends(Age(age))));
        assert!([0, 1].into_iter().all(|age| !Farewell::NONE.ends(Age(age))));
    }

    #[test]
    fn a_farewell_comes_back_from_its_word() {
        for farewell in [Farewell::NONE, Farewell::ALL, Farewell { life: 7, world: false }] {
            assert_eq!(Farewell::from_word(farewell.to_word()), farewell);
        }
        assert_eq!(Farewell::NONE.to_word(), 0);
    }
}
