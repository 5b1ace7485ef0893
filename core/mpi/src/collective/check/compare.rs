//! What fits and what does not, in words.

use super::Place;
use super::said::{Amount, Pairs, Reader, Record, Writer};
use weft_types::{Error, ErrorClass, Result};

/// `ibcast` as `MPI_Ibcast`.
fn procedure_name(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    format!("MPI_{}{}", first.map(String::from).unwrap_or_default(), letters.as_str())
}

/// Compares what all members said, in the order of their numbers; all find the same.
///
/// # Errors
/// `MPI_ERR_OTHER` for different procedures, `MPI_ERR_ROOT`, `MPI_ERR_OP`, `MPI_ERR_COUNT`, `MPI_ERR_TYPE`; the text names two
/// members and what each of them has.
pub(super) fn compare_records(records: &[Record], place: &Place) -> Result<()> {
    let Some(first) = records.first() else { return Ok(()) };
    let other = |differs: &dyn Fn(&Record) -> bool| {
        let found = (0..).zip(records).find(|(_, record)| differs(record));
        found.map(|(number, record)| (place.member(number), record))
    };
    let one = place.member(0);
    if let Some((who, record)) = other(&|record| record.procedure != first.procedure) {
        return Err(Error::new(
            ErrorClass::OTHER,
            format!(
                "{one} calls {} while {who} calls {} on {}: all members must make the same collective calls in the same order \
                 (section 6.14)",
                procedure_name(&first.procedure.text()),
                procedure_name(&record.procedure.text()),
                place.comm
            ),
        ));
    }
    let title = format!("{} on {}", procedure_name(&first.procedure.text()), place.comm);
    if let Some((who, record)) = other(&|record| record.root != first.root) {
        return Err(Error::new(
            ErrorClass::ROOT,
            format!("{title}: root is {} at {one}, but {} at {who}", first.root, record.root),
        ));
    }
    // Who neither gives nor takes (MPI_PROC_NULL as root) has none.
    let has_one = |record: &Record| !record.operation.is_empty();
    if let Some((speaker, said)) = other(&has_one)
        && let Some((who, record)) = other(&|record| has_one(record) && record.operation != said.operation)
    {
        let (mine, theirs) = (said.operation.text(), record.operation.text());
        return Err(Error::new(
            ErrorClass::OP,
            format!("{title}: op is {mine} at {speaker}, but {theirs} at {who}"),
        ));
    }
    if let Some((who, record)) = other(&|record| record.commutative != first.commutative) {
        let word = |commutative: u64| if commutative == 1 { "commutes" } else { "does not commute" };
        return Err(Error::new(
            ErrorClass::OP,
            format!(
                "{title}: the operation {} at {one}, but {} at {who}",
                word(first.commutative),
                word(record.commutative)
            ),
        ));
    }
    compare_amounts(records, &title, place)?;
    if let Some((who, _)) = other(&|record| record.counts != first.counts) {
        return Err(Error::new(
            ErrorClass::COUNT,
            format!("{title}: recvcounts are different at {one} and at {who}"),
        ));
    }
    Ok(())
}

fn compare_amounts(records: &[Record], title: &str, place: &Place) -> Result<()> {
    let all = (0..).zip(records).flat_map(|(number, record)| {
        let amounts = record.amounts.iter().flatten();
        amounts.map(move |amount| (number, amount))
    });
    let mut all = all.collect::<Vec<(u32, &Amount)>>().into_iter();
    let Some((one, first)) = all.next() else { return Ok(()) };
    match all.find(|(_, amount)| !amount.fits(first)) {
        None => Ok(()),
        Some((who, amount)) => {
            let texts = (first.text(), amount.text());
            let which = if one == who { " for the send and the receive argument" } else { "" };
            Err(Error::new(
                class_of(first, amount),
                format!(
                    "{title}: {} at {}, but {} at {}{which}",
                    texts.0,
                    place.member(one),
                    texts.1,
                    place.member(who)
                ),
            ))
        }
    }
}

fn class_of(one: &Amount, other: &Amount) -> ErrorClass {
    if one.bytes == other.bytes { ErrorClass::TYPE } else { ErrorClass::COUNT }
}

/// What a member found wrong with one of those it exchanges data with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Who gives and who expects; the same for "nothing wrong".
    pub(super) giver: u32,
    pub(super) taker: u32,
    pub(super) wrong: bool,
    pub(super) given: Option<Amount>,
    pub(super) expected: Option<Amount>,
}

impl Verdict {
    pub(super) const BYTES: usize = 3 * 8 + 2 * Amount::BYTES;

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.word(u64::from(self.wrong));
        to.word(u64::from(self.giver));
        to.word(u64::from(self.taker));
        Amount::write(self.given.as_ref(), &mut to);
        Amount::write(self.expected.as_ref(), &mut to);
        to.0
    }

    pub(super) fn parse_all(bytes: &[u8]) -> Vec<Verdict> {
        let one = |bytes: &[u8]| {
            let mut from = Reader(bytes);
            Verdict {
                wrong: from.word() == 1,
                giver: from.word() as u32,
                taker: from.word() as u32,
                given: Amount::read(&mut from),
                expected: Amount::read(&mut from),
            }
        };
        bytes.chunks_exact(Verdict::BYTES).map(one).collect()
    }
}

/// Compares what came from each member with what was expected of it. `members` are their numbers, `number` is the own one.
pub(super) fn compare_pairs(
    pairs: &Pairs,
    members: &[Option<u32>],
    number: u32,
    came: &[Option<Amount>],
) -> Verdict {
    let none = Verdict { giver: number, taker: number, wrong: false, given: None, expected: None };
    for ((member, given), expected) in members.iter().zip(came).zip(&pairs.expected) {
        let Some(giver) = *member else { continue };
        let fits = match (given, expected) {
            (Some(given), Some(expected)) => given.fits(expected),
            // No data and no argument are the same.
            (Some(only), None) | (None, Some(only)) => only.bytes == 0,
            (None, None) => true,
        };
        if !fits {
            return Verdict { giver, wrong: true, given: *given, expected: *expected, ..none };
        }
    }
    none
}

/// The first verdict that something is wrong, as an error.
///
/// # Errors
/// `MPI_ERR_COUNT`, `MPI_ERR_TYPE`, `MPI_ERR_ROOT`.
pub(super) fn judge(verdicts: &[Verdict], procedure: &str, place: &Place) -> Result<()> {
    let Some(verdict) = verdicts.iter().find(|verdict| verdict.wrong) else { return Ok(()) };
    let title = format!("{} on {}", procedure_name(procedure), place.comm);
    let (giver, taker) = (place.member(verdict.giver), place.member(verdict.taker));
    let (class, text) = match (&verdict.given, &verdict.expected) {
        (Some(given), Some(expected)) => (
            class_of(given, expected),
            format!("{giver} gives {taker} {}, which expects {}", given.text(), expected.text()),
        ),
        (Some(given), None) => {
            (ErrorClass::ROOT, format!("{giver} gives {taker} {}, which expects nothing of it", given.text()))
        }
        (_, Some(expected)) => (
            ErrorClass::ROOT,
            format!("{taker} expects {} of {giver}, which gives it nothing", expected.text()),
        ),
        (None, None) => return Ok(()),
    };
    Err(Error::new(class, format!("{title}: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_have_the_names_of_the_standard() {
        assert_eq!(procedure_name("ireduce_scatter_block"), "MPI_Ireduce_scatter_block");
        assert_eq!(procedure_name("neighbor_alltoallw_init"), "MPI_Neighbor_alltoallw_init");
    }
}
