//! Which provider carries a job's messages: a pure function of what each offers, with its reasons.
//!
//! No provider is chosen or refused by its name. First an offer must do what packets need (see [`Why`]); of those that do, the
//! better is found by [`rank`], and where two are equal in all of that, the library's own order decides, which is by speed
//! (`fi_getinfo(3)`). All processes of a job must come to the same provider: what they look at is the same on equal nodes, and
//! the cards they exchange name it, so that a difference is found at first contact.
#![forbid(unsafe_code)]

use crate::offer::{Carrier, Offer};
use crate::sys;
use std::fmt;
use std::net::IpAddr;

/// Bytes that a message must be able to carry: an eager packet that is worth its header.
pub const LEAST_MESSAGE: usize = 2048;
/// What programs must do that this crate does: give every operation a place in memory until it has completed.
pub const MODES: u64 = sys::FI_CONTEXT | sys::FI_CONTEXT2;
/// What registered memory may need: being registered also locally, addresses instead of offsets, memory that exists, keys of the
/// provider's choice, being bound to the endpoint.
pub const MR_MODES: i32 = sys::FI_MR_LOCAL
    | sys::FI_MR_VIRT_ADDR
    | sys::FI_MR_ALLOCATED
    | sys::FI_MR_PROV_KEY
    | sys::FI_MR_ENDPOINT;
/// The two words of older interfaces: everything but local registration is needed, or nothing is.
const OLD_MR_MODES: i32 = sys::FI_MR_BASIC | sys::FI_MR_SCALABLE;

/// What registered memory needs, in today's words.
pub fn memory_needs(mr_mode: i32) -> i32 {
    let basic = sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY;
    let old = if mr_mode & sys::FI_MR_BASIC != 0 { basic } else { 0 };
    mr_mode & !OLD_MR_MODES | old
}

/// Reading and writing the memory of others.
pub const REMOTE_MEMORY: u64 =
    sys::FI_RMA | sys::FI_READ | sys::FI_WRITE | sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;

/// What a job wants of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Some process is on another node.
    pub between_nodes: bool,
    /// Address by which this node is known to others, where that is one of the internet's.
    pub address: Option<IpAddr>,
    /// Only this provider, by name (`WEFT_OFI_PROVIDER`).
    pub provider: Option<String>,
    /// The device nearest to this process, by the kernel's name: of a provider's devices that are equal otherwise it is taken.
    pub rail: Option<String>,
    /// Only messages of this kind (`WEFT_OFI_TAGS`); `None`: without tags where the provider has them.
    pub carrier: Option<Carrier>,
    /// How many processes the job has, where that is known.
    pub processes: Option<u32>,
    /// Name of the job, the same at all its processes: Omni-Path keeps jobs apart by it.
    pub job: Option<String>,
    /// Whether the provider shall run collectives that it offers (`WEFT_OFFLOAD`); `None`: not without being asked.
    pub offload: Option<bool>,
}

/// Why an offer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another provider was asked for by name.
    NotAsked,
    /// It has no messages, with tags or without (`FI_MSG`, `FI_TAGGED`).
    NoMessages,
    /// It has no messages of the kind that was asked for.
    OtherCarrier(Carrier),
    /// Its messages are too short.
    ShortMessages(usize),
    /// It cannot reach other nodes.
    NodeOnly,
    /// It cannot reach processes of the same node.
    RemoteOnly,
    /// The program would have to do what it does not.
    Mode(u64),
    /// Registered memory would need what is not done here.
    Memory(i32),
    /// It may lose messages when its queues are full.
    Overruns,
    /// Its link is down.
    LinkDown,
    /// It is not at the address by which this node is known.
    OtherAddress(IpAddr),
    /// Another one is better.
    Worse(Merit),
}

/// In what an offer is better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merit {
    /// It drives a device; the other goes through the kernel's sockets.
    Device,
    /// Its link is faster (bits per second).
    Speed(usize),
    /// It is at the address by which the node is known, or at least at one that others can name.
    Address,
    /// It reads and writes the memory of others.
    RemoteMemory,
    /// It keeps messages in order itself.
    Order,
    /// Messages go into the kernel's connections as they lie; the other one copies them once more, or has a thread do it.
    Direct,
    /// It is the device nearest to this process.
    Near,
    /// The library names it first.
    First,
}

