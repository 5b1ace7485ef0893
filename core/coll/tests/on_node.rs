//! Which way a collective goes inside a node, by members, cores and bytes. The table is kept in `scale/on_node.txt`: a change of a formula or of a
//! restriction is a difference there. `WEFT_UPDATE=1` writes it anew.

mod cells;

use cells::{block_bytes, in_two_phases, shapes};
use std::fmt::Write as _;
use std::path::PathBuf;
use weft_coll::Group;
use weft_coll::rounds::{Cores, Room, Script, all_ways, is_contested, is_sooner_by_messages};

const NAMES: [&str; 9] = [
    "barrier",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
    "reduce_scatter",
];

/// What members have to write to in rings of the usual size: `cores`: that many, which they share evenly; 0: each has one of its own.
fn room(members: u32, cores: u32, bound: bool) -> Room {
    const SLOT: usize = 256 << 10;
    if members == 2 || cores == 0 {
        return Room { in_two_phases: in_two_phases(SLOT, members as usize), ..Room::alike(SLOT, cores > 0) };
    }
    let seats: Vec<u32> = (0..members).map(|member| 1 + member * cores / members).collect();
    let known = if bound { Cores::of(&seats) } else { Cores::default() };
    Room {
        in_two_phases: in_two_phases(SLOT, members as usize),
        block: block_bytes(SLOT, members as usize),
        block_of_cores: if bound { block_bytes(SLOT, cores as usize) } else { 0 },
        near: SLOT,
        cores: known,
        ..Room::alike(SLOT, true)
    }
}

/// The way of a call.
fn way(shape: usize, members: u32, bytes: u64, room: Room) -> String {
    let shape = shapes(0)[shape];
    let script = Script::new(shape, Group { rank: 0, size: members }, bytes, 8, false, room);
    let entry = all_ways().iter().find(|entry| entry.way == script.way());
    let mut name = entry.expect("every way has an entry").name.to_owned();
    if is_sooner_by_messages(shape, members, bytes) {
        name = "messages".to_owned();
    }
    if is_contested(shape, members, bytes, false, room.crowded) {
        name += "|reading";
    }
    name
}

fn table() -> String {
    let mut text =
        String::from("# operation, members on cores: the way and the bytes from which it is taken\n");
    for (shape, name) in NAMES.iter().enumerate() {
        for (members, cores, bound) in [
            (2, 0, false),
            (2, 1, false),
            (3, 0, false),
            (4, 0, false),
            (8, 0, false),
            (3, 2, false),
            (4, 2, false),
            (4, 2, true),
            (8, 2, false),
            (8, 2, true),
            (9, 3, true),
            (8, 4, true),
            (12, 4, true),
            (16, 4, true),
        ] {
            let room = room(members, cores, bound);
            let on = match (cores, bound) {
                (0, _) => "cores of their own".to_owned(),
                (_, false) => "fewer cores".to_owned(),
                (_, true) => format!("{cores} cores, bound"),
            };
            write!(text, "{name:<15} {members:>2} on {on:<19}").expect("a string");
            let mut last = String::new();
            let lengths = (0..=256).map(|step| step * 512).chain((129..=4096).map(|step| step << 10));
            for bytes in lengths.chain((5..=64).map(|step| step << 20)) {
                let way = way(shape, members, bytes, room);
                if way != last {
                    write!(text, " {way} {bytes};").expect("a string");
                    last = way;
                }
                if shape == 0 {
                    break;
                }
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn the_ways_of_the_table_are_taken() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scale/on_node.txt");
    let now = table();
    if std::env::var("WEFT_UPDATE").is_ok_and(|how| how == "1" || how == "small") {
        std::fs::write(&path, &now).expect("the folder is there");
    }
    let kept = std::fs::read_to_string(&path).expect("kept in git");
    for (kept, now) in kept.lines().zip(now.lines()) {
        assert_eq!(kept, now, "WEFT_UPDATE=1 writes {} anew", path.display());
    }
    assert_eq!(kept.lines().count(), now.lines().count());
}
