//! What a fabric says of itself: what was chosen inside it and why, the devices that carry its messages, how messages of which
//! length travel, and what becomes of registered memory.

use super::Fabric;
use crate::zero_copy::can_be_kept;
use std::net::IpAddr;
use weft_api::verbs::Hca;
use weft_api::zero_copy::ZeroCopy;
use weft_api::{Capabilities, Transport};
use weft_proto::{EAGER_MOST, Rendezvous, RendezvousCosts, RendezvousPlan};
use weft_rdma::MOST_RAILS;
use weft_types::PeerId;
use weft_verbs::{Choice, Registration, Wish, choose, no_manager, own_numa_node, survey};

/// The ports of this host that RDMA between hosts could go by, the best first, each with its addresses in the order in which
/// they are tried. `address`: that by which others know this host; `partition`: the one of InfiniBand that was asked for. Empty where there is no such device, or no library to drive
/// it.
pub fn rdma_ports(address: IpAddr, partition: Option<u16>) -> Vec<String> {
    let wish = Wish { address: Some(address), numa_node: own_numa_node(), partition };
    let choices = survey().ok().and_then(|ports| choose(&ports, wish).ok());
    choices.into_iter().flatten().map(|choice| choice.why).collect()
}

/// In words, whether the connection manager can be asked for routes on this host.
pub fn rdma_routes() -> String {
    match no_manager() {
        None => "asked of the connection manager (librdmacm); WEFT_ROUTES=no does without".to_owned(),
        Some(why) => format!(
            "the defaults (service level and traffic class 0, or WEFT_SERVICE_LEVEL and WEFT_TRAFFIC_CLASS), since {why}"
        ),
    }
}

/// The ports that carry the messages of one process, of all that can be used, the best first: that of `rail`, a device by name,
/// if one is, else the best; with several `rails` also the next best of the same kind, as far as there are so many: on other cards first, then by
/// other devices of the same cards, then by other ports of the same devices.
pub(super) fn rails_of(mut choices: Vec<Choice>, rail: Option<&str>, rails: u32) -> Vec<Choice> {
    choices.sort_by_key(|choice| rail.is_some_and(|rail| choice.device != rail));
    let mut choices = choices.into_iter();
    let Some(best) = choices.next() else { return Vec::new() };
    let mut rest: Vec<Choice> =
        choices.filter(|choice| (choice.link, choice.emulated) == (best.link, best.emulated)).collect();
    let mut chosen = vec![best];
    let wanted = (rails.max(1) as usize).min(MOST_RAILS);
    let shares_card = |choice: &Choice, other: &Choice| choice.card == other.card;
    let shares_device = |choice: &Choice, other: &Choice| choice.device == other.device;
    let shares_nothing = |_: &Choice, _: &Choice| false;
    for shares in [shares_card, shares_device, shares_nothing] {
        while chosen.len() < wanted
            && let Some(next) =
                rest.iter().position(|choice| !chosen.iter().any(|other| shares(choice, other)))
        {
            chosen.push(rest.remove(next));
        }
    }
    chosen
}

/// What the choice between reads, writes and copies depends on; `kept`: registered memory stays so for the next message.
pub(crate) fn costs(can: &ZeroCopy, capabilities: &Capabilities, kept: bool) -> RendezvousCosts {
    RendezvousCosts {
        read: can.get,
        write: can.put,
        kept,
        registration: can.registration,
        registration_per_byte: can.registration_per_byte,
        read_latency: can.get_latency,
        latency: capabilities.latency,
        bandwidth: can.bandwidth,
        copy_bandwidth: capabilities.copy_bandwidth,
    }
}

/// All peers of a fabric are alike.
const ANY: PeerId = PeerId(0);

