//! Which collectives a provider runs, as data, and what it is asked to do for one of ours.
//!
//! What is asked of `fi_query_collective` becomes [`Abilities`], whose [`Abilities::digest`] the members of a communicator
//! compare: where it is the same, they give the same answers. [`Abilities::stages`] says by which calls of the provider a
//! collective is done.
//!
//! * All members get the same bits: fi_collective(3) does not say so of sums of floating-point numbers, whose order is the
//!   provider's, so such an allreduce is followed by a broadcast of what rank 0 got.
//! * A reduction to a root is an allreduce where the provider has no `fi_reduce` (none of the software providers has).
//! * Broadcasts are of bytes, of as many as make equal parts for all members where the provider takes that many: providers that
//!   send parts round (libfabric's own) write and read whole parts, also behind the end of what they were given. Where the
//!   provider names no limit for them, that of its reductions holds: messages beyond the eager ones break libfabric's own
//!   broadcast in every version that was tried.
#![forbid(unsafe_code)]

use crate::sys;
use weft_api::offload::{Arithmetic, Collective, Element, Operation, Outline, Refusal};

/// Longest operand in bytes that is handed over, whatever the provider takes: it is copied into registered memory and out of it.
pub const LONGEST: u64 = 1 << 20;

/// Longest broadcast of a provider that says neither how long broadcasts nor how long reductions may be.
const UNSAID: u64 = 8 << 10;

/// All operations, each with its number in libfabric.
const OPERATIONS: [(Operation, u32); 10] = [
    (Operation::Sum, sys::FI_SUM),
    (Operation::Prod, sys::FI_PROD),
    (Operation::Max, sys::FI_MAX),
    (Operation::Min, sys::FI_MIN),
    (Operation::Land, sys::FI_LAND),
    (Operation::Lor, sys::FI_LOR),
    (Operation::Lxor, sys::FI_LXOR),
    (Operation::Band, sys::FI_BAND),
    (Operation::Bor, sys::FI_BOR),
    (Operation::Bxor, sys::FI_BXOR),
];

/// All elements, each with its number in libfabric.
const ELEMENTS: [(Element, u32); 10] = [
    (Element::Signed(1), sys::FI_INT8),
    (Element::Signed(2), sys::FI_INT16),
    (Element::Signed(4), sys::FI_INT32),
    (Element::Signed(8), sys::FI_INT64),
    (Element::Unsigned(1), sys::FI_UINT8),
    (Element::Unsigned(2), sys::FI_UINT16),
    (Element::Unsigned(4), sys::FI_UINT32),
    (Element::Unsigned(8), sys::FI_UINT64),
    (Element::Float(4), sys::FI_FLOAT),
    (Element::Float(8), sys::FI_DOUBLE),
];

/// What `fi_query_collective` is asked: collective, operation and type, by libfabric's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// `FI_BARRIER` and such.
    pub collective: u32,
    /// `FI_SUM` and such; 0 where nothing is combined.
    pub operation: u32,
    /// `FI_DOUBLE` and such.
    pub datatype: u32,
}

/// What it answers where it has that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Most elements of one call; 0: it does not say.
    pub count: u64,
    /// Most members; 0: it does not say.
    pub members: u64,
}

/// A reduction that the provider has, and the most elements of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reduction {
    arithmetic: Arithmetic,
    most: u64,
}

impl Reduction {
    fn bytes(&self) -> u64 {
        self.most * u64::from(self.arithmetic.element.bytes())
    }
}

/// Which collectives a provider runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    barrier: bool,
    /// Most bytes of a broadcast.
    broadcast: Option<u64>,
    reduce: Vec<Reduction>,
    allreduce: Vec<Reduction>,
    /// Most members of a group.
    members: u64,
}

/// One call of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `fi_barrier`.
    Barrier,
    /// `fi_broadcast` of so many bytes from this rank.
    Broadcast {
        /// The root.
        root: u32,
        /// Bytes, perhaps more than there are: room for all of them is needed.
        bytes: u64,
    },
    /// `fi_reduce` to this rank.
    Reduce {
        /// The root.
        root: u32,
        /// Elements.
        count: u64,
        /// Type and operation.
        arithmetic: Arithmetic,
    },
    /// `fi_allreduce`.
    Allreduce {
        /// Elements.
        count: u64,
        /// Type and operation.
        arithmetic: Arithmetic,
    },
}

/// The calls by which a collective is done, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The first.
    pub first: Stage,
    /// Another one, on the first one's result.
    pub then: Option<Stage>,
}

/// libfabric's number of an operation.
pub fn operation_number(operation: Operation) -> u32 {
    OPERATIONS.iter().find(|(ours, _)| *ours == operation).expect("all are listed").1
}

/// libfabric's number of an element; `None`: it has no such type.
pub fn element_number(element: Element) -> Option<u32> {
    ELEMENTS.iter().find(|(ours, _)| *ours == element).map(|found| found.1)
}

