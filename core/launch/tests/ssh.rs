//! Agents that are started by ssh, as they are where nothing else is said. A program of that name on PATH stands for it: it takes the
//! options that ssh is given, and hands the words behind the host to a shell of its own, joined by blanks, as sshd does.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Outcome, run};

/// `ssh`: writes down its words, each with a `;` behind it, and does the rest with an environment as a login has it.
const SSH: &str = r#"#!/bin/sh
printf '%s;' "$@" >>"${0%/*}/words"
while :; do
    case $1 in
    -x) shift ;;
    -o) shift 2 ;;
    *) break ;;
    esac
done
shift
cd / && exec env -i PATH=/usr/bin:/bin sh -c "$*"
"#;

/// What any shell on the way would take for its own.
const ODD: [&[u8]; 9] = [
    b"",
    b"two  words ",
    b"it's",
    b"\"quoted\" \\ and \\\\",
    b"$HOME ${HOME} $(echo no) `echo no`",
    b"line\nline\n",
    b"a;b|c&d>e<f*?[g]~#!{h,i}",
    b"-x",
    b"latin \xe9",
];

/// A folder of a test's own with a fake ssh; it goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weft-ssh-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let ssh = folder.join("ssh");
        fs::write(&ssh, SSH).expect("a file");
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Folder(folder)
    }

    /// `mpiexec`, which finds that ssh first and is told of no other agent.
    fn call(&self, mpiexec: &Path) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.0.clone()).chain(std::env::split_paths(&path));
        let mut command = Command::new(mpiexec);
        command.env("PATH", std::env::join_paths(folders).expect("no colons")).env_remove("MPIEXEC_AGENT");
        command
    }

    /// What all calls of ssh were given.
    fn words(&self) -> Vec<u8> {
        fs::read(self.0.join("words")).expect("ssh was called")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mpiexec() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mpiexec"))
}

fn demand_success(outcome: &Outcome) {
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{}", outcome.out);
}

#[test]
fn ssh_starts_the_agents_and_is_asked_for_nothing_that_waits() {
    let folder = Folder::new("default");
    let outcome = run(folder.call(mpiexec()).args([
        "--hosts",
        "far1:1,far2:1",
        "sh",
        "-c",
        "echo $PMI_RANK of $PMI_SIZE",
    ]));
    demand_success(&outcome);
    assert_eq!(outcome.sorted(), ["0 of 2", "1 of 2"]);
    let words = String::from_utf8(folder.words()).expect("no odd letters");
    for host in ["far1", "far2"] {
        let call = format!("-x;-o;BatchMode=yes;{host};{};--agent-of-mpiexec;", mpiexec().display());
        assert!(words.contains(&call), "{words}");
    }
}

#[test]
fn arguments_and_environment_come_through_ssh_as_they_were_given() {
    let folder = Folder::new("words");
    // Bytes in hexadecimal: no line, and nothing that is no text, on the way back.
    let say = r#"for word in "$@" "$ODD_0" "$ODD_1" "$ODD_2" "$ODD_3" "$ODD_4" "$ODD_5" "$ODD_6" "$ODD_7" "$ODD_8"; do
        printf '%s' "$word" | od -An -v -tx1 | tr -d ' \n'; echo .
    done"#;
    let mut command = folder.call(mpiexec());
    command.args(["--hosts", "far1", "-n", "1"]);
    for (number, word) in ODD.iter().enumerate() {
        command.arg("-env").arg(format!("ODD_{number}")).arg(OsStr::from_bytes(word));
    }
    command.args(["sh", "-c", say, "say"]).args(ODD.map(OsStr::from_bytes));
    let outcome = run(&mut command);
    demand_success(&outcome);
    let hex = |word: &&[u8]| {
        word.iter().map(|byte| format!("{byte:02x}")).chain([".".to_owned()]).collect::<String>()
    };
    let expected: Vec<String> = ODD.iter().chain(&ODD).map(hex).collect();
    assert_eq!(outcome.out.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn mpiexec_itself_may_be_in_a_folder_of_any_name() {
    let folder = Folder::new("place");
    for (number, name) in ODD.into_iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let place = folder.0.join(format!("{number}")).join(OsStr::from_bytes(name));
        fs::create_dir_all(&place).expect("a folder");
        let there = place.join("mpiexec");
        // A link keeps its name, where it can be made.
        if fs::hard_link(mpiexec(), &there).is_err() {
            fs::copy(mpiexec(), &there).expect("room");
        }
        let outcome = run(folder.call(&there).args(["--hosts", "far1", "-n", "1", "echo", "here"]));
        let name = String::from_utf8_lossy(name);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "here\n"), "{name}: {}", outcome.err);
    }
}
