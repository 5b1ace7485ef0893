//! What a process was asked to be when it was launched: `MPI_INFO_ENV` and the initial error handler (section 11.2.1).

pub use weft_boot::Requests;
use weft_types::{Handle, abi};

use crate::info::{Info, MAX_VALUE};
use crate::kinds;

/// The content of `MPI_INFO_ENV`: the values that were asked for, not those that came out of it. `arguments` are those of
/// `main`, where the caller has them; otherwise the launcher's count.
pub fn information(requests: &Requests, arguments: &[Vec<u8>]) -> Info {
    let known: Vec<&[u8]> = match arguments.is_empty() {
        true => requests.command.iter().map(|word| word.as_bytes()).collect(),
        false => arguments.iter().map(Vec::as_slice).collect(),
    };
    let (command, arguments) =
        known.split_first().map_or((&b""[..], Vec::new()), |(first, rest)| (*first, rest.join(&b' ')));
    let asked =
        |key: &str| requests.asked.iter().find(|(asked, _)| asked == key).map(|(_, value)| value.clone());
    let wdir = requests.wdir.clone().or_else(|| {
        let current = std::env::current_dir().ok()?;
        Some(current.to_string_lossy().into_owned())
    });
    let errhandler = requests.initial_errhandler.as_deref().unwrap_or("mpi_errors_are_fatal");
    let mut info = Info::default();
    let mut set = |key: &str, value: Option<Vec<u8>>| {
        if let Some(value) = value {
            // A value that is too long is cut: most of a long command line is better than nothing.
            let _ = info.set(key.as_bytes(), &value[..value.len().min(MAX_VALUE)]);
        }
    };
    set("command", Some(command.to_vec()).filter(|command| !command.is_empty()));
    set("argv", Some(arguments).filter(|arguments| !arguments.is_empty()));
    set("maxprocs", requests.maxprocs.map(|number| number.to_string().into_bytes()));
    for key in ["soft", "host", "path", "file", "thread_level"] {
        set(key, asked(key).map(String::into_bytes));
    }
    set("arch", Some(asked("arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned()).into_bytes()));
    set("wdir", wdir.map(String::into_bytes));
    set("mpi_initial_errhandler", Some(errhandler.as_bytes().to_vec()));
    set("mpi_memory_alloc_kinds", Some(kinds::granted(requests.memory_alloc_kinds.as_deref()).into_bytes()));
    info
}

/// The handler of errors before initialisation, after finalisation and of programs with sessions only; the one that
/// `MPI_COMM_WORLD` and `MPI_COMM_SELF` begin with.
pub fn initial_errhandler(asked: Option<&str>) -> Handle {
    Handle(match asked {
        Some("mpi_errors_abort") => abi::MPI_ERRORS_ABORT,
        Some("mpi_errors_return") => abi::MPI_ERRORS_RETURN,
        _ => abi::MPI_ERRORS_ARE_FATAL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_told() {
        let requests = Requests {
            command: vec!["ocean".into(), "-v".into(), "two words".into()],
            maxprocs: Some(5),
            wdir: Some("/tmp".into()),
            initial_errhandler: Some("mpi_errors_return".into()),
            memory_alloc_kinds: Some("mpi:alloc_mem,gpu".into()),
            asked: vec![("soft".into(), "1:5".into()), ("arch".into(), "power9".into())],
        };
        let info = information(&requests, &[]);
        for (key, value) in [
            ("command", Some("ocean")),
            ("argv", Some("-v two words")),
            ("maxprocs", Some("5")),
            ("soft", Some("1:5")),
            ("arch", Some("power9")),
            ("host", None),
            ("wdir", Some("/tmp")),
            ("thread_level", None),
            ("mpi_initial_errhandler", Some("mpi_errors_return")),
            ("mpi_memory_alloc_kinds", Some("mpi:alloc_mem,mpi,system")),
        ] {
            assert_eq!(info.text(key), value, "{key}");
        }
        let info = information(&requests, &[b"./a.out".to_vec(), vec![b'x'; 2 * MAX_VALUE]]);
        assert_eq!(
            (info.text("command"), info.text("argv").map(str::len)),
            (Some("./a.out"), Some(MAX_VALUE))
        );
    }
}