/// The outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The chosen offer, by its place in the list.
    pub index: usize,
    /// In what it is better than the next best, if there is one.
    pub merit: Option<Merit>,
    /// The others in the order of the list, each with the reason why not.
    pub others: Vec<(usize, Why)>,
}

/// How well others find an offer at its address. An adapter is reached by what its own endpoint says; of its addresses one that
/// routers know is better than one of a link, and than those of InfiniBand itself, by which layers above it cannot be asked.
fn at_address(offer: &Offer, wanted: &Wanted) -> u8 {
    match offer.ip {
        Some(ip) if wanted.address == Some(ip) => 2,
        Some(IpAddr::V6(ip)) if ip.is_unicast_link_local() => 0,
        Some(_) if wanted.address.is_none() => 2,
        Some(_) => 1,
        None if offer.addr_format == sys::FI_SOCKADDR_IB => 0,
        // Datagrams of the same adapter: no better than its connections at any address.
        None if offer.addr_format == sys::FI_ADDR_IB_UD => 1,
        None => 2,
    }
}

/// What an offer is compared by, the weightiest first.
fn rank(offer: &Offer, wanted: &Wanted) -> (bool, usize, u8, bool, bool, bool) {
    (
        offer.drives_a_device(),
        offer.speed(),
        at_address(offer, wanted),
        offer.can(REMOTE_MEMORY),
        offer.msg_order & sys::FI_ORDER_SAS != 0,
        offer.is_direct(),
    )
}

/// In what `better` is better than `other`.
fn merit(better: &Offer, other: &Offer, wanted: &Wanted) -> Merit {
    let (best, second) = (rank(better, wanted), rank(other, wanted));
    if best.0 != second.0 {
        Merit::Device
    } else if best.1 != second.1 {
        Merit::Speed(best.1)
    } else if best.2 != second.2 {
        Merit::Address
    } else if best.3 != second.3 {
        Merit::RemoteMemory
    } else if best.4 != second.4 {
        Merit::Order
    } else if best.5 != second.5 {
        Merit::Direct
    } else if is_near(better, wanted) && !is_near(other, wanted) {
        Merit::Near
    } else {
        Merit::First
    }
}

