//! How the agents of a job are started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::AGENT_WORD;
use super::dealing::NamedHost;
use crate::machine;
use crate::options::Settings;

/// What starts an agent where nothing else is said.
const SSH: &str = "ssh -x -o BatchMode=yes {host}";

/// The command that starts a host's agent.
pub(super) fn agent_words(host: &str, settings: &Settings) -> Vec<OsString> {
    let executable = std::env::current_exe().map_or_else(|_| "mpiexec".into(), OsString::from);
    let named = [NamedHost { name: host.to_owned(), slots: None }];
    if machine::foreign_host(&named, &machine::host_name()).is_none() {
        return vec![executable, AGENT_WORD.into()];
    }
    let template = settings.agent.as_deref().unwrap_or(SSH);
    let mut words: Vec<OsString> =
        template.split_whitespace().map(|word| word.replace("{host}", host).into()).collect();
    if !template.contains("{host}") {
        words.push(host.into());
    }
    let through_a_shell = words[0].as_bytes().ends_with(b"ssh");
    words.push(if through_a_shell { quoted(&executable) } else { executable });
    words.push(AGENT_WORD.into());
    words
}

/// A word as a shell takes it whole.
fn quoted(word: &OsStr) -> OsString {
    // Bytes: the name of a folder need not be text.
    let plain = |letter: &u8| letter.is_ascii_alphanumeric() || b"/._-+".contains(letter);
    let bytes = word.as_bytes();
    if bytes.iter().all(plain) {
        return word.to_owned();
    }
    let parts: Vec<&[u8]> = bytes.split(|&byte| byte == b'\'').collect();
    OsString::from_vec([b"'", &parts.join(&b"'\\''"[..])[..], b"'"].concat())
}

pub(super) fn start_agent(words: &[OsString]) -> io::Result<Child> {
    // Its own group: what is typed at the terminal reaches agents through us, in order.
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let child = command.spawn()?;
    let (stdin, stdout) = (child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd));
    for end in [stdin, stdout].into_iter().flatten() {
        never_wait(end)?;
    }
    Ok(child)
}

fn never_wait(end: BorrowedFd<'_>) -> io::Result<()> {
    fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}
