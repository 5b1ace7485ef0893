//! What head and agents say to each other: frames of a length, a kind, a number and bytes, all little-endian.
//!
//! Pure. Both ends are of one installation (the first frame carries the version), so there is no compatibility to keep; but bytes
//! come from outside, so nothing about them is trusted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::watch::Outside;

/// Longest frame in bytes: an environment and a command line for every program of a host fit.
pub const MAX_FRAME: usize = 64 << 20;

/// Bytes before the content: length of the content, kind, number.
const PREFIX: usize = 4 + 1 + 4;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// To the agent: start these ranks (see [`Orders`]).
    Start = 1,
    /// To the agent: bytes for the control channel of rank `number`.
    Channel,
    /// To the agent: send the signal in the content (four bytes) to the group of rank `number`.
    Signal,
    /// To the agent: standard input of rank 0; empty at its end.
    Input,
    /// To the agent: the job is over; end what is left and go.
    Finish,
    /// Both ways: are you there, what is your clock, and what do these processes do? See [`Question`] and [`Answer`].
    Ping,
    /// To the head: the process of rank `number`, four bytes.
    Started,
    /// To the head: rank `number` cannot be started; four bytes of exit code and the reason.
    NotStarted,
    /// To the head: bytes from the control channel of rank `number`.
    Said,
    /// To the head: standard output of rank `number`.
    Output,
    /// To the head: standard error of rank `number`.
    Error,
    /// To the head: rank `number` has ended (see [`ending`]).
    Ended,
    /// To the head: bytes of standard input that rank 0 has taken, four bytes.
    Took,
    /// To the head: a line for the user.
    Line,
    /// To the head: nothing follows.
    Bye,
    /// To the agent: rank `number`, on whichever host, has died, and the others go on.
    Lost,
    /// To the head: these `put` lines of a rank of the host were answered.
    Puts,
    /// To the head: all ranks of the host are in the fence; before it come these `put` lines.
    Entered,
    /// To the agent: the fence is over for all ranks of the host.
    Left,
    /// To the agent: tell rank `number` here, or all ranks here, a word (see [`Word`]).
    Word,
    /// To the head: the ranks of the host cannot be told that rank `number` has died, and why.
    CannotTell,
    /// To the head: the ranks of the host cannot be told a word about rank `number`, nor those that follow, and why.
    NotSaid,
}

impl Kind {
    const ALL: [Kind; 22] = {
        use Kind::*;
        [
            Start, Channel, Signal, Input, Finish, Ping, Started, NotStarted, Said, Output, Error, Ended,
            Took, Line, Bye, Lost, Puts, Entered, Left, Word, CannotTell, NotSaid,
        ]
    };

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it says.
    pub kind: Kind,
    /// About which rank; 0 where it is about none.
    pub number: u32,
    /// The rest.
    pub content: Vec<u8>,
}

/// Appends a frame to bytes on their way.
pub fn emit(kind: Kind, number: u32, content: &[u8], out: &mut Vec<u8>) {
    out.extend((content.len() as u32).to_le_bytes());
    out.push(kind as u8);
    out.extend(number.to_le_bytes());
    out.extend_from_slice(content);
}

/// Bytes that cannot come from the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Puts frames together from pieces.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    taken: usize,
}

impl Reader {
    /// Takes the next piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// Errors: the bytes are no frame, and nothing after them can be understood.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Broken> {
        let rest = &self.bytes[self.taken..];
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let kind = Kind::from_byte(prefix[4]).filter(|_| length <= MAX_FRAME).ok_or(Broken)?;
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let number = u32::from_le_bytes([prefix[5], prefix[6], prefix[7], prefix[8]]);
        let frame = Frame { kind, number, content: content.to_vec() };
        self.taken += PREFIX + length;
        Ok(Some(frame))
    }
}

