//! What a type costs: allocations and bytes are counted, and are the same for every count. So is what a first use keeps with it.

use std::alloc::{GlobalAlloc, Layout as Room, System};
use std::cell::Cell;
use weft_datatype::{Datatype, Form, Grid, Predefined};
use weft_types::abi::*;

struct Counting;

thread_local! {
    /// Allocations of this thread, their bytes, and the bytes that are not given back. The harness has a thread of its own.
    static COUNTED: Cell<[usize; 3]> = const { Cell::new([0; 3]) };
}

fn count(change: impl FnOnce([usize; 3]) -> [usize; 3]) {
    COUNTED.set(change(COUNTED.get()));
}

fn live() -> usize {
    COUNTED.get()[2]
}

// SAFETY: every request is the system's; the counters are beside it and take no memory themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, room: Room) -> *mut u8 {
        count(|[calls, taken, live]| [calls + 1, taken + room.size(), live.wrapping_add(room.size())]);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(room) }
    }

    unsafe fn dealloc(&self, address: *mut u8, room: Room) {
        count(|[calls, taken, live]| [calls, taken, live.wrapping_sub(room.size())]);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, room) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations, their bytes, and the bytes that stay, of making and committing a type.
fn cost(make: impl FnOnce() -> Datatype) -> ((usize, usize, usize), Datatype) {
    let before = COUNTED.get();
    let datatype = make();
    datatype.commit();
    let after = COUNTED.get();
    ((after[0] - before[0], after[1] - before[1], after[2] - before[2]), datatype)
}

#[test]
fn a_type_costs_the_same_whatever_its_counts_are() {
    let of = |handle| Datatype::from(Predefined::from_abi(handle).unwrap());
    let (int, double, char) = (of(MPI_INT), of(MPI_DOUBLE), of(MPI_CHAR));
    let form = Form::Large;
    let particle = {
        let bare = Datatype::structure(&[1, 6, 7], &[0, 8, 56], &[int, double.clone(), char], form).unwrap();
        Datatype::resized(&bare, 0, 64, form).unwrap()
    };
    let makers: [&dyn Fn(i64) -> Datatype; 6] = [
        &|count| Datatype::contiguous(count, &particle, form).unwrap(),
        &|count| Datatype::vector(count, 3, 1000, &double, form).unwrap(),
        &|count| Datatype::hvector(count, count, -80_000_000_000, &particle, form).unwrap(),
        &|count| Datatype::indexed_block(count, &[0, 2 * count, 7 * count], &particle, form).unwrap(),
        &|count| {
            let sizes = [count, 1000, 1000];
            Datatype::subarray(&sizes, &[count, 10, 10], &[0, 5, 5], MPI_ORDER_C, &double, form).unwrap()
        },
        &|count| {
            let grid = Grid {
                size: 6,
                rank: 1,
                sizes: &[6 * count, 12],
                distributions: &[MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK],
                arguments: &[1, MPI_DISTRIBUTE_DFLT_DARG],
                processes: &[3, 2],
                order: MPI_ORDER_C,
            };
            Datatype::darray(&grid, &double, form).unwrap()
        },
    ];
    for (which, make) in makers.into_iter().enumerate() {
        let (small, _) = cost(|| make(16));
        for count in [1_000, 1_000_000] {
            assert_eq!(cost(|| make(count)).0, small, "constructor {which}, count {count}");
        }
        assert!(small.0 <= 24 && small.1 <= 4096, "constructor {which}: {small:?}");
    }

    // What the first use keeps is the same for 20 elements and for 20,000, and goes with the type.
    let kept = |count: usize| {
        let before = live();
        let (_, datatype) = cost(|| Datatype::contiguous(count as i64, &particle, form).unwrap());
        let (memory, mut packed) = (vec![1_u8; 64 * count], vec![0_u8; 59 * count]);
        let used = live();
        // SAFETY: `memory` holds `count` particles; `packed` is apart from it.
        unsafe { datatype.pack_elements(memory.as_ptr(), &mut packed) };
        let kept = live() - used;
        drop((datatype, memory, packed));
        assert_eq!(live(), before);
        kept
    };
    assert_eq!(kept(20), kept(20_000));
    assert!(kept(20) <= 512, "{}", kept(20));
}
