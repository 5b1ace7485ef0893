//! The table of collectives at scale (`core/coll/scale/table.txt`) as a picture.

use crate::plot::{self, Chart, Curve};

/// The simulated time of every operation and length against the ranks, as SVG. Rows that cannot be read are left out. Marked are
/// those of which a run of another algorithm took less by more than a twentieth.
///
/// # Panics
/// When the table has no rows.
pub fn picture(table: &str) -> String {
    let mut curves: Vec<Curve> = Vec::new();
    for row in table.lines().skip(1) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok());
        let (Some(ranks), Some(operation), Some(bytes)) = (number(0), words.get(2), number(3)) else {
            continue;
        };
        let (Some(run), Some(ratio)) = (number(6), number(10)) else { continue };
        let name = match bytes {
            0.0 => (*operation).to_owned(),
            _ => format!("{operation} {}", plot::bytes_text(bytes)),
        };
        let known = curves.iter().position(|curve| curve.name == name);
        let curve = known.unwrap_or_else(|| {
            curves.push(Curve { name, points: Vec::new() });
            curves.len() - 1
        });
        curves[curve].points.push((ranks, run, ratio > 1.05));
    }
    // What is known at one size only is no curve.
    curves.retain(|curve| curve.points.len() > 1);
    plot::svg(&Chart {
        title: "Chosen algorithms in the model, run message by message".into(),
        x_label: "ranks (on 128 nodes up to 8192, 64 a node at 100,032, 128 a node at 1,000,064)".into(),
        y_label: "microseconds".into(),
        mark_label: "another is faster by > 5 %".into(),
        x_base: 10.0,
        x_text: |ranks| format!("{ranks:.0}"),
        curves,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_that_of_the_table() {
        let place = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../coll/scale");
        let table = std::fs::read_to_string(place.join("table.txt")).expect("the table");
        let kept = std::fs::read_to_string(place.join("table.svg")).expect("the picture");
        let fresh = picture(&table);
        assert!(fresh.contains(">allreduce 8<") && fresh.contains(">1000000<"));
        assert!(
            kept == fresh,
            "core/coll/scale/table.svg is stale: cargo run -p weft-tools --example scale_plot"
        );
    }
}
