use super::*;
use crate::policy::{self, BindTo, MapBy};
use crate::system::Snapshot;
use crate::{Topology, described};

/// The kernel's files of a device.
fn files(name: &str, kind: &str, link: &str, state: &str, cpus: &str, numa: i32) -> Vec<(String, String)> {
    let root = format!("/sys/class/infiniband/{name}");
    [
        ("node_type", kind),
        ("ports/1/state", state),
        ("ports/1/rate", "200 Gb/sec (4X HDR)"),
        ("ports/1/link_layer", link),
        ("device/local_cpulist", cpus),
        ("device/numa_node", &numa.to_string()),
        ("device/uevent", "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:3b:00.0\n"),
    ]
    .map(|(file, text)| (format!("{root}/{file}"), format!("{text}\n")))
    .into()
}

fn system(devices: &[Vec<(String, String)>]) -> Snapshot {
    Snapshot(devices.iter().flatten().cloned().collect())
}

#[test]
fn devices_are_read_as_the_kernel_shows_them() {
    let found = read(&system(&[
        files("mlx5_1", "1: CA", "Ethernet", "4: ACTIVE", "64-127", 1),
        files("mlx5_0", "1: CA", "InfiniBand", "1: DOWN", "0-63", 0),
        files("hfi1_0", "1: CA", "InfiniBand", "4: ACTIVE", "", -1),
        files("irdma0", "4: RNIC", "Ethernet", "4: ACTIVE", "0-63", 0),
    ]));
    let told: Vec<(&str, Speech, Option<u32>, Option<u32>)> = found
        .iter()
        .map(|device| (device.name.as_str(), device.speech, device.rate, device.numa_node))
        .collect();
    assert_eq!(
        told,
        [
            ("hfi1_0", Speech::OmniPath, Some(200), None),
            ("irdma0", Speech::Iwarp, Some(200), Some(0)),
            ("mlx5_0", Speech::InfiniBand, None, Some(0)),
            ("mlx5_1", Speech::Roce, Some(200), Some(1)),
        ]
    );
    assert_eq!(found[2].pci.as_deref(), Some("0000:3b:00.0"));
    assert_eq!(found[2].ports, "port 1 DOWN 200 Gb/sec (4X HDR)");
    assert!(read(&Snapshot::default()).is_empty());
}

/// What the driver of a Slingshot adapter shows in a class.
fn cxi(class: &str, name: &str, properties: &[(&str, &str)], cpus: &str, numa: i32) -> Vec<(String, String)> {
    let root = format!("/sys/class/{class}/{name}/device");
    let place = [
        ("uevent", "DRIVER=cxi_ss1\nPCI_SLOT_NAME=0000:c1:00.0\n".to_owned()),
        ("local_cpulist", cpus.to_owned()),
        ("numa_node", numa.to_string()),
    ];
    let properties = properties.iter().map(|&(file, text)| (file, text.to_owned()));
    place.into_iter().chain(properties).map(|(file, text)| (format!("{root}/{file}"), text + "\n")).collect()
}

#[test]
fn slingshot_adapters_are_found_in_their_own_class() {
    let up = [("properties/link", "1"), ("properties/speed", "200000")];
    let found = read(&system(&[
        files("mlx5_0", "1: CA", "Ethernet", "4: ACTIVE", "0-63", 0),
        cxi("cxi_user", "cxi10", &[("properties/link", "1"), ("properties/speed", "BS_400G")], "64-127", 1),
        cxi("cxi_user", "cxi2", &[("properties/link", "0"), ("properties/speed", "0")], "0-63", 0),
        cxi("cxi_user", "cxi0", &up, "0-63", 0),
        // The driver's own class has the same ones, and those that programs may not open yet.
        cxi("cxi", "cxi0", &[("properties/link", "0")], "", -1),
        cxi("cxi", "cxi3", &[("net/hsn3/operstate", "down"), ("net/hsn3/speed", "-1")], "", -1),
        cxi("cxi", "cxi4", &[("net/hsn4/operstate", "up"), ("net/hsn4/speed", "200000")], "", -1),
    ]));
    let told: Vec<(&str, Speech, Option<u32>, Option<u32>)> = found
        .iter()
        .map(|device| (device.name.as_str(), device.speech, device.rate, device.numa_node))
        .collect();
    assert_eq!(
        told,
        [
            ("mlx5_0", Speech::Roce, Some(200), Some(0)),
            ("cxi0", Speech::Slingshot, Some(200), Some(0)),
            ("cxi2", Speech::Slingshot, None, Some(0)),
            ("cxi3", Speech::Slingshot, None, None),
            ("cxi4", Speech::Slingshot, Some(200), None),
            ("cxi10", Speech::Slingshot, Some(400), Some(1)),
        ]
    );
    assert_eq!((found[1].pci.as_deref(), found[1].cpus.len()), (Some("0000:c1:00.0"), 64));
    assert!(found[2].ports.contains("DOWN"), "{:?}", found[2]);
}

