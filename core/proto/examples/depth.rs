//! What matching costs at depth: nanoseconds for one insertion and one match, newest first (the worst order), with the
//! queue held at a depth. `cargo run --profile fast -p weft-proto --example depth`

use std::time::Instant;
use weft_proto::{Key, Pattern, Posted, Unexpected};
use weft_types::{ContextId, Rank, Tag};

fn key(tag: u32) -> Key {
    Key::new(ContextId(4), Rank(tag % 7), Tag(tag as i32))
}

fn main() {
    const ROUNDS: u32 = 200_000;
    println!("{:>8} {:>12} {:>12} {:>16}", "depth", "posted", "unexpected", "unexpected, any");
    for depth in [0_u32, 1, 8, 100, 1000, 10_000, 100_000] {
        let mut posted = Posted::default();
        let mut unexpected = Unexpected::default();
        for tag in 0..depth {
            posted.post(Pattern::exactly(key(tag)), tag);
            unexpected.insert(key(tag), tag);
        }
        let newest = key(depth + 5);
        let any = Pattern::new(ContextId(4), None, Some(newest.tag()));
        let mut nanoseconds = [0.0; 3];
        for (which, figure) in nanoseconds.iter_mut().enumerate() {
            let start = Instant::now();
            for round in 0..ROUNDS {
                let found = match which {
                    0 => {
                        posted.post(Pattern::exactly(newest), round);
                        posted.take(newest)
                    }
                    _ => {
                        unexpected.insert(newest, round);
                        let pattern = if which == 1 { Pattern::exactly(newest) } else { any };
                        unexpected.find(pattern).map(|(entry, _)| unexpected.remove(entry))
                    }
                };
                assert_eq!(found, Some(round));
            }
            *figure = start.elapsed().as_secs_f64() / f64::from(ROUNDS) * 1e9;
        }
        println!("{depth:>8} {:>12.1} {:>12.1} {:>16.1}", nanoseconds[0], nanoseconds[1], nanoseconds[2]);
    }
}
