//! Doorbells under loom: a thread that sleeps on a socket, since it waits for descriptors too, misses no ring. The socket is a flag with a
//! lock and a condition; what is written into it before the sleep begins ends the sleep at once.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_doorbell`
#![cfg(loom)]

mod loom_model;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use loom_model::heavy_barrier;
use std::time::Duration;
use weft_shm::bell::{self, Arming, Doorway, SleepWord};
use weft_shm::doorbell::{self, Places};

/// No sleep of a model ends by its limit.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// The doors of a process with one lane, as `doorbell.rs` uses them.
struct Doors {
    word: AtomicU32,
    /// One place: somebody sleeps on the doorbell.
    polled: AtomicU32,
    datagram: Mutex<bool>,
    readable: Condvar,
}

struct Door<'a>(&'a Doors);

impl Doorway for Doors {
    type Word<'a> = Door<'a>;

    fn door(&self, _: u32) -> Door<'_> {
        Door(self)
    }

    fn wakes(&self) -> u32 {
        0
    }

    fn wait(&self, _: u32, _: u32, _: Duration) {
        unreachable!("sleepers of this model sleep on the doorbell");
    }
}

impl SleepWord for Door<'_> {
    fn load(&self) -> u32 {
        self.0.word.load(Ordering::Relaxed)
    }

    fn swap_if(&self, current: u32, new: u32) -> Result<(), u32> {
        self.0.word.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
    }

    /// `doorbell::ring`.
    fn wake_all(&self) {
        if doorbell::sleepers(self.0) != 0 {
            *self.0.datagram.lock().unwrap() = true;
            self.0.readable.notify_all();
        }
    }
}

impl Places for Doors {
    fn add(&self, place: u32) {
        self.polled.fetch_or(1 << place, Ordering::SeqCst);
    }

    fn remove(&self, place: u32) {
        self.polled.fetch_and(!(1 << place), Ordering::SeqCst);
    }

    fn all(&self) -> u32 {
        self.polled.load(Ordering::SeqCst)
    }

    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

impl Doors {
    fn new() -> Arc<Doors> {
        Arc::new(Doors {
            word: AtomicU32::new(0),
            polled: AtomicU32::new(0),
            datagram: Mutex::new(false),
            readable: Condvar::new(),
        })
    }

    /// `Doorbell::wait`: polls, and drains what came.
    fn poll(&self) {
        let mut there = self.datagram.lock().unwrap();
        while !*there {
            there = self.readable.wait(there).unwrap();
        }
        *there = false;
    }

    /// `ShmBell::arm`, another look, `ShmBell::sleep_beside`.
    fn wait_until(&self, mut look: impl FnMut() -> bool) {
        while !look() {
            let arming = Arming::of(1);
            arming.arm(self);
            heavy_barrier();
            if look() {
                return arming.disarm(self);
            }
            doorbell::settle(self, 0);
            arming.sleep_by(self, FOR_EVER, |_, _, _| {
                self.poll();
                true
            });
            self.remove(0);
        }
    }

    fn deliver(&self, packet: &AtomicBool) {
        packet.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if bell::needs_attention(self.door(0).load()) {
            bell::ring(&self.door(0));
        }
    }
}

#[test]
fn a_sleeper_on_a_doorbell_hears_every_ring() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (doors, packets) = (Doors::new(), Arc::new([AtomicBool::new(false), AtomicBool::new(false)]));
        let sender = {
            let (doors, packets) = (Arc::clone(&doors), Arc::clone(&packets));
            thread::spawn(move || packets.iter().for_each(|packet| doors.deliver(packet)))
        };
        // The second sleep may find the datagram of a ring that came after the first one had ended.
        for packet in packets.iter() {
            doors.wait_until(|| packet.load(Ordering::Acquire));
        }
        sender.join().unwrap();
        assert!(!bell::needs_attention(doors.word.load(Ordering::SeqCst)));
    });
}
