use super::*;

fn device(name: &str, speech: Speech, cpus: &str, active: bool) -> Device {
    Device {
        name: name.to_owned(),
        speech,
        pci: (!name.starts_with("rxe")).then(|| "0000:3b:00.0".to_owned()),
        numa_node: None,
        cpus: cpus.parse().expect("a list"),
        rate: active.then_some(100),
        active_ports: u32::from(active),
        ports: format!("port 1 {}", if active { "ACTIVE" } else { "DOWN" }),
    }
}

/// A machine where everything works with these devices.
fn machine(devices: Vec<Device>) -> Facts {
    Facts {
        devices,
        device_files: true,
        libibverbs: Some("/usr/lib/libibverbs.so.1".to_owned()),
        libfabric: Some("/usr/lib/libfabric.so.1".to_owned()),
        eager_limit: 65_536,
        ..Facts::default()
    }
}

const AUTO: Wish = Wish { forced: None, rdma: Rdma::Auto, rails: 1 };

fn ways(facts: &Facts) -> (Way, Way) {
    let plan = plan(facts, &AUTO).expect("a plan");
    (plan.mates.way, plan.far.expect("a way").way)
}

fn why_not(route: &Route, way: Way) -> &str {
    &route.others.iter().find(|(other, _)| *other == way).expect("a reason").1
}

#[test]
fn each_kind_of_machine_takes_its_best_way() {
    assert_eq!(ways(&machine(vec![])), (Way::Shm, Way::Softroce));
    for (speech, way) in [
        (Speech::InfiniBand, Way::Verbs),
        (Speech::Roce, Way::Verbs),
        (Speech::OmniPath, Way::Ofi),
        (Speech::Slingshot, Way::Ofi),
        (Speech::Efa, Way::Ofi),
        (Speech::Iwarp, Way::Softroce),
    ] {
        assert_eq!(ways(&machine(vec![device("d0", speech, "", true)])), (Way::Shm, way), "{speech:?}");
    }
}

