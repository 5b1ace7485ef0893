//! What the ranks of one host put and fence, gathered by its agent: one message up and one down for a fence, however many ranks
//! there are. Pure.
//!
//! `put` is answered by the agent and kept, as far as the host's share of the key-value space goes (what is beyond it, the head
//! answers); when all ranks of the host are in the fence (`barrier_in`), everything kept goes to the head at once. Whatever
//! else a rank says goes on at once, behind what it put before, so the order of its words is kept. Once a rank of the host has
//! ended, or says what cannot be gathered, nothing is held back any more, half a line included: the head must see who waits for
//! whom.

use weft_boot::kinds;
use weft_boot::pmi::wire1::{Command, LineBuffer};

use crate::pmi_server::{MAX_KEY, MAX_VALUE};

/// What the agent does with something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tell the head what rank number `index` of the host said.
    Said(usize, Vec<u8>),
    /// Answer that rank.
    Answer(usize, String),
    /// Give the head these `put` lines, which were answered.
    Puts(Vec<u8>),
    /// All ranks of the host are in the fence; before it these `put` lines, which were answered.
    Entered(Vec<u8>),
}

#[derive(Debug, Default)]
struct Rank {
    lines: LineBuffer,
    /// Lines put and not passed on.
    puts: Vec<u8>,
    inside: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Gather {
    ranks: Vec<Rank>,
    /// So many keys may still be put here.
    room: usize,
    /// Whatever is said goes on as it comes: a rank has ended, or spoke what cannot be gathered.
    open: bool,
    /// The head knows that all are in the fence.
    entered: bool,
    /// Since the last fence a rank has said what kind of node this is, which the head stores nowhere: it takes no room.
    has_kind: bool,
}

impl Gather {
    /// For so many ranks of a host, which may put `room` keys here.
    pub fn new(ranks: usize, room: usize) -> Gather {
        Gather { ranks: (0..ranks).map(|_| Rank::default()).collect(), room, ..Gather::default() }
    }

    /// Takes bytes that rank number `index` of the host said.
    pub fn said(&mut self, index: usize, bytes: &[u8]) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.open {
            steps.push(Step::Said(index, bytes.to_vec()));
            return steps;
        }
        let before = self.ranks[index].lines.rest().to_vec();
        if !self.ranks[index].lines.push(bytes) {
            // A line without end: the head says so, from all of it.
            self.give_up(index, &[&before, bytes], &mut steps);
            return steps;
        }
        while let Some(line) = self.ranks[index].lines.next_line() {
            let line = [line, b"\n"].concat();
            self.line(index, line, &mut steps);
        }
        steps
    }

    fn line(&mut self, index: usize, line: Vec<u8>, steps: &mut Vec<Step>) {
        let rank = &mut self.ranks[index];
        let command = Command::parse(line.trim_ascii_end());
        let word = |key: &str| command.as_ref().ok().and_then(|command| command.get(key)).unwrap_or_default();
        let fits = (1..=MAX_KEY).contains(&word("key").len()) && word("value").len() <= MAX_VALUE;
        let says_kind = word("key") == kinds::KEY;
        match command.as_ref().map(|command| command.name.as_str()) {
            Ok("put") if fits && (self.room > 0 || says_kind && !self.has_kind) => {
                match says_kind && !self.has_kind {
                    true => self.has_kind = true,
                    false => self.room -= 1,
                }
                rank.puts.extend(line);
                let answer = Command::new("put_result").with("rc", 0).with("msg", "success");
                steps.push(Step::Answer(index, answer.emit()));
            }
            Ok("barrier_in") if !rank.inside => {
                rank.inside = true;
                if self.ranks.iter().all(|rank| rank.inside) {
                    self.entered = true;
                    let puts = self.ranks.iter_mut().flat_map(|rank| std::mem::take(&mut rank.puts));
                    steps.push(Step::Entered(puts.collect()));
                }
            }
            Ok(_) if !line.starts_with(b"mcmd=") => {
                self.pass_puts(index, steps);
                steps.push(Step::Said(index, line));
            }
            _ => self.give_up(index, &[&line], steps),
        }
    }

