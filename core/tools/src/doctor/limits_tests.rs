use super::*;
use crate::doctor::Machine;
use weft_engine::SocketBuffers;
use weft_place::devices::{Device, Speech};
use weft_place::transport::{Facts, Rdma, Wish};

/// 64 ranks on a machine with these devices, whose limits are these.
fn machine(device_limits: Vec<Result<DeviceLimits, String>>) -> Machine {
    let device = Device {
        name: "mlx5_0".to_owned(),
        speech: Speech::Roce,
        pci: Some("0000:3b:00.0".to_owned()),
        numa_node: None,
        cpus: "0-63".parse().expect("a list"),
        rate: Some(100),
        active_ports: 1,
        ports: "port 1 ACTIVE".to_owned(),
    };
    let transports = Facts { devices: vec![device], ..Facts::default() };
    Machine { ranks: 64, transports, device_limits, ..Machine::default() }
}

fn limits(device: &str) -> DeviceLimits {
    DeviceLimits {
        device: device.to_owned(),
        queue_pairs: 1 << 17,
        completion_queues: 1 << 16,
        regions: 1 << 24,
        connections: 1489,
        kept_regions: 1024,
        follows_mappings: true,
        untold: None,
    }
}

#[test]
fn what_a_device_allows_is_held_against_the_ranks_of_the_node() {
    type Change = fn(&mut DeviceLimits);
    let table: [(Option<Grade>, &str, &str, Change); 6] = [
        (None, "", "", |_| {}),
        (Some(Grade::Fails), "100 queue pairs (max_qp)", "fewer ranks", |limits| limits.queue_pairs = 100),
        (Some(Grade::Slow), "make 1489 connections each", "WEFT_CONNECTIONS=511", |limits| {
            limits.queue_pairs = 1 << 15;
        }),
        (Some(Grade::Fails), "60 completion queues (max_cq)", "fewer ranks", |limits| {
            limits.completion_queues = 60;
        }),
        (Some(Grade::Fails), "500 regions", "fewer ranks", |limits| limits.regions = 500),
        (Some(Grade::Slow), "4096 regions", "many buffers", |limits| limits.regions = 4096),
    ];
    for (grade, found, remedy, change) in table {
        let mut limits = limits("mlx5_0");
        change(&mut limits);
        let all = of_devices(&machine(vec![Ok(limits)]));
        let bad: Vec<&Finding> = all.iter().filter(|finding| finding.grade != Grade::Well).collect();
        assert_eq!(
            bad.iter().map(|finding| finding.grade).collect::<Vec<_>>(),
            Vec::from_iter(grade),
            "{all:#?}"
        );
        for finding in bad {
            let said = finding.remedy.as_deref().unwrap_or_default();
            assert!(finding.found.contains(found) && said.contains(remedy), "{finding:?}");
        }
    }
}

#[test]
fn devices_share_the_ranks_and_a_second_rail_is_an_end_more() {
    let half = |device| Ok(DeviceLimits { queue_pairs: 100, connections: 1, ..limits(device) });
    let grades = |machine: &Machine| {
        of_devices(machine).iter().map(|finding| finding.grade).filter(|grade| *grade != Grade::Well).count()
    };
    assert_eq!(grades(&machine(vec![half("mlx5_0")])), 1);
    let mut two = machine(vec![half("mlx5_0"), half("mlx5_1")]);
    assert_eq!(grades(&two), 0);
    two.wish = Ok(Wish { rails: 2, ..Wish::default() });
    assert_eq!(grades(&two), 2);
}

#[test]
fn a_device_that_pins_pages_is_told_and_one_that_cannot_be_opened_fails() {
    for (untold, grade, found) in [
        (None, Grade::Well, "is kept for later messages: the device pins pages"),
        (Some("no userfaultfd".to_owned()), Grade::Note, "no on-demand paging), and nothing tells"),
    ] {
        let pins = DeviceLimits { follows_mappings: false, untold, ..limits("mlx5_0") };
        let all = of_devices(&machine(vec![Ok(pins)]));
        let memory = all.iter().find(|finding| finding.about == "registered memory").expect("told");
        assert!(memory.grade == grade && memory.found.contains(found), "{memory:?}");
    }
    let all = of_devices(&machine(vec![Err("mlx5_1: no uverbs device".to_owned())]));
    let failed = all.iter().find(|finding| finding.about == "RDMA device").expect("told");
    assert!(failed.grade == Grade::Fails && failed.found.contains("no uverbs device"), "{failed:?}");
    let all = of_devices(&machine(vec![Ok(limits("mlx5_0"))]));
    assert!(all.iter().any(|finding| finding.about == "registered memory" && finding.grade == Grade::Well));
}

#[test]
fn a_control_group_must_allow_every_rank_its_device() {
    let with = |handles, rails| {
        let wish = Ok(Wish { rails, ..Wish::default() });
        of_groups(&Machine { rdma_handles: Some(handles), wish, ..machine(Vec::new()) }).remove(0)
    };
    let few = with(63, 1);
    assert!(few.grade == Grade::Fails && few.found.contains("63 openings"), "{few:?}");
    assert!(few.remedy.is_some_and(|remedy| remedy.contains("raise hca_handle in rdma.max")));
    assert_eq!(with(64, 1).grade, Grade::Well);
    assert_eq!(with(64, 2).grade, Grade::Fails);
    let nothing = Machine { rdma_handles: Some(1), ..Machine::default() };
    assert!(of_groups(&nothing).is_empty(), "no device, no matter");
}

#[test]
fn small_buffers_are_told_where_messages_go_by_sockets() {
    let emulator = |receive, send| {
        let socket_buffers = Some(SocketBuffers { wanted: 8 << 20, receive, send });
        of_sockets(&Machine { socket_buffers, ..Machine::default() })
    };
    for (receive, send) in [(416 << 10, 8 << 20), (8 << 20, 416 << 10)] {
        let found = emulator(receive, send).expect("judged");
        assert!(found.grade == Grade::Slow && found.found.contains("416 KiB"), "{found:?}");
        let remedy = found.remedy.expect("one");
        assert!(remedy.contains("net.core.rmem_max=4194304 net.core.wmem_max=4194304"), "{remedy}");
    }
    assert_eq!(emulator(8 << 20, 8 << 20).expect("judged").grade, Grade::Well);
    let sockets = |tcp_buffers| {
        let wish = Ok(Wish { forced: Some(Way::Ofi), rdma: Rdma::Auto, ..Wish::default() });
        let transports = Facts { libfabric: Some("/usr/lib/libfabric.so.1".to_owned()), ..Facts::default() };
        of_sockets(&Machine { wish, tcp_buffers, transports, ..Machine::default() })
    };
    let found = sockets(Some((6 << 20, 200 << 10))).expect("judged");
    assert!(found.grade == Grade::Slow && found.found.contains("200 KiB of what leaves"), "{found:?}");
    assert!(found.remedy.is_some_and(|remedy| remedy.contains("net.ipv4.tcp_wmem")));
    assert_eq!(sockets(Some((6 << 20, 4 << 20))).expect("judged").grade, Grade::Well);
    assert_eq!(sockets(None), None, "the kernel does not tell");
    // A device carries them: nothing to say.
    let verbs = Facts {
        device_files: true,
        libibverbs: Some("/usr/lib/libibverbs.so.1".to_owned()),
        ..machine(Vec::new()).transports
    };
    let socket_buffers = Some(SocketBuffers { wanted: 8 << 20, receive: 1, send: 1 });
    assert_eq!(of_sockets(&Machine { transports: verbs, socket_buffers, ..Machine::default() }), None);
}
