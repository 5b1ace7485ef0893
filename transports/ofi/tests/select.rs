//! Which provider is chosen, over capability sets of providers as their manuals describe them (libfabric's section 7 pages and,
//! for numbers, what the library itself answers where it runs here). No hardware is needed: the choice sees nothing but data.

use std::net::IpAddr;
use weft_ofi::offer::{Carrier, Nic, Offer};
use weft_ofi::select::{Choice, Collectives, Merit, REMOTE_MEMORY, Wanted, Why, explain, select};
use weft_ofi::sys::*;

const REACH: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;
const BASE: u64 = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;

fn offer(provider: &str, domain: &str) -> Offer {
    Offer {
        provider: provider.into(),
        domain: domain.into(),
        fabric: "fabric".into(),
        caps: BASE | REMOTE_MEMORY | REACH,
        mode: 0,
        mr_mode: 0,
        protocol: 0,
        addr_format: FI_SOCKADDR_IN,
        ip: None,
        max_msg_size: usize::MAX,
        inject_size: 64,
        tx_size: 1024,
        rx_size: 1024,
        runs: 4,
        msg_order: FI_ORDER_SAS,
        data_progress: FI_PROGRESS_MANUAL,
        resource_mgmt: FI_RM_ENABLED,
        mr_key_size: 8,
        max_ep_tx_ctx: 1,
        ep_cnt: 32768,
        tells_delivery: true,
        nic: Nic::default(),
    }
}

fn card(gigabits: usize) -> Nic {
    Nic { on_bus: true, speed: gigabits * 1_000_000_000, down: false }
}

fn at(ip: &str, offer: Offer) -> Offer {
    let ip: IpAddr = ip.parse().unwrap();
    let addr_format = if ip.is_ipv4() { FI_SOCKADDR_IN } else { FI_SOCKADDR_IN6 };
    Offer { ip: Some(ip), addr_format, ..offer }
}

/// fi_opx(7): RDM only, FI_CONTEXT2 required, FI_MR_SCALABLE only, atomics; 4 bytes of data with a completion.
fn opx() -> Offer {
    Offer {
        caps: BASE | REMOTE_MEMORY | FI_ATOMIC | REACH,
        mode: FI_CONTEXT2,
        mr_mode: FI_MR_SCALABLE,
        addr_format: FI_ADDR_OPX,
        inject_size: 64,
        nic: card(100),
        ..offer("opx", "hfi1_0")
    }
}

/// fi_psm2(7): FI_CONTEXT required, manual progress, at most 64 bytes injected; the description names no device.
fn psm2() -> Offer {
    Offer {
        caps: BASE | REMOTE_MEMORY | FI_ATOMIC | REACH,
        mode: FI_CONTEXT,
        mr_mode: FI_MR_BASIC,
        addr_format: FI_ADDR_PSMX2,
        ..offer("psm2", "hfi1_0")
    }
}

/// fi_cxi(7): FI_MR_ENDPOINT required, no modes, no wait objects, 192 bytes injected, scalable endpoints.
fn cxi() -> Offer {
    Offer {
        caps: BASE | REMOTE_MEMORY | FI_ATOMIC | REACH,
        mr_mode: FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
        addr_format: FI_ADDR_CXI,
        inject_size: 192,
        mr_key_size: 4,
        max_ep_tx_ctx: 16,
        nic: card(200),
        ..offer("cxi", "cxi0")
    }
}

/// fi_efa(7): unordered on the wire but ordered for the program, keys of the provider's, no injecting worth the name.
fn efa() -> Offer {
    Offer {
        mr_mode: FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL,
        addr_format: FI_ADDR_EFA,
        inject_size: 32,
        nic: card(100),
        ..offer("efa", "rdmap0s6-rdm")
    }
}

/// fi_efa(7), the datagram's rules on an RDM endpoint that they would make unusable.
fn prefixed() -> Offer {
    Offer { mode: FI_MSG_PREFIX, max_msg_size: 8192, resource_mgmt: FI_RM_DISABLED, ..efa() }
}

/// fi_verbs(7) below fi_rxm(7): what the device needs of memory passes through; first sends are refused while it connects.
fn verbs() -> Offer {
    let memory = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
    at(
        "10.0.0.1",
        Offer {
            mr_mode: memory,
            protocol: FI_PROTO_RXM,
            nic: card(200),
            tx_size: 384,
            ..offer("verbs;ofi_rxm", "mlx5_0")
        },
    )
}

