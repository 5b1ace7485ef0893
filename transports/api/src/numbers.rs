//! Tables by numbers that a device or the job gives out: small, and nobody's choice to collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by process or queue pair number.
pub type NumberMap<V> = HashMap<u32, V, BuildHasherDefault<ByNumber>>;

/// Multiplies, so that numbers which differ in their low bits differ in their high ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByNumber(u64);

impl Hasher for ByNumber {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are looked up")
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
    }
}
