//! Compiles each program once: the product is kept under a name made of everything that went into it.

use super::{Toolchain, root, scratch};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

/// Warnings are errors in a user's program too: `mpi.h` has to be clean.
const FLAGS: &[&str] = &["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// Compiles and links `source` and returns the executable.
///
/// # Panics
/// With the compiler's output, if it fails.
#[must_use]
pub fn build(tools: &Toolchain, source: &Path, flags: &[String]) -> PathBuf {
    build_with(tools, source, flags, &[])
}

/// Compiles `source` into a shared object, as for preloading.
///
/// # Panics
/// With the compiler's output, if it fails.
#[must_use]
pub fn build_shared(tools: &Toolchain, source: &Path, flags: &[String]) -> PathBuf {
    build_with(tools, source, flags, &["-shared", "-fPIC"])
}

fn build_with(tools: &Toolchain, source: &Path, flags: &[String], mode: &[&str]) -> PathBuf {
    // One compilation at a time for one product: tests of one program run beside each other.
    static PRODUCTS: OnceLock<Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>> = OnceLock::new();
    let product = product_name(tools, source, flags, mode);
    let turn = {
        let mut products = PRODUCTS.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
        Arc::clone(products.entry(product.clone()).or_default())
    };
    let _turn = turn.lock().unwrap_or_else(|e| e.into_inner());
    if product.exists() {
        return product;
    }
    let unfinished = product.with_extension(format!("part{}", std::process::id()));
    let mut command = compiler(tools, source, flags, mode);
    command.arg("-o").arg(&unfinished).arg(source).arg("-lm");
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{} does not compile:\n{command:?}\n{}{}",
        source.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&unfinished, &product).unwrap_or_else(|error| panic!("{}: {error}", product.display()));
    product
}

fn compiler(tools: &Toolchain, source: &Path, flags: &[String], mode: &[&str]) -> Command {
    let mut command = Command::new(tools.compiler_for(source));
    command.args(FLAGS).arg("-I").arg(root().join("conformance")).args(mode).args(flags);
    if source.extension().is_some_and(|extension| extension == "c") {
        command.arg("-std=gnu99");
    }
    command
}

/// A name for everything that the MPI under test puts into what is built with it: the wrapper's place and `mpi.h`.
pub(super) fn fingerprint(tools: &Toolchain) -> String {
    let header = root().join("conformance/check.h");
    let text = preprocessed(compiler(tools, &header, &[], &["-x", "c"]).arg("-E").arg(&header), &header);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    tools.mpicc.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn preprocessed(command: &mut Command, source: &Path) -> Vec<u8> {
    let text = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        text.status.success(),
        "{} cannot be preprocessed:\n{command:?}\n{}",
        source.display(),
        String::from_utf8_lossy(&text.stderr)
    );
    text.stdout
}

/// The name holds a hash of the preprocessed text (so of `mpi.h` too) and of the command.
fn product_name(tools: &Toolchain, source: &Path, flags: &[String], mode: &[&str]) -> PathBuf {
    let mut command = compiler(tools, source, flags, mode);
    command.arg("-E").arg(source);
    let text = preprocessed(&mut command, source);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{command:?}").hash(&mut hasher);
    let folder = scratch().join("programs");
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let stem = source.file_stem().expect("a source file has a name").to_string_lossy();
    folder.join(format!("{stem}-{:016x}", hasher.finish()))
}
