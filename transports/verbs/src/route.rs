//! What belongs to the packets to a peer beside the addresses: a pure function of what was set by hand, what the connection
//! manager says of the way, and the port.

use crate::survey::Link;
use std::fmt;
use weft_types::params::Routes;

/// What a user has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteWish {
    /// Whether the connection manager is asked (`WEFT_ROUTES`).
    pub ask: Routes,
    /// The service level of all packets (`WEFT_SERVICE_LEVEL`), whatever a route says.
    pub service_level: Option<u8>,
    /// Their traffic class (`WEFT_TRAFFIC_CLASS`), whatever a route says.
    pub traffic_class: Option<u8>,
}

/// What counts of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PortFacts {
    pub(crate) link: Link,
    /// Most bytes of a packet.
    pub(crate) mtu: u32,
    pub(crate) bytes_per_second: f64,
    /// Its local identifier.
    pub(crate) lid: u16,
}

/// What the manager says of a way: a path record (InfiniBand Architecture Specification 1.7, section 15.2.5.16), in codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) destination_lid: u16,
    pub(crate) source_lid: u16,
    pub(crate) flow_label: u32,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) service_level: u8,
    /// 1 to 5: 256 bytes to 4096.
    pub(crate) mtu: u8,
    pub(crate) rate: u8,
    /// 4.096 us * 2^this.
    pub(crate) lifetime: u8,
}

/// What goes into packets and queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) service_level: u8,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pub(crate) flow_label: u32,
    /// The rate's code where the way is slower than the port, so that the device must pause between packets; 0: it need not.
    pub(crate) static_rate: u8,
    /// Most bytes of a packet.
    pub(crate) mtu: u32,
    /// Code of the time that a packet is under way at most; `None`: nobody knows.
    pub(crate) lifetime: Option<u8>,
    /// Whom packets go to in the own subnet (a router, or one of a port's identifiers); `None`: the peer's own.
    pub(crate) lid: Option<u16>,
    /// Which of the own port's identifiers packets come from, counted from the first.
    pub(crate) path_bits: u8,
    /// The way leads through routers, also where both ends seem to be of one subnet.
    pub(crate) is_routed: bool,
}

/// Hops of packets of which nobody says how many.
const HOPS: u8 = 64;
/// The longest silence before packets are repeated that a lifetime can make: 4.3 s.
const LONGEST_TIMEOUT: u8 = 20;
/// How long all tries of a packet together should take at most, in units of 4.096 us: 8 s.
const ALL_TRIES: u64 = 8_000_000 * 1000 / 4096;
/// Identifiers that a port has at most.
const MOST_LIDS: u16 = 128;

/// What belongs to packets of a way. `answer`: what the manager says, if it was asked and answered.
pub(crate) fn decide(answer: Option<&Answer>, wish: &RouteWish, port: &PortFacts) -> Attributes {
    let mut found = Attributes {
        service_level: 0,
        traffic_class: 0,
        hop_limit: HOPS,
        flow_label: 0,
        static_rate: 0,
        mtu: port.mtu,
        lifetime: None,
        lid: None,
        path_bits: 0,
        is_routed: false,
    };
    if let Some(answer) = answer {
        found.service_level = answer.service_level & 0xf;
        found.traffic_class = answer.traffic_class;
        if let Some(mtu) = bytes(answer.mtu) {
            found.mtu = mtu.min(port.mtu);
        }
        match port.link {
            Link::InfiniBand => infiniband(&mut found, answer, port),
            // Rate and lifetime are constants of the kernel there, the speed of the interface and 268 ms; the label is found by
            // whoever sends, from the queue pairs.
            Link::Ethernet => {
                found.service_level &= 0x7;
                if answer.hop_limit > 0 {
                    found.hop_limit = answer.hop_limit;
                }
            }
        }
    }
    found.service_level = wish.service_level.unwrap_or(found.service_level);
    found.traffic_class = wish.traffic_class.unwrap_or(found.traffic_class);
    found
}

/// What a subnet manager alone knows.
fn infiniband(found: &mut Attributes, answer: &Answer, port: &PortFacts) {
    found.flow_label = answer.flow_label & 0xf_ffff;
    // Within a subnet nobody counts, and there it is 0 or 1.
    found.is_routed = answer.hop_limit > 1;
    if found.is_routed {
        found.hop_limit = answer.hop_limit;
    }
    found.lifetime = Some(answer.lifetime & 0x1f);
    found.lid = Some(answer.destination_lid).filter(|&lid| lid != 0);
    // Of a port with several identifiers, the manager may have chosen another one.
    let beside = answer.source_lid.wrapping_sub(port.lid);
    found.path_bits = if beside < MOST_LIDS { beside as u8 } else { 0 };
    let own = port.bytes_per_second * 8e-9;
    let code = answer.rate & 0x3f;
    found.static_rate = if gigabits(code).is_some_and(|rate| rate < 0.95 * own) { code } else { 0 };
}

