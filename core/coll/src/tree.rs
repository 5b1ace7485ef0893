//! Trees over ranks `0..size`, rooted at 0. In all of them the ranks below a child follow one another, and children
//! are listed in ascending order: combining own data with the children's in that order keeps rank order.

/// One rank's neighbours in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) parent: Option<u32>,
    /// (child, number of ranks from the child on that belong to it), ascending.
    pub(crate) children: Vec<(u32, u32)>,
}

/// The shapes in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Depth log2(size); rank `v` has children `v + 1, v + 2, v + 4, ...`
    Binomial,
    /// Everybody below the root.
    Flat,
    /// Each below its predecessor.
    Chain,
}

impl Tree {
    /// The neighbours of `v` in a tree of `size` ranks.
    pub(crate) fn new(shape: Shape, v: u32, size: u32) -> Tree {
        match shape {
            Shape::Flat if v == 0 => {
                Tree { parent: None, children: (1..size).map(|child| (child, 1)).collect() }
            }
            Shape::Flat => Tree { parent: Some(0), children: Vec::new() },
            Shape::Chain => Tree {
                parent: v.checked_sub(1),
                children: if v + 1 < size { vec![(v + 1, size - v - 1)] } else { Vec::new() },
            },
            Shape::Binomial => {
                let reach = if v == 0 { size.next_power_of_two() } else { v & v.wrapping_neg() };
                let steps = (0..).map(|k| 1 << k).take_while(|&step| step < reach && v + step < size);
                Tree {
                    parent: (v > 0).then(|| v - reach),
                    children: steps.map(|step: u32| (v + step, step.min(size - v - step))).collect(),
                }
            }
        }
    }
}

/// Rank `absolute` as seen from `root` (which becomes 0), and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    pub(crate) root: u32,
    pub(crate) size: u32,
}

impl Rotation {
    pub(crate) fn relative(self, absolute: u32) -> u32 {
        (absolute + self.size - self.root) % self.size
    }

    pub(crate) fn absolute(self, relative: u32) -> u32 {
        ((u64::from(relative) + u64::from(self.root)) % u64::from(self.size)) as u32
    }
}

/// Depth of a binomial tree or rounds of a dissemination over `size` ranks: log2, rounded up.
pub(crate) fn rounds(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_the_child_of_its_parent_and_subtrees_are_ranges() {
        for shape in [Shape::Binomial, Shape::Flat, Shape::Chain] {
            for size in 1..70 {
                for v in 0..size {
                    let tree = Tree::new(shape, v, size);
                    let mut next = v + 1;
                    for &(child, below) in &tree.children {
                        assert_eq!(child, next);
                        assert_eq!(Tree::new(shape, child, size).parent, Some(v));
                        next += below;
                    }
                    assert!(next <= size && (v > 0 || next == size));
                }
            }
        }
    }
}
