//! Shared memory has the properties of a transport.

use std::fs::File;
use weft_api::kit::{self, Fabric};
use weft_shm::{Config, Shm, Waking};
use weft_types::PeerId;

struct Node {
    file: File,
    ends: Vec<Shm>,
}

impl Fabric for Node {
    type Transport = Shm;

    fn ends(&mut self) -> &mut [Shm] {
        &mut self.ends
    }

    fn kill(&mut self, process: usize) -> bool {
        weft_shm::mark_dead(&self.file, self.ends.len() as u32, process as u32)
            .expect("a mark in the segment");
        true
    }
}

fn node(processes: usize, waking: Waking) -> Node {
    let file = weft_shm::create().expect("a memory file");
    let ends = (0..processes)
        .map(|local| {
            let file = file.try_clone().expect("a descriptor");
            let peers = (0..processes as u32).map(PeerId).collect();
            Shm::attach(Config { file, local: local as u32, peers, single_copy: true, waking })
                .expect("attached")
        })
        .collect();
    Node { file, ends }
}

#[test]
fn every_property_holds_with_either_way_of_waking() {
    for waking in [Waking::Membarrier, Waking::Fence] {
        kit::every_property(|processes| node(processes, waking));
        kit::what_is_pushed_out_needs_no_other_look(&mut node(2, waking));
    }
}
