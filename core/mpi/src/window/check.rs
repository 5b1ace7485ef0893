//! What a fuzzer does with a message of a stranger: see [`check_message`].

use super::Extent;
use super::changing::Changing;
use super::exposure::{Exposure, Region};
use super::message::{Kind, Message};
use weft_datatype::{Datatype, Form, Memory};
use weft_engine::{Atomic, Changes};
use weft_types::{ErrorClass, abi};

/// Bytes of memory on each side that are not the window's.
const MARGIN: i64 = 256;
/// Bytes of a window, and of a hole in it that is not attached where there is one.
const SIZE: i64 = 192;
const HOLE: i64 = 64;
/// More than this is not looked at of what a get asks for: it has no bound but the origin's memory.
const LOOK: usize = 1 << 12;

/// What a fuzzer calls with the bytes of a one-sided message, from whomever: one that is read is written the same, and whatever it
/// asks for is refused or stays in the window: nothing beside it is written, nor can anything beside it be found out.
///
/// # Panics
/// When that is not so.
pub fn check_message(bytes: &[u8]) {
    let Some(message) = Message::parse(bytes) else { return };
    assert_eq!(message.emit(), bytes);
    for attached in [false, true] {
        let outcomes = [0x11, 0xee].map(|beside| outcome(&message, attached, beside));
        assert_eq!(outcomes[0], outcomes[1], "what is beside the window shows in {message:?}");
    }
}

/// What the message brought about in a window among bytes `beside`: what was answered, and the window afterwards.
fn outcome(message: &Message<'_>, attached: bool, beside: u8) -> (Result<Vec<u8>, ErrorClass>, Vec<u8>) {
    let byte = Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("predefined"));
    let whole = MARGIN + SIZE + MARGIN;
    // Displacement 0 is the first byte of the window.
    let block = Datatype::hindexed(&[whole], &[-MARGIN], &byte, Form::Large).expect("legal");
    let memory = Memory::scratch(&block, 1).expect("small");
    let is_inside = |at: i64| {
        let at = at - MARGIN;
        (0..SIZE).contains(&at) && !(attached && ((SIZE - HOLE) / 2..(SIZE + HOLE) / 2).contains(&at))
    };
    let before: Vec<u8> = (0..whole).map(|at| if is_inside(at) { at as u8 } else { beside }).collect();
    memory.recv_view(0, 0, whole as u64).unpack(0, &before);
    let mut message = message.clone();
    let exposure = match attached {
        false => {
            let changes = [Changes::None, Changes::AtAnyMoment, Changes::Alone][message.id as usize / 4 % 3];
            let extent = Extent { size: SIZE as u64, unit: 1 + message.id % 3, changes };
            Exposure::fixed(memory.retyped(&byte), extent)
        }
        true => {
            let base = memory.address() as i64;
            message.disp = message.disp.wrapping_add(base);
            let size = (SIZE - HOLE) / 2;
            let piece = |first: i64| memory.part(first, size).expect("inside");
            let regions = [0, SIZE - size].map(|first| Region {
                address: (base + first) as u64,
                size: size as u64,
                memory: piece(first),
            });
            Exposure::Attached(regions.into())
        }
    };
    let answer = match message.kind {
        Kind::Get => exposure.data(&message).map(|data| {
            let mut seen = vec![0; LOOK.min(message.bytes as usize)];
            data.pack(0, &mut seen);
            seen
        }),
        Kind::PutFar => exposure.room(&message).map(|mut room| {
            room.unpack(0, &[0x77; LOOK][..LOOK.min(message.bytes as usize)]);
            Vec::new()
        }),
        Kind::Put | Kind::Accumulate | Kind::GetAccumulate | Kind::CompareAndSwap => {
            match exposure.for_device(&message) {
                Ok(Some(changing)) => by_device(&memory.part(0, SIZE).expect("inside"), changing),
                Ok(None) => exposure.execute(&message),
                Err(error) => Err(error),
            }
        }
        _ => Ok(Vec::new()),
    };
    let mut after = vec![0; whole as usize];
    memory.send_view(0, 0, whole as u64).pack(0, &mut after);
    for (at, (&before, &after)) in (0..).zip(before.iter().zip(&after)) {
        assert!(
            is_inside(at) || before == after,
            "byte {} of the window is none of it: {message:?}",
            at - MARGIN
        );
    }
    after = (0..).zip(after).filter(|&(at, _)| is_inside(at)).map(|(_, byte)| byte).collect();
    (answer.map_err(|error| error.class()), after)
}

