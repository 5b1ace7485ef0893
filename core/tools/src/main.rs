//! `weft-info`: what this installation is, what it finds on this machine, and what can be set.
#![forbid(unsafe_code)]

use clap::Parser;
use weft_tools::{params, report};

/// Shows the version of Weft, what it finds on this machine and in this environment, and what it decides from it.
///
/// Run it under the same launcher as a program (mpiexec -n 2 weft-info) to see what a rank would see.
#[derive(Parser)]
#[command(name = "weft-info", version)]
struct Arguments {
    /// List every parameter: environment variable, default, form and meaning.
    #[arg(long)]
    params: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let variable = |name: &str| std::env::var(name).ok();
    if arguments.params {
        print!("{}", params::text(variable));
    } else {
        print!("{}", report::text(variable));
    }
}