impl Fabric {
    /// What was chosen inside the fabric and why, where there was a choice; lines. The first has the devices that carry its
    /// messages; the second, where there is registered memory, what becomes of that (`keeps`: as `WEFT_KEEP_REGISTERED`).
    pub fn why(&self, keeps: bool) -> Option<String> {
        let (first, rest) = match self {
            Fabric::Softroce(rdma) => {
                let mtu = rdma.hca().limits().mtu;
                let first = match rdma.hca().wire().lacks_frames() {
                    None => format!(
                        "softroce: packets of up to {mtu} bytes (WEFT_LINK_MTU); short ones to neighbours leave in frames of Ethernet (WEFT_FRAMES)"
                    ),
                    Some(why) => format!(
                        "softroce: packets of up to {mtu} bytes (WEFT_LINK_MTU) leave by UDP sockets, not in frames of Ethernet: {why}"
                    ),
                };
                (first, String::new())
            }
            Fabric::Verbs(rdma) => {
                let most = rdma.connections().1;
                let rings = rdma.why_rings();
                let (mut firsts, mut rest) = (Vec::new(), String::new());
                for hca in rdma.hcas() {
                    let why = &hca.choice().why;
                    let (first, more) = why.split_once('\n').unwrap_or((why, ""));
                    firsts.push(first);
                    if !more.is_empty() {
                        rest = format!("{rest}\n{more}");
                    }
                }
                let routes = rdma.hca().routes();
                (
                    format!("{}; {routes}", firsts.join("; and ")),
                    format!(
                        "{rest}\n  at most {most} connections; messages to further peers go by datagrams (WEFT_CONNECTIONS)\n  rings for short messages: {rings}"
                    ),
                )
            }
            Fabric::Ofi(ofi) => {
                let why = ofi.why();
                let (first, more) = why.split_once('\n').unwrap_or((why, ""));
                let more = if more.is_empty() { String::new() } else { format!("\n{more}") };
                (format!("{}; {first}", ofi.library()), format!("{more}\n  {}", ofi.collectives()))
            }
            Fabric::Several(several) => {
                let all: Vec<String> = several.all().iter().filter_map(|way| way.why(keeps)).collect();
                return Some(all.join("\n"));
            }
        };
        let rails = match &self.rails()[..] {
            [one] => format!("one rail, {one}"),
            [most @ .., last] => format!("{} rails, {} and {last}", self.rails().len(), most.join(", ")),
            [] => String::new(),
        };
        let memory = self.registered_memory(keeps).map_or_else(String::new, |memory| format!("\n  {memory}"));
        Some(format!("{first}; {rails}{memory}{rest}"))
    }

    /// The devices that carry its messages, as they were opened: packets go by the first, long messages by all.
    pub fn rails(&self) -> Vec<String> {
        match self {
            Fabric::Softroce(rdma) => (0..rdma.hcas().count())
                .map(|rail| match rail {
                    0 => "an emulated device".to_owned(),
                    _ => "another".to_owned(),
                })
                .collect(),
            Fabric::Verbs(rdma) => {
                rdma.hcas().map(|hca| format!("{} port {}", hca.choice().device, hca.choice().port)).collect()
            }
            Fabric::Ofi(ofi) => vec![ofi.domain().to_owned()],
            Fabric::Several(several) => several.all().iter().flat_map(Fabric::rails).collect(),
        }
    }

    /// What becomes of memory that was registered for a message, and why; `None` where none is. `keeps`: as `WEFT_KEEP_REGISTERED`.
    pub fn registered_memory(&self, keeps: bool) -> Option<String> {
        if let Fabric::Several(several) = self {
            return several.all()[0].registered_memory(keeps);
        }
        let can = self.zero_copy(ANY)?;
        let who = match self {
            Fabric::Softroce(_) => Device::Emulator,
            Fabric::Verbs(_) => Device::Pages,
            Fabric::Ofi(ofi) if ofi.drives_a_device() => Device::Provider,
            Fabric::Ofi(_) | Fabric::Several(_) => Device::Software,
        };
        let costs = match self {
            Fabric::Verbs(rdma) => {
                rdma.hca().facts().registration.map(|costs| format!("; {}", registering(costs)))
            }
            _ => None,
        };
        Some(format!("{}{}", kept(who, &Kept::of(can.follows_mappings, keeps)), costs.unwrap_or_default()))
    }

    /// Message lengths, and how those between processes that this fabric joins travel: what the engine does by the costs that
    /// the opened devices have. `said`: what the user says (`WEFT_RENDEZVOUS`); `eager`: bytes of the longest message that is
    /// sent without asking (`WEFT_EAGER_LIMIT`); `keeps`: as `WEFT_KEEP_REGISTERED`.
    pub fn protocols(&self, said: Rendezvous, eager: u32, keeps: bool) -> Vec<String> {
        if let Fabric::Several(several) = self {
            return several.all()[0].protocols(said, eager, keeps);
        }
        let capabilities = self.capabilities(ANY);
        let eager = eager.min(EAGER_MOST);
        let inline = capabilities.max_inline.min(eager as usize);
        let mut lines = vec![
            format!("up to {}: inside the request to the device", bytes(inline as u64)),
            format!("up to {}: copied into registered memory, without asking", bytes(u64::from(eager))),
        ];
        if let Fabric::Verbs(_) = self {
            lines[0] +=
                "; of peers that talk often into rings of the receiver, where there are any (WEFT_RINGS)";
        }
        if let Fabric::Ofi(ofi) = self
            && !ofi.drives_a_device()
        {
            lines[0] = format!("up to {}: handed to the provider, which copies them", bytes(inline as u64));
            lines[1] =
                format!("up to {}: from buffers of the library, without asking", bytes(u64::from(eager)));
        }
        let can = self.zero_copy(ANY);
        if let Some(least) = can.map(|can| can.read_in_row).filter(|least| *least <= u64::from(eager)) {
            lines.push(format!(
                "from {} on, where it follows others to the same peer: announced, and read together with them",
                bytes(least)
            ));
        }
        let costs = can.map(|can| {
            let kept = can.follows_mappings || can_be_kept(keeps).is_ok();
            costs(&can, &capabilities, kept)
        });
        lines.extend(long_messages(said, costs.as_ref(), eager));
        lines.extend(can.map(|can| format!("numbers of 8 bytes in windows: {}", numbers(&can))));
        lines
    }
}

