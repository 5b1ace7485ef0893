//! Joining a job that a PMIx launcher started: Slurm's `srun --mpi=pmix`, Open MPI's `mpirun`, `prterun`.
//!
//! The library behind `weft-pmix` speaks the protocol; what a job of Weft needs of it is here.

use std::env;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
use nix::unistd::geteuid;
use weft_pmix::{Fact, Failure, MAX_KEY, Refusal, Value};
use weft_types::{Error, ErrorClass, Result};

use crate::foreign::{Said, meet};
use crate::job::{Job, LauncherKind};
use crate::kinds::{NodeKinds, through_store};
use crate::launcher::{Aborter, Launcher, check_words};
use crate::nodes::Nodes;

/// The library knows no limit; what Weft says of a process is far below.
const MAX_VALUE: usize = 4096;

/// Whether a PMIx launcher, or a process of its, started this one.
pub(crate) fn is_here() -> bool {
    env::var_os("PMIX_NAMESPACE").is_some() && env::var_os("PMIX_RANK").is_some()
}

/// The place of a rank, held for as long as this lives; the program that a rank starts finds it taken.
#[derive(Debug)]
pub(crate) struct Place {
    /// Bound to a name that goes with its last descriptor, and that exec closes.
    _socket: Option<OwnedFd>,
}

/// Takes the place of the rank that the launcher's variables name, on this machine. `None`: another process has it, which
/// started this one or is its relative, so this one is no rank.
///
/// It has to be found out before the library is asked, which would take a second process of a rank for the rank itself.
pub(crate) fn claim_place() -> Option<Place> {
    let mut said: Vec<Vec<u8>> = env::vars_os()
        // The server's address tells jobs of one name apart, as different Slurms on one machine make them.
        .filter(|(name, _)| {
            let name = name.as_bytes();
            name.starts_with(b"PMIX_SERVER_URI") || name == b"PMIX_NAMESPACE" || name == b"PMIX_RANK"
        })
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\n"].concat())
        .collect();
    said.sort_unstable();
    claim(&format!("weft/rank/{}/{:016x}", geteuid(), fingerprint(&said.concat())))
}

/// Takes a name among those of this machine's abstract sockets; `None`: it is taken.
fn claim(name: &str) -> Option<Place> {
    // Where there are no such sockets, nobody can be told apart.
    let unknown = Some(Place { _socket: None });
    let Ok(address) = UnixAddr::new_abstract(name.as_bytes()) else { return unknown };
    let Ok(socket) = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None) else {
        return unknown;
    };
    match bind(socket.as_raw_fd(), &address) {
        Ok(()) => Some(Place { _socket: Some(socket) }),
        Err(Errno::EADDRINUSE) => None,
        Err(_) => unknown,
    }
}

/// FNV-1a: the same in all versions of this library.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Joins the job; collective over it.
pub(crate) fn join(place: Place) -> Result<(Job, Box<dyn Launcher>)> {
    let client = weft_pmix::Client::join().map_err(|failure| {
        let (why, remedy) = match failure {
            Failure::NoLibrary(why) => (why, "Otherwise start it"),
            Failure::Refused(refusal) => (
                refusal.to_string(),
                "The launcher may have ended, or its PMIx be too far from the library's version. To run alone, unset PMIX_NAMESPACE; \
                 otherwise start it",
            ),
        };
        Error::new(
            ErrorClass::OTHER,
            format!(
                "this process was started by a PMIx launcher (srun --mpi=pmix, Open MPI's mpirun, prterun), but {why}. {remedy} with \
                 Weft's mpiexec, with mpiexec.hydra, or with srun --mpi=pmi2"
            ),
        )
    })?;
    let missing = |what: &str| {
        Error::new(
            ErrorClass::OTHER,
            format!("the PMIx launcher does not tell {what}; {} speaks to it", client.version()),
        )
    };
    let number = |value: Option<Value>| value.as_ref().and_then(Value::number);
    let size = number(client.fact(Fact::Size)).and_then(|size| u32::try_from(size).ok());
    let size = size.filter(|&size| size > 0).ok_or_else(|| missing("how many processes the job has"))?;
    let small = |value: Option<Value>| number(value).and_then(|number| i32::try_from(number).ok());
    let said = Said {
        rank: client.rank(),
        size,
        job_id: client.namespace(),
        appnum: small(client.appnum()),
        universe_size: small(client.fact(Fact::Universe)).filter(|&number| number > 0),
        nodes: nodes(&client, size),
        kind: LauncherKind::Pmix,
    };
    meet(said, Box::new(Client { client, finished: false, _place: place }))
}

