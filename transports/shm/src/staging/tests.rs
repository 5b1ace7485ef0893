//! Both ends of a stage in one process.

use super::*;
use crate::layout::Layout;
use crate::sys;

fn pool() -> Arc<Pool> {
    let layout = Layout::new(2, sys::page_bytes());
    let file = Arc::new(sys::memory_file().expect("a memory file"));
    file.set_len(layout.total_bytes()).expect("sized");
    Arc::new(Pool::open(&file, &layout).expect("mapped"))
}

/// The bytes of a start that is here whole.
fn whole(stage: &StageIn, start: u32) -> Option<&[u8]> {
    match stage.first_look(start) {
        FirstLook::Whole(data) => Some(data),
        FirstLook::Nothing | FirstLook::Parts => None,
    }
}

#[test]
fn groups_of_a_shape_hold_every_partition_and_lie_apart() {
    for number in [1, 2, 7, 8, 31, 33, 64] {
        for bytes in [1, 2, 3, 7, 8, 28, 29, 56, 57, 64, 100, 128, 1000] {
            let Some(shape) = Shape::new(number, bytes).filter(Shape::has_room) else {
                assert!(u64::from(number) * bytes > 3000, "{number} of {bytes}");
                continue;
            };
            assert!(shape.groups() * shape.group >= WORD + shape.total() as u32, "a whole start fits");
            let mut covered = 0;
            for group in 0..shape.groups() {
                let (first, count) = shape.partitions(group);
                assert_eq!(first, covered);
                assert!((first..first + count).all(|partition| shape.group_of(partition) == group));
                assert!(count <= MOST_EACH && u64::from(count) * bytes + 8 <= u64::from(shape.group));
                covered += count;
            }
            assert_eq!(covered, number);
            assert!(shape.bytes() <= 17 << 10 && shape.starts.is_power_of_two());
        }
    }
    assert_eq!(Shape::new(64, 8 << 10), None);
    assert_eq!(Shape::new(8, 2 << 10).map(|shape| (shape.groups(), shape.bytes())), Some((0, 256)));
    assert_eq!(Shape::new(0, 8), None);
    assert_eq!(Shape::new(1, 1 << 40), None);
}

#[test]
fn what_is_put_down_is_found_under_its_start_and_the_block_returns_with_the_second_end() {
    let pool = pool();
    let file = crate::create().expect("a memory file");
    let segment = Arc::new(Segment::open(file, 2).expect("opened"));
    for bytes in [1_u64, 5, 56, 57, 300] {
        let shape = Shape::new(9, bytes).expect("small");
        let mut into = StageIn::take(&pool, shape).expect("room");
        let block = into.0.block;
        let mut from = StageOut::join(&segment, &pool, into.word(), shape, 1, false).expect("known");
        for start in 1..20_u32 {
            assert!(from.has_room(start));
            assert_eq!(whole(&into, start), None);
            if start % 3 == 0 {
                let data: Vec<u8> = (0..9 * bytes as u32).map(|at| (start + at) as u8).collect();
                match start % 2 {
                    0 => from.put_whole_run(start, &data),
                    _ => from.put_whole(start, |out| out.copy_from_slice(&data)),
                }
                assert_eq!(whole(&into, start), Some(&*data));
                into.give_back(start);
                continue;
            }
            for partition in (0..9).rev() {
                let group = shape.group_of(partition);
                let within = partition - shape.partitions(group).0;
                assert_eq!(into.here(start, group) >> within & 1, 0);
                let data = vec![(start * 10 + partition) as u8; bytes as usize];
                match partition % 2 {
                    0 => from.put(start, partition, &data),
                    _ => from.put_with(start, partition, |out| out.copy_from_slice(&data)),
                }
                assert_eq!(into.here(start, group) >> within & 1, 1);
                assert!(matches!(into.first_look(start), FirstLook::Parts));
                assert!(matches!(into.first_look(start + 1), FirstLook::Nothing));
                let found = into.payload(start, group, within, 1);
                assert_eq!(found, vec![(start * 10 + partition) as u8; bytes as usize]);
            }
            into.give_back(start);
        }
        assert!((20..20 + shape.starts).all(|start| from.has_room(start)));
        assert!(!from.has_room(20 + shape.starts));
        assert!(!from.is_awaited_whole());
        into.tell(Interest::Whole);
        assert!(from.is_awaited_whole());
        into.tell(Interest::Each);
        assert!(!from.is_awaited_whole());
        drop(into);
        drop(from);
        assert_eq!(pool.take(shape.bytes()), Some(block));
    }
}

/// What a whole start lays over the words of later groups is taken for words by nobody, whatever the program's bytes are.
#[test]
fn bytes_of_a_whole_start_are_no_words() {
    let pool = pool();
    let segment = Arc::new(Segment::open(crate::create().expect("a memory file"), 2).expect("opened"));
    for bytes in [4_u64, 8, 40] {
        let shape = Shape::new(64, bytes).expect("short enough");
        let mut into = StageIn::take(&pool, shape).expect("room");
        let mut from = StageOut::join(&segment, &pool, into.word(), shape, 1, false).expect("known");
        let nothing_behind = |into: &StageIn, start| {
            (1..shape.groups()).all(|group| into.here(start, group) == 0 && whole(into, start).is_none())
        };
        // Number 0 comes after the wrap.
        for start in [1, 7, 0_u32.wrapping_sub(shape.starts)] {
            let later = start.wrapping_add(shape.starts);
            for number in [start, later] {
                let data: Vec<u8> = number.to_le_bytes().repeat(16 * bytes as usize);
                into.give_back(start.wrapping_sub(1));
                from.taken = start.wrapping_sub(1);
                from.put_whole_run(start, &data);
                assert_eq!(whole(&into, start), Some(&*data));
                assert!((1..shape.groups()).all(|group| into.here(start, group) == 0));
                into.give_back(later.wrapping_sub(1));
                assert!(from.has_room(later) && nothing_behind(&into, later));
                // A mark in the last group shows nothing of the others.
                from.put(later, 63, &vec![1; bytes as usize]);
                let within = 63 - shape.partitions(shape.groups() - 1).0;
                assert_eq!(into.here(later, shape.groups() - 1), 1 << within);
                assert!((1..shape.groups() - 1).all(|group| into.here(later, group) == 0));
                assert_eq!(whole(&into, later), None);
            }
        }
    }
}

#[test]
fn a_stage_without_room_tells_only_what_is_looked_for() {
    let pool = pool();
    let segment = Arc::new(Segment::open(crate::create().expect("a memory file"), 2).expect("opened"));
    let shape = Shape::new(8, 2 << 10).expect("short enough");
    let mut into = StageIn::take(&pool, shape).expect("room");
    let mut from = StageOut::join(&segment, &pool, into.word(), shape, 1, false).expect("known");
    // Numbers wrap, and nothing has been taken when 0 comes again.
    assert!([u32::MAX, 0, 1].iter().all(|&start| !from.has_room(start)));
    for start in 1..5 {
        assert!(!from.has_room(start) && whole(&into, start).is_none());
        into.give_back(start);
    }
    into.tell(Interest::Whole);
    assert!(from.is_awaited_whole());
}
