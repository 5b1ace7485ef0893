//! What each host's agent is told to start.

use std::io;

use weft_boot::card::Card;

use super::dealing;
use super::frames::{Orders, Program, RankOrder};
use crate::options::{Section, Settings};
use crate::{placing, plan};

/// Variables that describe the host or the login where mpiexec runs, and would be wrong elsewhere.
const OF_THE_HOST: [&str; 8] =
    ["HOSTNAME", "HOST", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "_"];

/// What each host's agent has to do.
pub(super) fn orders(
    sections: &[Section],
    settings: &Settings,
    names: &[String],
    host_of: &[usize],
    slots: u32,
    job_id: &str,
) -> io::Result<Vec<Orders>> {
    let current = std::env::current_dir()?;
    let size = host_of.len() as u32;
    let mut inherited = plan::inherited_environment(settings.bare_environment);
    inherited.retain(|name, _| !OF_THE_HOST.iter().any(|of_the_host| name == of_the_host));
    let programs: Vec<Program> = sections
        .iter()
        .map(|section| {
            let environment = plan::section_environment(&inherited, settings, section);
            let wdir = section.wdir.as_ref().map_or_else(|| current.clone(), |wdir| current.join(wdir));
            Program {
                program: section.program.clone(),
                arguments: section.arguments.clone(),
                current: current.clone().into(),
                wdir: wdir.into(),
                asked_for_wdir: section.wdir.is_some(),
                path: section.path.clone(),
                threads: placing::number(section),
                environment: environment.into_iter().collect(),
            }
        })
        .collect();
    let psets = plan::process_sets(sections);
    let mut orders: Vec<Orders> = names
        .iter()
        .map(|name| Orders {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: name.clone(),
            placing: [
                settings.bind_to.map_or_else(String::new, |word| format!("{word:?}").to_ascii_lowercase()),
                settings.map_by.map_or_else(String::new, |word| format!("{word:?}").to_ascii_lowercase()),
            ],
            report_bindings: settings.report_bindings,
            size,
            programs: programs.clone(),
            ranks: Vec::new(),
        })
        .collect();
    let local_ranks = |host: usize| (0..size).filter(|&rank| host_of[rank as usize] == host).collect();
    let nodes = dealing::nodes(host_of);
    let locals: Vec<Vec<u32>> = (0..names.len()).map(local_ranks).collect();
    let mut rank = 0;
    for (number, section) in (0..).zip(sections) {
        for _ in 0..section.count {
            let host = host_of[rank as usize];
            let card = Card {
                rank,
                size,
                job_id: job_id.to_owned(),
                appnum: number as i32,
                universe_size: Some(settings.universe_size.unwrap_or(slots.max(size)) as i32),
                nodes: nodes.clone(),
                local_ranks: locals[host].clone(),
                cores: 1,
                command: plan::command_words(section),
                maxprocs: section.asked.maxprocs,
                wdir: section.wdir.as_ref().map(|wdir| wdir.display().to_string()),
                initial_errhandler: section.asked.initial_errhandler.clone(),
                memory_alloc_kinds: section.asked.memory_alloc_kinds.clone(),
                asked: plan::asked_words(section),
                psets: psets.clone(),
                ..Card::default()
            };
            orders[host].ranks.push(RankOrder { rank, program: number, card: card.emit() });
            rank += 1;
        }
    }
    Ok(orders)
}
