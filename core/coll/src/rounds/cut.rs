//! Into which pieces a call is cut, and in how many phases it goes: all members cut a call alike, short forms and scripts too.

use super::ways::{NodeCall, Told, Way, course, payload_way};
use super::{Cores, Course, Shape};

/// What more members than two would read in a flat reduction, beyond what two read, from which it goes in two phases: what takes
/// as long as the second wait.
pub(super) const TWO_PHASES_FROM: u64 = 16 << 10;
/// The same where members share cores: there a wait is a change of processes.
const TWO_PHASES_FROM_CROWDED: u64 = 128 << 10;
/// The same there of reductions that all need, where blocks are exchanged.
pub(super) const TWO_PHASES_FROM_EXCHANGED: u64 = 64 << 10;
/// The same of those to a root, where all others have done when they have written: 64 KiB of four 7.8 us in one phase and 14.4 in two, 256 KiB 27
/// and 33, of eight 64 KiB 20 and 30, 128 KiB 48 and 43.
const REDUCED_IN_TWO_PHASES_FROM: u64 = 768 << 10;
/// Pieces a call of medium size is cut into at least, so that writing and reading overlap.
const PIECES: u64 = 2;
/// Bytes of a piece of a broadcast where members share cores. The root waits for nobody before its ring is full, so that pieces cost
/// it no change of processes, and those on other cores read while it still writes.
const BROADCAST_PIECE: u64 = 64 << 10;
/// Fewest pieces of a reduction to a root in more than one, where members share cores: all but the root wait for nobody's results, and
/// two pieces are slower than three (512 KiB of four near members 70 and 64 us).
const REDUCED_PIECES: u64 = 3;
/// Bytes of the longest element by which parts of a vector may differ in length without need of more room: a result is one of
/// as many equal parts of a contribution as there are members, and at most an element.
pub(super) const LONG_ELEMENT: u64 = 1024;
/// Bytes of the longest piece where some write and others read, among more than two: those read it while the next one is written.
const LONGEST_PIECE: u64 = 14 << 10;
/// The same between two members, where one writes and the other reads, and payloads of which that many are faster than two: 64 KiB broadcast 8.6
/// instead of 9.6 us, 128 KiB reduced 17.2 instead of 18.6, gathered 22 instead of 25. Scattered
/// ones, and longer ones, gained nothing.
const LONGEST_FOR_ONE: u64 = 16 << 10;
const CUT_FOR_ONE: std::ops::RangeInclusive<u64> = 64 << 10..=128 << 10;
/// Smallest piece worth a round of its own.
const LEAST_PIECE: u64 = 8192;
/// Bytes of a block for each member from which on a call in one phase is exchanged block by block, where there is room for that. Shorter ones lie
/// in the nearest caches anyhow, and a short form is sooner there (8 members, 8 KiB for each: 20 and 23 us).
pub(super) const EXCHANGED_FROM: u64 = 2 << 10;
/// Bytes of the blocks of all members for all to which it is: else, and of what is the same for all. Beyond that was not measured. Pieces are no shorter
/// than of payloads since both have half a ring (four members 128 KiB for each and 96). Far cores (a line .17 us) beside other work, payloads / exchanged, ms:
/// 8 members, alltoall 256 KiB 2.4 / .56, 512 KiB 8.4 / 3.9, reduce-scatter 2.0 / .41 and 4.7 / 2.8; 4 members, 1 MiB 2.0 / 1.3 and 1.1 / .55, but allgather
/// 2.0 / 2.7.
const EXCHANGED_TO: u64 = 64 << 20;
const EXCHANGED_ALIKE_TO: u64 = 8 << 20;
/// Members of one core from which on allreduces go core by core. Far cores (a line .17 us) beside much other work, in two phases / core by core, us: 8 members
/// 32 KiB 27 / 16, 128 KiB 61 / 53, 512 KiB 220 / 184. Of 4, two to a core, it is one piece that matters, which long blocks of cores allow: two near cores of a
/// Zen 5 256 KiB 29.3 / 27.1, 512 KiB 56 / 53, far ones (.185 us) 43.3 / 42.9 and 82.5 / 82.8; half of the bytes go from core to core.
pub(super) const BY_CORES_FROM: u32 = 2;
/// Most members that exchange what is the same for all: each writes it once for every other.
const ALIKE_AMONG: u32 = 5;
/// Bytes of the blocks of all members for all in a piece where there are several: what a core's members write and read of two pieces stays nearer to it.
/// (Bare program, two near cores of a Zen 5, 256 KiB for each of eight, pieces of 64 / 32 KiB, us: reduce-scatter 365 / 311, alltoall 500 / 480; 512 KiB for each of four,
/// pieces of 128 / 64 KiB: 95 / 101, 121 / 126.) What goes in one piece is sooner there (64 KiB for each of eight, one / two / four: 59 / 59 / 69 and 68 / 70 / 80).
const IN_SEVERAL: u64 = 2 << 20;
/// A broadcast to one other goes by a message from here to there: memory of a message goes to and fro between the two, that of
/// payloads one way only, which takes a sixth longer (128 KiB near 5.1 and 4.4 us, 256 KiB 8.6 and 7.6). Beyond, both are bound by memory.
const TO_ONE_BY_MESSAGE: std::ops::Range<u64> = (64 << 10) + 1..1 << 20;

