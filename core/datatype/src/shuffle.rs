//! Small elements, many bytes at a time: a window of 64 bytes of memory is read whole, and one permutation brings its bytes into
//! packed order; unpacking goes the other way and writes under a mask. Bytes that are no data are neither read nor written.
//!
//! A structure of mixed members, a pair, or several numbers at a short stride are one such step, or a few of them, instead of a
//! move for each member. The steps are found when a type is first used with several elements and are kept with it; how many
//! there are depends on one element, never on a count.

use crate::layout::Node;
use crate::processor::{Level, level};
use std::sync::OnceLock;

/// Bytes of a window, and of a vector register.
const WINDOW: usize = 64;
/// Elements that are larger, or of more runs, are copied run by run.
const LARGEST: usize = 512;
const MOST_RUNS: usize = 128;
/// Fewest elements that are worth a look at the steps.
const FEWEST: usize = 8;

/// The steps of a loop over a node, once somebody has asked for them. Two loops are equal or not without them.
#[derive(Default)]
pub(crate) struct Prepared(OnceLock<Option<Box<Shuffle>>>);

impl Clone for Prepared {
    fn clone(&self) -> Prepared {
        Prepared::default()
    }
}

impl PartialEq for Prepared {
    fn eq(&self, _: &Prepared) -> bool {
        true
    }
}

impl Eq for Prepared {}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prepared")
    }
}

impl Prepared {
    /// The steps for copies of `node`, `stride` bytes apart, if steps are faster than runs.
    #[inline]
    pub(crate) fn of(&self, node: &Node, stride: i64, count: usize) -> Option<&Shuffle> {
        if count < FEWEST || node.size > LARGEST || level() < Level::Avx512 {
            return None;
        }
        self.0.get_or_init(|| Shuffle::new(node, stride).map(Box::new)).as_deref()
    }
}

/// How to copy `elements` elements.
pub(crate) struct Shuffle {
    /// Elements of a round.
    elements: usize,
    /// Bytes between two rounds in memory.
    stride: isize,
    /// Packed bytes of a round.
    size: usize,
    steps: Box<[Step]>,
}

/// One window.
struct Step {
    /// For each packed byte, its place in the window.
    gather: [u8; WINDOW],
    /// For each byte of the window, its place in the packed bytes.
    spread: [u8; WINDOW],
    /// The bytes of the window that are data.
    inside: u64,
    /// As many bits as there are packed bytes.
    packed: u64,
    /// Where the window begins.
    at: isize,
    /// The first packed byte.
    from: usize,
}

impl Shuffle {
    /// The steps for copies of `node`, `stride` bytes apart; none if there are hardly fewer of them than runs.
    fn new(node: &Node, stride: i64) -> Option<Shuffle> {
        if node.blocks() > MOST_RUNS {
            return None;
        }
        let mut runs = Vec::new();
        node.walk(0, 0, node.size, &mut |at, length| runs.push((at, length)));
        let low = runs.iter().map(|run| run.0).min()?;
        let high = runs.iter().map(|run| run.0.checked_add(run.1 as i64)).max()??;
        let span = usize::try_from(high.checked_sub(low)?).ok()?;
        let step = usize::try_from(stride).ok().filter(|&stride| stride > 0)?;
        let elements = if span < WINDOW { (WINDOW - span) / step + 1 } else { 1 };
        let elements = elements.min(WINDOW / node.size).max(1);
        let places: Vec<i64> = (0..elements as i64)
            .flat_map(|element| runs.iter().map(move |run| (run.0.checked_add(element * stride), run.1)))
            .map(|(at, length)| at.map(|at| at..at.saturating_add(length as i64)))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let steps = steps(&places)?;
        // Of numbers at a stride, four or more must go into a step: less is no faster than moving them one by one.
        let fewest = if runs.len() == 1 { 4 } else { 2 };
        (runs.len() * elements >= fewest * steps.len()).then(|| Shuffle {
            elements,
            stride: (stride as isize).wrapping_mul(elements as isize),
            size: places.len(),
            steps: steps.into(),
        })
    }

    /// Copies as many of `count` elements as fill whole rounds, and returns how many.
    ///
    /// # Safety
    /// As for `Layout::transfer`; the steps are those of the elements at `memory`.
    pub(crate) unsafe fn run<const PACK: bool>(
        &self,
        memory: *mut u8,
        count: usize,
        packed: *mut u8,
    ) -> usize {
        let rounds = count / self.elements;
        // SAFETY: the caller's promise; there are steps only where the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            if PACK {
                self.pack(memory, rounds, packed);
            } else {
                self.unpack(memory, rounds, packed);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (memory, packed, self.stride, self.size, &self.steps);
        rounds * self.elements
    }
}