/// fi_tcp(7) of 2.x: RDM without a layer above it.
fn tcp(ip: &str) -> Offer {
    let protocol = FI_PROTO_XNET;
    at(ip, Offer { protocol, inject_size: 128, max_ep_tx_ctx: 1, ..offer("tcp", "eth0") })
}

/// fi_net(7) of 1.17: what became [`tcp`] in 1.18, which 1.17 names behind its own tcp below rxm.
fn net(ip: &str) -> Offer {
    let queues = Offer { inject_size: 128, tx_size: 256, rx_size: 256, ..offer("net", "eth0") };
    at(ip, Offer { protocol: FI_PROTO_XNET, ..queues })
}

/// fi_tcp(7) below fi_rxm(7), as 1.17 answers.
fn tcp_rxm(ip: &str) -> Offer {
    at(ip, Offer { protocol: FI_PROTO_RXM, tx_size: 2048, rx_size: 2048, ..offer("tcp;ofi_rxm", "eth0") })
}

/// fi_shm(7): inside a node only.
fn shm() -> Offer {
    Offer {
        caps: BASE | REMOTE_MEMORY | FI_ATOMIC | FI_LOCAL_COMM,
        addr_format: FI_ADDR_STR,
        inject_size: 4096,
        ..offer("shm", "shm")
    }
}

/// fi_sockets(7): can do everything, slowly; the library names it last.
fn sockets(ip: &str) -> Offer {
    let caps = BASE | REMOTE_MEMORY | FI_ATOMIC | REACH;
    at(
        ip,
        Offer {
            caps,
            data_progress: FI_PROGRESS_AUTO,
            max_msg_size: 1 << 23,
            max_ep_tx_ctx: 16,
            inject_size: 255,
            ..offer("sockets", "eth0")
        },
    )
}

/// fi_udp(7) alone: datagrams of one packet that may be lost (its RDM form is made by fi_rxd(7)).
fn udp(ip: &str) -> Offer {
    at(ip, Offer { caps: FI_MSG | FI_SEND | FI_RECV | REACH, max_msg_size: 1472, ..offer("udp", "eth0") })
}

/// fi_udp(7) below fi_rxd(7): no remote memory worth the name, no order promised.
fn udp_rxd(ip: &str) -> Offer {
    at(ip, Offer { caps: BASE | REACH, protocol: FI_PROTO_RXD, msg_order: 0, ..offer("udp;ofi_rxd", "eth0") })
}

fn wanted(address: &str) -> Wanted {
    Wanted { between_nodes: true, address: Some(address.parse().unwrap()), ..Wanted::default() }
}

fn chosen(offers: &[Offer], wanted: &Wanted) -> (String, Choice) {
    let choice = select(offers, wanted).expect("something can be used");
    (offers[choice.index].provider.clone(), choice)
}

const HERE: &str = "10.0.0.1";

#[test]
fn every_provider_that_can_be_used_is_used_when_it_is_alone() {
    for only in [opx(), psm2(), cxi(), efa(), verbs(), tcp(HERE), tcp_rxm(HERE), sockets(HERE), udp_rxd(HERE)]
    {
        let (name, choice) = chosen(std::slice::from_ref(&only), &wanted(HERE));
        assert_eq!((name, choice.merit, choice.others), (only.provider, None, vec![]));
    }
}

#[test]
fn a_device_comes_before_sockets_wherever_it_stands_in_the_list() {
    for device in [opx(), psm2(), cxi(), efa(), verbs()] {
        for list in [
            [tcp_rxm(HERE), device.clone(), sockets(HERE)],
            [device.clone(), sockets(HERE), tcp_rxm(HERE)],
            [sockets(HERE), tcp_rxm(HERE), device.clone()],
        ] {
            let (name, choice) = chosen(&list, &wanted(HERE));
            assert_eq!(name, device.provider);
            assert_eq!(choice.merit, Some(Merit::Device));
            assert!(choice.others.iter().all(|(_, why)| *why == Why::Worse(Merit::Device)));
        }
    }
}

