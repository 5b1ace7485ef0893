//! `weft-doctor`: looks at a machine before a job does, and says what would be slow or fail, and what to do about it.
//!
//! [`Machine`] is what was found, [`examine`] a pure function of it, so every finding is tested on machines written down for it.

mod facts;
mod findings;
mod limits;
mod reach;

pub use facts::{Gid, LIBRARIES, Machine, Reading, Space};
pub use findings::{Finding, Grade, examine};
pub use reach::{LIMIT, Reach, Try, reach};

use std::fmt::Write;

/// All findings as text, the worst first; with `all`, also what is well.
pub fn text(findings: &[Finding], all: bool) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.grade);
    let mut text = String::new();
    for finding in sorted.iter().filter(|finding| all || finding.grade != Grade::Well) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<8}{}: {}", finding.grade.word(), finding.about, finding.found);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "        -> {remedy}");
        }
    }
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let (fails, slow, well) =
        (count(Grade::Fails), count(Grade::Slow), count(Grade::Well) + count(Grade::Note));
    let _ = writeln!(text, "{fails} would fail, {slow} would be slow, {well} well");
    text
}

/// The exit code: 0 when nothing would fail.
pub fn code(findings: &[Finding]) -> i32 {
    i32::from(findings.iter().any(|finding| finding.grade == Grade::Fails))
}

#[cfg(test)]
mod tests;