#[test]
fn every_way_that_is_not_taken_has_its_reason() {
    let facts = machine(vec![device("mlx5_0", Speech::InfiniBand, "", true)]);
    let plan = plan(&facts, &AUTO).expect("a plan");
    let far = plan.far.as_ref().expect("a way");
    for route in [&plan.mates, far] {
        let mut told: Vec<Way> = route.others.iter().map(|(way, _)| *way).chain([route.way]).collect();
        told.sort();
        assert_eq!(told, Way::ALL, "each exactly once");
    }
    assert!(why_not(far, Way::Shm).contains("other nodes"));
    assert!(why_not(far, Way::Softroce).contains("us for 4 KiB"), "{far:?}");
    assert_eq!(far.rails, ["mlx5_0"]);
    let text = plan.explain();
    for word in [
        "to ranks of this node",
        "shm: they share",
        "verbs: the InfiniBand device mlx5_0",
        "not softroce",
        "64 KiB",
    ] {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
}

#[test]
fn what_is_missing_is_named_with_its_remedy_and_said_unasked() {
    let good = machine(vec![device("mlx5_0", Speech::InfiniBand, "", true)]);
    let table = [
        (Facts { libibverbs: None, ..good.clone() }, "apt-get install libibverbs1"),
        (Facts { device_files: false, ..good.clone() }, "--device=/dev/infiniband"),
        (Facts { memlock: Some(64 << 10), ..good.clone() }, "ulimit -l"),
        (machine(vec![device("mlx5_0", Speech::InfiniBand, "", false)]), "mlx5_0 (InfiniBand): port 1 DOWN"),
    ];
    for (facts, remedy) in table {
        let route = far(&facts, &AUTO).expect("sockets are allowed");
        assert_eq!(route.way, Way::Softroce);
        assert!(why_not(&route, Way::Verbs).contains(remedy), "{route:?}");
        let told = route.downgrade.as_deref().expect("a device that is not used is told");
        assert!(told.contains("mlx5_0 is not used") && told.contains(remedy), "{told}");
    }
    assert_eq!(far(&machine(vec![]), &AUTO).expect("a route").downgrade, None, "nothing to be sorry about");
    let emulated = Facts { libibverbs: None, ..machine(vec![device("rxe0", Speech::Roce, "", true)]) };
    assert_eq!(far(&emulated, &AUTO).expect("a route").downgrade, None, "a device of software is no loss");
}

#[test]
fn who_asks_for_rdma_gets_it_or_an_error() {
    let bare = machine(vec![]);
    let require = Wish { rdma: Rdma::Require, ..AUTO };
    let why = far(&bare, &require).expect_err("no device");
    assert!(
        why.contains("WEFT_RDMA=require") && why.contains("no RDMA device") && why.contains("prefer"),
        "{why}"
    );
    let rich = machine(vec![device("mlx5_0", Speech::Roce, "", true)]);
    let found = plan(&rich, &require).expect("a device");
    let between = found.far.expect("a device");
    assert_eq!((found.mates.way, between.way), (Way::Shm, Way::Verbs), "memory needs no device");
    assert!(why_not(&between, Way::Softroce).contains("WEFT_RDMA=require"));
    // By name: as strict, unless falling is allowed.
    let named = Wish { forced: Some(Way::Verbs), ..AUTO };
    let why = plan(&bare, &named).expect_err("no device");
    assert!(why.contains("WEFT_TRANSPORT=verbs") && why.contains("WEFT_RDMA=prefer"), "{why}");
    let allowed = far(&bare, &Wish { rdma: Rdma::Prefer, ..named }).expect("allowed");
    assert_eq!(allowed.way, Way::Softroce);
    assert!(allowed.downgrade.expect("told").contains("no RDMA device"));
    // Without a name as well; who names the emulator has what he asked for.
    let prefer = Wish { rdma: Rdma::Prefer, ..AUTO };
    let told = far(&bare, &prefer).expect("allowed").downgrade.expect("told");
    assert!(told.contains("WEFT_RDMA=prefer") && told.contains("no RDMA device (/sys"), "{told}");
    let told = far(&bare, &Wish { forced: Some(Way::Ofi), ..prefer }).expect("allowed").downgrade;
    assert!(told.is_some_and(|told| told.contains("go by ofi")));
    assert_eq!(far(&bare, &Wish { forced: Some(Way::Softroce), ..prefer }).expect("named").downgrade, None);
    assert_eq!(far(&rich, &prefer).expect("a device").downgrade, None);
    // The kernel's emulation is no device.
    let emulated = machine(vec![device("rxe0", Speech::Roce, "", true)]);
    assert!(far(&emulated, &require).is_err());
    assert_eq!(far(&emulated, &named).expect("forced").way, Way::Verbs);
}

#[test]
fn a_forced_way_is_taken_for_all_peers() {
    let facts = machine(vec![device("mlx5_0", Speech::InfiniBand, "", true)]);
    for way in [Way::Verbs, Way::Ofi, Way::Softroce] {
        let plan = plan(&facts, &Wish { forced: Some(way), ..AUTO }).expect("usable");
        assert_eq!((plan.mates.way, plan.far.expect("usable").way), (way, way));
        assert!(why_not(&plan.mates, Way::Shm).contains("WEFT_TRANSPORT"));
    }
    let bare = Facts { libfabric: None, ..machine(vec![]) };
    let why = plan(&bare, &Wish { forced: Some(Way::Ofi), ..AUTO }).expect_err("no library");
    assert!(why.contains("apt-get install libfabric1"), "{why}");
    let memory = plan(&facts, &Wish { forced: Some(Way::Shm), ..AUTO }).expect("this node shares memory");
    assert_eq!(memory.mates.way, Way::Shm);
    assert!(
        memory
            .explain()
            .contains("other nodes     none: WEFT_TRANSPORT=shm cannot be had: other nodes share no memory")
    );
}

#[test]
fn the_nearest_rail_is_taken() {
    let mut facts = machine(vec![
        device("mlx5_0", Speech::InfiniBand, "0-63", true),
        device("mlx5_1", Speech::InfiniBand, "64-127", true),
    ]);
    for (cpus, rail) in [("3", "mlx5_0"), ("70-71", "mlx5_1")] {
        facts.cpus = cpus.parse().expect("a list");
        assert_eq!(far(&facts, &AUTO).expect("a route").rails, [rail]);
    }
}

#[test]
fn both_rails_are_planned() {
    let two = Wish { rails: 2, ..AUTO };
    let mut facts = machine(vec![
        device("mlx5_0", Speech::InfiniBand, "0-63", true),
        device("mlx5_1", Speech::Roce, "64-127", true),
        device("mlx5_2", Speech::InfiniBand, "0-63", false),
        device("mlx5_3", Speech::InfiniBand, "64-127", true),
        device("mlx5_4", Speech::InfiniBand, "0-63", true),
    ]);
    // The nearest of the same kind, in the order of the system; no other kind, and none that is down.
    for (cpus, rails) in [("3", &["mlx5_0", "mlx5_4"][..]), ("70", &["mlx5_1"])] {
        facts.cpus = cpus.parse().expect("a list");
        assert_eq!(far(&facts, &two).expect("a route").rails, rails);
        assert_eq!(far(&facts, &AUTO).expect("a route").rails, rails[..1]);
    }
    facts.devices.remove(1);
    assert_eq!(far(&facts, &two).expect("a route").rails, ["mlx5_3", "mlx5_0"]);
    let mut ports = machine(vec![device("mlx4_0", Speech::InfiniBand, "", true)]);
    assert_eq!(far(&ports, &two).expect("a route").rails, ["mlx4_0"], "there is no other");
    ports.devices[0].active_ports = 2;
    let route = far(&ports, &two).expect("a route");
    assert_eq!(route.rails, ["mlx4_0", "another port of mlx4_0"]);
    assert!(plan(&ports, &two).expect("a plan").explain().contains("mlx4_0, another port of mlx4_0"));
    assert_eq!(
        far(&machine(vec![]), &two).expect("a route").rails.len(),
        2,
        "of the emulator a second socket"
    );
}

/// Machines with four and eight cards, half of them near each socket.
#[test]
fn the_cards_of_a_large_machine_are_planned_nearest_first() {
    let cards = |number: u32| {
        let card = |at: u32| {
            let cpus = if at < number / 2 { "0-63" } else { "64-127" };
            let mut card = device(&format!("mlx5_{at}"), Speech::InfiniBand, cpus, true);
            card.pci = Some(format!("0000:{:02x}:00.0", 0x10 + at));
            card
        };
        (0..number).map(card).collect::<Vec<_>>()
    };
    let rails = |devices: &[Device], cpus: &str, rails| {
        let mut facts = machine(devices.to_vec());
        facts.cpus = cpus.parse().expect("a list");
        far(&facts, &Wish { rails, ..AUTO }).expect("a route").rails.join(" ")
    };
    assert_eq!(rails(&cards(4), "5", 4), "mlx5_0 mlx5_1 mlx5_2 mlx5_3");
    assert_eq!(rails(&cards(4), "70", 3), "mlx5_2 mlx5_3 mlx5_0");
    assert_eq!(rails(&cards(8), "70", 4), "mlx5_4 mlx5_5 mlx5_6 mlx5_7", "the near ones");
    assert_eq!(rails(&cards(8), "70", 6), "mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_0 mlx5_1");
    assert_eq!(rails(&cards(8), "5", 99).split(' ').count(), 8, "there are no more");
    // One is down, another one faster, and each second one is a port of the card before it.
    let mut uneven = cards(8);
    (uneven[1].rate, uneven[1].active_ports) = (None, 0);
    uneven[3].rate = Some(400);
    assert_eq!(rails(&uneven, "5", 3), "mlx5_0 mlx5_3 mlx5_2", "behind the first the fastest near one");
    let mut ports = cards(4);
    for at in [1, 3] {
        ports[at].pci = Some(format!("0000:{:02x}:00.1", 0x0f + at));
        ports[at].cpus = "0-127".parse().expect("a list");
        ports[at - 1].cpus = "0-127".parse().expect("a list");
    }
    assert_eq!(rails(&ports, "5", 2), "mlx5_0 mlx5_2", "different cards first");
    assert_eq!(rails(&ports, "5", 4), "mlx5_0 mlx5_2 mlx5_1 mlx5_3");
    ports[2].active_ports = 2;
    ports[0].active_ports = 3;
    let all = rails(&ports, "5", 8);
    assert_eq!(
        all,
        "mlx5_0 mlx5_2 mlx5_1 mlx5_3 another port of mlx5_0 another port of mlx5_2 another port of mlx5_0",
        "ports last, in turn"
    );
}

#[test]
fn libfabric_drives_verbs_devices_when_it_is_asked_for() {
    let named = Wish { forced: Some(Way::Ofi), rdma: Rdma::Require, ..AUTO };
    for speech in [Speech::InfiniBand, Speech::Roce, Speech::OmniPath, Speech::Slingshot, Speech::Efa] {
        let facts = machine(vec![device("d0", speech, "", true)]);
        let route = far(&facts, &named).expect("a device carries the messages");
        assert_eq!((route.way, &route.rails[..]), (Way::Ofi, &["d0".to_owned()][..]), "{speech:?}");
    }
    for devices in [
        vec![],
        vec![device("mlx5_0", Speech::InfiniBand, "", false)],
        vec![device("rxe0", Speech::Roce, "", true)],
    ] {
        let facts = machine(devices);
        assert!(far(&facts, &named).is_err(), "sockets and emulations are no RDMA devices");
        let route = far(&facts, &Wish { rdma: Rdma::Auto, ..named }).expect("nobody asked for RDMA");
        assert_eq!(route.way, Way::Ofi);
    }
    let both =
        machine(vec![device("rxe0", Speech::Roce, "", true), device("mlx5_0", Speech::Roce, "", true)]);
    assert_eq!(far(&both, &named).expect("a device").rails, ["mlx5_0"]);
}

/// A machine whose only adapters are Slingshot's: four, each near a memory of its own.
fn slingshot() -> Facts {
    let near = [("cxi0", "0-15"), ("cxi1", "16-31"), ("cxi2", "32-47"), ("cxi3", "48-63")];
    machine(near.map(|(name, cpus)| device(name, Speech::Slingshot, cpus, true)).into())
}

#[test]
fn slingshot_adapters_carry_messages_near_the_rank_or_are_named_with_the_reason() {
    let require = Wish { rdma: Rdma::Require, ..AUTO };
    for wish in [AUTO, require, Wish { forced: Some(Way::Ofi), ..require }] {
        for (cpus, rail) in [("3", "cxi0"), ("40-47", "cxi2"), ("63", "cxi3")] {
            let facts = Facts { cpus: cpus.parse().expect("a list"), ..slingshot() };
            let route = far(&facts, &wish).expect("devices carry the messages");
            assert_eq!((route.way, &route.rails[..]), (Way::Ofi, &[rail.to_owned()][..]), "{wish:?}");
            assert_eq!(route.downgrade, None);
        }
    }
    assert!(why_not(&far(&slingshot(), &AUTO).expect("a route"), Way::Verbs).contains("cxi0 (Slingshot)"));
    // What is passed over is said unasked, and with require it is an error; both with the reason.
    let without = Facts { libfabric: None, ..slingshot() };
    let told = far(&without, &AUTO).expect("sockets are allowed").downgrade.expect("told");
    assert!(
        told.contains("Slingshot devices cxi0, cxi1, cxi2, cxi3 are not used")
            && told.contains("apt-get install libfabric1"),
        "{told}"
    );
    let why = far(&without, &require).expect_err("no library");
    assert!(why.contains("libfabric.so.1, which drives cxi0"), "{why}");
    let closed = ["cxi0", "cxi1", "cxi2", "cxi3"].map(str::to_owned);
    let hidden = Facts { closed: closed.to_vec(), ..slingshot() };
    let told = far(&hidden, &AUTO).expect("sockets are allowed").downgrade.expect("told");
    assert!(told.contains("no /dev/cxi0") && told.contains("--device=/dev/cxi0"), "{told}");
    let some = Facts { closed: closed[..3].to_vec(), cpus: "3".parse().expect("a list"), ..slingshot() };
    assert_eq!(far(&some, &AUTO).expect("a route").rails, ["cxi3"], "the one that can be opened");
    let down = machine(vec![device("cxi0", Speech::Slingshot, "", false)]);
    let told = far(&down, &AUTO).expect("sockets are allowed").downgrade.expect("told");
    assert!(told.contains("cxi0 (Slingshot): port 1 DOWN"), "{told}");
    // Two kinds, each with its own reason.
    let both = machine(vec![
        device("mlx5_0", Speech::InfiniBand, "", false),
        device("cxi0", Speech::Slingshot, "", false),
    ]);
    let told = far(&both, &AUTO).expect("sockets are allowed").downgrade.expect("told");
    assert!(
        told.contains("InfiniBand device mlx5_0 is not used") && told.contains("Slingshot device cxi0"),
        "{told}"
    );
}

#[test]
fn devices_that_programs_cannot_open_are_found() {
    let files = [
        ("/sys/class/cxi_user/cxi0/device/properties/link", "1\n"),
        ("/sys/class/cxi_user/cxi1/device/properties/link", "1\n"),
        ("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n"),
        ("/dev/cxi1", ""),
        ("/dev/null", ""),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let facts = Facts::gather(&crate::system::Snapshot(files.into()), None);
    assert_eq!((facts.devices.len(), &facts.closed[..]), (3, &["cxi0".to_owned()][..]));
}

#[test]
fn parameters_say_what_is_wished_for() {
    let wish = |settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Wish::from(&Parameters::from_environment(settings).expect("known words").0)
    };
    assert_eq!(wish(&[]), AUTO);
    assert_eq!(wish(&[("WEFT_RAILS", "2")]).rails, 2);
    for way in Way::ALL {
        assert_eq!(wish(&[("WEFT_TRANSPORT", way.name())]).forced, Some(way));
    }
    assert_eq!(wish(&[("WEFT_RDMA", "require")]).rdma, Rdma::Require);
    assert_eq!(wish(&[("WEFT_RDMA", "prefer")]).rdma, Rdma::Prefer);
}
