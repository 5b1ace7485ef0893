//! Measured figures of the cost model, as text: what `weft-info --measure` writes and every start reads.
//!
//! ```text
//! weft-model 1
//! memory latency-ns=152.1 overhead-ns=61 per-byte-ns=0.021 duplex=1.8
//! network latency-ns=1800 overhead-ns=240 per-byte-ns=0.09 duplex=1 shared-message-ns=12 shared-byte-ns=0.04
//! reduce per-byte-ns=0.02
//! switch ns=1500
//! # measured ... by ...
//! ```
//!
//! Lines may be missing; what they would say is as built in. All ranks of a job must have the same figures.

use crate::layout::Level;
use crate::model::{Link, Model};
use crate::text::{Fault, statements};
use std::fmt;

/// The version that this build reads and writes.
pub const VERSION: u32 = 1;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Between ranks of one node.
    pub memory: Option<Link>,
    /// Between nodes.
    pub network: Option<Link>,
    /// Seconds per byte combined.
    pub per_byte_reduced: Option<f64>,
    /// Seconds of a switch between processes that share a core.
    pub per_switch: Option<f64>,
}

/// A nanosecond.
const NANO: f64 = 1e-9;

/// What can be a time of one message or byte: above nothing, below a second. Whatever is outside was not measured.
fn plausible(nanoseconds: f64) -> bool {
    nanoseconds.is_finite() && (0.0..1e9).contains(&nanoseconds)
}

impl Figures {
    /// Reads a text from `source`.
    ///
    /// # Errors
    /// Another version, and the first line that cannot be read, with what is wrong.
    pub fn parse(text: &str, source: &str) -> Result<Figures, Fault> {
        let fault = |line: u32, reason: String| Fault { source: source.to_owned(), line, reason };
        let mut figures = Figures::default();
        let mut statements = statements(text, source)?.into_iter();
        let expected = format!("weft-model {VERSION}");
        match statements.next() {
            Some((_, first)) if first == expected => {}
            Some((line, first)) => {
                let reason = format!(
                    "begins with {first:?} and not {expected:?}; measure anew with weft-info --measure"
                );
                return Err(fault(line, reason));
            }
            None => return Err(fault(0, format!("is empty; it begins with {expected:?}"))),
        }
        for (line, statement) in statements {
            figures.read(statement).map_err(|reason| fault(line, reason))?;
        }
        Ok(figures)
    }

    fn read(&mut self, statement: &str) -> Result<(), String> {
        let mut words = statement.split_whitespace();
        let subject = words.next().unwrap_or_default();
        let mut link = match subject {
            "memory" => Link::MEMORY,
            _ => Link { shared_per_message: 0.0, shared_per_byte: 0.0, ..Link::NETWORK },
        };
        let mut single = None;
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let value: f64 = value.parse().map_err(|_| format!("{word:?} is not NAME=NUMBER"))?;
            if !plausible(value) {
                return Err(format!("{word:?} cannot be; it is at least 0 and below a second"));
            }
            let place = match (subject, name) {
                ("memory" | "network", "latency-ns") => &mut link.latency,
                ("memory" | "network", "overhead-ns") => &mut link.overhead,
                ("memory" | "network", "per-byte-ns") => &mut link.per_byte,
                ("memory" | "network", "shared-message-ns") => &mut link.shared_per_message,
                ("memory" | "network", "shared-byte-ns") => &mut link.shared_per_byte,
                ("memory" | "network", "duplex") if (1.0..=2.0).contains(&value) => {
                    link.duplex = value;
                    continue;
                }
                ("memory" | "network", "duplex") => {
                    return Err(format!("{word:?} cannot be; it is from 1 to 2"));
                }
                ("reduce", "per-byte-ns") | ("switch", "ns") => single.insert(0.0),
                _ => return Err(format!("{name:?} says nothing about {subject:?}")),
            };
            *place = value * NANO;
        }
        let alone = || single.ok_or_else(|| format!("{subject} has no figure"));
        match subject {
            "memory" => self.memory = Some(link),
            "network" => self.network = Some(link),
            "reduce" => self.per_byte_reduced = Some(alone()?),
            "switch" => self.per_switch = Some(alone()?),
            _ => return Err(format!("{subject:?} is none of memory, network, reduce and switch")),
        }
        Ok(())
    }

    /// The model with these figures in place of those built in.
    #[must_use]
    pub fn apply(&self, model: Model) -> Model {
        let mut model = model;
        if let Some(memory) = self.memory {
            model.inside = memory;
        }
        if let Some(network) = self.network {
            for Level { link, .. } in &mut model.layout.levels {
                *link = network;
            }
        }
        model.per_byte_reduced = self.per_byte_reduced.unwrap_or(model.per_byte_reduced);
        model.per_switch = self.per_switch.unwrap_or(model.per_switch);
        model
    }

    /// These figures, and where they are missing those of `older`.
    #[must_use]
    pub fn or(self, older: Figures) -> Figures {
        Figures {
            memory: self.memory.or(older.memory),
            network: self.network.or(older.network),
            per_byte_reduced: self.per_byte_reduced.or(older.per_byte_reduced),
            per_switch: self.per_switch.or(older.per_switch),
        }
    }
}

