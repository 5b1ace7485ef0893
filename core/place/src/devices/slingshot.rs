//! Slingshot adapters (HPE Cassini), which are no devices of the kernel's RDMA subsystem: their driver has a class of its own.
//!
//! `cxi_user` is the class of what programs may open (`/dev/cxi0`), and what libfabric's `cxi` provider looks for; `cxi` that of
//! the driver itself, there also where the former's module is not loaded. Below an adapter `device` is its place on the bus:
//! `properties/link` is 1 when its link is up, `properties/speed` the rate in Mbit/s (older drivers: a name such as `BS_200G`),
//! and `net` holds its network interface (`hsn0`), which tells the same to whoever may not read the former.

use super::{Device, Speech, place};
use crate::system::System;

const FOLDERS: [&str; 2] = ["/sys/class/cxi_user", "/sys/class/cxi"];

/// Rate of the first generation in Gbit/s, where the kernel does not tell one.
const USUAL_RATE: u32 = 200;

/// The adapters of a system, by number.
pub(super) fn read(system: &dyn System) -> Vec<Device> {
    let number = |name: &str| name.strip_prefix("cxi").and_then(|number| number.parse::<u32>().ok());
    let mut found: Vec<(u32, &str, String)> = FOLDERS
        .iter()
        .flat_map(|folder| system.list(folder).into_iter().map(move |name| (folder, name)))
        .filter_map(|(folder, name)| Some((number(&name)?, *folder, name)))
        .collect();
    // The order of the folders stays.
    found.sort_by_key(|(number, ..)| *number);
    found.dedup_by_key(|(number, ..)| *number);
    found.into_iter().map(|(_, folder, name)| device(system, folder, name)).collect()
}

fn device(system: &dyn System, folder: &str, name: String) -> Device {
    let root = format!("{folder}/{name}/device");
    let word = |path: &str| system.read(&format!("{root}/{path}")).map(|text| text.trim().to_owned());
    let interfaces = system.list(&format!("{root}/net"));
    let of_interface =
        |file: &str| interfaces.iter().find_map(|interface| word(&format!("net/{interface}/{file}")));
    let is_up = match word("properties/link") {
        Some(link) => link == "1",
        // Who hides both from a container hides no adapter: libfabric finds out.
        None => of_interface("operstate").is_none_or(|state| state == "up" || state == "unknown"),
    };
    let rate = word("properties/speed").or_else(|| of_interface("speed")).and_then(|text| gigabits(&text));
    let rate = rate.unwrap_or(USUAL_RATE);
    let (pci, numa_node, cpus) = place(&word);
    let state = if is_up { "ACTIVE" } else { "DOWN" };
    Device {
        name,
        speech: Speech::Slingshot,
        pci,
        numa_node,
        cpus,
        rate: is_up.then_some(rate),
        active_ports: u32::from(is_up),
        ports: format!("link {state} {rate} Gb/sec"),
    }
}

/// `200000` (Mbit/s) and `BS_200G` are 200. `None` for what is no rate: a link that is down says -1 or 0.
fn gigabits(text: &str) -> Option<u32> {
    if let Ok(megabits) = text.parse::<i64>() {
        return u32::try_from(megabits / 1000).ok().filter(|rate| *rate > 0);
    }
    let digits = text.find(|letter: char| letter.is_ascii_digit()).map(|at| &text[at..])?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok().filter(|rate| *rate > 0)
}
