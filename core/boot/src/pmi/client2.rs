//! A process's side of PMI-2.

use weft_types::{Error, ErrorClass, Result};

use super::channel::LauncherSocket;
use super::wire1::{Command, LineBuffer};
use super::wire2::{HEADER, body_length, emit, parse};
use crate::kinds::{NodeKinds, through_store};
use crate::launcher::{Aborter, Launcher};
use crate::nodes::Nodes;

/// PMI-2 fixes these (PMI2_MAX_KEYLEN, PMI2_MAX_VALLEN).
const MAX_KEY: usize = 64;
const MAX_VALUE: usize = 1024;

/// A conversation in PMI-2.
pub struct Client {
    channel: LauncherSocket,
    received: Vec<u8>,
    job: String,
}

/// What the launcher knows of the job.
#[derive(Debug)]
pub struct Facts {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Name of the job.
    pub job: String,
    /// MPI_APPNUM.
    pub appnum: Option<i32>,
    /// MPI_UNIVERSE_SIZE.
    pub universe_size: Option<i32>,
    /// `PMI_process_mapping`.
    pub mapping: Option<String>,
}

impl Client {
    /// Greets a PMI-2 server; `rank` and `job` are what the environment says of this process.
    pub fn greet(channel: LauncherSocket, rank: u32, job: &str) -> Result<(Client, Facts)> {
        channel.send_all(b"cmd=init pmi_version=2 pmi_subversion=0\n")?;
        let answer = first_line(channel)?;
        if !answer.succeeded() || answer.get("pmi_version") != Some("2") {
            return Err(garbled("init", &answer.emit()));
        }
        let mut client = Client { channel, received: Vec::new(), job: job.to_owned() };
        // Hydra refuses empty values, and sets no PMI_JOBID.
        let init = match job {
            "" => Command::new("fullinit"),
            _ => Command::new("fullinit").with("pmijobid", job),
        };
        let init = client.ask(&init.with("pmirank", rank).with("threaded", "FALSE"))?;
        let (Some(rank), Some(size)) = (init.number("rank"), init.number("size")) else {
            return Err(garbled("fullinit", &emit(&init)));
        };
        let name = client.ask(&Command::new("job-getid"))?;
        client.job = name.get("jobid").unwrap_or(job).to_owned();
        let universe_size = client.attribute("universeSize")?.and_then(|text| text.parse().ok());
        let universe_size = universe_size.filter(|&number: &i32| number > 0);
        let mapping = client.attribute("PMI_process_mapping")?;
        let facts = Facts {
            rank,
            size,
            job: client.job.clone(),
            appnum: init.number("appnum").filter(|&number: &i32| number >= 0),
            universe_size,
            mapping,
        };
        Ok((client, facts))
    }

    fn attribute(&mut self, key: &str) -> Result<Option<String>> {
        let answer = self.exchange(&Command::new("info-getjobattr").with("key", key))?;
        let found = answer.succeeded() && answer.get("found") == Some("TRUE");
        Ok(answer.get("value").filter(|_| found).map(str::to_owned))
    }

    fn ask(&mut self, command: &Command) -> Result<Command> {
        let answer = self.exchange(command)?;
        match answer.succeeded() {
            true => Ok(answer),
            false => Err(garbled(&command.name, &emit(&answer))),
        }
    }

    /// Sends a command and waits for its answer, whether it succeeded or not.
    fn exchange(&mut self, command: &Command) -> Result<Command> {
        self.channel.send_all(emit(command).as_bytes())?;
        let answer = self.next_frame()?;
        match answer.name.strip_suffix("-response") == Some(&command.name) {
            true => Ok(answer),
            false => Err(garbled(&command.name, &emit(&answer))),
        }
    }

