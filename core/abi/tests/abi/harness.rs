//! Links the library once, compiles and runs C programs, none of them for longer than a minute.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use weft_bindings::Model;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of mpi.h.
pub(crate) fn include() -> PathBuf {
    root().join("core/abi/include")
}

/// A folder of this test run's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The procedure table.
pub(crate) fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| Model::load(&root().join("core/bindings/table")).unwrap())
}

/// The folder of the freshly linked libraries.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = folder("lib");
        // This program is TARGET/PROFILE/deps/NAME; the script shall build in the same target folder.
        let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
        let mut command = Command::new(root().join("scripts/link-abi"));
        command.arg(&folder).arg("dev").env("CARGO_TARGET_DIR", target);
        let output = command.output().unwrap();
        assert!(output.status.success(), "link-abi: {}", String::from_utf8_lossy(&output.stderr));
        folder
    })
}

/// Whether a program is installed.
pub(crate) fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Runs a command for at most a minute and gives its output.
pub(crate) fn run(command: &mut Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(
            |error| {
                panic!("{command:?}: {error}");
            },
        );
    let start = Instant::now();
    // Both pipes are drained by threads, so that a chatty program cannot block.
    let drain = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let stdout = drain(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = drain(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("{command:?} did not end within a minute");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Runs a command that must succeed and gives its standard output.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Writes a C source.
pub(crate) fn source(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A compiler command with our header.
pub(crate) fn compiler(name: &str) -> Command {
    let mut command = Command::new(name);
    command.arg("-I").arg(include());
    command
}

/// Compiles one of the C programs in `c/` against the shared library.
pub(crate) fn program(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi/c").join(format!("{name}.c"));
    link(name, &source)
}

/// Compiles a source against the shared library.
pub(crate) fn link(name: &str, source: &Path) -> PathBuf {
    let out = folder("bin").join(name);
    let library = library();
    let mut command = compiler("cc");
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(&out);
    command.arg("-L").arg(library).arg("-lmpi_abi").arg(format!("-Wl,-rpath,{}", library.display()));
    succeed(&mut command);
    out
}
