//! The way to talk to whoever started the job.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_types::{Error, ErrorClass, Result};

use crate::card::ranks_text;
use crate::kinds::NodeKinds;
use crate::nodes::Nodes;
use crate::pmi::channel::LauncherSocket;
use crate::pmi::wire1::{Command, encode_word};
use crate::pmi::wire2;
use crate::stall::Stall;

/// A key-value store with fences, and the job's lifecycle. One value per process, used by one thread at a time.
///
/// Keys and values are one word of printable ASCII without blanks and `;`, keys also without `=` (PMI carries them as text);
/// [`Launcher::max_key`] and [`Launcher::max_value`] say how long they may be. Violations give class
/// `MPI_ERR_INTERN`, a launcher that went away class `MPI_ERR_OTHER`.
pub trait Launcher: Send {
    /// Stores `value` under `key`, seen by the others after the next [`Launcher::fence`].
    fn put(&mut self, key: &str, value: &str) -> Result<()>;

    /// Returns once every process of the job has called it; collective over the job.
    fn fence(&mut self) -> Result<()>;

    /// A fence, before which the first process of each node says a word of its node ([`NodeKinds::said`]), and after which all know
    /// the kinds of nodes that there are. `nodes`: of the job; `rank`: of this process; `said`: `None` at processes that are not the first
    /// of their nodes. May return nothing where all nodes said the same; collective over the job.
    fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds>;

    /// The value under `key`, put by process `owner` before the last fence; `None` where there is none. No two processes may put
    /// something under one key: some launchers do not tell them apart, others ask the owner's node.
    fn get(&mut self, owner: u32, key: &str) -> Result<Option<String>>;

    /// Longest key in bytes.
    fn max_key(&self) -> usize;

    /// Longest value in bytes.
    fn max_value(&self) -> usize;

    /// The way to end the job, to be kept where any thread can reach it.
    fn aborter(&self) -> Aborter;

    /// [`Aborter::abort`].
    fn abort(&self, code: i32, message: &str) {
        self.aborter().abort(code, message);
    }

    /// [`Aborter::abort_ranks`].
    fn abort_ranks(&self, code: i32, message: &str, ranks: &[u32]) -> bool {
        self.aborter().abort_ranks(code, message, ranks)
    }

    /// Tells the launcher that this process can go on when others of its job are aborted: its error handlers do not end it
    /// (section 11.4.2). Launchers other than Weft's end the whole job in any case.
    fn survives_losses(&mut self) {}

    /// Tells the launcher that this process has finished MPI: from now on its exit with code 0 is no failure.
    /// Must be called once, at the end of MPI_Finalize.
    fn finalize(&mut self) -> Result<()>;

    /// Publishes `port` under the service `name` (MPI_Publish_name).
    fn publish(&mut self, name: &str, port: &str) -> Result<()>;

    /// Withdraws the service `name` (MPI_Unpublish_name).
    fn unpublish(&mut self, name: &str) -> Result<()>;

    /// The port published under the service `name` (MPI_Lookup_name).
    fn lookup(&mut self, name: &str) -> Result<String>;

    /// Gives the launcher one line of diagnosis about this process (what it waits for); no answer is awaited.
    /// Launchers other than Weft's ignore it.
    fn note(&mut self, line: &str) {
        let _ = line;
    }

    /// Tells the launcher that calls of this process have been blocked for long, or, without calls, that they go on.
    /// Never waits; false when nobody was told, because the launcher is not Weft's or does not read.
    fn stall(&mut self, stall: &Stall) -> bool {
        let _ = stall;
        false
    }

    /// Tells the launcher that this process looks at its fabric, and has long asked these `ranks` in vain for a way to them;
    /// `patience`: seconds that both of a pair have to say so before neither can be reached by the other. To be said every two
    /// seconds as long as it is so. Never waits; false as for [`Launcher::stall`].
    fn in_vain(&mut self, ranks: &[u32], patience: u32) -> bool {
        let _ = (ranks, patience);
        false
    }