/// Who changes them, in words: what others do to them with one operation, and what the owner does.
fn numbers(can: &ZeroCopy) -> &'static str {
    match can {
        ZeroCopy { atomics: true, atomic_with_packets: true, .. } => {
            "single ones by the target's device, in its calls of MPI; others by messages"
        }
        ZeroCopy { atomics: true, atomic_with_processors: true, .. } => {
            "single ones by the target's device, at any moment; others by messages"
        }
        ZeroCopy { atomics: true, .. } => {
            "single ones by the target's device, at any moment, and all others by it for the target, in parts of at most 4 KiB or where \
             mpi_accumulate_granularity is 1 to 8 or weft_device_atomics is \"true\", if the device reaches itself; otherwise by messages, as its \
             atomics exclude each other alone"
        }
        _ => "by messages, as the device has no atomics",
    }
}

/// What was measured of a device's registrations, in words.
fn registering(costs: Registration) -> String {
    let (fixed, page) = (f64::from(costs.nanoseconds) / 1e3, f64::from(costs.picoseconds_per_page) / 1e6);
    format!("it takes {fixed:.1} us and {page:.2} us a page here, measured when the device was opened")
}

/// Who works on registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    /// The emulator, by the process's own addresses.
    Emulator,
    /// A device of the kernel's, by the pages that it was told.
    Pages,
    /// A device behind a provider of libfabric.
    Provider,
    /// A provider that copies by the process's own addresses.
    Software,
}

/// Whether registered memory stays so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The device follows mappings.
    Always,
    /// The kernel tells of changes.
    Watched,
    /// It does not, and why.
    Never(String),
}

impl Kept {
    pub(super) fn of(follows: bool, keeps: bool) -> Kept {
        match can_be_kept(keeps) {
            _ if follows => Kept::Always,
            Ok(()) => Kept::Watched,
            Err(why) => Kept::Never(why),
        }
    }
}

/// What becomes of memory that is registered with a device of the kernel's.
pub(super) fn kept_by_devices(how: &Kept) -> String {
    kept(Device::Pages, how)
}

fn kept(who: Device, how: &Kept) -> String {
    match (who, how) {
        (Device::Emulator, _) => {
            "registered memory is kept for later messages: the emulator goes by addresses, whatever is mapped there".into()
        }
        (Device::Software, _) => {
            "registered memory is kept for later messages: the provider copies by addresses, whatever is mapped there".into()
        }
        (_, Kept::Always) => {
            "registered memory is kept for later messages: the device follows what the program maps and unmaps (on-demand paging)".into()
        }
        (_, Kept::Watched) => {
            "registered memory is kept for later messages: the device pins pages (no on-demand paging), and the kernel tells what the program unmaps (userfaultfd)".into()
        }
        (_, Kept::Never(why)) => {
            format!("registered memory is given back with each message: the device pins pages (no on-demand paging), and nothing tells that the program unmaps them ({why})")
        }
    }
}

/// How messages longer than `eager` bytes travel. `costs`: `None` where there is no registered memory.
fn long_messages(said: Rendezvous, costs: Option<&RendezvousCosts>, eager: u32) -> Vec<String> {
    let shortest = u64::from(eager) + 1;
    let plan = costs.map_or(RendezvousPlan::STREAM, |costs| weft_proto::rendezvous::choose(said, costs));
    let by_device = match (plan.read, plan.write) {
        (true, true) => {
            "read by the receiver from the sender's memory, or written by the sender where that cannot be registered"
        }
        (true, false) => "read by the receiver from the sender's memory",
        (false, true) => "written by the sender into the receiver's memory",
        (false, false) => {
            let why = match (said, costs) {
                (Rendezvous::Stream, _) => "WEFT_RENDEZVOUS=stream",
                (_, Some(costs)) if costs.read || costs.write => {
                    "by the model, reading and writing remote memory gains nothing here"
                }
                _ => "there is no remote memory",
            };
            return vec![format!("longer: announced, then copied packet by packet ({why})")];
        }
    };
    let said = if said == Rendezvous::Auto { "" } else { " (WEFT_RENDEZVOUS)" };
    if plan.least <= shortest {
        return vec![format!("longer: announced, then {by_device}{said}")];
    }
    vec![
        "longer: announced, then copied packet by packet".to_owned(),
        format!("from {} on: announced, then {by_device}{said}", bytes(plan.least)),
    ]
}

fn bytes(count: u64) -> String {
    match count {
        0 => "0 bytes".to_owned(),
        _ if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} bytes"),
    }
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
