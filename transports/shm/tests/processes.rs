//! Several real processes on one segment. The other processes are this test binary again, running `helper`.

mod common;

use common::{header, watchdog};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weft_api::{Bell, Refused, Transport};
use weft_shm::{Config, PeerState, Shm, Waking};
use weft_types::{ErrorClass, PeerId};

const A: PeerId = PeerId(0);
const B: PeerId = PeerId(1);
const MESSAGES: u32 = 100_000;
const LONG: Duration = Duration::from_secs(20);

fn attach(file: &File, local: u32, ranks: u32) -> weft_types::Result<Shm> {
    Shm::attach(Config {
        file: file.try_clone().expect("a descriptor"),
        local,
        peers: (0..ranks).map(PeerId).collect(),
        single_copy: true,
        waking: Waking::Membarrier,
    })
}

/// The child, killed and waited for however the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(role: &str, file: &File) -> Process {
    let child = Command::new(std::env::current_exe().expect("our own path"))
        .args(["--exact", "helper", "--nocapture", "--test-threads=1"])
        .env("WEFT_TEST_ROLE", role)
        .env("WEFT_TEST_FD", file.as_raw_fd().to_string())
        .stdout(Stdio::null())
        .spawn();
    Process(child.expect("a second process"))
}

fn wait_for_packet(shm: &mut Shm) -> PeerId {
    let bell = shm.bell();
    loop {
        if let Some(peer) = shm.ready() {
            return peer;
        }
        bell.arm();
        if let Some(peer) = shm.ready() {
            bell.disarm();
            return peer;
        }
        bell.sleep(LONG);
    }
}

/// Receives one packet into a vector.
fn receive(shm: &mut Shm) -> Vec<u8> {
    let peer = wait_for_packet(shm);
    let payload = shm.peek(peer).expect("a packet").1.to_vec();
    shm.advance(peer);
    payload
}

/// Payload of message number `n`: length and content follow from the number.
fn message(n: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(100) { n as usize % 30_000 } else { n as usize % 120 };
    (0..len).map(|i| (i as u32 ^ n) as u8).collect()
}

/// The second process of the other tests. Without a role it has nothing to do.
#[test]
fn helper() {
    let Ok(role) = std::env::var("WEFT_TEST_ROLE") else { return };
    let fd = std::env::var("WEFT_TEST_FD").expect("a descriptor").parse().expect("a number");
    // SAFETY: the parent left this descriptor open for us; nobody else in this process uses it.
    let file = unsafe { File::from_raw_fd(fd) };
    let dog = watchdog(Duration::from_secs(60));
    if role == "fill a small file system" {
        fill_a_small_file_system();
        return dog.done();
    }
    let mut shm = attach(&file, 1, 2).expect("attached");
    shm.connect(A).expect("connected");
    match &*role {
        "exchange" => exchange(&mut shm, A),
        "be read" => {
            let secret: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7) as u8).collect();
            shm.send_inline(A, header(0), &(secret.as_ptr() as u64).to_ne_bytes()).expect("room");
            receive(&mut shm);
        }
        "be killed" => {
            shm.send_inline(A, header(0), &[]).expect("room");
            std::thread::sleep(LONG * 2);
        }
        other => panic!("no role {other}"),
    }
    dog.done();
}

/// Sends and receives all messages, asleep when there is nothing to do.
fn exchange(shm: &mut Shm, peer: PeerId) {
    let bell = shm.bell();
    let (mut sent, mut received) = (0, 0);
    let mut step = |shm: &mut Shm| {
        let mut moved = false;
        if sent < MESSAGES {
            let data = message(sent);
            match shm.send_copy(peer, header(sent), data.len(), |to| to.copy_from_slice(&data)) {
                Ok(()) => (sent, moved) = (sent + 1, true),
                Err(refused) => assert_eq!(refused, Refused::Full),
            }
        }
        if shm.ready() == Some(peer) {
            let (envelope, payload) = shm.peek(peer).expect("a packet");
            assert_eq!(envelope, header(received));
            assert!(payload == message(received), "message {received} was damaged");
            shm.advance(peer);
            (received, moved) = (received + 1, true);
        }
        (moved, sent == MESSAGES && received == MESSAGES)
    };
    loop {
        let (moved, done) = step(shm);
        if done {
            return;
        }
        if !moved {
            bell.arm();
            if step(shm).0 {
                bell.disarm();
            } else {
                bell.sleep(LONG);
            }
        }
    }
}

