//! Accumulating operations of the owner on elements that a device may change at any moment: each element is changed in one step
//! of the processor ([`super::rule`]).

use super::exposure::{apply, op_of, whole_elements};
use super::message::{Kind, Message, predefined};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_types::{Error, ErrorClass, Result, abi};

/// Bytes of such an element.
pub(super) const WORD: usize = 8;

/// Does what an accumulating message asks for to its elements, of eight bytes each; what each of them was before, packed.
pub(super) fn execute(memory: &Memory, at: i64, message: &Message<'_>, basic: &Datatype) -> Result<Vec<u8>> {
    let bytes = message.bytes as usize;
    let places = places(memory, at, message, basic)?;
    let memory = memory.retyped(&predefined(abi::MPI_BYTE)?);
    if message.kind == Kind::CompareAndSwap {
        let (compare, new) = message.data.split_at(bytes);
        return Ok(each(&places, |index, place| {
            let (compare, new) = (word(compare, index), word(new, index));
            change(&memory, place, |found| (found == compare).then_some(new))
        }));
    }
    let (op, data) = (op_of(message)?, message.data);
    Ok(match op {
        PredefinedOp::NoOp => each(&places, |_, place| change(&memory, place, |_| None)),
        PredefinedOp::Replace => {
            each(&places, |index, place| change(&memory, place, |_| Some(word(data, index))))
        }
        _ => {
            // All at once from what is there now; those that somebody changes meanwhile once more.
            let seen = each(&places, |_, place| change(&memory, place, |_| None));
            let mut made = seen.clone();
            apply(op, basic, data, &mut made)?;
            each(&places, |index, place| {
                let (seen, made) = (word(&seen, index), word(&made, index));
                change(&memory, place, |found| {
                    if found == seen {
                        return Some(made);
                    }
                    let mut one = found.to_ne_bytes();
                    // It could be applied to all of them.
                    apply(op, basic, &data[index * WORD..][..WORD], &mut one).ok()?;
                    Some(u64::from_ne_bytes(one))
                })
            })
        }
    })
}

/// Where the elements of eight bytes lie that a message is about.
pub(super) fn places(memory: &Memory, at: i64, message: &Message<'_>, basic: &Datatype) -> Result<Vec<i64>> {
    whole_elements(basic, message)?;
    let (start, bytes) = (message.start as usize, message.bytes as usize);
    let mut places = Vec::with_capacity(bytes / WORD);
    memory.datatype().layout().for_each_run(start, bytes, |place, length| {
        places.extend((0..length).step_by(WORD).map(|offset| at + place + offset as i64));
    });
    match places.len() * WORD == bytes {
        true => Ok(places),
        false => Err(Error::new(ErrorClass::TYPE, "an accumulate of torn elements")),
    }
}

/// What each place was before it was changed, packed.
pub(super) fn each(places: &[i64], change: impl Fn(usize, i64) -> u64) -> Vec<u8> {
    places.iter().enumerate().flat_map(|(index, &place)| change(index, place).to_ne_bytes()).collect()
}

/// The element of this number among packed ones.
pub(super) fn word(packed: &[u8], index: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|byte| packed[index * WORD + byte]))
}

