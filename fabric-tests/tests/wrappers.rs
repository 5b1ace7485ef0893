//! The compiler wrappers, the pkg-config files and what other tools make of them.
//!
//! What the wrappers print is tested in a prefix with a library of three lines, made by `scripts/install-wrappers`;
//! CMake, pkg-config and static linking are tested on the installation in `WEFT_PREFIX` (default `./prefix`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed with its contents when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weft-wrappers-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays is a nuisance, not a failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs a command to its end, without the variables that choose another compiler.
fn output(command: &mut Command) -> Output {
    for variable in ["MPI_CC", "MPICH_CC", "OMPI_CC", "MPI_CXX", "MPICH_CXX", "OMPI_CXX", "LD_LIBRARY_PATH"] {
        if !command.get_envs().any(|(key, _)| key == variable) {
            command.env_remove(variable);
        }
    }
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The trimmed standard output of a command that must succeed.
fn succeed(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The standard error of a command that must fail.
fn refuse(command: &mut Command) -> String {
    let output = output(command);
    assert!(!output.status.success(), "{command:?} must fail");
    String::from_utf8(output.stderr).unwrap()
}

/// A prefix with the real wrappers, an `mpi.h` with one function and a library that has it.
fn stub_prefix(folder: &Folder, name: &str) -> PathBuf {
    let prefix = folder.path(name);
    succeed(Command::new(repository().join("scripts/install-wrappers")).arg(&prefix));
    folder.write(
        &format!("{name}/include/mpi.h"),
        "#ifdef __cplusplus\nextern \"C\"\n#endif\nint MPI_Answer(void);\n",
    );
    stub_library(folder, &prefix.join("lib"), 42);
    prefix
}

fn stub_library(folder: &Folder, into: &Path, answer: u32) {
    fs::create_dir_all(into).unwrap();
    let source = folder.write("stub.c", &format!("int MPI_Answer(void) {{ return {answer}; }}\n"));
    let library = into.join("libmpi_abi.so.1");
    succeed(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so.1", "-o"])
            .arg(&library)
            .arg(&source),
    );
    if !into.join("libmpi_abi.so").exists() {
        symlink("libmpi_abi.so.1", into.join("libmpi_abi.so")).unwrap();
    }
    let object = folder.path("stub.o");
    succeed(Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&object));
    succeed(Command::new("ar").arg("crs").arg(into.join("libmpi_abi.a")).arg(&object));
}

fn exit_code_of(program: &Path) -> Option<i32> {
    output(&mut Command::new(program)).status.code()
}

const PROGRAM: &str = "#include <mpi.h>\nint main(void) { return MPI_Answer(); }\n";

#[test]
fn show_prints_one_compiler_line_with_include_library_and_runpath() {
    let folder = Folder::new();
    let prefix = stub_prefix(&folder, "p").into_os_string().into_string().unwrap();
    let link = format!("-L{prefix}/lib -Wl,-rpath,{prefix}/lib -Wl,--enable-new-dtags -lmpi_abi");
    for (wrapper, compiler) in
        [("mpicc", "cc"), ("mpicc_abi", "cc"), ("mpicxx", "c++"), ("mpic++", "c++"), ("mpicxx_abi", "c++")]
    {
        let ask = |words: &[&str]| succeed(Command::new(format!("{prefix}/bin/{wrapper}")).args(words));
        let whole = format!("{compiler} -I{prefix}/include {link}");
        assert_eq!(ask(&["-show"]), whole);
        assert_eq!(ask(&["-showme"]), whole);
        assert_eq!(ask(&["-link-info"]), whole);
        assert_eq!(ask(&["-link_info"]), whole);
        assert_eq!(ask(&["-compile-info"]), format!("{compiler} -I{prefix}/include"));
        assert_eq!(ask(&["-compile_info"]), format!("{compiler} -I{prefix}/include"));
        assert_eq!(ask(&["-showme:compile"]), format!("-I{prefix}/include"));
        assert_eq!(ask(&["--showme:compile"]), format!("-I{prefix}/include"));
        assert_eq!(ask(&["-showme:link"]), link);
        assert_eq!(ask(&["-showme:incdirs"]), format!("{prefix}/include"));
        assert_eq!(ask(&["-showme:libdirs"]), format!("{prefix}/lib"));
        assert_eq!(ask(&["-showme:libs"]), "mpi_abi");
        assert_eq!(ask(&["-showme:command"]), compiler);
        assert!(ask(&["-showme:version"]).contains("Weft"));
        assert_eq!(ask(&["-show", "-O2", "x.o"]), format!("{compiler} -O2 x.o -I{prefix}/include {link}"));
    }
}

#[test]
fn unknown_show_options_are_refused_by_name() {
    let folder = Folder::new();
    let mpicc = stub_prefix(&folder, "p").join("bin/mpicc");
    for option in ["-showfoo", "-showme:foo", "--showme:", "-show_me"] {
        let text = refuse(Command::new(&mpicc).arg(option));
        assert!(text.contains("unknown option"), "{option}: {text}");
        assert!(text.contains(option.trim_start_matches('-')), "{option}: {text}");
    }
}

#[test]
fn options_that_do_not_link_get_no_linker_flags() {
    let folder = Folder::new();
    let mpicc = stub_prefix(&folder, "p").join("bin/mpicc");
    for option in ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"] {
        let line = succeed(Command::new(&mpicc).args(["-show", option, "a.c"]));
        assert!(!line.contains("-l") && !line.contains("-L") && !line.contains("-Wl"), "{line}");
        assert!(line.contains("-I"), "{line}");
    }
    // Options that only look alike do link.
    for option in ["-MD", "-MMD", "-Ofast"] {
        assert!(succeed(Command::new(&mpicc).args(["-show", option, "a.c"])).contains("-lmpi_abi"));
    }
}

