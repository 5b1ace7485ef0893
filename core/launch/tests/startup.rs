//! The start of jobs of a thousand to a million ranks: all that ranks, agents and mpiexec say to each other from the first
//! order until a rank has met a peer on another node. Their state machines run here, and every message is counted.
//! `startup/table.txt` keeps the figures; `WEFT_UPDATE=1` writes it anew. Not in it: questions whether a host is there, which
//! come by the clock.

use std::fmt::Write;

use weft_boot::card::Card;
use weft_boot::{NodeKinds, Nodes, kinds, pmi::wire1::Command};
use weft_launch::hosts::frames::{self, Kind, Orders, Program, RankOrder};
use weft_launch::hosts::gather::{Down, Entrances, Gather, Step};
use weft_launch::pmi_server::{Action, Server, share_of_host};

/// Messages and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Count(u64, u64);

impl Count {
    fn add(&mut self, bytes: usize) {
        *self = Count(self.0 + 1, self.1 + bytes as u64);
    }

    /// Of one of `number`, rounded up.
    fn each(self, number: u64) -> Count {
        Count(self.0.div_ceil(number), self.1.div_ceil(number))
    }
}

/// What was counted.
#[derive(Default)]
struct Counts {
    /// The order that starts a host's ranks.
    orders: Count,
    /// Lines between a rank and its agent, both ways; at the end those of one rank.
    rank: Count,
    /// Frames between agents and head; at the end those of one node.
    up: Count,
    down: Count,
    /// Lines and frames of one first contact.
    contact: (Count, Count),
}

fn frame(kind: Kind, content: &[u8]) -> usize {
    let mut bytes = Vec::new();
    frames::emit(kind, 0, content, &mut bytes);
    bytes.len()
}

/// The order for a host: a program with an environment of 2 KiB, and a card for each of `ranks`.
fn orders(ranks: &[u32], size: u32, nodes: &Nodes) -> Orders {
    let card = |rank: u32| Card {
        rank,
        size,
        job_id: "job-4711".to_owned(),
        nodes: nodes.clone(),
        local_ranks: ranks.to_vec(),
        cores: ranks.len(),
        command: vec!["solver".to_owned()],
        ..Card::default()
    };
    let program = Program {
        program: "solver".into(),
        environment: (0..32)
            .map(|number| (format!("VARIABLE{number}").into(), "v".repeat(54).into()))
            .collect(),
        ..Program::default()
    };
    Orders {
        version: "1".to_owned(),
        host: "node0000".to_owned(),
        size,
        programs: vec![program],
        ranks: ranks.iter().map(|&rank| RankOrder { rank, program: 0, card: card(rank).emit() }).collect(),
        ..Orders::default()
    }
}

/// Where a rank is reached.
fn address(rank: u32) -> String {
    format!("softroce:10.{}.{}.{}:40000/11/57460000", rank >> 16, rank >> 8 & 255, rank & 255)
}

/// mpiexec's side.
struct Head {
    server: Server,
    entrances: Entrances,
    actions: Vec<Action>,
    per_node: u32,
}

impl Head {
    fn hears(&mut self, rank: u32, words: &[u8]) {
        self.server.receive(rank as usize, words, &mut self.actions);
    }

    /// What it sends to agents.
    fn down(&mut self) -> Vec<Down> {
        let (entrances, per_node) = (&mut self.entrances, self.per_node as usize);
        let answer = |action| match action {
            Action::Reply { rank, line } => entrances.answer(rank / per_node, rank, line),
            Action::Started { .. } => None,
            other => panic!("nobody says anything else: {other:?}"),
        };
        self.actions.drain(..).filter_map(answer).collect()
    }
}

/// Nodes at each end of the job of which every word is said and counted; of those between, which differ in the digits of
/// numbers alone, mpiexec hears that they are in the fence.
const COUNTED: u32 = 8;