/// The content of [`Kind::Ended`]: an exit code, or a signal and whether there is a core file.
pub fn ending(end: crate::judge::End) -> [u8; 6] {
    let (kind, value, core) = match end {
        crate::judge::End::Exit(code) => (0, code, false),
        crate::judge::End::Signal { signal, core } => (1, signal, core),
    };
    let value = value.to_le_bytes();
    [kind, value[0], value[1], value[2], value[3], u8::from(core)]
}

/// Reads [`ending`].
pub fn parse_ending(content: &[u8]) -> Option<crate::judge::End> {
    let &[kind, a, b, c, d, core] = content else { return None };
    let value = i32::from_le_bytes([a, b, c, d]);
    match kind {
        0 if core == 0 => Some(crate::judge::End::Exit(value)),
        1 => Some(crate::judge::End::Signal { signal: value, core: flag(u32::from(core))? }),
        _ => None,
    }
}

/// A yes or no, which is 1 or 0 and nothing else.
fn flag(number: u32) -> Option<bool> {
    (number <= 1).then_some(number == 1)
}

/// The content of a [`Kind::Ping`] to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The head's clock ([`weft_boot::stall::now`]).
    pub asked: u64,
    /// Processes of which it is to be told what they do.
    pub pids: Vec<i32>,
}

impl Question {
    /// The bytes.
    pub fn emit(&self) -> Vec<u8> {
        let pids = self.pids.iter().flat_map(|pid| pid.to_le_bytes());
        self.asked.to_le_bytes().into_iter().chain(pids).collect()
    }

    /// Reads [`Question::emit`].
    pub fn parse(content: &[u8]) -> Option<Question> {
        let (asked, rest) = content.split_first_chunk()?;
        let pids = rest.chunks(4).map(parse_number);
        Some(Question { asked: u64::from_le_bytes(*asked), pids: pids.collect::<Option<_>>()? })
    }
}

/// The content of a [`Kind::Ping`] to the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// That of the question.
    pub asked: u64,
    /// The agent's clock.
    pub clock: u64,
    /// What the processes do, in the order of the question.
    pub states: Vec<Outside>,
}

const STATES: [Outside; 3] = [Outside::Running, Outside::Sleeping, Outside::Stopped];

impl Answer {
    /// The bytes.
    pub fn emit(&self) -> Vec<u8> {
        let states = self.states.iter().map(|state| STATES.iter().position(|other| other == state));
        let states = states.map(|place| place.unwrap_or(0) as u8);
        self.asked.to_le_bytes().into_iter().chain(self.clock.to_le_bytes()).chain(states).collect()
    }

    /// Reads [`Answer::emit`].
    pub fn parse(content: &[u8]) -> Option<Answer> {
        let (asked, rest) = content.split_first_chunk()?;
        let (clock, rest) = rest.split_first_chunk()?;
        let states = rest.iter().map(|&place| STATES.get(usize::from(place)).copied());
        Some(Answer {
            asked: u64::from_le_bytes(*asked),
            clock: u64::from_le_bytes(*clock),
            states: states.collect::<Option<_>>()?,
        })
    }
}

/// The content of a [`Kind::Word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// To the rank of the frame: this one asks it over the fabric, and hears nothing of it.
    Asks(u32),
    /// To the rank of the frame: no way leads to this one.
    Unreachable(u32),
    /// To all: the rank of the frame, of another host, has left this behind (`weft_types::Farewell::to_word`).
    Farewell(u32),
}

