//! What origins ask of targets, as it travels: a fixed head, the shape of the target's datatype when it is a derived one,
//! and data.

use weft_datatype::{Datatype, Form};
use weft_types::{Error, ErrorClass, Result, abi};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Store the data that follow.
    Put = 1,
    /// Store data that come by themselves under the number `id`.
    PutFar = 2,
    /// Send data back.
    Get = 3,
    /// Combine the data that follow.
    Accumulate = 4,
    /// The same, and send the old values back.
    GetAccumulate = 5,
    /// The data are the value to compare with, and the new one; send the old value back.
    CompareAndSwap = 6,
    /// Answer when everything before is done.
    Flush = 7,
    /// Answer when the lock is held; `op` is 1 for an exclusive one.
    Lock = 8,
    /// Release the lock when everything before is done, and answer.
    Unlock = 9,
    /// An exposure epoch was opened for the receiver of this.
    Post = 10,
    /// The access epoch of the sender is over.
    Complete = 11,
}

impl Kind {
    const fn from_word(word: u32) -> Option<Kind> {
        Some(match word {
            1 => Kind::Put,
            2 => Kind::PutFar,
            3 => Kind::Get,
            4 => Kind::Accumulate,
            5 => Kind::GetAccumulate,
            6 => Kind::CompareAndSwap,
            7 => Kind::Flush,
            8 => Kind::Lock,
            9 => Kind::Unlock,
            10 => Kind::Post,
            11 => Kind::Complete,
            _ => return None,
        })
    }
}

/// Where the data of one element of a derived type lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) lb: i64,
    pub(super) extent: i64,
    /// Displacement and length of each run, in packed order.
    pub(super) runs: Vec<(i64, i64)>,
}

impl Shape {
    /// The shape of a datatype; `None` for one whose elements lie back to back from displacement 0.
    pub(super) fn of(datatype: &Datatype) -> Option<Shape> {
        if datatype.is_contiguous() {
            return None;
        }
        let bounds = datatype.bounds();
        let layout = datatype.layout();
        let mut runs = Vec::new();
        if layout.size > 0 {
            layout.for_each_run(0, layout.size, |at, length| runs.push((at, length as i64)));
        }
        Some(Shape { lb: bounds.lb, extent: bounds.extent, runs })
    }

    /// Bytes of the runs in a message.
    pub(super) fn bytes(&self) -> u64 {
        16 * self.runs.len() as u64
    }

    /// A datatype of that shape.
    pub(super) fn datatype(&self) -> Result<Datatype> {
        let byte = predefined(abi::MPI_BYTE)?;
        let (displacements, lengths): (Vec<i64>, Vec<i64>) = self.runs.iter().copied().unzip();
        let runs = Datatype::hindexed(&lengths, &displacements, &byte, Form::Large)?;
        let shaped = Datatype::resized(&runs, self.lb, self.extent, Form::Large)?;
        shaped.commit();
        Ok(shaped)
    }
}

/// The datatype of a predefined handle that came in a message.
pub(super) fn predefined(handle: u32) -> Result<Datatype> {
    match Datatype::predefined(handle) {
        Some(predefined) => Ok(predefined.into()),
        None => {
            Err(Error::new(ErrorClass::INTERN, "a one-sided message names a datatype that does not exist"))
        }
    }
}

/// One message from an origin to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: Kind,
    /// The operation's ABI value, or a flag.
    pub(super) op: u32,
    /// The predefined type that the target's elements consist of.
    pub(super) basic: u32,
    /// Names data and answers that belong to this message.
    pub(super) id: u32,
    /// Displacement in units of the target's window.
    pub(super) disp: i64,
    /// Elements of the target's datatype.
    pub(super) count: u64,
    /// Packed bytes of those elements that are meant: first, and how many.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// `None`: the elements are `basic` ones, back to back.
    pub(super) shape: Option<Shape>,
    pub(super) data: &'a [u8],
}

const HEAD: usize = 56;

