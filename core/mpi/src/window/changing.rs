//! An accumulating operation of the owner on elements that its device changes, too, atomic among its own operations alone: the device
//! does all of it, an element at a time ([`super::rule`]).
//!
//! What the device has an atomic for is one request an element. For anything else the processor looks what is there, reckons what it
//! becomes, and the device swaps the one for the other; where it finds something else, once more with that. The processor's look may be
//! wrong: it is a guess until the swap has said so. Nothing here waits, and nothing here knows a device: see [`super::lines`].

use super::exposure::{apply, op_of};
use super::message::{Kind, Message, predefined};
use super::rule::{Element, Owner};
use super::steps::{WORD, change, each, places, word};
use std::collections::VecDeque;
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{Atomic, Changes};
use weft_types::{Result, abi};

/// What is done to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Add,
    Look,
    Swap,
    Replace,
    Combine(PredefinedOp),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Changing {
    /// The window's, as bytes.
    memory: Memory,
    basic: Datatype,
    what: What,
    places: Vec<i64>,
    /// One word an element; behind them, of swaps, what they are compared with.
    data: Vec<u8>,
    /// What each element was before; of one that is not over, what was seen there last.
    old: Vec<u8>,
    /// What each becomes, as far as it was reckoned: of [`What::Combine`] alone.
    made: Vec<u8>,
    /// The first that was not begun, and those that are tried once more.
    next: usize,
    again: VecDeque<usize>,
}

/// What the device is to do to which element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Try {
    /// Its number among those of the operation.
    pub(super) element: usize,
    /// Where it is from the beginning of the window.
    pub(super) place: i64,
    pub(super) change: Atomic,
}

impl Changing {
    /// Of a message that was checked, about elements of eight bytes.
    pub(super) fn new(memory: &Memory, at: i64, message: &Message<'_>, basic: &Datatype) -> Result<Changing> {
        let places = places(memory, at, message, basic)?;
        let (what, data) = match message.kind {
            Kind::CompareAndSwap => {
                let (compare, new) = message.data.split_at(message.data.len() / 2);
                (What::Swap, [new, compare].concat())
            }
            _ => {
                let op = op_of(message)?;
                let adds = op == PredefinedOp::Sum && Element::of(basic, 0).is_integer;
                let what = match op {
                    PredefinedOp::NoOp => What::Look,
                    PredefinedOp::Replace => What::Replace,
                    _ if adds => What::Add,
                    _ => {
                        op.kernel(basic)?;
                        What::Combine(op)
                    }
                };
                (what, message.data.to_vec())
            }
        };
        Ok(Changing {
            memory: memory.retyped(&predefined(abi::MPI_BYTE)?),
            basic: basic.clone(),
            what,
            old: vec![0; places.len() * WORD],
            places,
            data,
            made: Vec::new(),
            next: 0,
            again: VecDeque::new(),
        })
    }

    /// What the device shall do next; `None`: nothing now, and nothing at all once all that it was told to do is found. Elements that
    /// are no device's are the processor's, now.
    pub(super) fn next(&mut self) -> Result<Option<Try>> {
        if let Some(element) = self.again.pop_front() {
            return Ok(Some(self.try_of(element)));
        }
        if self.next == 0 {
            self.look()?;
        }
        while self.next < self.places.len() {
            let element = self.next;
            self.next += 1;
            let place = self.places[element];
            let address = (self.memory.address() as u64).wrapping_add_signed(place);
            if Element::of(&self.basic, address).by_owner(Changes::Alone) == Owner::Device {
                return Ok(Some(self.try_of(element)));
            }
            let found = change(&self.memory, place, |found| self.becomes(element, found));
            self.saw(element, found);
        }
        Ok(None)
    }

    /// The device has done that, and found a number.
    pub(super) fn found(&mut self, done: Try, found: u64) -> Result<()> {
        self.saw(done.element, found);
        let failed = matches!(done.change, Atomic::CompareSwap { compare, .. } if compare != found);
        if failed && matches!(self.what, What::Replace | What::Combine(_)) {
            if let What::Combine(op) = self.what {
                let one = done.element * WORD..(done.element + 1) * WORD;
                self.made[one.clone()].copy_from_slice(&found.to_ne_bytes());
                apply(op, &self.basic, &self.data[one.clone()], &mut self.made[one])?;
            }
            self.again.push_back(done.element);
        }
        Ok(())
    }

    /// What the elements were before, packed.
    pub(super) fn into_old(self) -> Vec<u8> {
        self.old
    }