/// Does what a device would be asked for; what was there before.
fn by_device(window: &Memory, mut changing: Changing) -> weft_types::Result<Vec<u8>> {
    while let Some(next) = changing.next()? {
        let done = window.change_word(next.place, |found| match next.change {
            Atomic::FetchAdd(add) => Some(found.wrapping_add(add)),
            Atomic::CompareSwap { compare, swap } => (found == compare).then_some(swap),
        });
        changing.found(next, done.expect("an aligned number of the window"))?;
    }
    Ok(changing.into_old())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::message::Shape;
    use crate::window::origin::PIECE;
    use proptest::prelude::*;

    fn message(kind: Kind, op: u32, bytes: u64) -> Message<'static> {
        let shape = Shape { lb: 0, extent: 0, runs: vec![(0, 8)] };
        let (basic, count) = (abi::MPI_UINT64_T, 1 << 58);
        Message { kind, op, basic, id: 0, disp: 0, count, start: 0, bytes, shape: Some(shape), data: &[] }
    }

    #[test]
    fn an_answer_is_bounded_although_elements_lie_on_top_of_each_other() {
        for attached in [false, true] {
            let answer = |kind, op, bytes| outcome(&message(kind, op, bytes), attached, 0).0;
            let much = answer(Kind::GetAccumulate, abi::MPI_NO_OP, 1 << 60);
            assert_eq!(much, Err(ErrorClass::INTERN));
            let piece = answer(Kind::GetAccumulate, abi::MPI_NO_OP, PIECE);
            assert_eq!(piece.map(|old| old.len() as u64), Ok(PIECE));
            assert_eq!(
                answer(Kind::CompareAndSwap, 0, 1 << 63),
                Err(ErrorClass::INTERN),
                "twice as much is nothing"
            );
        }
    }

    #[test]
    fn elements_on_top_of_each_other_in_several_regions_are_looked_at_once() {
        let runs = vec![(0, 4), (SIZE - 4, 4)];
        let shape = Some(Shape { lb: 0, extent: 0, runs });
        let across = Message { shape, ..message(Kind::Get, 0, 16) };
        assert!(outcome(&across, true, 0).0.is_ok_and(|seen| seen.len() == 16));
    }

    /// A message whose elements are more than there is memory costs no more than what is there.
    #[test]
    fn elements_without_end_are_refused_after_those_that_are_here() {
        let touching = Shape { lb: 0, extent: 8, runs: vec![(4, 8)] };
        for (shape, disp) in [(None, 0), (Some(touching), -4)] {
            let all = Message { shape, disp, count: 1 << 50, ..message(Kind::Get, 0, 8) };
            assert_eq!(outcome(&all, true, 0).0, Err(ErrorClass::RMA_RANGE));
        }
    }

    /// Every kind of access at every edge of a window, and of the hole in it.
    #[test]
    fn no_access_reaches_over_an_edge() {
        let edges = [0, (SIZE - HOLE) / 2, (SIZE + HOLE) / 2, SIZE];
        let around = edges.into_iter().flat_map(|edge| edge - 9..edge + 9);
        let kinds = [Kind::Put, Kind::PutFar, Kind::Get, Kind::GetAccumulate, Kind::CompareAndSwap];
        for (disp, length) in around.flat_map(|disp| (0..9).map(move |length| (disp, length))) {
            for kind in kinds {
                let data = match kind {
                    Kind::PutFar | Kind::Get => 0,
                    Kind::CompareAndSwap => 2 * length,
                    _ => length,
                };
                let bare = Message::bare(kind, abi::MPI_REPLACE, 0);
                let data = &[0x33; 16][..data];
                let bytes = length as u64;
                check_message(&Message { disp, count: bytes, bytes, data, ..bare }.emit());
            }
        }
    }

    fn near() -> impl Strategy<Value = i64> {
        prop_oneof![8 => -20_i64..220, 1 => any::<i64>()]
    }

    proptest! {
        #[test]
        fn nothing_beside_a_window_is_written_or_found_out(
            (kind, op, basic, id) in (1_u32..12, prop_oneof![0_u32..16, Just(abi::MPI_SUM), Just(abi::MPI_NO_OP)], any::<u8>(), 0_u32..12),
            (disp, count, start, bytes) in (near(), near(), near(), near()),
            shape in prop::option::of((near(), near(), prop::collection::vec((near(), near()), 0..4))),
            data in prop::collection::vec(any::<u8>(), 0..64),
            fits in any::<bool>(),
        ) {
            let shape = shape.map(|(lb, extent, runs)| Shape { lb, extent, runs });
            let bytes = if fits { data.len() as u64 } else { bytes as u64 };
            let basic = if fits { abi::MPI_BYTE } else { abi::MPI_BYTE & !0xff | u32::from(basic) };
            let bare = Message::bare(Kind::Put, op, id);
            let (count, start) = (count as u64, start as u64);
            let mut sent = Message { basic, disp, count, start, bytes, shape, data: &data, ..bare }.emit();
            sent[..4].copy_from_slice(&kind.to_le_bytes());
            check_message(&sent);
        }
    }
}
