//! Private memory by number of processes: nothing for those never talked to, little for the others. What the library takes is told,
//! too. The crate's readme says the figures.

#[path = "../../softroce/tests/common/counted.rs"]
mod counted;
mod world;

use counted::live;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_api::Transport;
use weft_ofi::select::Wanted;
use weft_ofi::{Ofi, OfiCard, OfiDirectory};
use weft_types::{ContextId, PeerId, Rank, Result, Tag};
use weft_wire::{Header, Kind};
use world::{all, open, wanted};

const PROVIDER: &str = "tcp;ofi_rxm";

/// Finds everybody at another port of one host, and counts how often it is asked.
#[derive(Debug)]
struct Everybody {
    like: OfiCard,
    asked: Arc<AtomicUsize>,
}

impl OfiDirectory for Everybody {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut card = self.like.clone();
        // The port, in the network's order.
        card.address[2..4].copy_from_slice(&(20_000 + peer.0 as u16).to_be_bytes());
        Ok(card)
    }
}

/// Bytes that the process has taken by `malloc` and not given back: ours and the library's.
fn taken() -> usize {
    // SAFETY: a query without pointers.
    let all = unsafe { libc::mallinfo2() };
    all.uordblks + all.hblkhd
}

fn readme_says(said: &str) {
    println!("{said}");
    assert!(include_str!("../README.md").contains(said), "the readme should say: {said}");
}

/// What an end takes here in a job of so many processes.
fn in_a_job_of(processes: u32, wanted: &Wanted) -> usize {
    let before = live();
    let end = open(0, &Wanted { processes: Some(processes), ..wanted.clone() }, &world::Cards::default());
    let own = live() - before;
    drop(end);
    own
}

#[test]
fn the_silent_cost_nothing_and_others_little() {
    let Some(wanted) = wanted(PROVIDER) else { return };
    // The first end of a process makes what all of its ends share.
    in_a_job_of(8, &wanted);
    assert_eq!(in_a_job_of(8, &wanted), in_a_job_of(1 << 20, &wanted), "whatever the size of the job");
    let like = open(0, &wanted, &world::Cards::default()).card().clone();
    let asked = Arc::new(AtomicUsize::new(0));
    let directory = Everybody { like, asked: Arc::clone(&asked) };
    let mut ofi = Ofi::open(PeerId(0), &wanted, Box::new(directory)).expect("an endpoint");
    let before = live();
    for round in 0..1_000 {
        ofi.progress();
        let silent = PeerId(1 + round);
        assert!(!ofi.is_gone(silent) && ofi.peek(silent).is_none() && ofi.has_left());
        assert!(ofi.ready().is_none() && ofi.route(silent) == u32::MAX);
        ofi.capabilities(silent);
    }
    assert_eq!(live(), before, "processes that nobody talked to");
    assert_eq!(
        asked.load(Ordering::Relaxed),
        0,
        "without their cards nothing can be in the library's table of addresses"
    );

    // Receives are posted for each peer up to a bound. Beyond it each costs what is private to it.
    const PEERS: usize = 1 << 10;
    let connect = |ofi: &mut Ofi, peers: std::ops::Range<usize>| {
        let before = (live(), taken());
        peers.for_each(|peer| ofi.connect(PeerId(peer as u32)).expect("connected"));
        (live() - before.0, taken().wrapping_sub(before.1))
    };
    let (first, _) = connect(&mut ofi, 1..PEERS + 1);
    let (next, all_next) = connect(&mut ofi, PEERS + 1..2 * PEERS + 1);
    assert_eq!(asked.load(Ordering::Relaxed), 2 * PEERS);
    readme_says(&format!("a connected one {} bytes here", next / PEERS));
    println!(
        "the first {PEERS} with receives posted for them: {} bytes each; libfabric's for each of the next, by the way: {}",
        first / PEERS,
        all_next.saturating_sub(next) / PEERS
    );
}

/// Prints what it costs to have exchanged messages: the library makes a connection then.
#[test]
fn what_a_connection_takes_is_told_and_bounded() {
    [PROVIDER, "net", "tcp"].into_iter().for_each(a_connection_takes);
}

fn a_connection_takes(provider: &str) {
    const PEERS: usize = 24;
    let Some(wanted) = wanted(provider) else { return };
    let (mut ends, _cards) = all(PEERS + 1, &wanted);
    let (first, others) = ends.split_first_mut().expect("ends");
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
    // Receives are posted, and tables have room, for all.
    (1..=PEERS).for_each(|peer| first.connect(PeerId(peer as u32)).expect("connected"));
    let (mut own, mut library) = (0_usize, 0_usize);
    let mut counted = |at: usize, work: &mut dyn FnMut()| {
        let before = (live(), taken());
        work();
        // The first exchange may make slots that are shared by all.
        if at == 0 {
            return;
        }
        let ours = live().wrapping_sub(before.0);
        own = own.wrapping_add(ours);
        library = library.wrapping_add(taken().wrapping_sub(before.1)).wrapping_sub(ours);
    };
    for (at, other) in others.iter_mut().enumerate() {
        let peer = PeerId(at as u32 + 1);
        other.connect(PeerId(0)).expect("connected");
        let (mut sent, mut answered, mut heard) = (false, false, false);
        while !heard {
            counted(at, &mut || {
                sent = sent || first.send_inline(peer, header, b"question").is_ok();
                first.push_out();
                first.progress();
                heard = first.peek(peer).is_some();
            });
            other.progress();
            if other.peek(PeerId(0)).is_some() && !answered {
                answered = other.send_inline(PeerId(0), header, b"answer").is_ok();
                other.push_out();
            }
        }
        counted(at, &mut || {
            first.advance(peer);
            first.progress();
        });
    }
    let (own, library) = (own / (PEERS - 1), library / (PEERS - 1));
    println!(
        "{provider}, an exchange of messages: {own} bytes here and about {library} of libfabric for each further one"
    );
    assert!(own <= 512, "{own} bytes of ours for a peer that has answered");
}
