//! Whatever the command line and the files that it names say: it is understood or refused, and a job that is accepted has at least
//! one process and no more than there may be. Hosts are read alike from the command line and from a host file, and a host that is
//! written as it was read is the same one.
#![no_main]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use weft_launch::command_line::{MAX_RANKS, Request, Surroundings, UsageError, parse};
use weft_launch::options::{Section, Settings};

/// Every file says the same, and so does every variable unless it is nothing.
struct Around<'a>(&'a str);

impl Surroundings for Around<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.as_os_str().is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(self.0.to_owned()),
        }
    }

    fn variable(&self, name: &OsStr) -> Option<OsString> {
        (!name.is_empty() && !self.0.is_empty()).then(|| self.0.into())
    }

    fn architecture(&self) -> &str {
        "x86_64"
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<OsString> =
        bytes.split(|&byte| byte == b'\n').map(|word| OsStr::from_bytes(word).into()).collect();
    let _ = job(&words, "");
    let _ = job(&words, &text);
    let _ = job(&["-configfile".into(), "file".into()], &text);
    if let Ok((_, settings)) =
        job(&words_of(["-timeout", "1", "-watchdog", "off", "-n", "1", "-hostfile", "file", "a"]), &text)
    {
        again(&settings);
    }
    if let Ok((_, settings)) = job(&words_of(["-n", "1", "-hosts", &text, "a"]), "") {
        again(&settings);
    }
    // Without a number of processes the hosts say it.
    let _ = job(&words_of(["-hosts", &text, "a"]), "");
});

fn words_of<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

/// The job of a command line that is accepted; `Ok` of nothing for one that only asks something.
fn job(words: &[OsString], file: &str) -> Result<(Vec<Section>, Settings), UsageError> {
    match parse(words, &Around(file)) {
        Ok(Request::Run(sections, settings)) => {
            let total: u64 = sections.iter().map(|section| u64::from(section.count)).sum();
            assert!((1..=u64::from(MAX_RANKS)).contains(&total), "{total} processes");
            Ok((sections, settings))
        }
        Ok(_) => Ok(Default::default()),
        Err(error) => {
            assert!(!error.0.is_empty());
            Err(error)
        }
    }
}

/// The hosts written down plainly and read once more, in a list and in a file.
fn again(settings: &Settings) {
    let plain = |name: &str| {
        !name.is_empty() && !name.contains(|letter: char| letter.is_whitespace() || "[]#,".contains(letter))
    };
    let hosts: Vec<_> = settings.hosts.iter().filter(|host| plain(&host.name)).cloned().collect();
    if hosts.is_empty() {
        return;
    }
    let written = |between: &str| -> Vec<String> {
        let slots = |slots: u32| format!("{between}{slots}");
        hosts
            .iter()
            .map(|host| {
                let name =
                    if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
                name + &host.slots.map(slots).unwrap_or_default()
            })
            .collect()
    };
    for (words, file) in [
        (["-hosts", &written(":").join(",")], String::new()),
        (["-hostfile", "file"], written(":").join("\n")),
        (["-hostfile", "file"], written(" slots=").join("\r\n")),
    ] {
        let [option, value] = words;
        let words = words_of(["-timeout", "1", "-watchdog", "off", "-n", "1", option, value, "a"]);
        let read = job(&words, &file).map(|(_, settings)| settings.hosts);
        assert_eq!(read.as_deref(), Ok(&hosts[..]), "{words:?} with {file:?}");
    }
}
