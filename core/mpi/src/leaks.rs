//! What a program did not free: gathered when MPI and the process end, if asked for (`WEFT_LEAKS`).
//!
//! Nothing of it is an error of the standard, which lets programs end with objects alive; but what is left at the end was usually
//! left in a loop.

use crate::always::Always;
use crate::process::Process;
use crate::request::COLLECTIVE;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weft_engine::{Engine, RequestId};
use weft_types::Handle;

/// Something left, with the word for its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// One of its kind; the plural adds an s.
    pub kind: &'static str,
    /// What is known of it: name, size, the call that made it.
    pub text: String,
}

/// Different things of one kind that are told; of more, only the number.
const TOLD: usize = 3;

fn left(kind: &'static str, text: impl Into<String>, site: Option<&str>) -> Left {
    let mut text = text.into();
    if let Some(site) = site {
        let _ = write!(text, "{}made by {site}", if text.is_empty() { "" } else { ", " });
    }
    Left { kind, text }
}

fn of(number: u32, noun: &str) -> String {
    format!(
        "of {number} {noun}{}",
        if number == 1 {
            ""
        } else if noun.ends_with('s') {
            "es"
        } else {
            "s"
        }
    )
}

fn quoted(name: &[u8]) -> String {
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => format!("\"{}\"", String::from_utf8_lossy(name)),
    }
}

impl Process {
    /// From now on remembers where objects are made: `place` tells it.
    pub fn remember_places(&mut self, place: fn() -> String) {
        self.comms.remember_places(place);
        self.groups.remember_places(place);
        self.types.remember_places(place);
        self.windows.remember_places(place);
        self.ops.remember_places(place);
        self.requests.remember_places(place);
    }

    /// Objects that the program made and did not free; also after the World Model has ended.
    pub fn left_objects(&self) -> Vec<Left> {
        let mut all = Vec::new();
        let inner: Vec<Handle> = self.windows.iter().map(|(window, _)| window.comm).collect();
        for comm in self.comms.iter().filter(|comm| !comm.handle.is_predefined()) {
            if !inner.contains(&comm.handle) {
                let text = format!("{} {}", quoted(&comm.name), of(comm.size, "rank"));
                all.push(left("communicator", text, self.comms.site(comm.handle)));
            }
        }
        for (size, site) in self.groups.left() {
            all.push(left("group", of(size, "process"), site.as_deref()));
        }
        for (window, site) in self.windows.iter() {
            all.push(left(
                "window",
                format!("{} {}", quoted(&window.name), of(window.group.size(), "rank")),
                site,
            ));
        }
        all.extend(self.types.left().map(|(name, site)| left("datatype", quoted(name), site)));
        all.extend(self.ops.sites().map(|site| left("operation", "", site)));
        if !self.sessions.is_empty() {
            all.push(left("session that is not finalized", "", None));
        }
        all.extend(
            self.cache
                .left()
                .into_iter()
                .map(|(key, holder)| left("attribute key", format!("{key} of {holder}"), None)),
        );
        all
    }

    /// Requests, messages and buffers that are left; to be asked while the communicators of the World Model exist.
    pub fn left_traffic(&self) -> Vec<Left> {
        let mut all = self.left_requests();
        all.extend(self.left_messages());
        let attached = self.requests.buffers.left();
        all.extend(attached.map(|(owner, buffer)| {
            let size =
                if buffer.automatic { "automatic".to_owned() } else { format!("{} bytes", buffer.size) };
            left("attached buffer", format!("{size}, of {owner}"), None)
        }));
        all
    }

    fn left_requests(&self) -> Vec<Left> {
        let mut all: Vec<Left> = Vec::new();
        for (handle, site) in self.requests.iter() {
            all.push(left("request", self.phrase(handle), site));
        }
        let held = |engine: &Engine| {
            engine.held().into_iter().map(|id| (id, engine.owner(id))).collect::<Vec<(RequestId, u32)>>()
        };
        let mut requests = held(&self.engine);
        for (number, lane) in self.lanes.iter() {
            let there = lane.with(|inner| held(&inner.engine));
            requests.extend(there.into_iter().map(|(id, owner)| (id.in_lane(number), owner)));
        }
        for (id, owner) in requests {
            let collective = owner & COLLECTIVE != 0;
            // Requests inside persistent and combined ones are told with them.
            let handle = crate::lanes::request_handle(id);
            let is_inner = self.requests.contains(handle);
            if self.comms.exists(Handle(owner & !COLLECTIVE))
                && !is_inner
                && (collective || self.is_ordinary(id))
            {
                all.push(left("request", self.phrase(handle), None));
            }
        }
        all
    }

