//! The launcher's side of PMI-1, as Hydra speaks it, and the one-way commands of Weft's own ranks.
//!
//! Sans-IO: bytes of a rank in, [`Action`]s out. One server serves all ranks of a job; they form one key-value space.
//!
//! Weft's commands, none of which is answered: `weft_start pid=` (MPI begins), `weft_done` (MPI has ended), `weft_survives`
//! (goes on when others are aborted), `weft_note text=` (one line of diagnosis), `weft_stall` (see [`weft_boot::stall`]),
//! `weft_in_vain ranks= patience=` (asked over the fabric in vain, see [`crate::ways`]), `weft_farewell word=` (has ended MPI after a
//! loss), `weft_reopen` (MPI is used again after `weft_done`), and the fields `weft_message` and `weft_ranks` of `abort`; the latter
//! is answered by `weft_aborted scope=some` or `all`.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use weft_boot::card::{parse_rank_list, parse_ranks_in_any_order};
use weft_boot::kinds::{self, NodeKinds};
use weft_boot::pmi::mapping;
use weft_boot::pmi::wire1::{Command, LineBuffer, decode_word};
use weft_boot::stall::{self, Stall};
use weft_types::Farewell;

/// Longest key and value, and name of a key-value space; the same as Hydra's.
pub(crate) const MAX_KEY: usize = 64;
pub(crate) const MAX_VALUE: usize = 1024;
const MAX_NAME: usize = 256;

/// Most entries of the key-value space: enough for some dozens per rank of a large job, and a bound on memory.
const MAX_ENTRIES: usize = 1 << 20;

/// How many keys the agent of a host with `here` of `size` ranks may take on its own: its part of the space, and one for each
/// rank at least. What hosts take this way is not counted against what the server itself refuses.
pub fn share_of_host(here: usize, size: usize) -> usize {
    (MAX_ENTRIES / size.max(1)).max(1) * here
}

/// Ranks say of at most so many at a time that they ask them in vain.
const MOST_IN_VAIN: usize = 64;

/// What the launcher has to do after bytes of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send `line` to `rank`.
    Reply {
        /// To whom.
        rank: usize,
        /// The line with its end.
        line: String,
    },
    /// `rank` has begun MPI.
    Started {
        /// Who.
        rank: usize,
        /// Its process, when it told; may be a descendant of the one that was started.
        pid: Option<i32>,
    },
    /// `rank` has ended MPI; its exit is no failure from now on.
    Finished {
        /// Who.
        rank: usize,
    },
    /// `rank` asks for the end of the job.
    Abort {
        /// Who.
        rank: usize,
        /// Exit code it wants.
        code: i32,
        /// Its words.
        message: Option<String>,
        /// Whom it aborts; empty: the whole job.
        ranks: Vec<usize>,
    },
    /// `rank` can go on when others are aborted.
    Survives {
        /// Who.
        rank: usize,
    },
    /// `rank` tells a line of diagnosis.
    Note {
        /// Who.
        rank: usize,
        /// Its words.
        text: String,
    },
    /// Calls of `rank` have been blocked for long, or go on.
    Stalled {
        /// Who.
        rank: usize,
        /// What it tells.
        stall: Box<Stall>,
    },
    /// `rank` looks at its fabric, and has long asked others in vain for a way to them.
    InVain {
        /// Who.
        rank: usize,
        /// Whom it asks.
        others: Vec<usize>,
        /// How long both of a pair have to say so.
        patience: Duration,
    },
    /// `rank` has ended MPI, or a part of it, after a loss.
    Parted {
        /// Who.
        rank: usize,
        /// What it leaves behind.
        farewell: Farewell,
    },
    /// `rank`, which had ended MPI, uses it again.
    Reopened {
        /// Who.
        rank: usize,
    },
    /// `rank` began MPI a second time, in another process.
    StartedAgain {
        /// Who.
        rank: usize,
    },
    /// `rank` does not speak PMI-1.
    Garbled {
        /// Who.
        rank: usize,
        /// What came.
        what: String,
    },
}