#[test]
fn a_faster_link_wins_and_a_dead_one_does_not_count() {
    let slow = Offer { nic: card(25), ..verbs() };
    let (name, choice) = chosen(&[slow.clone(), cxi()], &wanted(HERE));
    assert_eq!((name.as_str(), choice.merit), ("cxi", Some(Merit::Speed(200_000_000_000))));
    let dead = Offer { nic: Nic { on_bus: true, speed: 400_000_000_000, down: true }, ..cxi() };
    let (name, choice) = chosen(&[dead, slow], &wanted(HERE));
    assert_eq!(name, "verbs;ofi_rxm");
    assert_eq!(choice.others, [(0, Why::LinkDown)]);
}

#[test]
fn of_equal_devices_the_nearest_is_taken_and_never_another_provider() {
    let four: Vec<Offer> = (0..4).map(|at| Offer { domain: format!("cxi{at}"), ..cxi() }).collect();
    let near = |rail: &str| Wanted { rail: Some(rail.into()), ..wanted(HERE) };
    for (rail, index) in [("cxi2", 2), ("cxi0", 0), ("cxi", 0), ("mlx5_0", 0)] {
        assert_eq!(chosen(&four, &near(rail)).1.index, index, "{rail}");
    }
    let (_, choice) = chosen(&four, &near("cxi3"));
    assert_eq!((choice.merit, choice.others.len()), (Some(Merit::Near), 3));
    let amazon = [Offer { domain: "rdmap0s5-rdm".into(), ..efa() }, efa()];
    assert_eq!(chosen(&amazon, &near("rdmap0s6")).1.index, 1);
    // A faster one further away is better, and so is another provider that comes first.
    let slow = Offer { nic: card(100), ..cxi() };
    assert_eq!(chosen(&[slow, four[1].clone()], &near("cxi0")).1.index, 1);
    let other = Offer { provider: "other".into(), domain: "other".into(), ..cxi() };
    assert_eq!(chosen(&[other, four[2].clone()], &near("cxi2")).1.index, 0);
}

#[test]
fn without_a_device_the_library_s_order_decides_between_equals() {
    let list = [tcp_rxm(HERE), sockets(HERE), udp_rxd(HERE)];
    let (name, choice) = chosen(&list, &wanted(HERE));
    assert_eq!((name.as_str(), choice.merit), ("tcp;ofi_rxm", Some(Merit::First)));
    assert_eq!(choice.others[1], (2, Why::Worse(Merit::RemoteMemory)));
    // More capabilities than are needed are no merit.
    assert_eq!(choice.others[0], (1, Why::Worse(Merit::First)));
}

#[test]
fn of_sockets_those_without_a_layer_that_copies_come_first() {
    for direct in [tcp(HERE), net(HERE)] {
        let name = direct.provider.clone();
        let (found, choice) = chosen(&[tcp_rxm(HERE), sockets(HERE), direct], &wanted(HERE));
        assert_eq!((found, choice.merit), (name, Some(Merit::Direct)));
        assert_eq!(choice.others, [(0, Why::Worse(Merit::Direct)), (1, Why::Worse(Merit::Direct))]);
    }
    // An adapter's layer is as good as what has none, and memory inside the node needs no connections.
    let (name, _) = chosen(&[Offer { nic: Nic::default(), ..verbs() }, tcp(HERE)], &wanted(HERE));
    assert_eq!(name, "verbs;ofi_rxm");
    let (name, choice) = chosen(&[shm(), net(HERE)], &Wanted { between_nodes: false, ..wanted(HERE) });
    assert_eq!((name.as_str(), choice.merit), ("shm", Some(Merit::First)));
}

/// As libfabric 1.17 answers on the kernel's emulated adapter (rxe), in its order and more: each address once more in
/// InfiniBand's own form.
fn emulated() -> Vec<Offer> {
    let nic = Nic { on_bus: false, speed: 8_000_000_000, down: false };
    let of_link = Offer { addr_format: FI_SOCKADDR_IB, ip: None, nic, ..verbs() };
    let of_ip = |ip: &str| at(ip, Offer { nic, ..verbs() });
    vec![of_link.clone(), of_ip("fe80::2"), of_ip("10.9.0.1"), of_ip("fd09::1"), of_link]
}

