//! Writes the generated files, or compares them: `weft-generate [--check | --signature PROCEDURE]`.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weft_bindings::emit::{self, File};
use weft_bindings::{Model, Result, TableError};

const USAGE: &str = "usage: weft-generate [--check | --signature PROCEDURE]
  without arguments  writes every generated file
  --check            writes nothing; fails and summarises when a committed file is stale
  --signature NAME   prints the Rust function that implements the procedure";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        [] => generate(),
        ["--check"] => check(),
        ["--signature", name] => signature(name),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weft-generate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root: this crate is `core/bindings` in it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn load() -> Result<Model> {
    Model::load(&root().join("core/bindings/table"))
}

fn signature(name: &str) -> Result<ExitCode> {
    let model = load()?;
    let procedure =
        model.procedure(name).ok_or_else(|| TableError(format!("there is no procedure {name}")))?;
    println!("{}", emit::signature(&model, procedure)?);
    Ok(ExitCode::SUCCESS)
}

/// What differs between a generated file and the one in the working tree.
fn stale(root: &Path, files: &[File]) -> Result<Vec<(PathBuf, String)>> {
    let mut stale = Vec::new();
    for file in files {
        match std::fs::read_to_string(root.join(&file.path)) {
            Ok(text) if text == file.text => {}
            Ok(text) => stale.push((file.path.clone(), summary(&text, &file.text))),
            Err(error) => stale.push((file.path.clone(), error.to_string())),
        }
    }
    for extra in extra(root, files)? {
        stale.push((extra, "no longer generated".to_owned()));
    }
    Ok(stale)
}

/// Files in the generated folder that nothing generates any more.
fn extra(root: &Path, files: &[File]) -> Result<Vec<PathBuf>> {
    let folder = Path::new(emit::OWN_FOLDER);
    let mut extra = Vec::new();
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return Ok(extra);
    };
    for entry in entries {
        let entry =
            entry.map_err(|error| TableError(format!("cannot list {}: {error}", folder.display())))?;
        let path = folder.join(entry.file_name());
        if files.iter().all(|file| file.path != path) {
            extra.push(path);
        }
    }
    Ok(extra)
}

/// The lines that only one of two texts has, at most six.
fn summary(old: &str, new: &str) -> String {
    let lines = |text: &'static str, from: &str, not_in: &str| {
        let other: BTreeSet<&str> = not_in.lines().collect();
        let own: Vec<String> = from
            .lines()
            .filter(|line| !other.contains(line))
            .map(|line| format!("  {text} {line}"))
            .collect();
        (own.len(), own)
    };
    let (gone, mut shown) = lines("-", old, new);
    let (added, more) = lines("+", new, old);
    shown.truncate(3);
    shown.extend(more.into_iter().take(3));
    format!("{gone} lines gone, {added} lines new\n{}", shown.join("\n"))
}

fn generate() -> Result<ExitCode> {
    let root = root();
    let model = load()?;
    let files = emit::all(&model, &root)?;
    let changed = stale(&root, &files)?;
    for file in &files {
        if changed.iter().any(|(path, _)| *path == file.path) {
            let path = root.join(&file.path);
            let write = || {
                std::fs::create_dir_all(path.parent().unwrap_or(&root))?;
                std::fs::write(&path, &file.text)
            };
            write().map_err(|error| TableError(format!("cannot write {}: {error}", path.display())))?;
        }
    }
    for path in extra(&root, &files)? {
        std::fs::remove_file(root.join(&path))
            .map_err(|error| TableError(format!("cannot remove {}: {error}", path.display())))?;
    }
    for (path, _) in &changed {
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn check() -> Result<ExitCode> {
    let root = root();
    let stale = stale(&root, &emit::all(&load()?, &root)?)?;
    for (path, summary) in &stale {
        eprintln!("{}: {summary}", path.display());
    }
    if stale.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{} generated files are stale; run cargo run -p weft-bindings --bin weft-generate",
        stale.len()
    );
    Ok(ExitCode::FAILURE)
}
