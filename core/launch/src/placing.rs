//! How many threads each program's ranks have, as far as placement asks: `--threads`, and what other launchers' users write instead.

use std::ffi::OsStr;
use std::str::FromStr;

use weft_place::policy::BindTo;

use crate::command_line::{UsageError, usage};
use crate::options::{Section, Settings};
use crate::plan;

/// More threads of a rank than this are taken for a slip of the finger.
const MOST: u32 = 4096;

/// The variable by which OpenMP programs are told their number of threads.
const OPENMP: &str = "OMP_NUM_THREADS";

/// Threads of each rank of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// As many.
    Number(u32),
    /// As many as `OMP_NUM_THREADS` says in the ranks' environment.
    OpenMp,
}

/// The value of `--threads`: a number of threads, or `omp`.
pub(crate) fn threads(word: &str, value: &str) -> Result<Threads, UsageError> {
    match (value.parse(), value) {
        (Ok(number @ 1..=MOST), _) => Ok(Threads::Number(number)),
        (_, "omp") => Ok(Threads::OpenMp),
        _ => Err(usage(format!(
            "{word} needs a number of threads of each rank, 1 to {MOST}, or omp for what {OPENMP} says, not {value:?}"
        ))),
    }
}

/// A place, and how many cores there each rank takes: `core`, `core:4` (Hydra's form) or `core:PE=4` (Open MPI's).
pub(crate) fn place<T: FromStr<Err = String>>(
    word: &str,
    value: &str,
) -> Result<(T, Option<Threads>), UsageError> {
    let (place, cores) = value.split_once(':').map_or((value, None), |(place, cores)| (place, Some(cores)));
    let number = |cores: &str| {
        let digits = cores.split_at_checked(3).filter(|(key, _)| key.eq_ignore_ascii_case("pe="));
        threads(word, digits.map_or(cores, |(_, digits)| digits))
    };
    Ok((place.parse().map_err(UsageError)?, cores.map(number).transpose()?))
}

/// Settles how many threads the ranks of each program have: its own number, or the job's, or what its variable says; one, where only
/// other programs say something.
///
/// Errors: `omp` without a variable that says a number, or threads that are to be bound where nobody said how many there are.
pub(crate) fn settle(sections: &mut [Section], settings: &Settings) -> Result<(), UsageError> {
    let inherited = plan::inherited_environment(settings.bare_environment);
    for section in &mut *sections {
        section.threads = section.threads.or(settings.threads);
        if section.threads == Some(Threads::OpenMp) {
            let number = openmp(section, settings, &inherited).ok_or_else(|| {
                usage(format!(
                    "--threads omp takes the number of threads from the variable {OPENMP}, which says none: set it (-genv {OPENMP} 4), \
                     or give the number"
                ))
            })?;
            section.threads = Some(Threads::Number(number));
        }
    }
    // Whichever host a program's ranks come to.
    if sections.iter().any(|section| section.threads.is_some()) {
        sections
            .iter_mut()
            .for_each(|section| section.threads = section.threads.or(Some(Threads::Number(1))));
    }
    match settings.bind_threads && sections.iter().all(|section| section.threads.is_none()) {
        true => Err(usage("--bind-threads needs the number of threads of each rank: --threads 4")),
        false => Ok(()),
    }
}

/// What `OMP_NUM_THREADS` says for a program's ranks; of nested levels, the outermost.
fn openmp(section: &Section, settings: &Settings, inherited: &plan::Environment) -> Option<u32> {
    let environment = plan::section_environment(inherited, settings, section);
    let text = environment.get(OsStr::new(OPENMP))?.to_str()?;
    text.split(',').next()?.trim().parse().ok().filter(|number| (1..=MOST).contains(number))
}

/// What is said to who binds each rank to one core although it has several threads by its variable.
pub(crate) fn note(sections: &[Section], settings: &Settings) -> Option<String> {
    let part = match settings.bind_to? {
        BindTo::Core => "core",
        BindTo::HwThread => "hardware thread",
        BindTo::None | BindTo::Numa | BindTo::Socket => return None,
    };
    let inherited = plan::inherited_environment(settings.bare_environment);
    let number = sections
        .iter()
        .filter(|section| section.threads.is_none())
        .filter_map(|section| openmp(section, settings, &inherited))
        .max()
        .filter(|&number| number > 1)?;
    Some(format!(
        "{OPENMP} says {number}, and all threads of a rank share the one {part} that it is bound to: --threads omp gives each its own"
    ))
}

/// The threads of each rank of a program that placement knows of; 0: nobody said.
pub(crate) fn number(section: &Section) -> u32 {
    match section.threads {
        Some(Threads::Number(number)) => number,
        Some(Threads::OpenMp) | None => 0,
    }
}