impl Abilities {
    /// Asks for everything that is of use here.
    pub fn ask(mut query: impl FnMut(Question) -> Option<Answer>) -> Abilities {
        let mut members = u64::MAX;
        let mut ask = |collective, operation, datatype| {
            let answer = query(Question { collective, operation, datatype })?;
            if answer.members != 0 {
                members = members.min(answer.members);
            }
            Some(if answer.count == 0 { u64::MAX } else { answer.count })
        };
        let barrier = ask(sys::FI_BARRIER, 0, sys::FI_VOID).is_some();
        let broadcast = ask(sys::FI_BROADCAST, 0, sys::FI_UINT8);
        let mut reductions = |collective| {
            let mut found = Vec::new();
            for (operation, op) in OPERATIONS {
                for (element, datatype) in ELEMENTS {
                    if let Some(most) = ask(collective, op, datatype) {
                        let most = most.min(LONGEST / u64::from(element.bytes()));
                        found.push(Reduction { arithmetic: Arithmetic { operation, element }, most });
                    }
                }
            }
            found
        };
        let (reduce, allreduce): (Vec<Reduction>, Vec<Reduction>) =
            (reductions(sys::FI_REDUCE), reductions(sys::FI_ALLREDUCE));
        let said = reduce.iter().chain(&allreduce).map(Reduction::bytes).max();
        let broadcast =
            broadcast.map(|most| if most == u64::MAX { said.unwrap_or(UNSAID) } else { most }.min(LONGEST));
        Abilities { barrier, broadcast, reduce, allreduce, members }
    }

    /// Whether there is nothing that the provider runs.
    pub fn is_empty(&self) -> bool {
        !self.barrier && self.broadcast.is_none() && self.reduce.is_empty() && self.allreduce.is_empty()
    }

    /// Whether groups of so many may be made.
    pub fn allows(&self, members: u32) -> bool {
        !self.is_empty() && u64::from(members) <= self.members
    }

