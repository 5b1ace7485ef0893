//! A job in which one road does not do: what this process opens, what it says of itself, and how it knows by which road another is reached
//! ([`weft_place::pairs`]).
//!
//! Each process says the name of its node's kind under one key, and how it is found by each road that it opens under one more. Who is met is
//! looked up there: its kind, then its card for the road between the two kinds. In lanes other than lane 0 the cards stand in what the lane of
//! another says of itself: `letter=card|letter=card`; its kind is asked of the launcher there as well, since an engine asks what leads to a
//! process before that has answered.

use std::sync::Arc;

use weft_boot::{Launcher, SharedLauncher};
use weft_engine::{Carrier, Directory, Guide, Lead, OfiCard, OfiDirectory, PeerCard};
use weft_place::agreed::Road;
use weft_place::pairs::{self, Pairs};
use weft_place::transport::Way;
use weft_types::{Error, ErrorClass, PeerId, Result};

/// What a process of such a job knows of its roads.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    pairs: Arc<Pairs>,
    /// The number of its node's kind.
    kind: usize,
    /// What it opens; the first has the registered memory.
    pub(super) roads: Vec<Road>,
}

impl Mixed {
    /// For a process whose node has these `roads`, `rank` by number.
    ///
    /// # Errors
    /// They are not those that its node's first process has said.
    pub(super) fn new(pairs: Pairs, roads: &[Road], rank: u32) -> Result<Mixed> {
        let Some(kind) = pairs.kind(&pairs::name(roads)) else {
            let own = roads.iter().map(Road::to_string).collect::<Vec<_>>().join(" or ");
            return Err(failed(format!(
                "process {rank} can use {own} alone, unlike the first process of its node: give all processes of a node the same environment \
                 (WEFT_TRANSPORT, WEFT_RDMA, LD_LIBRARY_PATH)"
            )));
        };
        let roads = pairs.opened(kind);
        Ok(Mixed { pairs: Arc::new(pairs), kind, roads })
    }

    /// The launcher's key under which a process says its kind.
    fn key(rank: u32) -> String {
        format!("weft-kind-{rank}")
    }

    /// Leaves with the launcher what this process is.
    pub(super) fn tell(&self, launcher: &mut SharedLauncher, rank: u32) -> Result<()> {
        launcher.put(&Mixed::key(rank), &self.name())
    }

    fn name(&self) -> String {
        pairs::name(&self.pairs.kinds()[self.kind].roads)
    }

    /// What moves messages in the job, for choices that are the same at all processes: the slowest that there is.
    pub(super) fn carrier(&self) -> Carrier {
        let roads = self.pairs.roads();
        if roads.contains(&Road::Softroce) {
            Carrier::Emulator
        } else if roads.contains(&Road::Libfabric) {
            Carrier::Sockets
        } else {
            Carrier::Device
        }
    }

    /// Whether a device emulated here carries messages of this process.
    pub(super) fn is_by_datagrams(&self) -> bool {
        self.roads.iter().any(|road| road.way() == Way::Softroce)
    }

    /// What leads to a process of the kind with this name.
    fn lead(&self, kind: &str, peer: PeerId) -> Result<Lead> {
        let found = self.pairs.kind(kind).and_then(|other| {
            let road = self.pairs.road(self.kind, other)?;
            let way = self.roads.iter().position(|open| *open == road)?;
            Some(Lead { way, memory: self.pairs.reaches_memory(self.kind, other) })
        });
        found.ok_or_else(|| {
            failed(format!(
                "process {} is on a node with other transports than the first process there has said ({kind}): give all processes of a node \
                 the same environment (WEFT_TRANSPORT, WEFT_RDMA, LD_LIBRARY_PATH)",
                peer.0
            ))
        })
    }

    /// What the end of a lane says of itself, that is found by `cards`.
    pub(super) fn said(&self, cards: &[String]) -> String {
        let part = |(road, card): (&Road, &String)| format!("{}={card}", road.letter());
        self.roads.iter().zip(cards).map(part).collect::<Vec<_>>().join("|")
    }
}

fn failed(why: String) -> Error {
    Error::new(ErrorClass::OTHER, why)
}

/// The launcher knows the kinds.
#[derive(Clone, Debug)]
pub(super) struct ByLauncher {
    pub(super) mixed: Mixed,
    pub(super) launcher: SharedLauncher,
}