#[test]
fn amazons_adapter_is_known_by_its_driver_whatever_its_name() {
    let mut files = files("rdmap0s6", "7: unspecified", "Unspecified", "4: ACTIVE", "0-47", 0);
    for (path, text) in &mut files {
        if path.ends_with("uevent") {
            *text = "DRIVER=efa\nPCI_ID=1D0F:EFA1\nPCI_SLOT_NAME=0000:00:06.0\n".to_owned();
        }
    }
    let found = read(&system(&[files]));
    assert_eq!((found[0].speech, found[0].rate), (Speech::Efa, Some(200)));
    assert!(found[0].speech.is_of_libfabric());
    // The same two in hwloc's words.
    let text = machine(1, 1, &[1; 4], &[(0, "rdmap0s6"), (0, "cxi0")]);
    let text =
        text.replacen("<object type=\"PCIDev\"", "<object type=\"PCIDev\" pci_type=\"0200 [1d0f:efa1]\"", 1);
    let kinds: Vec<Speech> = xml(&text).expect("devices").iter().map(|device| device.speech).collect();
    assert_eq!(kinds, [Speech::Efa, Speech::Slingshot]);
}

#[test]
fn each_rank_uses_the_slingshot_adapter_of_its_memory() {
    let up = [("properties/link", "1"), ("properties/speed", "200000")];
    let devices = read(&system(&[
        cxi("cxi_user", "cxi0", &up, "0-15", 0),
        cxi("cxi_user", "cxi1", &up, "16-31", 1),
        cxi("cxi_user", "cxi2", &up, "32-47", 2),
        cxi("cxi_user", "cxi3", &up, "48-63", 3),
    ]));
    let ranks: Vec<CpuSet> = ["50", "0-3", "33", "16-31"].map(|cpus| cpus.parse().expect("a list")).to_vec();
    let names: Vec<String> = assign_names(&devices, &ranks).into_iter().flatten().collect();
    assert_eq!(names, ["cxi3", "cxi0", "cxi2", "cxi1"]);
}

/// hwloc's bitmap of some CPUs.
fn bits(cpus: impl IntoIterator<Item = usize>) -> String {
    let mut words = [0_u32; 8];
    cpus.into_iter().for_each(|cpu| words[cpu / 32] |= 1 << (cpu % 32));
    words.iter().rev().map(|word| format!("0x{word:08x}")).collect::<Vec<_>>().join(",")
}

/// The XML of a machine: packages, each of some NUMA nodes with so many cores of so many threads, and devices by NUMA node.
fn machine(packages: usize, numas: usize, cores: &[usize], devices: &[(usize, &str)]) -> String {
    let (mut text, mut pu, mut node) = (String::from("<topology><object type=\"Machine\">"), 0, 0);
    for package in 0..packages {
        let first = pu;
        let size: usize = cores.iter().sum();
        let whole = bits(first..first + numas * size);
        text += &format!("<object type=\"Package\" os_index=\"{package}\" cpuset=\"{whole}\">");
        for _ in 0..numas {
            let near = bits(pu..pu + size);
            text += &format!("<object type=\"Group\" cpuset=\"{near}\">");
            text += &format!("<object type=\"NUMANode\" os_index=\"{node}\" cpuset=\"{near}\"/>");
            for &threads in cores {
                text += &format!("<object type=\"Core\" cpuset=\"{}\">", bits(pu..pu + threads));
                for _ in 0..threads {
                    text += &format!("<object type=\"PU\" os_index=\"{pu}\" cpuset=\"{}\"/>", bits([pu]));
                    pu += 1;
                }
                text += "</object>";
            }
            for (_, name) in devices.iter().filter(|(at, _)| *at == node) {
                text += "<object type=\"Bridge\"><object type=\"PCIDev\" pci_busid=\"0000:5e:00.0\">";
                text += &format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"3\">");
                text += "<info name=\"Port1State\" value=\"4\"/></object>";
                text += "<object type=\"OSDev\" name=\"ib0\" osdev_type=\"2\"/></object></object>";
            }
            text += "</object>";
            node += 1;
        }
        text += "</object>";
    }
    text + "</object></topology>"
}

/// Ranks bound to cores of a described machine and the names of their devices.
fn near(text: &str, ranks: usize, map_by: MapBy) -> Vec<String> {
    let (topology, devices) = (described::xml(text).expect("a machine"), xml(text).expect("devices"));
    let cpus: Vec<CpuSet> = policy::place(&topology, ranks, BindTo::Core, map_by)
        .into_iter()
        .map(|place| place.cpus.expect("bound"))
        .collect();
    let names =
        |index: Option<usize>| index.map_or_else(|| "none".to_owned(), |index| devices[index].name.clone());
    assign(&devices, &cpus).into_iter().map(names).collect()
}

