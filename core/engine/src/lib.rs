//! The progress engine: endpoints, requests, protocols in motion, waiting.
//!
//! See `README.md` beside this crate: the contract with the neighbours, and how it works inside.
#![forbid(unsafe_code)]

mod arrive;
mod at_once;
mod both;
mod contacts;
mod depart;
mod engine;
mod fabric;
mod failure;
mod forced;
mod held;
mod in_vain;
mod internal;
mod landings;
mod layouts;
mod levels;
mod messages;
mod offers;
mod outlook;
mod own;
mod paces;
mod parting;
mod peers;
mod pieces;
mod progress;
mod receive;
mod requests;
mod rounds;
mod row;
mod schedule;
mod shares;
mod stages;
mod streams;
mod told_deaths;
mod transports;
mod types;
mod wait;
pub mod world;
mod zero_copy;

pub use at_once::MetPeer;
pub use both::{Both, BothBell};
pub use contacts::{Contacts, Wide};
pub use engine::Engine;
pub use fabric::{
    DeviceLimits, Fabric, FabricBell, Guide, Lead, MOST_WAYS, Several, SeveralBells, SocketBuffers,
    rdma_limits, rdma_ports, rdma_routes,
};
pub use failure::LAST_WORDS;
pub use forced::Forced;
pub use in_vain::Ways;
pub use landings::{LandingId, Next, PartsOf};
pub use levels::Levels;
pub use outlook::{Outlook, Running, Stray};
pub use paces::Clock;
pub use rounds::{
    Begin, BlockingRoundsCall, Rounds, RoundsCall, needs_slots, needs_slots_as_told, needs_slots_later,
    script, usual_room, wanted_room,
};
pub use schedule::{
    Arguments, Callback, Channel, Failure, KeptRun, Operation, PeerMap, Reduction, ScheduleRun, Then,
    UserOperation,
};
pub use streams::Stream;
pub use transports::{EngineBell, NodeLocal, Transports, Wrapped};
pub use types::{
    Arriving, Carrier, Completion, Early, Ending, EngineConfig, Envelope, MessageId, RequestId, Selector,
    SendMode, Soon, Started, Status,
};
pub use wait::{Waiter, yields};
/// How messages with gaps travel.
pub use weft_api::offload::{CARD, GroupId, Joining};
/// In which order addresses of RDMA devices are tried.
pub use weft_api::verbs::{MOST_ADDRESSES, Packets, PortAddress, Scope};
/// Where memory is, and what is done to it: the vocabulary of windows.
pub use weft_api::zero_copy::{Atomic, MemoryRange, Region, RegionId, RemoteMemory};
pub use weft_ofi::{OfiCard, OfiDirectory, offer::Carrier as OfiCarrier, select::Wanted as OfiWanted};
pub use weft_proto::Gaps;
/// How announced messages travel between nodes.
pub use weft_proto::Rendezvous;
/// Where processes are found at first contact.
pub use weft_rdma::{Directory, MOST_RAILS, PeerCard};
pub use weft_shm::layout::LANES;
pub use weft_shm::rounds::fetch;
/// What [`Rounds`] stands on.
pub use weft_shm::rounds::{IN_CELL, Sort};
/// Where partitions are put down for a process of the same node.
pub use weft_shm::staging::{FirstLook, Interest, StageIn, StageOut};
pub use weft_shm::{Near, Rounds as Cells, copy_past_caches};
pub use weft_shm::{bias, board, changes, handover, lone};
/// Layers round transports.
pub use weft_sim::layers::{Injected, Layers};
/// What opening a libfabric endpoint takes.
pub use weft_verbs::RouteWish;
pub use zero_copy::{Changes, Reach, Wished};
