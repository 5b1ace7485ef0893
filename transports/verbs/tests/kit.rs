//! Messages over the device of the system have the properties of a transport. Needs a device: see `common::port`.

mod common;

use common::Cards;
use std::time::Duration;
use weft_api::kit::{self, Fabric};
use weft_rdma::Rdma;
use weft_types::PeerId;
use weft_verbs::{Choice, Verbs};

struct Processes {
    ends: Vec<Rdma<Verbs>>,
    choice: Choice,
    /// Somebody was killed: only the devices' clocks move things on.
    waits: bool,
}

impl Fabric for Processes {
    type Transport = Rdma<Verbs>;

    fn ends(&mut self) -> &mut [Rdma<Verbs>] {
        &mut self.ends
    }

    fn idle(&mut self) {
        // The kernel's device needs a processor too.
        if self.waits {
            std::thread::sleep(Duration::from_micros(100));
        } else {
            std::thread::yield_now();
        }
    }

    /// Its queue pairs go with it; who takes its place is nobody that the others know.
    fn kill(&mut self, process: usize) -> bool {
        self.ends[process] = open(&self.choice, process, Cards::default());
        self.waits = true;
        true
    }
}

fn open(choice: &Choice, process: usize, cards: Cards) -> Rdma<Verbs> {
    let device = Verbs::open(choice.clone()).unwrap();
    let mut rdma = Rdma::open(device, PeerId(process as u32), Box::new(cards)).unwrap();
    // Paths do not fail here: whoever is silent is dead.
    rdma.set_patience(Duration::from_secs(1));
    rdma
}

#[test]
fn every_property_holds_over_the_device() {
    let Some(choice) = common::port() else { return };
    kit::every_property(|processes| {
        let cards = Cards::default();
        let ends: Vec<_> = (0..processes).map(|process| open(&choice, process, cards.clone())).collect();
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes { ends, choice: choice.clone(), waits: false }
    });
}
