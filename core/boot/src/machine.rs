//! The machine this process runs on: the live view of the kernel's files, and the processors it may use.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use nix::sched::{CpuSet as KernelCpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weft_place::{CpuSet, Hardware, System, limits};

/// The kernel's files as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveSystem;

impl System for LiveSystem {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// The CPUs the calling thread may run on; empty when the kernel does not tell.
pub fn allowed_cpus() -> CpuSet {
    let Ok(mask) = sched_getaffinity(Pid::from_raw(0)) else {
        return CpuSet::new();
    };
    (0..KernelCpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap_or(false)).collect()
}

/// Binds the calling thread to CPUs; false where it may not go there, and then it stays where it is.
pub fn bind_thread(cpus: &[usize]) -> bool {
    let mut mask = KernelCpuSet::new();
    // Numbers that the kernel's set has no room for are left out.
    for &cpu in cpus {
        let _ = mask.set(cpu);
    }
    sched_setaffinity(Pid::from_raw(0), &mask).is_ok()
}

/// How many of `cpus` may be busy at the same time, given the container's limit; at least 1.
pub fn usable(cpus: &CpuSet) -> usize {
    limits::cpu_quota(&LiveSystem).unwrap_or(usize::MAX).min(cpus.len()).max(1)
}

/// A machine that hwloc's variables describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The variable and its value, for messages.
    pub source: String,
    /// The description.
    pub text: String,
    /// Whether `text` is XML; otherwise it is a synthetic description.
    pub is_xml: bool,
    /// Whether it is said to be this machine (`HWLOC_THISSYSTEM=1`).
    pub is_here: bool,
}

/// What `HWLOC_XMLFILE` or, without it, `HWLOC_SYNTHETIC` describes; `None` when neither is set.
///
/// # Errors
/// The file that cannot be read, in words.
pub fn described() -> Result<Option<Described>, String> {
    let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let is_here = value("HWLOC_THISSYSTEM").as_deref() == Some("1");
    if let Some(path) = value("HWLOC_XMLFILE") {
        let source = format!("HWLOC_XMLFILE={path}");
        let text = fs::read_to_string(&path).map_err(|error| format!("{source}: {error}"))?;
        return Ok(Some(Described { source, text, is_xml: true, is_here }));
    }
    Ok(value("HWLOC_SYNTHETIC").map(|text| Described {
        source: "HWLOC_SYNTHETIC".to_owned(),
        text,
        is_xml: false,
        is_here,
    }))
}

/// The parts of this machine, or of the one that hwloc's variables describe, and whether it is this one.
///
/// # Errors
/// What cannot be read of the description, in words.
pub fn hardware() -> Result<(Hardware, bool), String> {
    let Some(Described { source, text, is_xml, is_here }) = described()? else {
        return Ok((Hardware::read(&LiveSystem, &allowed_cpus()), true));
    };
    let hardware = if is_xml { Hardware::xml(&text) } else { Hardware::synthetic(&text) };
    Ok((hardware.map_err(|why| format!("{source}: {why}"))?, is_here))
}

/// The name of this host, as it calls itself.
pub fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// The address at which other hosts reach this one: the first interface that is up and no loopback, IPv4 before IPv6; the
/// loopback when there is none.
pub fn host_address() -> IpAddr {
    use nix::net::if_::InterfaceFlags as Flags;
    let addresses = nix::ifaddrs::getifaddrs().into_iter().flatten().filter(|interface| {
        interface.flags.contains(Flags::IFF_UP) && !interface.flags.contains(Flags::IFF_LOOPBACK)
    });
    let mut best = None;
    for interface in addresses {
        let Some(address) = interface.address else { continue };
        if let Some(v4) = address.as_sockaddr_in() {
            return IpAddr::V4(v4.ip());
        }
        // An address of the link alone would need the interface's name beside it.
        if let Some(v6) = address.as_sockaddr_in6()
            && v6.ip().segments()[0] & 0xffc0 != 0xfe80
        {
            best.get_or_insert(IpAddr::V6(v6.ip()));
        }
    }
    best.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor() {
        let cpus = allowed_cpus();
        assert!(!cpus.is_empty());
        assert!((1..=cpus.len()).contains(&usable(&cpus)));
    }

    #[test]
    fn this_machine_has_parts() {
        let (hardware, is_here) = hardware().expect("no variable of hwloc is set");
        assert!(is_here && allowed_cpus().is_subset(&hardware.cpus()));
    }

    #[test]
    fn files_and_folders_are_read() {
        assert!(LiveSystem.read("/proc/self/stat").is_some());
        assert!(LiveSystem.list("/proc/self").contains(&"stat".to_owned()));
        assert!(LiveSystem.read("/no/such/file").is_none() && LiveSystem.list("/no/such/folder").is_empty());
    }
}