/// Whether an offer is of the device nearest to this process. Domains have its name (`cxi0`, `mlx5_0`), of EFA with a word behind it
/// (`rdmap0s6-rdm`).
fn is_near(offer: &Offer, wanted: &Wanted) -> bool {
    let rest = wanted.rail.as_deref().and_then(|rail| offer.domain.strip_prefix(rail));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Why an offer cannot be used at all, if so.
fn obstacle(offer: &Offer, wanted: &Wanted) -> Option<Why> {
    // A provider that tells of neither reach has both.
    let reach = offer.caps & (sys::FI_LOCAL_COMM | sys::FI_REMOTE_COMM);
    if wanted.provider.as_ref().is_some_and(|name| *name != offer.provider) {
        Some(Why::NotAsked)
    } else if !offer.can(sys::FI_MSG) && !offer.can(sys::FI_TAGGED) {
        Some(Why::NoMessages)
    } else if !offer.can(offer.carrier(wanted).capability()) {
        Some(Why::OtherCarrier(offer.carrier(wanted)))
    } else if offer.max_msg_size < LEAST_MESSAGE {
        Some(Why::ShortMessages(offer.max_msg_size))
    } else if wanted.between_nodes && reach == sys::FI_LOCAL_COMM {
        Some(Why::NodeOnly)
    } else if !wanted.between_nodes && reach == sys::FI_REMOTE_COMM {
        Some(Why::RemoteOnly)
    } else if offer.mode & !MODES != 0 {
        Some(Why::Mode(offer.mode & !MODES))
    } else if memory_needs(offer.mr_mode) & !MR_MODES != 0 {
        Some(Why::Memory(memory_needs(offer.mr_mode) & !MR_MODES))
    } else if offer.resource_mgmt == sys::FI_RM_DISABLED {
        Some(Why::Overruns)
    } else if offer.nic.down {
        Some(Why::LinkDown)
    } else {
        match (wanted.address, offer.ip) {
            (Some(address), Some(ip)) if address != ip && !offer.is_adapter() => Some(Why::OtherAddress(ip)),
            _ => None,
        }
    }
}

/// Chooses; `None` where nothing can be used, with [`Refusals`] to tell why.
///
/// # Errors
/// Nothing can be used: every offer with its reason.
pub fn select(offers: &[Offer], wanted: &Wanted) -> Result<Choice, Vec<(usize, Why)>> {
    let mut others: Vec<(usize, Why)> = Vec::new();
    let mut usable = Vec::new();
    for (index, offer) in offers.iter().enumerate() {
        match obstacle(offer, wanted) {
            Some(why) => others.push((index, why)),
            None => usable.push(index),
        }
    }
    // Of equals the first wins, so the comparison is with `>` only.
    let best = |candidates: &[usize]| {
        candidates.iter().copied().reduce(|best, next| {
            if rank(&offers[next], wanted) > rank(&offers[best], wanted) { next } else { best }
        })
    };
    let Some(index) = best(&usable) else { return Err(others) };
    // Which device is nearest differs between processes; which provider is best must not.
    let is_equal = |&other: &usize| {
        let [best, other] = [index, other].map(|at| &offers[at]);
        best.provider == other.provider && rank(best, wanted) == rank(other, wanted) && is_near(other, wanted)
    };
    let index = usable.iter().copied().find(is_equal).unwrap_or(index);
    usable.retain(|&other| other != index);
    let merit_over = |other: usize| merit(&offers[index], &offers[other], wanted);
    let second = best(&usable).map(merit_over);
    others.extend(usable.iter().map(|&other| (other, Why::Worse(merit_over(other)))));
    others.sort_by_key(|&(other, _)| other);
    Ok(Choice { index, merit: second, others })
}

/// The text that answers "why this one, and why not the others".
pub fn explain(offers: &[Offer], wanted: &Wanted, outcome: &Result<Choice, Vec<(usize, Why)>>) -> String {
    let mut lines = Vec::new();
    let others = match outcome {
        Ok(choice) => {
            let offer = &offers[choice.index];
            let how = match (offer.drives_a_device(), offer.is_adapter()) {
                (true, _) => "a device",
                (false, true) => "an adapter that is on no bus",
                (false, false) => "the kernel's sockets or memory",
            };
            let remote = if offer.can(REMOTE_MEMORY) { "remote memory" } else { "no remote memory" };
            let why = match choice.merit {
                None => "nothing else can be used".into(),
                Some(merit) => format!("better than the next by {merit}"),
            };
            let tags = match offer.carrier(wanted) {
                Carrier::Messages => "",
                Carrier::Tags => ", messages with tags",
            };
            lines.push(format!("libfabric: {offer}: over {how}, {remote}{tags}; {why}"));
            &choice.others
        }
        Err(others) => {
            let asked = wanted.provider.as_ref().map_or(String::new(), |name| format!(" named {name}"));
            lines.push(format!("libfabric: no provider{asked} can carry this job's messages"));
            others
        }
    };
    for (index, why) in others {
        let offer = &offers[*index];
        let line = match why {
            // One line for all its interfaces.
            Why::NotAsked => format!("  not {}: {why}", offer.provider),
            Why::OtherAddress(_) => {
                format!(
                    "  not {} at other addresses than the one by which this node is known",
                    offer.provider
                )
            }
            _ => format!("  not {offer}: {why}"),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

impl fmt::Display for Merit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Merit::Device => write!(f, "driving a device itself"),
            Merit::Speed(bits) => write!(f, "its link of {} Gbit/s", bits / 1_000_000_000),
            Merit::Address => write!(f, "its address"),
            Merit::RemoteMemory => write!(f, "reading and writing remote memory"),
            Merit::Order => write!(f, "keeping messages in order itself"),
            Merit::Direct => write!(f, "putting messages into connections without copying them"),
            Merit::Near => write!(f, "being nearest to this process"),
            Merit::First => write!(f, "libfabric's own order, which is by speed"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotAsked => write!(f, "WEFT_OFI_PROVIDER names another"),
            Why::NoMessages => write!(f, "it has no messages (FI_MSG, FI_TAGGED)"),
            Why::OtherCarrier(carrier) => write!(f, "it has no {carrier}, which WEFT_OFI_TAGS wants"),
            Why::ShortMessages(bytes) => {
                write!(f, "its messages end at {bytes} bytes, and {LEAST_MESSAGE} are needed")
            }
            Why::NodeOnly => write!(f, "it stays inside a node (no FI_REMOTE_COMM), and the job does not"),
            Why::RemoteOnly => write!(f, "it does not reach processes of its own node (no FI_LOCAL_COMM)"),
            Why::Mode(bits) => write!(f, "it asks the program for {}", modes(*bits)),
            Why::Memory(bits) => write!(f, "registered memory would need {}", memory_modes(*bits)),
            Why::Overruns => write!(f, "its queues may overrun (FI_RM_DISABLED)"),
            Why::LinkDown => write!(f, "its link is down"),
            Why::OtherAddress(ip) => write!(f, "it is at {ip}, and this node is known by another address"),
            Why::Worse(merit) => write!(f, "the chosen one is better by {merit}"),
        }
    }
}

/// Who runs a job's collectives, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collectives {
    /// The provider runs these, of communicators whose members have joined a group.
    Provider(String),
    /// The engine: the provider has neither `FI_COLLECTIVE` nor `FI_TRIGGER`.
    NotOffered,
    /// The engine: the provider has deferred work only.
    OnlyDeferred,
    /// The engine: the provider's are messages of its own on the processor, and nobody asked for them.
    OnProcessor,
    /// The engine: so it was asked.
    NotWanted,
    /// The engine: the provider names the capability, and when asked for each collective has none that is of use.
    Useless,
}

impl fmt::Display for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Collectives::Provider(what) => {
                return write!(
                    f,
                    "libfabric: the provider runs collectives of communicators that call them more than once: {what}"
                );
            }
            Collectives::NotOffered => {
                "the provider offers neither them (FI_COLLECTIVE) nor deferred work (FI_TRIGGER)"
            }
            Collectives::OnlyDeferred => {
                "the provider offers no FI_COLLECTIVE; its deferred work (FI_TRIGGER) has no arithmetic"
            }
            Collectives::OnProcessor => {
                "the provider's FI_COLLECTIVE may be messages of its own on the processor (WEFT_OFFLOAD=yes takes it)"
            }
            Collectives::NotWanted => "WEFT_OFFLOAD=no",
            Collectives::Useless => {
                "the provider names FI_COLLECTIVE, but has none of those that are handed over"
            }
        };
        write!(f, "libfabric: the engine runs collectives: {why}")
    }
}

