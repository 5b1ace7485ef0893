//! The values of options: how each kind is read, and what is said when it cannot be.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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

/// What a host may look like, for whoever wrote something else.
const A_HOST: &str = "a host is NAME or NAME:RANKS, with an IPv6 address in brackets ([fe80::1]:4)";

/// The host in `name`, `name:slots`, or with an IPv6 address in brackets. `place`: where it stands.
fn host_of(item: &str, place: &dyn Fn() -> String) -> Result<NamedHost, UsageError> {
    let (name, rest) = match item.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, rest)) if rest.starts_with(':') => (address, Some(&rest[1..])),
        Some(_) => ("", None),
        None => item.split_once(':').map_or((item, None), |(name, rest)| (name, Some(rest))),
    };
    if name.is_empty() || name.contains(['[', ']', '=']) {
        return Err(usage(format!("{}: {item:?} names no host; {A_HOST}", place())));
    }
    let slots = rest.map(|rest| slots_of(rest, item, place)).transpose()?;
    Ok(NamedHost { name: name.to_owned(), slots })
}

/// The number of ranks that a host takes; `item`: what it is a part of.
fn slots_of(text: &str, item: &str, place: &dyn Fn() -> String) -> Result<u32, UsageError> {
    text.parse().map_err(|_| {
        let what = match text.contains(':') {
            true => A_HOST,
            false => "the ranks that a host takes are a whole number of 0 or more, as in a:4 or a slots=4",
        };
        usage(format!("{}: {text:?} in {item:?} is no number of ranks; {what}", place()))
    })
}

/// The hosts of a list with commas, the value of an option.
///
/// Errors: something that is no host, or no number of ranks.
pub(crate) fn hosts_in_list(word: &OsStr, list: &str) -> Result<Vec<NamedHost>, UsageError> {
    let place = || word.to_string_lossy().into_owned();
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(|item| host_of(item, &place)).collect()
}

/// Open MPI's bound of a host's ranks where there are more than slots: nobody asks for it here, and files that are shared have it.
const OF_OTHERS: [&str; 2] = ["max_slots", "max-slots"];

/// The hosts of the host file at `path`, one a line: `name`, `name:4` or `name slots=4`.
///
/// Errors: something that is no host, no number of ranks, or no word known there; with the line.
pub(crate) fn hosts_in_file(path: &Path, text: &str) -> Result<Vec<NamedHost>, UsageError> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = || format!("line {number} of the host file {}", path.display());
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(first) = words.next() else { continue };
        let mut host = host_of(first, &place)?;
        let mut given = None;
        for word in words {
            match word.split_once('=') {
                // The first counts.
                Some(("slots", slots)) => given = given.or(Some(slots_of(slots, word, &place)?)),
                Some((key, _)) if OF_OTHERS.contains(&key) => {}
                _ => {
                    return Err(usage(format!(
                        "{}: {word:?} is not understood behind the host {}; slots=RANKS may stand there, and # before a comment",
                        place(),
                        host.name
                    )));
                }
            }
        }
        host.slots = given.or(host.slots);
        hosts.push(host);
    }
    Ok(hosts)
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
