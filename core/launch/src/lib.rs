//! mpiexec: parse, map, bind, start, forward, stop.
//!
//! The thinking is pure and tested as such: [`command_line`] reads what is asked for, [`pmi_server`] answers ranks, [`judge`]
//! decides when a job has failed and what comes out, [`lines`] puts output together, [`watch`] and [`deadlock`] tell who waits
//! for whom, [`report`] finds the words. The doing is in `run` (one epoll loop, one thread), `hosts` (jobs on several hosts:
//! agents and their head) and `spawn` (the steps between fork and exec, the crate's only unsafe code).
#![deny(unsafe_code)]

use std::ffi::OsString;

pub mod command_line;
mod configfile;
pub mod deadlock;
mod events;
mod help;
pub mod hosts;
mod input;
pub mod judge;
pub mod lines;
mod machine;
pub mod options;
mod output;
mod placing;
mod plan;
pub mod pmi_server;
pub mod report;
mod resolve;
mod run;
mod spawn;
mod values;
pub mod watch;
pub mod ways;
mod words;

use command_line::Request;

/// Exit code for a command line that cannot be understood.
const USAGE: i32 = 2;

/// Does what `words` (without the program's name) ask for. Returns the exit code.
pub fn mpiexec(words: &[OsString]) -> i32 {
    if words.first().is_some_and(|word| word == hosts::AGENT_WORD) {
        return hosts::agent::run();
    }
    let (mut sections, settings) = match command_line::parse(words, &machine::Machine) {
        Ok(Request::Run(sections, settings)) => (sections, settings),
        Ok(Request::Help) => {
            print!("{}", help::TEXT);
            return 0;
        }
        Ok(Request::Version) => {
            println!("mpiexec (Weft) {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        Err(error) => {
            eprintln!("mpiexec: {error}\n         mpiexec --help shows what is possible");
            return USAGE;
        }
    };
    if let Err(error) = placing::settle(&mut sections, &settings) {
        eprintln!("mpiexec: {error}");
        return USAGE;
    }
    if let Some(note) = placing::note(&sections, &settings) {
        eprintln!("mpiexec: {note}");
    }
    let hosts = sections.iter().flat_map(|section| &section.hosts).chain(&settings.hosts);
    if machine::foreign_host(hosts, &machine::host_name()).is_some() {
        return match hosts::head::run(&sections, &settings) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("mpiexec: {error}");
                1
            }
        };
    }
    let plan = match plan::plan(&sections, &settings) {
        Ok(plan) => plan,
        Err(refused) => {
            eprintln!("mpiexec: {}", refused.why);
            return refused.code;
        }
    };
    match run::run(plan, &settings) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mpiexec: {error}");
            1
        }
    }
}
