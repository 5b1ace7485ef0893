use super::*;
use std::collections::BTreeMap;
use weft_place::devices::{self, Device, Speech};
use weft_place::system::Snapshot;
use weft_place::transport::Facts;
use weft_types::params::Routes;

fn device(name: &str, speech: Speech, active: bool) -> Device {
    Device {
        name: name.to_owned(),
        speech,
        pci: Some("0000:3b:00.0".to_owned()),
        numa_node: Some(0),
        cpus: "0-63".parse().expect("a list"),
        rate: active.then_some(200),
        active_ports: u32::from(active),
        ports: format!("port 1 {}", if active { "ACTIVE" } else { "DOWN" }),
    }
}

/// A machine with nothing to complain of.
fn healthy(devices: Vec<Device>) -> Machine {
    let found = |name: &str| Some(format!("/usr/lib/{name}"));
    Machine {
        transports: Facts {
            devices,
            device_files: true,
            libibverbs: found("libibverbs.so.1"),
            libfabric: found("libfabric.so.1"),
            ..Facts::default()
        },
        ranks: 64,
        cores: 64,
        shared_memory: Some(Space { total: 32 << 30, free: 31 << 30 }),
        memory_files: true,
        gids: vec![Gid {
            place: "mlx5_0 port 1 index 3".to_owned(),
            address: "10.1.0.7".parse().expect("an address"),
            routable: true,
            interface: "eth2".to_owned(),
            is_up: true,
        }],
        addresses: vec!["10.1.0.7".parse().expect("an address")],
        open_files: Some(65_536),
        kernel: (6, 1),
        transparent: "madvise".to_owned(),
        connection_manager: true,
        libraries: LIBRARIES.map(|(name, _)| (name, found(name))).into(),
        ..Machine::default()
    }
}

fn roce() -> Machine {
    healthy(vec![device("mlx5_0", Speech::Roce, true)])
}

/// The one finding about something that is not as it should be.
fn complaint(machine: &Machine, about: &str) -> Finding {
    let found = examine(machine);
    let mut about = found.iter().filter(|found| found.about == about && found.grade != Grade::Well);
    about.next().unwrap_or_else(|| panic!("nothing is said of it: {found:#?}")).clone()
}

#[test]
fn a_healthy_machine_is_well() {
    for machine in [healthy(vec![]), roce(), healthy(vec![device("hfi1_0", Speech::OmniPath, true)])] {
        let found = examine(&machine);
        assert!(found.iter().all(|found| found.grade == Grade::Well), "{found:#?}");
        assert_eq!(code(&found), 0);
        assert!(text(&found, false).starts_with("0 would fail, 0 would be slow"), "{}", text(&found, false));
        assert!(text(&found, true).contains("ok      shared memory"));
    }
}

#[test]
fn each_ailment_is_found_with_its_remedy() {
    type Make = fn(Machine) -> Machine;
    let table: [(&str, Grade, &str, Make); 17] = [
        ("device limits", Grade::Slow, "num_user_contexts", |m| Machine {
            contexts: vec![("hfi1_0".to_owned(), 16)],
            ..m
        }),
        ("device limits", Grade::Fails, "hca_object", |m| Machine { rdma_objects: Some(2000), ..m }),
        ("locked memory", Grade::Fails, "ulimit -l unlimited", |mut m| {
            m.transports.memlock = Some(64 << 10);
            m
        }),
        ("locked memory", Grade::Slow, "limits.conf", |mut m| {
            m.transports.memlock = Some(1 << 30);
            m
        }),
        ("single copy", Grade::Slow, "ptrace_scope=1", |m| Machine {
            reading: Reading::Refused("EPERM".to_owned()),
            ptrace_scope: Some(2),
            ..m
        }),
        ("single copy", Grade::Slow, "SYS_PTRACE", |m| Machine {
            reading: Reading::Refused("ENOSYS".to_owned()),
            ..m
        }),
        ("shared memory", Grade::Fails, "--shm-size", |m| Machine {
            memory_files: false,
            shared_memory: Some(Space { total: 64 << 20, free: 60 << 20 }),
            ..m
        }),
        ("shared memory", Grade::Fails, "tmpfs", |m| Machine {
            memory_files: false,
            shared_memory: None,
            ..m
        }),
        ("shared memory", Grade::Note, "--shm-size", |m| Machine {
            shared_memory: Some(Space { total: 1 << 20, free: 1 << 20 }),
            ..m
        }),
        ("open files", Grade::Fails, "ulimit -n", |m| Machine { open_files: Some(256), ..m }),
        ("cores", Grade::Slow, "ranks as cores", |m| Machine { cores: 8, ..m }),
        ("fork", Grade::Note, "RDMAV_FORK_SAFE", |m| Machine { kernel: (4, 18), ..m }),
        ("huge pages", Grade::Note, "madvise", |m| Machine { transparent: "never".to_owned(), ..m }),
        ("between nodes", Grade::Slow, "WEFT_RDMA=require", |mut m| {
            m.transports.device_files = false;
            m
        }),
        ("RDMA device", Grade::Slow, "cable", |mut m| {
            m.transports.devices = vec![device("mlx5_0", Speech::InfiniBand, false)];
            m
        }),
        ("RoCE addresses", Grade::Fails, "ip address add", |m| Machine { gids: Vec::new(), ..m }),
        ("library", Grade::Slow, "install it", |mut m| {
            m.libraries[0].1 = None;
            m
        }),
    ];
    for (about, grade, remedy, make) in table {
        let found = complaint(&make(roce()), about);
        assert_eq!(found.grade, grade, "{found:?}");
        let said = found.remedy.as_deref().unwrap_or_default();
        assert!(said.contains(remedy), "{remedy:?} is not in {found:?}");
    }
}

