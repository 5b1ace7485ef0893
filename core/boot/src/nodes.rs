//! Which rank lives on which node, in as few numbers as the placement has regularity.

use std::fmt;

use crate::pmi::mapping;

/// The node of every rank of a job. Nodes have numbers that need not begin at 0 or be without gaps.
///
/// Memory: 16 bytes for each stretch of ranks that is dealt to nodes in one way, so 16 bytes for blocks, for round-robin, and
/// for most that launchers do; at worst (no regularity at all) 16 bytes a rank.
#[derive(Clone, PartialEq, Eq)]
pub struct Nodes {
    /// What is dealt in one round, in order; the rounds repeat until all ranks have a node.
    blocks: Box<[Block]>,
    /// Ranks in a round.
    round: u32,
    size: u32,
}

/// Some nodes that get equally many ranks, one node after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// The first rank, in the first round.
    rank: u32,
    first: u32,
    nodes: u32,
    per_node: u32,
}

impl Block {
    fn ranks(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.per_node)
    }
}

impl Nodes {
    /// All of `size` ranks on one node.
    pub fn one(size: u32) -> Nodes {
        Nodes::dealt([(0, 1, size.max(1))].into_iter(), size)
    }

    /// Reads the value of `PMI_process_mapping` for `size` ranks; `None` when it is none.
    pub fn parse(text: &str, size: u32) -> Option<Nodes> {
        let blocks = mapping::blocks(text).ok()?;
        let whole = blocks.iter().all(|&(first, count, _)| first.checked_add(count).is_some());
        let some = blocks.iter().any(|&(_, count, _)| count > 0);
        (whole && some).then(|| Nodes::dealt(blocks.into_iter(), size))
    }

    /// The node of each rank, as a list.
    pub fn listed(nodes: &[u32]) -> Nodes {
        // Runs of one node, joined where the next node gets as many.
        let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
        for run in nodes.chunk_by(|a, b| a == b) {
            let (node, ranks) = (run[0], run.len() as u32);
            match blocks.last_mut() {
                Some((first, count, each)) if *each == ranks && *first + *count == node => *count += 1,
                _ => blocks.push((node, 1, ranks)),
            }
        }
        // What repeats itself is said once; the last round may be cut off.
        let size = nodes.len() as u32;
        let periods = (1..blocks.len()).take(PERIODS);
        for period in periods {
            let shorter = Nodes::dealt(blocks[..period].iter().copied(), size);
            if (0..).zip(nodes).all(|(rank, &node)| shorter.node(rank) == node) {
                return shorter;
            }
        }
        Nodes::dealt(blocks.into_iter(), size)
    }

