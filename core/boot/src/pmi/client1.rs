//! A process's side of PMI-1.

use weft_types::{Error, ErrorClass, Result};

use super::channel::LauncherSocket;
use super::wire1::{Command, LineBuffer, encode_word};
use crate::card::ranks_text;
use crate::kinds::{KEY, NodeKinds, through_store};
use crate::launcher::{Aborter, Launcher};
use crate::nodes::Nodes;
use crate::stall::Stall;

/// Limits every PMI-1 server of the field keeps at least; used where asking would cost a message.
const LEAST_KEY: usize = 64;
const LEAST_VALUE: usize = 1024;

/// A conversation in PMI-1.
pub struct Client {
    channel: LauncherSocket,
    lines: LineBuffer,
    kvs: String,
    max_key: usize,
    max_value: usize,
    dialect: Dialect,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// As Hydra speaks it.
    Plain,
    /// With the one-way commands of Weft's mpiexec.
    Weft,
}

/// What the launcher knows of the job.
#[derive(Debug)]
pub struct Facts {
    /// Name of the job's key-value space, unique among jobs.
    pub kvs: String,
    /// MPI_APPNUM.
    pub appnum: Option<i32>,
    /// MPI_UNIVERSE_SIZE.
    pub universe_size: Option<i32>,
    /// `PMI_process_mapping`.
    pub mapping: Option<String>,
}

impl Client {
    /// Greets a PMI-1 server. `Ok(None)` when it wants to speak another version.
    pub fn greet(channel: LauncherSocket) -> Result<Option<(Client, Facts)>> {
        let mut client = Client::silent(channel, String::new(), Dialect::Plain);
        let answer = client.ask(
            &Command::new("init").with("pmi_version", 1).with("pmi_subversion", 1),
            "response_to_init",
        )?;
        if !answer.succeeded() || answer.get("pmi_version") != Some("1") {
            return Ok(None);
        }
        let maxes = client.ask(&Command::new("get_maxes"), "maxes")?;
        client.max_key = maxes.number("keylen_max").unwrap_or(LEAST_KEY);
        client.max_value = maxes.number("vallen_max").unwrap_or(LEAST_VALUE);
        let kvs = client.ask(&Command::new("get_my_kvsname"), "my_kvsname")?;
        client.kvs = kvs.get("kvsname").unwrap_or_default().to_owned();
        let appnum = client.ask(&Command::new("get_appnum"), "appnum")?.number("appnum");
        let universe_size = client.ask(&Command::new("get_universe_size"), "universe_size")?.number("size");
        let mapping = client.value("PMI_process_mapping")?;
        let facts = Facts {
            kvs: client.kvs.clone(),
            appnum: appnum.filter(|&number: &i32| number >= 0),
            universe_size: universe_size.filter(|&number: &i32| number > 0),
            mapping,
        };
        Ok(Some((client, facts)))
    }

    /// Meets Weft's mpiexec, which knows this process already: tells it that MPI begins here and awaits no answer.
    pub fn meet_weft(channel: LauncherSocket, job_id: &str) -> Result<Client> {
        let mut client = Client::silent(channel, job_id.to_owned(), Dialect::Weft);
        client.tell(&Command::new("weft_start").with("pid", std::process::id()))?;
        Ok(client)
    }

    fn silent(channel: LauncherSocket, kvs: String, dialect: Dialect) -> Client {
        Client {
            channel,
            lines: LineBuffer::default(),
            kvs,
            max_key: LEAST_KEY,
            max_value: LEAST_VALUE,
            dialect,
        }
    }

    fn tell(&mut self, command: &Command) -> Result<()> {
        self.channel.send_all(command.emit().as_bytes())
    }

    fn ask(&mut self, command: &Command, expected: &str) -> Result<Command> {
        self.tell(command)?;
        let answer = self.next_command()?;
        match answer.name == expected {
            true => Ok(answer),
            false => Err(garbled(&command.name, &answer.emit())),
        }
    }

    fn next_command(&mut self) -> Result<Command> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Command::parse(line)
                    .map_err(|_| garbled("a command", &String::from_utf8_lossy(line)));
            }
            let mut bytes = [0; 4096];
            let count = self.channel.receive(&mut bytes)?;
            if !self.lines.push(&bytes[..count]) {
                return Err(garbled("a command", "a line without end"));
            }
        }
    }

    fn value(&mut self, key: &str) -> Result<Option<String>> {
        let answer =
            self.ask(&Command::new("get").with("kvsname", &self.kvs).with("key", key), "get_result")?;
        // Older servers say it by `rc`, newer ones by `found`.
        let found = answer.succeeded() && answer.get("found").is_none_or(|found| found == "TRUE");
        Ok(answer.get("value").filter(|_| found).map(str::to_owned))
    }

    fn service(
        &mut self,
        command: Command,
        expected: &str,
        class: ErrorClass,
        name: &str,
    ) -> Result<Command> {
        let answer = self.ask(&command.with("service", name), expected)?;
        match answer.succeeded() {
            true => Ok(answer),
            false => {
                let why =
                    answer.get("msg").or(answer.get("info")).unwrap_or("no reason given").replace('_', " ");
                Err(Error::new(class, format!("the launcher refused the service name {name:?}: {why}")))
            }
        }
    }
}

