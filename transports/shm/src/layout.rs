//! Where everything lies in the node segment: pure arithmetic on the number of local ranks.
//!
//! ```text
//! 0          header: magic, versions and the figures below, what the launcher tells ([`crate::words`])
//! slots      one 256-byte slot per rank
//! inbound    one bit per (receiver, sender): "this ring is in use"
//! rings      receiver 0: from sender 0, from sender 1, ...; receiver 1: ...
//! lane 1     inbound bitmaps and rings of its own, then lane 2, ...
//! pool       blocks for the collectives of communicators, given out at run time ([`crate::pool`])
//! ```
//!
//! What a node has once lies before the first ring; what every lane has (bitmaps and rings) is there once per lane. Lanes
//! that nobody uses are holes in the file.
//!
//! A ring's place follows from (receiver, sender), so nothing is ever allocated; the file is sparse, so a pair
//! that never talks costs one bit. All rings of one receiver lie together: a process maps its own column once
//! and each ring it sends on when it first sends.

/// Bytes of a page, the unit of everything mapped. Sizes are multiples of it on every supported machine: where
/// pages are larger (arm64, 64 KiB) the figures are rounded up to [`LARGEST_PAGE`].
pub const PAGE: u64 = 4096;
/// Largest base page of a supported machine.
const LARGEST_PAGE: u64 = 65536;
/// Bytes of the segment header.
pub const HEADER_BYTES: u64 = 5 * PAGE;
/// Bytes of a rank's slot.
pub const SLOT_BYTES: u64 = 256;
/// Bytes of a control cell: a pair of cache lines, the second of which only payloads above [`FIRST_LINE`] touch.
///
/// Measured against cells of one line: with both cores on one cache no row changes; on cores with a slow way between
/// them a 64-byte message takes 0.9 instead of 1.4 line transfers, for processors fetch lines in pairs.
pub const CELL_BYTES: u64 = 128;
/// Payload bytes that travel in the cell's first line.
pub const FIRST_LINE: usize = 40;
/// Payload bytes that travel inside a control cell.
pub const INLINE_BYTES: usize = 104;
/// Bytes between cells and data area: the consumer's line and the producer's line, each alone on 128 bytes.
pub const LINES_BYTES: u64 = 256;
/// Bytes of the table of parts of messages behind them ([`weft_api::shares`]).
pub const SHARES_BYTES: u64 = 384;
/// A line beyond round sizes, so that a piece of a message fits a packet together with the announcement in front of it.
const LINE: u32 = 64;
/// Alignment of records in the data area.
pub const RECORD_ALIGN: u32 = 64;
/// Most ranks that one node segment serves.
pub const MAX_RANKS: u32 = 4096;
/// Independent sets of rings in a segment (design section 6). Sets of lanes are bits of a word, so there are at most 32; one that
/// nobody uses is a hole in the file and a sleep word in every slot.
pub const LANES: u32 = 32;
/// Bytes of the pool for collectives, of which only what was given out is ever backed with memory.
/// (Less where every access is interpreted.)
pub const POOL_BYTES: u64 = if cfg!(miri) { 4 << 20 } else { 128 << 20 };

/// The figures of one node segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Ranks on this node.
    pub ranks: u32,
    /// Control cells per ring, a power of two.
    pub cells: u32,
    /// Bytes of data area per ring, a multiple of [`RECORD_ALIGN`].
    pub data_bytes: u32,
    /// Largest payload of one packet in bytes.
    pub max_copy: u32,
    /// Slots of `max_copy` bytes each that a ring begins with ([`crate::slots`]).
    pub slots: u32,
    page: u64,
}

