//! What watching costs on this machine: an unmap of watched and of other memory, by turns, and a lookup. Medians, in microseconds.
//! `cargo run --release -p weft-mappings --example costs`.
#![forbid(unsafe_code)]

use memmap2::MmapMut;
use std::hint::black_box;
use std::time::Instant;

const TURNS: usize = 2000;
const PAGES: usize = 16;
/// Lookups in a row: one alone is too short for the clock.
const LOOKUPS: u32 = 100;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Microseconds that this takes.
fn timed(what: impl FnOnce()) -> f64 {
    let start = Instant::now();
    what();
    start.elapsed().as_secs_f64() * 1e6
}

/// Memory with its pages there.
fn map() -> MmapMut {
    let mut pages = MmapMut::map_anon(PAGES * 4096).expect("memory");
    pages.fill(1);
    pages
}

fn main() {
    let watch = match weft_mappings::watch() {
        Ok(watch) => watch,
        Err(why) => return println!("nothing is watched here: {why}"),
    };
    let (mut watched, mut other) = (Vec::new(), Vec::new());
    let (mut lookups, mut shortest) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let pages = map();
        let spot = watch.begin(pages.as_ptr() as u64, pages.len() as u64).expect("private memory");
        let looks = timed(|| (0..LOOKUPS).for_each(|_| assert!(watch.is_good(spot))));
        lookups.push(looks / f64::from(LOOKUPS));
        let calls = timed(|| {
            (0..LOOKUPS).for_each(|_| {
                black_box(nix::unistd::getppid());
            });
        });
        shortest.push(calls / f64::from(LOOKUPS));
        watched.push(timed(|| drop(pages)));
        watch.end(spot);
        let pages = map();
        other.push(timed(|| drop(pages)));
    }
    println!("unmap of {PAGES} pages: {:.1} us watched, {:.1} us not", median(watched), median(other));
    println!("lookup: {:.2} us; the shortest system call: {:.2} us", median(lookups), median(shortest));
}
