//! The table of traffic between nodes is the one kept, so that a worse mapping is a difference in review.
#![allow(missing_docs, reason = "a test")]

#[path = "../examples/reordering/table.rs"]
mod table;

#[test]
fn the_kept_table_is_what_mapping_gives() {
    let rows = table::rows();
    for row in &rows {
        assert!(row.after <= row.before, "{} {} x {}", row.stencil.name(), row.nodes, row.ranks);
    }
    let kept = include_str!("../reordering/table.txt");
    assert!(
        table::text(&rows) == kept,
        "the mapping changed: if for the better, keep the new table with the command in its head\n{}",
        table::text(&rows)
    );
}