/// What the members of a communicator have to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of a long payload.
    pub slot: usize,
    /// The same of contributions of calls in two phases: two of them fit and two results, each a member's part of one. With half of
    /// it two results fit that are as long as they are.
    pub in_two_phases: usize,
    /// Bytes of a block that each member gives to each in such calls, written by who has read there last; 0: there are none.
    pub block: usize,
    /// The same where one member of each core gives one to one of each other core.
    pub block_of_cores: usize,
    /// Whether members share cores, so that each wait costs a change of processes. The same at all members.
    pub crowded: bool,
    /// Bytes of the longest payload for members of the writer's core; two fit.
    pub near: usize,
    /// Which members share a core, where all are bound to theirs.
    pub cores: Cores,
    /// What rules say of the call.
    pub told: Told,
}

impl Room {
    /// Bytes of the longest payload of any call of so many members.
    pub fn most(self, members: u32) -> usize {
        self.slot.max(self.in_two_phases).max(self.block * members as usize).max(self.near)
    }

    /// The same for all calls.
    pub fn alike(slot: usize, crowded: bool) -> Room {
        Room {
            slot,
            in_two_phases: slot,
            block: 0,
            block_of_cores: 0,
            crowded,
            near: 0,
            cores: Cores::default(),
            told: Told::default(),
        }
    }
}

/// Whether a call surely goes in one round, whatever else is true of it: what a short form may do without a script. The
/// converse does not hold. `slot`, `block`: of the [`Room`].
#[inline]
pub fn is_one_round(shape: Shape, members: u32, bytes: u64, slot: usize, block: usize) -> bool {
    let blocks = shape.blocks(members);
    !is_exchanged(shape, members, bytes, block)
        && bytes * blocks <= slot as u64
        && pieces_for_overlap(shape, members, bytes) < 2
        && bytes * u64::from(members.saturating_sub(2)) < TWO_PHASES_FROM
}

/// Whether a call in one phase is exchanged block by block; `block`: of the [`Room`]. The same for short forms and scripts.
#[inline]
fn is_exchanged(shape: Shape, members: u32, bytes: u64, block: usize) -> bool {
    block > 0 && bytes >= EXCHANGED_FROM * u64::from(members) && is_measured_exchanged(shape, members, bytes)
}

/// Whether such calls were found to be faster so, if they are not too short.
#[inline]
pub(super) fn is_measured_exchanged(shape: Shape, members: u32, bytes: u64) -> bool {
    let most = match shape {
        Shape::Alltoall | Shape::ReduceScatter => EXCHANGED_TO,
        Shape::Allgather if members <= ALIKE_AMONG => EXCHANGED_ALIKE_TO,
        _ => return false,
    };
    let members = u64::from(members);
    bytes.saturating_mul(members * members) <= most
}

/// What a reduction's second phase costs, in bytes of others that a member could read meanwhile.
pub(super) fn second_wait(shape: Shape, room: &Room) -> u64 {
    match shape {
        _ if !room.crowded => TWO_PHASES_FROM,
        Shape::Allreduce if room.block > 0 => TWO_PHASES_FROM_EXCHANGED,
        Shape::Reduce { .. } if room.block > 0 => REDUCED_IN_TWO_PHASES_FROM,
        _ => TWO_PHASES_FROM_CROWDED,
    }
}

/// Bytes of the longest piece of a call that goes core by core ([`super::by_cores`]): each core combines a part, which fits a block.
pub(super) fn longest_by_cores(element: u64, room: &Room) -> u64 {
    let parts = room.block_of_cores as u64 / element * element * u64::from(room.cores.count());
    parts.min(room.near as u64) / element * element
}

