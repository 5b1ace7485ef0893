//! What devices there are: some of each kind, each with an address of its own.

use crate::sys::{
    IBV_ATOMIC_GLOB, IBV_ATOMIC_NONE, IBV_ODP_SUPPORT_ATOMIC, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV,
    IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE,
    IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP, IBV_PORT_ACTIVE,
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

/// What a connection manager says of ways from a device: fields of a path record, in codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) service_level: u8,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pub(crate) mtu: u8,
    pub(crate) rate: u8,
    pub(crate) lifetime: u8,
}

/// How a connection manager answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manager {
    Says(Record),
    /// After a while.
    Late(Record),
    /// Another service level each time: how often it was asked for ways from this device.
    Counts(Record),
    /// Never.
    Mute,
    /// The network does not lead to any address.
    Nowhere,
    /// It leads there by another device.
    Elsewhere,
    /// The address is known, and no route.
    Roadless,
}

/// As the kernel's on Ethernet, where nothing was set.
const PLAIN: Record =
    Record { service_level: 0, traffic_class: 0, hop_limit: 64, mtu: 3, rate: 7, lifetime: 16 };
/// As a subnet manager's whose routing is free of deadlock by service levels.
const SUBNET: Record =
    Record { service_level: 3, traffic_class: 0, hop_limit: 0, mtu: 4, rate: 7, lifetime: 17 };

/// A kind of device.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Its devices' names are this and a number.
    pub(crate) name: &'static str,
    /// Whether it has reliable connections.
    pub(crate) connections: bool,
    pub(crate) port_state: i32,
    pub(crate) atomics: i32,
    /// Sizes of numbers that it changes by the bus's atomics.
    pub(crate) by_bus: u16,
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
    /// Whether it is of an InfiniBand subnet, and goes by local identifiers.
    pub(crate) infiniband: bool,
    /// Code of the bytes of a packet that its port can.
    pub(crate) mtu: i32,
    pub(crate) manager: Manager,
}

/// As the kernel's soft-RoCE.
const SOFT: Kind = Kind {
    name: "soft",
    connections: true,
    port_state: IBV_PORT_ACTIVE,
    atomics: IBV_ATOMIC_HCA,
    by_bus: 0,
    on_demand: 0,
    relaxed: false,
    extended: true,
    most_regions: u32::MAX,
    most_pairs: u32::MAX,
    memory: 0,
    inline: 220,
    in_order: false,
    takes_along: false,
    infiniband: false,
    mtu: 3,
    manager: Manager::Says(PLAIN),
};

/// As a card in a subnet.
const ADAPTER: Kind = Kind {
    name: "subnet",
    takes_along: true,
    infiniband: true,
    mtu: 5,
    manager: Manager::Says(SUBNET),
    ..SOFT
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
    ADAPTER,
    // At the end of a slow and narrow way through a router.
    Kind {
        name: "narrow",
        manager: Manager::Says(Record {
            service_level: 1,
            mtu: 2,
            rate: 5,
            hop_limit: 7,
            traffic_class: 9,
            ..SUBNET
        }),
        ..ADAPTER
    },
    Kind { name: "counted", manager: Manager::Counts(SUBNET), ..ADAPTER },
    // An administrator has set a class for all.
    Kind {
        name: "classy",
        manager: Manager::Says(Record { service_level: 3, traffic_class: 104, hop_limit: 12, ..PLAIN }),
        ..SOFT
    },
    Kind { name: "late", manager: Manager::Late(Record { traffic_class: 4, ..PLAIN }), ..SOFT },
    Kind { name: "mute", manager: Manager::Mute, ..SOFT },
    Kind { name: "nowhere", manager: Manager::Nowhere, ..SOFT },
    Kind { name: "elsewhere", manager: Manager::Elsewhere, ..SOFT },
    Kind { name: "roadless", manager: Manager::Roadless, ..ADAPTER },
    Kind { name: "unmanaged", manager: Manager::Mute, ..ADAPTER },
    // Cards whose atomics are those of the bus; of one only for numbers of four bytes.
    Kind { name: "bus", by_bus: 3, ..ADAPTER },
    Kind { name: "narrowbus", by_bus: 1, ..ADAPTER },
];

impl Kind {
    /// Whether its atomics on eight bytes are atomic towards processors.
    pub(crate) const fn is_atomic_with_processors(&self) -> bool {
        self.atomics == IBV_ATOMIC_GLOB || self.by_bus & IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP != 0
    }
}

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

/// Its local identifier; 0 on Ethernet.
pub(crate) fn lid(at: usize) -> u16 {
    if kind(at).infiniband { at as u16 + 1 } else { 0 }
}

/// The device of a local identifier.
pub(crate) fn by_lid(lid: u16) -> Option<usize> {
    let at = usize::from(lid.checked_sub(1)?);
    (at < KINDS.len() * OF_EACH && kind(at).infiniband).then_some(at)
}

/// The device of a global identifier in a subnet: the local one behind the prefix.
pub(crate) fn by_gid(gid: [u8; 16]) -> Option<usize> {
    let (prefix, number) = gid.split_at(14);
    let is_ours = prefix[..2] == [0xfe, 0x80] && prefix[2..].iter().all(|&byte| byte == 0);
    by_lid(u16::from_be_bytes([number[0], number[1]])).filter(|_| is_ours)
}

/// The device of an address.
pub(crate) fn find(address: SocketAddr) -> Option<usize> {
    (0..KINDS.len() * OF_EACH).find(|&at| self::address(at) == address.ip())
}