#[test]
fn an_adapter_is_used_at_its_own_address() {
    // Known by another address, as processes of one node are by 127.0.0.1: an adapter is found by what its endpoint says.
    let (_, choice) = chosen(&emulated(), &wanted("127.0.0.1"));
    assert_eq!((choice.index, choice.merit), (2, Some(Merit::First)));
    // Datagrams over it do not come before its connections.
    let datagrams = Offer {
        addr_format: FI_ADDR_IB_UD,
        mr_mode: 0,
        ip: None,
        protocol: FI_PROTO_RXD,
        ..emulated().remove(2)
    };
    let (_, choice) = chosen(&[emulated().remove(2), datagrams], &wanted("127.0.0.1"));
    assert_eq!((choice.index, choice.merit), (0, Some(Merit::First)));
    // At the node's address where it is there.
    let (_, choice) = chosen(&emulated(), &wanted("fd09::1"));
    assert_eq!((choice.index, choice.merit), (3, Some(Merit::Address)));
    // Rather at an address of the link than in the form by which layers cannot be asked, and so rather than not at all.
    let (_, choice) = chosen(&emulated()[..2], &wanted(HERE));
    assert_eq!((choice.index, choice.merit), (0, Some(Merit::First)));
    // It still does not win against what is at the right one, where sockets are as good: a faster link comes first.
    let (name, _) = chosen(&[tcp(HERE), emulated().remove(2)], &wanted(HERE));
    assert_eq!(name, "verbs;ofi_rxm");
}

#[test]
fn each_requirement_that_is_not_met_is_named() {
    let cases = [
        (udp(HERE), Why::ShortMessages(1472)),
        (prefixed(), Why::Mode(FI_MSG_PREFIX)),
        (Offer { mode: 0, max_msg_size: usize::MAX, ..prefixed() }, Why::Overruns),
        (Offer { mr_mode: FI_MR_RAW | FI_MR_LOCAL, ..verbs() }, Why::Memory(FI_MR_RAW)),
        (Offer { caps: REMOTE_MEMORY | REACH, ..tcp(HERE) }, Why::NoMessages),
        (shm(), Why::NodeOnly),
        (tcp("192.168.7.7"), Why::OtherAddress("192.168.7.7".parse().unwrap())),
        (tcp("fe80::1"), Why::OtherAddress("fe80::1".parse().unwrap())),
    ];
    for (bad, why) in cases {
        assert_eq!(select(std::slice::from_ref(&bad), &wanted(HERE)), Err(vec![(0, why.clone())]));
        let (name, choice) = chosen(&[bad, tcp(HERE)], &wanted(HERE));
        assert_eq!((name.as_str(), choice.others), ("tcp", vec![(0, why)]), "the fallback is found");
    }
}

#[test]
fn tags_are_used_where_there_is_nothing_else_or_they_are_asked_for() {
    let only_tags = |offer: Offer| Offer { caps: offer.caps & !FI_MSG, ..offer };
    let asked = |carrier| Wanted { carrier: Some(carrier), ..wanted(HERE) };
    for offer in
        [opx(), psm2(), cxi(), efa(), verbs(), tcp(HERE), tcp_rxm(HERE), sockets(HERE), udp_rxd(HERE)]
    {
        assert_eq!(offer.carrier(&wanted(HERE)), Carrier::Messages, "{offer} has both");
        assert_eq!(offer.carrier(&asked(Carrier::Tags)), Carrier::Tags);
        let alone = only_tags(offer);
        assert_eq!(alone.carrier(&wanted(HERE)), Carrier::Tags);
        let list = [alone];
        let outcome = select(&list, &wanted(HERE));
        let text = explain(&list, &wanted(HERE), &outcome);
        assert!(outcome.is_ok() && text.contains("messages with tags"), "{text}");
        let why = Why::OtherCarrier(Carrier::Messages);
        assert_eq!(select(&list, &asked(Carrier::Messages)), Err(vec![(0, why)]));
    }
    // It is a way like the other: a device with nothing but tags is still better than sockets.
    let (name, choice) = chosen(&[tcp(HERE), only_tags(psm2())], &wanted(HERE));
    assert_eq!((name.as_str(), choice.merit), ("psm2", Some(Merit::Device)));
    let (name, choice) =
        chosen(&[Offer { caps: opx().caps & !FI_TAGGED, ..opx() }, tcp(HERE)], &asked(Carrier::Tags));
    assert_eq!((name.as_str(), choice.others), ("tcp", vec![(0, Why::OtherCarrier(Carrier::Tags))]));
}

