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
    /// Depth log_radix(size); rank `v` has up to `radix - 1` children at each power of the radix below its lowest digit.
    Knomial(u32),
    /// Everybody below the root.
    Flat,
    /// Each below its predecessor.
    Chain,
}

impl Shape {
    /// The tree of a radix.
    pub(crate) const fn of_radix(radix: u32) -> Shape {
        if radix == 2 { Shape::Binomial } else { Shape::Knomial(radix) }
    }
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
            Shape::Knomial(radix) => {
                let radix = radix.max(2);
                let mut children = Vec::new();
                let mut power = 1_u32;
                while power < size && (v == 0 || (v / power).is_multiple_of(radix)) {
                    let places = (1..radix).map_while(|digit| v.checked_add(power.checked_mul(digit)?));
                    let below = places.take_while(|&child| child < size);
                    children.extend(below.map(|child| (child, power.min(size - child))));
                    let Some(next) = power.checked_mul(radix) else { break };
                    power = next;
                }
                let digit = if v == 0 { 0 } else { v / power % radix };
                Tree { parent: (v > 0).then(|| v - digit * power), children }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_the_child_of_its_parent_and_subtrees_are_ranges() {
        for shape in [Shape::Binomial, Shape::Knomial(3), Shape::Knomial(4), Shape::Flat, Shape::Chain] {
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
