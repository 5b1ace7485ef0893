//! Barriers (section 6.3).

use crate::call::Group;
use crate::schedule::{Buffer, Builder, Range, Schedule};
use crate::tree::{Shape, Tree};

const NOTHING: Range = Range::new(Buffer::Recv, 0, 0);

/// Dissemination: in round `k` every rank tells the one 2^k further on (Hensgen, Finkel, Manber 1988).
pub(crate) fn dissemination(group: Group) -> Schedule {
    let Group { rank, size } = group;
    let mut b = Builder::new();
    let mut heard = None;
    let mut distance = 1;
    while distance < size {
        // What is told in a round stands for everything heard in all rounds before.
        let tells = b.send((rank + distance) % size, NOTHING);
        // One receive at a time: it mostly finds its message without being posted.
        let hears = b.recv((rank + size - distance) % size, NOTHING);
        if let Some(heard) = heard {
            b.order(heard, tells);
            b.order(heard, hears);
        }
        heard = Some(hears);
        distance *= 2;
    }
    b.finish()
}

/// All tell their parent, the root releases them: the fewest waits when ranks share cores.
pub(crate) fn tree(group: Group, shape: Shape) -> Schedule {
    let tree = Tree::new(shape, group.rank, group.size);
    let mut b = Builder::new();
    let arrived: Vec<_> = tree.children.iter().map(|&(child, _)| b.recv(child, NOTHING)).collect();
    let mut gate = arrived;
    if let Some(parent) = tree.parent {
        let told = b.send(parent, NOTHING);
        gate.iter().for_each(|&child| b.order(child, told));
        let released = b.recv(parent, NOTHING);
        b.order(told, released);
        gate = vec![released];
    }
    for &(child, _) in tree.children.iter().rev() {
        let release = b.send(child, NOTHING);
        gate.iter().for_each(|&before| b.order(before, release));
    }
    b.finish()
}