    /// A number that stands for all of this and for the provider; never 0.
    pub fn digest(&self, provider: &str) -> u64 {
        // FNV-1a, because it is the same in every process.
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        for byte in format!("{provider} {self:?}").bytes() {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        digest | 1
    }

    /// The calls by which a collective is done.
    ///
    /// # Errors
    /// Why the engine does it; the same at all members, since nothing but the outline decides.
    pub fn stages(&self, outline: &Outline) -> Result<Stages, Refusal> {
        if outline.ranks < 2 {
            return Err(Refusal::Alone);
        }
        let only = |first| Stages { first, then: None };
        match (outline.collective, outline.arithmetic) {
            (Collective::Barrier, _) if self.barrier => Ok(only(Stage::Barrier)),
            (Collective::Barrier, _) => Err(Refusal::Missing("barrier")),
            _ if outline.bytes == 0 => Err(Refusal::Nothing),
            (Collective::Bcast(root), _) => self.broadcast(root, outline).map(only),
            (_, None) => Err(Refusal::UnknownArithmetic),
            (Collective::Reduce(root), Some(arithmetic)) => {
                match fitting(&self.reduce, arithmetic, outline.bytes) {
                    Ok(count) => Ok(only(Stage::Reduce { root, count, arithmetic })),
                    Err(_) => self.allreduce(arithmetic, outline).map(only),
                }
            }
            (Collective::Allreduce, Some(arithmetic)) => {
                let first = self.allreduce(arithmetic, outline)?;
                let floating = matches!(arithmetic.element, Element::Float(_));
                let then = floating.then(|| self.broadcast(0, outline)).transpose()?;
                Ok(Stages { first, then })
            }
        }
    }

    fn broadcast(&self, root: u32, outline: &Outline) -> Result<Stage, Refusal> {
        let limit = self.broadcast.ok_or(Refusal::Missing("broadcast"))?;
        // The provider writes whole parts, one for each member, also behind an end between them.
        let bytes = outline.bytes.next_multiple_of(u64::from(outline.ranks));
        if bytes > limit {
            return Err(Refusal::TooLong {
                limit: limit / u64::from(outline.ranks) * u64::from(outline.ranks),
            });
        }
        Ok(Stage::Broadcast { root, bytes })
    }

    fn allreduce(&self, arithmetic: Arithmetic, outline: &Outline) -> Result<Stage, Refusal> {
        let count = fitting(&self.allreduce, arithmetic, outline.bytes)?;
        Ok(Stage::Allreduce { count, arithmetic })
    }

    /// In words, for people.
    pub fn describe(&self) -> String {
        let mut what = Vec::new();
        if self.barrier {
            what.push("barrier".to_owned());
        }
        if let Some(bytes) = self.broadcast {
            what.push(format!("broadcast of {bytes} bytes"));
        }
        for (name, reductions) in [("reduce", &self.reduce), ("allreduce", &self.allreduce)] {
            let longest = reductions.iter().map(Reduction::bytes).max();
            if let Some(longest) = longest {
                what.push(format!("{name} of {longest} bytes ({} operations on types)", reductions.len()));
            }
        }
        what.join(", ")
    }
}

/// The number of elements, if the provider has the reduction and takes that many.
fn fitting(reductions: &[Reduction], arithmetic: Arithmetic, bytes: u64) -> Result<u64, Refusal> {
    let element = u64::from(arithmetic.element.bytes());
    let found = reductions.iter().find(|one| one.arithmetic == arithmetic);
    let most = found.ok_or(Refusal::Arithmetic(arithmetic))?.most;
    let count = bytes / element;
    if count > most {
        return Err(Refusal::TooLong { limit: most * element });
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: Arithmetic = Arithmetic { operation: Operation::Sum, element: Element::Float(8) };
    const BITS: Arithmetic = Arithmetic { operation: Operation::Bor, element: Element::Unsigned(4) };

    /// As libfabric's own software does: no `fi_reduce`, 2036 elements of 8 bytes.
    fn software() -> Abilities {
        Abilities::ask(|question| match question.collective {
            sys::FI_BARRIER | sys::FI_BROADCAST => Some(Answer { count: 0, members: 1 << 31 }),
            sys::FI_ALLREDUCE => {
                let is_float = matches!(question.datatype, sys::FI_FLOAT | sys::FI_DOUBLE);
                let of_bits = matches!(question.operation, sys::FI_BOR | sys::FI_BAND | sys::FI_BXOR);
                (!is_float || !of_bits).then_some(Answer { count: 2036, members: 1 << 31 })
            }
            _ => None,
        })
    }

    /// As an adapter with a unit of a few words: everything, 32 bytes, 64 members.
    fn device() -> Abilities {
        Abilities::ask(|question| match question.collective {
            sys::FI_BROADCAST => Some(Answer { count: 32, members: 64 }),
            _ => Some(Answer { count: 4, members: 64 }),
        })
    }

    fn outline(collective: Collective, bytes: u64, arithmetic: Option<Arithmetic>) -> Outline {
        Outline { collective, ranks: 5, bytes, arithmetic }
    }

    #[test]
    fn floating_sums_are_broadcast_so_that_all_have_the_same_bits() {
        let sum = software().stages(&outline(Collective::Allreduce, 24, Some(SUM))).unwrap();
        assert_eq!(sum.first, Stage::Allreduce { count: 3, arithmetic: SUM });
        assert_eq!(sum.then, Some(Stage::Broadcast { root: 0, bytes: 25 }));
        let bits = software().stages(&outline(Collective::Allreduce, 24, Some(BITS))).unwrap();
        assert_eq!(bits, Stages { first: Stage::Allreduce { count: 6, arithmetic: BITS }, then: None });
    }

    #[test]
    fn a_provider_without_reduce_does_an_allreduce() {
        let reduce = outline(Collective::Reduce(3), 8, Some(SUM));
        assert_eq!(software().stages(&reduce).unwrap().first, Stage::Allreduce { count: 1, arithmetic: SUM });
        let with = device().stages(&reduce).unwrap();
        assert_eq!(with, Stages { first: Stage::Reduce { root: 3, count: 1, arithmetic: SUM }, then: None });
    }

    #[test]
    fn broadcasts_are_of_equal_parts() {
        let bytes =
            |abilities: Abilities, bytes| abilities.stages(&outline(Collective::Bcast(2), bytes, None));
        assert_eq!(bytes(software(), 7).unwrap().first, Stage::Broadcast { root: 2, bytes: 10 });
        assert_eq!(bytes(device(), 30).unwrap().first, Stage::Broadcast { root: 2, bytes: 30 });
        assert_eq!(
            bytes(device(), 31),
            Err(Refusal::TooLong { limit: 30 }),
            "the parts of 5 would be 35 bytes"
        );
        assert_eq!(bytes(software(), 0), Err(Refusal::Nothing));
    }

    #[test]
    fn what_is_refused_says_why() {
        let of = |abilities: &Abilities, bytes, arithmetic| {
            abilities.stages(&outline(Collective::Allreduce, bytes, Some(arithmetic)))
        };
        assert_eq!(of(&software(), 2037 * 8, SUM), Err(Refusal::TooLong { limit: 2036 * 8 }));
        let bor = Arithmetic { element: Element::Float(8), ..BITS };
        assert_eq!(of(&software(), 8, bor), Err(Refusal::Arithmetic(bor)));
        let wide = Arithmetic { element: Element::Signed(16), ..SUM };
        assert_eq!(of(&device(), 16, wide), Err(Refusal::Arithmetic(wide)));
        let nothing = Abilities::ask(|_| None);
        assert!(nothing.is_empty() && !nothing.allows(2));
        assert_eq!(nothing.stages(&outline(Collective::Barrier, 0, None)), Err(Refusal::Missing("barrier")));
        let alone = Outline { ranks: 1, ..outline(Collective::Barrier, 0, None) };
        assert_eq!(device().stages(&alone), Err(Refusal::Alone));
    }

    #[test]
    fn groups_have_as_many_members_as_the_provider_allows() {
        assert!(device().allows(64) && !device().allows(65) && software().allows(1 << 20));
    }

    #[test]
    fn the_same_abilities_of_the_same_provider_have_the_same_digest() {
        assert_eq!(device().digest("a"), device().digest("a"));
        assert_ne!(device().digest("a"), device().digest("b"));
        assert_ne!(device().digest("a"), software().digest("a"));
    }
}
