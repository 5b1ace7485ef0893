//! Two processes, two engines, one shared-memory segment: latency and bandwidth without the C layer, beside the bare
//! transport's. For tuning; the figures users care about come from `benches/osu`.
//!
//! `cargo run --profile fast -p weft-engine --example engine_pingpong [largest size in bytes]`

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;
use weft_api::Transport;
use weft_datatype::Scratch;
use weft_engine::{Engine, EngineConfig, Envelope, RequestId, Selector, SendMode, Started, Transports};
use weft_shm::{Config, Shm, Waking};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const BATCHES: usize = 400;

struct Side {
    engine: Engine,
    me: u32,
    buffer: Arc<Scratch>,
}

impl Side {
    fn wait(&mut self, request: RequestId) {
        while !self.engine.is_complete(request) {
            self.engine.progress();
        }
        let completion = self.engine.take(request);
        assert_eq!(completion.error, None);
    }

    fn envelope(&self) -> Envelope {
        let (source, peer) = (Rank(self.me), PeerId(1 - self.me));
        Envelope { peer, context: ContextId::WORLD, source, tag: Tag(1) }
    }

    fn start(&mut self, bytes: usize) -> Started {
        let buffer = self.buffer.send_buf(0, bytes);
        let to = self.envelope();
        self.engine.send(to, SendMode::Standard, buffer).expect("sent")
    }

    fn send(&mut self, bytes: usize) {
        if let Started::Pending(request) = self.start(bytes) {
            self.wait(request);
        }
    }

    fn selector(&self) -> Selector {
        let peer = 1 - self.me;
        Selector {
            context: ContextId::WORLD,
            peer: Some(PeerId(peer)),
            source: Some(Rank(peer)),
            tag: Some(Tag(1)),
        }
    }

    /// As the gate's blocking receive: look at the peer's ring first, make all other progress now and then.
    fn recv(&mut self, bytes: usize) {
        let from = self.selector();
        let mut buffer = self.buffer.recv_buf(0, bytes);
        if let Some(completion) = self.engine.spin_recv(from, &mut buffer, 4000) {
            return assert_eq!(completion.error, None);
        }
        let request = self.engine.recv(from, buffer).expect("posted");
        self.wait(request);
    }

    fn post(&mut self, bytes: usize) -> RequestId {
        let from = self.selector();
        let buffer = self.buffer.recv_buf(0, bytes);
        self.engine.recv(from, buffer).expect("posted")
    }
}

/// The 10th percentile, and the median.
fn percentiles(mut samples: Vec<f64>) -> (f64, f64) {
    samples.sort_by(f64::total_cmp);
    (samples[samples.len() / 10], samples[samples.len() / 2])
}

fn latency(side: &mut Side, bytes: usize) -> (f64, f64) {
    let rounds = (40_000 / (bytes / 16 + 100)).clamp(1, 200);
    let batches = if bytes > 1 << 18 { BATCHES / 4 } else { BATCHES };
    let mut samples = Vec::new();
    for _ in 0..batches {
        let start = Instant::now();
        for _ in 0..rounds {
            if side.me == 0 {
                side.send(bytes);
                side.recv(bytes);
            } else {
                side.recv(bytes);
                side.send(bytes);
            }
        }
        samples.push(start.elapsed().as_secs_f64() / rounds as f64 / 2.0 * 1e6);
    }
    percentiles(samples)
}

fn bandwidth(side: &mut Side, bytes: usize) -> f64 {
    // Short batches: a batch that outlasts a time slice of a busy machine measures the machine.
    let window = ((4 << 20) / bytes).clamp(2, 64);
    let mut samples = Vec::new();
    let batches = if bytes > 1 << 16 { 100 } else { 200 };
    for _ in 0..batches {
        let start = Instant::now();
        if side.me == 0 {
            let started: Vec<Started> = (0..window).map(|_| side.start(bytes)).collect();
            for one in started {
                if let Started::Pending(request) = one {
                    side.wait(request);
                }
            }
            side.recv(4);
        } else {
            let posted: Vec<RequestId> = (0..window).map(|_| side.post(bytes)).collect();
            for request in posted {
                side.wait(request);
            }
            side.send(4);
        }
        samples.push(start.elapsed().as_secs_f64());
    }
    (window * bytes) as f64 / percentiles(samples).0 / 1e6
}

fn bare(shm: &mut Shm, me: u32) -> (f64, f64) {
    let peer = PeerId(1 - me);
    shm.connect(peer).expect("connected");
    let header = Header::new(Kind::Eager, ContextId::WORLD, Rank(me), Tag(1));
    let mut samples = Vec::new();
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..200 {
            for half in 0..2 {
                if half == me {
                    while shm.send_inline(peer, header, &[7; 8]).is_err() {}
                } else {
                    while shm.peek(peer).is_none() {}
                    shm.advance(peer);
                }
            }
        }
        samples.push(start.elapsed().as_secs_f64() / 400.0 * 1e6);
    }
    percentiles(samples)
}

fn attach(file: File, me: u32) -> Shm {
    let peers = vec![PeerId(0), PeerId(1)];
    let single_copy = std::env::var_os("WEFT_NO_SINGLE_COPY").is_none();
    Shm::attach(Config { file, local: me, peers, single_copy, waking: Waking::Membarrier }).expect("attached")
}

fn main() {
    let largest: usize = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(1 << 20);
    let inherited = std::env::var("PINGPONG_FILE").ok();
    let me = u32::from(inherited.is_some());
    let mut cpus = nix::sched::CpuSet::new();
    cpus.set(me as usize).expect("a processor number");
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).expect("bound");
    let (file, child) = match inherited {
        Some(path) => (File::options().read(true).write(true).open(path).expect("the segment"), None),
        None => {
            let file = weft_shm::create().expect("a segment");
            let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file));
            let program = std::env::current_exe().expect("this program");
            let child = std::process::Command::new(program)
                .args(std::env::args().skip(1))
                .env("PINGPONG_FILE", path)
                .spawn()
                .expect("a second process");
            (file, Some(child))
        }
    };
    let mut shm = attach(file, me);
    let bare = bare(&mut shm, me);
    let config = EngineConfig::new(PeerId(me), 2);
    let engine = Engine::new(config, Transports::Shm(shm)).expect("an engine");
    let mut side = Side { engine, me, buffer: Scratch::new(largest.max(64)) };
    if me == 0 {
        println!("bare transport, 8 bytes: {:.4} us (median {:.4})", bare.0, bare.1);
        println!("{:>9} {:>10} {:>10} {:>10}", "bytes", "us p10", "us p50", "MB/s");
    }
    let mut bytes = 8;
    while bytes <= largest {
        let (low, median) = latency(&mut side, bytes);
        let rate = bandwidth(&mut side, bytes);
        if me == 0 {
            println!("{bytes:>9} {low:>10.3} {median:>10.3} {rate:>10.0}");
        }
        bytes *= 2;
    }
    if let Some(mut child) = child {
        child.wait().expect("the second process");
    }
}