    /// The node of each of `size` ranks, from the ranks on each node; `None` where they are not all ranks, each on one node.
    pub fn by_their_ranks<'a>(nodes: impl Iterator<Item = &'a [u32]>, size: u32) -> Option<Nodes> {
        const NOWHERE: u32 = u32::MAX;
        let mut listed = vec![NOWHERE; size as usize];
        for (node, ranks) in (0..).zip(nodes) {
            for &rank in ranks {
                let place = listed.get_mut(rank as usize).filter(|place| **place == NOWHERE)?;
                *place = node;
            }
        }
        (size > 0 && !listed.contains(&NOWHERE)).then(|| Nodes::listed(&listed))
    }

    fn dealt(blocks: impl Iterator<Item = (u32, u32, u32)>, size: u32) -> Nodes {
        let mut rank = 0_u64;
        let mut kept = Vec::new();
        for (first, nodes, per_node) in blocks.filter(|&(_, nodes, per_node)| nodes > 0 && per_node > 0) {
            if rank >= u64::from(size).max(1) {
                break;
            }
            let block = Block { rank: rank as u32, first, nodes, per_node };
            rank += block.ranks();
            kept.push(block);
        }
        Nodes { blocks: kept.into(), round: rank.min(u64::from(u32::MAX)) as u32, size }
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The node of a rank.
    pub fn node(&self, rank: u32) -> u32 {
        let rank = rank % self.round;
        let after = self.blocks.partition_point(|block| block.rank <= rank);
        let block = self.blocks[after - 1];
        block.first + (rank - block.rank) / block.per_node
    }

    /// Whether all ranks are on one node.
    pub fn is_one(&self) -> bool {
        let first = self.node(0);
        (1..self.size).all(|rank| self.node(rank) == first)
    }

    /// Number of different nodes.
    pub fn count(&self) -> u32 {
        let mut nodes: Vec<u32> = (0..self.size).map(|rank| self.node(rank)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len() as u32
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }
}

/// How many blocks a repeated round may have to be found.
const PERIODS: usize = 8;

/// As launchers write it: `(vector,(0,4,8))`.
impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(vector")?;
        for block in &self.blocks {
            write!(f, ",({},{},{})", block.first, block.nodes, block.per_node)?;
        }
        write!(f, ")")
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ranks {self}", self.size)
    }
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes::one(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_is_kept_and_read_back(nodes in prop::collection::vec(0u32..4, 1..40)) {
            let kept = Nodes::listed(&nodes);
            let told: Vec<u32> = (0..nodes.len() as u32).map(|rank| kept.node(rank)).collect();
            prop_assert_eq!(&told, &nodes);
            prop_assert_eq!(Nodes::parse(&kept.to_string(), nodes.len() as u32), Some(kept.clone()));
            prop_assert_eq!(mapping::nodes(&kept.to_string(), kept.size()), Ok(nodes.clone()));
            let mut different = nodes.clone();
            different.sort_unstable();
            different.dedup();
            prop_assert_eq!(kept.count() as usize, different.len());
            prop_assert_eq!(kept.is_one(), different.len() == 1);
        }

        #[test]
        fn what_launchers_deal_is_read_alike(blocks in prop::collection::vec((0u32..9, 0u32..5, 1u32..5), 1..4), size in 1u32..70) {
            let list: Vec<String> = blocks.iter().map(|(a, b, c)| format!("({a},{b},{c})")).collect();
            let text = format!("(vector,{})", list.join(","));
            let read = Nodes::parse(&text, size).map(|nodes| (0..size).map(|rank| nodes.node(rank)).collect::<Vec<u32>>());
            prop_assert_eq!(read, mapping::nodes(&text, size).ok());
        }

        #[test]
        fn no_text_panics(text in "[(vector,)0-9 ]{0,40}", size in 1u32..9) {
            if let Some(nodes) = Nodes::parse(&text, size) {
                (0..size).for_each(|rank| { nodes.node(rank); });
            }
        }
    }

    #[test]
    fn lists_of_ranks_are_taken_when_they_are_all_ranks_each_once() {
        let of = |lists: &[&[u32]], size| {
            Nodes::by_their_ranks(lists.iter().copied(), size).map(|nodes| nodes.to_string())
        };
        assert_eq!(of(&[&[0, 1, 2], &[3]], 4).as_deref(), Some("(vector,(0,1,3),(1,1,1))"));
        assert_eq!(of(&[&[2, 0], &[], &[3, 1]], 4).as_deref(), Some("(vector,(0,1,1),(2,1,1))"));
        for (lists, size) in [
            (&[&[0, 1][..], &[1][..]][..], 2),
            (&[&[0, 2]], 2),
            (&[&[0]], 2),
            (&[&[0, u32::MAX]], 2),
            (&[], 1),
            (&[&[0]], 0),
        ] {
            assert_eq!(of(lists, size), None, "{lists:?} of {size}");
        }
    }

    #[test]
    fn regular_placements_cost_a_block_whatever_their_size() {
        let blocks: Vec<u32> = (0..1_000_000).map(|rank| rank / 128).collect();
        let cyclic: Vec<u32> = (0..1_000_000).map(|rank| rank % 7813).collect();
        for (nodes, text) in [(blocks, "(vector,(0,7812,128),(7812,1,64))"), (cyclic, "(vector,(0,7813,1))")]
        {
            let kept = Nodes::listed(&nodes);
            assert_eq!(kept.to_string(), text);
            assert!(kept.heap_bytes() <= 32, "{}", kept.heap_bytes());
        }
        let two_sizes = Nodes::listed(&[0, 0, 1, 2, 2, 3, 0, 0, 1]);
        assert_eq!(two_sizes.to_string(), "(vector,(0,1,2),(1,1,1),(2,1,2),(3,1,1))");
    }
}