impl Guide for ByLauncher {
    fn find(&mut self, peer: PeerId) -> Result<Lead> {
        let kind = self.launcher.get(peer.0, &Mixed::key(peer.0))?;
        let kind = kind.ok_or_else(|| {
            failed(format!("the launcher does not know how process {} is reached: did it start with the same WEFT_TRANSPORT?", peer.0))
        })?;
        self.mixed.lead(&kind, peer)
    }
}

/// Who knows what the same lane of another process says of itself.
pub(crate) trait Texts: std::fmt::Debug + Send {
    /// What it says.
    ///
    /// # Errors
    /// It has not said anything yet, or cannot be reached.
    fn text(&self, peer: PeerId) -> Result<String>;
}

/// The cards of the ends of a lane: by one road of several, or by the only one.
#[derive(Clone, Debug)]
pub(super) struct LaneCards<T> {
    pub(super) road: Option<Road>,
    pub(super) texts: T,
}

impl<T: Texts> LaneCards<T> {
    fn card(&self, peer: PeerId) -> Result<String> {
        let text = self.texts.text(peer)?;
        let Some(road) = self.road else { return Ok(text) };
        card_by(&text, road).map(str::to_owned).ok_or_else(|| {
            failed(format!("the lane of process {} is not reached by {road}: it says {text:?}", peer.0))
        })
    }
}

/// The card for one road in what the end of a lane says of itself.
fn card_by(text: &str, road: Road) -> Option<&str> {
    text.split('|').find_map(|part| part.strip_prefix(road.letter())?.strip_prefix('='))
}

impl<T: Texts> Directory for LaneCards<T> {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        self.card(peer)?.parse()
    }
}

impl<T: Texts> OfiDirectory for LaneCards<T> {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.card(peer)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_place::agreed::Kind;
    use weft_place::pairs::{Between, between};
    use weft_place::transport::Wish;

    fn mixed(words: &[&str], roads: &[Road]) -> Result<Mixed> {
        let kinds: Vec<Kind> = words.iter().map(|word| Kind::read(word, (*word).to_owned(), 2)).collect();
        match between(&kinds, &Wish::default()).expect("roads") {
            Between::Pairs(pairs) => Mixed::new(pairs, roads, 5),
            Between::One(one) => panic!("{words:?} take {}", one.road),
        }
    }

    #[test]
    fn each_process_finds_the_road_to_another_kind() {
        const WITH: [Road; 2] = [Road::InfiniBand, Road::Softroce];
        let with = mixed(&["iu", "u"], &WITH).expect("a kind");
        let without = mixed(&["iu", "u"], &[Road::Softroce]).expect("a kind");
        assert_eq!((&with.roads[..], &without.roads[..]), (&WITH[..], &[Road::Softroce][..]));
        let lead = |of: &Mixed, kind| of.lead(kind, PeerId(1)).expect("a road");
        assert_eq!(lead(&with, "iu"), Lead { way: 0, memory: true });
        assert_eq!(lead(&with, "u"), Lead { way: 1, memory: false });
        assert_eq!(
            lead(&without, "iu"),
            Lead { way: 0, memory: false },
            "its own device, and not the other's"
        );
        assert_eq!(lead(&without, "u"), Lead { way: 0, memory: true });
        assert!(with.lead("r", PeerId(1)).is_err(), "no such node has said anything");
        assert!(mixed(&["iu", "u"], &[Road::Roce]).is_err_and(|error| error.text().contains("process 5")));
        assert_eq!(
            (with.carrier(), without.carrier()),
            (Carrier::Emulator, Carrier::Emulator),
            "the same for all"
        );
        assert_eq!(
            mixed(&["irl", "l", "il"], &[Road::Libfabric]).expect("a kind").carrier(),
            Carrier::Sockets
        );
        assert!(with.is_by_datagrams() && without.is_by_datagrams());
    }

    #[test]
    fn a_lane_says_how_it_is_found_by_each_road() {
        let with = mixed(&["iu", "u"], &[Road::Softroce, Road::InfiniBand]).expect("a kind");
        let said = with.said(&["fe80::1/10/0".to_owned(), "[10.0.0.1]:4791/10/0+x".to_owned()]);
        assert_eq!(said, "i=fe80::1/10/0|u=[10.0.0.1]:4791/10/0+x");
        assert_eq!(card_by(&said, Road::Softroce), Some("[10.0.0.1]:4791/10/0+x"));
        assert_eq!(card_by(&said, Road::InfiniBand), Some("fe80::1/10/0"));
        assert_eq!(card_by(&said, Road::Roce), None);
    }
}
