//! Which compiler wrapper and which launcher are under test.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The commands of the MPI under test.
#[derive(Debug)]
pub struct Toolchain {
    /// The C compiler wrapper.
    pub mpicc: PathBuf,
    /// The C++ compiler wrapper.
    pub mpicxx: PathBuf,
    /// The launcher.
    pub mpiexec: PathBuf,
    /// Arguments given to the launcher before all others.
    pub mpiexec_args: Vec<String>,
    /// Where Weft is installed; `None` when another implementation is under test.
    pub prefix: Option<PathBuf>,
}

impl Toolchain {
    /// The MPI under test, found once.
    ///
    /// # Panics
    /// With a sentence that says how to make an installation, if there is none.
    #[must_use]
    pub fn under_test() -> &'static Self {
        static FOUND: OnceLock<Result<Toolchain, String>> = OnceLock::new();
        match FOUND.get_or_init(Self::find) {
            Ok(tools) => tools,
            Err(why) => panic!("{why}"),
        }
    }

    fn find() -> Result<Self, String> {
        if let Some(mpicc) = env::var_os("WEFT_TEST_MPICC") {
            let launcher = env::var("WEFT_TEST_MPIEXEC").map_err(
                |_| "WEFT_TEST_MPICC is set: WEFT_TEST_MPIEXEC must name the launcher that belongs to it",
            )?;
            let mut words = launcher.split_whitespace();
            let mpiexec = words.next().ok_or("WEFT_TEST_MPIEXEC is empty")?;
            return Ok(Self {
                mpicxx: env::var_os("WEFT_TEST_MPICXX").map_or_else(|| "mpicxx".into(), PathBuf::from),
                mpicc: mpicc.into(),
                mpiexec: mpiexec.into(),
                mpiexec_args: words.map(str::to_owned).collect(),
                prefix: None,
            });
        }
        let workspace = super::root().parent().expect("the crate lies in the repository");
        let prefix = env::var_os("WEFT_PREFIX").map_or_else(|| workspace.join("prefix"), PathBuf::from);
        let tools = Self {
            mpicc: prefix.join("bin/mpicc"),
            mpicxx: prefix.join("bin/mpicxx"),
            mpiexec: prefix.join("bin/mpiexec"),
            mpiexec_args: match env::var("WEFT_TEST_HOSTS") {
                Ok(hosts) if !hosts.is_empty() => vec!["--hosts".to_owned(), hosts],
                _ => Vec::new(),
            },
            prefix: Some(prefix.clone()),
        };
        for needed in [&tools.mpicc, &tools.mpiexec] {
            if !needed.exists() {
                return Err(format!(
                    "these tests run an installed Weft, and {} does not exist: make an installation with \
                     `scripts/install {}`, or name another one in WEFT_PREFIX",
                    needed.display(),
                    prefix.display()
                ));
            }
        }
        Ok(tools)
    }

    /// Whether Weft itself is under test, and not a peer.
    #[must_use]
    pub fn is_weft(&self) -> bool {
        self.prefix.is_some()
    }

    /// Whether programs are built on the standard ABI.
    #[must_use]
    pub fn is_abi(&self) -> bool {
        self.is_weft() || self.mpicc.to_string_lossy().ends_with("_abi")
    }

    /// The compiler wrapper for a source file, by its extension.
    #[must_use]
    pub fn compiler_for(&self, source: &Path) -> &Path {
        if source.extension().is_some_and(|extension| extension == "cc") { &self.mpicxx } else { &self.mpicc }
    }
}