#[test]
fn roce_addresses_are_judged_by_whether_others_reach_them() {
    let with = |change: fn(&mut Gid)| {
        let mut machine = roce();
        change(&mut machine.gids[0]);
        complaint(&machine, "RoCE addresses")
    };
    let link = with(|gid| gid.address = "fe80::1".parse().expect("an address"));
    assert_eq!(link.grade, Grade::Fails, "{link:?}");
    let first = with(|gid| gid.routable = false);
    assert!(first.found.contains("version 1"), "{first:?}");
    let down = with(|gid| gid.is_up = false);
    assert_eq!(down.grade, Grade::Fails, "{down:?}");
    let elsewhere = with(|gid| gid.address = "2001:db8::7".parse().expect("an address"));
    assert_eq!(elsewhere.grade, Grade::Slow, "{elsewhere:?}");
    let neighbour = with(|gid| gid.address = "10.1.0.8".parse().expect("an address"));
    assert!(neighbour.found.contains("no address of an interface that is up"), "{neighbour:?}");
    // One of several that is here is enough.
    let mut two = roce();
    let strange = Gid { address: "10.9.0.1".parse().expect("an address"), ..two.gids[0].clone() };
    two.gids.insert(0, strange);
    let found = examine(&two);
    assert!(found.iter().all(|found| found.grade == Grade::Well));
    let order = found.iter().find(|found| found.about == "RoCE addresses").map(|found| found.found.as_str());
    assert!(order.is_some_and(|text| text.contains("10.1.0.7 (eth2); ")), "{order:?}");
}

/// What a connection manager that cannot be asked means depends on the link, and on whether it must be.
#[test]
fn routes_that_nobody_can_be_asked_for_are_told() {
    let infiniband = || healthy(vec![device("mlx5_0", Speech::InfiniBand, true)]);
    let without = |machine| Machine { connection_manager: false, ..machine };
    let found = complaint(&without(infiniband()), "routes");
    assert!(found.grade == Grade::Note && found.found.contains("torus-2QoS"), "{found:?}");
    assert!(found.remedy.is_some_and(|remedy| remedy.contains("modprobe rdma_ucm")));
    let found = complaint(&without(roce()), "routes");
    assert!(found.grade == Grade::Note && found.found.contains("default_roce_tos"), "{found:?}");
    let found = complaint(&Machine { routes: Routes::Require, ..without(roce()) }, "routes");
    assert!(found.grade == Grade::Fails && found.found.contains("WEFT_ROUTES=require"), "{found:?}");
    let mut machine = infiniband();
    machine
        .libraries
        .iter_mut()
        .filter(|(name, _)| name.contains("rdmacm"))
        .for_each(|(_, path)| *path = None);
    let found = complaint(&machine, "routes");
    assert!(found.remedy.is_some_and(|remedy| remedy.contains("librdmacm1")), "{}", found.found);
    for machine in [Machine { routes: Routes::Off, ..without(roce()) }, without(healthy(vec![]))] {
        assert!(examine(&machine).iter().all(|found| found.about != "routes" || found.grade == Grade::Well));
    }
}

#[test]
fn peers_that_are_not_reached_are_named_with_the_address_that_was_tried() {
    let table = [
        (Reach::Answered, Grade::Well, "answers 10.1.0.7 (mlx5_0 port 1 index 3)"),
        (Reach::Silent, Grade::Slow, "firewall"),
        (Reach::NoRoute("Network is unreachable".to_owned()), Grade::Fails, "Network is unreachable"),
        (Reach::NotOurs, Grade::Fails, "no address of this host"),
    ];
    for (reach, grade, words) in table {
        let from = "10.1.0.7".parse().expect("an address");
        let machine = Machine { tries: vec![Try { from, peer: "node7".to_owned(), reach }], ..roce() };
        let all = examine(&machine);
        let found = all.iter().find(|found| found.about == "reachability").expect("said");
        assert_eq!(found.grade, grade, "{found:?}");
        assert!(found.found.contains(words) && found.found.contains("10.1.0.7"), "{found:?}");
        assert!(found.found.contains("node7") || grade == Grade::Fails, "{found:?}");
    }
}