    fn left_messages(&self) -> Vec<Left> {
        let mut all: Vec<Left> =
            self.tell_all_strays().map(|text| left("message not received", text, None)).collect();
        let probed = self.messages.len();
        all.extend((0..probed).map(|_| left("message taken by MPI_Mprobe and not received", "", None)));
        all
    }
}

impl Always {
    /// From now on remembers where objects are made.
    pub fn remember_places(&mut self, place: fn() -> String) {
        self.infos.remember_places(place);
        self.errhandlers.remember_places(place);
    }

    /// Everything the program made and did not free.
    pub fn left(&self) -> Vec<Left> {
        let infos = self.infos.iter().map(|(handle, info)| {
            let key = info.pairs().next().map(|(key, _)| String::from_utf8_lossy(key).into_owned());
            let text = key.map_or_else(|| "empty".to_owned(), |key| format!("with the key {key:?}"));
            left("info object", text, self.infos.site(handle))
        });
        infos.chain(self.errhandlers.sites().map(|site| left("error handler", "", site))).collect()
    }
}

/// The words for what is left, a line for each kind and its first few, at most one screen; empty when nothing is.
pub fn report(who: &str, mut all: Vec<Left>) -> String {
    if all.is_empty() {
        return String::new();
    }
    all.sort();
    let mut kinds: BTreeMap<&str, (usize, BTreeMap<&str, usize>)> = BTreeMap::new();
    for one in &all {
        let (count, texts) = kinds.entry(one.kind).or_default();
        *count += 1;
        *texts.entry(&one.text).or_default() += 1;
    }
    let mut text = format!("weft: {who} ends with what the program did not free (WEFT_LEAKS):\n");
    for (kind, (count, texts)) in &kinds {
        let plural = match kind.split_once(' ') {
            Some((first @ ("message" | "piece"), rest)) => format!("{first}s {rest}"),
            _ => format!("{kind}s"),
        };
        let mut parts: Vec<String> = Vec::new();
        // What was left most often was left in a loop.
        let mut by_number: Vec<(&&str, &usize)> = texts.iter().filter(|(text, _)| !text.is_empty()).collect();
        by_number.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        for (words, number) in by_number.iter().take(TOLD) {
            parts.push(if **number == 1 { (**words).to_owned() } else { format!("{number} times {words}") });
        }
        if by_number.len() > TOLD {
            parts.push(format!("and {} others", by_number.len() - TOLD));
        }
        let name = if *count == 1 { (*kind).to_owned() } else { plural };
        let colon = if parts.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "      {count} {name}{colon}{}", parts.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_counted_by_kind_and_the_most_frequent_stands_first() {
        assert_eq!(report("rank 0 of 1", Vec::new()), "");
        let mut all = vec![left("group", "of 2 processes", None); 3];
        all.push(left("group", "of 1 process", Some("MPI_Comm_group at a(+0x1)")));
        all.push(left("operation", "", None));
        all.extend((0..9).map(|number| left("message not received", format!("tag {number}"), None)));
        let expected = "\
weft: rank 0 of 1 ends with what the program did not free (WEFT_LEAKS):
      4 groups: 3 times of 2 processes; of 1 process, made by MPI_Comm_group at a(+0x1)
      9 messages not received: tag 0; tag 1; tag 2; and 6 others
      1 operation
";
        assert_eq!(report("rank 0 of 1", all), expected);
    }

    #[test]
    fn a_process_that_frees_everything_leaves_nothing() {
        let mut process = Process::start().expect("nobody launched the tests");
        process.start_world();
        assert_eq!((process.left_objects(), process.left_traffic()), (vec![], vec![]));
        process.remember_places(|| "MPI_Group_incl at a(+0x1)".to_owned());
        let group = process.name_group(std::sync::Arc::new(crate::group::Group::world(1))).expect("room");
        assert_eq!(
            process.left_objects(),
            [left("group", "of 1 process", Some("MPI_Group_incl at a(+0x1)"))]
        );
        process.groups.remove(group).expect("alive");
        assert_eq!((process.left_objects(), process.left_traffic()), (vec![], vec![]));
    }
}
