//! Engines of one node that share memory, as several test programs make them.

use weft_engine::{Engine, EngineConfig, NodeLocal, Transports};
use weft_types::PeerId;

/// The engines of all processes of a node. They may not read one another's memory.
pub(crate) fn engines(ranks: u32, oversubscribed: bool) -> Vec<Engine> {
    engines_that(false, ranks, oversubscribed)
}

/// The same; `read`: they may.
pub(crate) fn engines_that(read: bool, ranks: u32, oversubscribed: bool) -> Vec<Engine> {
    let file = weft_shm::create().expect("a memory file");
    (0..ranks)
        .map(|me| {
            let node = NodeLocal {
                segment: file.try_clone().expect("a descriptor"),
                local_index: me,
                peers: (0..ranks).map(PeerId).collect(),
                single_copy: read,
                oversubscribed,
            };
            let transports = Transports::node_local(node).expect("attached");
            let config = EngineConfig { oversubscribed, ..EngineConfig::new(PeerId(me), ranks) };
            Engine::new(config, transports).expect("an engine")
        })
        .collect()
}
