//! The file of `-configfile` (MPI 4.1 section 11.5): one program a line, in the words of the command line; `#` begins a
//! comment, a `\` at a line's end joins the next, quotes work as in a shell.

use std::ffi::OsString;

/// The words of each program, empty lines left out.
///
/// Errors: a quote that is not closed, with its line number.
pub(crate) fn sections(text: &str) -> Result<Vec<Vec<OsString>>, String> {
    let mut sections = Vec::new();
    let mut joined = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        match line.strip_suffix('\\') {
            Some(begun) => {
                joined.push_str(begun);
                joined.push(' ');
            }
            None => {
                joined.push_str(line);
                take(&std::mem::take(&mut joined), number, &mut sections)?;
            }
        }
    }
    take(&joined, text.lines().count(), &mut sections)?;
    Ok(sections)
}

fn take(line: &str, number: usize, sections: &mut Vec<Vec<OsString>>) -> Result<(), String> {
    let mut words = words(line).map_err(|quote| format!("line {number}: the quote {quote} is not closed"))?;
    // A colon at the end is how such files are often cut out of a command line.
    if words.last().is_some_and(|word| word == ":") {
        words.pop();
    }
    for section in words.split(|word| word == ":").filter(|section| !section.is_empty()) {
        sections.push(section.to_vec());
    }
    Ok(())
}

fn words(line: &str) -> Result<Vec<OsString>, char> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if word.is_none() => break,
            ' ' | '\t' | '\r' => words.extend(word.take().map(OsString::from)),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err('\''),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => word.extend(letters.next()),
                        Some(letter) => word.push(letter),
                        None => return Err('"'),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.map(OsString::from));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_comments_quotes_and_continuations() {
        let text = "# two programs\n-n 2 ocean 'a b' \\\n  \"c\\\"d\" # here\n\n-n 1 atmos e\\ f :\n";
        let read = sections(text).expect("well formed");
        assert_eq!(read, [vec!["-n", "2", "ocean", "a b", "c\"d"], vec!["-n", "1", "atmos", "e f"]]);
    }

    #[test]
    fn an_open_quote_is_refused_with_its_line() {
        assert_eq!(sections("a\nb 'c").unwrap_err(), "line 2: the quote ' is not closed");
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(lines in prop::collection::vec(prop::collection::vec("[^\n\r:]{0,8}", 1..5), 0..4)) {
            let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
            let text: String =
                lines.iter().map(|line| line.iter().map(quote).collect::<Vec<_>>().join(" ") + "\n").collect();
            let read = sections(&text).expect("well formed");
            let expected: Vec<Vec<OsString>> =
                lines.iter().map(|line| line.iter().map(OsString::from).collect()).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_text_panics(text in "[ -~\n]{0,60}") {
            let _ = sections(&text);
        }
    }
}