#[test]
fn each_rank_uses_the_adapter_of_its_socket() {
    let text = machine(2, 1, &[1; 64], &[(0, "mlx5_0"), (1, "mlx5_1")]);
    let devices = xml(&text).expect("devices");
    assert_eq!(devices.len(), 2, "{devices:?}");
    assert_eq!((devices[1].numa_node, devices[1].pci.as_deref()), (Some(1), Some("0000:5e:00.0")));
    assert_eq!(devices[1].cpus.to_string(), "64-127");
    let names = near(&text, 128, MapBy::Core);
    assert!(names[..64].iter().all(|name| name == "mlx5_0"), "{names:?}");
    assert!(names[64..].iter().all(|name| name == "mlx5_1"), "{names:?}");
    assert_eq!(near(&text, 4, MapBy::Socket), ["mlx5_0", "mlx5_1", "mlx5_0", "mlx5_1"]);
}

#[test]
fn ranks_without_an_adapter_of_their_own_share_evenly() {
    // Eight memories, adapters at two of them.
    let text = machine(2, 4, &[1; 4], &[(1, "mlx5_0"), (6, "mlx5_1")]);
    let names = near(&text, 32, MapBy::Core);
    assert!(names[4..8].iter().all(|name| name == "mlx5_0"), "{names:?}");
    assert!(names[24..28].iter().all(|name| name == "mlx5_1"), "{names:?}");
    let first = names.iter().filter(|name| *name == "mlx5_0").count();
    assert!((12..=20).contains(&first), "{first} of 32");
}

#[test]
fn cores_of_two_kinds_are_cores() {
    // Four cores of two threads, eight of one.
    let mut cores = vec![2; 4];
    cores.extend([1; 8]);
    let text = machine(1, 1, &cores, &[(0, "rxe0")]);
    assert_eq!(near(&text, 12, MapBy::Core), vec!["rxe0"; 12]);
    let topology: Topology = described::xml(&text).expect("a machine");
    let places = policy::place(&topology, 6, BindTo::Core, MapBy::Core);
    let sizes: Vec<usize> = places.iter().map(|place| place.cpus.as_ref().expect("bound").len()).collect();
    assert_eq!(sizes, [2, 2, 2, 2, 1, 1]);
}

/// The kernel's emulation of RoCE is active wherever somebody has set it up, tells of no place, and has a name of any kind: a rank
/// that is near to no card would take it.
#[test]
fn devices_of_software_are_used_where_there_are_no_others() {
    let mut rxe = files("a_rxe", "1: CA", "Ethernet", "4: ACTIVE", "", -1);
    rxe.retain(|(path, _)| !path.ends_with("uevent"));
    let card = |name, state, cpus, numa| files(name, "1: CA", "Ethernet", state, cpus, numa);
    let ranks: Vec<CpuSet> = ["0", "40", "50", ""].map(|cpus| cpus.parse().expect("a list")).to_vec();
    let near = |devices: &[Vec<(String, String)>]| -> Vec<String> {
        assign_names(&read(&system(devices)), &ranks).into_iter().flatten().collect()
    };
    let cards = [card("mlx5_0", "4: ACTIVE", "0-15", 0), card("mlx5_1", "4: ACTIVE", "16-31", 1)];
    let both = near(&[rxe.clone(), cards[0].clone(), cards[1].clone()]);
    assert!(!both.contains(&"a_rxe".to_owned()), "{both:?}");
    assert_eq!(both, near(&cards));
    let down = card("mlx5_0", "1: DOWN", "0-15", 0);
    assert_eq!(near(&[rxe, down]), ["a_rxe"; 4]);
}

#[test]
fn a_device_whose_port_is_down_is_nobodys() {
    let text = machine(2, 1, &[1; 4], &[(0, "mlx5_0"), (1, "mlx5_1")]);
    let down = text.replacen("value=\"4\"", "value=\"1\"", 1);
    assert_eq!(near(&down, 2, MapBy::Socket), ["mlx5_1", "mlx5_1"]);
    assert_eq!(near(&down.replace("value=\"4\"", "value=\"1\""), 1, MapBy::Core), ["none"]);
}

#[test]
fn a_device_is_used_if_one_of_its_ports_is_up() {
    let text = machine(1, 1, &[1; 4], &[(0, "mlx4_0")]);
    let with = |states: [u32; 2]| {
        let ports =
            [1, 2].map(|port| format!("<info name=\"Port{port}State\" value=\"{}\"/>", states[port - 1]));
        text.replacen("<info name=\"Port1State\" value=\"4\"/>", &ports.concat(), 1)
    };
    for (states, device) in [([1, 4], "mlx4_0"), ([4, 1], "mlx4_0"), ([1, 1], "none")] {
        assert_eq!(near(&with(states), 1, MapBy::Core), [device], "{states:?}");
    }
    let silent = text.replacen("<info name=\"Port1State\" value=\"4\"/>", "", 1);
    assert_eq!(near(&silent, 1, MapBy::Core), ["mlx4_0"]);
}
