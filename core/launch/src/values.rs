//! The values of options: how each kind is read, and what is said when it cannot be.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::command_line::{MAX_RANKS, UsageError, usage};
use crate::hosts::dealing::NamedHost;

/// A number of processes.
pub(crate) fn count(word: &OsStr, value: &OsStr) -> Result<u32, UsageError> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        usage(format!("{} needs a number of processes, not {:?}", word.display(), value.to_string_lossy()))
    })
}

/// A number of seconds above 0.
pub(crate) fn seconds(word: &str, value: &OsStr) -> Result<Duration, UsageError> {
    let number = value.to_str().and_then(|text| text.parse::<f64>().ok());
    number
        .filter(|number| *number > 0.0)
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or_else(|| {
            usage(format!("{word} needs a number of seconds above 0, not {:?}", value.to_string_lossy()))
        })
}

/// A variable of the environment and its value.
pub(crate) fn variable(
    word: &OsStr,
    name: &OsStr,
    value: &OsStr,
) -> Result<(OsString, OsString), UsageError> {
    match name.is_empty() || name.as_bytes().contains(&b'=') {
        true => Err(usage(format!(
            "{} needs a variable's name and its value, and {:?} is no name",
            word.display(),
            name.to_string_lossy()
        ))),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

/// The host in `name`, `name:slots`, or with an IPv6 address in brackets.
fn host_of(item: &str) -> NamedHost {
    let (name, rest) = match item.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest.strip_prefix(':')),
        None => item.split_once(':').map_or((item, None), |(name, rest)| (name, Some(rest))),
    };
    NamedHost { name: name.to_owned(), slots: rest.and_then(|slots| slots.parse().ok()) }
}

/// The hosts of a list with commas.
pub(crate) fn hosts_in_list(list: &str) -> Vec<NamedHost> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(host_of).collect()
}

/// The hosts of a host file, one a line: `name`, `name:4` or `name slots=4`.
pub(crate) fn hosts_in_file(text: &str) -> Vec<NamedHost> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let host = |line: &str| {
        let mut words = line.split_whitespace();
        let mut host = host_of(words.next()?);
        let slots = words.find_map(|word| word.strip_prefix("slots=")?.parse().ok());
        host.slots = slots.or(host.slots);
        Some(host)
    };
    lines.filter_map(host).collect()
}

/// One of the names of an initial error handler (MPI 4.1 section 11.8.4), lower case.
pub(crate) fn error_handler(name: &str) -> Result<String, UsageError> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "mpi_errors_are_fatal" | "mpi_errors_abort" | "mpi_errors_return" => Ok(lower),
        _ => Err(usage(format!(
            "the initial error handler is mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return, not {name:?}"
        ))),
    }
}

/// The counts a `-soft` list allows: items `a`, `a:b` or `a:b:step`, separated by commas (MPI 4.1 section 11.8.4).
pub(crate) fn soft_counts(word: &OsStr, value: &OsStr) -> Result<Vec<u32>, UsageError> {
    let bad =
        || usage(format!("{} needs a list like 2,4:16:4, not {:?}", word.display(), value.to_string_lossy()));
    let mut counts = Vec::new();
    for item in value.to_str().ok_or_else(bad)?.split(',') {
        let numbers = item.split(':').map(|number| number.parse::<i64>().map_err(|_| bad()));
        let numbers = numbers.collect::<Result<Vec<i64>, UsageError>>()?;
        let (first, last, step) = match numbers[..] {
            [only] => (only, only, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(bad()),
        };
        let inside = |count: &i64| if step > 0 { *count <= last } else { *count >= last };
        let steps = std::iter::successors(Some(first), |count| count.checked_add(step)).take_while(inside);
        // Only as many as can matter: the counts are bounded by the job's.
        counts.extend(steps.take(2 * MAX_RANKS as usize).filter_map(|count| u32::try_from(count).ok()));
    }
    Ok(counts)
}

/// One of the standard's thread levels by its name, in any case.
pub(crate) fn thread_level(name: &str) -> Result<String, UsageError> {
    const LEVELS: [&str; 4] =
        ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];
    match LEVELS.iter().find(|level| level.eq_ignore_ascii_case(name)) {
        Some(level) => Ok((*level).to_owned()),
        None => Err(usage(format!("the thread level is one of {}, not {name:?}", LEVELS.join(", ")))),
    }
}

/// The architecture asked for, which must be this machine's.
pub(crate) fn architecture(asked: &str, here: &str) -> Result<String, UsageError> {
    match asked.eq_ignore_ascii_case(here) {
        true => Ok(asked.to_owned()),
        false => Err(usage(format!(
            "a machine of architecture {asked:?} is asked for (-arch); this one is {here}"
        ))),
    }
}

/// The name of a process set: a URI outside the namespaces of the standard and of Weft (MPI 4.1 section 11.3.2).
pub(crate) fn pset(name: &str) -> Result<String, UsageError> {
    /// MPI_MAX_PSET_NAME_LEN counts the NUL.
    const MOST: usize = 1023;
    let (scheme, rest) = name.split_once("://").unwrap_or_default();
    let sound = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
        && !rest.is_empty()
        && rest.chars().all(|letter| letter.is_ascii_graphic())
        && name.len() <= MOST;
    let taken = ["mpi", "weft"].iter().any(|taken| scheme.eq_ignore_ascii_case(taken));
    match sound && !taken {
        true => Ok(name.to_owned()),
        false => Err(usage(format!(
            "the name of a process set (-pset) is a URI like app://ocean, not {name:?}; mpi:// and weft:// are taken"
        ))),
    }
}