#[test]
fn processes_exchange_messages_of_all_sizes_in_order() {
    let dog = watchdog(Duration::from_secs(60));
    let start_time = Instant::now();
    let file = weft_shm::create().expect("a memory file");
    let mut second = start("exchange", &file);
    let mut shm = attach(&file, 0, 2).expect("attached");
    shm.connect(B).expect("connected");
    exchange(&mut shm, B);
    assert!(second.0.wait().expect("an end").success());
    assert!(start_time.elapsed() < LONG, "a wake-up was lost and the limit of a sleep ended it");
    assert_eq!(shm.peer_state(B), PeerState::Finalized);
    dog.done();
}

#[test]
fn memory_of_another_process_is_read_in_one_copy() {
    let dog = watchdog(Duration::from_secs(60));
    let file = weft_shm::create().expect("a memory file");
    let mut second = start("be read", &file);
    let mut shm = attach(&file, 0, 2).expect("attached");
    shm.connect(B).expect("connected");
    let address = receive(&mut shm);
    let address = u64::from_ne_bytes(address.try_into().expect("eight bytes"));
    if shm.capabilities(B).single_copy {
        for len in [0, 1, 4095, 4096, 65_537, 3_000_000] {
            let mut into = vec![0; len];
            shm.read_remote(B, address, &mut into).expect("readable");
            assert!(into.iter().enumerate().all(|(i, &byte)| byte == (i * 7) as u8), "{len} bytes");
        }
        // Runs of other lengths on either side, more than one page apart, up to as many as the kernel takes.
        for (runs, len, pieces) in [(1, 5000, 1000), (1000, 37, 100), (200, 5000, 1024), (1024, 8, 1)] {
            let all = runs * len;
            let remote: Vec<(u64, usize)> = (0..runs).map(|i| (address + (i * 2900) as u64, len)).collect();
            let mut into = vec![0; all + 7];
            let cells = Cell::from_mut(&mut into[..]).as_slice_of_cells();
            let local: Vec<&[Cell<u8>]> = cells[..all].chunks(all.div_ceil(pieces)).collect();
            shm.read_remote_runs(B, &remote, &local).expect("readable");
            let wanted = (0..runs).flat_map(|i| (0..len).map(move |j| ((i * 2900 + j) * 7) as u8));
            assert!(into[..all].iter().copied().eq(wanted), "{runs} runs of {len} bytes");
            assert_eq!(into[all..], [0; 7]);
        }
        let mut into = [0; 24];
        let cells = Cell::from_mut(&mut into[..]).as_slice_of_cells();
        let error = shm
            .read_remote_runs(B, &[(address, 8), (8, 16)], &[&cells[..20], &cells[20..]])
            .expect_err("of the second run nothing is mapped");
        assert_eq!(error.class(), ErrorClass::ACCESS);
        let error = shm.read_remote(B, 8, &mut [0; 16]).expect_err("nothing is mapped there");
        assert_eq!(error.class(), ErrorClass::ACCESS);
        assert!(error.text().contains("rank 1"), "{error}");
        assert!(shm.capabilities(B).single_copy, "a bad address says nothing about the peer");
    } else {
        println!("skipped in part: this kernel does not allow process_vm_readv between siblings");
    }
    shm.send_inline(B, header(0), &[]).expect("room");
    assert!(second.0.wait().expect("an end").success());
    dog.done();
}