    fn pass_puts(&mut self, index: usize, steps: &mut Vec<Step>) {
        let puts = std::mem::take(&mut self.ranks[index].puts);
        if !puts.is_empty() {
            steps.push(Step::Puts(puts));
        }
    }

    /// Passes on what a rank said and was held back, in its order.
    fn release(&mut self, index: usize, steps: &mut Vec<Step>) {
        self.pass_puts(index, steps);
        if std::mem::take(&mut self.ranks[index].inside) && !self.entered {
            steps.push(Step::Said(index, Command::new("barrier_in").emit().into_bytes()));
        }
    }

    /// A rank says these `words`, which cannot be gathered: they cannot be read, or span lines. The others' fence cannot be
    /// gathered without it.
    fn give_up(&mut self, index: usize, words: &[&[u8]], steps: &mut Vec<Step>) {
        self.release(index, steps);
        steps.push(Step::Said(index, words.concat()));
        self.ended(steps);
    }

    /// The fence is over for all.
    pub fn left(&mut self) {
        self.ranks.iter_mut().for_each(|rank| rank.inside = false);
        self.entered = false;
        self.has_kind = false;
    }

    /// A rank of the host has ended: what was held back goes on.
    pub fn ended(&mut self, steps: &mut Vec<Step>) {
        if std::mem::replace(&mut self.open, true) {
            return;
        }
        for index in 0..self.ranks.len() {
            self.release(index, steps);
            let rest = self.ranks[index].lines.take_rest();
            if !rest.is_empty() {
                steps.push(Step::Said(index, rest));
            }
        }
    }
}

/// The line that ends a fence which has nothing to tell.
pub(crate) fn usual_end() -> String {
    Command::new("barrier_out").with("rc", 0).emit()
}

/// What the head sends to agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// The fence is over for all ranks of this host, which hear this line; empty: the usual one.
    Left(usize, String),
    /// A line for the control channel of this rank.
    Line(usize, String),
}

/// The head's side: which hosts came into the fence as one, so that they hear of its end as one. Pure.
#[derive(Debug)]
pub struct Entrances {
    hosts: Vec<Entrance>,
}

#[derive(Debug)]
struct Entrance {
    ranks: u32,
    gathered: bool,
    /// Ranks whose words of the fence's end are in what the host was told already.
    told: u32,
}

impl Entrances {
    /// Of hosts with so many ranks each.
    pub fn new(ranks: impl IntoIterator<Item = u32>) -> Entrances {
        let entrance = |ranks| Entrance { ranks, gathered: false, told: 0 };
        Entrances { hosts: ranks.into_iter().map(entrance).collect() }
    }

    /// All ranks of a host are in the fence, and its agent told that of all at once ([`Step::Entered`]).
    pub fn entered(&mut self, host: usize) {
        self.hosts[host].gathered = true;
    }