/// The server of one job.
#[derive(Debug)]
pub struct Server {
    name: String,
    universe_size: u32,
    store: HashMap<String, String>,
    services: BTreeMap<String, String>,
    ranks: Vec<Conversation>,
    /// Ranks inside the current barrier.
    inside: usize,
    /// What nodes said of themselves since the last one.
    kinds: NodeKinds,
}

#[derive(Debug, Default)]
struct Conversation {
    lines: LineBuffer,
    appnum: i32,
    in_barrier: bool,
    /// Process that began MPI; `Some(None)`: it did not tell which.
    started: Option<Option<i32>>,
    /// Inside the lines of a multi-line command (`mcmd=` ... `endcmd`).
    in_block: bool,
}

impl Server {
    /// A server for ranks with these application numbers. `name` is the name of the job.
    pub fn new(name: &str, appnums: &[i32], universe_size: u32) -> Server {
        Server::on_nodes(name, appnums, universe_size, mapping::one_node(appnums.len() as u32))
    }

    /// As [`Server::new`], for ranks on several nodes; `nodes` is the value of `PMI_process_mapping`.
    pub fn on_nodes(name: &str, appnums: &[i32], universe_size: u32, nodes: String) -> Server {
        let ranks =
            appnums.iter().map(|&appnum| Conversation { appnum, ..Conversation::default() }).collect();
        let store = HashMap::from([("PMI_process_mapping".to_owned(), nodes)]);
        Server {
            name: name.to_owned(),
            universe_size,
            store,
            services: BTreeMap::new(),
            ranks,
            inside: 0,
            kinds: NodeKinds::default(),
        }
    }

    /// Takes bytes that came from `rank`.
    pub fn receive(&mut self, rank: usize, bytes: &[u8], actions: &mut Vec<Action>) {
        if !self.ranks[rank].lines.push(bytes) {
            actions.push(Action::Garbled { rank, what: "a line without end".to_owned() });
            return;
        }
        while let Some(line) = self.ranks[rank].lines.next_line() {
            let line = line.to_vec();
            self.line(rank, &line, actions);
        }
    }

    /// Takes `put` lines that agents have answered: each within its host's share ([`share_of_host`]), so none is refused.
    pub fn take_puts(&mut self, lines: &[u8]) {
        for command in lines.split(|&byte| byte == b'\n').filter_map(|line| Command::parse(line).ok()) {
            if let (Some(key), Some(value)) = (command.get("key"), command.get("value")) {
                self.keep(key, value);
            }
        }
    }

    fn keep(&mut self, key: &str, value: &str) {
        match key {
            kinds::KEY => self.kinds.add(value),
            _ => drop(self.store.insert(key.to_owned(), value.to_owned())),
        }
    }

    /// Whether somebody waits in a barrier.
    pub fn anybody_waits(&self) -> bool {
        self.inside > 0
    }

    /// Whether `rank` waits in a barrier.
    pub fn waits(&self, rank: usize) -> bool {
        self.ranks[rank].in_barrier
    }

    fn line(&mut self, rank: usize, line: &[u8], actions: &mut Vec<Action>) {
        let conversation = &mut self.ranks[rank];
        if conversation.in_block {
            if line.trim_ascii() == b"endcmd" {
                conversation.in_block = false;
                actions.push(refusal(
                    rank,
                    "spawn_result",
                    "this_version_of_mpiexec_cannot_start_processes_in_a_running_job",
                ));
            }
            return;
        }
        if line.starts_with(b"mcmd=") {
            conversation.in_block = true;
            return;
        }
        match Command::parse(line) {
            Ok(command) => self.command(rank, &command, actions),
            Err(_) => {
                let what = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                actions.push(Action::Garbled { rank, what });
            }
        }
    }