#[test]
fn the_environment_names_the_compiler_and_ours_comes_first() {
    let folder = Folder::new();
    let bin = stub_prefix(&folder, "p").join("bin");
    for (wrapper, suffix) in [("mpicc", "CC"), ("mpicxx", "CXX")] {
        let mut command = Command::new(bin.join(wrapper));
        command.arg("-showme:command").env(format!("OMPI_{suffix}"), "from-ompi");
        assert_eq!(succeed(&mut command), "from-ompi");
        assert_eq!(succeed(command.env(format!("MPICH_{suffix}"), "from-mpich")), "from-mpich");
        assert_eq!(succeed(command.env(format!("MPI_{suffix}"), "two words")), "two words");
        command.arg(format!("-{}=from-option", suffix.to_lowercase()));
        assert_eq!(succeed(&mut command), "from-option");
    }
    // Of several words, each is one for the shell.
    let source = folder.write("a.c", PROGRAM);
    let program = folder.path("a");
    succeed(Command::new(bin.join("mpicc")).env("MPI_CC", "env cc").arg(&source).arg("-o").arg(&program));
    assert_eq!(exit_code_of(&program), Some(42));
}

#[test]
fn a_compiler_that_is_the_wrapper_itself_is_refused() {
    let folder = Folder::new();
    let mpicc = stub_prefix(&folder, "p").join("bin/mpicc");
    let text = refuse(Command::new(&mpicc).env("MPI_CC", &mpicc).args(["-c", "a.c"]));
    assert!(text.contains("leads back to mpicc"), "{text}");
}

#[test]
fn arguments_reach_the_compiler_as_they_are() {
    let folder = Folder::new();
    let mpicc = stub_prefix(&folder, "p").join("bin/mpicc");
    folder.write("my file.c", "#include <mpi.h>\nint main(void) { return sizeof TEXT - 1; }\n");
    let program = folder.path("out put");
    succeed(
        Command::new(&mpicc)
            .current_dir(&folder.0)
            .args(["-DTEXT=\"a $b `c` \\\"d\\\" 'e'\"", "my file.c", "-o"])
            .arg(&program),
    );
    assert_eq!(exit_code_of(&program), Some("a $b `c` \"d\" 'e'".len() as i32));
    // What -show prints is read by a shell as the same command.
    let line = succeed(Command::new(&mpicc).args(["-show", "-DTEXT=\"a b\"", "my file.c", "-o", "again"]));
    succeed(Command::new("sh").current_dir(&folder.0).args(["-c", &line]));
    assert_eq!(exit_code_of(&folder.path("again")), Some(3));
}

#[test]
fn programs_find_the_library_and_ld_library_path_goes_before() {
    let folder = Folder::new();
    let prefix = stub_prefix(&folder, "a prefix");
    let other = folder.path("other");
    let source = folder.write("a.c", PROGRAM);
    for wrapper in ["mpicc", "mpicxx"] {
        let program = folder.path(wrapper);
        let mut command = Command::new(prefix.join("bin").join(wrapper));
        if wrapper == "mpicxx" {
            command.args(["-x", "c++"]);
        }
        succeed(command.arg(&source).arg("-o").arg(&program));
        assert_eq!(exit_code_of(&program), Some(42));
        stub_library(&folder, &other, 7);
        let code = output(Command::new(&program).env("LD_LIBRARY_PATH", &other)).status.code();
        assert_eq!(code, Some(7), "RUNPATH, not RPATH");
    }
    let program = folder.path("static");
    succeed(Command::new(prefix.join("bin/mpicc")).arg("-static-mpi").arg(&source).arg("-o").arg(&program));
    fs::remove_file(prefix.join("lib/libmpi_abi.so.1")).unwrap();
    assert_eq!(exit_code_of(&program), Some(42), "-static-mpi needs no shared library");
}