    /// What a line for `rank`, which runs on `host`, becomes on its way to the agent; `None` when that host was told already.
    pub fn answer(&mut self, host: usize, rank: usize, line: String) -> Option<Down> {
        let entrance = &mut self.hosts[host];
        if !line.starts_with("cmd=barrier_out") {
            return Some(Down::Line(rank, line));
        }
        if entrance.told > 0 {
            entrance.told -= 1;
            return None;
        }
        match std::mem::take(&mut entrance.gathered) {
            true => {
                entrance.told = entrance.ranks - 1;
                Some(Down::Left(host, if line == usual_end() { String::new() } else { line }))
            }
            false => Some(Down::Line(rank, line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(key: &str) -> Vec<u8> {
        format!("cmd=put kvsname=job key={key} value=there\n").into_bytes()
    }

    const FENCE: &[u8] = b"cmd=barrier_in\n";

    #[test]
    fn a_fence_of_a_host_is_one_message() {
        let mut gather = Gather::new(3, 9);
        for index in 0..3 {
            let steps = gather.said(index, &put(&format!("k{index}")));
            assert!(
                matches!(&steps[..], [Step::Answer(to, line)] if *to == index && line.contains("success"))
            );
        }
        assert!(gather.said(0, FENCE).is_empty() && gather.said(2, FENCE).is_empty());
        let steps = gather.said(1, FENCE);
        let all: Vec<u8> = (0..3).flat_map(|index| put(&format!("k{index}"))).collect();
        assert_eq!(steps, [Step::Entered(all)]);
        gather.left();
        // The next fence, without anything to tell.
        assert!(gather.said(0, FENCE).is_empty() && gather.said(1, FENCE).is_empty());
        assert_eq!(gather.said(2, FENCE), [Step::Entered(Vec::new())]);
    }

    #[test]
    fn the_order_of_a_ranks_words_is_kept() {
        let mut gather = Gather::new(2, 9);
        gather.said(0, &put("a"));
        let get = b"cmd=get kvsname=job key=a\n".to_vec();
        assert_eq!(gather.said(0, &get), [Step::Puts(put("a")), Step::Said(0, get.clone())]);
        // Cut anywhere.
        assert!(gather.said(0, &get[..5]).is_empty());
        assert_eq!(gather.said(0, &get[5..]), [Step::Said(0, get)]);
    }

    #[test]
    fn nothing_is_held_back_once_somebody_has_ended() {
        let mut gather = Gather::new(3, 9);
        gather.said(1, &put("b"));
        gather.said(1, FENCE);
        let mut steps = Vec::new();
        gather.ended(&mut steps);
        assert_eq!(steps, [Step::Puts(put("b")), Step::Said(1, FENCE.to_vec())]);
        assert_eq!(gather.said(2, FENCE), [Step::Said(2, FENCE.to_vec())]);
    }

    #[test]
    fn what_the_head_knows_is_not_told_again() {
        let mut gather = Gather::new(2, 9);
        gather.said(0, FENCE);
        assert_eq!(gather.said(1, FENCE), [Step::Entered(Vec::new())]);
        let mut steps = Vec::new();
        gather.ended(&mut steps);
        assert_eq!(steps, []);
    }

    /// All that the head is told of a rank's words.
    fn told(steps: Vec<Step>) -> Vec<u8> {
        let bytes = steps.into_iter().flat_map(|step| match step {
            Step::Said(0, bytes) | Step::Puts(bytes) => bytes,
            other => panic!("{other:?}"),
        });
        bytes.collect()
    }

    #[test]
    fn what_the_head_must_refuse_goes_there() {
        let mut gather = Gather::new(2, 9);
        let long = put(&"k".repeat(MAX_KEY + 1));
        assert_eq!(gather.said(0, &long), [Step::Said(0, long)]);
        // Further lines and half a line behind it, which nothing may overtake.
        let block = b"mcmd=spawn\nnprocs=1\nendcmd\ncmd=ge".to_vec();
        assert_eq!(told(gather.said(0, &block)), block);
        assert_eq!(told(gather.said(0, b"t key=a\n")), b"t key=a\n");
    }

    #[test]
    fn hosts_that_came_as_one_hear_of_the_end_as_one() {
        let line = |rank: usize| Down::Line(rank, "cmd=barrier_out rc=0\n".to_owned());
        let left = |host| Down::Left(host, String::new());
        let mut entrances = Entrances::new([2, 2, 2]);
        let end = |entrances: &mut Entrances| -> Vec<Down> {
            let answer = |rank: usize| entrances.answer(rank % 3, rank, "cmd=barrier_out rc=0\n".to_owned());
            (0..6).filter_map(answer).collect()
        };
        entrances.entered(0);
        entrances.entered(2);
        assert_eq!(end(&mut entrances), [left(0), line(1), left(2), line(4)]);
        // The next fence, into which nobody came as one; and another word while it is on.
        entrances.entered(1);
        let word = "cmd=get_result rc=0\n".to_owned();
        assert_eq!(entrances.answer(1, 4, word.clone()), Some(Down::Line(4, word)));
        assert_eq!(end(&mut entrances), [line(0), left(1), line(2), line(3), line(5)]);
    }

    #[test]
    fn half_a_line_goes_on_when_gathering_ends() {
        let mut gather = Gather::new(2, 9);
        gather.said(0, &put("a"));
        assert!(gather.said(0, b"cmd=get kvs").is_empty());
        let mut steps = Vec::new();
        gather.ended(&mut steps);
        steps.extend(gather.said(0, b"name=job key=b\n"));
        assert_eq!(told(steps), [put("a"), b"cmd=get kvsname=job key=b\n".to_vec()].concat());
    }

    #[test]
    fn a_line_without_end_reaches_the_head_whole() {
        let mut gather = Gather::new(2, 9);
        let (line, piece) = (put("a"), vec![b'x'; 40_000]);
        gather.said(0, &line);
        assert!(gather.said(0, &piece).is_empty());
        let words = told(gather.said(0, &piece));
        assert_eq!(words, [line, piece.clone(), piece].concat());
    }

    #[test]
    fn beyond_its_share_the_head_answers_what_is_put() {
        let mut gather = Gather::new(2, 2);
        for key in ["a", "b"] {
            assert!(matches!(&gather.said(0, &put(key))[..], [Step::Answer(0, _)]));
        }
        // But for what is stored nowhere, once.
        let kind = || put(kinds::KEY);
        let mut full = Gather::new(1, 0);
        assert!(matches!(&full.said(0, &kind())[..], [Step::Answer(0, _)]));
        assert_eq!(full.said(0, &kind()), [Step::Puts(kind()), Step::Said(0, kind())]);
        assert_eq!(
            gather.said(0, &put("c")),
            [Step::Puts([put("a"), put("b")].concat()), Step::Said(0, put("c"))]
        );
        assert_eq!(gather.said(1, &put("d")), [Step::Said(1, put("d"))]);
    }

    proptest! {
        /// Whatever is said, in whatever pieces, and whenever gathering ends: the head gets every rank's words whole and in
        /// order.
        #[test]
        fn no_word_is_lost_or_overtaken(
            said in prop::collection::vec((0_usize..2, prop::sample::select(vec![
                "cmd=put kvsname=job key=a value=b\n", "cmd=get key=a\n", "mcmd=spawn\n", "endcmd\n", "nonsense\n", "cmd=weft_note text=a\n",
            ])), 0..20),
            cuts in prop::collection::vec(1_usize..30, 1..20),
            end_after in 0_usize..40,
        ) {
            let mut gather = Gather::new(2, 3);
            let (mut words, mut heard) = (vec![Vec::new(); 2], vec![Vec::new(); 2]);
            let mut pieces = Vec::new();
            for ((rank, text), cut) in said.iter().zip(cuts.iter().cycle()) {
                words[*rank].extend(text.bytes());
                let (first, second) = text.as_bytes().split_at((*cut).min(text.len()));
                pieces.extend([(*rank, first), (*rank, second)]);
            }
            let mut by_puts = Vec::new();
            for (number, (rank, piece)) in pieces.into_iter().enumerate() {
                let mut steps = Vec::new();
                if number == end_after {
                    gather.ended(&mut steps);
                }
                steps.extend(gather.said(rank, piece));
                for step in steps {
                    match step {
                        Step::Said(rank, bytes) => heard[rank].extend(bytes),
                        // All puts are the same line: whose they are shows in the counts alone.
                        Step::Puts(bytes) => by_puts.extend(bytes),
                        Step::Answer(..) => {}
                        Step::Entered(_) => unreachable!("nobody is in a fence"),
                    }
                }
            }
            let mut last = Vec::new();
            gather.ended(&mut last);
            for step in last {
                match step {
                    Step::Said(rank, bytes) => heard[rank].extend(bytes),
                    Step::Puts(bytes) => by_puts.extend(bytes),
                    other => panic!("{other:?}"),
                }
            }
            let is_put = |line: &&[u8]| line.starts_with(b"cmd=put");
            let lines = |bytes: &[u8]| bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
            let puts = |bytes: &[u8]| lines(bytes).iter().filter(|line| is_put(&&line[..])).count();
            let rest = |bytes: &[u8]| lines(bytes).into_iter().filter(|line| !is_put(&&line[..])).collect::<Vec<_>>();
            for rank in 0..2 {
                prop_assert_eq!(rest(&heard[rank]), rest(&words[rank]));
            }
            let all: usize = (0..2).map(|rank| puts(&words[rank])).sum();
            prop_assert_eq!(puts(&by_puts) + puts(&heard[0]) + puts(&heard[1]), all);
        }
    }
}
