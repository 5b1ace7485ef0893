//! The hot paths between two engines in one process, for counting instructions: every function named `path_*` runs
//! [`ROUNDS`] times on a warm engine.
//!
//! `valgrind --tool=callgrind --callgrind-out-file=out target/release/examples/count` and
//! `callgrind_annotate --inclusive=yes out | grep path_`; divide by the rounds.

use weft_api::Transport;
use weft_datatype::{RecvBuf, SendBuf};
use weft_engine::{
    Early, Engine, EngineConfig, Envelope, RequestId, Selector, SendMode, Started, Transports,
};
use weft_shm::{Config, Shm, Waking};
use weft_types::{ContextId, PeerId, Rank, Tag};

const ROUNDS: usize = 100;

const TO: Envelope = Envelope { peer: PeerId(1), context: ContextId::WORLD, source: Rank(0), tag: Tag(5) };
const FROM: Selector =
    Selector { context: ContextId::WORLD, peer: Some(PeerId(0)), source: Some(Rank(0)), tag: Some(Tag(5)) };

#[inline(never)]
fn path_send(engine: &mut Engine, buffer: &[u8], bytes: usize) {
    assert_eq!(engine.send(TO, SendMode::Standard, outgoing(buffer, bytes)).unwrap(), Started::Complete);
}

#[inline(never)]
fn path_send_1024(engine: &mut Engine, buffer: &[u8]) {
    assert_eq!(engine.send(TO, SendMode::Standard, outgoing(buffer, 1024)).unwrap(), Started::Complete);
}

#[inline(never)]
fn path_poll_recv_hit(engine: &mut Engine, buffer: &mut [u8]) {
    let mut room = incoming(buffer, 8);
    assert!(matches!(engine.poll_recv(FROM, &mut room), Early::Received(_)));
}

#[inline(never)]
fn path_poll_recv_miss(engine: &mut Engine, buffer: &mut [u8]) {
    let mut room = incoming(buffer, 8);
    assert!(matches!(engine.poll_recv(FROM, &mut room), Early::Nothing));
}

#[inline(never)]
fn path_recv_post(engine: &mut Engine, buffer: &mut [u8]) -> RequestId {
    engine.recv(FROM, incoming(buffer, 8)).unwrap()
}

#[inline(never)]
fn path_progress_one_packet(engine: &mut Engine) {
    assert!(engine.progress());
}

#[inline(never)]
fn path_progress_idle(engine: &mut Engine) {
    assert!(!engine.progress());
}

#[inline(never)]
fn path_complete_and_take(engine: &mut Engine, request: RequestId) {
    assert!(engine.is_complete(request));
    assert_eq!(engine.take(request).error, None);
}

#[inline(never)]
fn path_recv_unexpected(engine: &mut Engine, buffer: &mut [u8]) -> RequestId {
    engine.recv(FROM, incoming(buffer, 8)).unwrap()
}

/// A buffer as the C boundary makes it.
fn outgoing(memory: &[u8], bytes: usize) -> SendBuf {
    // SAFETY: `main` keeps the memory, nobody else touches it, and every operation here ends before `main` does.
    unsafe { SendBuf::contiguous(memory[..bytes].as_ptr(), bytes) }
}

/// A buffer as the C boundary makes it.
fn incoming(memory: &mut [u8], bytes: usize) -> RecvBuf {
    // SAFETY: as above.
    unsafe { RecvBuf::contiguous(memory[..bytes].as_mut_ptr(), bytes) }
}

fn main() {
    let file = weft_shm::create().expect("a segment");
    let mut engines: Vec<Engine> = (0..2)
        .map(|local| {
            let file = file.try_clone().expect("a descriptor");
            let peers = vec![PeerId(0), PeerId(1)];
            let config = Config { file, local, peers, single_copy: true, waking: Waking::Membarrier };
            let mut shm = Shm::attach(config).expect("attached");
            shm.connect(PeerId(1 - local)).expect("connected");
            Engine::new(EngineConfig::new(PeerId(local), 2), Transports::Shm(shm)).expect("an engine")
        })
        .collect();
    let mut buffer = vec![0; 4096];
    let mut second = engines.pop().expect("two");
    let mut first = engines.pop().expect("two");
    for round in 0..ROUNDS + 1 {
        path_send(&mut first, &buffer, 8);
        if round == 0 {
            second.progress();
            let request = path_recv_post(&mut second, &mut buffer);
            path_complete_and_take(&mut second, request);
            continue;
        }
        path_poll_recv_hit(&mut second, &mut buffer);
        path_poll_recv_miss(&mut second, &mut buffer);
        path_progress_idle(&mut second);
        let request = path_recv_post(&mut second, &mut buffer);
        path_send(&mut first, &buffer, 8);
        path_progress_one_packet(&mut second);
        path_complete_and_take(&mut second, request);
        path_send(&mut first, &buffer, 8);
        path_progress_one_packet(&mut second);
        let request = path_recv_unexpected(&mut second, &mut buffer);
        path_complete_and_take(&mut second, request);
        path_send_1024(&mut first, &buffer);
        path_progress_one_packet(&mut second);
        let request = second.recv(FROM, incoming(&mut buffer, 2048)).unwrap();
        path_complete_and_take(&mut second, request);
        first.progress();
    }
}