    /// Tells the launcher that this process has ended MPI, or a part of it, after a loss, and what it leaves behind
    /// (`weft_types::Farewell::to_word`): processes of other nodes that never met it hear of it in no other way. Launchers other
    /// than Weft's tell nobody.
    fn part(&mut self, farewell: u32) {
        let _ = farewell;
    }

    /// Tells the launcher that this process, which has said [`Launcher::finalize`], uses MPI again (a session).
    fn reopen(&mut self) {}
}

/// A launcher that several parts of a process use; clones are the same one.
#[derive(Clone)]
pub struct SharedLauncher {
    launcher: Arc<Mutex<Box<dyn Launcher>>>,
    /// Needs no lock: it must work while another thread waits in a fence.
    aborter: Aborter,
}

impl SharedLauncher {
    /// Shares a launcher.
    pub fn new(launcher: Box<dyn Launcher>) -> SharedLauncher {
        SharedLauncher { aborter: launcher.aborter(), launcher: Arc::new(Mutex::new(launcher)) }
    }

    fn lent(&self) -> MutexGuard<'_, Box<dyn Launcher>> {
        // A panic ends the process.
        self.launcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SharedLauncher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedLauncher")
    }
}

impl Launcher for SharedLauncher {
    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.lent().put(key, value)
    }

    fn fence(&mut self) -> Result<()> {
        self.lent().fence()
    }

    fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds> {
        self.lent().fence_of_nodes(nodes, rank, said)
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<Option<String>> {
        self.lent().get(owner, key)
    }

    fn max_key(&self) -> usize {
        self.lent().max_key()
    }

    fn max_value(&self) -> usize {
        self.lent().max_value()
    }

    fn aborter(&self) -> Aborter {
        self.aborter
    }

    fn survives_losses(&mut self) {
        self.lent().survives_losses();
    }

    fn finalize(&mut self) -> Result<()> {
        self.lent().finalize()
    }

    fn publish(&mut self, name: &str, port: &str) -> Result<()> {
        self.lent().publish(name, port)
    }

    fn unpublish(&mut self, name: &str) -> Result<()> {
        self.lent().unpublish(name)
    }

    fn lookup(&mut self, name: &str) -> Result<String> {
        self.lent().lookup(name)
    }

    fn note(&mut self, line: &str) {
        self.lent().note(line);
    }

    fn stall(&mut self, stall: &Stall) -> bool {
        self.lent().stall(stall)
    }

    fn in_vain(&mut self, ranks: &[u32], patience: u32) -> bool {
        self.lent().in_vain(ranks, patience)
    }

    fn part(&mut self, farewell: u32) {
        self.lent().part(farewell);
    }

    fn reopen(&mut self) {
        self.lent().reopen();
    }
}

/// Ends the job from any thread, also while another one waits in [`Launcher::fence`].
#[derive(Clone, Copy, Debug)]
pub struct Aborter(Way);

/// How long a process that aborts some of its job waits to hear what became of it.
const ANSWER_TO_ABORT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    Pmi1(LauncherSocket),
    Weft(LauncherSocket),
    Pmi2(LauncherSocket),
    Pmix(weft_pmix::Aborter),
}

impl Aborter {
    pub(crate) fn pmi_1(socket: LauncherSocket) -> Aborter {
        Aborter(Way::Pmi1(socket))
    }

    pub(crate) fn weft(socket: LauncherSocket) -> Aborter {
        Aborter(Way::Weft(socket))
    }

    pub(crate) fn pmi_2(socket: LauncherSocket) -> Aborter {
        Aborter(Way::Pmi2(socket))
    }

    pub(crate) fn pmix(aborter: weft_pmix::Aborter) -> Aborter {
        Aborter(Way::Pmix(aborter))
    }

