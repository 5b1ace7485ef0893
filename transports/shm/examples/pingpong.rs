//! Two pinned processes exchange packets over the shared-memory transport; prints latency and bandwidth.
//!
//! `cargo run --profile fast -p weft-shm --example shm-pingpong [-- FRAGMENT_BYTES]`
//!
//! Every figure is the 10th percentile of many short batches; beside the rows stands a bare cache-line ping-pong
//! between the same two cores, made of one store and one polled load each way. With `FENCE` in the environment senders fence
//! instead of sleepers issuing membarriers.

use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_api::{Bell, Refused, Transport};
use weft_shm::{Config, Shm, Waking};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const BATCHES: usize = 300;
const LATENCIES: [usize; 8] = [0, 8, 40, 64, 256, 1024, 4096, 8192];
const LARGE: [usize; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const STREAMS: [usize; 7] = [8, 64, 1024, 8192, 64 << 10, 256 << 10, 1 << 20];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let waking = if std::env::var_os("FENCE").is_some() { Waking::Fence } else { Waking::Membarrier };
    if let [_, role, node, bare, fragment] = &arguments[..]
        && role == "second"
    {
        die_with_parent();
        let [node, bare] = [node, bare].map(|fd| {
            // SAFETY: the first process left these descriptors open for us and nobody else here uses them.
            unsafe { std::fs::File::from_raw_fd(fd.parse().expect("a descriptor")) }
        });
        return run(1, node, &bare, fragment.parse().expect("bytes"), waking);
    }
    let fragment = arguments.get(1).map_or("32768", String::as_str);
    let node = weft_shm::create().expect("a memory file");
    let bare = weft_shm::create().expect("a memory file");
    bare.set_len(4096).expect("a page");
    let second = Command::new(std::env::current_exe().expect("our own path"))
        .args(["second", &node.as_raw_fd().to_string(), &bare.as_raw_fd().to_string(), fragment])
        .spawn();
    run(0, node, &bare, fragment.parse().expect("bytes"), waking);
    second.expect("a second process").wait().expect("an end");
}

fn pin(core: usize) {
    // SAFETY: a plain set of bits, initialised by zeroes, that outlives the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Ends this process when the one that started it ends.
fn die_with_parent() {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

fn run(me: u32, node: std::fs::File, bare: &std::fs::File, fragment: usize, waking: Waking) {
    pin(me as usize);
    let peers = vec![PeerId(0), PeerId(1)];
    let start = Instant::now();
    let shm =
        Shm::attach(Config { file: node, local: me, peers, single_copy: true, waking }).expect("attached");
    report(me, "attach", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let mut end = End { shm, peer: PeerId(1 - me), fragment };
    end.shm.connect(end.peer).expect("connected");
    end.send(&[0; 8]);
    report(me, "first message", start.elapsed().as_secs_f64());
    end.receive(&mut [0; 8]);
    let words = bare_words(bare);
    let mut count = 0;
    for size in LATENCIES.into_iter().chain(LARGE) {
        let mut row = Row::new(me, format!("latency {size}"), words, &mut count);
        row.time(end.latency(me, size), 0);
    }
    for size in STREAMS {
        let mut row = Row::new(me, format!("stream {size}"), words, &mut count);
        row.time(end.stream(me, size), size);
    }
    for size in [64 << 10, 1 << 20] {
        let mut row = Row::new(me, format!("single copy {size}"), words, &mut count);
        row.time(end.read_remote(me, size), size);
    }
    report(me, "asleep, own cores", end.asleep(me));
    pin(0);
    report(me, "asleep, one core", end.asleep(me));
}

/// Prints a row without lines to compare with.
fn report(me: u32, name: &str, seconds: f64) {
    if me == 0 {
        println!("{name:<22} {:10.3} us", seconds * 1e6);
    }
}

/// One line of the table, with the bare cache line's way measured before and after.
struct Row<'a> {
    me: u32,
    name: String,
    words: &'a [AtomicU32],
    count: &'a mut u32,
    before: f64,
}

impl<'a> Row<'a> {
    fn new(me: u32, name: String, words: &'a [AtomicU32], count: &'a mut u32) -> Row<'a> {
        let before = bare_line(me, words, count);
        Row { me, name, words, count, before }
    }

    fn time(&mut self, seconds: f64, bytes: usize) {
        let after = bare_line(self.me, self.words, self.count);
        if self.me != 0 {
            return;
        }
        let rate =
            if bytes == 0 { String::new() } else { format!("{:9.2} GB/s", bytes as f64 / seconds / 1e9) };
        println!(
            "{:<22} {:10.3} us  {:8.2} lines of {:.3}..{:.3} us {rate}",
            self.name,
            seconds * 1e6,
            seconds / ((self.before + after) / 2.0),
            self.before * 1e6,
            after * 1e6,
        );
    }
}

fn percentile(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

fn bare_words(file: &std::fs::File) -> &'static [AtomicU32] {
    // SAFETY: a fresh mapping of the file's only page, kept for the life of the process.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        std::slice::from_raw_parts(page.cast::<AtomicU32>(), 1024)
    }
}

