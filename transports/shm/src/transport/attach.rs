//! How a process joins its node, and how its lanes do.

use super::{Departure, NOT_ACTIVE, Shm};
use crate::layout::{LANES, MAX_RANKS};
use crate::peers::PeerMap;
use crate::segment::{Inbound as Arrived, Segment, Waking};
use crate::single_copy::SingleCopy;
use crate::sys::{self, Mapping};
use std::collections::BTreeMap;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;
use weft_types::{Error, ErrorClass, Farewell, PeerId, Result};

/// What a process must know to join its node.
#[derive(Debug)]
pub struct Config {
    /// The node segment: a file in memory, empty or made by another rank ([`crate::create`]).
    pub file: File,
    /// Our index among the ranks of this node.
    pub local: u32,
    /// The rank in the job of every local index; its length is the number of local ranks.
    pub peers: Vec<PeerId>,
    /// Whether reading other processes' memory may be tried at all.
    pub single_copy: bool,
    /// How sleepers are woken; the first rank's wish counts.
    pub waking: Waking,
}

impl Shm {
    /// Joins the node.
    ///
    /// # Errors
    /// The segment cannot be sized, mapped or backed with memory; it was made by another build; the local index
    /// is taken; there are more ranks than [`MAX_RANKS`].
    ///
    /// # Panics
    /// When `config.local` is not an index into `config.peers`.
    pub fn attach(config: Config) -> Result<Shm> {
        let ranks = config.peers.len() as u32;
        assert!(config.local < ranks, "local rank {} of {ranks}", config.local);
        if ranks > MAX_RANKS {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!("{ranks} ranks on one node, at most {MAX_RANKS} are supported: use more nodes"),
            ));
        }
        let segment = Segment::open(config.file, ranks)?;
        let layout = segment.layout;
        let waking = segment.agree_on_waking(config.waking);
        let registered = waking == Waking::Membarrier && sys::membarrier_register();
        let column = Mapping::new(&segment.file, layout.column(0, config.local), layout.column_bytes())
            .map_err(|error| no_address_space(&error, layout.column_bytes()))?;
        let single_copy = SingleCopy::new(config.single_copy, ranks);
        segment.claim(config.local, single_copy.nonce())?;
        let segment = Arc::new(segment);
        Ok(Shm {
            own: NonNull::from(segment.slot(config.local)),
            lane: 0,
            inbound: Arrived::open(&segment, 0)?,
            segment,
            column,
            me: config.local,
            map: PeerMap::new(config.peers),
            outbound: (0..ranks).map(|_| None).collect(),
            active: Vec::new(),
            position: vec![NOT_ACTIVE; ranks as usize],
            cursor: 0,
            arrivals: 0,
            shown: None,
            seen_dead: vec![false; ranks as usize],
            seen_farewells: vec![Farewell::NONE; ranks as usize],
            lost: Vec::new(),
            named: Departure::Death,
            far_seen: 0,
            words_seen: 0,
            far_farewells: BTreeMap::new(),
            inquiries: Vec::new(),
            single_copy,
            agreed: waking,
            fenced: !registered,
            blind: waking == Waking::Membarrier && !registered,
            numa: sys::several_nodes(),
            pool: None,
        })
    }

    /// Compares a word (not 0) that all processes of the node must have alike.
    ///
    /// # Errors
    /// That of the process which was first, where it is another one.
    pub fn agree(&self, word: u64) -> std::result::Result<(), u64> {
        self.segment.agree_on(word)
    }

    /// Says on which NUMA node the core of each lane is, as far as it is known: the others' first messages in a lane ask for memory there.
    /// By lane 0, before others know of the lanes.
    pub fn place_lanes(&self, nodes: &[Option<u32>]) {
        for (lane, node) in (0..LANES).zip(nodes) {
            if let Some(node) = *node {
                self.segment.slot(self.me).place_lane(lane, node);
            }
        }
    }

    /// This process's end of another lane: rings of their own, the same slot and the same sleep. Every lane is opened at
    /// most once, and none outlives lane 0, which speaks for the process.
    ///
    /// # Errors
    /// The lane's memory cannot be mapped or backed.
    ///
    /// # Panics
    /// When `lane` is not between 1 and [`LANES`], or `self` is not lane 0.
    pub fn lane(&self, lane: u32) -> Result<Shm> {
        assert!(self.lane == 0 && (1..LANES).contains(&lane), "lane {lane} from lane {}", self.lane);
        let (segment, layout) = (Arc::clone(&self.segment), self.segment.layout);
        let column = Mapping::new(&segment.file, layout.column(lane, self.me), layout.column_bytes())
            .map_err(|error| no_address_space(&error, layout.column_bytes()))?;
        let ranks = layout.ranks as usize;
        Ok(Shm {
            own: self.own,
            lane,
            inbound: Arrived::open(&segment, lane)?,
            segment,
            column,
            me: self.me,
            map: self.map.clone(),
            outbound: (0..ranks).map(|_| None).collect(),
            active: Vec::new(),
            position: vec![NOT_ACTIVE; ranks],
            cursor: 0,
            arrivals: 0,
            shown: None,
            seen_dead: vec![false; ranks],
            seen_farewells: vec![Farewell::NONE; ranks],
            lost: Vec::new(),
            named: Departure::Death,
            far_seen: 0,
            words_seen: 0,
            far_farewells: BTreeMap::new(),
            inquiries: Vec::new(),
            single_copy: self.single_copy.another(),
            agreed: self.agreed,
            fenced: self.fenced,
            blind: self.blind,
            numa: self.numa,
            pool: None,
        })
    }
}

