//! The start of jobs of a thousand to a million ranks, as agents and head exchange it: all of their state machines run here, and every
//! message is counted. `startup/table.txt` keeps the figures; the row of a million is looked at with `WEFT_UPDATE=1` only, which writes
//! the table anew.

use std::fmt::Write;

use weft_boot::card::Card;
use weft_boot::{Nodes, pmi::wire1::Command};
use weft_launch::hosts::frames::{self, Kind};
use weft_launch::hosts::gather::{Gather, Step};
use weft_launch::pmi_server::{Action, Server, share_of_host};

/// What was counted.
#[derive(Default)]
struct Counts {
    /// Lines between a rank and its agent, both ways, and their bytes.
    rank: (u64, u64),
    /// Frames between agents and head, and their bytes: up, down.
    up: (u64, u64),
    down: (u64, u64),
    /// Longest card of a rank (the variable that it gets at its start), in bytes.
    card: usize,
}

fn count(counter: &mut (u64, u64), bytes: usize) {
    *counter = (counter.0 + 1, counter.1 + bytes as u64);
}

fn frame(kind: Kind, content: &[u8]) -> usize {
    let mut bytes = Vec::new();
    frames::emit(kind, 0, content, &mut bytes);
    bytes.len()
}

/// The card of a rank, with what the launcher tells of the job.
fn card(rank: u32, size: u32, per_node: u32, nodes: &Nodes) -> usize {
    let first = rank / per_node * per_node;
    let card = Card {
        rank,
        size,
        job_id: "job-4711".to_owned(),
        nodes: nodes.clone(),
        local_ranks: (first..size.min(first + per_node)).collect(),
        cores: per_node as usize,
        command: vec!["solver".to_owned()],
        ..Card::default()
    };
    card.emit().len()
}

/// All ranks say where they are reached and meet in one fence.
fn start(size: u32, per_node: u32) -> Counts {
    let hosts: Vec<u32> = (0..size).map(|rank| rank / per_node).collect();
    let nodes = Nodes::listed(&hosts);
    let mut server = Server::on_nodes("job-4711", &vec![0; size as usize], size, nodes.to_string());
    let mut counts = Counts::default();
    let (mut actions, mut ends) = (Vec::new(), 0);
    for host in 0..size.div_ceil(per_node) {
        let ranks: Vec<u32> = (host * per_node..size.min((host + 1) * per_node)).collect();
        counts.card = counts.card.max(card(ranks[ranks.len() - 1], size, per_node, &nodes));
        let mut gather = Gather::new(ranks.len(), share_of_host(ranks.len(), size as usize));
        let mut steps = Vec::new();
        for (index, &rank) in ranks.iter().enumerate() {
            let value =
                format!("softroce:10.{}.{}.{}:40000/11/57460000", rank >> 16, rank >> 8 & 255, rank & 255);
            let put = Command::new("put")
                .with("kvsname", "job-4711")
                .with("key", format!("weft-card-{rank}"))
                .with("value", value);
            for line in [put, Command::new("barrier_in")].map(|command| command.emit()) {
                count(&mut counts.rank, line.len());
                steps.extend(gather.said(index, line.as_bytes()));
            }
        }
        for step in steps {
            match step {
                Step::Answer(_, line) => count(&mut counts.rank, line.len()),
                Step::Entered(puts) => {
                    count(&mut counts.up, frame(Kind::Entered, &puts));
                    server.take_puts(&puts);
                    for &rank in &ranks {
                        server.receive(rank as usize, b"cmd=barrier_in\n", &mut actions);
                    }
                }
                Step::Said(_, bytes) => count(&mut counts.up, frame(Kind::Said, &bytes)),
                Step::Puts(lines) => count(&mut counts.up, frame(Kind::Puts, &lines)),
            }
        }
    }
    for action in actions {
        match action {
            Action::Reply { line, .. } if line.starts_with("cmd=barrier_out") => {
                count(&mut counts.rank, line.len());
                ends += 1;
            }
            other => panic!("nobody says anything else: {other:?}"),
        }
    }
    assert_eq!(ends, size, "everybody leaves the fence");
    for _ in 0..size.div_ceil(per_node) {
        count(&mut counts.down, frame(Kind::Left, &[]));
    }
    // What was put is found by whoever asks.
    let mut found = Vec::new();
    let last = format!("cmd=get kvsname=job-4711 key=weft-card-{}\n", size - 1);
    server.receive(0, last.as_bytes(), &mut found);
    assert!(
        matches!(&found[..], [Action::Reply { line, .. }] if line.contains("value=softroce:")),
        "{found:?}"
    );
    counts
}

#[test]
fn the_start_costs_the_same_for_each_rank_and_node_at_any_size() {
    let mut table = String::from(
        "Start of a job on 128 ranks a node: what is said between ranks, agents and mpiexec until all know where all are reached.\n\n\
         ranks     nodes   card bytes   a rank: lines  bytes   a node, up: frames    bytes   down: frames  bytes\n",
    );
    let mut first: Option<(u64, u64)> = None;
    let update = std::env::var_os("WEFT_UPDATE").is_some();
    let sizes = [1_024, 10_240, 102_400, 1_024_000];
    for &size in &sizes[..if update { 4 } else { 3 }] {
        let counts = start(size, 128);
        let nodes = u64::from(size.div_ceil(128));
        let each = |(messages, bytes): (u64, u64), of: u64| (messages.div_ceil(of), bytes.div_ceil(of));
        let (rank, up, down) =
            (each(counts.rank, u64::from(size)), each(counts.up, nodes), each(counts.down, nodes));
        let _ = writeln!(
            table,
            "{size:<9} {nodes:<7} {:<12} {:>14} {:>6} {:>20} {:>8} {:>14} {:>6}",
            counts.card, rank.0, rank.1, up.0, up.1, down.0, down.1
        );
        let flat = *first.get_or_insert((rank.0, up.0));
        assert_eq!((rank.0, up.0), flat, "messages of a rank and of a node do not grow with the job");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/startup/table.txt");
    if update {
        std::fs::write(path, &table).expect("written");
    }
    let kept = std::fs::read_to_string(path).expect("startup/table.txt");
    assert!(kept.starts_with(&table), "{kept}\nis not\n{table}\nWEFT_UPDATE=1 writes it anew");
}
