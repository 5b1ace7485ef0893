//! Who changes an element of a window: its owner's process, or its owner's device.
//!
//! Accumulating operations are atomic for each element against all others of the same predefined type on it (sections 12.3.4 and
//! 12.7.1), whoever begins them and whichever way they go. By default a program may mix one operation with `MPI_NO_OP` only
//! (`accumulate_ops`, section 12.2.1), but this rule asks nothing of the program: any of them may meet any other, compare and swap
//! included, and messages may meet devices.
//!
//! ```text
//! the owner says         others, an element of eight aligned bytes         the owner, for messages and its own operations
//! Changes::None          by message                                        one after another
//! Changes::InCalls       sums of integers, looks, swaps by its device;     one after another: the device does nothing meanwhile
//!                        all else by message
//! Changes::AtAnyMoment   the same                                          elements of eight aligned bytes each in one step of the
//!                                                                          processor, whatever their type and the operation; others
//!                                                                          one after another: no device changes them
//! Changes::Alone         the same                                          elements of eight aligned bytes by the same device, whatever
//!                                                                          their type and the operation: what it has no atomic for by
//!                                                                          a look and swaps until one succeeds; others one after
//!                                                                          another: no device changes them
//! ```
//!
//! *Devices whose atomics are atomic among themselves alone* (`IBV_ATOMIC_HCA`, and not by the bus's atomics) are `Changes::Alone`, or
//! `Changes::None` where the owner does not wish it or its device does not reach itself: a processor that stores a minimum, a product
//! or what replaces the element between the two halves of such an atomic is overwritten. Restricting the operations does not help,
//! since sums of several elements, and those of the owner and of its neighbours in the node, are sums too. So there the processor
//! stores into no element of eight aligned bytes at all: it asks its device, and a look of its own is a guess that a swap confirms.
//!
//! The address decides, and the size of the elements, which are the same for everybody who names the element by one type: so no two
//! of them come to different answers. What is not aligned is no device's. Elements that overlap otherwise, as four bytes and the eight
//! that they are half of, may meet in no defined way: *the outcome of accumulate operations with overlapping types of different sizes
//! or target displacements is undefined* (section 12.7.1), at the same time or without synchronisation between. After that the process
//! sees what the device has done, as with a put.

use weft_datatype::{Datatype, PredefinedOp};
use weft_engine::Changes;

/// What an accumulating operation does to an element, as far as devices tell operations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// `MPI_SUM`
    Add,
    /// `MPI_NO_OP`
    Look,
    /// `MPI_Compare_and_swap`
    Swap,
    /// Anything else: `MPI_REPLACE` too, as a put is no atomic.
    Other,
}

impl Deed {
    pub(super) const fn of(op: PredefinedOp) -> Deed {
        match op {
            PredefinedOp::Sum => Deed::Add,
            PredefinedOp::NoOp => Deed::Look,
            _ => Deed::Other,
        }
    }
}

/// An element, as everybody sees it who names it by the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Whether it has eight bytes, without gaps.
    pub(super) is_long: bool,
    /// Whether it is an integer, of which sums wrap alike with and without a sign.
    pub(super) is_integer: bool,
    /// Whether its address is a multiple of eight.
    pub(super) is_aligned: bool,
}

impl Element {
    /// One of a predefined type.
    pub(super) fn of(basic: &Datatype, address: u64) -> Element {
        use weft_datatype::Class::{CInteger, FortranInteger, MultiLanguage};
        let class = basic.as_predefined().map(|basic| basic.class());
        Element {
            is_long: is_long(basic),
            is_integer: matches!(class, Some(CInteger | FortranInteger | MultiLanguage)),
            is_aligned: address.is_multiple_of(8),
        }
    }

    /// Whether others have the owner's device do it, where that `changes` so much.
    pub(super) const fn is_for_device(self, deed: Deed, changes: Changes) -> bool {
        let can = match deed {
            Deed::Add => self.is_integer,
            Deed::Look | Deed::Swap => true,
            Deed::Other => false,
        };
        can && self.is_long && self.is_aligned && !matches!(changes, Changes::None)
    }

    /// Who does it at the owner, for messages and its own operations.
    pub(super) const fn by_owner(self, changes: Changes) -> Owner {
        match (self.is_long && self.is_aligned, changes) {
            (true, Changes::AtAnyMoment) => Owner::Step,
            (true, Changes::Alone) => Owner::Device,
            _ => Owner::Process,
        }
    }
}

/// Who changes an element of an owner, whatever the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Its process, one operation after another.
    Process,
    /// The same, each element in one step of the processor.
    Step,
    /// Its device, where others have theirs done.
    Device,
}

