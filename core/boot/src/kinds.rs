//! The kinds of nodes that a job has: what the first process of each node says of it in one short word, and how all hear of it.
//!
//! Weft's mpiexec hears a word from each node before a fence and tells at its end which different words there were and on which nodes, or
//! nothing where there was one: no message more than the fence has, and bytes that grow with the kinds and not with the nodes. From another
//! launcher's store each process reads the words itself, one of each node.

use std::fmt;

use weft_types::Result;

use crate::launcher::Launcher;
use crate::nodes::Nodes;

/// The key under which Weft's mpiexec takes a node's word.
pub const KEY: &str = "weft-node-kind";

/// Hosts of a kind that are told by name; the others are counted.
const MOST_NAMED: usize = 3;
/// Nodes of a job up to which each process reads the words of all from another launcher's store: some milliseconds then.
const MOST_READ: usize = 64;
/// More different words no job says; those beyond are not heard.
const MOST_KINDS: usize = 64;
/// Longest word, in bytes.
const LONGEST_WORD: usize = 16;
/// Longest name of a host that is told, in bytes.
const LONGEST_NAME: usize = 64;
/// A rank behind it.
const LONGEST_RANK: usize = 11;

/// Nodes that said the same word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeKind {
    /// The word.
    pub word: String,
    /// Some of its nodes: `host/rank`.
    pub hosts: Vec<String>,
    /// How many nodes it has.
    pub nodes: u32,
}

/// Its nodes, for people.
impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |host: &String| match host.split_once('/') {
            Some((name, rank)) => format!("{name} (rank {rank})"),
            None => host.clone(),
        };
        f.write_str(&self.hosts.iter().map(host).collect::<Vec<_>>().join(", "))?;
        match self.nodes as usize - self.hosts.len().min(self.nodes as usize) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// What the nodes of a job said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeKinds(Vec<NodeKind>);

impl NodeKinds {
    /// What a node says: its `word`, of letters and digits, the name of its host, and its first rank, which tells nodes apart whose
    /// hosts have the same name, as containers may.
    pub fn said(word: &str, host: &str, rank: u32) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
        let host: String = host.chars().take(LONGEST_NAME).map(plain).collect();
        format!("{word}@{host}/{rank}")
    }

    /// Takes what a node [`said`](NodeKinds::said); anything else is not heard.
    pub fn add(&mut self, said: &str) {
        let Some((word, host)) = said.split_once('@') else { return };
        let is_plain = |text: &str| text.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._/".contains(&c));
        let longest = LONGEST_NAME + LONGEST_RANK;
        if !is_plain(word) || word.len() > LONGEST_WORD || !is_plain(host) || host.len() > longest {
            return;
        }
        let at = match self.0.binary_search_by(|kind| kind.word.as_str().cmp(word)) {
            Ok(at) => at,
            Err(_) if self.0.len() == MOST_KINDS => return,
            Err(at) => {
                self.0.insert(at, NodeKind { word: word.to_owned(), ..NodeKind::default() });
                at
            }
        };
        let kind = &mut self.0[at];
        kind.nodes = kind.nodes.saturating_add(1);
        // The lowest ranks', whatever the order is in which hosts come.
        let rank =
            |host: &str| host.split_once('/').and_then(|(_, rank)| rank.parse().ok()).unwrap_or(u32::MAX);
        let at = kind.hosts.partition_point(|known| rank(known) <= rank(host));
        if at < MOST_NAMED {
            kind.hosts.insert(at, host.to_owned());
            kind.hosts.truncate(MOST_NAMED);
        }
    }

    /// Whether two nodes said different words.
    pub fn differ(&self) -> bool {
        self.0.len() > 1
    }

    /// The kinds, by their words.
    pub fn all(&self) -> &[NodeKind] {
        &self.0
    }

    /// As one word of the launcher's.
    pub fn emit(&self) -> String {
        let kind = |kind: &NodeKind| format!("{}:{}:{}", kind.word, kind.nodes, kind.hosts.join("+"));
        self.0.iter().map(kind).collect::<Vec<_>>().join(",")
    }

    /// Reads what [`NodeKinds::emit`] wrote; `None` when it is nothing of the kind.
    pub fn parse(text: &str) -> Option<NodeKinds> {
        let kind = |text: &str| {
            let mut parts = text.splitn(3, ':');
            let (word, nodes, hosts) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
            Some(NodeKind {
                word: word.to_owned(),
                nodes,
                hosts: hosts.split('+').map(str::to_owned).collect(),
            })
        };
        text.split(',').map(kind).collect::<Option<Vec<_>>>().map(NodeKinds)
    }
}

/// The first rank of each node, ascending.
fn first_ranks(nodes: &Nodes) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    (0..nodes.size()).filter(|&rank| seen.insert(nodes.node(rank))).collect()
}

