//! `weft-info`: what this installation is, what it finds on this machine, and what can be set.
#![forbid(unsafe_code)]

use clap::Parser;
use weft_tools::{explain, params, report, transports};
use weft_types::params::number;

/// Shows the version of Weft, what it finds on this machine and in this environment, and what it decides from it.
///
/// Run it under the same launcher as a program (mpiexec -n 2 weft-info) to see what a rank would see.
#[derive(Parser)]
#[command(name = "weft-info", version)]
struct Arguments {
    /// List every parameter: environment variable, default, form and meaning.
    #[arg(long)]
    params: bool,
    /// Which algorithm a collective takes, with the time of every candidate by the cost model: allreduce, bcast, ...; or
    /// transports: which transport leads to which ranks, and why not the others.
    #[arg(long, value_name = "OPERATION")]
    explain: Option<String>,
    /// With --explain: ranks of the communicator.
    #[arg(long, default_value_t = 2, requires = "explain")]
    ranks: u32,
    /// With --explain: nodes on which they live, in blocks of equal size.
    #[arg(long, default_value_t = 1, requires = "explain")]
    nodes: u32,
    /// With --explain: bytes of the message, the vector or one rank's block; K, M and G are understood.
    #[arg(long, default_value = "8", requires = "explain", value_parser = bytes)]
    bytes: u64,
    /// With --explain: cores of a node; those of this machine if not given.
    #[arg(long, requires = "explain")]
    cores: Option<u32>,
    /// With --explain: also run each algorithm message by message against the model.
    #[arg(long, requires = "explain")]
    simulate: bool,
}

fn bytes(text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| "not a whole number, with K, M or G behind it or without".to_owned())
}

fn main() {
    let arguments = Arguments::parse();
    let variable = |name: &str| std::env::var(name).ok();
    if arguments.explain.as_deref() == Some("transports") {
        match transports::text(variable) {
            Ok(text) => print!("{text}"),
            Err(why) => {
                eprintln!("weft-info: {why}");
                std::process::exit(2);
            }
        }
        return;
    }
    if let Some(operation) = arguments.explain {
        let here = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let Arguments { ranks, nodes, bytes, simulate, .. } = arguments;
        let cores = arguments.cores.unwrap_or_else(here);
        let question = explain::Question { operation, ranks, nodes, bytes, cores, simulate };
        match explain::text(&question) {
            Ok(text) => print!("{text}"),
            Err(why) => {
                eprintln!("weft-info: {why}");
                std::process::exit(2);
            }
        }
    } else if arguments.params {
        print!("{}", params::text(variable));
    } else {
        print!("{}", report::text(variable));
    }
}