impl Layout {
    /// The layout for `ranks` processes on a machine with pages of `page` bytes.
    ///
    /// Rings shrink as ranks grow, so that the whole stays addressable and an all-to-all between all of them
    /// affordable.
    ///
    /// # Panics
    /// When `ranks` is 0 or above [`MAX_RANKS`], or `page` is no power of two up to 64 KiB.
    pub fn new(ranks: u32, page: u64) -> Layout {
        assert!((1..=MAX_RANKS).contains(&ranks), "{ranks} ranks on one node, 1 to {MAX_RANKS} are possible");
        assert!(page.is_power_of_two() && page <= LARGEST_PAGE, "pages of {page} bytes");
        let (cells, data_bytes, max_copy) = match ranks {
            0..=4 => (128, 2 << 20, (32 << 10) + LINE),
            5..=32 => (128, 256 << 10, (32 << 10) + LINE),
            33..=128 => (128, 128 << 10, 16 << 10),
            129..=512 => (64, 64 << 10, 8 << 10),
            _ => (32, 32 << 10, 8 << 10),
        };
        let slots = match ranks {
            0..=4 => 64,
            5..=16 => 4,
            17..=32 => 2,
            _ => 0,
        };
        Layout { ranks, cells, data_bytes, max_copy, slots, page: page.max(PAGE) }
    }

    /// Offset of a rank's slot.
    pub fn slot(&self, rank: u32) -> u64 {
        HEADER_BYTES + u64::from(rank) * SLOT_BYTES
    }

    /// 64-bit words of one rank's inbound bitmap (whole cache lines).
    pub fn inbound_words(&self) -> u32 {
        self.ranks.div_ceil(512) * 8
    }

    /// Offset of a rank's inbound bitmap of a lane.
    pub fn inbound(&self, lane: u32, rank: u32) -> u64 {
        let first = if lane == 0 { self.slot(self.ranks) } else { self.lane_table(lane) };
        first + u64::from(rank) * u64::from(self.inbound_words()) * 8
    }

    /// Offset of the bitmaps of a lane other than 0.
    pub fn lane_table(&self, lane: u32) -> u64 {
        debug_assert!((1..LANES).contains(&lane));
        let rings = self.table_bytes() + u64::from(self.ranks) * self.column_bytes();
        let lane_bytes = self.lane_table_bytes() + u64::from(self.ranks) * self.column_bytes();
        rings + u64::from(lane - 1) * lane_bytes
    }

    /// Bytes of the bitmaps of a lane other than 0, in whole pages.
    pub fn lane_table_bytes(&self) -> u64 {
        (u64::from(self.ranks) * u64::from(self.inbound_words()) * 8).next_multiple_of(self.page)
    }

    /// Bytes before the first ring: header, slots and bitmaps, in whole pages.
    pub fn table_bytes(&self) -> u64 {
        self.inbound(0, self.ranks).next_multiple_of(self.page)
    }

    /// Offset of the control lines in a ring.
    pub fn lines(&self) -> u64 {
        u64::from(self.cells) * CELL_BYTES
    }

    /// Offset of the table of parts in a ring.
    pub fn shares(&self) -> u64 {
        self.lines() + LINES_BYTES
    }

    /// Offset of the data area in a ring.
    pub fn data(&self) -> u64 {
        self.shares() + SHARES_BYTES
    }

    /// Offset of the slots in a ring, a whole number of pages.
    pub fn slots_offset(&self) -> u64 {
        (self.data() + u64::from(self.data_bytes)).next_multiple_of(self.page)
    }

    /// Bytes of one ring, in whole pages.
    pub fn ring_bytes(&self) -> u64 {
        (self.slots_offset() + u64::from(self.slots) * u64::from(self.max_copy)).next_multiple_of(self.page)
    }

    /// Bytes of a ring that are backed by memory from the first contact on: the cells and room for one packet
    /// of `max_copy`, in whole pages. The rest of the data area follows as a sender first comes to it.
    pub fn first_bytes(&self) -> u64 {
        (self.data() + u64::from(self.max_copy)).next_multiple_of(self.page)
    }

