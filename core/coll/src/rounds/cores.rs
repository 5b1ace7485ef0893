//! Which members share a core.

/// Most members of which it is known: those that have blocks to exchange.
const MOST: usize = 16;

/// The cores of all members, numbered in the order of their first members. The same at all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// By member.
    of: [u8; MOST],
    members: u8,
    /// 0: not known, or of no use.
    count: u8,
    /// Members of the core that has most.
    most: u8,
}

impl Cores {
    /// Members with those seats, by member; 0: not known. Of use where two share a core and others have another one.
    pub fn of(seats: &[u32]) -> Cores {
        let unknown = Cores::default();
        if seats.len() > MOST || seats.contains(&0) {
            return unknown;
        }
        let mut cores = Cores { members: seats.len() as u8, ..unknown };
        for (member, seat) in seats.iter().enumerate() {
            let before = seats[..member].iter().position(|other| other == seat);
            cores.of[member] = before.map_or(cores.count, |other| cores.of[other]);
            cores.count += u8::from(before.is_none());
        }
        let most = (0..u32::from(cores.count)).map(|core| cores.members(core).count()).max().unwrap_or(0);
        cores.most = most as u8;
        if cores.count < 2 || most < 2 { unknown } else { cores }
    }

    /// Whether there is anything to know.
    pub fn is_known(&self) -> bool {
        self.count > 0
    }

    /// Cores; 0: not known.
    pub fn count(&self) -> u32 {
        u32::from(self.count)
    }

    /// Members of the core that has most.
    pub(super) fn most(&self) -> u32 {
        u32::from(self.most)
    }

    /// The core of a member.
    pub(super) fn core(&self, member: u32) -> u32 {
        u32::from(self.of[member as usize])
    }

    /// The members of a core, in the order of ranks.
    pub(super) fn members(&self, core: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let Cores { of, members, .. } = *self;
        (0..u32::from(members)).filter(move |&member| u32::from(of[member as usize]) == core)
    }

    /// The same, one bit each.
    pub(super) fn mask(&self, core: u32) -> u64 {
        self.members(core).fold(0, |mask, member| mask | 1 << member)
    }

    /// Who stands for a core: its first member.
    pub(super) fn leader(&self, core: u32) -> u32 {
        self.members(core).next().expect("a core has members")
    }

    /// Those who stand for cores, one bit each.
    pub(super) fn leaders(&self) -> u64 {
        (0..self.count()).fold(0, |mask, core| mask | 1 << self.leader(core))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_numbered_by_their_first_members() {
        let cores = Cores::of(&[7, 3, 7, 9, 3]);
        assert_eq!((0..5).map(|member| cores.core(member)).collect::<Vec<_>>(), [0, 1, 0, 2, 1]);
        assert_eq!((cores.count(), cores.most(), cores.mask(1)), (3, 2, 0b10010));
        assert_eq!(cores.leaders(), 0b01011);
    }

    #[test]
    fn nothing_is_known_where_nobody_shares_a_core_or_all_do_or_one_says_nothing() {
        for seats in [&[1, 2, 3][..], &[1, 1, 1], &[1, 0, 1, 2], &[5; 17]] {
            assert!(!Cores::of(seats).is_known(), "{seats:?}");
        }
    }
}
