//! The node segment: one sparse, unnamed file that all ranks of a node share.
//!
//! Whoever comes first writes the header; the others compare. Every word of it is set by compare-and-swap from
//! zero to the one value that this build and this job allow, so no order and no lock is needed, and a
//! disagreement is found by the one who disagrees. Slots are written by their owner alone (but for the sleep
//! word, see [`crate::bell`], and the count of arrivals), published by a Release store of the state.

use crate::arrivals::Inbox;
use crate::bell::Doors;
use crate::doorbell::Doorbells;
use crate::layout::{HEADER_BYTES, LANES, Layout, MAX_RANKS, SLOT_BYTES};
use crate::sys::{self, Mapping};
use crate::words::{Word, Words};
use std::fs::File;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use weft_types::{Error, ErrorClass, Farewell, Result};

/// "WEFTSHM" and the version of the layout described in this crate.
const MAGIC: u64 = u64::from_le_bytes(*b"WEFTSHM\x08");

/// What the first rank of a node says of its cores, and so how sleepers and senders agree (see [`crate::bell`]); one choice for
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// Every rank has its core: sleepers interrupt the others (`membarrier`), senders pay nothing.
    Membarrier,
    /// Ranks outnumber cores: senders fence, sleepers pay nothing.
    Fence,
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Has not attached yet.
    Absent,
    /// Runs.
    Attached,
    /// Left in order.
    Finalized,
    /// Died, says the launcher.
    Dead,
}

const ABSENT: u32 = 0;
const ATTACHING: u32 = 1;
const ATTACHED: u32 = 2;
const FINALIZED: u32 = 3;
const DEAD: u32 = 4;

#[repr(C, align(4096))]
struct Header {
    words: [AtomicU64; 7],
    /// What else all processes of the node must have alike ([`Segment::agree_on`]); 0: nobody has said it.
    alike: AtomicU64,
    /// 0 undecided, 1 membarrier, 2 fence.
    waking: AtomicU32,
    /// How many of `far_losses` there are.
    far_count: AtomicU32,
    /// Processes of other nodes that died, by their numbers in the job, as the launcher says (it alone writes).
    far_losses: [AtomicU32; MOST_FAR_LOSSES],
    /// What else it says.
    told: Words,
}

/// Deaths on other nodes that are told here; of more, the fabric tells.
const MOST_FAR_LOSSES: usize = 1000;

/// What a process tells the others. The first line is read at every send and hardly ever written; the next two are those of
/// the sleep words of lanes beyond the tenth, and hardly ever written either; the last is read at first contact, and by its
/// owner, who watches the arrivals.
#[repr(C, align(128))]
pub(crate) struct Slot {
    state: AtomicU32,
    pub(crate) doors: Doors,
    /// By lane the NUMA node of its core, plus 1; 0: that of the process. Written by its owner.
    lane_nodes: [AtomicU8; LANES as usize],
    _line: [u8; 8],
    /// Rings put into use so far.
    pub(crate) arrivals: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// NUMA node on which the process has attached.
    node: AtomicU32,
    /// What it has left behind, as a word ([`Farewell::to_word`]): it may have ended MPI after a loss, and nobody may have met
    /// it who could be told by a message. Written by its owner.
    farewell: AtomicU32,
    /// A number and the address where the process keeps a copy of it: who can read it there can read all.
    pub(crate) nonce: AtomicU64,
    pub(crate) nonce_address: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES as usize);
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES as usize);
// Lane 0's sleep word is in the first line, and the arrivals have a line without sleep words.
const _: () =
    assert!(offset_of!(Slot, doors) + offset_of!(Doors, words) < 64 && offset_of!(Slot, arrivals) == 192);

impl Slot {
    pub(crate) fn state(&self) -> PeerState {
        match self.state.load(Ordering::Acquire) {
            ABSENT | ATTACHING => PeerState::Absent,
            ATTACHED => PeerState::Attached,
            FINALIZED => PeerState::Finalized,
            _ => PeerState::Dead,
        }
    }

    /// The NUMA node that reads a lane's rings.
    pub(crate) fn lane_node(&self, lane: u32) -> u32 {
        // Relaxed: a wish; who does not see it yet asks for memory elsewhere.
        match self.lane_nodes[lane as usize].load(Ordering::Relaxed) {
            0 => self.node.load(Ordering::Relaxed),
            number => u32::from(number) - 1,
        }
    }

    /// Says on which NUMA node a lane's core is; by the owner. Numbers too large for a byte are not said.
    pub(crate) fn place_lane(&self, lane: u32, node: u32) {
        let number = u8::try_from(node.saturating_add(1)).unwrap_or(0);
        self.lane_nodes[lane as usize].store(number, Ordering::Relaxed);
    }

