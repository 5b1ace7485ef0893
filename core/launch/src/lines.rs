//! Output of ranks, put together again into whole lines.
//!
//! A rank's standard output and error reach mpiexec in pieces; pieces of different ranks must not meet inside a line. [`Lines`]
//! holds a rank's unfinished line back until its end comes, until it is older than [`PATIENCE`] (a prompt), longer than
//! [`LONGEST`], or the rank has ended. Pure: time is an argument.

use std::time::{Duration, Instant};

/// An unfinished line is shown after this time: somebody may be waiting for it.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// An unfinished line of this many bytes is shown as it is, so that memory is bounded.
pub const LONGEST: usize = 64 * 1024;

/// One stream of one rank.
#[derive(Debug, Default)]
pub struct Lines {
    unfinished: Vec<u8>,
    since: Option<Instant>,
    /// The last byte shown did not end a line.
    open: bool,
}

/// Bytes on their way to one of mpiexec's outputs, and whose line there is still open.
#[derive(Debug, Default)]
pub struct Sink {
    /// Bytes to write.
    pub bytes: Vec<u8>,
    open_line_of: Option<usize>,
}

impl Lines {
    /// Takes bytes of the stream; whole lines go to `sink`, each after `tag` (empty: no tag). `stream` tells streams apart.
    pub fn push(&mut self, stream: usize, tag: &str, bytes: &[u8], now: Instant, sink: &mut Sink) {
        self.unfinished.extend_from_slice(bytes);
        let whole = self.unfinished.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole > 0 {
            self.show(stream, tag, whole, sink);
        }
        if self.unfinished.len() >= LONGEST {
            self.show(stream, tag, self.unfinished.len(), sink);
        }
        self.since = match self.unfinished.is_empty() {
            true => None,
            false => Some(self.since.filter(|_| whole == 0).unwrap_or(now)),
        };
    }