    /// Asks the launcher to end the whole job with exit code `code` and shows `message`, which names who aborts
    /// what; it may have several lines. Returns when the request is on its way; the caller then ends its own process with
    /// `code` (section 11.4.2).
    pub fn abort(&self, code: i32, message: &str) {
        let (socket, request) = match self.0 {
            Way::Alone => {
                eprintln!("{message}");
                return;
            }
            Way::Pmix(aborter) => {
                say_before_abort(message);
                aborter.abort(code);
                return;
            }
            Way::Weft(socket) => {
                let command = Command::new("abort").with("exitcode", code);
                (socket, command.with("weft_message", encode_word(message)).emit())
            }
            Way::Pmi1(socket) => {
                say_before_abort(message);
                (socket, Command::new("abort").with("exitcode", code).emit())
            }
            Way::Pmi2(socket) => {
                // PMI-2 carries no exit code; the process's own exit with `code`, which follows, does.
                let text = format!("{message} (exit code {code})");
                say_before_abort(&text);
                (socket, wire2::emit(&Command::new("abort").with("isworld", "TRUE").with("msg", text)))
            }
        };
        // A launcher that is gone has ended the job already.
        let _ = socket.send_all(request.as_bytes());
    }

    /// Asks the launcher to end these processes of the job only, this one among them, where the others can go on without
    /// them; otherwise it ends the whole job. True: the others go on. The caller then ends its own process.
    pub fn abort_ranks(&self, code: i32, message: &str, ranks: &[u32]) -> bool {
        let Way::Weft(socket) = self.0 else {
            self.abort(code, message);
            return false;
        };
        let command = Command::new("abort").with("exitcode", code).with("weft_ranks", ranks_text(ranks));
        let request = command.with("weft_message", encode_word(message)).emit();
        let mut answer = [0; 256];
        let count = match socket.send_all(request.as_bytes()) {
            Ok(()) => socket.receive_within(&mut answer, ANSWER_TO_ABORT).unwrap_or(0),
            Err(_) => 0,
        };
        let lines = String::from_utf8_lossy(&answer[..count]);
        lines.lines().any(|line| line == "cmd=weft_aborted scope=some")
    }
}

/// Shows why the job ends, where the launcher does not do it. Launchers relay standard error through a pipe of their own and drop
/// what is in it when they end a job, so the words get a head start on the request.
fn say_before_abort(message: &str) {
    eprintln!("{message}");
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Holds keys and values to what PMI can carry.
pub(crate) fn check_words(key: &str, max_key: usize, value: &str, max_value: usize) -> Result<()> {
    let word = |text: &str, most: usize| {
        !text.is_empty()
            && text.len() <= most
            && text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b';')
    };
    if word(key, max_key) && !key.contains('=') && word(value, max_value) {
        return Ok(());
    }
    let lengths = (key.len(), value.len());
    Err(Error::internal(format_args!(
        "the key {key:?} or its value cannot go to the launcher: {} and {} bytes, allowed are 1 to {max_key} and 1 to \
         {max_value} bytes of printable ASCII without blanks and ';'",
        lengths.0, lengths.1
    )))
}

/// The launcher of a process nobody launched.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    store: std::collections::BTreeMap<String, String>,
    services: std::collections::BTreeMap<String, String>,
}

impl Launcher for Alone {
    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.store.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn fence(&mut self) -> Result<()> {
        Ok(())
    }

    fn fence_of_nodes(&mut self, _: &Nodes, _: u32, _: Option<&str>) -> Result<NodeKinds> {
        Ok(NodeKinds::default())
    }

    fn get(&mut self, _: u32, key: &str) -> Result<Option<String>> {
        Ok(self.store.get(key).cloned())
    }

    fn max_key(&self) -> usize {
        usize::MAX
    }

    fn max_value(&self) -> usize {
        usize::MAX
    }

    fn aborter(&self) -> Aborter {
        Aborter(Way::Alone)
    }

    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }

    fn publish(&mut self, name: &str, port: &str) -> Result<()> {
        self.services.insert(name.to_owned(), port.to_owned());
        Ok(())
    }

    fn unpublish(&mut self, name: &str) -> Result<()> {
        match self.services.remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorClass::SERVICE, format!("no service named {name:?} was published"))),
        }
    }

    fn lookup(&mut self, name: &str) -> Result<String> {
        self.services.get(name).cloned().ok_or_else(|| {
            Error::new(
                ErrorClass::NAME,
                format!(
                    "no service named {name:?} is published. This process was started without mpiexec, so it sees \
                     only names it published itself"
                ),
            )
        })
    }
}