/// Whether a call that could go by rounds is over sooner by messages. The same at all members.
#[inline]
pub fn is_sooner_by_messages(shape: Shape, members: u32, bytes: u64) -> bool {
    members == 2 && matches!(shape, Shape::Bcast { .. }) && TO_ONE_BY_MESSAGE.contains(&bytes)
}

/// Pieces of a medium payload, so that one is read while the next is written. The same for short forms and scripts: members that
/// cut a call differently would read what is not there.
/// Where all write, they do so at the same time, and then all read: a piece more is a wait more.
#[inline]
fn pieces_for_overlap(shape: Shape, members: u32, bytes: u64) -> u64 {
    if shape.joins_all() {
        return 1;
    }
    let payload = bytes.saturating_mul(shape.blocks(members));
    let longest = match shape {
        _ if members > 2 => LONGEST_PIECE,
        Shape::Bcast { .. } | Shape::Reduce { .. } | Shape::Gather { .. }
            if CUT_FOR_ONE.contains(&payload) =>
        {
            LONGEST_FOR_ONE
        }
        _ => u64::MAX,
    };
    (payload / LEAST_PIECE).min(PIECES).max(payload.div_ceil(longest))
}

/// How a call is cut. The same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes of a block in one round.
    pub piece: u64,
    /// Rounds, or pairs of them.
    pub pieces: u64,
    /// Whether a reduction goes in two phases.
    pub two_phases: bool,
    /// Whether payloads are exchanged block by block.
    pub exchanges: bool,
    /// Whether the call goes core by core.
    pub by_cores: bool,
    /// Whether its bytes go through payloads or are read, where a rule says so; otherwise by trial where they are contested.
    pub course: Option<Course>,
}

impl Cut {
    /// Cuts a call of so many bytes a block (see [`super::Script::new`]).
    pub(super) fn of(
        shape: Shape,
        members: u32,
        bytes: u64,
        element: u64,
        in_place: bool,
        room: Room,
    ) -> Cut {
        let blocks = shape.blocks(members);
        let call = NodeCall { shape, members, bytes, element, in_place, blocking: true, room };
        let way = payload_way(&call);
        let course = if room.told.is_nothing() { None } else { course(&call) };
        let (two_phases, exchanges) = match way {
            Way::ByCores => {
                let fits = room.told.longest(longest_by_cores(element, &room), element);
                let (piece, pieces) = cut(bytes, element, fits, 1);
                return Cut { piece, pieces, two_phases: false, exchanges: false, by_cores: true, course };
            }
            Way::TwoPhases => (true, false),
            Way::Exchanged => (matches!(shape, Shape::Reduce { .. } | Shape::Allreduce), true),
            Way::Flat | Way::Reading | Way::Messages => (false, false),
        };
        let slot = match two_phases {
            false if exchanges => room.block * blocks as usize,
            // A member's part of a piece fits a block; parts differ by an element.
            true if exchanges => room.block / element as usize * element as usize * members as usize,
            // One result may be as long as all of them are together otherwise.
            true if element > LONG_ELEMENT => room.in_two_phases / 2,
            true => room.in_two_phases,
            false => room.slot,
        };
        let fits = room.told.longest((slot as u64 / blocks / element * element).max(1), element);
        // Long calls go in as few pieces as fit, medium ones in two, short ones in one; all about equally long.
        let several = match shape {
            Shape::Reduce { .. } if room.crowded && two_phases && bytes > slot as u64 => REDUCED_PIECES,
            Shape::Bcast { .. } if room.crowded => bytes.div_ceil(BROADCAST_PIECE),
            // All write contributions, and then all read.
            _ if room.crowded || two_phases => 1,
            _ => pieces_for_overlap(shape, members, bytes),
        };
        let fits = match exchanges && !two_phases && bytes > fits {
            true => {
                let longest = IN_SEVERAL / u64::from(members * members);
                (longest / element * element).max(element).min(fits)
            }
            false => fits,
        };
        let (piece, pieces) = cut(bytes, element, fits, several);
        Cut { piece, pieces, two_phases, exchanges, by_cores: false, course }
    }
}

/// Pieces of about the same length, of at most `fits` bytes and as many as `several` at least: bytes of one, and how many.
fn cut(bytes: u64, element: u64, fits: u64, several: u64) -> (u64, u64) {
    let pieces = bytes.div_ceil(fits).max(several).max(1);
    let piece = bytes.div_ceil(pieces).next_multiple_of(64).div_ceil(element) * element;
    let piece = piece.min(fits).min(bytes.max(1)).max(1);
    (piece, bytes.div_ceil(piece).max(1))
}
