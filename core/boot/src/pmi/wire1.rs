//! PMI-1: one command a line, `cmd=name key=value key=value`, ended by a newline.
//!
//! Values are words; a blank inside one cannot be told from a separator, but a word without `=` can only be the continuation of
//! the value before it, so such values survive. The multi-line form (`mcmd=spawn` ... `endcmd`) arrives as separate lines.

use std::fmt::Write as _;

/// Longest line either side accepts, in bytes; longer ones mean a broken peer.
pub const MAX_LINE: usize = 64 * 1024;

/// One command or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What follows `cmd=`.
    pub name: String,
    fields: Vec<(String, String)>,
}

/// Why a line is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not UTF-8.
    Encoding,
    /// Does not begin with `cmd=` or `mcmd=`.
    NoCommand,
}

impl Command {
    /// A command without fields.
    pub fn new(name: &str) -> Command {
        Command { name: name.to_owned(), fields: Vec::new() }
    }

    /// Adds a field. Control characters in `value` become blanks: a line end would end the command.
    pub fn with(mut self, key: &str, value: impl ToString) -> Command {
        let value = value.to_string().replace(char::is_control, " ");
        self.fields.push((key.to_owned(), value));
        self
    }

    /// Keys and values in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The value of `key` as a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.trim().parse().ok()
    }

    /// Whether the answer says success: `rc` is 0 or missing.
    pub fn succeeded(&self) -> bool {
        self.get("rc").is_none_or(|rc| rc.trim() == "0")
    }

    /// Reads one line, with or without its newline.
    pub fn parse(line: &[u8]) -> Result<Command, Malformed> {
        let text = std::str::from_utf8(line).map_err(|_| Malformed::Encoding)?;
        // Some servers end lines with a NUL too.
        let text = text.replace(char::is_control, " ");
        let mut words = text.trim_matches(' ').split(' ');
        let first = words.next().unwrap_or_default();
        let name =
            first.strip_prefix("cmd=").or_else(|| first.strip_prefix("mcmd=")).ok_or(Malformed::NoCommand)?;
        let mut command = Command::new(name);
        for word in words {
            match (word.split_once('='), command.fields.last_mut()) {
                (Some((key, value)), _) => command.fields.push((key.to_owned(), value.to_owned())),
                (None, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                (None, None) => {}
            }
        }
        Ok(command)
    }

    /// The line, newline included.
    pub fn emit(&self) -> String {
        let mut line = format!("cmd={}", self.name);
        for (key, value) in &self.fields {
            let _ = write!(line, " {key}={value}");
        }
        line.push('\n');
        line
    }
}

/// Collects bytes as they arrive and hands out whole lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes before this position are handed out already.
    start: usize,
}

impl LineBuffer {
    /// Adds bytes. `false` when the line they belong to is longer than [`MAX_LINE`]: the peer is broken and the buffer is
    /// emptied.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
        let tail = self.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let sound = self.bytes.len() - tail <= MAX_LINE;
        if !sound {
            self.bytes.clear();
        }
        sound
    }

    /// What was pushed and not handed out.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// As [`LineBuffer::rest`], and the buffer is empty afterwards.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.start));
        std::mem::take(&mut self.bytes)
    }

    /// The next whole line, without its newline.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let length = self.bytes[self.start..].iter().position(|&byte| byte == b'\n')?;
        let line = &self.bytes[self.start..self.start + length];
        self.start += length + 1;
        Some(line)
    }
}

/// Percent-encodes what a PMI word cannot carry, for texts that Weft's two ends exchange.
pub fn encode_word(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | b';' | b'=' | 0..=b' ' | 127..=255 => {
                let _ = write!(word, "%{byte:02x}");
            }
            _ => word.push(char::from(byte)),
        }
    }
    word
}

/// Undoes [`encode_word`]; `None` when the text was not made by it.
pub fn decode_word(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let (high, low) = (rest.next()?, rest.next()?);
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_with_blanks_survives() {
        let command = Command::parse(b"cmd=abort exitcode=3 message=it broke badly\n");
        let command = command.expect("well formed");
        assert_eq!(command.name, "abort");
        assert_eq!(command.number("exitcode"), Some(3));
        assert_eq!(command.get("message"), Some("it broke badly"));
    }

    #[test]
    fn a_value_may_contain_the_equal_sign() {
        let command = Command::parse(b"cmd=put kvsname=k key=a value=b=c==").expect("well formed");
        assert_eq!(command.get("value"), Some("b=c=="));
    }

    /// Found by fuzzing: such a line was not read alike after being written again.
    #[test]
    fn control_characters_are_blanks() {
        let command = Command::parse(b"\0\ncmd=a\tb=c\0\0d=\x01").expect("well formed");
        assert_eq!((command.get("b"), command.get("d")), (Some("c "), Some("")));
        assert_eq!(Command::parse(command.emit().as_bytes()), Ok(command));
    }

    #[test]
    fn other_lines_are_refused() {
        assert_eq!(Command::parse(b"hello"), Err(Malformed::NoCommand));
        assert_eq!(Command::parse(b"cmd=\xff\xfe"), Err(Malformed::Encoding));
    }

    #[test]
    fn a_line_without_end_is_cut_off() {
        let mut buffer = LineBuffer::default();
        assert!(buffer.push(&[b'a'; MAX_LINE]));
        assert!(!buffer.push(b"b"));
        assert!(buffer.push(b"c\n"));
        assert_eq!(buffer.next_line(), Some(&b"c"[..]));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(name in "[a-z_]{1,12}", fields in prop::collection::vec(("[a-z]{1,8}", "[!-~]{0,20}"), 0..6)) {
            let command = fields.iter().fold(Command::new(&name), |command, (key, value)| command.with(key, value));
            prop_assert_eq!(Command::parse(command.emit().as_bytes()), Ok(command));
        }

        #[test]
        fn no_bytes_panic(line in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Command::parse(&line);
        }

        #[test]
        fn a_parsed_command_is_emitted_alike(line in "cmd=[a-z]{1,5}( [a-z]{0,3}=?[ -~]{0,6}){0,4}") {
            if let Ok(command) = Command::parse(line.as_bytes()) {
                prop_assert_eq!(Command::parse(command.emit().as_bytes()), Ok(command));
            }
        }

        #[test]
        fn lines_do_not_depend_on_how_bytes_arrive(lines in prop::collection::vec("[ -~]{0,30}", 0..8), cut in 1usize..9) {
            let mut whole: Vec<u8> = Vec::new();
            for line in &lines {
                whole.extend_from_slice(line.as_bytes());
                whole.push(b'\n');
            }
            let mut buffer = LineBuffer::default();
            let mut seen = Vec::new();
            for piece in whole.chunks(cut) {
                prop_assert!(buffer.push(piece));
                while let Some(line) = buffer.next_line() {
                    seen.push(String::from_utf8_lossy(line).into_owned());
                }
            }
            prop_assert_eq!(seen, lines);
        }

        #[test]
        fn an_encoded_word_is_decoded(text in ".{0,30}") {
            let word = encode_word(&text);
            prop_assert!(!word.contains([' ', '=', ';', '\n']));
            prop_assert_eq!(decode_word(&word), Some(text));
        }
    }
}