#[cold]
pub(super) fn no_address_space(error: &std::io::Error, bytes: u64) -> Error {
    Error::new(
        ErrorClass::NO_MEM,
        format!(
            "cannot map {bytes} bytes of the shared-memory segment: {error}; is the address space of the process \
             limited (ulimit -v)?"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weft_api::{Bell, Transport};

    fn alone() -> Shm {
        let file = crate::create().expect("a memory file");
        let peers = vec![PeerId(0), PeerId(1)];
        Shm::attach(Config { file, local: 0, peers, single_copy: false, waking: Waking::Membarrier })
            .expect("attached")
    }

    #[test]
    fn who_cannot_be_sure_to_be_rung_sleeps_shortly() {
        let mut shm = alone();
        (shm.fenced, shm.blind) = (true, true);
        assert!(!shm.is_crowded(), "what one rank cannot do says nothing of the cores of all");
        assert!(shm.waking().contains("not available"));
        let bell = shm.bell();
        bell.arm();
        let start = std::time::Instant::now();
        bell.sleep(Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn more_ranks_than_a_node_takes_are_an_error() {
        let file = crate::create().expect("a memory file");
        let peers = (0..=MAX_RANKS).map(PeerId).collect();
        let error =
            Shm::attach(Config { file, local: 0, peers, single_copy: false, waking: Waking::Membarrier })
                .expect_err("too many");
        assert!(error.text().contains("4097 ranks"), "{error}");
    }

    #[cfg(not(miri))]
    #[test]
    fn a_mapping_takes_memory_of_the_node_that_was_asked_for() {
        let shm = alone();
        let ring = shm.segment.layout.ring(0, 1, 0);
        let mapping = Mapping::new(&shm.segment.file, ring, 4096).expect("mapped");
        mapping.prefer_node(0);
        sys::back(&shm.segment.file, ring, 4096).expect("backed");
        let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") else {
            return println!("skipped: this kernel does not tell");
        };
        let address = format!("{:x} ", mapping.base() as usize);
        let line = maps.lines().find(|line| line.starts_with(&address)).expect("our mapping");
        assert!(line.contains("prefer:0"), "{line}");
    }

    #[test]
    fn who_comes_later_hears_what_the_first_has_said() {
        let file = crate::create().expect("a memory file");
        let [first, second] = [0, 1].map(|local| {
            let (file, peers) = (file.try_clone().expect("the same file"), vec![PeerId(0), PeerId(1)]);
            Shm::attach(Config { file, local, peers, single_copy: false, waking: Waking::Membarrier })
                .expect("attached")
        });
        assert_eq!((first.agree(5), second.agree(5)), (Ok(()), Ok(())));
        assert_eq!(second.agree(7), Err(5));
    }

    #[test]
    fn rings_of_a_lane_are_near_its_core_as_far_as_that_is_said() {
        let shm = alone();
        let slot = shm.segment.slot(0);
        let own = slot.lane_node(0);
        shm.place_lanes(&[None, Some(3), Some(254), Some(255), Some(u32::MAX), Some(0)]);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|lane| slot.lane_node(lane)), [own, 3, 254, own, own, 0, own]);
    }
}
