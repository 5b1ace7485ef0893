//! Lines of words that people and tools write: what the files of rules and of measured figures have in common.

use std::fmt;

/// Longest text that is read, in bytes: a file that is longer is not one of ours.
pub const LONGEST: usize = 32 << 10;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the text comes from: a file, an environment variable, an info key.
    pub source: String,
    /// Its line, from 1; 0: all of it.
    pub line: u32,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.source, self.reason),
            line => write!(f, "{}, line {line}: {}", self.source, self.reason),
        }
    }
}

impl std::error::Error for Fault {}

/// The statements of a text with their lines: lines, or parts of them between semicolons, without comments (`#` to the
/// end of the line) and empty ones.
///
/// # Errors
/// A text that is too long.
pub(crate) fn statements<'a>(text: &'a str, source: &str) -> Result<Vec<(u32, &'a str)>, Fault> {
    if text.len() > LONGEST {
        let reason = format!("{} bytes are too long; at most {LONGEST} are read", text.len());
        return Err(Fault { source: source.to_owned(), line: 0, reason });
    }
    let lines = (1..).zip(text.lines());
    let parts = lines.flat_map(|(line, text)| {
        let text = text.split('#').next().unwrap_or_default();
        text.split(';').map(move |part| (line, part.trim()))
    });
    Ok(parts.filter(|(_, part)| !part.is_empty()).collect())
}