impl Word {
    /// The bytes.
    pub fn emit(self) -> [u8; 5] {
        let (kind, value) = match self {
            Word::Asks(rank) => (0, rank),
            Word::Unreachable(rank) => (1, rank),
            Word::Farewell(word) => (2, word),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [kind, a, b, c, d]
    }

    /// Reads [`Word::emit`].
    pub fn parse(content: &[u8]) -> Option<Word> {
        let (&kind, value) = content.split_first()?;
        let value = u32::from_le_bytes(value.try_into().ok()?);
        match kind {
            0 => Some(Word::Asks(value)),
            1 => Some(Word::Unreachable(value)),
            2 => Some(Word::Farewell(value)),
            _ => None,
        }
    }
}

/// A number of four bytes.
pub fn parse_number(content: &[u8]) -> Option<i32> {
    content.try_into().ok().map(i32::from_le_bytes)
}

/// One program of the command line, as every host starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// As given.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where mpiexec was called.
    pub current: OsString,
    /// Where it shall run.
    pub wdir: OsString,
    /// Whether `wdir` was asked for, so that its absence is an error.
    pub asked_for_wdir: bool,
    /// Folders searched for it before PATH.
    pub path: Option<OsString>,
    /// Threads of each of its ranks, for which their host finds cores; 0: not said.
    pub threads: u32,
    /// Its whole environment but for what belongs to a rank.
    pub environment: Vec<(OsString, OsString)>,
}

/// One rank of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankOrder {
    /// Its rank in the job.
    pub rank: u32,
    /// Which of the programs.
    pub program: u32,
    /// Its card (`weft_boot::card`), without what its host knows better.
    pub card: String,
}

/// What an agent has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Version of mpiexec.
    pub version: String,
    /// The host's name in the command line.
    pub host: String,
    /// `--bind-to` and `--map-by` in words; empty: not said.
    pub placing: [String; 2],
    /// Whether `--report-bindings` was given.
    pub report_bindings: bool,
    /// Ranks of the whole job.
    pub size: u32,
    /// The programs.
    pub programs: Vec<Program>,
    /// The host's ranks, ascending.
    pub ranks: Vec<RankOrder>,
}

impl Orders {
    /// The content of [`Kind::Start`].
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        text(&mut out, &self.version);
        text(&mut out, &self.host);
        self.placing.iter().for_each(|word| text(&mut out, word));
        number(&mut out, u32::from(self.report_bindings));
        number(&mut out, self.size);
        number(&mut out, self.programs.len() as u32);
        for program in &self.programs {
            word(&mut out, &program.program);
            number(&mut out, program.arguments.len() as u32);
            program.arguments.iter().for_each(|argument| word(&mut out, argument));
            word(&mut out, &program.current);
            word(&mut out, &program.wdir);
            number(&mut out, u32::from(program.asked_for_wdir));
            number(&mut out, u32::from(program.path.is_some()));
            word(&mut out, program.path.as_deref().unwrap_or_default());
            number(&mut out, program.threads);
            number(&mut out, program.environment.len() as u32);
            for (name, value) in &program.environment {
                word(&mut out, name);
                word(&mut out, value);
            }
        }
        number(&mut out, self.ranks.len() as u32);
        for rank in &self.ranks {
            number(&mut out, rank.rank);
            number(&mut out, rank.program);
            text(&mut out, &rank.card);
        }
        out
    }

    /// Reads [`Orders::emit`].
    pub fn parse(content: &[u8]) -> Option<Orders> {
        let mut from = Words(content);
        let mut orders = Orders {
            version: from.text()?,
            host: from.text()?,
            placing: [from.text()?, from.text()?],
            report_bindings: from.flag()?,
            size: from.number()?,
            ..Orders::default()
        };
        for _ in 0..from.number()? {
            let mut program = Program { program: from.word()?, ..Program::default() };
            for _ in 0..from.number()? {
                program.arguments.push(from.word()?);
            }
            (program.current, program.wdir) = (from.word()?, from.word()?);
            program.asked_for_wdir = from.flag()?;
            let (has_path, path) = (from.flag()?, from.word()?);
            if !has_path && !path.is_empty() {
                return None;
            }
            program.path = has_path.then_some(path);
            program.threads = from.number()?;
            for _ in 0..from.number()? {
                program.environment.push((from.word()?, from.word()?));
            }
            orders.programs.push(program);
        }
        for _ in 0..from.number()? {
            let rank = RankOrder { rank: from.number()?, program: from.number()?, card: from.text()? };
            if rank.program as usize >= orders.programs.len() {
                return None;
            }
            orders.ranks.push(rank);
        }
        from.0.is_empty().then_some(orders)
    }
}