    /// Whether the process has left in order. What it wrote before is seen by who finds that out (Acquire).
    pub(crate) fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == FINALIZED
    }

    /// What the process has left behind, in order or after a loss. What it wrote before is seen by who finds that out (Acquire).
    pub(crate) fn farewell(&self) -> Farewell {
        if self.has_ended() { Farewell::ALL } else { self.said() }
    }

    /// What the process has said that it leaves behind, whether it is there still or not.
    pub(crate) fn said(&self) -> Farewell {
        Farewell::from_word(self.farewell.load(Ordering::Acquire))
    }

    /// The last word of a process: nobody waits for it any more.
    fn leave(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        self.doors.set_gone();
    }
}

/// The mapped table of a node segment: header, slots, bitmaps.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<File>,
    pub(crate) layout: Layout,
    table: Mapping,
    /// What threads of this process sleep on beside another transport.
    pub(crate) doorbells: Doorbells,
}

impl Segment {
    /// Opens the segment for `ranks` local ranks, or makes it when `file` is empty.
    pub(crate) fn open(file: File, ranks: u32) -> Result<Segment> {
        let layout = Layout::new(ranks, sys::page_bytes());
        let io = |what: &str, error: std::io::Error| {
            Error::new(
                ErrorClass::OTHER,
                format!("cannot {what} the shared-memory segment of this node ({ranks} ranks): {error}"),
            )
        };
        let len = file.metadata().map_err(|e| io("examine", e))?.len();
        if len < layout.total_bytes() {
            file.set_len(layout.total_bytes()).map_err(|e| io("size", e))?;
        }
        // Others may be using the table already, so where there is no fallocate it stays as it is.
        sys::allocate(&file, 0, layout.table_bytes()).map_err(|e| {
            no_room(&e, layout.table_bytes(), format_args!("the table of the {ranks} ranks of this node"))
        })?;
        let table = Mapping::new(&file, 0, layout.table_bytes()).map_err(|e| io("map", e))?;
        let segment = Segment { file: Arc::new(file), layout, table, doorbells: Doorbells::default() };
        segment.agree()?;
        Ok(segment)
    }