#[test]
fn a_moved_prefix_and_links_to_the_wrapper_work() {
    let folder = Folder::new();
    let moved = folder.path("moved");
    fs::rename(stub_prefix(&folder, "p"), &moved).unwrap();
    let include = format!("{}/include", folder.text("moved"));
    assert_eq!(succeed(Command::new(moved.join("bin/mpicc")).arg("-showme:incdirs")), include);
    symlink(moved.join("bin/mpicxx_abi"), folder.path("link")).unwrap();
    assert_eq!(succeed(Command::new(folder.path("link")).arg("-showme:incdirs")), include);
    let path = format!("{}/bin:{}", folder.text("moved"), std::env::var("PATH").unwrap());
    let found = succeed(Command::new("sh").args(["-c", "mpicc -showme:incdirs"]).env("PATH", &path));
    assert_eq!(found, include);
    let flags = succeed(
        Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig"))
            .args(["--cflags", "--libs", "mpi-c"]),
    );
    let source = folder.write("a.c", PROGRAM);
    let program = folder.path("by-pkg-config");
    let mut command = Command::new("cc");
    succeed(command.arg(&source).args(flags.split_whitespace()).arg("-o").arg(&program));
    assert_eq!(exit_code_of(&program), Some(42));
}

/// The installation under test.
fn installed() -> PathBuf {
    let prefix = std::env::var_os("WEFT_PREFIX").map_or_else(|| repository().join("prefix"), PathBuf::from);
    let needed = prefix.join("bin/mpicc");
    assert!(
        needed.exists(),
        "{} does not exist: make an installation with `scripts/install {}`",
        needed.display(),
        prefix.display()
    );
    prefix.canonicalize().unwrap()
}

const SUM: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank = -1, sum = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank += 1;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1)
        printf("the sum is %d\n", sum);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn cmake_finds_configures_builds_and_runs() {
    let prefix = installed();
    let folder = Folder::new();
    folder.write("project/sum.c", SUM);
    folder.write("project/sum.cc", SUM);
    folder.write(
        "project/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\n\
         project(sum C CXX)\n\
         find_package(MPI 4.1 REQUIRED COMPONENTS C CXX)\n\
         add_executable(sum_c sum.c)\n\
         target_link_libraries(sum_c PRIVATE MPI::MPI_C)\n\
         add_executable(sum_cxx sum.cc)\n\
         target_link_libraries(sum_cxx PRIVATE MPI::MPI_CXX)\n\
         message(STATUS \"launcher=${MPIEXEC_EXECUTABLE}\")\n\
         message(STATUS \"version=${MPI_C_VERSION}\")\n\
         message(STATUS \"libraries=${MPI_C_LIBRARIES}\")\n\
         enable_testing()\n\
         add_test(NAME sum COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:sum_c>)\n",
    );
    let build = folder.text("build");
    let configured = succeed(
        Command::new("cmake")
            .arg("-S")
            .arg(folder.path("project"))
            .args(["-B", &build])
            .env("MPI_HOME", &prefix),
    );
    let launcher = format!("launcher={}", prefix.join("bin/mpiexec").display());
    assert!(configured.contains(&launcher), "{launcher} is not in\n{configured}");
    assert!(configured.contains("version=4.1"), "{configured}");
    let library = format!("libraries={}", prefix.join("lib/libmpi_abi.so").display());
    assert!(configured.contains(&library), "{library} is not in\n{configured}");
    succeed(Command::new("cmake").args(["--build", &build]));
    for program in ["sum_c", "sum_cxx"] {
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .arg(prefix.join("bin/mpiexec"))
            .args(["-n", "2"])
            .arg(folder.path("build").join(program));
        assert_eq!(succeed(&mut command), "the sum is 3");
    }
}

#[test]
fn installed_pkg_config_file_and_static_library_make_programs_that_run() {
    let prefix = installed();
    let folder = Folder::new();
    let source = folder.write("sum.c", SUM);
    let flags = succeed(
        Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .args(["--cflags", "--libs", "mpi"]),
    );
    let by_pkg_config = folder.path("by-pkg-config");
    succeed(Command::new("cc").arg(&source).args(flags.split_whitespace()).arg("-o").arg(&by_pkg_config));
    let by_archive = folder.path("by-archive");
    succeed(
        Command::new(prefix.join("bin/mpicc")).arg("-static-mpi").arg(&source).arg("-o").arg(&by_archive),
    );
    for program in [by_pkg_config, by_archive] {
        let mut command = Command::new("timeout");
        command.arg("60").arg(prefix.join("bin/mpiexec")).args(["-n", "2"]).arg(&program);
        assert_eq!(succeed(&mut command), "the sum is 3");
    }
    let mut libraries = Command::new("ldd");
    assert!(!succeed(libraries.arg(folder.path("by-archive"))).contains("libmpi_abi"));
}
