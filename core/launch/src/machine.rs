//! This machine: its files, its name, its limits.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::command_line::Surroundings;
use crate::hosts::dealing::NamedHost;
use crate::watch::Outside;

/// What the parser asks, answered by the live machine.
pub(crate) struct Machine;

impl Surroundings for Machine {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn variable(&self, name: &OsStr) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn architecture(&self) -> &str {
        std::env::consts::ARCH
    }
}

/// The machine's name.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// The first of `hosts` that is not this machine.
pub(crate) fn foreign_host<'a>(
    hosts: impl IntoIterator<Item = &'a NamedHost>,
    own: &str,
) -> Option<&'a NamedHost> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    hosts.into_iter().find(|NamedHost { name: host, .. }| {
        let loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        !loopback && short(host) != "localhost" && short(host) != short(own)
    })
}

/// Makes room for `needed` more open files. Returns the limit ranks should go back to when it was raised.
///
/// Errors: how many are allowed, when that is too few.
pub(crate) fn open_files(needed: u64) -> Result<Option<(u64, u64)>, u64> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(None) };
    if soft >= needed {
        return Ok(None);
    }
    match hard >= needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_ok() {
        true => Ok(Some((soft, hard))),
        false => Err(soft.max(hard)),
    }
}

/// What the system says a process does.
pub(crate) fn state_of(pid: i32) -> Outside {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything.
    match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
        Some('T' | 't') => Outside::Stopped,
        Some('S' | 'D') => Outside::Sleeping,
        _ => Outside::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_many_names() {
        let named = |name: &str| NamedHost { name: name.to_owned(), slots: None };
        let hosts = |names: &[&str]| names.iter().map(|name| named(name)).collect::<Vec<_>>();
        assert_eq!(
            foreign_host(&hosts(&["localhost", "127.0.0.1", "::1", "vm", "VM.example.org"]), "vm"),
            None
        );
        assert_eq!(foreign_host(&hosts(&["vm", "node7"]), "vm"), Some(&named("node7")));
    }
}
