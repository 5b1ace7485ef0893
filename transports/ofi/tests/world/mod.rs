//! Processes of a test, all in this one, that find each other.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use weft_ofi::select::Wanted;
use weft_ofi::{Ofi, OfiCard, OfiDirectory, offers};
use weft_types::{Error, PeerId};

/// Cards by process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cards(Arc<Mutex<Vec<OfiCard>>>);

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<OfiCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

#[allow(dead_code, reason = "not all tests open ends one by one")]
/// One process's end.
pub(crate) fn open(process: usize, wanted: &Wanted, cards: &Cards) -> Ofi {
    Ofi::open(PeerId(process as u32), wanted, Box::new(cards.clone())).expect("an endpoint")
}

/// The ends of so many processes.
pub(crate) fn all(processes: usize, wanted: &Wanted) -> (Vec<Ofi>, Cards) {
    all_with(processes, wanted, |_, cards| Box::new(cards))
}

/// As [`all`], each with a directory of its own.
pub(crate) fn all_with(
    processes: usize,
    wanted: &Wanted,
    mut directory: impl FnMut(usize, Cards) -> Box<dyn OfiDirectory>,
) -> (Vec<Ofi>, Cards) {
    let cards = Cards::default();
    let end = |process: usize| {
        Ofi::open(PeerId(process as u32), wanted, directory(process, cards.clone())).expect("an endpoint")
    };
    let ends: Vec<Ofi> = (0..processes).map(end).collect();
    *cards.0.lock().unwrap() = ends.iter().map(|end| end.card().clone()).collect();
    (ends, cards)
}

#[allow(dead_code, reason = "not all tests are of the installed library")]
/// What to ask for to get this provider; `None`, with a word, where the installed library lacks it.
pub(crate) fn wanted(provider: &str) -> Option<Wanted> {
    let offered = match offers() {
        Ok((offers, library)) => {
            println!("{library}");
            offers.iter().any(|offer| offer.provider == provider)
        }
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    if !offered {
        println!("skipped: this libfabric does not offer {provider}");
        return None;
    }
    let sockets = provider != "shm";
    Some(Wanted {
        between_nodes: false,
        address: sockets.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        provider: Some(provider.into()),
        rail: None,
        carrier: None,
        processes: None,
        job: None,
        offload: None,
    })
}