/// How a connection waits: the code of the silence before packets are repeated, and how often they are. A packet and its answer
/// may both be under way for as long as the way allows; the more time that takes, the fewer tries, so that a dead peer is
/// noticed.
pub(crate) fn silence(lifetime: Option<u8>, timeout: u8, retries: u8) -> (u8, u8) {
    let there_and_back = lifetime.map_or(0, |code| (code + 1).min(LONGEST_TIMEOUT));
    // 0 is for ever.
    if timeout == 0 || there_and_back <= timeout {
        return (timeout, retries);
    }
    let tries = (ALL_TRIES >> there_and_back).clamp(3, u64::from(retries).max(2) + 1);
    (there_and_back, tries as u8 - 1)
}

/// Whether what was set can be had on a link.
///
/// # Errors
/// What cannot, in words.
pub(crate) fn check(wish: &RouteWish, link: Link) -> Result<(), String> {
    match (link, wish.service_level) {
        (Link::Ethernet, Some(level @ 8..)) => Err(format!(
            "WEFT_SERVICE_LEVEL is {level}, and RoCE has priorities 0 to 7 (InfiniBand has service levels 0 to 15)"
        )),
        _ => Ok(()),
    }
}

/// Bytes of a packet from their code.
fn bytes(code: u8) -> Option<u32> {
    // Omni-Path has larger ones, which fit no queue pair here.
    matches!(code & 0x3f, 1..=5).then(|| 128 << (code & 0x3f))
}

/// A rate from its code (section 15.2.5.16), in Gb/s.
fn gigabits(code: u8) -> Option<f64> {
    Some(match code {
        2 => 2.5,
        3 => 10.0,
        4 => 30.0,
        5 => 5.0,
        6 => 20.0,
        7 => 40.0,
        8 => 60.0,
        9 => 80.0,
        10 => 120.0,
        11 => 14.0,
        12 => 56.0,
        13 => 112.0,
        14 => 168.0,
        15 => 25.0,
        16 => 100.0,
        17 => 200.0,
        18 => 300.0,
        19 => 28.0,
        20 => 50.0,
        21 => 400.0,
        22 => 600.0,
        23 => 800.0,
        24 => 1200.0,
        _ => return None,
    })
}