#[test]
fn packets_are_no_longer_than_what_leaves_in_one_step() {
    for layered in [opx(), psm2(), cxi(), efa(), verbs(), tcp_rxm(HERE), udp_rxd(HERE), shm()] {
        assert_eq!(layered.eager_bytes(), 16 << 10, "{layered}");
    }
    assert_eq!(tcp(HERE).eager_bytes(), usize::MAX, "a socket takes all there is");
}

#[test]
fn who_runs_collectives_is_told_with_the_reason() {
    for (collectives, word) in [
        (Collectives::NotOffered, "neither"),
        (Collectives::OnlyDeferred, "no arithmetic"),
        (Collectives::OnProcessor, "WEFT_OFFLOAD=yes"),
        (Collectives::NotWanted, "WEFT_OFFLOAD=no"),
        (Collectives::Useless, "none of those"),
    ] {
        let text = collectives.to_string();
        assert!(text.contains(word) && text.starts_with("libfabric: the engine runs collectives"), "{text}");
    }
    let text = Collectives::Provider("barrier".into()).to_string();
    assert!(
        text.starts_with("libfabric: the provider runs collectives") && text.ends_with("barrier"),
        "{text}"
    );
}

#[test]
fn inside_a_node_shared_memory_will_do() {
    let inside = Wanted { between_nodes: false, ..wanted(HERE) };
    assert_eq!(chosen(&[shm(), tcp(HERE)], &inside).0, "shm");
    let outside_only = Offer { caps: BASE | FI_REMOTE_COMM, ..tcp(HERE) };
    assert_eq!(select(&[outside_only], &inside), Err(vec![(0, Why::RemoteOnly)]));
}

#[test]
fn a_name_forces_a_provider_or_nothing() {
    let list = [opx(), tcp(HERE), tcp_rxm(HERE)];
    let named = |name: &str| Wanted { provider: Some(name.into()), ..wanted(HERE) };
    let (name, choice) = chosen(&list, &named("tcp;ofi_rxm"));
    assert_eq!(name, "tcp;ofi_rxm");
    assert_eq!(choice.others, [(0, Why::NotAsked), (1, Why::NotAsked)]);
    let nothing = select(&list, &named("cxi"));
    assert_eq!(nothing.as_ref().unwrap_err().len(), 3);
    let text = explain(&list, &named("cxi"), &nothing);
    assert!(text.starts_with("libfabric: no provider named cxi can carry"), "{text}");
}

#[test]
fn the_explanation_says_why_this_one_and_why_not_each_other() {
    let list = [tcp_rxm(HERE), shm(), opx(), tcp("192.168.7.7"), udp(HERE)];
    let wanted = wanted(HERE);
    let text = explain(&list, &wanted, &select(&list, &wanted));
    assert_eq!(
        text,
        "libfabric: opx on hfi1_0: over a device, remote memory; better than the next by driving a device itself
  not tcp;ofi_rxm on eth0 (10.0.0.1): the chosen one is better by driving a device itself
  not shm on shm: it stays inside a node (no FI_REMOTE_COMM), and the job does not
  not tcp at other addresses than the one by which this node is known
  not udp on eth0 (10.0.0.1): its messages end at 1472 bytes, and 2048 are needed"
    );
    assert_eq!(
        explain(&[], &wanted, &select(&[], &wanted)),
        "libfabric: no provider can carry this job's messages"
    );
}

#[test]
fn the_order_of_equals_is_the_only_thing_that_a_shuffle_changes() {
    let list =
        [opx(), psm2(), cxi(), efa(), verbs(), tcp(HERE), tcp_rxm(HERE), shm(), sockets(HERE), udp(HERE)];
    for turn in 0..list.len() {
        let mut turned = list.clone();
        turned.rotate_left(turn);
        // Both have 200 Gbit/s and everything else that counts.
        let (name, _) = chosen(&turned, &wanted(HERE));
        let first = turned.iter().find(|offer| offer.speed() == 200_000_000_000).unwrap();
        assert_eq!(name, first.provider);
    }
}