/// As it can be read again.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "weft-model {VERSION}")?;
        for (name, link) in [("memory", self.memory), ("network", self.network)] {
            let Some(link) = link else { continue };
            let Link { latency, overhead, per_byte, duplex, shared_per_message, shared_per_byte } = link;
            write!(f, "{name} latency-ns={} overhead-ns={}", Nano(latency), Nano(overhead))?;
            write!(f, " per-byte-ns={} duplex={duplex:.3}", Nano(per_byte))?;
            if shared_per_message > 0.0 || shared_per_byte > 0.0 {
                write!(f, " shared-message-ns={}", Nano(shared_per_message))?;
                write!(f, " shared-byte-ns={}", Nano(shared_per_byte))?;
            }
            writeln!(f)?;
        }
        if let Some(reduced) = self.per_byte_reduced {
            writeln!(f, "reduce per-byte-ns={}", Nano(reduced))?;
        }
        if let Some(switch) = self.per_switch {
            writeln!(f, "switch ns={}", Nano(switch))?;
        }
        Ok(())
    }
}

/// Seconds, shown as nanoseconds with four digits that count.
struct Nano(f64);

impl fmt::Display for Nano {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By way of the text, so that what was read is written alike.
        let rounded: f64 = format!("{:.3e}", self.0 / NANO).parse().unwrap_or_default();
        write!(f, "{rounded}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Partition;
    use proptest::prelude::*;

    const WHOLE: &str = "weft-model 1\nmemory latency-ns=152.1 overhead-ns=61 per-byte-ns=0.021 duplex=1.8\n\
        network latency-ns=1800 overhead-ns=240 per-byte-ns=0.09 duplex=1 shared-message-ns=12 shared-byte-ns=0.04\n\
        reduce per-byte-ns=0.02\nswitch ns=1500 # last\n";

    #[test]
    fn measured_figures_take_the_place_of_those_built_in() {
        let figures = Figures::parse(WHOLE, "f").expect("figures");
        let model = figures.apply(Model::cluster(Partition::Block(4)));
        assert!((model.inside.latency - 152.1e-9).abs() < 1e-15);
        assert!((model.layout.levels[0].link.shared_per_byte - 0.04e-9).abs() < 1e-18);
        assert!((model.per_switch - 1.5e-6).abs() < 1e-15);
        let some = Figures::parse("weft-model 1; reduce per-byte-ns=1", "f").expect("one");
        assert_eq!(some.apply(Model::default()).inside, Link::MEMORY);
        assert_eq!(some.clone().or(figures.clone()).memory, figures.memory);
        assert_eq!(some.or(figures).per_byte_reduced, Some(1e-9));
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_named_with_line_and_reason() {
        for (text, line, reason) in [
            ("", 0, "is empty"),
            ("weft-model 2\n", 1, "measure anew"),
            ("hello", 1, "begins with \"hello\""),
            ("weft-model 1\n\nmemory latency-ns=fast", 3, "is not NAME=NUMBER"),
            ("weft-model 1\nmemory latency-ns=-1", 2, "cannot be"),
            ("weft-model 1\nmemory latency-ns=NaN", 2, "cannot be"),
            ("weft-model 1\nmemory duplex=3", 2, "from 1 to 2"),
            ("weft-model 1\nreduce ns=3", 2, "says nothing about \"reduce\""),
            ("weft-model 1\nreduce", 2, "has no figure"),
            ("weft-model 1\ndisk latency-ns=3", 2, "says nothing about \"disk\""),
            ("weft-model 1\ndisk", 2, "none of memory, network"),
        ] {
            let fault = Figures::parse(text, "/m").expect_err(text);
            assert_eq!(fault.line, line, "{fault}");
            assert!(fault.reason.contains(reason), "{fault}");
        }
    }

    fn link() -> impl Strategy<Value = Link> {
        let figure = || (1.0..1e9_f64).prop_map(|value| value * 1e-12);
        (figure(), figure(), figure(), 1.0..2.0_f64, figure(), figure()).prop_map(
            |(latency, overhead, per_byte, duplex, shared_per_message, shared_per_byte)| Link {
                latency,
                overhead,
                per_byte,
                duplex,
                shared_per_message,
                shared_per_byte,
            },
        )
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(weft-model 1\n)?([a-z=0-9.;#\n -]|memory|switch|latency-ns=|1e99){0,40}") {
            let _ = Figures::parse(&text, "fuzz");
        }

        #[test]
        fn what_is_written_is_read_again(
            memory in prop::option::of(link()),
            network in prop::option::of(link()),
            per_byte_reduced in prop::option::of(1e-12..1e-6_f64),
            per_switch in prop::option::of(1e-9..1e-3_f64),
        ) {
            let figures = Figures { memory, network, per_byte_reduced, per_switch };
            let text = figures.to_string();
            let read = Figures::parse(&text, "").expect("what was written");
            prop_assert_eq!(read.to_string(), text);
        }
    }
}