/// In words, without what is as usual.
impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service level {}, packets of {} bytes", self.service_level, self.mtu)?;
        if self.traffic_class != 0 {
            write!(f, ", traffic class {}", self.traffic_class)?;
        }
        if self.hop_limit != HOPS {
            write!(f, ", {} hops", self.hop_limit)?;
        }
        if let Some(rate) = gigabits(self.static_rate) {
            write!(f, ", at most {rate} Gb/s")?;
        }
        if let Some(code) = self.lifetime {
            write!(f, ", under way for at most {:.3} ms", 4.096e-3 * f64::from(1_u32 << code))?;
        }
        if self.is_routed {
            f.write_str(", through routers")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINIBAND: PortFacts =
        PortFacts { link: Link::InfiniBand, mtu: 4096, bytes_per_second: 100e9 / 8.0, lid: 7 };
    const ETHERNET: PortFacts = PortFacts { link: Link::Ethernet, lid: 0, mtu: 1024, ..INFINIBAND };
    const NOTHING: RouteWish = RouteWish { ask: Routes::Auto, service_level: None, traffic_class: None };
    /// Service level 3, 2048 bytes, 100 Gb/s, 1.07 s.
    const ANSWER: Answer = Answer {
        destination_lid: 9,
        source_lid: 7,
        flow_label: 0,
        hop_limit: 0,
        traffic_class: 0,
        service_level: 3,
        mtu: 4,
        rate: 16,
        lifetime: 18,
    };

    #[test]
    fn nobodys_answer_changes_nothing() {
        for port in [&INFINIBAND, &ETHERNET] {
            let found = decide(None, &NOTHING, port);
            assert_eq!((found.service_level, found.traffic_class, found.hop_limit), (0, 0, 64));
            assert_eq!((found.mtu, found.static_rate, found.lifetime), (port.mtu, 0, None));
            assert_eq!((found.lid, found.path_bits, found.is_routed), (None, 0, false));
        }
    }

    #[test]
    fn a_subnet_managers_record_is_taken_over() {
        let found = decide(Some(&ANSWER), &NOTHING, &INFINIBAND);
        assert_eq!((found.service_level, found.mtu, found.lifetime), (3, 2048, Some(18)));
        assert_eq!((found.lid, found.path_bits, found.is_routed, found.hop_limit), (Some(9), 0, false, 64));
        assert_eq!(found.static_rate, 0, "as fast as the port");
        let answer =
            Answer { rate: 3, hop_limit: 30, traffic_class: 5, flow_label: 77, source_lid: 10, ..ANSWER };
        let found = decide(Some(&answer), &NOTHING, &INFINIBAND);
        assert_eq!(found.static_rate, 3, "10 Gb/s, of 100");
        assert_eq!(
            (found.is_routed, found.hop_limit, found.traffic_class, found.flow_label),
            (true, 30, 5, 77)
        );
        assert_eq!(found.path_bits, 3, "the fourth identifier of the port");
        let odd =
            Answer { source_lid: 3, destination_lid: 0, mtu: 6, rate: 63, service_level: 0xf3, ..ANSWER };
        let found = decide(Some(&odd), &NOTHING, &INFINIBAND);
        assert_eq!((found.path_bits, found.lid, found.mtu, found.static_rate), (0, None, 4096, 0));
        assert_eq!(found.service_level, 3);
    }

    #[test]
    fn on_ethernet_the_administrators_class_counts_and_the_kernels_constants_do_not() {
        let answer = Answer { traffic_class: 104, hop_limit: 12, mtu: 5, rate: 2, lifetime: 16, ..ANSWER };
        let found = decide(Some(&answer), &NOTHING, &ETHERNET);
        assert_eq!((found.service_level, found.traffic_class, found.hop_limit), (3, 104, 12));
        assert_eq!(found.mtu, 1024, "no more than the port's");
        assert_eq!((found.static_rate, found.lifetime, found.lid, found.is_routed), (0, None, None, false));
        assert_eq!(decide(Some(&Answer { hop_limit: 0, ..answer }), &NOTHING, &ETHERNET).hop_limit, 64);
        assert_eq!(decide(Some(&Answer { mtu: 2, ..answer }), &NOTHING, &ETHERNET).mtu, 512);
    }

    #[test]
    fn what_is_set_by_hand_counts_more_than_any_answer() {
        let wish = RouteWish { service_level: Some(0), traffic_class: Some(32), ..NOTHING };
        for answer in [None, Some(&ANSWER)] {
            let found = decide(answer, &wish, &INFINIBAND);
            assert_eq!((found.service_level, found.traffic_class), (0, 32));
        }
        assert_eq!(decide(Some(&ANSWER), &wish, &INFINIBAND).mtu, 2048, "the rest of the answer counts");
    }

    #[test]
    fn ethernet_has_fewer_priorities_than_infiniband_has_levels() {
        for (level, link, is_fine) in [
            (Some(15), Link::InfiniBand, true),
            (Some(7), Link::Ethernet, true),
            (Some(8), Link::Ethernet, false),
            (None, Link::Ethernet, true),
        ] {
            let wish = RouteWish { service_level: level, ..NOTHING };
            assert_eq!(check(&wish, link).is_ok(), is_fine, "{level:?} {link:?}");
        }
    }

    #[test]
    fn a_long_way_is_waited_for_and_a_dead_peer_noticed() {
        assert_eq!(silence(None, 14, 7), (14, 7));
        assert_eq!(silence(Some(10), 14, 7), (14, 7), "shorter than ours");
        assert_eq!(silence(Some(14), 14, 7), (15, 7), "there and back");
        assert_eq!(silence(Some(18), 14, 7), (19, 2), "2.1 s, three times");
        assert_eq!(silence(Some(18), 0, 7), (0, 7), "for ever stays so");
        for lifetime in 0..32 {
            let (timeout, retries) = silence(Some(lifetime), 14, 7);
            let seconds = 4.096e-6 * f64::from(1 << timeout) * f64::from(retries + 1);
            assert!((2..=7).contains(&retries) && seconds < 13.0, "{lifetime}: {seconds} s");
            assert!(timeout > lifetime || timeout == 20, "{lifetime}");
        }
    }

    #[test]
    fn words_tell_what_is_not_as_usual() {
        let plain = decide(None, &NOTHING, &INFINIBAND).to_string();
        assert_eq!(plain, "service level 0, packets of 4096 bytes");
        let answer = Answer { rate: 3, hop_limit: 30, traffic_class: 104, ..ANSWER };
        let text = decide(Some(&answer), &NOTHING, &INFINIBAND).to_string();
        for part in ["level 3", "2048 bytes", "class 104", "30 hops", "10 Gb/s", "1073.742 ms", "routers"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
