//! Which members of a communicator share a node, as the planner of collectives sees it.

use std::collections::HashMap;
use weft_boot::Nodes;
use weft_coll::{Layout, Level, Link, Partition};
use weft_types::PeerId;

/// The nodes of `size` members, `peer(rank)` being the process of each; no levels when all are on one node. The same at all
/// members.
///
/// Takes time for every member, so it is kept with the communicator; what is kept is two numbers where the placement is regular.
pub(crate) fn layout(nodes: &Nodes, size: u32, peer: impl Fn(u32) -> PeerId) -> Layout {
    let groups = partition(size, |rank| nodes.node(peer(rank).0));
    let levels = match groups.groups(size) {
        0 | 1 => Vec::new(),
        _ => vec![Level { groups, link: Link::NETWORK }],
    };
    Layout { levels }
}

fn partition(size: u32, node: impl Fn(u32) -> u32) -> Partition {
    if let Some(block) = ascending_blocks(size, &node) {
        return Partition::Block(block);
    }
    let mut numbers = HashMap::new();
    let groups: Vec<u32> = (0..size)
        .map(|rank| {
            let next = numbers.len() as u32;
            *numbers.entry(node(rank)).or_insert(next)
        })
        .collect();
    Partition::new(&groups)
}

/// The members of each node, where every node has as many after one another and no node comes after one of a higher number: found
/// without memory for every member.
fn ascending_blocks(size: u32, node: &impl Fn(u32) -> u32) -> Option<u32> {
    let block = (1..size).find(|&rank| node(rank) != node(0)).unwrap_or(size).max(1);
    let fits = |rank: u32| match rank % block {
        0 => node(rank) > node(rank - 1),
        _ => node(rank) == node(rank - 1),
    };
    (1..size).all(fits).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::super::{Planning, Work};
    use super::*;
    use crate::comm::Comm;
    use crate::group::Group;
    use proptest::prelude::*;
    use std::sync::Arc;
    use weft_coll::{Call, Model, Vector};
    use weft_types::{ContextId, Handle, Rank};

    fn of(nodes: &[u32], members: &[u32]) -> Layout {
        layout(&Nodes::listed(nodes), members.len() as u32, |rank| PeerId(members[rank as usize]))
    }

    #[test]
    fn regular_placements_stay_regular() {
        let blocks = [0, 0, 0, 1, 1, 1, 2, 2, 2];
        let all: Vec<u32> = (0..9).collect();
        assert_eq!(of(&blocks, &all).levels[0].groups, Partition::Block(3));
        assert_eq!(of(&blocks, &[6, 3, 0]).levels[0].groups, Partition::Block(1), "one of each node");
        assert_eq!(of(&blocks, &[0, 3, 6, 1, 4, 7]).levels[0].groups, Partition::Cyclic(3));
        assert_eq!(of(&blocks, &[8, 7, 1, 0]).levels[0].groups, Partition::Block(2));
        assert!(matches!(of(&blocks, &[0, 3, 1, 2]).levels[0].groups, Partition::Listed(_)));
        assert_eq!(of(&blocks, &[3, 5]), Layout::default(), "all on one node");
        assert_eq!(of(&[0, 1, 2, 0, 1, 2], &[0, 1, 2, 3, 4, 5]).levels[0].groups, Partition::Cyclic(3));
    }

    #[test]
    fn a_million_members_on_regular_nodes_cost_two_numbers() {
        let nodes = Nodes::parse("(vector,(0,10000,100))", 1_000_000).expect("a mapping");
        let layout = layout(&nodes, 1_000_000, PeerId);
        assert_eq!(layout.levels[0].groups, Partition::Block(100));
    }

    /// What the ranks of a job on described nodes plan.
    #[test]
    fn collectives_of_a_job_on_several_nodes_are_planned_over_its_nodes() {
        let vector = Vector { count: 1, element: 8, commutative: true };
        for call in
            [Call::Barrier, Call::Allreduce { vector, in_place: false }, Call::Bcast { root: 3, bytes: 8 }]
        {
            for (mapping, groups) in
                [("(vector,(0,4,8))", Partition::Block(8)), ("(vector,(0,4,1))", Partition::Cyclic(4))]
            {
                let nodes = Arc::new(Nodes::parse(mapping, 32).expect("a mapping"));
                let model = Model::cluster(groups);
                let mut differs = false;
                for rank in 0..32 {
                    let group = Arc::new(Group::world(32));
                    let comm = Comm::new(ContextId::WORLD, Rank(rank), group, Handle(0));
                    let plan = |nodes| {
                        let planning = Planning { nodes, ..Planning::default() };
                        let plan = comm.plan(&Work::Collective(&call), &comm.everyone(), &planning);
                        format!("{:?}", plan.expect("a plan"))
                    };
                    let expected = weft_coll::plan(&call, weft_coll::Group { rank, size: 32 }, &model);
                    assert_eq!(plan(Some(Arc::clone(&nodes))), format!("{expected:?}"), "{call:?} {mapping}");
                    differs |= plan(None) != format!("{expected:?}");
                }
                // For some of the others a flat algorithm is as good on such nodes.
                if matches!(call, Call::Allreduce { .. }) && mapping.ends_with("8))") {
                    assert!(differs, "{call:?} goes over {mapping} as if it were one node");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn members_share_a_group_when_they_share_a_node(
            nodes in prop::collection::vec(0u32..5, 1..24),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..24),
        ) {
            let mut members: Vec<u32> = order.iter().map(|index| index.index(nodes.len()) as u32).collect();
            let mut seen = std::collections::BTreeSet::new();
            members.retain(|&member| seen.insert(member));
            let layout = of(&nodes, &members);
            let group = |rank: usize| layout.levels.first().map_or(0, |level| level.groups.group(rank as u32));
            for (a, &first) in members.iter().enumerate() {
                for (b, &second) in members.iter().enumerate() {
                    let together = nodes[first as usize] == nodes[second as usize];
                    prop_assert_eq!(group(a) == group(b), together, "{:?}", layout);
                }
            }
        }
    }
}