impl Launcher for Client {
    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        crate::launcher::check_words(key, self.max_key, value, self.max_value)?;
        let command = Command::new("put").with("kvsname", &self.kvs).with("key", key).with("value", value);
        let answer = self.ask(&command, "put_result")?;
        match answer.succeeded() {
            true => Ok(()),
            false => Err(garbled("put", &answer.emit())),
        }
    }

    fn fence(&mut self) -> Result<()> {
        self.ask(&Command::new("barrier_in"), "barrier_out").map(drop)
    }

    fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds> {
        if self.dialect == Dialect::Plain {
            return through_store(self, nodes, rank, said);
        }
        if let Some(said) = said {
            self.put(KEY, said)?;
        }
        let answer = self.ask(&Command::new("barrier_in"), "barrier_out")?;
        match answer.get("kinds").map(|kinds| (kinds, NodeKinds::parse(kinds))) {
            None => Ok(NodeKinds::default()),
            Some((_, Some(kinds))) => Ok(kinds),
            Some((kinds, None)) => Err(garbled("barrier_in", kinds)),
        }
    }

    fn get(&mut self, _: u32, key: &str) -> Result<Option<String>> {
        self.value(key)
    }

    fn max_key(&self) -> usize {
        self.max_key
    }

    fn max_value(&self) -> usize {
        self.max_value
    }

    fn aborter(&self) -> Aborter {
        match self.dialect {
            Dialect::Plain => Aborter::pmi_1(self.channel),
            Dialect::Weft => Aborter::weft(self.channel),
        }
    }

    fn finalize(&mut self) -> Result<()> {
        match self.dialect {
            Dialect::Plain => self.ask(&Command::new("finalize"), "finalize_ack").map(drop),
            Dialect::Weft => self.tell(&Command::new("weft_done")),
        }
    }

    fn publish(&mut self, name: &str, port: &str) -> Result<()> {
        let command = Command::new("publish_name").with("port", port);
        self.service(command, "publish_result", ErrorClass::SERVICE, name).map(drop)
    }

    fn unpublish(&mut self, name: &str) -> Result<()> {
        self.service(Command::new("unpublish_name"), "unpublish_result", ErrorClass::SERVICE, name).map(drop)
    }

    fn lookup(&mut self, name: &str) -> Result<String> {
        let answer = self.service(Command::new("lookup_name"), "lookup_result", ErrorClass::NAME, name)?;
        match answer.get("port") {
            Some(port) => Ok(port.to_owned()),
            None => Err(garbled("lookup_name", &answer.emit())),
        }
    }

    fn survives_losses(&mut self) {
        if self.dialect == Dialect::Weft {
            // Without the launcher there is no job to survive.
            let _ = self.tell(&Command::new("weft_survives"));
        }
    }

    fn note(&mut self, line: &str) {
        if self.dialect == Dialect::Weft {
            // Diagnosis must not fail the program.
            let _ = self.tell(&Command::new("weft_note").with("text", encode_word(line)));
        }
    }

    fn stall(&mut self, stall: &Stall) -> bool {
        // A launcher that is stopped must not block a rank that has nothing to do with it.
        self.dialect == Dialect::Weft && self.channel.send_if_room(stall.command().emit().as_bytes())
    }

    fn in_vain(&mut self, ranks: &[u32], patience: u32) -> bool {
        let command = in_vain_command(ranks, patience);
        self.dialect == Dialect::Weft && self.channel.send_if_room(command.emit().as_bytes())
    }

    fn part(&mut self, farewell: u32) {
        if self.dialect == Dialect::Weft {
            // Without the launcher there is nobody to hear it.
            let _ = self.tell(&Command::new("weft_farewell").with("word", farewell));
        }
    }

    fn reopen(&mut self) {
        if self.dialect == Dialect::Weft {
            let _ = self.tell(&Command::new("weft_reopen"));
        }
    }
}

/// What tells Weft's mpiexec that these ranks, in any order, are asked over the fabric in vain; `patience`: seconds for which both of
/// a pair have to say so.
pub fn in_vain_command(ranks: &[u32], patience: u32) -> Command {
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    Command::new("weft_in_vain").with("ranks", ranks_text(&ranks)).with("patience", patience)
}

fn garbled(asked: &str, answer: &str) -> Error {
    Error::new(
        ErrorClass::OTHER,
        format!(
            "the launcher answered {:?} to the PMI-1 command {asked:?}; it does not speak this protocol",
            answer.trim()
        ),
    )
}