impl<'a> Message<'a> {
    /// A message that says no more than its kind.
    pub(super) const fn bare(kind: Kind, op: u32, id: u32) -> Message<'a> {
        Message {
            kind,
            op,
            basic: abi::MPI_BYTE,
            id,
            disp: 0,
            count: 0,
            start: 0,
            bytes: 0,
            shape: None,
            data: &[],
        }
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let runs = self.shape.as_ref().map_or(0, |shape| 16 + 16 * shape.runs.len());
        let mut out = Vec::with_capacity(HEAD + runs + self.data.len());
        for word in [self.kind as u32, self.op, self.basic, self.id] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.disp as u64, self.count, self.start, self.bytes] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let number = self.shape.as_ref().map_or(0, |shape| shape.runs.len() as u64 + 1);
        out.extend_from_slice(&number.to_le_bytes());
        if let Some(shape) = &self.shape {
            let pairs = std::iter::once((shape.lb, shape.extent)).chain(shape.runs.iter().copied());
            for (first, second) in pairs {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&second.to_le_bytes());
            }
        }
        out.extend_from_slice(self.data);
        out
    }

    /// Reads a message; `None` for bytes that are none.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (head, mut rest) = bytes.split_first_chunk::<HEAD>()?;
        let word = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let long = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let mut pairs = Vec::new();
        for _ in 0..long(48)? {
            let (pair, behind) = rest.split_first_chunk::<16>()?;
            let half = |at: usize| pair.get(at..at + 8)?.try_into().ok().map(i64::from_le_bytes);
            pairs.push((half(0)?, half(8)?));
            rest = behind;
        }
        let shape = pairs.first().copied().map(|(lb, extent)| Shape { lb, extent, runs: pairs.split_off(1) });
        Some(Message {
            kind: Kind::from_word(word(0)?)?,
            op: word(4)?,
            basic: word(8)?,
            id: word(12)?,
            disp: long(16)? as i64,
            count: long(24)?,
            start: long(32)?,
            bytes: long(40)?,
            shape,
            data: rest,
        })
    }

    /// The target's datatype.
    pub(super) fn datatype(&self) -> Result<Datatype> {
        match &self.shape {
            Some(shape) => shape.datatype(),
            None => predefined(self.basic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_parses_is_emitted_again(mut bytes in proptest::collection::vec(any::<u8>(), 0..160), runs in 0_u64..4) {
            if bytes.len() >= HEAD {
                bytes[0] %= 13;
                bytes[1..4].fill(0);
                bytes[48..56].copy_from_slice(&runs.to_le_bytes());
            }
            if let Some(message) = Message::parse(&bytes) {
                prop_assert_eq!(message.emit(), bytes.clone());
            }
        }

        #[test]
        fn every_message_survives_the_trip(
            op: u32, id: u32, disp: i64, count: u64, start: u64, bytes: u64,
            runs in proptest::option::of(proptest::collection::vec(any::<(i64, i64)>(), 0..5)),
            data in proptest::collection::vec(any::<u8>(), 0..20)
        ) {
            let shape = runs.map(|runs| Shape { lb: disp, extent: 7, runs });
            let message =
                Message { kind: Kind::GetAccumulate, op, basic: abi::MPI_INT, id, disp, count, start, bytes, shape, data: &data };
            let sent = message.emit();
            prop_assert_eq!(Message::parse(&sent), Some(message));
        }
    }

    #[test]
    fn a_shape_makes_a_type_with_the_same_runs() {
        let int = predefined(abi::MPI_INT).expect("predefined");
        let vector = Datatype::vector(3, 2, -4, &int, Form::Int).expect("legal");
        let shape = Shape::of(&vector).expect("derived");
        let again = shape.datatype().expect("legal");
        assert_eq!(Shape::of(&again), Some(shape));
        assert_eq!(again.bounds().extent, vector.bounds().extent);
        assert_eq!(again.span(5), vector.span(5));
    }
}
