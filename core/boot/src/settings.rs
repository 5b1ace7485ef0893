//! Texts that all ranks of a job must have alike: rules and figures of collectives, from files of the user or the machine.
//!
//! What differs between ranks would make them choose different algorithms, and wait for ever. So one process reads for all:
//! Weft's mpiexec hands the content to its ranks in their environment ([`for_ranks`]); under other launchers rank 0 reads and
//! the others take it from the launcher's store ([`agree`]).

use crate::job::{Job, LauncherKind};
use crate::launcher::Launcher;
use crate::pmi::wire1::{decode_word, encode_word};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use weft_types::params::Setting;
use weft_types::{Error, ErrorClass, Result};

/// Longest file that is read, in bytes.
pub const LONGEST: u64 = 32 << 10;

/// A text and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The file, or how it was given.
    pub source: String,
    /// The text.
    pub text: String,
    /// Whether somebody asked for it: then what is wrong with it is an error and no remark.
    pub asked: bool,
}

/// Where the file of a variable is when nobody says: that of `WEFT_MODEL` among what programs keep, since it is measured
/// and can be measured anew, for this machine only; that of `WEFT_COLLECTIVES` among what users write.
pub fn usual_place(variable: &str) -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let (folder, home, file) = match variable {
        "WEFT_MODEL" => {
            let host = nix::unistd::gethostname().ok()?.to_string_lossy().replace('/', "_");
            ("XDG_CACHE_HOME", ".cache", format!("model-{host}"))
        }
        "WEFT_COLLECTIVES" => ("XDG_CONFIG_HOME", ".config", "collectives".to_owned()),
        _ => return None,
    };
    let folder = named(folder).or_else(|| named("HOME").map(|path| path.join(home)))?;
    Some(folder.join("weft").join(file))
}

/// Reads a file that is not longer than [`LONGEST`].
fn content(path: &Path) -> std::result::Result<String, String> {
    let told = |why: String| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| told(error.to_string()))?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| told(error.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(told(format!("is longer than {LONGEST} bytes")));
    }
    Ok(text)
}

/// The text of a setting: `None` when there is none.
///
/// # Errors
/// A file that was named and cannot be read, in words. One at the usual place may be missing.
pub fn read(variable: &str, setting: &Setting) -> std::result::Result<Option<Told>, String> {
    let from = |source: String, text: String, asked: bool| Ok(Some(Told { source, text, asked }));
    match setting {
        Setting::Off => Ok(None),
        Setting::Text(text) => from(variable.to_owned(), text.clone(), true),
        Setting::Read { path, named, text } => from(path.clone(), text.clone(), *named),
        Setting::File(path) => from(path.clone(), content(Path::new(path))?, true),
        Setting::Auto => {
            let Some(path) = usual_place(variable).filter(|path| path.exists()) else { return Ok(None) };
            from(path.display().to_string(), content(&path)?, false)
        }
    }
}

/// What mpiexec sets `variable` to for its ranks, given its value in their environment: the content of the file it names or of
/// the one at the usual place. `None`: it stays as it is. Of what cannot be read the ranks complain.
pub fn for_ranks(variable: &str, value: Option<&str>) -> Option<String> {
    let setting = Setting::of(value.unwrap_or("auto").trim())?;
    let told = match (read(variable, &setting), &setting) {
        (Ok(told), Setting::Auto | Setting::File(_)) => told?,
        // In place of the content why there is none, which is no statement either.
        (Err(why), Setting::Auto) => {
            Told { source: usual_place(variable)?.display().to_string(), text: why, asked: false }
        }
        _ => return None,
    };
    Some(Setting::handed_over(&told.source, told.asked, &told.text))
}

/// The text that all ranks of the job have: collective over the job under launchers other than Weft's.
///
/// # Errors
/// A file that was named and cannot be read; the launcher went away.
pub fn agree(
    job: &Job,
    launcher: &mut dyn Launcher,
    variable: &str,
    setting: &Setting,
) -> Result<Option<Told>> {
    let wrong =
        |why: String| Error::new(ErrorClass::OTHER, format!("{variable}: {why}. Correct or unset it"));
    match job.launcher {
        // Without a file there, mpiexec hands over nothing; what a rank finds by itself the others may not.
        LauncherKind::Weft if *setting == Setting::Auto => Ok(None),
        LauncherKind::Weft | LauncherKind::Singleton => read(variable, setting).map_err(wrong),
        _ if job.size == 1 => read(variable, setting).map_err(wrong),
        _ => {
            let own = if job.rank == 0 { read(variable, setting) } else { Ok(None) };
            let told = share(job.rank, launcher, variable, own.as_ref().ok().and_then(Option::as_ref))?;
            // Nobody waits for a rank that has nothing to share: it fails after all have met.
            own.map_err(wrong)?;
            Ok(told)
        }
    }
}