#[test]
fn what_was_asked_for_is_judged() {
    use weft_place::transport::{Rdma, Way, Wish};
    let judged = |wish| {
        let found = examine(&Machine { wish, ..healthy(vec![]) });
        found.into_iter().find(|found| found.about == "between nodes").expect("judged")
    };
    let ask = |forced, rdma| judged(Ok(Wish { forced, rdma, ..Wish::default() }));
    assert_eq!(ask(None, Rdma::Auto).grade, Grade::Well);
    let require = ask(None, Rdma::Require);
    assert!(require.grade == Grade::Fails && require.found.contains("WEFT_RDMA=require"), "{require:?}");
    let verbs = ask(Some(Way::Verbs), Rdma::Auto);
    assert!(verbs.grade == Grade::Fails && verbs.found.contains("WEFT_TRANSPORT=verbs"), "{verbs:?}");
    assert!(ask(Some(Way::Ofi), Rdma::Auto).found.contains("messages go by ofi"));
    assert_eq!(ask(Some(Way::Shm), Rdma::Auto).grade, Grade::Note);
    assert_eq!(judged(Err("WEFT_RDMA=perhaps".to_owned())).grade, Grade::Fails);
}

#[test]
fn the_kernels_files_are_read() {
    let root = "/sys/class/infiniband/mlx5_0";
    let files = [
        ("/proc/sys/kernel/yama/ptrace_scope", "1\n"),
        ("/proc/sys/kernel/osrelease", "5.10.0-28-amd64\n"),
        ("/proc/self/limits", "Max open files            1024                 4096                 files\n"),
        (
            "/proc/meminfo",
            "HugePages_Total:      12\nHugePages_Free:        7\nHugepagesize:       2048 kB\n",
        ),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/sys/class/net/eth2/operstate", "up\n"),
        ("/dev/infiniband/rdma_cm", ""),
        ("/proc/self/cgroup", "0::/jobs/a\n"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
        ("/sys/fs/cgroup/jobs/rdma.max", "mlx5_0 hca_handle=2 hca_object=900\n"),
        ("/sys/fs/cgroup/jobs/a/rdma.max", "mlx5_0 hca_handle=max hca_object=max\n"),
    ];
    let port = [
        ("node_type", "1: CA\n"),
        ("nctxts", "160\n"),
        ("ports/1/state", "4: ACTIVE\n"),
        ("ports/1/rate", "100 Gb/sec (4X EDR)\n"),
        ("ports/1/link_layer", "Ethernet\n"),
        ("ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
        ("ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a01:0007\n"),
        ("ports/1/gid_attrs/types/3", "RoCE v2\n"),
        ("ports/1/gid_attrs/ndevs/3", "eth2\n"),
    ];
    let all = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into_iter();
    let all: BTreeMap<String, String> =
        all.chain(port.map(|(path, text)| (format!("{root}/{path}"), text.to_owned()))).collect();
    let system = Snapshot(all);
    let mut machine = healthy(devices::read(&system));
    machine.read_files(&system);
    assert_eq!((machine.ptrace_scope, machine.kernel, machine.open_files), (Some(1), (5, 10), Some(1024)));
    assert_eq!((machine.huge_pages, machine.transparent.as_str()), ((12, 7, 2 << 20), "madvise"));
    assert_eq!((machine.rdma_handles, machine.tcp_buffers), (Some(2), Some((6_291_456, 4_194_304))));
    assert_eq!((machine.rdma_objects, &machine.contexts[..]), (Some(900), &[("mlx5_0".to_owned(), 160)][..]));
    assert!(machine.connection_manager);
    let [gid] = &machine.gids[..] else { panic!("{:?}", machine.gids) };
    assert_eq!(
        (gid.place.as_str(), gid.address.to_string()),
        ("mlx5_0 port 1 index 3", "10.1.0.7".to_owned())
    );
    assert!(gid.routable && gid.is_up);
}

#[test]
fn this_machine_can_be_examined() {
    let machine = Machine::gather(&weft_boot::machine::LiveSystem, 2, &[]);
    let found = examine(&machine);
    assert!(found.iter().all(|found| found.grade == Grade::Well || found.remedy.is_some()), "{found:#?}");
}