fn names(bits: u64, known: &[(u64, &str)]) -> String {
    let mut left = bits;
    let mut texts = Vec::new();
    for &(bit, name) in known {
        if bits & bit != 0 {
            texts.push(name.to_owned());
            left &= !bit;
        }
    }
    if left != 0 {
        texts.push(format!("{left:#x}"));
    }
    texts.join(" and ")
}

fn modes(bits: u64) -> String {
    names(
        bits,
        &[
            (sys::FI_MSG_PREFIX, "FI_MSG_PREFIX"),
            (sys::FI_ASYNC_IOV, "FI_ASYNC_IOV"),
            (sys::FI_RX_CQ_DATA, "FI_RX_CQ_DATA"),
            (sys::FI_LOCAL_MR, "FI_LOCAL_MR"),
            (sys::FI_NOTIFY_FLAGS_ONLY, "FI_NOTIFY_FLAGS_ONLY"),
            (sys::FI_RESTRICTED_COMP, "FI_RESTRICTED_COMP"),
            (sys::FI_BUFFERED_RECV, "FI_BUFFERED_RECV"),
        ],
    )
}

fn memory_modes(bits: i32) -> String {
    names(
        bits as u32 as u64,
        &[
            (sys::FI_MR_RAW as u64, "FI_MR_RAW"),
            (sys::FI_MR_MMU_NOTIFY as u64, "FI_MR_MMU_NOTIFY"),
            (sys::FI_MR_RMA_EVENT as u64, "FI_MR_RMA_EVENT"),
            (sys::FI_MR_HMEM as u64, "FI_MR_HMEM"),
            (sys::FI_MR_COLLECTIVE as u64, "FI_MR_COLLECTIVE"),
        ],
    )
}