/// Changes one element; what it was. Of one that is not aligned, which no device changes, not in one step.
pub(super) fn change(memory: &Memory, place: i64, change: impl Fn(u64) -> Option<u64>) -> u64 {
    if let Some(found) = memory.change_word(place, &change) {
        return found;
    }
    let mut bytes = [0; WORD];
    memory.send_view(place, 0, WORD as u64).pack(0, &mut bytes);
    let found = u64::from_ne_bytes(bytes);
    if let Some(new) = change(found) {
        memory.recv_view(place, 0, WORD as u64).unpack(0, &new.to_ne_bytes());
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::window::Extent;
    use crate::window::exposure::Exposure;
    use crate::window::message::Shape;
    use weft_engine::Changes;

    pub(in crate::window) const WORDS: usize = 6;

    pub(in crate::window) fn exposure(memory: &Memory, changes: Changes) -> Exposure {
        let byte = predefined(abi::MPI_BYTE).expect("predefined");
        let extent = Extent { size: (WORDS * WORD) as u64, unit: 1, changes };
        Exposure::fixed(memory.retyped(&byte), extent)
    }

    pub(in crate::window) fn image(memory: &Memory) -> Vec<u8> {
        let mut all = vec![0; WORDS * WORD];
        memory.send_view(0, 0, all.len() as u64).pack(0, &mut all);
        all
    }

    pub(in crate::window) fn message(kind: Kind, op: u32, basic: u32, data: &[u8]) -> Message<'_> {
        let bytes = if kind == Kind::CompareAndSwap { data.len() / 2 } else { data.len() } as u64;
        Message { op, basic, count: bytes / 8, bytes, data, ..Message::bare(kind, op, 0) }
    }

    /// In one step or not, alone the outcome is the same: of all operations and types, aligned or not, torn, and on top of each
    /// other.
    #[test]
    fn steps_do_what_the_operations_are() {
        let ops = [
            abi::MPI_SUM,
            abi::MPI_MAX,
            abi::MPI_PROD,
            abi::MPI_BXOR,
            abi::MPI_LAND,
            abi::MPI_MINLOC,
            abi::MPI_REPLACE,
            abi::MPI_NO_OP,
        ];
        let basics = [abi::MPI_INT64_T, abi::MPI_DOUBLE, abi::MPI_C_FLOAT_COMPLEX, abi::MPI_2INT];
        let numbers: Vec<u8> =
            [3_u64, 1 << 62 | 5, 0, 0x4008_0000_3f80_0000].into_iter().flat_map(u64::to_ne_bytes).collect();
        let shape = |runs: &[(i64, i64)]| Some(Shape { lb: 0, extent: 8, runs: runs.into() });
        let shapes = [None, shape(&[(16, 8), (0, 16)]), shape(&[(0, 8), (0, 8)])];
        let mut done = 0;
        for (kind, op) in
            [Kind::Accumulate, Kind::GetAccumulate].into_iter().flat_map(|kind| ops.map(|op| (kind, op)))
        {
            for (basic, disp) in basics.into_iter().flat_map(|basic| [0, 8, 4].map(|disp| (basic, disp))) {
                for shape in &shapes {
                    let looks = kind == Kind::GetAccumulate && op == abi::MPI_NO_OP;
                    let data = if looks { &[][..] } else { &numbers[8..8 + 16] };
                    let bare = message(kind, op, basic, data);
                    let count = if shape.is_some() { 1 } else { 2 };
                    let asked = Message { disp, count, bytes: 16, shape: shape.clone(), ..bare };
                    let [plain, steps] = [Changes::None, Changes::AtAnyMoment].map(|changes| {
                        let memory = Memory::packed_scratch(WORDS * WORD);
                        memory.recv_view(0, 0, 32).unpack(0, &numbers);
                        let old = exposure(&memory, changes).execute(&asked).map_err(|error| error.class());
                        (old, image(&memory))
                    });
                    // Elements on top of each other: what an accumulating operation does then is not defined.
                    let on_top = shape.as_ref().is_some_and(|shape| shape.runs[0].0 == shape.runs[1].0);
                    assert!(on_top && steps.0.is_ok() == plain.0.is_ok() || steps == plain, "{asked:?}");
                    done += usize::from(plain.0.is_ok());
                }
            }
        }
        assert!(done > 200, "{done}");
    }

    #[test]
    fn swaps_happen_where_the_element_is_as_expected() {
        for (changes, place) in [(Changes::None, 8), (Changes::AtAnyMoment, 8), (Changes::AtAnyMoment, 4)] {
            let memory = Memory::packed_scratch(WORDS * WORD);
            let exposure = exposure(&memory, changes);
            let swap = |compare: u64, new: u64| {
                let data = [compare.to_ne_bytes(), new.to_ne_bytes()].concat();
                let swap = message(Kind::CompareAndSwap, 0, abi::MPI_INT64_T, &data);
                let old = exposure.execute(&Message { disp: place, ..swap }).expect("inside");
                word(&old, 0)
            };
            assert_eq!([swap(0, 7), swap(0, 8), swap(7, 9), swap(9, 1)], [0, 7, 7, 9], "{changes:?}");
            assert_eq!(image(&memory)[place as usize..][..8], 1_u64.to_ne_bytes());
        }
    }

    /// Somebody changes the elements at any moment, as a device does: every operation of the owner is made to what was there, and
    /// says what that was.
    #[test]
    fn an_owner_and_a_device_lose_nothing_of_each_other() {
        const TURNS: u64 = if cfg!(miri) { 20 } else { 3000 };
        let memory = Memory::packed_scratch(WORDS * WORD);
        let owner = exposure(&memory, Changes::AtAnyMoment);
        let device = |memory: &Memory| {
            for turn in 0..3 * TURNS {
                memory.change_word(8 * (turn % 3) as i64, |found| Some(found.wrapping_add(1)));
            }
        };
        let (mut swapped, mut looked, mut flipped) = (0, 0, 0_u64);
        std::thread::scope(|scope| {
            scope.spawn(|| device(&memory));
            let three = [5_u64, 1 << 40, 1].map(u64::to_ne_bytes).concat();
            let bits = (1_u64 << 50).to_ne_bytes();
            for _ in 0..TURNS {
                let sum = message(Kind::GetAccumulate, abi::MPI_SUM, abi::MPI_UINT64_T, &three);
                let old = owner.execute(&sum).expect("inside");
                assert!(word(&old, 0) >= looked, "what was found never shrinks");
                looked = word(&old, 0);
                let flip = message(Kind::Accumulate, abi::MPI_BXOR, abi::MPI_UINT64_T, &bits);
                owner.execute(&Message { disp: 8, ..flip }).expect("inside");
                // The device stays in the lower bits.
                flipped = flipped.wrapping_add(1 << 40) ^ 1 << 50;
                let compare = word(&image_of(&owner), 2);
                let data = [compare.to_ne_bytes(), (compare + 1).to_ne_bytes()].concat();
                let swap = message(Kind::CompareAndSwap, 0, abi::MPI_UINT64_T, &data);
                let found = owner.execute(&Message { disp: 16, ..swap }).expect("inside");
                swapped += u64::from(word(&found, 0) == compare);
            }
        });
        let words: Vec<u64> = (0..3).map(|index| word(&image(&memory), index)).collect();
        assert_eq!(words, [TURNS + 5 * TURNS, TURNS + flipped, TURNS + TURNS + swapped]);
    }

    /// What is in the window, seen element by element.
    fn image_of(exposure: &Exposure) -> Vec<u8> {
        let look = message(Kind::GetAccumulate, abi::MPI_NO_OP, abi::MPI_UINT64_T, &[]);
        let looked = exposure.execute(&Message { count: WORDS as u64, bytes: (WORDS * WORD) as u64, ..look });
        looked.expect("inside")
    }
}
