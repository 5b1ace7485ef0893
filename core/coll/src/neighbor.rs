//! Neighbourhood collectives (sections 8.6 and 8.7): one message along each edge of a virtual topology.

use crate::schedule::{Builder, Range, Schedule};

/// A block and the edge it travels along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The process at the other end.
    pub neighbor: u32,
    /// Tells edges between the same two processes apart: the same at both ends.
    pub channel: u32,
    /// The data, or the room for them.
    pub block: Range,
}

/// Sends and receives a block along each edge. Blocks without data are left out, at both ends alike (their lengths agree).
/// Receives come first, so that data that arrive at once find their place.
pub fn exchange(outgoing: &[Edge], incoming: &[Edge]) -> Schedule {
    let mut b = Builder::new();
    for edge in incoming.iter().filter(|edge| edge.block.bytes > 0) {
        b.recv_on(edge.channel, edge.neighbor, edge.block);
    }
    for edge in outgoing.iter().filter(|edge| edge.block.bytes > 0) {
        b.send_on(edge.channel, edge.neighbor, edge.block);
    }
    b.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Buffer, Step};

    #[test]
    fn all_edges_run_at_once() {
        let edge = |neighbor, channel, buffer, start| Edge {
            neighbor,
            channel,
            block: Range::new(buffer, start, if start == 16 { 0 } else { 8 }),
        };
        let out = [edge(1, 0, Buffer::Send, 0), edge(1, 1, Buffer::Send, 0), edge(2, 0, Buffer::Send, 16)];
        let incoming = [edge(1, 1, Buffer::Recv, 0), edge(1, 0, Buffer::Recv, 8)];
        let schedule = exchange(&out, &incoming);
        assert_eq!(schedule.steps().len(), 4, "the empty block is no message");
        assert_eq!(schedule.waits_for(), [0; 4]);
        let channels: Vec<u16> = schedule
            .steps()
            .iter()
            .map(|step| match *step {
                Step::Recv { channel, .. } | Step::Send { channel, .. } => channel,
                _ => unreachable!("messages only"),
            })
            .collect();
        assert_eq!(channels, [1, 0, 0, 1]);
    }
}