/// Whether elements of a predefined type have eight bytes, without gaps.
pub(super) fn is_long(basic: &Datatype) -> bool {
    basic.element_bytes() == 8 && basic.is_contiguous()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::message::predefined;
    use weft_types::abi;

    const DEEDS: [Deed; 4] = [Deed::Add, Deed::Look, Deed::Swap, Deed::Other];
    const CHANGES: [Changes; 4] = [Changes::None, Changes::InCalls, Changes::AtAnyMoment, Changes::Alone];

    fn elements() -> impl Iterator<Item = Element> {
        (0..8_u8).map(|bits| Element {
            is_long: bits & 1 != 0,
            is_integer: bits & 2 != 0,
            is_aligned: bits & 4 != 0,
        })
    }

    /// The table of the module, of an aligned element: by which types and operations devices are asked.
    #[test]
    fn devices_are_asked_for_what_they_can() {
        let table = [
            (abi::MPI_INT64_T, "sum look swap"),
            (abi::MPI_UNSIGNED_LONG, "sum look swap"),
            (abi::MPI_AINT, "sum look swap"),
            (abi::MPI_DOUBLE, "look swap"),
            (abi::MPI_2INT, "look swap"),
            (abi::MPI_INT, ""),
            (abi::MPI_BYTE, ""),
        ];
        for (handle, said) in table {
            let basic = predefined(handle).expect("predefined");
            let element = Element::of(&basic, 64);
            let asked = |deed| element.is_for_device(deed, Changes::AtAnyMoment);
            let deeds =
                [(Deed::Add, "sum"), (Deed::Look, "look"), (Deed::Swap, "swap"), (Deed::Other, "other")];
            for (deed, name) in deeds {
                assert_eq!(asked(deed), said.contains(name), "{name} of {}", basic.default_name());
            }
            assert!(!Element::of(&basic, 68).is_for_device(Deed::Look, Changes::InCalls), "not aligned");
        }
        let ops = [PredefinedOp::Sum, PredefinedOp::NoOp, PredefinedOp::Replace, PredefinedOp::Max];
        assert_eq!(ops.map(Deed::of), [Deed::Add, Deed::Look, Deed::Other, Deed::Other]);
    }

    /// How an operation changes an element: as [`Owner`], and by the device of the owner that somebody else asks.
    fn ways(element: Element, changes: Changes) -> Vec<(&'static str, Owner)> {
        let mut ways = vec![("the owner", element.by_owner(changes))];
        for deed in DEEDS {
            ways.push(match element.is_for_device(deed, changes) {
                true => ("another", Owner::Device),
                // By message.
                false => ("the owner for another", element.by_owner(changes)),
            });
        }
        ways
    }

    /// What such a device promises, and nothing else: of its own operations that they exclude each other, of others what it says.
    fn excludes(one: Owner, other: Owner, changes: Changes) -> bool {
        match (one, other) {
            (Owner::Device, Owner::Device) => changes != Changes::None,
            (Owner::Device, Owner::Step) | (Owner::Step, Owner::Device) => changes == Changes::AtAnyMoment,
            (Owner::Device, Owner::Process) | (Owner::Process, Owner::Device) => changes == Changes::InCalls,
            // One after another.
            (Owner::Process | Owner::Step, Owner::Process | Owner::Step) => true,
        }
    }

    /// Any two operations of one type on one element, whoever begins them: no two ways that they go are without exclusion.
    #[test]
    fn no_two_ways_to_an_element_are_without_exclusion() {
        let (mut met, mut by_device) = (0, 0);
        for (element, changes) in elements().flat_map(|element| CHANGES.map(|changes| (element, changes))) {
            let ways = ways(element, changes);
            for &(one, way) in &ways {
                for &(another, other) in &ways {
                    assert!(
                        excludes(way, other, changes),
                        "{one} by {way:?} and {another} by {other:?}: {element:?} of {changes:?}"
                    );
                    met += 1;
                }
                by_device += usize::from(way == Owner::Device);
            }
        }
        assert_eq!(met, 8 * 4 * 25);
        // Sums of integers, looks and swaps of both kinds of long aligned elements, and where the owner has no other way everything.
        assert_eq!(by_device, 5 + 5 + (5 + 5));
    }

    /// What is no aligned number of eight bytes is never a device's, by whomever.
    #[test]
    fn devices_change_long_aligned_elements_alone() {
        for (element, changes) in elements().flat_map(|element| CHANGES.map(|changes| (element, changes))) {
            let by_device = ways(element, changes).iter().any(|&(_, way)| way == Owner::Device);
            let can = element.is_long && element.is_aligned && changes != Changes::None;
            assert_eq!(by_device, can, "{element:?} of {changes:?}");
        }
    }
}
