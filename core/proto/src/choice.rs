//! Which protocol carries a message: a function of sizes, capabilities and budget, nothing else.

use crate::credit::charge;

/// What the sender knows about the way to one peer. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendLimits {
    /// Largest payload of one packet.
    pub packet: u32,
    /// The same of packets of a message that leaves in several.
    pub full: u32,
    /// Largest message sent in one packet: longer ones gain by both ends copying at the same time.
    pub single: u32,
    /// Largest message sent without asking.
    pub eager: u32,
    /// How much of a longer message follows its announcement without asking, when streaming is expected.
    pub lead: u32,
    /// Shortest packet of a message that leaves in several.
    pub piece: u32,
}

/// How a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPlan {
    /// In one packet, complete when the packet is taken.
    Eager,
    /// Announced; the first `lead` bytes follow at once (all of them: eager in several packets), the rest when
    /// the receiver asks for them or takes them itself.
    Announce {
        /// Bytes that follow without being asked for.
        lead: u32,
    },
}

/// Chooses for a message of `length` packed bytes with `prefix` protocol bytes in front and `left` bytes of budget.
/// `taken`: the receiver is expected to take the data itself, so a lead would be copied for nothing.
#[inline]
pub fn plan_send(length: u64, prefix: u32, limits: &SendLimits, left: u32, taken: bool) -> SendPlan {
    if length <= u64::from(limits.eager) {
        let short = length as u32;
        if charge(short) <= left {
            return if short <= limits.single && short + prefix <= limits.packet {
                SendPlan::Eager
            } else {
                SendPlan::Announce { lead: short }
            };
        }
        return SendPlan::Announce { lead: 0 };
    }
    let lead = if taken || charge(limits.lead) > left { 0 } else { limits.lead };
    SendPlan::Announce { lead: (u64::from(lead)).min(length) as u32 }
}

/// Longest of the packets that [`piece`] gives.
const LONGEST_PIECE: u32 = 32 << 10;

/// Payload of the packets that carry a message of `length` bytes: small enough that the two ends work at the same
/// time on most of it, large enough that the packets themselves do not count: an eighth of the message, between
/// [`SendLimits::piece`] and 32 KiB.
///
/// The sender's copy of every piece ends with a wait until the other core has given up all its lines, 0.06 us between near
/// and 0.15 us between distant cores.
#[inline]
pub fn piece(length: u64, limits: &SendLimits) -> u32 {
    let most = u64::from(LONGEST_PIECE.max(limits.piece));
    let piece = (length / 8).next_multiple_of(1024).clamp(u64::from(limits.piece), most);
    piece.min(u64::from(limits.full)) as u32
}

/// Bytes that the two ends copy in the time one more packet costs, for each byte of a block: short blocks are copied at
/// 5 to 10 GB/s, and a packet costs a quarter of a microsecond.
const PACKET_COST: u64 = 256;

/// The same where each block lies on pages of its own (`paged`), which makes it four times as long.
const PAGED_PACKET_COST: u64 = 64;

/// As [`piece`], of a message with gaps whose blocks have `block` bytes in the mean. The last packet is unpacked while
/// nothing else happens, and every packet has its cost: the sum of the two is least at the root of their product.
#[inline]
pub fn piece_with_gaps(length: u64, block: u64, paged: bool, limits: &SendLimits) -> u32 {
    let cost = if paged { PAGED_PACKET_COST } else { PACKET_COST };
    let best = length.saturating_mul(block.saturating_mul(cost)).isqrt();
    best.next_multiple_of(1024).clamp(2 << 10, 32 << 10).min(u64::from(limits.full)) as u32
}

/// As [`SendLimits::single`], of a message with gaps: longer ones gain by being cut in two.
#[inline]
pub fn single_with_gaps(block: u64, limits: &SendLimits) -> u32 {
    block.saturating_mul(2 * PACKET_COST).min(u64::from(limits.single)) as u32
}

/// How the rest of an announced message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivePlan {
    /// The receiver reads the sender's memory.
    SingleCopy,
    /// The sender streams packets, both ends copy at the same time.
    Stream,
}

/// What the choice of the receiver depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiveCosts {
    /// Whether the sender's memory can be read at all, with what runs there are on both sides.
    pub readable: bool,
    /// Whether the two ends share a core, so that streaming is not parallel and every full ring is a switch.
    pub oversubscribed: bool,
    /// Seconds for a packet to be seen.
    pub latency: f64,
    /// Bytes per second of streaming with both ends working.
    pub stream: f64,
    /// Bytes per second of a single copy.
    pub single: f64,
    /// Seconds for the runs of memory on both sides, beyond what one run on each costs.
    pub runs: f64,
}

/// How messages with gaps travel where the receiver can read the sender's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// As [`plan_receive`] finds from the costs.
    #[default]
    Auto,
    /// The receiver reads them, from layout to layout.
    Read,
    /// Packed and unpacked piece by piece, by both ends at the same time.
    Stream,
}

/// Seconds of one system call that copies between processes, without the bytes.
const CALL: f64 = 0.6e-6;
/// Bytes a stream moves before the two ends of a shared core have to take turns, and seconds for the switch.
const TURN: (f64, f64) = (64e3, 3e-6);

