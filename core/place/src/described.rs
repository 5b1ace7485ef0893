//! Machines described in words rather than by /sys: hwloc's synthetic descriptions and XML files.
//!
//! `HWLOC_SYNTHETIC="pack:2 numa:2 core:4 pu:2"` and `HWLOC_XMLFILE=node.xml` are how hwloc's users try a program on a machine
//! they do not have. Only what placement needs is read: packages, NUMA nodes, cores, processing units.

use std::collections::BTreeMap;

use crate::cpus::CpuSet;
use crate::kinds::{self, Described, Speeds};
use crate::topology::{Cpu, Topology};

/// More processing units than this are refused.
const MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Package,
    Numa,
    Core,
    Pu,
    Other,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let name = name.to_ascii_lowercase();
        Some(match name.as_str() {
            "machine" | "system" | "group" | "die" | "cluster" | "cache" | "misc" => Kind::Other,
            "pack" | "package" | "socket" => Kind::Package,
            "numa" | "numanode" | "node" => Kind::Numa,
            "core" => Kind::Core,
            "pu" => Kind::Pu,
            // l1, l2cache, l3i, l3ucache, ...
            _ if name.starts_with('l') && name[1..].starts_with(|digit: char| digit.is_ascii_digit()) => {
                Kind::Other
            }
            _ => return None,
        })
    }
}

/// Reads a synthetic description, from the machine inwards: `type:count` for each level, `[numa]` for memory attached to the
/// level before it. Processing units are numbered in order.
///
/// Errors: what cannot be read, in words.
pub fn synthetic(text: &str) -> Result<Topology, String> {
    let mut levels = Vec::new();
    let mut attached = Vec::new();
    for word in words(text) {
        if let Some(memory) = word.strip_prefix('[') {
            let name = memory.trim_end_matches(']').split(['(', ':']).next().unwrap_or_default();
            if Kind::of(name) != Some(Kind::Numa) {
                return Err(format!("{word:?} in {text:?} is no memory hwloc's synthetic descriptions know"));
            }
            attached.push(levels.len());
            continue;
        }
        let bare = word.split('(').next().unwrap_or(&word);
        let (name, count) = bare.split_once(':').unwrap_or(("group", bare));
        let kind = Kind::of(name).ok_or_else(|| format!("{name:?} in {text:?} is no part of a machine"))?;
        let count = count.parse::<usize>().ok().filter(|&count| count > 0 && count <= MOST);
        let count = count.ok_or_else(|| format!("{word:?} in {text:?} needs a number of parts: {name}:4"))?;
        if word.contains("indexes=") && kind == Kind::Pu {
            return Err(format!(
                "{word:?}: processing units numbered out of order cannot be read; use an XML file"
            ));
        }
        levels.push((kind, count));
    }
    let total =
        levels.iter().try_fold(1usize, |total, &(_, count)| total.checked_mul(count)).unwrap_or(usize::MAX);
    if levels.is_empty() || total > MOST {
        return Err(format!("{text:?} describes no machine of 1 to {MOST} processing units"));
    }
    // Where names are missing the last level is the processing units and the one before it the cores, as in hwloc.
    if !levels.iter().any(|&(kind, _)| kind == Kind::Core) {
        let at = levels.len().saturating_sub(2);
        if levels.len() >= 2 && levels[at].0 == Kind::Other {
            levels[at].0 = Kind::Core;
        }
    }
    let number = |pu: usize, level: usize| {
        let below: usize = levels[level..].iter().map(|&(_, count)| count).product();
        pu / below
    };
    // The number of the part of kind `kind` that holds a processing unit.
    let part = |pu: usize, kind: Kind| {
        let level = levels.iter().rposition(|&(other, _)| other == kind)?;
        Some(number(pu, level + 1))
    };
    let numa = |pu: usize| match attached.last() {
        Some(&level) => number(pu, level),
        None => part(pu, Kind::Numa).unwrap_or(0),
    };
    let cpus = (0..total).map(|pu| Cpu {
        number: pu,
        core: part(pu, Kind::Core).unwrap_or(pu),
        socket: part(pu, Kind::Package).unwrap_or(0),
        numa: numa(pu) as u32,
        kind: 0,
    });
    Ok(Topology::of(cpus.collect(), &Speeds::new()))
}

