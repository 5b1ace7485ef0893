//! Turns every C program of `conformance/`, `quality/` and `real/` and each of its numbers of ranks into one `#[test]`.

#[allow(dead_code, unreachable_pub)]
#[path = "src/head.rs"]
mod head;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/head.rs");
    for folder in ["conformance", "quality", "real"] {
        println!("cargo:rerun-if-changed={folder}");
        let mut text = String::new();
        emit(&root, &root.join(folder), &mut text);
        fs::write(out.join(format!("{folder}.rs")), text).expect("OUT_DIR can be written");
    }
}

/// Writes one module for each folder and each program, with a test for each number of ranks in it.
fn emit(root: &Path, folder: &Path, text: &mut String) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    entries.sort();
    for path in entries {
        let stem = path.file_stem().expect("a name").to_string_lossy().replace('-', "_");
        let extension = path.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            // Folders named after a chapter hold programs; others are somebody's project or a helper's home.
            if stem.starts_with("ch") {
                let _ = writeln!(text, "mod {stem} {{");
                emit(root, &path, text);
                text.push_str("}\n");
            }
        } else if extension == "c" || extension == "cc" {
            let source = fs::read_to_string(&path).expect("a readable source file");
            let head = head::Head::parse(&source).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            let relative = path.strip_prefix(root).expect("below the root").display();
            let _ = writeln!(text, "mod {stem} {{");
            for ranks in head.ranks {
                let _ = writeln!(
                    text,
                    "#[test] fn with_{ranks}_ranks() {{ weft_fabric_tests::harness::run_program(\"{relative}\", {ranks}); }}"
                );
            }
            text.push_str("}\n");
        }
    }
}