/// All ranks are started, say where they are reached, and meet in one fence; then the first asks for the last.
/// The first `odd` nodes are of another kind than the rest.
fn start(size: u32, per_node: u32, odd: u32) -> Counts {
    let hosts: Vec<u32> = (0..size).map(|rank| rank / per_node).collect();
    let nodes = Nodes::listed(&hosts);
    // What the first rank of a host says of it.
    let kind = |host: u32| {
        let said =
            NodeKinds::said(if host < odd { "u" } else { "iu" }, &format!("node{host:04}"), host * per_node);
        Command::new("put").with("kvsname", "job-4711").with("key", kinds::KEY).with("value", said)
    };
    let of_host = |host: u32| (host * per_node..size.min((host + 1) * per_node)).collect::<Vec<u32>>();
    let hosts = size.div_ceil(per_node);
    let mut head = Head {
        server: Server::on_nodes("job-4711", &vec![0; size as usize], size, nodes.to_string()),
        entrances: Entrances::new((0..hosts).map(|host| of_host(host).len() as u32)),
        actions: Vec::new(),
        per_node,
    };
    let mut counts = Counts::default();
    let mut counted = 0;
    for host in 0..hosts {
        let ranks = of_host(host);
        if host >= COUNTED && host + COUNTED < hosts {
            head.server.take_puts(kind(host).emit().as_bytes());
            head.entrances.entered(host as usize);
            ranks.iter().for_each(|&rank| head.hears(rank, b"cmd=barrier_in\n"));
            continue;
        }
        counted += 1;
        // The last host's is the longest; a million cards would show nothing more.
        if host + 1 == hosts {
            counts.orders.add(frame(Kind::Start, &orders(&ranks, size, &nodes).emit()));
        }
        // The agent says that it is there, and then the process of each rank.
        counts.up.add(frame(Kind::Ping, &[]));
        let mut gather = Gather::new(ranks.len(), share_of_host(ranks.len(), size as usize));
        for (index, &rank) in ranks.iter().enumerate() {
            counts.up.add(frame(Kind::Started, &rank.to_le_bytes()));
            let begins = Command::new("weft_start").with("pid", 40_000 + index);
            let key = format!("weft-card-{rank}");
            let put =
                Command::new("put").with("kvsname", "job-4711").with("key", key).with("value", address(rank));
            let kind = (index == 0).then(|| kind(host));
            let words = [Some(begins), Some(put), kind, Some(Command::new("barrier_in"))];
            for line in words.into_iter().flatten().map(|command| command.emit()) {
                counts.rank.add(line.len());
                for step in gather.said(index, line.as_bytes()) {
                    match step {
                        Step::Answer(_, line) => counts.rank.add(line.len()),
                        Step::Entered(puts) => {
                            counts.up.add(frame(Kind::Entered, &puts));
                            head.server.take_puts(&puts);
                            head.entrances.entered(host as usize);
                            ranks.iter().for_each(|&rank| head.hears(rank, b"cmd=barrier_in\n"));
                        }
                        Step::Said(index, bytes) => {
                            counts.up.add(frame(Kind::Said, &bytes));
                            head.hears(ranks[index], &bytes);
                        }
                        Step::Puts(lines) => counts.up.add(frame(Kind::Puts, &lines)),
                    }
                }
            }
        }
    }
    let usual = Command::new("barrier_out").with("rc", 0).emit();
    let mut ends = Count::default();
    for down in head.down() {
        match down {
            Down::Left(host, line) => {
                counts.down.add(frame(Kind::Left, line.as_bytes()));
                let end = if line.is_empty() { &usual } else { &line };
                assert_eq!(
                    line.contains("kinds="),
                    odd > 0,
                    "what is told where nodes differ, and only there"
                );
                for _ in of_host(host as u32) {
                    ends.add(end.len());
                }
            }
            Down::Line(_, line) => {
                counts.down.add(frame(Kind::Channel, line.as_bytes()));
                ends.add(line.len());
            }
        }
    }
    assert_eq!(ends.0, u64::from(size), "everybody leaves the fence");
    let per_rank = (counts.rank.each(counted * u64::from(per_node)), ends.each(u64::from(size)));
    counts.rank = Count(per_rank.0.0 + per_rank.1.0, per_rank.0.1 + per_rank.1.1);
    (counts.up, counts.down) = (counts.up.each(counted), counts.down.each(u64::from(hosts)));
    // The first contact: the address is asked for, through agent and head; the rest is the fabric's.
    let (lines, frames) = &mut counts.contact;
    let ask = format!("cmd=get kvsname=job-4711 key=weft-card-{}\n", size - 1);
    lines.add(ask.len());
    frames.add(frame(Kind::Said, ask.as_bytes()));
    head.hears(0, ask.as_bytes());
    let answers = head.down();
    let [Down::Line(0, answer)] = &answers[..] else { panic!("{answers:?}") };
    assert!(answer.contains(&format!("value={}", address(size - 1))), "{answer}");
    frames.add(frame(Kind::Channel, answer.as_bytes()));
    lines.add(answer.len());
    counts
}

#[test]
fn the_start_costs_the_same_for_each_rank_and_node_at_any_size() {
    let mut table = String::from(
        "Start of a job on 128 ranks a node: what is said between ranks, agents and mpiexec until all know where all are reached, and for the\n\
         first contact of one rank with another after that. Messages / bytes.\n\n\
         ranks     nodes   order to a node   a rank, lines   a node, frames up   a node, frames down   a contact, lines   frames\n",
    );
    let mut first: Option<[u64; 6]> = None;
    for size in [1_024, 10_240, 102_400, 1_024_000] {
        let counts = start(size, 128, 0);
        let nodes = u64::from(size.div_ceil(128));
        let (lines, frames) = counts.contact;
        let cells = [counts.orders, counts.rank, counts.up, counts.down, lines, frames];
        let text = cells.map(|Count(messages, bytes)| format!("{messages} / {bytes}"));
        let _ = writeln!(
            table,
            "{size:<9} {nodes:<7} {:>15} {:>15} {:>19} {:>21} {:>18} {:>8}",
            text[0], text[1], text[2], text[3], text[4], text[5]
        );
        let messages = cells.map(|Count(messages, _)| messages);
        assert_eq!(messages, *first.get_or_insert(messages), "messages do not grow with the job");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/startup/table.txt");
    if std::env::var_os("WEFT_UPDATE").is_some() {
        std::fs::write(path, &table).expect("written");
    }
    let kept = std::fs::read_to_string(path).expect("startup/table.txt");
    assert!(kept == table, "{kept}\nis not\n{table}\nWEFT_UPDATE=1 writes it anew");
}

/// Where nodes differ the end of the fence says so in the same messages, and in bytes that grow by the digits of a number.
#[test]
fn nodes_that_differ_cost_no_further_message() {
    let bytes: Vec<u64> = [1_024, 10_240, 102_400, 1_024_000]
        .into_iter()
        .map(|size| {
            let (alike, different) = (start(size, 128, 0), start(size, 128, 2));
            assert_eq!(
                [alike.rank.0, alike.up.0, alike.down.0],
                [different.rank.0, different.up.0, different.down.0]
            );
            different.down.1
        })
        .collect();
    assert!(bytes[3] < 128 && bytes[3] - bytes[0] <= 4, "{bytes:?} bytes to a node");
}