fn number(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn word(out: &mut Vec<u8>, word: &OsStr) {
    number(out, word.len() as u32);
    out.extend(word.as_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    word(out, OsStr::new(text));
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn flag(&mut self) -> Option<bool> {
        flag(self.number()?)
    }

    fn word(&mut self) -> Option<OsString> {
        let length = self.number()? as usize;
        let (word, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(word.to_vec()))
    }

    fn text(&mut self) -> Option<String> {
        self.word()?.into_string().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::End;
    use proptest::prelude::*;

    #[test]
    fn orders_come_back() {
        let program = Program {
            program: "./a".into(),
            arguments: vec!["-x".into(), OsString::from_vec(vec![255, 0, 1])],
            current: "/here".into(),
            wdir: "/there".into(),
            asked_for_wdir: true,
            path: Some("/opt".into()),
            threads: 16,
            environment: vec![("A".into(), "b=c".into())],
        };
        let orders = Orders {
            version: "1".into(),
            host: "node1".into(),
            placing: ["core".into(), String::new()],
            report_bindings: true,
            size: 9,
            programs: vec![program, Program::default()],
            ranks: vec![RankOrder { rank: 7, program: 1, card: "v=1".into() }],
        };
        assert_eq!(Orders::parse(&orders.emit()), Some(orders));
    }

    #[test]
    fn endings_come_back() {
        for end in [End::Exit(-3), End::Exit(255), End::Signal { signal: 11, core: true }] {
            assert_eq!(parse_ending(&ending(end)), Some(end));
        }
        // No such end, no such answer to whether there is a core file, and an exit with one.
        for broken in [[2, 0, 0, 0, 0, 0], [1, 11, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]] {
            assert_eq!(parse_ending(&broken), None);
        }
    }

    #[test]
    fn half_a_number_is_no_question() {
        let question = Question { asked: 7, pids: vec![1, 2] }.emit();
        assert_eq!(Question::parse(&question[..question.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(
            frames in prop::collection::vec((prop::sample::select(Kind::ALL.to_vec()), any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..8),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let frames: Vec<Frame> = frames
                .into_iter()
                .map(|(kind, number, content)| Frame { kind, number, content })
                .collect();
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| emit(frame.kind, frame.number, &frame.content, &mut bytes));
            let (mut reader, mut seen, mut rest) = (Reader::default(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (piece, left) = rest.split_at((*cut).min(rest.len()));
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    seen.push(frame);
                }
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::default();
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next_frame() {}
            let _ = Orders::parse(&bytes);
            let _ = parse_ending(&bytes);
            let _ = (Question::parse(&bytes), Answer::parse(&bytes));
            if let Some(word) = Word::parse(&bytes) {
                prop_assert_eq!(&word.emit()[..], &bytes);
            }
        }

        #[test]
        fn words_are_read_as_they_were_written(value: u32) {
            for word in [Word::Asks(value), Word::Unreachable(value), Word::Farewell(value)] {
                prop_assert_eq!(Word::parse(&word.emit()), Some(word));
            }
        }

        #[test]
        fn questions_and_answers_are_read_as_they_were_written(
            (asked, clock) in (any::<u64>(), any::<u64>()),
            pids in prop::collection::vec(any::<i32>(), 0..5),
            states in prop::collection::vec(prop::sample::select(STATES.to_vec()), 0..5),
        ) {
            let question = Question { asked, pids };
            prop_assert_eq!(Question::parse(&question.emit()), Some(question));
            let answer = Answer { asked, clock, states };
            prop_assert_eq!(Answer::parse(&answer.emit()), Some(answer));
        }
    }
}