    fn next_frame(&mut self) -> Result<Command> {
        loop {
            if let Some(header) = self.received.first_chunk::<HEADER>() {
                let text = String::from_utf8_lossy(&self.received).into_owned();
                let length = body_length(header).map_err(|_| garbled("a command", &text))?;
                if self.received.len() >= HEADER + length {
                    let frame = parse(&self.received[HEADER..HEADER + length])
                        .map_err(|_| garbled("a command", &text));
                    self.received.drain(..HEADER + length);
                    return frame;
                }
            }
            let mut bytes = [0; 4096];
            let count = self.channel.receive(&mut bytes)?;
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    fn service(&mut self, command: Command, class: ErrorClass, name: &str) -> Result<Command> {
        let answer = self.exchange(&command)?;
        let found = answer.get("found").is_none_or(|found| found == "TRUE");
        match answer.succeeded() && found {
            true => Ok(answer),
            false => {
                let why = answer.get("errmsg").unwrap_or("no reason given");
                Err(Error::new(class, format!("the launcher refused the service name {name:?}: {why}")))
            }
        }
    }
}

/// PMI-2 servers answer the first line, which is still PMI-1, in PMI-1.
fn first_line(channel: LauncherSocket) -> Result<Command> {
    let mut lines = LineBuffer::default();
    loop {
        if let Some(line) = lines.next_line() {
            return Command::parse(line).map_err(|_| garbled("init", &String::from_utf8_lossy(line)));
        }
        // One byte at a time: what follows the line belongs to the framed protocol.
        let mut byte = [0];
        channel.receive(&mut byte)?;
        if !lines.push(&byte) {
            return Err(garbled("init", "a line without end"));
        }
    }
}

impl Launcher for Client {
    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        crate::launcher::check_words(key, MAX_KEY, value, MAX_VALUE)?;
        self.ask(&Command::new("kvs-put").with("key", key).with("value", value)).map(drop)
    }

    fn fence(&mut self) -> Result<()> {
        self.ask(&Command::new("kvs-fence")).map(drop)
    }

    fn fence_of_nodes(&mut self, nodes: &Nodes, rank: u32, said: Option<&str>) -> Result<NodeKinds> {
        through_store(self, nodes, rank, said)
    }

    fn get(&mut self, _: u32, key: &str) -> Result<Option<String>> {
        let command = Command::new("kvs-get").with("jobid", &self.job).with("srcid", -1).with("key", key);
        let answer = self.exchange(&command)?;
        let found = answer.succeeded() && answer.get("found").is_none_or(|found| found == "TRUE");
        Ok(answer.get("value").filter(|_| found).map(str::to_owned))
    }

    fn max_key(&self) -> usize {
        MAX_KEY
    }

    fn max_value(&self) -> usize {
        MAX_VALUE
    }

    fn aborter(&self) -> Aborter {
        Aborter::pmi_2(self.channel)
    }

    fn finalize(&mut self) -> Result<()> {
        self.ask(&Command::new("finalize")).map(drop)
    }

    fn publish(&mut self, name: &str, port: &str) -> Result<()> {
        let command = Command::new("name-publish").with("name", name).with("port", port);
        self.service(command, ErrorClass::SERVICE, name).map(drop)
    }

    fn unpublish(&mut self, name: &str) -> Result<()> {
        self.service(Command::new("name-unpublish").with("name", name), ErrorClass::SERVICE, name).map(drop)
    }

    fn lookup(&mut self, name: &str) -> Result<String> {
        let answer = self.service(Command::new("name-lookup").with("name", name), ErrorClass::NAME, name)?;
        match answer.get("port").or(answer.get("value")) {
            Some(port) => Ok(port.to_owned()),
            None => Err(garbled("name-lookup", &emit(&answer))),
        }
    }
}

fn garbled(asked: &str, answer: &str) -> Error {
    Error::new(
        ErrorClass::OTHER,
        format!(
            "the launcher answered {:?} to the PMI-2 command {asked:?}; it does not speak this protocol",
            answer.trim()
        ),
    )
}
