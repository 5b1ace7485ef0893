//! Sets of logical CPUs and their list notation (`0-3,8`), the one the kernel uses in /sys, cgroups and
//! `Cpus_allowed_list`.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// Logical CPUs above this number are refused: far beyond every machine, small enough that a mistyped range
/// cannot fill the memory.
pub const MAX_CPU: usize = 65_535;

/// A set of logical CPU numbers, kept ascending and without repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(Vec<usize>);

impl CpuSet {
    /// The empty set.
    pub const fn new() -> CpuSet {
        CpuSet(Vec::new())
    }

    /// Whether `cpu` is a member.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The members of both.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.iter().copied().filter(|&cpu| other.contains(cpu)).collect())
    }

    /// The members of either.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.iter().chain(other.iter()).copied().collect()
    }

    /// Whether every member is in `other` too.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.0.iter().all(|&cpu| other.contains(cpu))
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut list: Vec<usize> = cpus.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        CpuSet(list)
    }
}

impl Deref for CpuSet {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|&(&cpu, expected)| cpu == expected).count();
            match run {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", first + run - 1)?,
            }
            separator = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// Why a CPU list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError(String);

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CpuListError {}

impl FromStr for CpuSet {
    type Err = CpuListError;

    /// Reads `0-3,8`; blanks around items and an empty list are allowed, as the kernel writes them.
    fn from_str(text: &str) -> Result<CpuSet, CpuListError> {
        let mut cpus = Vec::new();
        for item in text.trim().split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (first, last) = match item.split_once('-') {
                Some((first, last)) => (number(first, text)?, number(last, text)?),
                None => {
                    let cpu = number(item, text)?;
                    (cpu, cpu)
                }
            };
            if first > last {
                return Err(CpuListError(format!(
                    "the range {item:?} of the CPU list {text:?} runs backwards"
                )));
            }
            cpus.extend(first..=last);
        }
        Ok(cpus.into_iter().collect())
    }
}

fn number(digits: &str, whole: &str) -> Result<usize, CpuListError> {
    digits.trim().parse().ok().filter(|&cpu| cpu <= MAX_CPU).ok_or_else(|| {
        CpuListError(format!("{digits:?} in the CPU list {whole:?} is not a CPU number (0 to {MAX_CPU})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        let read = |text: &str| text.parse::<CpuSet>().map(|set| set.to_vec());
        assert_eq!(read("0-3,8\n"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(read("5"), Ok(vec![5]));
        assert!(read("3-1").is_err());
        assert!(read("a").is_err());
        assert!(read("0-99999999999").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(cpus in prop::collection::vec(0usize..200, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
