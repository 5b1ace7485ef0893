//! Which names the libraries define.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::harness::{library, model, succeed};

/// The variables of section 19.3.5.
const VARIABLES: [&str; 4] =
    ["MPI_F08_STATUSES_IGNORE", "MPI_F08_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE", "MPI_F_STATUS_IGNORE"];

/// Address, size and type letter by name.
type Symbols = BTreeMap<String, (String, String, char)>;

fn symbols(arguments: &[&str], file: &Path) -> Symbols {
    succeed(Command::new("nm").args(arguments).args(["-S", "--defined-only"]).arg(file))
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (address, size, letter, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
            Some((name.to_owned(), (address.to_owned(), size.to_owned(), letter.chars().next()?)))
        })
        .collect()
}

fn has_every_name_and_no_other(mut symbols: Symbols, what: &str) {
    for procedure in &model().procedures {
        let name = procedure.name();
        let weak = symbols.remove(name).unwrap_or_else(|| panic!("{what} lacks {name}"));
        let strong = symbols.remove(&format!("P{name}")).unwrap_or_else(|| panic!("{what} lacks P{name}"));
        assert_eq!(weak.2, 'W', "{name} must be a weak function");
        assert_eq!(strong.2, 'T', "P{name} must be a strong function");
        assert_eq!((&weak.0, &weak.1), (&strong.0, &strong.1), "{name} and P{name} must be the same code");
    }
    for name in VARIABLES {
        let variable = symbols.remove(name).unwrap_or_else(|| panic!("{what} lacks {name}"));
        assert!(matches!(variable.2, 'D' | 'B'), "{name} must be a variable");
    }
    assert!(symbols.is_empty(), "{what} also defines {:?}", symbols.keys());
}

#[test]
fn the_shared_library_defines_every_name_weak_and_strong_and_nothing_else() {
    has_every_name_and_no_other(symbols(&["-D"], &library().join("libmpi_abi.so.1")), "libmpi_abi.so.1");
}

#[test]
fn the_static_library_defines_the_same_names() {
    has_every_name_and_no_other(symbols(&["-g"], &library().join("libmpi_abi.a")), "libmpi_abi.a");
}

#[test]
fn the_library_never_calls_a_name_that_can_be_intercepted() {
    // Every use of an exported function from inside would need a relocation that names it.
    let relocations = succeed(Command::new("readelf").arg("-rW").arg(library().join("libmpi_abi.so.1")));
    let uses: Vec<&str> =
        relocations.lines().filter(|line| line.contains(" MPI_") || line.contains(" PMPI_")).collect();
    assert!(uses.is_empty(), "{uses:#?}");
}

#[test]
fn the_shared_library_has_the_standard_name_and_needs_only_the_c_library() {
    let dynamic = succeed(Command::new("readelf").arg("-dW").arg(library().join("libmpi_abi.so.1")));
    assert!(dynamic.contains("Library soname: [libmpi_abi.so.1]"), "{dynamic}");
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        let system = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"].iter().any(|name| line.contains(name));
        assert!(system, "{line}");
    }
    assert_eq!(std::fs::read_link(library().join("libmpi_abi.so")).unwrap(), Path::new("libmpi_abi.so.1"));
}
