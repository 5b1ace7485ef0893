//! What `.TRUE.` and `.FALSE.` are in memory, which is the Fortran compiler's choice: the library is told, or takes 1 and 0.

use std::sync::OnceLock;

/// The literals of one size of LOGICAL, as their bytes lie in memory. What is beyond the size is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booleans {
    size: usize,
    yes: [u8; 16],
    no: [u8; 16],
}

/// Those of this process; they are told once.
static TOLD: OnceLock<Booleans> = OnceLock::new();

impl Booleans {
    /// The literals `yes` and `no`; `None` unless both have one length of 1, 2, 4, 8 or 16 bytes.
    pub fn new(yes: &[u8], no: &[u8]) -> Option<Booleans> {
        if yes.len() != no.len() || !matches!(yes.len(), 1 | 2 | 4 | 8 | 16) {
            return None;
        }
        let mut booleans = Booleans { size: yes.len(), yes: [0; 16], no: [0; 16] };
        booleans.yes[..yes.len()].copy_from_slice(yes);
        booleans.no[..no.len()].copy_from_slice(no);
        Some(booleans)
    }

    /// Has this process's reductions on `MPI_LOGICAL` and its sizes use them from now on; false, and nothing is changed, where
    /// some were told before (`MPI_Abi_set_fortran_booleans`, MPI 5.0 chapter 20: only the first call has an effect).
    pub fn tell(self) -> bool {
        TOLD.set(self).is_ok()
    }

    /// What this process was told.
    pub fn told() -> Option<Booleans> {
        TOLD.get().copied()
    }

    /// Bytes of a LOGICAL whose literals these are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// `.TRUE.`
    pub fn yes(&self) -> &[u8] {
        &self.yes[..self.size]
    }

    /// `.FALSE.`
    pub fn no(&self) -> &[u8] {
        &self.no[..self.size]
    }
}

/// `.TRUE.` and `.FALSE.` as numbers: a LOGICAL of another size than the one told of holds the same numbers, as with every
/// compiler that is known (1 and 0, or -1 and 0).
pub(crate) fn numbers() -> (i128, i128) {
    match TOLD.get() {
        Some(told) => (number(told.yes()), number(told.no())),
        None => (1, 0),
    }
}

fn number(bytes: &[u8]) -> i128 {
    macro_rules! signed {
        ($($integer:ty)*) => {
            match bytes.len() {
                $(n if n == size_of::<$integer>() => {
                    <$integer>::from_ne_bytes(bytes.try_into().expect("as many bytes")) as i128
                })*
                _ => unreachable!("`Booleans::new` takes no other sizes"),
            }
        };
    }
    signed!(i8 i16 i32 i64 i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_of_one_size_that_exists() {
        assert!(Booleans::new(&[1, 0], &[0]).is_none());
        assert!(Booleans::new(&[1, 0, 0], &[0, 0, 0]).is_none());
        assert!(Booleans::new(&[], &[]).is_none());
        let known = Booleans::new(&[255, 255], &[0, 0]).unwrap();
        assert_eq!((known.size(), known.yes(), known.no()), (2, &[255_u8, 255][..], &[0_u8, 0][..]));
    }

    #[test]
    fn a_literal_is_the_same_number_in_every_size() {
        assert_eq!(number(&(-1_i8).to_ne_bytes()), -1);
        assert_eq!(number(&(-1_i32).to_ne_bytes()), -1);
        assert_eq!(number(&1_i64.to_ne_bytes()), 1);
        assert_eq!(number(&i128::MIN.to_ne_bytes()), i128::MIN);
    }
}