/// Rank 0 gives its text to all.
fn share(rank: u32, launcher: &mut dyn Launcher, variable: &str, own: Option<&Told>) -> Result<Option<Told>> {
    let key = |part: usize| format!("{}{part}", variable.trim_start_matches("WEFT_").to_ascii_lowercase());
    if rank == 0 {
        let word = own.map_or_else(String::new, |told| {
            encode_word(&format!("{}\n{}\n{}", u8::from(told.asked), told.source, told.text))
        });
        // Room for the number of parts; none is cut in the middle of what stands for one byte, which `get` would not notice
        // either.
        let room = launcher.max_value().saturating_sub(1).clamp(1, 800);
        let parts: Vec<&str> =
            word.as_bytes().chunks(room).map(|part| std::str::from_utf8(part).unwrap_or("")).collect();
        launcher.put(&key(0), &parts.len().to_string())?;
        for (number, part) in (1..).zip(parts) {
            launcher.put(&key(number), part)?;
        }
    }
    launcher.fence()?;
    let lost = |key: &str| {
        Error::new(
            ErrorClass::OTHER,
            format!("the launcher lost {key}, which rank 0 gave it; start the job again"),
        )
    };
    let mut get = |number: usize| launcher.get(0, &key(number))?.ok_or_else(|| lost(&key(number)));
    let count: usize = get(0)?.parse().map_err(|_| lost(&key(0)))?;
    let mut word = String::new();
    for number in 1..=count {
        word.push_str(&get(number)?);
    }
    if word.is_empty() {
        return Ok(None);
    }
    let text = decode_word(&word).ok_or_else(|| lost(&key(0)))?;
    let mut lines = text.splitn(3, '\n');
    match (lines.next(), lines.next(), lines.next()) {
        (Some(asked), Some(source), Some(text)) => {
            Ok(Some(Told { source: source.to_owned(), text: text.to_owned(), asked: asked == "1" }))
        }
        _ => Err(lost(&key(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{NodeKinds, through_store};
    use crate::launcher::Aborter;
    use crate::nodes::Nodes;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    /// A store that two ranks see.
    #[derive(Clone, Default)]
    struct Store(Arc<Mutex<BTreeMap<String, String>>>);

    impl Launcher for Store {
        fn put(&mut self, key: &str, value: &str) -> Result<()> {
            assert!(value.len() <= self.max_value() && !value.contains([' ', '\n', ';']));
            self.0.lock().unwrap().insert(key.to_owned(), value.to_owned());
            Ok(())
        }
        fn fence(&mut self) -> Result<()> {
            Ok(())
        }
        fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds> {
            through_store(self, nodes, rank, said)
        }
        fn get(&mut self, owner: u32, key: &str) -> Result<Option<String>> {
            assert!(owner == 0 || key.ends_with(&format!("-{owner}")), "{key} is not of {owner}");
            Ok(self.0.lock().unwrap().get(key).cloned())
        }
        fn max_key(&self) -> usize {
            32
        }
        fn max_value(&self) -> usize {
            64
        }
        fn aborter(&self) -> Aborter {
            unreachable!("nobody aborts here")
        }
        fn finalize(&mut self) -> Result<()> {
            Ok(())
        }
        fn publish(&mut self, _: &str, _: &str) -> Result<()> {
            Ok(())
        }
        fn unpublish(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
        fn lookup(&mut self, _: &str) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    fn all_ranks_have_the_text_of_rank_0() {
        let text = "bcast -> flat # 100 %; and more\n".repeat(20);
        for told in [None, Some(Told { source: "/home/a b".into(), text, asked: true })] {
            let mut store = Store::default();
            let first = share(0, &mut store, "WEFT_COLLECTIVES", told.as_ref()).unwrap();
            let second = share(1, &mut store, "WEFT_COLLECTIVES", None).unwrap();
            assert_eq!((first, second), (told.clone(), told));
        }
    }

    #[test]
    fn nodes_tell_each_other_their_words_through_a_store() {
        let mut store = Store::default();
        let nodes = Nodes::listed(&[0, 0, 1, 2]);
        let words = [(0, Some("iu")), (1, None), (3, Some("iu")), (2, Some("u"))];
        let mut last = NodeKinds::default();
        for (rank, word) in words {
            let said = word.map(|word| NodeKinds::said(word, "host", rank));
            last = store.fence_of_nodes(&nodes, rank, said.as_deref()).unwrap();
        }
        assert_eq!(last.emit(), "iu:2:host/0+host/3,u:1:host/2");
    }

    #[test]
    fn mpiexec_hands_over_what_a_file_says() {
        let path = std::env::temp_dir().join(format!("weft-settings-{}", std::process::id()));
        std::fs::write(&path, "bcast -> flat\n").unwrap();
        let value = format!("@{}", path.display());
        let handed = for_ranks("WEFT_COLLECTIVES", Some(&value)).expect("the file is there");
        let told = read("WEFT_COLLECTIVES", &Setting::of(&handed).unwrap()).unwrap().expect("a text");
        assert_eq!(told.text, "bcast -> flat\n");
        assert_eq!((told.source, told.asked), (path.display().to_string(), true));
        std::fs::write(&path, "#".repeat(LONGEST as usize + 1)).unwrap();
        let why = read("WEFT_COLLECTIVES", &Setting::File(path.display().to_string())).expect_err("too long");
        assert!(why.contains("longer than"), "{why}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(for_ranks("WEFT_COLLECTIVES", Some(&value)), None, "the ranks complain");
        assert!(read("WEFT_COLLECTIVES", &Setting::File(path.display().to_string())).is_err());
        for given in ["no", "bcast -> flat"] {
            assert_eq!(for_ranks("WEFT_COLLECTIVES", Some(given)), None);
        }
    }
}