/// Seconds that a cache line takes one way.
fn bare_line(me: u32, words: &[AtomicU32], count: &mut u32) -> f64 {
    let (mine, theirs) = (&words[me as usize * 256], &words[(1 - me as usize) * 256]);
    let mut times = Vec::new();
    for _ in 0..BATCHES / 3 {
        let start = Instant::now();
        for _ in 0..200 {
            *count += 1;
            if me == 0 {
                mine.store(*count, Ordering::Release);
            }
            while theirs.load(Ordering::Acquire) != *count {
                std::hint::spin_loop();
            }
            if me == 1 {
                mine.store(*count, Ordering::Release);
            }
        }
        times.push(start.elapsed().as_secs_f64() / 400.0);
    }
    percentile(times)
}

struct End {
    shm: Shm,
    peer: PeerId,
    fragment: usize,
}

impl End {
    fn header() -> Header {
        Header::new(Kind::Eager, ContextId::WORLD, Rank(0), Tag(0))
    }

    fn packet(&mut self, data: &[u8]) {
        loop {
            let sent = if data.len() <= 104 {
                self.shm.send_inline(self.peer, Self::header(), data)
            } else {
                self.shm.send_copy(self.peer, Self::header(), data.len(), |to| to.copy_from_slice(data))
            };
            match sent {
                Ok(()) => return,
                Err(Refused::Full) => std::hint::spin_loop(),
                Err(Refused::Dead) => panic!("the peer is gone"),
            }
        }
    }

    fn send(&mut self, data: &[u8]) {
        if data.is_empty() {
            return self.packet(data);
        }
        for piece in data.chunks(self.fragment) {
            self.packet(piece);
        }
    }

    fn receive(&mut self, into: &mut [u8]) {
        let mut done = 0;
        loop {
            let peer = loop {
                match self.shm.ready() {
                    Some(peer) => break peer,
                    None => std::hint::spin_loop(),
                }
            };
            let (_, payload) = self.shm.peek(peer).expect("a packet");
            into[done..done + payload.len()].copy_from_slice(payload);
            done += payload.len();
            self.shm.advance(peer);
            if done >= into.len() {
                return;
            }
        }
    }

    fn latency(&mut self, me: u32, size: usize) -> f64 {
        let data = vec![1; size];
        let mut into = vec![0; size];
        let rounds = (20_000 / (size / 16 + 100)).max(2);
        let mut times = Vec::new();
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..rounds {
                if me == 0 {
                    self.send(&data);
                    self.receive(&mut into);
                } else {
                    self.receive(&mut into);
                    self.send(&data);
                }
            }
            times.push(start.elapsed().as_secs_f64() / rounds as f64 / 2.0);
        }
        percentile(times)
    }

    /// An 8-byte ping-pong in which everybody sleeps at once.
    fn asleep(&mut self, me: u32) -> f64 {
        let bell = self.shm.bell();
        let receive = |shm: &mut Shm| {
            let peer = loop {
                if let Some(peer) = shm.ready() {
                    break peer;
                }
                bell.arm();
                if let Some(peer) = shm.ready() {
                    bell.disarm();
                    break peer;
                }
                bell.sleep(Duration::from_secs(1));
            };
            shm.advance(peer);
        };
        let mut times = Vec::new();
        for _ in 0..BATCHES / 3 {
            let start = Instant::now();
            for _ in 0..20 {
                if me == 0 {
                    self.packet(&[0; 8]);
                    receive(&mut self.shm);
                } else {
                    receive(&mut self.shm);
                    self.packet(&[0; 8]);
                }
            }
            times.push(start.elapsed().as_secs_f64() / 40.0);
        }
        percentile(times)
    }

    fn stream(&mut self, me: u32, size: usize) -> f64 {
        let data = vec![1; size];
        let mut into = vec![0; size];
        let window = (4 << 20) / size.max(1 << 16);
        let mut times = Vec::new();
        for _ in 0..BATCHES / 3 {
            let start = Instant::now();
            for _ in 0..window {
                if me == 0 {
                    self.send(&data);
                } else {
                    self.receive(&mut into);
                }
            }
            if me == 0 {
                self.receive(&mut [0; 4]);
            } else {
                self.send(&[0; 4]);
            }
            times.push(start.elapsed().as_secs_f64() / window as f64);
        }
        percentile(times)
    }

    /// The second process reads from the first one's memory.
    fn read_remote(&mut self, me: u32, size: usize) -> f64 {
        let data = vec![1_u8; size];
        let mut into = vec![0; size];
        let mut times = Vec::new();
        for _ in 0..BATCHES / 3 {
            let start = Instant::now();
            if me == 0 {
                self.send(&(data.as_ptr() as u64).to_ne_bytes());
                self.receive(&mut [0; 4]);
            } else {
                let mut address = [0; 8];
                self.receive(&mut address);
                self.shm.read_remote(self.peer, u64::from_ne_bytes(address), &mut into).expect("readable");
                assert!(into[0] == 1 && into[size - 1] == 1);
                self.send(&[0; 4]);
            }
            times.push(start.elapsed().as_secs_f64());
        }
        percentile(times)
    }
}