/// The node of every rank: by the mapping that PMI-1 has too, where the launcher makes one (Slurm), otherwise by the ranks on
/// each node (PRRTE), which the library knows without asking.
fn nodes(client: &weft_pmix::Client, size: u32) -> Option<Nodes> {
    let mapping = client.fact(Fact::ProcessMapping).and_then(Value::text);
    if let Some(nodes) = mapping.and_then(|text| Nodes::parse(&text, size)) {
        return Some(nodes);
    }
    let names = client.nodes().ok()?;
    let ranks = names.iter().map(|name| client.ranks_on(name).ok());
    Nodes::by_their_ranks(ranks.collect::<Option<Vec<_>>>()?.iter().map(Vec::as_slice), size)
}

/// A rank of a PMIx launcher.
#[derive(Debug)]
struct Client {
    client: weft_pmix::Client,
    /// Whether the launcher was left.
    finished: bool,
    _place: Place,
}

impl Client {
    fn here(&self) -> Result<&weft_pmix::Client> {
        match self.finished {
            false => Ok(&self.client),
            true => Err(Error::new(
                ErrorClass::OTHER,
                "this process has left the PMIx launcher with the end of MPI, and what it would ask of it now (how a process is reached \
                 that it never talked to, names of services) it can ask no more",
            )),
        }
    }

    fn service(&self, class: ErrorClass, name: &str, refusal: Refusal) -> Error {
        let remedy = match refusal.is_unsupported() {
            true => {
                ": this launcher has no name service (Slurm has none); Weft's mpiexec and Open MPI's mpirun have one"
            }
            false => "",
        };
        Error::new(class, format!("the launcher refused the service name {name:?}: {refusal}{remedy}"))
    }
}

fn failed(refusal: Refusal) -> Error {
    let why = if refusal.is_unreachable() { ": the launcher has ended" } else { "" };
    Error::new(ErrorClass::OTHER, format!("the PMIx launcher failed: {refusal}{why}"))
}

impl Launcher for Client {
    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        check_words(key, MAX_KEY, value, MAX_VALUE)?;
        self.here()?.put(key, value).map_err(failed)
    }

    fn fence(&mut self) -> Result<()> {
        self.here()?.fence().map_err(failed)
    }

    fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds> {
        through_store(self, nodes, rank, said)
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<Option<String>> {
        self.here()?.get(owner, key).map_err(failed)
    }

    fn max_key(&self) -> usize {
        MAX_KEY
    }

    fn max_value(&self) -> usize {
        MAX_VALUE
    }

    fn aborter(&self) -> Aborter {
        Aborter::pmix(self.client.aborter())
    }

    fn finalize(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.finished, true) {
            true => Ok(()),
            false => self.client.finalize().map_err(failed),
        }
    }

    fn publish(&mut self, name: &str, port: &str) -> Result<()> {
        let refused = |refusal| self.service(ErrorClass::SERVICE, name, refusal);
        self.here()?.publish(name, port).map_err(refused)
    }

    fn unpublish(&mut self, name: &str) -> Result<()> {
        // Launchers withdraw without a word what was never published.
        let known =
            self.here()?.lookup(name).map_err(|refusal| self.service(ErrorClass::SERVICE, name, refusal))?;
        if known.is_none() {
            return Err(Error::new(ErrorClass::SERVICE, format!("no service named {name:?} was published")));
        }
        self.here()?.unpublish(name).map_err(|refusal| self.service(ErrorClass::SERVICE, name, refusal))
    }

    fn lookup(&mut self, name: &str) -> Result<String> {
        let found =
            self.here()?.lookup(name).map_err(|refusal| self.service(ErrorClass::NAME, name, refusal))?;
        found.ok_or_else(|| {
            Error::new(ErrorClass::NAME, format!("no service named {name:?} is published with this launcher"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_by_one_and_free_again_when_it_goes() {
        let name = format!("weft/test/{}", std::process::id());
        let place = claim(&name).expect("nobody has it");
        assert!(place._socket.is_some() && claim(&name).is_none());
        assert!(claim(&format!("{name}/other")).is_some());
        drop(place);
        assert!(claim(&name).is_some());
    }

    #[test]
    fn fingerprints_are_those_of_the_algorithms_authors() {
        for (text, sum) in
            [("", 0xcbf29ce484222325), ("a", 0xaf63dc4c8601ec8c), ("foobar", 0x85944171f73967e8)]
        {
            assert_eq!(fingerprint(text.as_bytes()), sum);
        }
    }
}
