//! The providers that there are, after their manuals (libfabric's section 7) as far as these say it, and some that are meaner than any.

use crate::groups::Collectives;
use weft_ofi::select::REMOTE_MEMORY;
use weft_ofi::sys::*;

/// When messages and operations move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// In looks at the completion queue, of both ends.
    Manual,
    /// As [`Progress::Manual`], but what is sent leaves at once.
    Leaving,
}

/// A provider with one domain.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) domain: &'static str,
    pub(crate) caps: u64,
    /// What programs must do: give contexts.
    pub(crate) mode: u64,
    pub(crate) mr_mode: i32,
    /// Bytes of a key.
    pub(crate) key_bytes: usize,
    pub(crate) addr_format: u32,
    pub(crate) protocol: u32,
    pub(crate) longest: usize,
    pub(crate) inject: usize,
    pub(crate) sends: usize,
    pub(crate) receives: usize,
    /// Whether what is sent by one end to another stays in order.
    pub(crate) ordered: bool,
    /// Whether that is said of messages that follow writes, too.
    pub(crate) writes_first: bool,
    pub(crate) table: bool,
    /// Whether an operation can tell when it is visible.
    pub(crate) delivery: bool,
    /// Whether one can sleep on a queue.
    pub(crate) wait: bool,
    pub(crate) progress: Progress,
    /// Looks of the other end before it takes anything: until then everything is refused for now.
    pub(crate) connects: u32,
    /// Whether remote memory is reached by the other end's looks only.
    pub(crate) software: bool,
    /// Up to so many looks of its own until an operation moves.
    pub(crate) late: u32,
    /// Whether a message that had no context fails with a pointer of the provider's own.
    pub(crate) foreign: bool,
    /// Whether what an end that is closed was asked for ends only when its address is removed.
    pub(crate) silent: bool,
    /// Whether what goes to an end that is closed is refused for now, and does not end before its address is removed.
    pub(crate) deaf: bool,
    /// Whether the kernel's sockets carry everything: no device, and ends that listen.
    pub(crate) doors: bool,
    /// Those of groups.
    pub(crate) collectives: Option<&'static Collectives>,
}

const MESSAGES: u64 = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
/// What most verbs devices need of registered memory.
const BASIC: i32 = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// A device that needs nothing.
const PLAIN: Profile = Profile {
    name: "plain",
    domain: "plain0",
    caps: MESSAGES | REMOTE_MEMORY | FI_ATOMIC,
    mode: 0,
    mr_mode: 0,
    key_bytes: 8,
    addr_format: FI_ADDR_STR,
    protocol: 0,
    longest: 1 << 30,
    inject: 64,
    sends: 1024,
    receives: 1024,
    ordered: true,
    writes_first: false,
    table: true,
    delivery: true,
    wait: false,
    progress: Progress::Manual,
    connects: 0,
    software: false,
    late: 2,
    foreign: false,
    silent: false,
    deaf: false,
    doors: false,
    collectives: None,
};

