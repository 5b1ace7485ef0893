use super::*;
use crate::system::Snapshot;
use crate::topology::tests::{all, machine};
use proptest::prelude::*;

fn sizes(hardware: &Hardware) -> Vec<(Resource, usize)> {
    hardware.resources().map(|resource| (resource, hardware.parts(resource).len())).collect()
}

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

/// Two packages of two cores with two threads; the cores of a package share a level 3 cache.
fn small() -> Hardware {
    let mut files = machine(2, 1, 2, 2);
    for cpu in 0..8 {
        let (core, package) = (cpu % 4, cpu % 4 / 2);
        for (index, level, kind, shared) in [
            (0, 1, "Data", format!("{core},{}", core + 4)),
            (1, 1, "Instruction", format!("{core},{}", core + 4)),
            (2, 2, "Unified", format!("{core},{}", core + 4)),
            (
                3,
                3,
                "Unified",
                format!("{0}-{1},{2}-{3}", 2 * package, 2 * package + 1, 2 * package + 4, 2 * package + 5),
            ),
        ] {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            files.0.insert(format!("{folder}/level"), format!("{level}\n"));
            files.0.insert(format!("{folder}/type"), format!("{kind}\n"));
            files.0.insert(format!("{folder}/shared_cpu_list"), format!("{shared}\n"));
        }
    }
    files.0.insert("/sys/devices/system/cpu/online".to_owned(), "0-7\n".to_owned());
    Hardware::read(&files, &CpuSet::new())
}

#[test]
fn the_kernels_files_are_read() {
    let hardware = small();
    use Resource::*;
    let expected = [
        (Machine, 1),
        (Package, 2),
        (NumaNode, 2),
        (L3Cache, 2),
        (L2Cache, 4),
        (L1Cache, 4),
        (Core, 4),
        (Pu, 8),
    ];
    assert_eq!(sizes(&hardware), expected);
    assert_eq!(hardware.parts(L3Cache)[1], cpus("2-3,6-7"));
    assert_eq!(hardware.parts(Core)[0], cpus("0,4"));
}

#[test]
fn a_process_utilises_what_holds_all_its_cpus() {
    let hardware = small();
    assert_eq!(hardware.part_of(Resource::Package, &cpus("2,7")), Some(1));
    assert_eq!(hardware.part_of(Resource::Core, &cpus("2,7")), None);
    assert_eq!(hardware.part_of(Resource::Core, &cpus("2,6")), Some(2));
    assert_eq!(hardware.part_of(Resource::Machine, &cpus("0-7")), Some(0));
    assert_eq!(hardware.part_of(Resource::Package, &cpus("0-7")), None);
    assert_eq!(hardware.part_of(Resource::Machine, &CpuSet::new()), None);
    assert_eq!(hardware.part_of(Resource::Machine, &cpus("8")), None);
    assert_eq!(hardware.part_of(Resource::Die, &cpus("1")), None, "no dies");
    assert_eq!(hardware.seat(9, &cpus("3,7")), Seat([9, 1, 1, 1, 3]));
    assert_eq!(hardware.seat(9, &cpus("0-7")).0[1], Seat::UNKNOWN);
}

#[test]
fn a_silent_kernel_gives_a_machine() {
    let hardware = Hardware::read(&Snapshot::default(), &all(2));
    assert_eq!(sizes(&hardware), [(Resource::Machine, 1), (Resource::NumaNode, 1), (Resource::Pu, 2)]);
}

#[test]
fn names_are_read_with_and_without_provider() {
    for resource in Resource::ALL {
        assert_eq!(Resource::parse(&resource.uri()), Some(resource));
        assert_eq!(Resource::parse(resource.name()), Some(resource));
    }
    assert_eq!(Resource::parse("l3"), Some(Resource::L3Cache));
    for stranger in ["", "mpi_shared_memory", "openmpi://Package", "hwloc://", "L9Cache", "hwloc://Rack"] {
        assert_eq!(Resource::parse(stranger), None, "{stranger}");
    }
}