    /// Guesses what is there, where that is needed, and reckons with it: of all elements at once.
    fn look(&mut self) -> Result<()> {
        if matches!(self.what, What::Replace | What::Combine(_)) {
            self.old = each(&self.places, |_, place| change(&self.memory, place, |_| None));
        }
        if let What::Combine(op) = self.what {
            self.made = self.old.clone();
            apply(op, &self.basic, &self.data, &mut self.made)?;
        }
        Ok(())
    }

    fn saw(&mut self, element: usize, found: u64) {
        self.old[element * WORD..][..WORD].copy_from_slice(&found.to_ne_bytes());
    }

    fn try_of(&self, element: usize) -> Try {
        let seen = word(&self.old, element);
        let change = match self.what {
            What::Add => Atomic::FetchAdd(word(&self.data, element)),
            What::Look => Atomic::FetchAdd(0),
            What::Swap => {
                let compare = word(&self.data, self.places.len() + element);
                Atomic::CompareSwap { compare, swap: word(&self.data, element) }
            }
            What::Replace => Atomic::CompareSwap { compare: seen, swap: word(&self.data, element) },
            What::Combine(_) => Atomic::CompareSwap { compare: seen, swap: word(&self.made, element) },
        };
        Try { element, place: self.places[element], change }
    }

