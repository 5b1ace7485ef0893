//! What all processes must have alike in the layers round what carries messages (`WEFT_LATENCY`, `WEFT_FAULTS`,
//! `WEFT_TRACE_PACKETS`), and what is said where they have not. Pure.
//!
//! * The times of another network put a time before every packet, so both ends of any way must have the same.
//! * Where messages go through a node's memory, layers of any kind keep collectives and windows out of it; so all of a node have
//!   some, or none has.
//!
//! In a node each process compares with the first one, by a word in its memory. Between nodes the model stands in what a process says of
//! itself; whoever looks another one up compares, and who has a model looks up the next rank at the start: somewhere
//! on the way round one with a model is followed by one that has another or none.

use weft_engine::Layers;
use weft_types::params::LatencyModel;
use weft_types::{Error, ErrorClass, Result};

/// Set in every word.
const SAID: u64 = 1;
/// There are layers.
const LAYERS: u64 = 2;

/// What a process says in its node's memory.
pub(super) fn word(layers: &Layers) -> u64 {
    let some = if layers.is_empty() { 0 } else { LAYERS };
    // FNV-1a of the model's text.
    let digest = model(&layers.latency).bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let digest = if layers.latency.is_some() { digest | 4 } else { 0 };
    digest & !(SAID | LAYERS) | SAID | some
}

/// Why this process cannot be with the first one of its node, which has said `theirs`.
pub(super) fn unlike(layers: &Layers, theirs: u64, rank: u32) -> Error {
    let (mine, what) = (word(layers), "the first process of its node");
    if mine & !(SAID | LAYERS) != theirs & !(SAID | LAYERS) {
        let other = if theirs & !(SAID | LAYERS) == 0 { "none" } else { "another one" };
        return differ(rank, &layers.latency, what, other);
    }
    let (has, lacks) = if mine & LAYERS == 0 { (what, "this one") } else { ("this one", what) };
    Error::new(
        ErrorClass::OTHER,
        format!(
            "process {rank}: of this process and {what}, {has} has WEFT_FAULTS or WEFT_TRACE_PACKETS and {lacks} has neither. Inside a node \
             all need one of them, or none, because messages go other ways then: set it for the whole job (mpiexec -genv), or use another \
             transport than shared memory (WEFT_TRANSPORT)"
        ),
    )
}

/// What stands behind the version in what a process says of itself.
pub(super) fn suffix(latency: &Option<LatencyModel>) -> String {
    latency.as_ref().map_or_else(String::new, |model| format!("+{}", model.text()))
}

/// Compares the model that another process, `peer`, says (empty: none) with that of this one, process `rank`.
pub(super) fn compare(theirs: &str, (rank, latency): (u32, &Option<LatencyModel>), peer: u32) -> Result<()> {
    let other = if theirs.is_empty() { "none" } else { theirs };
    match theirs == model(latency) {
        true => Ok(()),
        false => Err(differ(rank, latency, &format!("process {peer}"), other)),
    }
}

fn model(latency: &Option<LatencyModel>) -> String {
    latency.as_ref().map_or_else(String::new, LatencyModel::text)
}

fn differ(rank: u32, latency: &Option<LatencyModel>, other: &str, theirs: &str) -> Error {
    let mine = latency.as_ref().map_or_else(|| "none".to_owned(), LatencyModel::text);
    Error::new(
        ErrorClass::OTHER,
        format!(
            "process {rank} has WEFT_LATENCY={mine}, and {other} has {theirs}. With it a packet begins with its time of arrival, so both ends \
             need the same: set it for the whole job (mpiexec -genv), or unset it everywhere"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::params::{FaultPlan, PacketTrace};

    fn latency(text: &str) -> Option<LatencyModel> {
        (!text.is_empty()).then(|| LatencyModel::parse(text).expect("a model"))
    }

    fn layers(text: &str, faults: bool, traced: bool) -> Layers {
        Layers {
            faults: faults.then_some(FaultPlan::NONE),
            latency: latency(text),
            trace: traced.then(|| PacketTrace::parse("a-%r.pcap").expect("a file")),
        }
    }

    #[test]
    fn a_node_agrees_on_the_model_and_on_whether_there_are_layers() {
        let word = |text, faults, traced| super::word(&layers(text, faults, traced));
        assert!(word("", false, false) != 0);
        assert_eq!(word("2us", false, true), word("2us", true, false), "each has its own faults and file");
        assert_eq!(word("", true, false), word("", false, true));
        let different = [
            word("", false, false),
            word("", true, false),
            word("2us", false, false),
            word("3us", false, false),
        ];
        for (at, one) in different.iter().enumerate() {
            assert!(different[at + 1..].iter().all(|other| other != one), "{different:?}");
        }
        for (mine, theirs, parts) in [
            (
                layers("", false, false),
                layers("2us", false, false),
                ["process 3 has WEFT_LATENCY=none", "has another one"],
            ),
            (
                layers("2us", false, false),
                layers("", true, false),
                ["process 3 has WEFT_LATENCY=2us", "has none"],
            ),
            (
                layers("", true, false),
                layers("", false, false),
                ["this one has WEFT_FAULTS or", "first process of its node has neither"],
            ),
            (
                layers("", false, false),
                layers("", false, true),
                ["first process of its node has WEFT_FAULTS or", "this one has neither"],
            ),
        ] {
            let error = unlike(&mine, super::word(&theirs), 3);
            assert_eq!(error.class(), ErrorClass::OTHER);
            for part in parts.into_iter().chain(["mpiexec -genv"]) {
                assert!(error.text().contains(part), "{part}: {error}");
            }
        }
    }

    #[test]
    fn a_model_stands_behind_the_version() {
        for mine in ["", "2us", "2us,gap=100ns"] {
            for theirs in ["", "2us", "3us"] {
                let said = suffix(&latency(theirs));
                assert_eq!(said.is_empty(), theirs.is_empty());
                match compare(said.trim_start_matches('+'), (1, &latency(mine)), 4) {
                    Ok(()) => assert_eq!(mine, theirs),
                    Err(error) => {
                        assert!(mine != theirs);
                        let name =
                            |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
                        let words =
                            format!("WEFT_LATENCY={}, and process 4 has {}.", name(mine), name(theirs));
                        assert!(error.text().contains(&words), "{error}");
                    }
                }
            }
        }
    }
}
