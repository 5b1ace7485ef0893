//! How much traffic between nodes reordering saves: prints the table, or writes it and its picture to a folder.
#![allow(missing_docs, reason = "a program")]

mod plot;
mod table;

fn main() -> std::io::Result<()> {
    let rows = table::rows();
    let text = table::text(&rows);
    match std::env::args().nth(1) {
        None => print!("{text}"),
        Some(folder) => {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(format!("{folder}/table.txt"), text)?;
            std::fs::write(format!("{folder}/plot.svg"), plot::svg(&rows, &table::RANKS))?;
        }
    }
    Ok(())
}