    /// Offset of the column of rings that `receiver` reads in a lane.
    pub fn column(&self, lane: u32, receiver: u32) -> u64 {
        let first =
            if lane == 0 { self.table_bytes() } else { self.lane_table(lane) + self.lane_table_bytes() };
        first + u64::from(receiver) * self.column_bytes()
    }

    /// Bytes of a column.
    pub fn column_bytes(&self) -> u64 {
        u64::from(self.ranks) * self.ring_bytes()
    }

    /// Offset of a lane's ring from `sender` to `receiver`.
    pub fn ring(&self, lane: u32, receiver: u32, sender: u32) -> u64 {
        self.column(lane, receiver) + u64::from(sender) * self.ring_bytes()
    }

    /// Offset of the pool for collectives.
    pub fn pool(&self) -> u64 {
        self.column(LANES - 1, self.ranks)
    }

    /// Bytes of the whole segment (sparse).
    pub fn total_bytes(&self) -> u64 {
        self.pool() + POOL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_addressable_up_to_the_largest_node() {
        for (ranks, column_limit, total_limit) in [
            (1, 5 << 20, 160 << 20),
            (2, 9 << 20, 576 << 20),
            (128, 64 << 20, 256 << 30),
            (1024, 128 << 20, 4 << 40),
            // Of the 8 EiB that an offset can name.
            (4096, 512 << 20, 64 << 40),
        ] {
            for page in [4096, 65536] {
                let layout = Layout::new(ranks, page);
                assert!(layout.column_bytes() < column_limit, "{layout:?}");
                assert!(layout.pool() < total_limit, "{layout:?} {}", layout.total_bytes());
                assert!(layout.total_bytes() > layout.ring(LANES - 1, ranks - 1, ranks - 1));
            }
        }
    }

    #[test]
    fn pieces_do_not_overlap_and_are_page_aligned() {
        for ranks in [1, 2, 3, 31, 33, 128, 500, 1024, 4096] {
            for page in [4096_u64, 16384, 65536] {
                let layout = Layout::new(ranks, page);
                assert!(layout.cells.is_power_of_two());
                assert_eq!(layout.data_bytes % RECORD_ALIGN, 0);
                assert!(layout.data_bytes >= 4 * layout.max_copy);
                assert!(layout.inbound(0, 0) >= layout.slot(ranks - 1) + SLOT_BYTES);
                assert_eq!(layout.inbound(0, 0) % 64, 0);
                assert!(u64::from(layout.inbound_words()) * 64 >= u64::from(ranks));
                assert!(layout.table_bytes() >= layout.inbound(0, ranks - 1) + u64::from(ranks.div_ceil(8)));
                assert_eq!(layout.ring(0, 0, 0), layout.table_bytes());
                for lane in 1..LANES {
                    assert_eq!(layout.column(lane - 1, ranks), layout.inbound(lane, 0), "no gap, no overlap");
                    assert!(
                        layout.column(lane, 0)
                            >= layout.inbound(lane, ranks - 1) + u64::from(ranks.div_ceil(8))
                    );
                    assert_eq!(layout.lane_table(lane) % page, 0);
                    assert_eq!(layout.column(lane, 0) % page, 0);
                }
                for offset in [layout.table_bytes(), layout.ring_bytes(), layout.first_bytes()] {
                    assert_eq!(offset % page, 0);
                }
                assert!(layout.first_bytes() <= layout.ring_bytes());
                let last = layout.ring(LANES - 1, ranks - 1, ranks - 1);
                assert_eq!(last + layout.ring_bytes(), layout.pool());
            }
        }
    }

    #[test]
    fn a_peer_never_talked_to_costs_a_slot_and_a_bit() {
        let layout = Layout::new(1024, 4096);
        // The header is the node's, and there once.
        let per_rank = (layout.table_bytes() - HEADER_BYTES) / 1024;
        assert!(per_rank <= 384, "{per_rank} bytes of table per rank");
        const { assert!(HEADER_BYTES <= 20 << 10) };
    }
}