/// Chooses for `bytes` that are still to come.
pub fn plan_receive(bytes: u64, costs: &ReceiveCosts) -> ReceivePlan {
    if !costs.readable {
        return ReceivePlan::Stream;
    }
    let bytes = bytes as f64;
    let single = CALL + costs.latency + costs.runs + bytes / costs.single;
    let stream = if costs.oversubscribed {
        2.0 * bytes / costs.stream + (1.0 + bytes / TURN.0) * TURN.1
    } else {
        2.0 * costs.latency + bytes / costs.stream
    };
    if single < stream { ReceivePlan::SingleCopy } else { ReceivePlan::Stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SendLimits =
        SendLimits { packet: 8192, full: 8192, single: 8192, eager: 65536, lead: 32768, piece: 16384 };

    #[test]
    fn messages_with_gaps_are_cut_by_what_their_blocks_cost() {
        let limits =
            SendLimits { packet: 32768, full: 32768, single: 32768, eager: 65536, lead: 32768, piece: 16384 };
        // Twice what is copied while a packet is made: two packets of that size.
        assert_eq!(single_with_gaps(8, &limits), 4096);
        assert_eq!(piece_with_gaps(8000, 8, false, &limits), 4096);
        assert_eq!(piece_with_gaps(64 << 10, 8, true, &limits), 6 << 10);
        // Sixteen times the message, four times the piece.
        assert_eq!(
            piece_with_gaps(16 * 8192, 8, false, &limits),
            4 * piece_with_gaps(8192, 8, false, &limits)
        );
        // Long blocks are as good as none; the limits hold at every size.
        assert_eq!(
            (single_with_gaps(1 << 40, &limits), piece_with_gaps(1 << 40, 1 << 40, false, &limits)),
            (32768, 32768)
        );
        assert_eq!(piece_with_gaps(1, 1, false, &limits), 2048);
        assert_eq!(piece_with_gaps(1 << 30, 8, false, &SendLimits { full: 8192, ..limits }), 8192);
    }

    #[test]
    fn pieces_grow_with_the_message_and_keep_their_limits() {
        let limits = SendLimits { packet: 32768, full: 32768, ..LIMITS };
        for (length, expected) in [(0, 16384), (64 << 10, 16384), (200 << 10, 25600), (u64::MAX, 32768)] {
            assert_eq!(piece(length, &limits), expected, "{length}");
        }
        assert_eq!(piece(1 << 20, &LIMITS), 8192, "what the transport takes");
        assert_eq!(piece(32 << 10, &SendLimits { piece: 4096, ..limits }), 4096, "what the user says");
    }

    #[test]
    fn the_plan_changes_exactly_at_its_borders() {
        let plenty = 1 << 20;
        let lead = |lead| SendPlan::Announce { lead };
        for (length, prefix, left, taken, expected) in [
            (0, 0, plenty, false, SendPlan::Eager),
            (8192, 0, plenty, false, SendPlan::Eager),
            (8193, 0, plenty, false, lead(8193)),
            (8184, 8, plenty, false, SendPlan::Eager),
            (8185, 8, plenty, false, lead(8185)),
            (65536, 0, plenty, true, lead(65536)),
            (65537, 0, plenty, false, lead(32768)),
            (65537, 0, plenty, true, lead(0)),
            (65537, 0, charge(32768) - 1, false, lead(0)),
            (100, 0, charge(100), false, SendPlan::Eager),
            (100, 0, charge(100) - 1, false, lead(0)),
            (u64::MAX, 0, plenty, false, lead(32768)),
        ] {
            assert_eq!(
                plan_send(length, prefix, &LIMITS, left, taken),
                expected,
                "length {length} prefix {prefix} left {left} taken {taken}"
            );
        }
    }

    #[test]
    fn large_messages_stream_with_a_core_each_and_are_read_when_cores_are_shared() {
        let costs = ReceiveCosts {
            readable: true,
            oversubscribed: false,
            latency: 1e-7,
            stream: 26e9,
            single: 13e9,
            runs: 0.0,
        };
        assert_eq!(plan_receive(1 << 20, &costs), ReceivePlan::Stream);
        assert_eq!(
            plan_receive(1 << 20, &ReceiveCosts { oversubscribed: true, ..costs }),
            ReceivePlan::SingleCopy
        );
        // Where a device reads faster than packets come, blocks of 16 KiB at the sender are worth reading one by one; of 1 KiB
        // they are not.
        let device = ReceiveCosts { stream: 4e9, ..costs };
        for (block, plan) in [(16 << 10, ReceivePlan::SingleCopy), (1 << 10, ReceivePlan::Stream)] {
            let runs = f64::from((1 << 20) / block) * 5e-7;
            assert_eq!(plan_receive(1 << 20, &ReceiveCosts { runs, ..device }), plan);
        }
        assert_eq!(
            plan_receive(1 << 20, &ReceiveCosts { oversubscribed: true, readable: false, ..costs }),
            ReceivePlan::Stream
        );
    }
}
