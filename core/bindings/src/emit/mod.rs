//! Every generated file, as text made from the model.

mod constants;
mod entries;
mod entry;
mod header;
mod status;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

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
    rustfmt(root, &mut files)?;
    if let Ok(readme) = std::fs::read_to_string(root.join("README.md"))
        && let Some(text) = status::insert(model, &readme)
    {
        files.push(file("README.md", text));
    }
    Ok(files)
}

/// The folder that holds nothing but generated files; a file there that [`all`] does not make is stale.
pub const OWN_FOLDER: &str = "core/abi/src/generated";

/// Formats the Rust files with one run of rustfmt, in a folder for the moment.
fn rustfmt(root: &Path, files: &mut [File]) -> Result<()> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("weft-generate-{}-{run}", std::process::id()));
    let result = format_in(&folder, root, files);
    // The folder is in the way of nobody if it cannot be removed.
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn format_in(folder: &Path, root: &Path, files: &mut [File]) -> Result<()> {
    let fail = |error: std::io::Error| TableError(format!("cannot format in {}: {error}", folder.display()));
    let mut rust: Vec<_> = files
        .iter_mut()
        .filter(|file| file.path.extension().is_some_and(|extension| extension == "rs"))
        .map(|file| (folder.join(&file.path), file))
        .collect();
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024", "--config-path"]).arg(root.join("rustfmt.toml"));
    for (path, file) in &rust {
        std::fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(fail)?;
        std::fs::write(path, &file.text).map_err(fail)?;
        command.arg(path);
    }
    let output = command.output().map_err(|error| TableError(format!("cannot start rustfmt: {error}")))?;
    if !output.status.success() {
        return Err(TableError(format!("rustfmt: {}", String::from_utf8_lossy(&output.stderr))));
    }
    for (path, file) in &mut rust {
        file.text = std::fs::read_to_string(path).map_err(fail)?;
    }
    Ok(())
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
