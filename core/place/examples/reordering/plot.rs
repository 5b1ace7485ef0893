//! The table as a picture: for each stencil and way of dealing, KiB across nodes against nodes, on logarithmic axes.

use std::fmt::Write as _;

use crate::table::{Dealt, NODES, Row, Stencil};

const PANEL: (f64, f64) = (250.0, 190.0);
const GAP: (f64, f64) = (70.0, 60.0);
const COLOURS: [&str; 3] = ["#1b7fa8", "#c2571a", "#4a8f3c"];

/// SVG, with the lines of each number of ranks in a colour of its own: dashed before, solid after.
pub(crate) fn svg(rows: &[Row], ranks: &[u32]) -> String {
    let (width, height) = (3.0 * (PANEL.0 + GAP.0) + 30.0, 2.0 * (PANEL.1 + GAP.1) + 70.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{x}\" y=\"22\" font-size=\"14\">KiB across nodes in one exchange: dashed before, solid after reordering</text>\n",
        x = GAP.0
    );
    for (column, stencil) in Stencil::ALL.into_iter().enumerate() {
        for (line, dealt) in [Dealt::Block, Dealt::Cyclic].into_iter().enumerate() {
            let origin = (GAP.0 + column as f64 * (PANEL.0 + GAP.0), 50.0 + line as f64 * (PANEL.1 + GAP.1));
            let shown: Vec<&Row> =
                rows.iter().filter(|row| row.stencil == stencil && row.dealt == dealt).collect();
            panel(&mut svg, origin, &shown, ranks);
        }
    }
    for (at, (ranks, colour)) in ranks.iter().zip(COLOURS).enumerate() {
        let x = GAP.0 + at as f64 * 130.0;
        let y = height - 12.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{}\" y=\"{}\">{ranks} ranks a node</text>",
            x + 22.0,
            x + 28.0,
            y + 4.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, (left, top): (f64, f64), rows: &[&Row], ranks: &[u32]) {
    let (low, high) = (4.0_f64, 20.0_f64);
    let x = |nodes: u32| left + (f64::from(nodes).log2() - 2.0) / 4.0 * PANEL.0;
    let y = |bytes: u64| {
        top + PANEL.1 - ((bytes as f64 / 1024.0).max(16.0).log2() - low) / (high - low) * PANEL.1
    };
    let title = rows.first().map_or(String::new(), |row| {
        let dealt = if row.dealt == Dealt::Block { "node after node" } else { "one to each node in turn" };
        format!("{}; {dealt}", row.stencil.name())
    });
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\">{title}</text>", top - 6.0);
    for power in (4..=20).step_by(4) {
        let at = y(1024 << power);
        let label =
            if power >= 10 { format!("{} Mi", 1 << (power - 10)) } else { format!("{} Ki", 1 << power) };
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left + PANEL.0,
            left - 6.0,
            at + 4.0
        );
    }
    for nodes in NODES {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{nodes}</text>",
            x(nodes),
            top + PANEL.1 + 15.0
        );
    }
    for (&ranks, colour) in ranks.iter().zip(COLOURS) {
        let line = |value: fn(&Row) -> u64| {
            let points = rows.iter().filter(|row| row.ranks == ranks);
            points
                .map(|row| format!("{:.1},{:.1}", x(row.nodes), y(value(row))))
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (points, dash) in
            [(line(|row| row.before), " stroke-dasharray=\"5 4\""), (line(|row| row.after), "")]
        {
            let _ = writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>"
            );
        }
    }
}
