use super::*;
use std::net::Ipv4Addr;
use weft_api::verbs::DeviceAddress;
use weft_rdma::{Directory, PeerCard};
use weft_types::{Error, ErrorClass, Result};
use weft_verbs::Link;

/// One that is asked for nobody.
#[derive(Debug)]
struct Nobody;

impl Directory for Nobody {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        Err(Error::new(ErrorClass::OTHER, format!("process {} is nowhere", peer.0)))
    }
}

fn emulated(rails: u32) -> Fabric {
    let address = Ipv4Addr::LOCALHOST.into();
    Fabric::softroce(PeerId(0), address, rails, None, 0, Box::new(Nobody)).expect("a socket").0
}

#[test]
fn every_rail_that_was_opened_is_told_in_the_first_line() {
    for (rails, told) in [
        (1, "one rail, an emulated device"),
        (2, "2 rails, an emulated device and another"),
        (4, "4 rails, an emulated device, another, another and another"),
        (8, "8 rails, an emulated device, "),
    ] {
        let fabric = emulated(rails);
        assert_eq!(fabric.rails().len(), rails as usize);
        let why = fabric.why(true).expect("told");
        assert!(why.lines().next().is_some_and(|line| line.contains(told)), "{why}");
    }
}

fn port(device: &str, port: u8, link: Link, emulated: bool) -> Choice {
    let socket = (Ipv4Addr::LOCALHOST, 4791).into();
    Choice {
        device: device.to_owned(),
        port,
        link,
        gids: Vec::new(),
        address: DeviceAddress { socket, lid: 0 },
        partition: weft_verbs::Partition::DEFAULT,
        emulated,
        card: device.to_owned(),
        why: format!("{device} port {port}"),
    }
}

