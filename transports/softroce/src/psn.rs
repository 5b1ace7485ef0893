//! Packet sequence numbers: 24 bits that wrap (InfiniBand Architecture Specification 1.7, section 9.7.1).

const MASK: u32 = 0x00ff_ffff;

/// A packet sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & MASK)
    }

    /// The 24 bits.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `packets` later.
    #[must_use]
    pub const fn plus(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_add(packets))
    }

    /// The number `packets` earlier.
    #[must_use]
    pub const fn minus(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(packets))
    }

    /// How many packets `self` is ahead of `other` (negative: behind), by the shorter way round: -2^23 to 2^23 - 1.
    pub const fn ahead_of(self, other: Psn) -> i32 {
        // The 24-bit difference moved to the top of 32 bits carries its sign; the arithmetic shift brings it down again.
        (self.0.wrapping_sub(other.0) << 8).cast_signed() >> 8
    }
}

impl std::fmt::Debug for Psn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Psn;

    #[test]
    fn differences_take_the_shorter_way_round() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).minus(1), last);
        assert_eq!(Psn::new(3).ahead_of(last), 4);
        assert_eq!(last.ahead_of(Psn::new(3)), -4);
        assert_eq!(Psn::new(0x80_0000).ahead_of(Psn::new(0)), -(1 << 23));
        assert_eq!(Psn::new(0x7f_ffff).ahead_of(Psn::new(0)), (1 << 23) - 1);
    }

    proptest::proptest! {
        #[test]
        fn plus_and_ahead_of_agree(start in 0_u32..1 << 24, step in 0_u32..1 << 23) {
            let later = Psn::new(start).plus(step);
            proptest::prop_assert_eq!(later.ahead_of(Psn::new(start)), step as i32);
            proptest::prop_assert_eq!(later.minus(step), Psn::new(start));
        }
    }
}
