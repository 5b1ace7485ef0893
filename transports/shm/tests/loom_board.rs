//! Marks of partitions, under loom: the board itself, served by whoever holds the lock.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_board`
#![cfg(loom)]

mod loom_model;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_model::Announced;
use weft_shm::board::Board;
use weft_shm::handover;

/// One partitioned operation of two partitions, with the lock of the process around it.
struct Model {
    board: Board,
    announced: Announced,
    lock: Mutex<()>,
    /// What the program writes into each partition before it marks it, or finds there when it is here.
    data: [UnsafeCell<u32>; 2],
    /// What the lock protects: the partitions that were sent.
    sent: UnsafeCell<u64>,
}

impl Model {
    fn started() -> Arc<Model> {
        let board = Board::new(2);
        board.begin();
        let data = [UnsafeCell::new(0), UnsafeCell::new(0)];
        let (announced, lock, sent) = (Announced::default(), Mutex::new(()), UnsafeCell::new(0));
        Arc::new(Model { board, announced, lock, data, sent })
    }

    fn look_after(&self) {
        handover::look_after(
            &self.announced,
            || self.lock.try_lock().ok(),
            |guard| {
                self.board.news(|word, marks| {
                    assert_eq!(word, 0);
                    // SAFETY: loom reports the race when somebody else is inside, or still writes a partition that is marked.
                    self.sent.with_mut(|sent| unsafe {
                        for partition in 0..2 {
                            if marks & !*sent & 1 << partition != 0 {
                                self.data[partition].with(|data| assert_eq!(*data, 7));
                            }
                        }
                        *sent |= marks;
                    });
                });
                drop(guard);
            },
        );
    }

    fn write(&self, partition: usize) {
        // SAFETY: loom reports the race when the partition is read meanwhile.
        self.data[partition].with_mut(|data| unsafe { *data = 7 });
    }

    /// `MPI_Pready_list` of a thread that does not hold the process; announces also what was marked in vain.
    fn ready(&self, partitions: &[i32]) -> bool {
        let marked = self.board.mark(partitions.iter().copied());
        handover::announce(&self.announced);
        self.look_after();
        marked
    }

    fn sent(&self) -> u64 {
        // SAFETY: everybody else has gone.
        self.sent.with(|sent| unsafe { *sent })
    }
}

fn check(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(work);
}

#[test]
fn what_two_threads_mark_is_sent_whole_and_whoever_serves_it_sees_their_data() {
    check(|| {
        let model = Model::started();
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || {
            other.write(1);
            assert!(other.ready(&[1]));
        });
        model.write(0);
        assert!(model.ready(&[0]));
        thread.join().unwrap();
        assert_eq!(model.sent(), 0b11);
    });
}

/// An error of the program: nothing is lost or sent twice over it.
#[test]
fn of_two_threads_that_mark_the_same_one_is_told_and_all_is_sent() {
    check(|| {
        let model = Model::started();
        model.write(0);
        model.write(1);
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || other.ready(&[1, 0]));
        let ours = model.ready(&[0]);
        let theirs = thread.join().unwrap();
        assert!(!(ours && theirs), "somebody is told");
        assert_eq!(model.sent() & 1, 1);
        assert!(!theirs || model.sent() == 0b11);
        assert!(!model.board.mark([0].into_iter()), "a mark stays");
    });
}

#[test]
fn who_sees_that_a_partition_is_here_or_that_all_are_sees_its_data() {
    check(|| {
        let model = Model::started();
        let holder = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                let _lock = model.lock.lock().unwrap();
                for partition in 0..2 {
                    model.write(partition);
                    if partition == 0 {
                        model.board.set(0, false);
                    }
                }
                // The last one closes it.
                model.board.close();
            })
        };
        for partition in 0..2 {
            if model.board.arrived(partition) == Some(true) {
                // SAFETY: loom reports the race when the holder still writes.
                model.data[partition as usize].with(|data| assert_eq!(unsafe { *data }, 7));
            }
        }
        holder.join().unwrap();
        assert_eq!(model.board.arrived(1), Some(true));
        assert_eq!(model.board.arrived(2), None);
    });
}
