//! The table of parameters as text.

use std::fmt::Write;
use weft_types::params::{Setting, TABLE};

/// Columns that the meaning may take.
const WIDTH: usize = 92;

/// The table for `weft-info --params`: variable, default, form, meaning; `*` marks what `set` says is set.
pub fn text(set: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::from(
        "Environment variables that change what Weft does. None is needed; `*` marks those set now.\n",
    );
    for row in TABLE {
        // Writing to a string cannot fail.
        let _ = match set(row.variable) {
            Some(value) => {
                let value = Setting::brief(&value);
                writeln!(text, "\n* {}={value}   (default {})", row.variable, row.default)
            }
            None => writeln!(text, "\n  {}   (default {})", row.variable, row.default),
        };
        for line in wrapped(row.form).into_iter().chain(wrapped(row.meaning)) {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

fn wrapped(meaning: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in meaning.split_whitespace() {
        let line = lines.last_mut().expect("begins with one");
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_shown_and_those_set_are_marked() {
        let text = text(|variable| (variable == "WEFT_EAGER_LIMIT").then(|| "8K".to_owned()));
        for row in TABLE {
            assert!(text.contains(row.variable) && text.contains(row.default), "{}", row.variable);
        }
        assert!(text.contains("* WEFT_EAGER_LIMIT=8K"));
        assert!(text.lines().all(|line| line.len() <= WIDTH + 6), "wrapped");
    }
}
