//! What devices there are: some of each kind, each with an address of its own.

use crate::sys::{
    IBV_ATOMIC_GLOB, IBV_ATOMIC_NONE, IBV_ODP_SUPPORT_ATOMIC, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV,
    IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE, IBV_PORT_ACTIVE,
};
use std::net::{Ipv4Addr, SocketAddr};

/// Devices of each kind, so that tests beside each other can have their own.
pub(crate) const OF_EACH: usize = 24;

/// The atomics of a device alone.
const IBV_ATOMIC_HCA: i32 = 1;
const ALL_ON_DEMAND: u32 = IBV_ODP_SUPPORT_SEND
    | IBV_ODP_SUPPORT_RECV
    | IBV_ODP_SUPPORT_WRITE
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_ATOMIC
    | IBV_ODP_SUPPORT_SRQ_RECV;

/// A kind of device.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Its devices' names are this and a number.
    pub(crate) name: &'static str,
    /// Whether it has reliable connections.
    pub(crate) connections: bool,
    pub(crate) port_state: i32,
    pub(crate) atomics: i32,
    /// What connections do on demand with memory that is not there yet.
    pub(crate) on_demand: u32,
    /// Whether its driver passes the wish for relaxed ordering on.
    pub(crate) relaxed: bool,
    /// Whether the library's larger structure is around its contexts.
    pub(crate) extended: bool,
    /// Regions and queue pairs of a context.
    pub(crate) most_regions: u32,
    pub(crate) most_pairs: u32,
    /// Bytes of its own memory.
    pub(crate) memory: u64,
    pub(crate) inline: u32,
    /// Whether writes are seen in order.
    pub(crate) in_order: bool,
    /// Whether a queue pair that is reset or destroyed takes its completions along, as drivers of cards do; the kernel's soft-RoCE
    /// leaves them.
    pub(crate) takes_along: bool,
}

/// As the kernel's soft-RoCE.
const SOFT: Kind = Kind {
    name: "soft",
    connections: true,
    port_state: IBV_PORT_ACTIVE,
    atomics: IBV_ATOMIC_HCA,
    on_demand: 0,
    relaxed: false,
    extended: true,
    most_regions: u32::MAX,
    most_pairs: u32::MAX,
    memory: 0,
    inline: 220,
    in_order: false,
    takes_along: false,
};

pub(crate) const KINDS: &[Kind] = &[
    SOFT,
    Kind {
        name: "card",
        atomics: IBV_ATOMIC_GLOB,
        on_demand: ALL_ON_DEMAND,
        relaxed: true,
        memory: 64 << 10,
        in_order: true,
        takes_along: true,
        ..SOFT
    },
    // Memory on demand for writes and reads, but not for receives.
    Kind { name: "partly", on_demand: IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, relaxed: true, ..SOFT },
    Kind { name: "few", most_regions: 12, takes_along: true, ..SOFT },
    // A queue pair for datagrams, and two connections.
    Kind { name: "tight", most_pairs: 3, takes_along: true, ..SOFT },
    Kind { name: "old", extended: false, atomics: IBV_ATOMIC_NONE, inline: 64, ..SOFT },
    Kind { name: "down", port_state: 1, ..SOFT },
    Kind { name: "little", memory: 2 << 10, takes_along: true, ..SOFT },
    Kind { name: "loose", connections: false, ..SOFT },
];

/// A device by its place in the list.
pub(crate) fn kind(at: usize) -> &'static Kind {
    &KINDS[at / OF_EACH]
}

pub(crate) fn name(at: usize) -> String {
    format!("{}{}", kind(at).name, at % OF_EACH)
}

pub(crate) fn address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (at / OF_EACH) as u8, 1 + (at % OF_EACH) as u8)
}

pub(crate) fn socket(at: usize) -> SocketAddr {
    SocketAddr::from((address(at), 4791))
}

/// The device of an address.
pub(crate) fn find(address: SocketAddr) -> Option<usize> {
    (0..KINDS.len() * OF_EACH).find(|&at| self::address(at) == address.ip())
}
