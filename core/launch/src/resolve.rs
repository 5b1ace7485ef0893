//! Finding the programs of the command line before anything is started.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a program cannot be started, and the code a shell would give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unstartable {
    /// What is wrong and what to do.
    pub why: String,
    /// 127: not found; 126: found but not executable.
    pub code: i32,
}

/// The absolute path of `program`.
///
/// A name with a `/` is taken relative to `wdir`, then to the current folder. A bare name is looked for in `path`
/// (`-path`, then PATH) and last in those two folders, where MPICH's users expect it.
pub(crate) fn find(
    program: &OsStr,
    wdir: &Path,
    current: &Path,
    path: &[&OsStr],
) -> Result<PathBuf, Unstartable> {
    let name = Path::new(program);
    let here = [wdir.join(name), current.join(name)];
    let mut candidates: Vec<PathBuf> = Vec::new();
    if !program.as_bytes().contains(&b'/') {
        let folders =
            path.iter().flat_map(std::env::split_paths).filter(|folder| !folder.as_os_str().is_empty());
        candidates.extend(folders.map(|folder| current.join(folder).join(name)));
    }
    candidates.extend(here);
    let mut refused = None;
    for candidate in candidates {
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(Some(why)) => refused = refused.or(Some(why)),
            Err(None) => {}
        }
    }
    let shown = program.display();
    Err(match refused {
        Some(why) => Unstartable { why: format!("{shown} cannot be executed: {why}"), code: 126 },
        None if program.as_bytes().contains(&b'/') => {
            Unstartable { why: format!("there is no program {shown}"), code: 127 }
        }
        None => Unstartable {
            why: format!("there is no program {shown}, neither in PATH nor in {}", wdir.display()),
            code: 127,
        },
    })
}

/// `Err(None)`: nothing is there.
fn check(path: &Path) -> Result<(), Option<String>> {
    let facts = match path.metadata() {
        Ok(facts) => facts,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Some("a folder on the way to it may not be entered".to_owned()));
        }
        Err(_) => return Err(None),
    };
    if facts.is_dir() {
        return Err(Some("it is a folder".to_owned()));
    }
    if facts.permissions().mode() & 0o111 == 0 {
        return Err(Some(format!("it lacks the permission (chmod +x {})", path.display())));
    }
    if nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_err() {
        return Err(Some(
            "this user lacks the permission, or it lies on a file system mounted noexec".to_owned(),
        ));
    }
    Ok(())
}

/// What to say when the kernel refuses to execute a file that looked right.
pub(crate) fn explain(path: &Path, error: &std::io::Error) -> Unstartable {
    use nix::libc;
    let shown = path.display();
    let (why, code) = match error.raw_os_error() {
        Some(libc::ENOENT) => {
            (format!("{shown}: its interpreter (first line, or ELF loader) is missing"), 126)
        }
        Some(libc::ENOEXEC) => (format!("{shown} is no program for this machine, and has no #! line"), 126),
        Some(libc::EACCES) => (format!("{shown}: permission denied"), 126),
        Some(libc::ETXTBSY) => (format!("{shown} is being written at this moment"), 126),
        Some(libc::E2BIG) => (format!("{shown}: arguments and environment are too long"), 126),
        Some(libc::EAGAIN) => {
            (format!("{shown}: no more processes are allowed (ulimit -u, or the container's pids limit)"), 1)
        }
        Some(libc::ENOMEM) => (format!("{shown}: out of memory"), 1),
        Some(libc::EMFILE | libc::ENFILE) => {
            (format!("{shown}: no more open files are allowed (ulimit -n)"), 1)
        }
        _ => (format!("{shown}: {error}"), 126),
    };
    Unstartable { why, code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(program: &str) -> Result<PathBuf, Unstartable> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        find(OsStr::new(program), Path::new("/"), Path::new("/"), &[&path])
    }

    #[test]
    fn programs_of_the_path_are_found() {
        assert!(look("sh").expect("sh").is_absolute());
        assert_eq!(look("bin/sh").expect("relative to the folder"), Path::new("/bin/sh"));
    }

    #[test]
    fn refusals_say_why() {
        let table = [
            ("no-such-program", 127, "PATH"),
            ("./nothing", 127, "./nothing"),
            ("/etc", 126, "folder"),
            ("/etc/passwd", 126, "chmod"),
        ];
        for (program, code, part) in table {
            let refused = look(program).expect_err(program);
            assert_eq!(refused.code, code, "{program}");
            assert!(refused.why.contains(part), "{}", refused.why);
        }
    }

    #[test]
    fn a_bare_name_in_the_working_folder_is_found_last() {
        let found = find(OsStr::new("sh"), Path::new("/bin"), Path::new("/"), &[OsStr::new("/nowhere")]);
        assert_eq!(found.expect("in the folder"), Path::new("/bin/sh"));
    }
}
