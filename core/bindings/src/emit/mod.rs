//! Every generated file, as text made from the model.

mod constants;
mod entries;
mod entry;
mod header;
mod status;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::model::{Model, Procedure};
use crate::{Result, TableError};

pub use entry::signature;

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path below the repository's root.
    pub path: PathBuf,
    /// What it must contain.
    pub text: String,
}

/// Makes all files. `root` is the repository's root: README.md is read there, because only a block of it is ours,
/// and rustfmt.toml, because generated Rust is formatted like the rest.
pub fn all(model: &Model, root: &Path) -> Result<Vec<File>> {
    let file = |path: &str, text: String| File { path: path.into(), text };
    let mut files = vec![
        file("core/abi/include/mpi.h", header::emit(model)),
        file("core/types/src/generated/constants.rs", constants::emit(model)),
        file("core/bindings/generated/status.md", status::emit(model)),
    ];
    for (name, text) in entries::emit(model)? {
        files.push(file(&format!("core/abi/src/generated/{name}.rs"), text));
    }
    let rust =
        files.iter_mut().filter(|file| file.path.extension().is_some_and(|extension| extension == "rs"));
    for file in rust {
        file.text = rustfmt(root, &file.text)
            .map_err(|error| TableError(format!("{}: {error}", file.path.display())))?;
    }
    if let Ok(readme) = std::fs::read_to_string(root.join("README.md"))
        && let Some(text) = status::insert(model, &readme)
    {
        files.push(file("README.md", text));
    }
    Ok(files)
}

/// The folder that holds nothing but generated files; a file there that [`all`] does not make is stale.
pub const OWN_FOLDER: &str = "core/abi/src/generated";

fn rustfmt(root: &Path, text: &str) -> Result<String> {
    let fail = |what: &str, error: &dyn std::fmt::Display| TableError(format!("{what} rustfmt: {error}"));
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--config-path"])
        .arg(root.join("rustfmt.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail("cannot start", &error))?;
    let mut stdin = child.stdin.take().ok_or_else(|| TableError("rustfmt has no input".to_owned()))?;
    let input = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| fail("cannot read", &error))?;
    if !output.status.success() {
        return Err(fail("complaint of", &String::from_utf8_lossy(&output.stderr)));
    }
    writer
        .join()
        .map_err(|_| TableError("the thread that feeds rustfmt failed".to_owned()))?
        .map_err(|error| fail("cannot feed", &error))?;
    String::from_utf8(output.stdout).map_err(|error| fail("no text from", &error))
}

/// The chapters of the standard that have procedures.
pub(crate) const CHAPTERS: [(u32, &str); 16] = [
    (3, "Point-to-Point Communication"),
    (4, "Partitioned Point-to-Point Communication"),
    (5, "Datatypes"),
    (6, "Collective Communication"),
    (7, "Groups, Contexts, Communicators, and Caching"),
    (8, "Virtual Topologies"),
    (9, "MPI Environmental Management"),
    (10, "The Info Object"),
    (11, "Process Initialization, Creation, and Management"),
    (12, "One-Sided Communications"),
    (13, "External Interfaces"),
    (14, "I/O"),
    (15, "Tool Support"),
    (16, "Deprecated Interfaces"),
    (19, "Language Bindings"),
    (20, "Application Binary Interface (MPI 5.0)"),
];

/// The procedures of one chapter.
pub(crate) fn of_chapter(model: &Model, chapter: u32) -> impl Iterator<Item = &Procedure> {
    model.procedures.iter().filter(move |procedure| procedure.chapter == chapter)
}
