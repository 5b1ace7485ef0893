//! `weft-info`: what this installation is, what it finds on this machine, and what can be set.
#![forbid(unsafe_code)]

use clap::Parser;
use std::path::{Path, PathBuf};
use weft_tools::tuning::Tuning;
use weft_tools::{explain, measure, params, report, transports};
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
    /// Which algorithm a collective takes, with the time of every candidate by the cost model: allreduce, bcast, ...,
    /// inter_allgather, ... (half of the ranks in each group), neighbor_alltoall, ...; or
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
    /// With --explain of a neighbourhood's collective: processes in each dimension of the grid, as in 4x4x2. All are periodic.
    #[arg(long, requires = "explain", value_delimiter = 'x')]
    dims: Vec<u32>,
    /// With --explain: also run each algorithm message by message against the model.
    #[arg(long, requires = "explain")]
    simulate: bool,
    /// With --explain: write the times of all algorithms against the bytes to this file, as a picture (SVG).
    #[arg(long, requires = "explain", value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Measure the figures from which the cost model computes, and keep them for later starts. Run it on a quiet machine as
    /// mpiexec -n 2 weft-info --measure, with ranks on two hosts for the network, too.
    #[arg(long, conflicts_with = "explain")]
    measure: bool,
    /// With --measure: the file to keep them in, if not the usual one.
    #[arg(long, requires = "measure", value_name = "FILE")]
    output: Option<PathBuf>,
}

fn bytes(text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| "not a whole number, with K, M or G behind it or without".to_owned())
}

/// Ends the program with what is wrong.
fn refuse(why: &str) -> ! {
    eprintln!("weft-info: {why}");
    std::process::exit(2);
}

fn measured(output: Option<&Path>) {
    let outcome = measure::run().unwrap_or_else(|error| refuse(error.text()));
    let Some(measure::Outcome { figures, text, steady }) = outcome else { return };
    let usual = measure::usual_place();
    let Some(place) = output.or(usual.as_deref()) else {
        refuse("neither XDG_CACHE_HOME nor HOME is set; name a file with --output");
    };
    let shown =
        Tuning { figures: figures.clone(), measured: Some("measured now".to_owned()), ..Tuning::default() };
    shown.figures_text(figures.network.is_some()).iter().for_each(|line| println!("{line}"));
    println!("{text}");
    if !steady && output.is_none() {
        refuse("not kept; measure again when the machine is quiet, or name a file with --output");
    }
    match measure::keep(figures, place) {
        Ok(()) => println!("kept in {}", place.display()),
        Err(why) => refuse(&why),
    }
}

fn main() {
    let arguments = Arguments::parse();
    let variable = |name: &str| std::env::var(name).ok();
    if arguments.explain.as_deref() == Some("transports") {
        print!("{}", transports::text(variable).unwrap_or_else(|why| refuse(&why)));
        return;
    }
    if arguments.measure {
        return measured(arguments.output.as_deref());
    }
    if let Some(operation) = arguments.explain {
        let here = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let Arguments { ranks, nodes, bytes, simulate, ref dims, .. } = arguments;
        let dims = dims.clone();
        let cores = arguments.cores.unwrap_or_else(here);
        let question = explain::Question { operation, ranks, nodes, bytes, cores, simulate, dims };
        let tuning = Tuning::find(variable);
        tuning.faults.iter().for_each(|fault| eprintln!("weft-info: {fault}; it is not used"));
        print!("{}", explain::text(&question, &tuning).unwrap_or_else(|why| refuse(&why)));
        if let Some(path) = &arguments.plot {
            let picture = explain::picture(&question, &tuning).unwrap_or_else(|why| refuse(&why));
            if let Err(error) = std::fs::write(path, picture) {
                refuse(&format!("{}: {error}", path.display()));
            }
            println!("the picture is in {}", path.display());
        }
    } else if arguments.params {
        print!("{}", params::text(variable));
    } else {
        print!("{}", report::text(variable));
    }
}