/// A fence around which nodes tell each other their words through a store that has no word for it: one value a node, which every process
/// reads; nothing in a job of more than [`MOST_READ`] nodes, where nodes that differ are met at the first contact. `said`: of this one, at its
/// first process.
pub(crate) fn through_store(
    launcher: &mut dyn Launcher,
    nodes: &Nodes,
    rank: u32,
    said: Option<&str>,
) -> Result<NodeKinds> {
    let key = |rank: u32| format!("{KEY}-{rank}");
    let mut firsts = first_ranks(nodes);
    if firsts.len() > MOST_READ {
        firsts.clear();
    } else if let Some(said) = said {
        launcher.put(&key(rank), said)?;
    }
    launcher.fence()?;
    let mut kinds = NodeKinds::default();
    for first in firsts {
        // Who says nothing is met with what the first contact says.
        if let Some(said) = launcher.get(first, &key(first))? {
            kinds.add(&said);
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds(said: &[(&str, &str)]) -> NodeKinds {
        let mut kinds = NodeKinds::default();
        (0..).zip(said).for_each(|(rank, (word, host))| kinds.add(&NodeKinds::said(word, host, rank)));
        kinds
    }

    #[test]
    fn kinds_are_told_with_a_few_of_their_nodes() {
        let some = kinds(&[("iu", "a"), ("u", "b b"), ("iu", "c"), ("iu", "d"), ("iu", "e"), ("iu", "f")]);
        assert!(some.differ() && !kinds(&[("u", "a"), ("u", "b")]).differ());
        let told: Vec<String> = some.all().iter().map(|kind| format!("{}: {kind}", kind.word)).collect();
        assert_eq!(told, ["iu: a (rank 0), c (rank 2), d (rank 3) and 2 more", "u: b_b (rank 1)"]);
        assert_eq!(some.emit(), "iu:5:a/0+c/2+d/3,u:1:b_b/1");
        assert_eq!(NodeKinds::parse(&some.emit()), Some(some.clone()));
        let mut backwards = NodeKinds::default();
        for (rank, word) in [(5, "iu"), (4, "iu"), (3, "iu"), (2, "iu"), (0, "iu")] {
            backwards.add(&NodeKinds::said(word, ["a", "", "c", "d", "e", "f"][rank as usize], rank));
        }
        assert_eq!(backwards.all()[0], some.all()[0], "whatever the order is");
    }

    #[test]
    fn what_is_told_stays_short_whatever_is_said() {
        let mut many = NodeKinds::default();
        for node in 0..10_000 {
            many.add(&NodeKinds::said(&format!("w{node}"), &"h".repeat(999), u32::MAX));
            many.add(&format!("{}@a", "w".repeat(99)));
            many.add("no word");
            many.add("a,b:c@d");
        }
        assert_eq!(many.all().len(), MOST_KINDS);
        let kind = LONGEST_WORD + MOST_NAMED * (LONGEST_NAME + LONGEST_RANK + 1) + 16;
        assert!(many.emit().len() < MOST_KINDS * kind);
    }

    /// A store in which all nodes have said the same word.
    struct Store {
        said: u32,
        reads: u32,
    }

    impl Launcher for Store {
        fn put(&mut self, _: &str, _: &str) -> Result<()> {
            self.said += 1;
            Ok(())
        }
        fn fence(&mut self) -> Result<()> {
            Ok(())
        }
        fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds> {
            through_store(self, nodes, rank, said)
        }
        fn get(&mut self, owner: u32, key: &str) -> Result<Option<String>> {
            assert_eq!(key, format!("{KEY}-{owner}"));
            self.reads += 1;
            Ok(key.starts_with(KEY).then(|| NodeKinds::said("u", "a", 0)))
        }
        fn max_key(&self) -> usize {
            32
        }
        fn max_value(&self) -> usize {
            64
        }
        fn aborter(&self) -> crate::Aborter {
            unreachable!("nobody aborts here")
        }
        fn finalize(&mut self) -> Result<()> {
            Ok(())
        }
        fn publish(&mut self, _: &str, _: &str) -> Result<()> {
            Ok(())
        }
        fn unpublish(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
        fn lookup(&mut self, _: &str) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    fn of_many_nodes_nobody_reads_all_words() {
        for (nodes, asked) in [(MOST_READ as u32, true), (MOST_READ as u32 + 1, false)] {
            let listed: Vec<u32> = (0..nodes * 2).map(|rank| rank / 2).collect();
            let mut store = Store { said: 0, reads: 0 };
            let kinds = store.fence_of_nodes(&Nodes::listed(&listed), 0, Some("u@a/0")).expect("a fence");
            let all = if asked { nodes } else { 0 };
            assert_eq!((store.said, store.reads), (u32::from(asked), all));
            assert_eq!(kinds.all().iter().map(|kind| kind.nodes).sum::<u32>(), all);
        }
    }

    #[test]
    fn each_node_has_a_first_rank() {
        assert_eq!(first_ranks(&Nodes::listed(&[4, 4, 2, 2, 4, 9])), [0, 2, 5]);
        assert_eq!(first_ranks(&Nodes::one(3)), [0]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:+,@ -]{0,60}") {
            let _ = NodeKinds::parse(&text).map(|kinds| kinds.all().iter().map(NodeKind::to_string).collect::<String>());
            NodeKinds::default().add(&text);
        }
    }
}