#[test]
fn a_killed_peer_never_blocks_a_sender() {
    let dog = watchdog(Duration::from_secs(60));
    let file = weft_shm::create().expect("a memory file");
    let mut second = start("be killed", &file);
    let mut shm = attach(&file, 0, 2).expect("attached");
    shm.connect(B).expect("connected");
    receive(&mut shm);
    second.0.kill().expect("killed");
    second.0.wait().expect("an end");
    // Nobody told us yet: the ring fills, and says so.
    let refused = (0..10_000).find_map(|_| shm.send_inline(B, header(0), &[1; 64]).err());
    assert_eq!(refused, Some(Refused::Full));
    weft_shm::mark_dead(&file, 2, 1).expect("marked");
    assert_eq!(shm.send_inline(B, header(0), &[]), Err(Refused::Dead));
    assert_eq!(shm.peer_state(B), PeerState::Dead);
    let error = shm.read_remote(B, 4096, &mut [0; 8]).expect_err("it is gone");
    assert_eq!(error.class(), ErrorClass::ACCESS);
    dog.done();
}

#[test]
fn segments_of_another_make_are_refused_by_name() {
    for (word, what) in [
        (0, "magic number"),
        (1, "wire version"),
        (2, "number of local ranks"),
        (3, "cells per ring"),
        (4, "bytes per ring"),
        (5, "largest packet"),
        (6, "page size"),
    ] {
        let file = weft_shm::create().expect("a memory file");
        file.write_all_at(&0xdead_u64.to_ne_bytes(), word * 8).expect("written");
        let error = attach(&file, 0, 2).expect_err("another make");
        assert!(error.text().contains(what), "{error}");
        assert!(error.text().contains("LD_LIBRARY_PATH"), "{error}");
    }
    let file = weft_shm::create().expect("a memory file");
    let _first = attach(&file, 0, 2).expect("attached");
    let error = attach(&file, 0, 2).expect_err("the same rank again");
    assert!(error.text().contains("local rank 0"), "{error}");
    let error = attach(&file, 1, 3).expect_err("another number of ranks");
    assert!(error.text().contains("number of local ranks"), "{error}");
}

#[test]
fn a_full_file_system_is_an_error_and_not_a_signal() {
    // SAFETY: a query.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let file = weft_shm::create().expect("a memory file");
    let mut second = start("fill a small file system", &file);
    assert!(second.0.wait().expect("an end").success());
}

/// Runs in a process of its own: mounts a 1-MiB tmpfs where nobody else sees it and fills it with rings.
fn fill_a_small_file_system() {
    let folder = std::env::temp_dir().join(format!("weft-small-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = std::ffi::CString::new(folder.to_str().expect("text")).expect("no zero");
    // SAFETY: C strings that outlive the calls; the mount namespace is this process's own from the first call on.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"weft".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=1m".as_ptr().cast())
                == 0
    };
    if mounted {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.join("segment"))
            .expect("a file");
        fill(&file);
        // SAFETY: a C string that outlives the call.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    } else {
        eprintln!("skipped: no private mount namespace here: {}", std::io::Error::last_os_error());
    }
    std::fs::remove_dir(&folder).expect("removed");
}

fn fill(file: &File) {
    const RANKS: u32 = 32;
    let mut all: Vec<Shm> = (0..RANKS).map(|local| attach(file, local, RANKS).expect("attached")).collect();
    let mut sender = all.remove(0);
    let (connected, error) = (1..RANKS)
        .find_map(|rank| sender.connect(PeerId(rank)).err().map(|error| (rank - 1, error)))
        .expect("a megabyte does not hold 31 rings");
    assert!(connected >= 5, "{connected}");
    assert_eq!(error.class(), ErrorClass::NO_MEM);
    for part in ["no room", "rank", "/dev/shm", "--shm-size"] {
        assert!(error.text().contains(part), "{error}");
    }
    // What is connected works, though its data area cannot grow.
    for _ in 0..3 {
        let sent =
            (0..1000).take_while(|_| sender.send_copy(B, header(0), 32_768, |to| to.fill(7)).is_ok()).count();
        assert!(sent >= 1);
        for _ in 0..sent {
            let receiver = &mut all[0];
            assert!(receiver.peek(A).expect("a packet").1.iter().all(|&byte| byte == 7));
            receiver.advance(A);
        }
        // Who looks at an empty ring reports what was consumed.
        assert!(all[0].peek(A).is_none());
    }
    // A failed first contact may be tried again when there is room.
    assert!(sender.connect(PeerId(RANKS - 1)).is_err());
}
