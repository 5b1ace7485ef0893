//! What a rank whose MPI calls have been blocked for long tells its launcher: a [`Stall`], and its text on the control
//! channel.
//!
//! A stall is a set of facts from which a launcher can prove a deadlock, and words for people. The facts are those of one
//! interval in which nothing moved in the process ([`Stall::from`] to [`Stall::until`]): which calls are blocked and what each
//! [needs](Blocked::needs), and what the process could still do by itself meanwhile ([`Stall::acts_on`]).
//!
//! The text is the fields of one PMI-1 command, `weft_stall`: see [`Stall::command`]. Parsing checks every bound, because the
//! bytes come from another process.

use crate::pmi::wire1::{Command, decode_word, encode_word};

/// Name of the command.
pub const COMMAND: &str = "weft_stall";

/// Most calls, needs, lines and words that are told; what is left out makes the proof weaker, never wrong.
const MOST_CALLS: usize = 16;
const MOST_NEEDS: usize = 512;
const MOST_LINES: usize = 8;
/// Most channels of which the number of collective operations begun is told.
pub const MOST_BEGUN: usize = 64;
const LONGEST: usize = 240;

/// Highest rank plus one that a set may hold.
const MOST_RANKS: u32 = 1 << 24;

/// A set of ranks of the job as ascending, separate ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranks(Vec<(u32, u32)>);

impl Ranks {
    /// Exactly `rank`.
    pub fn one(rank: u32) -> Ranks {
        Ranks(vec![(rank, rank)])
    }

    /// Every rank in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Whether `rank` is in it.
    pub fn contains(&self, rank: u32) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&rank))
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of ranks in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|&(first, last)| (last - first) as usize + 1).sum()
    }

    /// Reads what `Display` writes (`0-3,5`); nobody is the empty text.
    pub fn parse(text: &str) -> Option<Ranks> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            let after = ranges.last().is_none_or(|&(_, before)| before < first);
            if first > last || last >= MOST_RANKS || !after {
                return None;
            }
            ranges.push((first, last));
        }
        Some(Ranks(ranges))
    }
}

impl FromIterator<u32> for Ranks {
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Ranks {
        let mut ranks: Vec<u32> = ranks.into_iter().filter(|&rank| rank < MOST_RANKS).collect();
        ranks.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for rank in ranks {
            match ranges.last_mut() {
                Some((_, last)) if rank <= last.saturating_add(1) => *last = rank,
                _ => ranges.push((rank, rank)),
            }
        }
        Ranks(ranges)
    }
}

impl std::fmt::Display for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, &(first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// The place of a collective operation among those of its communicator: the same at all ranks that take part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The communicator's channel.
    pub channel: u32,
    /// Its number there.
    pub number: u32,
}

/// One blocked call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// The procedure, `MPI_Recv`.
    pub call: String,
    /// What it was called with or waits for, for people: `(source=7, tag=3, MPI_COMM_WORLD)`. Two ranks in the same state say
    /// the same.
    pub what: String,
    /// The same in two words, for a cycle: `tag 3`.
    pub brief: String,
    /// Further lines for people: pending requests of a wait call.
    pub lines: Vec<String>,
    /// Where the program called it, if that is known: `solver(+0x1234)`.
    pub place: String,
    /// Since when it is blocked: nanoseconds of [`now`].
    pub since: u64,
    /// Sets of ranks, of *each* of which *some* rank has to act before the call can return. Nothing is known about a call
    /// without needs: it may return at any time.
    pub needs: Vec<Ranks>,
    /// Whether ranks that have ended MPI may begin it again, in a session, and do what is needed.
    pub again: bool,
    /// The collective operation it is in, and who takes part.
    pub collective: Option<(Place, Ranks)>,
}

/// What a stalled rank tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// The last time something moved in the process, or a thread began to wait: nanoseconds of [`now`].
    pub from: u64,
    /// The last time since when the process has looked at everything and found nothing.
    pub until: u64,
    /// The calls blocked, one for each thread. None: the process has gone on.
    pub calls: Vec<Blocked>,
    /// Whether other threads of the process may call MPI at any time; then nothing is certain.
    pub others: bool,
    /// Sets of ranks: when some rank of *any* of these acts, this process may act too without its calls returning, for instance
    /// send the next message of a nonblocking collective.
    pub acts_on: Vec<Ranks>,
    /// Messages that arrived and that nobody has asked for, for people.
    pub strays: Vec<String>,
    /// Collective operations begun on each channel, where it is some.
    pub begun: Vec<Place>,
}