#[test]
fn further_rails_are_the_next_best_ports_of_the_firsts_kind_on_other_cards_first() {
    let ports = || {
        vec![
            port("mlx5_0", 1, Link::InfiniBand, false),
            port("mlx5_2", 1, Link::Ethernet, false),
            port("mlx5_1", 1, Link::InfiniBand, false),
            port("mlx5_1", 2, Link::InfiniBand, false),
            port("rxe0", 1, Link::Ethernet, true),
        ]
    };
    let table: [(Option<&str>, u32, &[&str]); 8] = [
        (None, 1, &["mlx5_0 port 1"]),
        (None, 2, &["mlx5_0 port 1", "mlx5_1 port 1"]),
        (Some("mlx5_1"), 1, &["mlx5_1 port 1"]),
        (Some("mlx5_1"), 2, &["mlx5_1 port 1", "mlx5_0 port 1"]),
        (None, 8, &["mlx5_0 port 1", "mlx5_1 port 1", "mlx5_1 port 2"]),
        (Some("mlx5_2"), 2, &["mlx5_2 port 1"]),
        (Some("rxe0"), 2, &["rxe0 port 1"]),
        // What is no verbs device, as a launcher may name it.
        (Some("cxi0"), 1, &["mlx5_0 port 1"]),
    ];
    for (rail, rails, expected) in table {
        let found: Vec<String> =
            rails_of(ports(), rail, rails).into_iter().map(|choice| choice.why).collect();
        assert_eq!(found, expected, "{rail:?}, {rails}");
    }
    assert!(rails_of(Vec::new(), None, 2).is_empty());
    // Eight devices on four cards: one of each first.
    let eight = (0..8).map(|at| {
        let device = format!("mlx5_{at}");
        Choice { card: format!("0000:{}0:00", at / 2 + 1), ..port(&device, 1, Link::InfiniBand, false) }
    });
    let eight: Vec<Choice> = eight.collect();
    let found = |rail, rails| {
        let found = rails_of(eight.clone(), rail, rails).into_iter();
        found.map(|choice| choice.device[5..].to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(None, 4), "0 2 4 6");
    assert_eq!(found(Some("mlx5_5"), 4), "5 0 2 6");
    assert_eq!(found(None, 6), "0 2 4 6 1 3");
    assert_eq!(found(None, 99), "0 2 4 6 1 3 5 7");
}

/// A card of 100 Gbit/s that pins pages.
const CARD: RendezvousCosts = RendezvousCosts {
    read: true,
    write: true,
    kept: false,
    registration: 20e-6,
    registration_per_byte: 0.02e-9,
    read_latency: 1.5e-6,
    latency: 0.75e-6,
    bandwidth: 12e9,
    copy_bandwidth: 6e9,
};

#[test]
fn long_messages_are_told_with_the_border_that_the_engine_takes() {
    const EAGER: u32 = 64 << 10;
    let tell = |said, costs: &RendezvousCosts| long_messages(said, Some(costs), EAGER);
    let least = weft_proto::rendezvous::choose(Rendezvous::Auto, &CARD).least;
    let told = tell(Rendezvous::Auto, &CARD);
    assert!(least > u64::from(EAGER), "there is something between the two borders");
    assert!(
        told[0].contains("packet by packet") && told[1].contains(&format!("from {least} bytes on")),
        "{told:?}"
    );
    // Registered once for several messages: from the eager limit on.
    let free = RendezvousCosts { kept: true, registration: 0.0, ..CARD };
    let told = tell(Rendezvous::Auto, &free);
    assert!(told.len() == 1 && told[0].starts_with("longer: announced, then read by"), "{told:?}");
    // A device that is no faster than copies: nothing is read.
    let told = tell(Rendezvous::Auto, &RendezvousCosts { bandwidth: 6e9, ..CARD });
    assert!(told[0].contains("packet by packet (by the model"), "{told:?}");
    let table = [
        (Rendezvous::Stream, "WEFT_RENDEZVOUS=stream"),
        (Rendezvous::Read, "read by the receiver from the sender's memory (WEFT_RENDEZVOUS)"),
        (Rendezvous::Write, "written by the sender into the receiver's memory (WEFT_RENDEZVOUS)"),
    ];
    for (said, words) in table {
        let told = tell(said, &CARD);
        assert!(told.len() == 1 && told[0].contains(words), "{told:?}");
    }
    assert!(long_messages(Rendezvous::Auto, None, EAGER)[0].contains("no remote memory"));
}

#[test]
fn the_emulator_tells_what_its_own_costs_lead_to() {
    let fabric = emulated(1);
    let can = fabric.zero_copy(ANY).expect("registered memory");
    let plan =
        weft_proto::rendezvous::choose(Rendezvous::Auto, &costs(&can, &fabric.capabilities(ANY), true));
    let told = fabric.protocols(Rendezvous::Auto, 64 << 10, true).join("\n");
    assert_eq!(told.contains("read by the receiver"), plan.read, "{told}");
    assert!(told.contains("up to 64 KiB"), "{told}");
    assert!(
        told.contains(
            "numbers of 8 bytes in windows: single ones by the target's device, in its calls of MPI"
        )
    );
    let read = fabric.protocols(Rendezvous::Read, 64 << 10, true).join("\n");
    assert!(read.contains("longer: announced, then read by the receiver"), "{read}");
}

#[test]
fn what_becomes_of_registered_memory_is_told_with_the_reason() {
    let fabric = emulated(1);
    let why = fabric.why(true).expect("told");
    assert!(why.lines().nth(1).is_some_and(|line| line.contains("registered memory is kept")), "{why}");
    let never = Kept::Never("why not".into());
    for (who, how, words) in [
        (Device::Pages, &Kept::Always, "is kept for later messages: the device follows"),
        (Device::Pages, &Kept::Watched, "is kept for later messages: the device pins pages"),
        (Device::Provider, &Kept::Watched, "the kernel tells what the program unmaps (userfaultfd)"),
        (
            Device::Pages,
            &never,
            "is given back with each message: the device pins pages (no on-demand paging)",
        ),
        (Device::Provider, &never, "nothing tells that the program unmaps them (why not)"),
        (Device::Software, &Kept::Always, "the provider copies by addresses"),
    ] {
        assert!(kept(who, how).contains(words), "{who:?}");
    }
}

#[test]
fn what_the_user_wants_is_told_as_the_reason() {
    assert_eq!(Kept::of(true, false), Kept::Always, "whatever the user wants");
    assert_eq!(Kept::of(false, false), Kept::Never("WEFT_KEEP_REGISTERED=no".into()));
}