    /// Writes the header or compares with it.
    fn agree(&self) -> Result<()> {
        let Layout { ranks, cells, data_bytes, max_copy, .. } = self.layout;
        let figures = [
            ("kind of segment (magic number and layout version)", MAGIC),
            ("wire version", u64::from(weft_wire::VERSION)),
            ("number of local ranks", u64::from(ranks)),
            ("cells per ring", u64::from(cells)),
            ("bytes per ring", u64::from(data_bytes)),
            ("largest packet", u64::from(max_copy)),
            ("page size", sys::page_bytes()),
        ];
        for (word, (what, mine)) in self.header().words.iter().zip(figures) {
            if let Err(theirs) = word.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire)
                && theirs != mine
            {
                return Err(Error::new(
                    ErrorClass::OTHER,
                    format!(
                        "the shared-memory segment of this node was made by another build of Weft, or is none: \
                         {what} is {theirs:#x} there and {mine:#x} here. All ranks of a job must use the same \
                         libmpi_abi.so.1; check LD_LIBRARY_PATH and the RUNPATH of every program of the job"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Says that all processes of the node must have this word (not 0) alike; that of who said it first, where it is another one.
    pub(crate) fn agree_on(&self, word: u64) -> std::result::Result<(), u64> {
        match self.header().alike.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire) {
            Err(theirs) if theirs != word => Err(theirs),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The job's choice of waking: ours when we are the first to ask.
    pub(crate) fn agree_on_waking(&self, mine: Waking) -> Waking {
        let word = match mine {
            Waking::Membarrier => 1,
            Waking::Fence => 2,
        };
        match self.header().waking.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => mine,
            Err(1) => Waking::Membarrier,
            Err(_) => Waking::Fence,
        }
    }

    /// Says that a process of another node died, and wakes everybody. One caller at a time: the launcher.
    pub(crate) fn lose_far(&self, peer: u32) {
        let header = self.header();
        let count = header.far_count.load(Ordering::Relaxed);
        let Some(place) = header.far_losses.get(count as usize) else { return };
        place.store(peer, Ordering::Relaxed);
        header.far_count.store(count + 1, Ordering::Release);
        self.tell_all();
    }

    /// The processes of other nodes that died, but for the first `seen`.
    pub(crate) fn far_losses(&self, seen: u32) -> impl Iterator<Item = u32> + '_ {
        let header = self.header();
        let count = (header.far_count.load(Ordering::Acquire) as usize).min(MOST_FAR_LOSSES);
        header.far_losses[..count].iter().skip(seen as usize).map(|peer| peer.load(Ordering::Relaxed))
    }

    /// Tells a word of the launcher, and wakes everybody. One caller at a time: the launcher.
    pub(crate) fn tell(&self, word: Word) -> bool {
        let told = self.header().told.push(word);
        if told {
            self.tell_all();
        }
        told
    }

    /// The launcher's words but for the first `seen`, and how many there are.
    pub(crate) fn words(&self, seen: u32) -> (impl Iterator<Item = Word> + '_, u32) {
        self.header().told.after(seen)
    }

    fn header(&self) -> &Header {
        // SAFETY: the table mapping begins with a header and lives as long as `self`; all fields are atomics and any
        // bytes are valid values.
        unsafe { &*self.table.base().cast::<Header>() }
    }

    /// A rank's slot.
    pub(crate) fn slot(&self, rank: u32) -> &Slot {
        assert!(rank < self.layout.ranks, "local rank {rank} of {}", self.layout.ranks);
        // SAFETY: in the table mapping by the layout; all fields are atomics and any bytes are valid values.
        unsafe { &*self.table.base().add(self.layout.slot(rank) as usize).cast::<Slot>() }
    }

    /// A rank's inbound bitmap of lane 0, one bit per sender.
    pub(crate) fn inbound(&self, rank: u32) -> &[AtomicU64] {
        assert!(rank < self.layout.ranks, "local rank {rank} of {}", self.layout.ranks);
        // SAFETY: as for slots; the bitmap has `inbound_words` words by the layout.
        unsafe {
            let first = self.table.base().add(self.layout.inbound(0, rank) as usize).cast();
            std::slice::from_raw_parts(first, self.layout.inbound_words() as usize)
        }
    }

    /// Takes the slot of `rank` for this process.
    pub(crate) fn claim(&self, rank: u32, nonce: &AtomicU64) -> Result<()> {
        let slot = self.slot(rank);
        slot.state.compare_exchange(ABSENT, ATTACHING, Ordering::AcqRel, Ordering::Acquire).map_err(
            |_| {
                Error::new(
                    ErrorClass::OTHER,
                    format!(
                        "local rank {rank} of this node is already taken by process {}: two processes were \
                     started as the same rank",
                        slot.pid.load(Ordering::Relaxed)
                    ),
                )
            },
        )?;
        slot.pid.store(std::process::id(), Ordering::Relaxed);
        slot.node.store(sys::current_node(), Ordering::Relaxed);
        slot.nonce.store(nonce.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.nonce_address.store(nonce.as_ptr() as u64, Ordering::Relaxed);
        slot.state.store(ATTACHED, Ordering::Release);
        Ok(())
    }

    /// Says that `rank` left in order.
    pub(crate) fn finalize(&self, rank: u32) {
        self.slot(rank).leave(FINALIZED);
    }

    /// Says that `rank`, the caller, has ended MPI after a loss, or a part of it, and wakes everybody; its doors stay open for
    /// what is under way and for a new beginning.
    pub(crate) fn part(&self, rank: u32, farewell: Farewell) {
        let slot = self.slot(rank);
        slot.farewell.store(slot.said().and(farewell).to_word(), Ordering::Release);
        self.tell_all();
    }

    /// Says that `rank` died, and wakes everybody so that they can see it.
    pub(crate) fn bury(&self, rank: u32) {
        self.slot(rank).leave(DEAD);
        self.tell_all();
    }

    /// Makes everybody look at what was announced, also those who sleep.
    fn tell_all(&self) {
        // All are told before any is woken: who hears of it from another one first knows by then.
        for other in 0..self.layout.ranks {
            self.slot(other).arrivals.fetch_add(1, Ordering::Release);
        }
        for other in 0..self.layout.ranks {
            // The other side arms, fences and looks at the count (see [`crate::bell`]). The launcher is not subject to
            // membarrier.
            fence(Ordering::SeqCst);
            (0..LANES).for_each(|lane| self.slot(other).doors.ring(lane));
        }
    }
}

/// What announces the rings to one process in one lane.
pub(crate) struct Announced<'a> {
    pub(crate) bitmap: &'a [AtomicU64],
    pub(crate) count: &'a AtomicU32,
}

impl Inbox for Announced<'_> {
    fn set(&self, word: usize, bits: u64) {
        self.bitmap[word].fetch_or(bits, Ordering::Release);
    }

    fn bits(&self, word: usize) -> u64 {
        self.bitmap[word].load(Ordering::Acquire)
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::Release);
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
}

/// The inbound bitmaps of one lane.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// `None`: lane 0, whose bitmaps lie in the segment's table.
    table: Option<Mapping>,
    segment: Arc<Segment>,
}

impl Inbound {
    /// Those of `lane`; memory for them is there from now on.
    pub(crate) fn open(segment: &Arc<Segment>, lane: u32) -> Result<Inbound> {
        let table = match lane {
            0 => None,
            _ => {
                let (offset, bytes) = (segment.layout.lane_table(lane), segment.layout.lane_table_bytes());
                sys::allocate(&segment.file, offset, bytes)
                    .map_err(|e| no_room(&e, bytes, format_args!("the table of lane {lane}")))?;
                Some(Mapping::new(&segment.file, offset, bytes).map_err(|e| {
                    Error::new(ErrorClass::NO_MEM, format!("cannot map the table of lane {lane}: {e}"))
                })?)
            }
        };
        Ok(Inbound { table, segment: Arc::clone(segment) })
    }

    /// A rank's bitmap, one bit per sender.
    fn of(&self, rank: u32) -> &[AtomicU64] {
        let Some(table) = &self.table else { return self.segment.inbound(rank) };
        let layout = &self.segment.layout;
        assert!(rank < layout.ranks, "local rank {rank} of {}", layout.ranks);
        let words = layout.inbound_words() as usize;
        // SAFETY: the mapping has `inbound_words` words for every rank by the layout; all are atomics, any bytes are valid.
        unsafe {
            std::slice::from_raw_parts(table.base().cast::<AtomicU64>().add(rank as usize * words), words)
        }
    }

    /// What announces the rings to a rank.
    pub(crate) fn announced(&self, rank: u32) -> Announced<'_> {
        Announced { bitmap: self.of(rank), count: &self.segment.slot(rank).arrivals }
    }
}

/// Length of the node segment of `ranks` ranks, for whoever makes or sizes its file. Sparse. (More ranks than a node
/// takes are refused when the first of them attaches.)
pub fn bytes(ranks: u32) -> u64 {
    Layout::new(ranks.clamp(1, MAX_RANKS), sys::page_bytes()).total_bytes()
}

/// Makes the file of a node segment, empty, without a name, inherited by child processes.
///
/// # Errors
/// No memory file can be made.
pub fn create() -> Result<File> {
    sys::memory_file().map_err(|error| {
        Error::new(
            ErrorClass::OTHER,
            format!(
                "cannot make a file in memory for the ranks of this node: {error}; is /dev/shm writable?"
            ),
        )
    })
}

/// Tells the ranks of a node that local rank `rank` of `ranks` died; for the launcher.
///
/// # Errors
/// `file` is no node segment of this build for `ranks` ranks.
pub fn mark_dead(file: &File, ranks: u32, rank: u32) -> Result<()> {
    let file = file.try_clone().map_err(|error| {
        Error::new(ErrorClass::OTHER, format!("cannot use the shared-memory segment: {error}"))
    })?;
    Segment::open(file, ranks)?.bury(rank);
    Ok(())
}

/// Tells the `ranks` ranks of a node that process `peer` of the job, on another node, died; for the launcher, which must not do
/// it twice at the same time.
///
/// # Errors
/// As [`mark_dead`].
pub fn mark_far_dead(file: &File, ranks: u32, peer: u32) -> Result<()> {
    let file = file.try_clone().map_err(|error| {
        Error::new(ErrorClass::OTHER, format!("cannot use the shared-memory segment: {error}"))
    })?;
    Segment::open(file, ranks)?.lose_far(peer);
    Ok(())
}

/// Tells the `ranks` ranks of a node a word of the launcher, which must not do it twice at the same time. False when the node has
/// been told too much already, and will not know.
///
/// # Errors
/// As [`mark_dead`].
pub fn tell(file: &File, ranks: u32, word: Word) -> Result<bool> {
    let file = file.try_clone().map_err(|error| {
        Error::new(ErrorClass::OTHER, format!("cannot use the shared-memory segment: {error}"))
    })?;
    Ok(Segment::open(file, ranks)?.tell(word))
}

/// The error for memory that cannot be had, with the remedy.
pub(crate) fn no_room(error: &std::io::Error, bytes: u64, what: std::fmt::Arguments<'_>) -> Error {
    Error::new(
        ErrorClass::NO_MEM,
        format!(
            "no room for {bytes} bytes of shared memory for {what}: {error}. The memory of the machine, the limit of \
             the container or job (memory cgroup), or /dev/shm is full: free some, raise the limit (for containers \
             --shm-size or --memory), or run fewer ranks per node"
        ),
    )
}
