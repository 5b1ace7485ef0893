//! Sleepers under loom: nobody sleeps through a ring, whoever comes, goes or rings meanwhile. The descriptor is a flag with a
//! lock and a condition. `RUSTFLAGS="--cfg loom" cargo test -p weft-api --release --test loom_sleepers`
#![cfg(loom)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use weft_api::sleepers::{Flag, Sleeper, Sleepers};

#[derive(Default)]
struct Descriptor {
    up: Mutex<bool>,
    raised: Condvar,
}

impl Flag for Descriptor {
    fn raise(&self) {
        *self.up.lock().unwrap() = true;
        self.raised.notify_all();
    }

    fn lower(&self) {
        *self.up.lock().unwrap() = false;
    }
}

impl Descriptor {
    fn wait(&self) {
        let mut up = self.up.lock().unwrap();
        while !*up {
            up = self.raised.wait(up).unwrap();
        }
    }

    fn is_up(&self) -> bool {
        *self.up.lock().unwrap()
    }
}

/// What threads wait for, under the lock that a transport has.
struct World {
    sleepers: std::sync::Arc<Sleepers<Descriptor>>,
    packets: Mutex<u32>,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            sleepers: std::sync::Arc::new(Sleepers::by(Descriptor::default())),
            packets: Mutex::new(0),
        })
    }

    fn deliver(&self) {
        *self.packets.lock().unwrap() += 1;
        self.sleepers.ring();
    }

    /// Waits for as many packets. A sleep that nobody ends is a deadlock, which the model reports.
    fn wait_for(&self, sleeper: &Sleeper<Descriptor>, wanted: u32) {
        let look = || *self.packets.lock().unwrap() >= wanted;
        while !look() {
            sleeper.arm();
            if !look() {
                sleeper.sleepers().flag().wait();
            }
            sleeper.disarm();
            // Whoever woke for nothing, since another has not gone yet, lets that one go.
            thread::yield_now();
        }
    }
}

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

#[test]
fn a_sleeper_hears_every_ring() {
    check(|| {
        let world = World::new();
        let ringer = {
            let world = Arc::clone(&world);
            thread::spawn(move || (0..2).for_each(|_| world.deliver()))
        };
        let sleeper = Sleeper::new(std::sync::Arc::clone(&world.sleepers));
        world.wait_for(&sleeper, 1);
        world.wait_for(&sleeper, 2);
        ringer.join().unwrap();
        assert!(!world.sleepers.is_awaited() && !world.sleepers.flag().is_up());
    });
}

/// The one who goes must not take away what the other has not heard.
#[test]
fn two_sleepers_take_nothing_from_each_other() {
    check(|| {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let sleeper = Sleeper::new(std::sync::Arc::clone(&world.sleepers));
                world.wait_for(&sleeper, 2);
            })
        };
        let ringer = {
            let world = Arc::clone(&world);
            thread::spawn(move || (0..2).for_each(|_| world.deliver()))
        };
        let sleeper = Sleeper::new(std::sync::Arc::clone(&world.sleepers));
        world.wait_for(&sleeper, 1);
        other.join().unwrap();
        ringer.join().unwrap();
        assert!(!world.sleepers.is_awaited() && !world.sleepers.flag().is_up());
    });
}