#[test]
fn synthetic_descriptions_have_all_kinds() {
    use Resource::*;
    let table: [(&str, &[(Resource, usize)]); 3] = [
        (
            "pack:2 die:2 numa:2 l3:1 l2:2 l1d:1 core:2 pu:2",
            &[
                (Machine, 1),
                (Package, 2),
                (Die, 4),
                (NumaNode, 8),
                (L3Cache, 8),
                (L2Cache, 16),
                (L1Cache, 16),
                (Core, 32),
                (Pu, 64),
            ],
        ),
        (
            "pack:2 [numa(memory=1GB)] core:2 pu:1",
            &[(Machine, 1), (Package, 2), (NumaNode, 2), (Core, 4), (Pu, 4)],
        ),
        ("4 2", &[(Machine, 1), (NumaNode, 1), (Core, 4), (Pu, 8)]),
    ];
    for (text, expected) in table {
        assert_eq!(sizes(&Hardware::synthetic(text).expect("readable")), expected, "{text}");
    }
    assert!(Hardware::synthetic("moon:3").is_err());
}

/// Own files in the style of lstopo, both versions; the second has CPUs numbered crosswise.
const TWO: &str = r#"<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x0000000f">
  <object type="Package" os_index="0" cpuset="0x00000005"><object type="NUMANode" os_index="0" cpuset="0x00000005"/>
    <object type="L3Cache" cpuset="0x00000005" depth="3">
      <object type="Core" os_index="0" cpuset="0x00000001"><object type="PU" os_index="0" cpuset="0x00000001"/></object>
      <object type="Core" os_index="1" cpuset="0x00000004"><object type="PU" os_index="2" cpuset="0x00000004"/></object></object></object>
  <object type="Package" os_index="1" cpuset="0x0000000a"><object type="NUMANode" os_index="1" cpuset="0x0000000a"/>
    <object type="L3Cache" cpuset="0x0000000a" depth="3">
      <object type="Core" os_index="0" cpuset="0x00000002"><object type="PU" os_index="1" cpuset="0x00000002"/></object>
      <object type="Core" os_index="1" cpuset="0x00000008"><object type="PU" os_index="3" cpuset="0x00000008"/></object></object></object>
</object></topology>"#;
const ONE: &str = r#"<topology><object type="Machine" cpuset="0x00000003"><object type="Socket" os_index="0" cpuset="0x00000003">
  <object type="Cache" depth="2" cpuset="0x00000003"><object type="Core" os_index="0" cpuset="0x00000001"><object type="PU" os_index="0"
  cpuset="0x00000001"/></object><object type="Core" os_index="1" cpuset="0x00000002"><object type="PU" os_index="1" cpuset="0x00000002"/></object>
  </object></object></object></topology>"#;

#[test]
fn xml_files_of_both_versions_are_read() {
    use Resource::*;
    let two = Hardware::xml(TWO).expect("readable");
    assert_eq!(sizes(&two), [(Machine, 1), (Package, 2), (NumaNode, 2), (L3Cache, 2), (Core, 4), (Pu, 4)]);
    assert_eq!(two.part_of(Package, &cpus("1,3")), Some(1));
    let one = Hardware::xml(ONE).expect("readable");
    assert_eq!(sizes(&one), [(Machine, 1), (Package, 1), (NumaNode, 1), (L2Cache, 1), (Core, 2), (Pu, 2)]);
    assert!(Hardware::xml("<html>").expect_err("no machine").contains("lstopo"));
}

/// hwloc itself, where it is installed, writes the XML of a synthetic machine; both readings must agree.
#[test]
fn hwloc_agrees() {
    for text in [
        "pack:2 numa:2 l3:1 l2:3 l1d:1 core:1 pu:2",
        "pack:2 [numa] core:2 pu:2",
        "numa:2 pack:2 core:2 pu:1",
        "pack:2 die:2 core:2 pu:1",
    ] {
        let run = std::process::Command::new("lstopo").args(["--input", text, "--of", "xml"]).output();
        let Ok(output) = run else {
            println!("skipped: no lstopo here (Debian: hwloc-nox)");
            return;
        };
        let ours = Hardware::synthetic(text).expect("readable");
        let theirs = Hardware::xml(&String::from_utf8_lossy(&output.stdout)).expect("readable");
        assert_eq!(ours, theirs, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z0-9:\\[\\]() ]{0,40}", damage in "[ -~]{0,60}", at in 0usize..900) {
        let _ = Hardware::synthetic(&text);
        let _ = Hardware::xml(&damage);
        let mut damaged = TWO.to_owned();
        if damaged.is_char_boundary(at) {
            damaged.insert_str(at, &damage);
            let _ = Hardware::xml(&damaged);
        }
    }
}
