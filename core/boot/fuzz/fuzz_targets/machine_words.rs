//! Descriptions of machines: CPU lists, hwloc's synthetic words and XML files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_place::{CpuSet, Hardware, described};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(cpus) = text.parse::<CpuSet>() {
        assert_eq!(cpus.to_string().parse::<CpuSet>(), Ok(cpus));
    }
    for topology in [described::synthetic(&text), described::xml(&text)].into_iter().flatten() {
        let cpus = topology.cpus();
        let _ = topology.numa_node(&cpus);
    }
    for hardware in [Hardware::synthetic(&text), Hardware::xml(&text)].into_iter().flatten() {
        let cpus = hardware.cpus();
        for resource in hardware.resources() {
            assert!(hardware.parts(resource).iter().all(|part| part.is_subset(&cpus)));
        }
        let _ = hardware.seat(0, &cpus);
    }
});