    /// When the unfinished line has to be shown, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + PATIENCE)
    }

    /// Shows the unfinished line if its time has come, or at any time when the stream has `ended`.
    pub fn flush(&mut self, stream: usize, tag: &str, now: Instant, ended: bool, sink: &mut Sink) {
        if ended || self.deadline().is_some_and(|deadline| deadline <= now) {
            self.show(stream, tag, self.unfinished.len(), sink);
            self.since = None;
        }
        if ended && self.open && !tag.is_empty() {
            // A tag promises lines; the last one gets its end here. Without tags bytes pass as they are.
            sink.bytes.push(b'\n');
            sink.open_line_of = None;
            self.open = false;
        }
    }

    fn show(&mut self, stream: usize, tag: &str, count: usize, sink: &mut Sink) {
        if count == 0 {
            return;
        }
        let interrupted = sink.open_line_of.is_some_and(|other| other != stream);
        if tag.is_empty() {
            sink.bytes.extend_from_slice(&self.unfinished[..count]);
        } else {
            if interrupted {
                sink.bytes.push(b'\n');
            }
            let mut continues = self.open && !interrupted && sink.open_line_of == Some(stream);
            for line in self.unfinished[..count].split_inclusive(|&byte| byte == b'\n') {
                if !continues {
                    sink.bytes.extend_from_slice(tag.as_bytes());
                }
                sink.bytes.extend_from_slice(line);
                continues = false;
            }
        }
        self.open = self.unfinished[count - 1] != b'\n';
        sink.open_line_of = self.open.then_some(stream);
        self.unfinished.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(sink: &Sink) -> String {
        String::from_utf8_lossy(&sink.bytes).into_owned()
    }

    #[test]
    fn lines_of_two_ranks_do_not_meet() {
        let (mut a, mut b, mut sink, now) =
            (Lines::default(), Lines::default(), Sink::default(), Instant::now());
        a.push(0, "", b"one ", now, &mut sink);
        b.push(1, "", b"two\n", now, &mut sink);
        a.push(0, "", b"line\n", now, &mut sink);
        assert_eq!(text(&sink), "two\none line\n");
    }

    #[test]
    fn every_line_carries_its_tag() {
        let (mut a, mut sink, now) = (Lines::default(), Sink::default(), Instant::now());
        a.push(0, "[0] ", b"x\n\ny", now, &mut sink);
        assert_eq!(text(&sink), "[0] x\n[0] \n");
        a.flush(0, "[0] ", now, true, &mut sink);
        assert_eq!(text(&sink), "[0] x\n[0] \n[0] y\n");
    }

    #[test]
    fn a_prompt_is_shown_after_a_while_and_continued() {
        let (mut a, mut sink, now) = (Lines::default(), Sink::default(), Instant::now());
        a.push(0, "[0] ", b"name? ", now, &mut sink);
        a.flush(0, "[0] ", now, false, &mut sink);
        assert_eq!(text(&sink), "");
        a.flush(0, "[0] ", now + PATIENCE, false, &mut sink);
        assert_eq!(text(&sink), "[0] name? ");
        a.push(0, "[0] ", b"thanks\n", now, &mut sink);
        assert_eq!(text(&sink), "[0] name? thanks\n");
    }

    #[test]
    fn an_interrupted_prompt_gets_its_line_end() {
        let (mut a, mut b, mut sink, now) =
            (Lines::default(), Lines::default(), Sink::default(), Instant::now());
        a.push(0, "[0] ", b"half", now, &mut sink);
        a.flush(0, "[0] ", now + PATIENCE, false, &mut sink);
        b.push(1, "[1] ", b"whole\n", now, &mut sink);
        a.push(0, "[0] ", b"rest\n", now, &mut sink);
        assert_eq!(text(&sink), "[0] half\n[1] whole\n[0] rest\n");
    }

    proptest! {
        /// Without tags nothing is added, lost or changed, and lines of different ranks stay whole.
        #[test]
        fn untagged_bytes_pass_unchanged(pieces in prop::collection::vec((0usize..3, "[a-c\n]{0,6}"), 0..30)) {
            let now = Instant::now();
            let mut lines = [Lines::default(), Lines::default(), Lines::default()];
            let mut sink = Sink::default();
            let mut said = [String::new(), String::new(), String::new()];
            for (rank, piece) in &pieces {
                lines[*rank].push(*rank, "", piece.as_bytes(), now, &mut sink);
                said[*rank].push_str(piece);
            }
            for (rank, stream) in lines.iter_mut().enumerate() {
                stream.flush(rank, "", now, true, &mut sink);
            }
            let shown = text(&sink);
            prop_assert_eq!(shown.len(), said.iter().map(String::len).sum::<usize>());
            let count = |text: &str, letter: char| text.matches(letter).count();
            for letter in ['a', 'b', 'c', '\n'] {
                prop_assert_eq!(count(&shown, letter), said.iter().map(|text| count(text, letter)).sum::<usize>());
            }
        }

        /// With tags, taking the lines of one rank and their tags off gives back what it said.
        #[test]
        fn tagged_lines_can_be_told_apart(pieces in prop::collection::vec((0usize..3, "[a-c\n]{0,6}"), 0..30)) {
            let now = Instant::now();
            let tags = ["[0] ", "[1] ", "[2] "];
            let mut lines = [Lines::default(), Lines::default(), Lines::default()];
            let mut sink = Sink::default();
            let mut said = [String::new(), String::new(), String::new()];
            for (rank, piece) in &pieces {
                lines[*rank].push(*rank, tags[*rank], piece.as_bytes(), now, &mut sink);
                said[*rank].push_str(piece);
            }
            for (rank, stream) in lines.iter_mut().enumerate() {
                stream.flush(rank, tags[rank], now, true, &mut sink);
            }
            let shown = text(&sink);
            for rank in 0..3 {
                let mine: String = shown.split_inclusive('\n').filter_map(|line| line.strip_prefix(tags[rank])).collect();
                let mut expected = said[rank].clone();
                if !expected.is_empty() && !expected.ends_with('\n') {
                    expected.push('\n');
                }
                prop_assert_eq!(mine, expected);
            }
        }
    }
}