/// Words of a synthetic description; parentheses may hold blanks.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0usize;
    for letter in text.chars() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match letter.is_whitespace() && depth == 0 {
            true => words.push(String::new()),
            false => words.last_mut().expect("never empty").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Reads an XML file of hwloc, version 1 or 2.
///
/// Errors: what is missing, in words.
pub fn xml(text: &str) -> Result<Topology, String> {
    // The objects around the current tag, outermost first, with their numbers.
    let mut around: Vec<(Kind, usize)> = Vec::new();
    let mut cores = 0;
    let mut packages = 0;
    let mut cpus: BTreeMap<usize, Cpu> = BTreeMap::new();
    let mut memories: Vec<(usize, CpuSet)> = Vec::new();
    let mut allowed = None;
    let mut found: Vec<Described> = Vec::new();
    let mut in_kind = false;
    for tag in tags(text) {
        if tag == "/object" {
            around.pop();
            continue;
        }
        if let Some(attributes) = tag.strip_prefix("cpukind ") {
            in_kind = !attributes.ends_with('/');
            found.push(Described {
                cpus: attribute(attributes, "cpuset").map(bitmap).transpose()?.unwrap_or_default(),
                forced: attribute(attributes, "forced_efficiency").and_then(|order| order.parse().ok()),
                ..Described::default()
            });
            continue;
        }
        in_kind &= tag != "/cpukind";
        if let Some(attributes) = tag.strip_prefix("info ").filter(|_| in_kind)
            && let (Some(name), Some(value)) = (attribute(attributes, "name"), attribute(attributes, "value"))
            && let Some(kind) = found.last_mut()
        {
            kind.told.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let Some(attributes) = tag.strip_prefix("object ") else { continue };
        let alone = attributes.ends_with('/');
        let kind = attribute(attributes, "type").and_then(Kind::of).unwrap_or(Kind::Other);
        let os_index = attribute(attributes, "os_index").and_then(|number| number.parse::<usize>().ok());
        if around.is_empty() && allowed.is_none() {
            allowed = attribute(attributes, "allowed_cpuset").map(bitmap).transpose()?;
        }
        let own = match kind {
            Kind::Package => {
                packages += 1;
                os_index.unwrap_or(packages - 1)
            }
            Kind::Core => {
                cores += 1;
                cores - 1
            }
            _ => os_index.unwrap_or(0),
        };
        match kind {
            Kind::Numa => {
                let near = attribute(attributes, "cpuset").map(bitmap).transpose()?.unwrap_or_default();
                memories.push((own, near));
            }
            Kind::Pu => {
                let number = os_index
                    .filter(|&number| number < MOST)
                    .ok_or("a processing unit has no number (os_index)")?;
                let holder =
                    |kind| around.iter().rev().find(|&&(other, _)| other == kind).map(|&(_, number)| number);
                let core = holder(Kind::Core).unwrap_or_else(|| {
                    cores += 1;
                    cores - 1
                });
                cpus.insert(
                    number,
                    Cpu { number, core, socket: holder(Kind::Package).unwrap_or(0), numa: 0, kind: 0 },
                );
            }
            _ => {}
        }
        if !alone {
            around.push((kind, own));
        }
    }
    if cpus.is_empty() {
        return Err("the file describes no processing units: is it an XML file of hwloc (lstopo --of xml)?"
            .to_owned());
    }
    // Of memories that hold one another (a package's, and a node's inside it) the smallest is the nearest.
    memories.sort_by_key(|(_, near)| std::cmp::Reverse(near.len()));
    for (number, near) in memories {
        for cpu in near.iter() {
            if let Some(cpu) = cpus.get_mut(cpu) {
                cpu.numa = number as u32;
            }
        }
    }
    let usable = |cpu: &Cpu| allowed.as_ref().is_none_or(|allowed: &CpuSet| allowed.contains(cpu.number));
    Ok(Topology::of(cpus.into_values().filter(usable).collect(), &kinds::described(&found)))
}

/// The insides of all tags, `<` and `>` taken off.
pub(crate) fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).map(|piece| piece.split('>').next().unwrap_or(piece).trim())
}

pub(crate) fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    while let Some(at) = rest.find(name) {
        let before = &rest[..at];
        let after = &rest[at + name.len()..];
        if (before.is_empty() || before.ends_with(char::is_whitespace)) && after.starts_with("=\"") {
            return after[2..].split('"').next();
        }
        rest = after;
    }
    None
}

