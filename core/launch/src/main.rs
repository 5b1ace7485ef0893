//! The command `mpiexec`; installed under the name `mpirun` too.
#![forbid(unsafe_code)]

fn main() {
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    std::process::exit(weft_launch::mpiexec(&words))
}
