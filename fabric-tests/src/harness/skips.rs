//! Tests that do nothing where something is missing say why, and are counted as skipped.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// Says why the calling test does nothing here: on standard error, and as a line of the file `WEFT_TEST_SKIPS` if that is set
/// (`ci/lib.sh` counts these). At most once in a test; not from threads that it makes.
///
/// # Panics
/// When that file cannot be written: a test that does nothing must not count as passed.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    if let Some(path) = env::var_os("WEFT_TEST_SKIPS") {
        let written = OpenOptions::new().append(true).create(true).open(&path);
        // One write, so that lines of tests that run at the same time stay whole.
        written
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