pub(crate) static PROFILES: &[Profile] = &[
    // fi_opx(7): FI_CONTEXT2, memory by offsets and keys of the program, no wait objects; queues without an end.
    Profile {
        name: "opx",
        domain: "hfi1_0",
        mode: FI_CONTEXT2,
        mr_mode: FI_MR_SCALABLE,
        addr_format: FI_ADDR_OPX,
        sends: usize::MAX,
        receives: usize::MAX,
        table: false,
        progress: Progress::Leaving,
        ..PLAIN
    },
    // fi_psm2(7): FI_CONTEXT, manual progress: remote memory is moved by active messages. The other end is called up first.
    Profile {
        name: "psm2",
        domain: "hfi1_0",
        mode: FI_CONTEXT,
        addr_format: FI_ADDR_PSMX2,
        software: true,
        connects: 1,
        late: 0,
        silent: true,
        ..PLAIN
    },
    // fi_cxi(7): regions belong to an endpoint and are enabled, keys of the program of four bytes, 192 bytes copied at once; reductions of
    // a few words in its switches.
    Profile {
        name: "cxi",
        domain: "cxi0",
        caps: MESSAGES | REMOTE_MEMORY | FI_ATOMIC | FI_COLLECTIVE,
        collectives: Some(&Collectives { reduce: true, longest: 32, members: 64 }),
        mr_mode: FI_MR_ENDPOINT | FI_MR_ALLOCATED,
        key_bytes: 4,
        addr_format: FI_ADDR_CXI,
        inject: 192,
        writes_first: true,
        progress: Progress::Leaving,
        late: 0,
        foreign: true,
        ..PLAIN
    },
    // The same with keys of the provider's, which are known when a region is enabled and use all of eight bytes.
    Profile {
        name: "cxi;keys",
        domain: "cxi0",
        mr_mode: FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
        addr_format: FI_ADDR_CXI,
        inject: 192,
        ..PLAIN
    },
    // fi_efa(7): keys of the device's, nothing worth the name copied at once, no atomics, no wait objects.
    Profile {
        name: "efa",
        domain: "rdmap0s6-rdm",
        caps: MESSAGES | REMOTE_MEMORY,
        mr_mode: BASIC | FI_MR_LOCAL,
        key_bytes: 4,
        addr_format: FI_ADDR_EFA,
        inject: 32,
        sends: 256,
        receives: 512,
        table: false,
        late: 6,
        ..PLAIN
    },
    // fi_verbs(7) below fi_rxm(7): connections are made at the first message, and one can sleep on the queue.
    Profile {
        name: "verbs;ofi_rxm",
        domain: "mlx5_0",
        caps: MESSAGES | REMOTE_MEMORY,
        mr_mode: BASIC | FI_MR_LOCAL,
        key_bytes: 4,
        addr_format: FI_SOCKADDR_IN,
        protocol: FI_PROTO_RXM,
        inject: 16 << 10,
        sends: 384,
        receives: 384,
        wait: true,
        connects: 40,
        progress: Progress::Leaving,
        foreign: true,
        ..PLAIN
    },
    // fi_tcp(7): the kernel's sockets, which connect again without a word when nobody is there any more, and listen. Its messages are
    // shorter than those of the real one, so that not everything fits into one.
    Profile {
        name: "sockets",
        domain: "eth0",
        addr_format: FI_SOCKADDR_IN,
        protocol: FI_PROTO_XNET,
        longest: 9000,
        sends: 24,
        receives: 64,
        writes_first: true,
        wait: true,
        progress: Progress::Leaving,
        connects: 3,
        software: true,
        silent: true,
        deaf: true,
        doors: true,
        ..PLAIN
    },
    // fi_rxm(7) over those: with collectives of libfabric's own software, which have no reductions to a root.
    Profile {
        name: "sockets;ofi_rxm",
        domain: "eth0",
        caps: MESSAGES | REMOTE_MEMORY | FI_ATOMIC | FI_COLLECTIVE,
        collectives: Some(&Collectives { reduce: false, longest: 4096, members: 1 << 20 }),
        addr_format: FI_SOCKADDR_IN,
        protocol: FI_PROTO_RXM,
        inject: 16 << 10,
        wait: true,
        progress: Progress::Leaving,
        connects: 5,
        software: true,
        silent: true,
        deaf: true,
        doors: true,
        ..PLAIN
    },
    // fi_rxd(7) over a device: messages only, in any order.
    Profile {
        name: "unordered",
        domain: "any0",
        caps: MESSAGES,
        ordered: false,
        delivery: false,
        late: 4,
        ..PLAIN
    },
    // Nothing but tags, and operations that do not tell when they are visible: there are no puts.
    Profile {
        name: "tags",
        domain: "tags0",
        caps: (MESSAGES & !FI_MSG) | REMOTE_MEMORY,
        mode: FI_CONTEXT,
        delivery: false,
        ..PLAIN
    },
    // Everything at once: what every provider above needs, the shortest messages, keys of two bytes, queues of a few, no order.
    Profile {
        name: "mean",
        domain: "mean0",
        mode: FI_CONTEXT | FI_CONTEXT2,
        mr_mode: FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_ALLOCATED,
        key_bytes: 2,
        longest: 2048,
        inject: 0,
        sends: 16,
        receives: 12,
        ordered: false,
        table: false,
        connects: 9,
        software: true,
        late: 3,
        foreign: true,
        ..PLAIN
    },
    // As that, with an address vector that groups can use, and with all collectives.
    Profile {
        name: "mean;groups",
        domain: "mean1",
        caps: MESSAGES | REMOTE_MEMORY | FI_ATOMIC | FI_COLLECTIVE,
        collectives: Some(&Collectives { reduce: true, longest: 256, members: 6 }),
        mode: FI_CONTEXT | FI_CONTEXT2,
        mr_mode: FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_ALLOCATED,
        key_bytes: 2,
        longest: 2048,
        inject: 0,
        sends: 16,
        receives: 12,
        ordered: false,
        connects: 9,
        software: true,
        late: 3,
        foreign: true,
        ..PLAIN
    },
    // Sockets below one layer that lose no order: queues of a few, short messages, nothing copied at once.
    Profile {
        name: "narrow",
        domain: "narrow0",
        mr_mode: BASIC | FI_MR_LOCAL,
        key_bytes: 4,
        longest: 2048,
        inject: 0,
        sends: 3,
        receives: 2,
        wait: true,
        progress: Progress::Leaving,
        ..PLAIN
    },
];

/// The place of a provider in the table.
pub(crate) fn named(name: &str) -> usize {
    PROFILES.iter().position(|profile| profile.name == name).expect("a provider of the table")
}
