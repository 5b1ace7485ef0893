//! Barriers (section 6.3).

use crate::call::Group;
use crate::model::Estimate;
use crate::schedule::{Buffer, Builder, Range, StepId};
use crate::tree::{Shape, Tree};

const NOTHING: Range = Range::new(Buffer::Recv, 0, 0);

/// Dissemination: in round `k` every rank tells the one 2^k further on (Hensgen, Finkel, Manber 1988).
pub(crate) fn dissemination(b: &mut Builder, group: Group) {
    add_dissemination(b, group, &mut Vec::new());
}

/// Appends a dissemination that begins after the steps in `gate`, which then holds its last.
pub(crate) fn add_dissemination(b: &mut Builder, group: Group, gate: &mut Vec<StepId>) {
    let Group { rank, size } = group;
    let mut distance = 1;
    while distance < size {
        // What is told in a round stands for everything heard in all rounds before.
        let tells = b.send((rank + distance) % size, NOTHING);
        // One receive at a time: it mostly finds its message without being posted.
        let hears = b.recv((rank + size - distance) % size, NOTHING);
        for &before in gate.iter() {
            b.order(before, tells);
            b.order(before, hears);
        }
        *gate = vec![hears];
        distance *= 2;
    }
}

/// Dissemination in which a rank tells `radix - 1` others in a round: fewer rounds for more messages (Hoefler et al., *Fast
/// barrier synchronization for InfiniBand*, 2006).
pub(crate) fn wide_dissemination(b: &mut Builder, group: Group, radix: u32) {
    let Group { rank, size } = group;
    let mut gate: Vec<StepId> = Vec::new();
    let mut distance = 1;
    while distance < size {
        let others: Vec<u32> =
            (1..radix).map_while(|k| distance.checked_mul(k)).filter(|&d| d < size).collect();
        // Two ranks that are both before and after one another at different distances tell each other on channels of
        // their own.
        let tells: Vec<_> =
            (0..).zip(&others).map(|(i, d)| b.send_on(i, (rank + d) % size, NOTHING)).collect();
        let hears: Vec<_> =
            (0..).zip(&others).map(|(i, d)| b.recv_on(i, (rank + size - d) % size, NOTHING)).collect();
        for &before in &gate {
            tells.iter().chain(&hears).for_each(|&step| b.order(before, step));
        }
        gate = hears;
        distance = distance.saturating_mul(radix);
    }
}

/// Adds the time of a dissemination.
pub(crate) fn dissemination_estimate(estimate: &mut Estimate<'_>, group: Group, radix: u32) {
    let mut distance = 1;
    while distance < group.size {
        let others = (1..radix).take_while(|k| distance.saturating_mul(*k) < group.size).count() as u32;
        estimate.exchange_many(others, distance, None, 0.0);
        distance = distance.saturating_mul(radix);
    }
}

/// All tell their parent, the root releases them: the fewest waits when ranks share cores.
pub(crate) fn tree(b: &mut Builder, group: Group, shape: Shape) {
    let tree = Tree::new(shape, group.rank, group.size);
    let mut gate = Vec::new();
    add_arrival(b, &tree, &mut gate);
    add_release(b, &tree, &gate);
}

/// Appends the way up a tree, after the steps in `gate`, which then holds what the rank must wait for.
pub(crate) fn add_arrival(b: &mut Builder, tree: &Tree, gate: &mut Vec<StepId>) {
    gate.extend(tree.children.iter().map(|&(child, _)| b.recv(child, NOTHING)));
    if let Some(parent) = tree.parent {
        let told = b.send(parent, NOTHING);
        gate.iter().for_each(|&child| b.order(child, told));
        let released = b.recv(parent, NOTHING);
        b.order(told, released);
        *gate = vec![released];
    }
}

/// Appends the way down a tree, after the steps in `gate`.
pub(crate) fn add_release(b: &mut Builder, tree: &Tree, gate: &[StepId]) {
    for &(child, _) in tree.children.iter().rev() {
        let release = b.send(child, NOTHING);
        gate.iter().for_each(|&before| b.order(before, release));
    }
}
