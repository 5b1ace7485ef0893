//! What the ranks of one host put and fence, gathered by its agent: one message up and one down for a fence, however many ranks there
//! are. Pure.
//!
//! `put` is answered by the agent and kept; when all ranks of the host are in the fence (`barrier_in`), everything kept goes to the
//! head at once. Whatever else a rank says goes on at once, behind what it put before, so the order of its words is kept. Once a
//! rank of the host has ended, nothing is held back any more: the head must see who waits for whom.

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
    /// Its words go on as they come: they cannot be read, or are of a kind that spans lines.
    plain: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Gather {
    ranks: Vec<Rank>,
    /// A rank has ended.
    open: bool,
    /// The head knows that all are in the fence.
    entered: bool,
}

impl Gather {
    /// For so many ranks.
    pub fn new(ranks: usize) -> Gather {
        Gather { ranks: (0..ranks).map(|_| Rank::default()).collect(), open: false, entered: false }
    }

    /// Takes bytes that rank number `index` of the host said.
    pub fn said(&mut self, index: usize, bytes: &[u8]) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.open || self.ranks[index].plain {
            steps.push(Step::Said(index, bytes.to_vec()));
            return steps;
        }
        if !self.ranks[index].lines.push(bytes) {
            // A line without end: the head says so.
            self.give_up(index, &mut steps);
            steps.push(Step::Said(index, bytes.to_vec()));
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
        if rank.plain {
            return steps.push(Step::Said(index, line));
        }
        let command = Command::parse(line.trim_ascii_end());
        let word = |key: &str| command.as_ref().ok().and_then(|command| command.get(key)).unwrap_or_default();
        match command.as_ref().map(|command| command.name.as_str()) {
            Ok("put") if (1..=MAX_KEY).contains(&word("key").len()) && word("value").len() <= MAX_VALUE => {
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
            _ => {
                self.give_up(index, steps);
                steps.push(Step::Said(index, line));
            }
        }
    }

    fn pass_puts(&mut self, index: usize, steps: &mut Vec<Step>) {
        let puts = std::mem::take(&mut self.ranks[index].puts);
        if !puts.is_empty() {
            steps.push(Step::Puts(puts));
        }
    }

    /// What a rank says goes on as it comes from now on.
    fn give_up(&mut self, index: usize, steps: &mut Vec<Step>) {
        self.pass_puts(index, steps);
        self.ranks[index].plain = true;
        // The others' fence cannot be gathered without it.
        self.ended(steps);
    }

    /// The fence is over for all.
    pub fn left(&mut self) {
        self.ranks.iter_mut().for_each(|rank| rank.inside = false);
        self.entered = false;
    }

    /// A rank of the host has ended: what was held back goes on.
    pub fn ended(&mut self, steps: &mut Vec<Step>) {
        if std::mem::replace(&mut self.open, true) {
            return;
        }
        for index in 0..self.ranks.len() {
            self.pass_puts(index, steps);
            if std::mem::take(&mut self.ranks[index].inside) && !self.entered {
                steps.push(Step::Said(index, Command::new("barrier_in").emit().into_bytes()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Vec<u8> {
        format!("cmd=put kvsname=job key={key} value=there\n").into_bytes()
    }

    const FENCE: &[u8] = b"cmd=barrier_in\n";

    #[test]
    fn a_fence_of_a_host_is_one_message() {
        let mut gather = Gather::new(3);
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
        let mut gather = Gather::new(2);
        gather.said(0, &put("a"));
        let get = b"cmd=get kvsname=job key=a\n".to_vec();
        assert_eq!(gather.said(0, &get), [Step::Puts(put("a")), Step::Said(0, get.clone())]);
        // Cut anywhere.
        assert!(gather.said(0, &get[..5]).is_empty());
        assert_eq!(gather.said(0, &get[5..]), [Step::Said(0, get)]);
    }

    #[test]
    fn nothing_is_held_back_once_somebody_has_ended() {
        let mut gather = Gather::new(3);
        gather.said(1, &put("b"));
        gather.said(1, FENCE);
        let mut steps = Vec::new();
        gather.ended(&mut steps);
        assert_eq!(steps, [Step::Puts(put("b")), Step::Said(1, FENCE.to_vec())]);
        assert_eq!(gather.said(2, FENCE), [Step::Said(2, FENCE.to_vec())]);
    }

    #[test]
    fn what_the_head_knows_is_not_told_again() {
        let mut gather = Gather::new(2);
        gather.said(0, FENCE);
        assert_eq!(gather.said(1, FENCE), [Step::Entered(Vec::new())]);
        let mut steps = Vec::new();
        gather.ended(&mut steps);
        assert_eq!(steps, []);
    }

    #[test]
    fn what_the_head_must_refuse_goes_there() {
        let mut gather = Gather::new(2);
        let long = put(&"k".repeat(MAX_KEY + 1));
        assert_eq!(gather.said(0, &long), [Step::Said(0, long)]);
        let block = b"mcmd=spawn\nnprocs=1\nendcmd\n".to_vec();
        let steps = gather.said(0, &block);
        let said: Vec<u8> = steps
            .into_iter()
            .flat_map(|step| match step {
                Step::Said(0, bytes) => bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(said, block);
    }
}