    /// What the processor makes of an element that is no device's.
    fn becomes(&self, element: usize, found: u64) -> Option<u64> {
        match self.what {
            What::Look => None,
            What::Add => Some(found.wrapping_add(word(&self.data, element))),
            What::Swap => {
                let compare = word(&self.data, self.places.len() + element);
                (found == compare).then(|| word(&self.data, element))
            }
            What::Replace => Some(word(&self.data, element)),
            What::Combine(op) => {
                let mut one = found.to_ne_bytes();
                // It could be applied to all of them.
                apply(op, &self.basic, &self.data[element * WORD..][..WORD], &mut one).ok()?;
                Some(u64::from_ne_bytes(one))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::message::Shape;
    use crate::window::steps::tests::{WORDS, exposure, image, message};
    use proptest::prelude::*;

    /// What the device does to memory.
    fn do_it(memory: &Memory, it: Try) -> u64 {
        let done = memory.change_word(it.place, |found| match it.change {
            Atomic::FetchAdd(add) => Some(found.wrapping_add(add)),
            Atomic::CompareSwap { compare, swap } => (found == compare).then_some(swap),
        });
        done.expect("an aligned number inside")
    }

    /// Runs an operation with so many elements at the device at a time; `meanwhile` comes before each. What was there before.
    fn run(
        memory: &Memory,
        mut changing: Changing,
        depth: usize,
        mut meanwhile: impl FnMut(&Memory),
    ) -> Vec<u8> {
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < depth
                && let Some(next) = changing.next().expect("legal")
            {
                under_way.push_back(next);
            }
            let Some(it) = under_way.pop_front() else { return changing.into_old() };
            meanwhile(memory);
            let found = do_it(memory, it);
            changing.found(it, found).expect("legal");
        }
    }

    const OPS: [u32; 9] = [
        abi::MPI_SUM,
        abi::MPI_MAX,
        abi::MPI_MIN,
        abi::MPI_PROD,
        abi::MPI_BXOR,
        abi::MPI_LAND,
        abi::MPI_MINLOC,
        abi::MPI_REPLACE,
        abi::MPI_NO_OP,
    ];
    const BASICS: [u32; 5] =
        [abi::MPI_INT64_T, abi::MPI_UINT64_T, abi::MPI_DOUBLE, abi::MPI_C_FLOAT_COMPLEX, abi::MPI_2INT];

    proptest! {
        /// Alone, the device does what the owner's process would: of all operations and types, aligned or not, in runs and torn.
        #[test]
        fn the_device_does_what_the_operations_are(
            (op, basic) in (prop::sample::select(&OPS[..]), prop::sample::select(&BASICS[..])),
            kind in prop::sample::select(&[Kind::Accumulate, Kind::GetAccumulate, Kind::CompareAndSwap][..]),
            disp in prop::sample::select(&[0_i64, 8, 4][..]),
            shape in prop::sample::select(vec![None, Some(vec![(16, 8), (0, 16)]), Some(vec![(0, 8), (12, 8)])]),
            before in prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], WORDS),
            numbers in prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 2),
            depth in 1_usize..5,
        ) {
            let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
            let data = match (kind, op) {
                (Kind::GetAccumulate, abi::MPI_NO_OP) => Vec::new(),
                _ => bytes(&numbers[..2]),
            };
            let shape = shape.filter(|_| kind != Kind::CompareAndSwap).map(|runs| Shape { lb: 0, extent: 8, runs });
            // Of one element, which is compared with the first number and becomes the second.
            let (count, bytes_there) = match (kind, &shape) {
                (Kind::CompareAndSwap, _) => (1, 8),
                (_, Some(_)) => (1, 16),
                (_, None) => (2, 16),
            };
            let asked = Message { disp, count, bytes: bytes_there, shape, ..message(kind, op, basic, &data) };
            let [plain, device] = [Changes::None, Changes::Alone].map(|changes| {
                let memory = Memory::packed_scratch(WORDS * WORD);
                memory.recv_view(0, 0, (WORDS * WORD) as u64).unpack(0, &bytes(&before));
                let exposure = exposure(&memory, changes);
                let old = match exposure.for_device(&asked) {
                    Ok(Some(changing)) => Ok(run(&memory, changing, depth, |_| {})),
                    Ok(None) => exposure.execute(&asked),
                    Err(error) => Err(error),
                };
                let old = old.map(|old| if kind == Kind::Accumulate { Vec::new() } else { old });
                (old.map_err(|error| error.class()), image(&memory))
            });
            prop_assert_eq!(device, plain);
        }
    }

    /// Others have the device change the same elements all the time: nothing is lost of either, whatever the operation.
    #[test]
    fn what_others_have_the_device_do_meanwhile_is_kept() {
        let basic = abi::MPI_UINT64_T;
        let [low, high] = [1_u64, 1 << 40];
        for depth in [1, 2, 16] {
            let memory = Memory::packed_scratch(WORDS * WORD);
            let owner = exposure(&memory, Changes::Alone);
            let mut turn = 0_u64;
            let mut added = [0; 3];
            let mut meanwhile = |memory: &Memory| {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let place = (turn >> 33) % 5;
                if place < 3 {
                    memory.change_word(8 * place as i64, |found| Some(found + low));
                    added[place as usize] += low;
                }
            };
            let mut mine = [0_u64; 3];
            for step in 0..300 {
                let (op, number) = match step % 3 {
                    0 => (abi::MPI_SUM, high),
                    1 => (abi::MPI_BXOR, 1 << 50),
                    _ => (abi::MPI_BOR, 1 << 51),
                };
                let data = [number; 3].map(u64::to_ne_bytes).concat();
                let asked = message(Kind::GetAccumulate, op, basic, &data);
                let changing = owner.for_device(&asked).expect("inside").expect("the device's");
                let old = run(&memory, changing, depth, &mut meanwhile);
                for (word_at, mine) in mine.iter_mut().enumerate() {
                    let found = word(&old, word_at);
                    assert_eq!(found & !0xff_ffff, *mine & !0xff_ffff, "what was found is what was there");
                    *mine = match op {
                        abi::MPI_SUM => *mine + number,
                        abi::MPI_BXOR => *mine ^ number,
                        _ => *mine | number,
                    };
                }
            }
            for (place, (mine, added)) in mine.into_iter().zip(added).enumerate() {
                assert_eq!(word(&image(&memory), place), mine + added, "{depth} at a time");
            }
        }
    }

    /// What costs what: one request an element where nobody else is, none for what is not aligned.
    #[test]
    fn an_element_is_one_request_where_nobody_interferes() {
        let memory = Memory::packed_scratch(WORDS * WORD);
        let owner = exposure(&memory, Changes::Alone);
        let data = [3_u64; 3].map(u64::to_ne_bytes).concat();
        for op in [abi::MPI_SUM, abi::MPI_MAX, abi::MPI_REPLACE] {
            for (disp, requests) in [(0, 3), (8, 3), (4, 0)] {
                let asked = Message { disp, ..message(Kind::Accumulate, op, abi::MPI_INT64_T, &data) };
                let changing = owner.for_device(&asked).expect("inside").expect("the device's");
                let mut asked_for = 0;
                run(&memory, changing, 2, |_| asked_for += 1);
                assert_eq!(asked_for, requests, "{op:#x} at {disp}");
            }
        }
        let ints = message(Kind::Accumulate, abi::MPI_SUM, abi::MPI_INT32_T, &data);
        assert!(owner.for_device(&ints).expect("inside").is_none(), "four bytes are no device's");
        let asked = message(Kind::Accumulate, abi::MPI_SUM, abi::MPI_INT64_T, &data);
        assert!(owner.execute(&asked).is_err(), "a processor never does it");
    }
}