/// Windows that cover the places of packed bytes, as many consecutive ones as fit each.
fn steps(places: &[i64]) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut from = 0;
    while from < places.len() {
        let (mut low, mut high, mut to) = (places[from], places[from], from + 1);
        while to < places.len() && to - from < WINDOW {
            let (least, most) = (low.min(places[to]), high.max(places[to]));
            if most.checked_sub(least)? >= WINDOW as i64 {
                break;
            }
            (low, high, to) = (least, most, to + 1);
        }
        let (mut gather, mut spread, mut inside) = ([0; WINDOW], [0; WINDOW], 0);
        for (index, place) in places[from..to].iter().enumerate() {
            let place = (place - low) as usize;
            gather[index] = place as u8;
            spread[place] = index as u8;
            inside |= 1 << place;
        }
        let packed = u64::MAX >> (WINDOW - (to - from));
        steps.push(Step { gather, spread, inside, packed, at: low as isize, from });
        from = to;
    }
    Some(steps)
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Shuffle, Step};
    use std::arch::x86_64::*;

    impl Shuffle {
        /// # Safety
        /// As [`Shuffle::run`], for `rounds` rounds, with the instructions named.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        pub(super) unsafe fn pack(&self, memory: *const u8, rounds: usize, packed: *mut u8) {
            // SAFETY: the caller's promise; only bytes under the masks are touched, which are data.
            unsafe {
                if let [step] = &*self.steps {
                    return self.pack_by(step, memory, rounds, packed);
                }
                let (mut memory, mut packed) = (memory, packed);
                for _ in 0..rounds {
                    for step in &self.steps {
                        gather(step, vector(&step.gather), memory, packed);
                    }
                    memory = memory.wrapping_offset(self.stride);
                    packed = packed.wrapping_add(self.size);
                }
            }
        }

        /// # Safety
        /// As [`Shuffle::pack`].
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        unsafe fn pack_by(&self, step: &Step, memory: *const u8, rounds: usize, packed: *mut u8) {
            let order = vector(&step.gather);
            let (mut memory, mut packed) = (memory, packed);
            // SAFETY: as in `pack`.
            unsafe {
                for _ in 0..rounds / 4 {
                    for _ in 0..4 {
                        gather(step, order, memory, packed);
                        memory = memory.wrapping_offset(self.stride);
                        packed = packed.wrapping_add(self.size);
                    }
                }
                for _ in 0..rounds % 4 {
                    gather(step, order, memory, packed);
                    memory = memory.wrapping_offset(self.stride);
                    packed = packed.wrapping_add(self.size);
                }
            }
        }

        /// # Safety
        /// As [`Shuffle::run`], for `rounds` rounds, with the instructions named.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        pub(super) unsafe fn unpack(&self, memory: *mut u8, rounds: usize, packed: *const u8) {
            // SAFETY: the caller's promise; only bytes under the masks are touched, which are data.
            unsafe {
                if let [step] = &*self.steps {
                    return self.unpack_by(step, memory, rounds, packed);
                }
                let (mut memory, mut packed) = (memory, packed);
                for _ in 0..rounds {
                    for step in &self.steps {
                        spread(step, vector(&step.spread), memory, packed);
                    }
                    memory = memory.wrapping_offset(self.stride);
                    packed = packed.wrapping_add(self.size);
                }
            }
        }

        /// # Safety
        /// As [`Shuffle::unpack`].
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        unsafe fn unpack_by(&self, step: &Step, memory: *mut u8, rounds: usize, packed: *const u8) {
            let order = vector(&step.spread);
            let (mut memory, mut packed) = (memory, packed);
            // SAFETY: as in `unpack`.
            unsafe {
                for _ in 0..rounds / 4 {
                    for _ in 0..4 {
                        spread(step, order, memory, packed);
                        memory = memory.wrapping_offset(self.stride);
                        packed = packed.wrapping_add(self.size);
                    }
                }
                for _ in 0..rounds % 4 {
                    spread(step, order, memory, packed);
                    memory = memory.wrapping_offset(self.stride);
                    packed = packed.wrapping_add(self.size);
                }
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn vector(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes are there; the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// # Safety
    /// The bytes of the step are readable at `memory` and writable at `packed`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    unsafe fn gather(step: &Step, order: __m512i, memory: *const u8, packed: *mut u8) {
        // SAFETY: the caller's promise; bytes outside of the masks are not touched.
        unsafe {
            let window = _mm512_maskz_loadu_epi8(step.inside, memory.wrapping_offset(step.at).cast());
            let bytes = _mm512_permutexvar_epi8(order, window);
            _mm512_mask_storeu_epi8(packed.wrapping_add(step.from).cast(), step.packed, bytes);
        }
    }

    /// # Safety
    /// The bytes of the step are readable at `packed` and writable at `memory`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    unsafe fn spread(step: &Step, order: __m512i, memory: *mut u8, packed: *const u8) {
        // SAFETY: the caller's promise; bytes outside of the masks are not touched.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(step.packed, packed.wrapping_add(step.from).cast());
            let window = _mm512_permutexvar_epi8(order, bytes);
            _mm512_mask_storeu_epi8(memory.wrapping_offset(step.at).cast(), step.inside, window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_window_are_one_step_and_long_elements_a_few() {
        let particle = Node::runs([(0, 4), (8, 48), (56, 7)]);
        let shuffle = Shuffle::new(&particle, 64).unwrap();
        assert_eq!((shuffle.elements, shuffle.size, shuffle.steps.len()), (1, 59, 1));
        let doubles = Shuffle::new(&Node::run(0, 8), 16).unwrap();
        assert_eq!((doubles.elements, doubles.stride, doubles.steps.len()), (4, 64, 1));
        let long = Node::runs((0..12).map(|i| (i * 16, 5 + (i as usize & 1))));
        assert_eq!(Shuffle::new(&long, 200).unwrap().steps.len(), 3);
        assert!(Shuffle::new(&Node::run(0, 8), 24).is_none());
        assert!(Shuffle::new(&Node::runs([(0, 8), (100, 9)]), 200).is_none());
        assert!(Shuffle::new(&particle, -64).is_none());
    }

    #[test]
    fn steps_are_kept_for_loops_of_small_elements_only() {
        let (prepared, particle) = (Prepared::default(), Node::runs([(0, 4), (8, 48), (56, 7)]));
        assert_eq!(prepared.of(&particle, 64, FEWEST - 1).map(|_| ()), None);
        assert_eq!(prepared.of(&particle, 64, FEWEST).is_some(), level() >= Level::Avx512);
        assert!(Prepared::default().of(&Node::run(0, LARGEST + 1), 1024, 100).is_none());
    }
}