/// hwloc's bitmaps: 32-bit words in hexadecimal, the highest first.
pub(crate) fn bitmap(text: &str) -> Result<CpuSet, String> {
    let words: Vec<&str> = text.split(',').collect();
    let mut cpus = Vec::new();
    for (place, word) in words.iter().rev().enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        if digits == "f...f" {
            continue;
        }
        let bits = match digits {
            "" => 0,
            _ => u32::from_str_radix(digits, 16).map_err(|_| format!("{text:?} is no bitmap of hwloc"))?,
        };
        cpus.extend(
            (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| place * 32 + bit).filter(|&cpu| cpu < MOST),
        );
    }
    Ok(cpus.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Level;
    use proptest::prelude::*;

    fn sizes(topology: &Topology) -> [usize; 4] {
        [Level::Socket, Level::Numa, Level::Core, Level::HwThread].map(|level| topology.parts(level).len())
    }

    #[test]
    fn synthetic_descriptions_are_read() {
        let table = [
            ("pack:2 numa:4 l3:2 core:8 pu:2", [2, 8, 128, 256]),
            ("package:2 core:4 pu:1", [2, 1, 8, 8]),
            ("pack:2 [numa(memory=1GB)] core:2 pu:2", [2, 2, 4, 8]),
            ("socket:1 core:3(x=1 y=2) pu:1", [1, 1, 3, 3]),
            ("node:3 core:2 pu:1", [1, 3, 6, 6]),
            ("4 2", [1, 1, 4, 8]),
        ];
        for (text, expected) in table {
            assert_eq!(synthetic(text).as_ref().map(sizes), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_descriptions_are_named() {
        for (text, part) in [
            ("", "no machine"),
            ("moon:2", "moon"),
            ("core:x pu:1", "core:x"),
            ("core:99999 pu:99999", "core"),
            ("core:0", "core:0"),
            ("[moon] pu:2", "moon"),
        ] {
            let why = synthetic(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(xml("<html>").expect_err("no machine").contains("lstopo"));
    }

    const SMALL: &str = r#"<?xml version="1.0"?><topology version="2.0">
      <object type="Machine" os_index="0" cpuset="0x0000000f" allowed_cpuset="0x00000007">
        <info name="x" value="y"/>
        <object type="Package" os_index="1" cpuset="0x00000003">
          <object type="NUMANode" os_index="4" cpuset="0x00000003"/>
          <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="1"/></object>
        </object>
        <object type="Package" os_index="3" cpuset="0x0000000c">
          <object type="NUMANode" os_index="5" cpuset="0x0000000c"/>
          <object type="Core" os_index="0"><object type="PU" os_index="2"/><object type="PU" os_index="3"/></object>
        </object>
      </object></topology>"#;

    #[test]
    fn xml_files_are_read() {
        let topology = xml(SMALL).expect("a machine");
        assert_eq!(sizes(&topology), [2, 2, 2, 3]);
        assert_eq!(topology.numa_node(&[2].into_iter().collect()), Some(5));
        assert_eq!(topology.parts(Level::Core)[0].to_string(), "0-1");
    }

    #[test]
    fn bitmaps_of_many_words_are_read() {
        let read = |text: &str| bitmap(text).map(|cpus| cpus.to_string());
        assert_eq!(read("0x00000001,0x80000000,0x0"), Ok("63-64".to_owned()));
        assert_eq!(read("0xf...f,,0x3"), Ok("0-1".to_owned()));
        assert!(read("0xzz").is_err());
    }

    /// hwloc itself, where it is installed, writes the XML of a synthetic machine; both readings must agree.
    #[test]
    fn hwloc_agrees() {
        let machines = [
            "pack:2 numa:2 l3:1 core:3 pu:2",
            "pack:2 [numa] core:2 pu:2",
            "numa:2 pack:2 core:2 pu:1",
            "pack:1 core:5 pu:1",
            "pack:3 l2:2 core:2 pu:4",
        ];
        for text in machines {
            let run = std::process::Command::new("lstopo").args(["--input", text, "--of", "xml"]).output();
            let Ok(output) = run else {
                println!("skipped: no lstopo here (Debian: hwloc-nox)");
                return;
            };
            let ours = synthetic(text).expect("readable");
            let theirs = xml(&String::from_utf8_lossy(&output.stdout)).expect("readable");
            for level in [Level::Socket, Level::Numa, Level::Core, Level::HwThread, Level::Machine] {
                assert_eq!(ours.parts(level), theirs.parts(level), "{text} {level:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:\\[\\]() ]{0,40}", damage in "[ -~]{0,60}", at in 0usize..900) {
            let _ = synthetic(&text);
            let _ = xml(&damage);
            let mut damaged = SMALL.to_owned();
            let at = at.min(damaged.len());
            if damaged.is_char_boundary(at) {
                damaged.insert_str(at, &damage);
                let _ = xml(&damaged);
            }
        }
    }
}