/// The clock of stalls, the same in all processes of a machine: nanoseconds of the monotonic clock as its quartz gives them.
/// Time services may make the usual monotonic clock run faster or slower by as much as they like for a while, and clocks of
/// hosts are compared.
pub fn now() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC_RAW);
    time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

fn sets(sets: &[Ranks]) -> String {
    sets.iter().map(Ranks::to_string).collect::<Vec<_>>().join("&")
}

fn parse_sets(text: &str) -> Option<Vec<Ranks>> {
    // One empty set is `&`-less and empty, so sets are counted by a mark in front.
    match text.strip_prefix('.') {
        None => Some(Vec::new()),
        Some(rest) => rest.split('&').map(Ranks::parse).collect(),
    }
}

fn short(text: &str) -> String {
    encode_word(&text.chars().take(LONGEST).collect::<String>())
}

fn read_text(word: &str) -> Option<String> {
    let text = decode_word(word)?;
    Some(text.chars().take(LONGEST).map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
}

impl Stall {
    /// The command that carries it. What is beyond the bounds of a line is left out so that what remains is still true: fewer
    /// needs can only make a call look freer than it is.
    pub fn command(&self) -> Command {
        let mut command = Command::new(COMMAND).with("seen", format!("{}-{}", self.from, self.until));
        let others = self.others || self.calls.len() > MOST_CALLS || self.acts_on.len() > MOST_NEEDS;
        if others {
            command = command.with("others", 1);
        }
        if !self.acts_on.is_empty() {
            let told = &self.acts_on[..self.acts_on.len().min(MOST_NEEDS)];
            command = command.with("acts", format!(".{}", sets(told)));
        }
        for place in self.begun.iter().take(MOST_BEGUN) {
            command = command.with("begun", format!("{}:{}", place.channel, place.number));
        }
        for stray in self.strays.iter().take(MOST_LINES) {
            command = command.with("stray", short(stray));
        }
        for call in self.calls.iter().take(MOST_CALLS) {
            command = command
                .with("call", short(&call.call))
                .with("what", short(&call.what))
                .with("brief", short(&call.brief))
                .with("place", short(&call.place))
                .with("since", call.since);
            if !call.needs.is_empty() {
                let told = &call.needs[..call.needs.len().min(MOST_NEEDS)];
                command = command.with("needs", format!(".{}", sets(told)));
            }
            if call.again {
                command = command.with("again", 1);
            }
            if let Some((place, members)) = &call.collective {
                command = command.with("coll", format!("{}:{}:{members}", place.channel, place.number));
            }
            for line in call.lines.iter().take(MOST_LINES) {
                command = command.with("line", short(line));
            }
        }
        command
    }

    /// Reads a command of [`Stall::command`]; `None` when a field cannot be read. Unknown fields are skipped.
    pub fn parse(command: &Command) -> Option<Stall> {
        let mut stall = Stall::default();
        for (key, value) in command.fields() {
            match key {
                "seen" => {
                    let (from, until) = value.split_once('-')?;
                    (stall.from, stall.until) = (from.parse().ok()?, until.parse().ok()?);
                }
                "others" => stall.others = true,
                "acts" => stall.acts_on = parse_sets(value)?,
                "begun" => stall.begun.push(place(value)?),
                "stray" => stall.strays.push(read_text(value)?),
                "call" => stall.calls.push(Blocked { call: read_text(value)?, ..Blocked::default() }),
                "what" => stall.calls.last_mut()?.what = read_text(value)?,
                "brief" => stall.calls.last_mut()?.brief = read_text(value)?,
                "place" => stall.calls.last_mut()?.place = read_text(value)?,
                "since" => stall.calls.last_mut()?.since = value.parse().ok()?,
                "needs" => stall.calls.last_mut()?.needs = parse_sets(value)?,
                "again" => stall.calls.last_mut()?.again = true,
                "coll" => {
                    let (at, members) = value.rsplit_once(':')?;
                    stall.calls.last_mut()?.collective = Some((place(at)?, Ranks::parse(members)?));
                }
                "line" => stall.calls.last_mut()?.lines.push(read_text(value)?),
                _ => {}
            }
        }
        Some(stall)
    }
}

fn place(text: &str) -> Option<Place> {
    let (channel, number) = text.split_once(':')?;
    Some(Place { channel: channel.parse().ok()?, number: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi::wire1::MAX_LINE;
    use proptest::prelude::*;

    fn any_ranks() -> impl Strategy<Value = Ranks> {
        prop::collection::vec(0u32..40, 0..6).prop_map(|ranks| ranks.into_iter().collect())
    }

    fn any_call() -> impl Strategy<Value = Blocked> {
        let texts = ("[^\\p{C}]{0,9}", "[^\\p{C}]{0,20}", "[^\\p{C}]{0,9}", "[^\\p{C}]{0,9}");
        let lines = prop::collection::vec("[^\\p{C}]{0,9}", 0..4);
        let needs = prop::collection::vec(any_ranks(), 0..4);
        let collective = prop::option::of((any::<u32>(), any::<u32>(), any_ranks()));
        (texts, lines, needs, any::<u64>(), any::<bool>(), collective).prop_map(
            |(texts, lines, needs, since, again, collective)| Blocked {
                call: texts.0,
                what: texts.1,
                place: texts.2,
                brief: texts.3,
                lines,
                since,
                needs,
                again,
                collective: collective.map(|(channel, number, ranks)| (Place { channel, number }, ranks)),
            },
        )
    }

    fn any_stall() -> impl Strategy<Value = Stall> {
        let calls = prop::collection::vec(any_call(), 0..4);
        let sets = prop::collection::vec(any_ranks(), 0..4);
        let begun = prop::collection::vec((any::<u32>(), any::<u32>()), 0..4);
        let strays = prop::collection::vec("[^\\p{C}]{0,20}", 0..4);
        (any::<u64>(), any::<u64>(), calls, any::<bool>(), sets, begun, strays).prop_map(
            |(from, until, calls, others, acts_on, begun, strays)| Stall {
                from,
                until,
                calls,
                others,
                acts_on,
                strays,
                begun: begun.into_iter().map(|(channel, number)| Place { channel, number }).collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn a_stall_is_read_as_it_was_written(stall in any_stall()) {
            let line = stall.command().emit();
            let command = Command::parse(line.trim_end_matches('\n').as_bytes()).expect("a command");
            prop_assert_eq!(Stall::parse(&command), Some(stall));
        }

        #[test]
        fn a_damaged_line_is_refused_or_bounded(stall in any_stall(), at in any::<prop::sample::Index>(), byte in 32u8..127) {
            let mut bytes = stall.command().emit().into_bytes();
            bytes.pop();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(command) = Command::parse(&bytes)
                && let Some(stall) = Stall::parse(&command)
            {
                let sets = stall.calls.iter().flat_map(|call| &call.needs).chain(&stall.acts_on);
                prop_assert!(sets.flat_map(|ranks| ranks.0.iter()).all(|&(first, last)| first <= last && last < MOST_RANKS));
            }
        }

        #[test]
        fn no_line_panics(text in "[ -~]{0,120}") {
            if let Ok(command) = Command::parse(format!("cmd=weft_stall {text}").as_bytes()) {
                let _ = Stall::parse(&command);
            }
        }

        #[test]
        fn a_set_holds_exactly_its_ranks(ranks in prop::collection::btree_set(0u32..60, 0..30)) {
            let set: Ranks = ranks.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), ranks.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), ranks.len());
            prop_assert!((0..60).all(|rank| set.contains(rank) == ranks.contains(&rank)));
            prop_assert_eq!(Ranks::parse(&set.to_string()), Some(set));
        }
    }

    #[test]
    fn the_largest_stall_fits_one_line() {
        let scattered: Ranks = (0..32).map(|rank| rank * 2).collect();
        let call = Blocked {
            call: "x".repeat(1000),
            what: " ".repeat(1000),
            lines: vec![" ".repeat(1000); 100],
            needs: vec![Ranks::one(5); 4096],
            collective: Some((Place { channel: u32::MAX, number: u32::MAX }, scattered.clone())),
            ..Blocked::default()
        };
        let stall = Stall {
            calls: vec![call; 2],
            strays: vec![" ".repeat(1000); 100],
            acts_on: vec![scattered; 100],
            begun: vec![Place { channel: u32::MAX, number: u32::MAX }; 1000],
            ..Stall::default()
        };
        assert!(stall.command().emit().len() < MAX_LINE, "{}", stall.command().emit().len());
    }

    #[test]
    fn ranks_out_of_order_or_out_of_bounds_are_refused() {
        for text in ["3-1", "2,1", "1,1", "0-99999999", "a", "1-", "-"] {
            assert_eq!(Ranks::parse(text), None, "{text}");
        }
        assert_eq!(Ranks::parse(""), Some(Ranks::default()));
    }
}
