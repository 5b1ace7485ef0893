//! Words on standard error, a message at a time.
//!
//! `eprintln!` writes every piece between two arguments by itself, so the messages of ranks that fail together mix, and one is cut in
//! the middle of a line when another rank's failure has the launcher end this process meanwhile.

use std::io::{self, Write};

/// Prints the message and the end of its line with one write. Where standard error is closed, it is lost.
#[cold]
pub(crate) fn say(message: &str) {
    let _ = write_at_once(&mut io::stderr().lock(), message);
}

fn write_at_once(to: &mut impl Write, message: &str) -> io::Result<()> {
    to.write_all(format!("{message}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers each write by itself.
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_message_is_one_write() {
        let mut writes = Writes(Vec::new());
        write_at_once(&mut writes, "weft: first line\n  second line").expect("nothing fails here");
        assert_eq!(writes.0, [b"weft: first line\n  second line\n".to_vec()]);
    }
}