    fn command(&mut self, rank: usize, command: &Command, actions: &mut Vec<Action>) {
        let mut reply = |command: Command| actions.push(Action::Reply { rank, line: command.emit() });
        let word = |key: &str| command.get(key).unwrap_or_default();
        match command.name.as_str() {
            "init" => {
                let known = command.get("pmi_version") == Some("1");
                let answer =
                    Command::new("response_to_init").with("pmi_version", 1).with("pmi_subversion", 1);
                reply(answer.with("rc", if known { 0 } else { -1 }));
                if known {
                    // As under Hydra, programs of other libraries may follow each other in one rank.
                    self.ranks[rank].started = None;
                    self.start(rank, None, actions);
                }
            }
            "get_maxes" => {
                let answer = Command::new("maxes").with("rc", 0).with("kvsname_max", MAX_NAME);
                reply(answer.with("keylen_max", MAX_KEY).with("vallen_max", MAX_VALUE));
            }
            "get_appnum" => {
                reply(Command::new("appnum").with("rc", 0).with("appnum", self.ranks[rank].appnum))
            }
            "get_my_kvsname" => reply(Command::new("my_kvsname").with("rc", 0).with("kvsname", &self.name)),
            "get_universe_size" => {
                reply(Command::new("universe_size").with("rc", 0).with("size", self.universe_size));
            }
            "put" => {
                let (key, value) = (word("key"), word("value"));
                let refused = if key.is_empty() || key.len() > MAX_KEY || value.len() > MAX_VALUE {
                    Some("key_or_value_too_long")
                } else if self.store.len() >= MAX_ENTRIES && !self.store.contains_key(key) {
                    Some("too_many_keys")
                } else {
                    None
                };
                match refused {
                    Some(why) => actions.push(refusal(rank, "put_result", why)),
                    None => {
                        self.keep(key, value);
                        let mut reply =
                            |command: Command| actions.push(Action::Reply { rank, line: command.emit() });
                        reply(Command::new("put_result").with("rc", 0).with("msg", "success"));
                    }
                }
            }
            "get" => match self.store.get(word("key")) {
                Some(value) => {
                    reply(
                        Command::new("get_result").with("rc", 0).with("msg", "success").with("value", value),
                    );
                }
                None => {
                    let answer = Command::new("get_result").with("rc", -1).with("msg", "key_not_found");
                    reply(answer.with("value", "unknown"));
                }
            },
            "barrier_in" => self.barrier(rank, actions),
            "finalize" => {
                reply(Command::new("finalize_ack").with("rc", 0));
                actions.push(Action::Finished { rank });
            }
            "abort" => {
                let code = command.number("exitcode").unwrap_or(1);
                let message = command.get("weft_message").and_then(decode_word);
                let message = message.or_else(|| command.get("message").map(str::to_owned));
                let size = self.ranks.len();
                let ranks = command.get("weft_ranks").and_then(|text| parse_rank_list(text).ok());
                let ranks = ranks.unwrap_or_default().into_iter().map(|rank| rank as usize);
                let ranks = ranks.filter(|&rank| rank < size).collect();
                let message = message.filter(|text| !text.is_empty());
                actions.push(Action::Abort { rank, code, message, ranks });
            }
            "publish_name" => {
                let name = word("service");
                match self.services.contains_key(name) {
                    true => actions.push(refusal(rank, "publish_result", "the_name_is_published_already")),
                    false => {
                        self.services.insert(name.to_owned(), word("port").to_owned());
                        reply(
                            Command::new("publish_result")
                                .with("info", "ok")
                                .with("rc", 0)
                                .with("msg", "success"),
                        );
                    }
                }
            }
            "unpublish_name" => match self.services.remove(word("service")) {
                Some(_) => {
                    reply(
                        Command::new("unpublish_result")
                            .with("info", "ok")
                            .with("rc", 0)
                            .with("msg", "success"),
                    );
                }
                None => actions.push(refusal(rank, "unpublish_result", "no_such_name_is_published")),
            },
            "lookup_name" => match self.services.get(word("service")) {
                Some(port) => {
                    let answer = Command::new("lookup_result").with("port", port).with("info", "ok");
                    reply(answer.with("rc", 0).with("msg", "success"));
                }
                None => actions.push(refusal(rank, "lookup_result", "no_such_name_is_published")),
            },
            "weft_start" => self.start(rank, command.number("pid"), actions),
            "weft_done" => actions.push(Action::Finished { rank }),
            "weft_survives" => actions.push(Action::Survives { rank }),
            "weft_note" => {
                let text = decode_word(word("text")).unwrap_or_default();
                actions.push(Action::Note { rank, text });
            }
            stall::COMMAND => {
                // What cannot be read is diagnosis lost, no reason to end a job.
                if let Some(stall) = Stall::parse(command) {
                    actions.push(Action::Stalled { rank, stall: Box::new(stall) });
                }
            }
            "weft_in_vain" => {
                let others = parse_ranks_in_any_order(word("ranks")).ok();
                let patience = command.number("patience").and_then(|seconds: i32| seconds.try_into().ok());
                // What cannot be read would be a verdict that never comes.
                let (Some(others), Some(patience)) = (others, patience) else {
                    return actions.push(Action::Garbled { rank, what: command.emit() });
                };
                let others = others.into_iter().map(|rank| rank as usize);
                let others = others.filter(|&rank| rank < self.ranks.len()).take(MOST_IN_VAIN).collect();
                actions.push(Action::InVain { rank, others, patience: Duration::from_secs(patience) });
            }
            "weft_farewell" => {
                if let Some(word) = command.get("word").and_then(|word| word.parse().ok()) {
                    actions.push(Action::Parted { rank, farewell: Farewell::from_word(word) });
                }
            }
            "weft_reopen" => actions.push(Action::Reopened { rank }),
            other => {
                // Answered rather than dropped: the rank is waiting.
                actions.push(refusal(rank, other, "this_launcher_does_not_know_the_command"));
            }
        }
    }

