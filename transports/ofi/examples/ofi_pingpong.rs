//! Two processes send each other packets over libfabric: half a round trip by size, and the rate of a stream.
//!
//! `ofi_pingpong [PROVIDER [ADDRESS]]` starts its own second process. Between hosts: `ofi_pingpong PROVIDER ADDRESS server`,
//! whose card (one line) is the input of `ofi_pingpong PROVIDER ADDRESS client`, whose card is the server's input.

use std::io::{BufRead, Write, stdin, stdout};
use std::process::{Command, Stdio};
use std::time::Instant;
use weft_api::Transport;
use weft_ofi::select::Wanted;
use weft_ofi::{Ofi, OfiCard, OfiDirectory};
use weft_types::{ContextId, PeerId, Rank, Result, Tag};
use weft_wire::{Header, Kind};

/// The only other process.
#[derive(Debug)]
struct Other(OfiCard);

impl OfiDirectory for Other {
    fn find(&mut self, _: PeerId) -> Result<OfiCard> {
        Ok(self.0.clone())
    }
}

/// Filled in when its card is known.
#[derive(Clone, Debug, Default)]
struct Later(std::sync::Arc<std::sync::Mutex<Option<Other>>>);

impl OfiDirectory for Later {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.0.lock().expect("one thread").as_mut().expect("asked after the cards were exchanged").find(peer)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let provider = arguments.next().filter(|name| name != "-");
    let address = arguments.next().filter(|address| address != "-");
    let role = arguments.next();
    let wanted = Wanted {
        between_nodes: false,
        address: address.as_ref().map(|address| address.parse().expect("an IP address")),
        provider: provider.clone(),
        rail: None,
        carrier: None,
        processes: None,
        job: None,
        offload: None,
    };
    match role.as_deref() {
        Some("server") => run(0, &wanted, &mut stdin().lock(), &mut stdout()),
        Some("client") => run(1, &wanted, &mut stdin().lock(), &mut stdout()),
        _ => {
            let this = std::env::current_exe().expect("its own name");
            let mut child = Command::new(this)
                .args([provider.as_deref().unwrap_or("-"), address.as_deref().unwrap_or("-"), "client"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a second process");
            let mut from = std::io::BufReader::new(child.stdout.take().expect("piped"));
            let mut to = child.stdin.take().expect("piped");
            run(0, &wanted, &mut from, &mut to);
            assert!(child.wait().expect("its end").success());
        }
    }
}

fn run(me: u32, wanted: &Wanted, from: &mut dyn BufRead, to: &mut dyn Write) {
    let later = Later::default();
    let mut end = Ofi::open(PeerId(me), wanted, Box::new(later.clone())).expect("an endpoint");
    writeln!(to, "{}", end.card()).expect("the other one reads");
    to.flush().expect("the other one reads");
    let mut line = String::new();
    from.read_line(&mut line).expect("a card");
    *later.0.lock().expect("one thread") = Some(Other(line.trim().parse().expect("a card")));
    let other = PeerId(1 - me);
    end.connect(other).expect("a way");
    if me == 0 {
        eprintln!("{}; {}", end.library(), end.why().lines().next().unwrap_or_default());
    }
    let longest = end.capabilities(other).max_copy;
    for size in [0, 8, 64, 1024, 8192, longest] {
        // Short batches, of which the 10th percentile counts: what the machine does when nobody disturbs it.
        let mut batches = Vec::new();
        for _ in 0..400 {
            let begun = Instant::now();
            for _ in 0..10 {
                ping(&mut end, me, other, size);
            }
            batches.push(begun.elapsed().as_secs_f64() / 20.0);
        }
        batches.sort_by(f64::total_cmp);
        if me == 0 {
            eprintln!("{size:6} bytes: {:8.2} us half a round trip", batches[batches.len() / 10] * 1e6);
        }
    }
    let mut rates = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        for _ in 0..200 {
            if me == 0 {
                send(&mut end, other, longest);
            } else {
                receive(&mut end, other);
            }
        }
        if me == 0 {
            receive(&mut end, other);
        } else {
            send(&mut end, other, 0);
        }
        rates.push(200.0 * longest as f64 / begun.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    if me == 0 {
        eprintln!("stream of {longest} bytes: {:8.1} MB/s", rates[rates.len() * 9 / 10] / 1e6);
    }
    while !end.has_left() {
        end.progress();
    }
    end.rest();
}

fn ping(end: &mut Ofi, me: u32, other: PeerId, size: usize) {
    if me == 0 {
        send(end, other, size);
        receive(end, other);
    } else {
        receive(end, other);
        send(end, other, size);
    }
}

fn send(end: &mut Ofi, other: PeerId, size: usize) {
    let header = Header::new(Kind::Eager, ContextId(0), Rank(0), Tag(0));
    loop {
        let sent = if size <= end.capabilities(other).max_inline {
            end.send_inline(other, header, &[0; 192][..size])
        } else {
            end.send_copy(other, header, size, |place| place.fill(1))
        };
        match sent {
            Ok(()) => return,
            Err(_) => {
                assert!(!end.is_gone(other), "the other process is gone");
                end.progress();
            }
        }
    }
}

fn receive(end: &mut Ofi, other: PeerId) {
    while end.peek(other).is_none() {
        assert!(!end.is_gone(other), "the other process is gone");
        end.progress();
    }
    end.advance(other);
}
