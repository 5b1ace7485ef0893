//! Libfabric's software providers have the properties of a transport. Which of them there are depends on the installed library; each
//! missing one is named.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use weft_api::kit::{self, Fabric};
use weft_ofi::select::Wanted;
use weft_ofi::{Ofi, OfiCard, OfiDirectory, offers};
use weft_types::{Error, PeerId};

/// Cards by process.
#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<Vec<OfiCard>>>);

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<OfiCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

struct Processes {
    wanted: Wanted,
    cards: Cards,
    ends: Vec<Ofi>,
    mortal: bool,
    /// Somebody died: to notice takes time, not calls.
    slow: bool,
}

fn open(process: usize, wanted: &Wanted, cards: &Cards) -> Ofi {
    Ofi::open(PeerId(process as u32), wanted, Box::new(cards.clone())).expect("an endpoint")
}

impl Processes {
    fn new(processes: usize, wanted: &Wanted, mortal: bool) -> Processes {
        let cards = Cards::default();
        let ends: Vec<Ofi> = (0..processes).map(|process| open(process, wanted, &cards)).collect();
        *cards.0.lock().unwrap() = ends.iter().map(|end| end.card().clone()).collect();
        Processes { wanted: wanted.clone(), cards, ends, mortal, slow: false }
    }
}

impl Fabric for Processes {
    type Transport = Ofi;

    fn ends(&mut self) -> &mut [Ofi] {
        &mut self.ends
    }

    fn idle(&mut self) {
        if self.slow {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        self.slow = true;
        // A stranger takes the dead one's place among the ends; nobody has its address.
        self.ends[process] = open(process, &self.wanted, &self.cards);
        self.mortal
    }
}

fn over(provider: &str, mortal: bool) {
    let offered = match offers() {
        Ok((offers, library)) => {
            println!("{library}");
            offers.iter().any(|offer| offer.provider == provider)
        }
        Err(error) => return println!("skipped: {error}"),
    };
    if !offered {
        return println!("skipped: this libfabric does not offer {provider}");
    }
    let sockets = provider != "shm";
    let wanted = Wanted {
        between_nodes: false,
        address: sockets.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        provider: Some(provider.into()),
        job: None,
    };
    println!("{}", Processes::new(1, &wanted, false).ends[0].why());
    kit::every_property(|processes| Processes::new(processes, &wanted, mortal));
}

#[test]
fn tcp_below_rxm_has_every_property() {
    over("tcp;ofi_rxm", true);
}

#[test]
fn tcp_alone_has_every_property() {
    over("tcp", true);
}

#[test]
fn shared_memory_has_every_property() {
    over("shm", false);
}
