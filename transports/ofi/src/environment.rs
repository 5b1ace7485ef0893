//! The process's environment, by which libfabric's providers are told what they cannot find out.
//!
//! It stays as it was set: programs that the process starts see it, and take it for the user's word.

/// Sets a variable, unless the user has.
pub(crate) fn tell(variable: &str, value: &str) {
    if std::env::var_os(variable).is_some() {
        return;
    }
    // SAFETY: this takes the lock with which Rust code reads the environment. C code of another thread that reads it at this
    // very moment would be at risk: this runs once, when MPI is opened.
    unsafe { std::env::set_var(variable, value) };
}
