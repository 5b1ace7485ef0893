//! Builds packages of other people against the MPI under test: mpi4py by pip, the crate `mpi` by cargo.
//!
//! What is built is kept, under a name made of everything that the MPI under test puts into it.

use super::{Toolchain, compile, root, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The release of mpi4py that is tested.
const MPI4PY: &str = "4.1.2";

/// An mpi4py built with the compiler wrapper under test.
#[derive(Debug)]
pub struct Mpi4py {
    /// The interpreter of the virtual environment that it is installed in.
    pub python: PathBuf,
    /// The `test` folder of the source distribution.
    pub tests: PathBuf,
}

/// Programs built from the crate `mpi`.
#[derive(Debug)]
pub struct Rsmpi {
    /// Where the crate's own examples lie.
    pub examples: PathBuf,
    /// Our own small client of the crate.
    pub client: PathBuf,
}

/// mpi4py, built once (some minutes) from its source distribution.
///
/// # Panics
/// With the output of pip, if it fails.
#[must_use]
pub fn mpi4py(tools: &Toolchain) -> &'static Mpi4py {
    static BUILT: OnceLock<Result<Mpi4py, String>> = OnceLock::new();
    match BUILT.get_or_init(|| build_mpi4py(tools)) {
        Ok(built) => built,
        Err(why) => panic!("mpi4py cannot be built: {why}"),
    }
}

/// The crate `mpi` and its examples, built once.
///
/// # Panics
/// With the output of cargo, if it fails.
#[must_use]
pub fn rsmpi(tools: &Toolchain) -> &'static Rsmpi {
    static BUILT: OnceLock<Result<Rsmpi, String>> = OnceLock::new();
    match BUILT.get_or_init(|| build_rsmpi(tools)) {
        Ok(built) => built,
        Err(why) => panic!("the crate mpi cannot be built: {why}"),
    }
}

fn build_mpi4py(tools: &Toolchain) -> Result<Mpi4py, String> {
    let folder = scratch().join(format!("mpi4py-{MPI4PY}-{}", compile::fingerprint(tools)));
    let environment = folder.join("venv");
    let source = folder.join(format!("mpi4py-{MPI4PY}"));
    let built = Mpi4py { python: environment.join("bin/python"), tests: source.join("test") };
    let done = folder.join("done");
    if done.exists() {
        return Ok(built);
    }
    // What an interrupted build left is of no use.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let release = format!("mpi4py=={MPI4PY}");
    let pip = || {
        let mut command = Command::new(&built.python);
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command
    };
    run(pip().args(["download", "--no-deps", "--no-binary", "mpi4py", &release, "-d"]).arg(&folder))?;
    let archive = folder.join(format!("mpi4py-{MPI4PY}.tar.gz"));
    run(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&folder))?;
    let mut install = pip();
    install.args(["install", "--no-binary", "mpi4py"]).arg(&archive).env("MPI4PY_BUILD_MPICC", &tools.mpicc);
    // Its one source file is enormous; nothing here is about the speed of Python.
    install.env("CFLAGS", "-O0 -g0");
    if tools.is_abi() {
        install.env("MPI4PY_BUILD_MPIABI", "1");
    }
    run(&mut install)?;
    fs::write(&done, "").map_err(|error| format!("{}: {error}", done.display()))?;
    Ok(built)
}

fn build_rsmpi(tools: &Toolchain) -> Result<Rsmpi, String> {
    let folder = scratch().join(format!("rsmpi-{}", compile::fingerprint(tools)));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let manifest = root().join("real/rsmpi/Cargo.toml");
    let target = folder.join("target");
    run(cargo(tools, &target).args(["build", "--locked", "--manifest-path"]).arg(&manifest))?;
    // The crate's own examples, unchanged, from where cargo keeps its source.
    let metadata = run(cargo(tools, &target)
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(&manifest))?;
    let source = source_of(&metadata, "/mpi-0.8.2/Cargo.toml")
        .ok_or("cargo does not say where the source of mpi is")?;
    let copy = folder.join("mpi");
    let _ = fs::remove_dir_all(&copy);
    run(Command::new("cp").arg("-r").arg(source).arg(&copy))?;
    let lock = root().join("real/rsmpi/Cargo.lock");
    fs::copy(&lock, copy.join("Cargo.lock")).map_err(|error| format!("{}: {error}", lock.display()))?;
    let mut examples = cargo(tools, &target);
    examples.args(["build", "--manifest-path"]).arg(copy.join("Cargo.toml"));
    for name in ["simple", "send_receive", "reduce", "scan", "immediate"] {
        examples.args(["--example", name]);
    }
    run(&mut examples)?;
    Ok(Rsmpi { examples: target.join("debug/examples"), client: target.join("debug/rsmpi-client") })
}

/// The folder of the manifest whose path ends as `tail`, from `cargo metadata`'s one line of JSON.
fn source_of(metadata: &str, tail: &str) -> Option<PathBuf> {
    let end = metadata.find(tail)? + tail.len();
    let start = metadata[..end].rfind('"')? + 1;
    Path::new(&metadata[start..end]).parent().map(Path::to_owned)
}

/// A cargo that does not inherit what the cargo that runs these tests has set.
fn cargo(tools: &Toolchain, target: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if (name.starts_with("CARGO_") && name != "CARGO_HOME") || name == "RUSTFLAGS" {
            command.env_remove(&key);
        }
    }
    command.env("CARGO_TARGET_DIR", target).env("MPICC", &tools.mpicc);
    command
}

/// Runs a command to a good end and returns its standard output.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let tail = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    };
    Err(format!("{command:?}: {}\n{}\n{}", output.status, tail(&text), tail(&errors)))
}

#[cfg(test)]
mod tests {
    use super::source_of;

    #[test]
    fn the_folder_of_a_manifest_is_found_in_metadata() {
        let metadata = r#"{"packages":[{"manifest_path":"/a/x-1/Cargo.toml"},{"manifest_path":"/b/mpi-0.8.2/Cargo.toml"}]}"#;
        let found = source_of(metadata, "/mpi-0.8.2/Cargo.toml").unwrap();
        assert_eq!(found, std::path::Path::new("/b/mpi-0.8.2"));
        assert!(source_of(metadata, "/mpi-9/Cargo.toml").is_none());
    }
}
