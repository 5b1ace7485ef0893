//! Draws `core/coll/scale/table.txt`: what the chosen algorithms take at 128 ranks to a million, message by message.
//!
//! `cargo run -p weft-tools --example scale_plot` writes `core/coll/scale/table.svg`; a test compares it with the table.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../coll/scale");
    let table = std::fs::read_to_string(place.join("table.txt"))?;
    std::fs::write(place.join("table.svg"), weft_tools::scale::picture(&table))
}