    /// A process may begin MPI again after it has ended it (sessions); another process may not take its place.
    fn start(&mut self, rank: usize, pid: Option<i32>, actions: &mut Vec<Action>) {
        let before = self.ranks[rank].started.replace(pid);
        actions.push(match before.is_none_or(|before| before == pid) {
            true => Action::Started { rank, pid },
            false => Action::StartedAgain { rank },
        });
    }

    fn barrier(&mut self, rank: usize, actions: &mut Vec<Action>) {
        if std::mem::replace(&mut self.ranks[rank].in_barrier, true) {
            actions.push(Action::Garbled { rank, what: "barrier_in inside a barrier".to_owned() });
            return;
        }
        self.inside += 1;
        if self.inside == self.ranks.len() {
            self.inside = 0;
            let end = Command::new("barrier_out").with("rc", 0);
            let kinds = std::mem::take(&mut self.kinds);
            let line = if kinds.differ() { end.with("kinds", kinds.emit()) } else { end }.emit();
            for (rank, conversation) in self.ranks.iter_mut().enumerate() {
                conversation.in_barrier = false;
                actions.push(Action::Reply { rank, line: line.clone() });
            }
        }
    }
}

fn refusal(rank: usize, answer: &str, why: &str) -> Action {
    let command = Command::new(answer).with("rc", -1).with("msg", why);
    Action::Reply { rank, line: command.with("info", why).emit() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_boot::pmi::client1::in_vain_command;

    fn server(size: usize) -> Server {
        Server::new("job", &vec![0; size], 8)
    }

    fn say(server: &mut Server, rank: usize, text: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        server.receive(rank, text.as_bytes(), &mut actions);
        actions
    }

    fn answer(server: &mut Server, rank: usize, text: &str) -> String {
        match say(server, rank, text).into_iter().next() {
            Some(Action::Reply { line, .. }) => line.trim().to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// What Hydra answers, in the order in which MPICH's ranks ask.
    #[test]
    fn a_conversation_as_with_hydra() {
        let mut server = server(2);
        let talk = [
            (
                "cmd=init pmi_version=1 pmi_subversion=1\n",
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            ),
            ("cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"),
            ("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0"),
            ("cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=job"),
            ("cmd=get_universe_size\n", "cmd=universe_size rc=0 size=8"),
            (
                "cmd=get kvsname=job key=PMI_process_mapping\n",
                "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))",
            ),
            ("cmd=put kvsname=job key=a value=b=c\n", "cmd=put_result rc=0 msg=success"),
            ("cmd=get kvsname=job key=a\n", "cmd=get_result rc=0 msg=success value=b=c"),
            ("cmd=get kvsname=job key=z\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown"),
            ("cmd=publish_name service=s port=p\n", "cmd=publish_result info=ok rc=0 msg=success"),
            ("cmd=lookup_name service=s\n", "cmd=lookup_result port=p info=ok rc=0 msg=success"),
            ("cmd=unpublish_name service=s\n", "cmd=unpublish_result info=ok rc=0 msg=success"),
            ("cmd=finalize\n", "cmd=finalize_ack rc=0"),
        ];
        for (question, expected) in talk {
            assert_eq!(answer(&mut server, 0, question), expected, "{question}");
        }
    }

    #[test]
    fn a_fence_tells_the_kinds_of_nodes_where_they_differ() {
        let mut server = server(3);
        let fence = |server: &mut Server, words: &[&str]| {
            for (rank, word) in words.iter().enumerate() {
                let line = format!("cmd=put kvsname=job key=weft-node-kind value={word}@h{rank}\n");
                // Of an agent or from the rank itself.
                match rank % 2 {
                    0 => server.take_puts(line.as_bytes()),
                    _ => drop(say(server, rank, &line)),
                }
            }
            (0..3).flat_map(|rank| say(server, rank, "cmd=barrier_in\n")).collect::<Vec<_>>()
        };
        let told = |actions: &[Action], text: &str| {
            let line = format!("cmd=barrier_out rc=0{text}\n");
            actions.len() == 3
                && actions
                    .iter()
                    .all(|action| matches!(action, Action::Reply { line: said, .. } if *said == line))
        };
        let alike = fence(&mut server, &["u", "u", "u"]);
        assert!(told(&alike, ""), "{alike:?}");
        let different = fence(&mut server, &["iu", "u", "iu"]);
        assert!(told(&different, " kinds=iu:2:h0+h2,u:1:h1"), "{different:?}");
        let after = fence(&mut server, &[]);
        assert!(told(&after, ""), "once: {after:?}");
    }

    #[test]
    fn a_barrier_opens_when_the_last_rank_arrives() {
        let mut server = server(3);
        assert!(say(&mut server, 2, "cmd=barrier_in\n").is_empty());
        assert!(say(&mut server, 0, "cmd=barrier_in\n").is_empty());
        assert!(server.waits(0) && !server.waits(1));
        let released = say(&mut server, 1, "cmd=barrier_in\n");
        assert_eq!(released.len(), 3);
        assert!(!server.anybody_waits());
        assert!(say(&mut server, 1, "cmd=barrier_in\n").is_empty(), "the next barrier is a new one");
    }

    #[test]
    fn spawn_is_refused_in_words() {
        let mut server = server(1);
        assert!(say(&mut server, 0, "mcmd=spawn\nnprocs=2\nexecname=a\n").is_empty());
        let refused = answer(&mut server, 0, "endcmd\n");
        assert!(refused.starts_with("cmd=spawn_result rc=-1"), "{refused}");
        assert_eq!(answer(&mut server, 0, "cmd=get_appnum\n"), "cmd=appnum rc=0 appnum=0");
    }

    #[test]
    fn abort_carries_code_and_words() {
        let mut server = server(2);
        let abort = |code, message: &str| {
            vec![Action::Abort { rank: 1, code, message: Some(message.to_owned()), ranks: Vec::new() }]
        };
        assert_eq!(
            say(&mut server, 1, "cmd=abort exitcode=3 weft_message=it%20broke\n"),
            abort(3, "it broke")
        );
        assert_eq!(say(&mut server, 1, "cmd=abort exitcode=4 message=it broke\n"), abort(4, "it broke"));
        let some = say(&mut server, 1, "cmd=abort exitcode=5 weft_ranks=0-1,7\n");
        assert_eq!(some, [Action::Abort { rank: 1, code: 5, message: None, ranks: vec![0, 1] }]);
        assert_eq!(say(&mut server, 1, "cmd=weft_survives\n"), [Action::Survives { rank: 1 }]);
        assert_eq!(
            say(&mut server, 1, "cmd=abort\n"),
            [Action::Abort { rank: 1, code: 1, message: None, ranks: Vec::new() }]
        );
    }

    #[test]
    fn weft_ranks_are_not_answered() {
        let mut server = server(1);
        let told = say(&mut server, 0, "cmd=weft_start pid=7\ncmd=weft_note text=a%20b\ncmd=weft_done\n");
        assert_eq!(
            told,
            [
                Action::Started { rank: 0, pid: Some(7) },
                Action::Note { rank: 0, text: "a b".to_owned() },
                Action::Finished { rank: 0 },
            ]
        );
        assert_eq!(
            say(&mut server, 0, "cmd=weft_start pid=7\n"),
            [Action::Started { rank: 0, pid: Some(7) }]
        );
        assert_eq!(say(&mut server, 0, "cmd=weft_start pid=8\n"), [Action::StartedAgain { rank: 0 }]);
    }

    #[test]
    fn ranks_asked_in_vain_are_heard_in_any_order() {
        let in_vain = |others: &[usize]| {
            [Action::InVain { rank: 2, others: others.to_vec(), patience: Duration::from_secs(30) }]
        };
        let mut server = server(6);
        for (peers, others) in [(&[5, 3][..], &[3, 5][..]), (&[1, 0, 2], &[0, 1, 2]), (&[9, 4], &[4])] {
            let line = in_vain_command(peers, 30).emit();
            assert_eq!(say(&mut server, 2, &line), in_vain(others), "{line}");
        }
        assert_eq!(say(&mut server, 2, "cmd=weft_in_vain ranks=5,3-4,5 patience=30\n"), in_vain(&[3, 4, 5]));
        for bad in ["ranks=3-x patience=30", "ranks=3", "ranks=5-3 patience=30", "ranks=3 patience=-1"] {
            let said = say(&mut server, 2, &format!("cmd=weft_in_vain {bad}\n"));
            assert!(matches!(said[..], [Action::Garbled { rank: 2, .. }]), "{bad}: {said:?}");
        }
    }

    #[test]
    fn other_protocols_are_named() {
        let mut server = server(1);
        assert!(matches!(&say(&mut server, 0, "GET / HTTP/1.1\n")[..], [Action::Garbled { .. }]));
        assert!(answer(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0\n").contains("rc=-1"));
        assert!(answer(&mut server, 0, "cmd=get_moon\n").contains("cmd=get_moon rc=-1"));
    }

    proptest! {
        /// No bytes from a rank bring the launcher down, and every barrier is left by all or none.
        #[test]
        fn any_bytes_are_survived(pieces in prop::collection::vec((0usize..3, prop::collection::vec(any::<u8>(), 0..40)), 0..20)) {
            let mut server = server(3);
            for (rank, bytes) in pieces {
                let mut actions = Vec::new();
                server.receive(rank, &bytes, &mut actions);
            }
        }

        #[test]
        fn any_order_of_commands_is_survived(talk in prop::collection::vec((0usize..3, prop::sample::select(vec![
            "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=barrier_in\n", "cmd=finalize\n", "cmd=put key=a value=b\n",
            "cmd=get key=a\n", "cmd=weft_reopen\n", "cmd=weft_in_vain ranks=0-1 patience=3\n", "cmd=weft_farewell word=3\n", "cmd=weft_stall seen=1-2 call=a needs=.0&1-2\n", "mcmd=spawn\n", "endcmd\n", "cmd=weft_start\n", "cmd=weft_done\n", "cmd=abort\n", "cmd=",
        ])), 0..40)) {
            let mut server = server(3);
            for (rank, line) in talk {
                let outs = say(&mut server, rank, line)
                    .iter()
                    .filter(|action| matches!(action, Action::Reply { line, .. } if line.starts_with("cmd=barrier_out")))
                    .count();
                prop_assert!(outs == 0 || outs == 3);
            }
        }
    }
}
