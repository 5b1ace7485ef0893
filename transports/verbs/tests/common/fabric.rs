//! Processes over devices of the system, for the kit.

use super::Cards;
use std::time::Duration;
use weft_api::kit::Fabric;
use weft_rdma::Rdma;
use weft_types::PeerId;
use weft_verbs::{Choice, Verbs};

/// Processes that are one, each with its own opening of a device.
pub struct Processes {
    pub ends: Vec<Rdma<Verbs>>,
    pub choice: Choice,
    /// Somebody was killed: only the devices' clocks move things on.
    pub waits: bool,
    /// Nobody tells of a death: messages go by datagrams, and this network says nothing.
    pub immortal: bool,
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
        if self.immortal {
            return false;
        }
        self.ends[process] = open(&self.choice, process, Cards::default());
        self.waits = true;
        true
    }
}

pub fn open(choice: &Choice, process: usize, cards: Cards) -> Rdma<Verbs> {
    open_rails(choice, 1, process, cards)
}

pub fn open_rails(choice: &Choice, rails: usize, process: usize, cards: Cards) -> Rdma<Verbs> {
    let devices = (0..rails).map(|_| Verbs::open(choice.clone()).unwrap()).collect();
    let mut rdma = Rdma::open_rails(devices, PeerId(process as u32), Box::new(cards)).unwrap();
    // Paths do not fail here: whoever is silent is dead.
    rdma.set_patience(Duration::from_secs(1));
    rdma
}
