//! The rules and figures that a program started here would use, and where each comes from.

use std::fmt::Write;
use weft_boot::settings;
use weft_coll::{Figures, Link, Rules};
use weft_types::params::Setting;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Overrides of the choice.
    pub rules: Rules,
    /// Measured figures.
    pub figures: Figures,
    /// The file of the figures.
    pub measured: Option<String>,
    /// What a message between nodes takes over what leads there, where that is not measured; `None`: an adapter.
    pub carried: Option<Link>,
    /// What could not be read, and why.
    pub faults: Vec<String>,
}

impl Tuning {
    /// Reads what `variable` says of `WEFT_COLLECTIVES` and `WEFT_MODEL`, as a start of MPI does.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Tuning {
        let mut tuning = Tuning::default();
        let mut told = |name: &str| {
            let value = variable(name).unwrap_or_else(|| "auto".to_owned());
            let read = match Setting::of(value.trim()) {
                Some(setting) => settings::read(name, &setting),
                None => Err(format!("{name} is {value:?}")),
            };
            read.unwrap_or_else(|why| {
                tuning.faults.push(why);
                None
            })
        };
        let (rules, figures) = (told("WEFT_COLLECTIVES"), told("WEFT_MODEL"));
        tuning.carried = crate::transports::link(&variable);
        if let Some(told) = rules {
            match Rules::parse(&told.text, &told.source) {
                Ok(rules) => tuning.rules = rules,
                Err(fault) => tuning.faults.push(fault.to_string()),
            }
        }
        if let Some(told) = figures {
            match Figures::parse(&told.text, &told.source) {
                Ok(figures) => (tuning.figures, tuning.measured) = (figures, Some(told.source)),
                Err(fault) => tuning.faults.push(fault.to_string()),
            }
        }
        tuning
    }

    /// The figures as a start takes them: those measured, and of the network otherwise those of what leads there.
    pub fn figures(&self) -> Figures {
        Figures { network: self.figures.network.or(self.carried), ..self.figures.clone() }
    }

    /// Each figure of the model and where it comes from, a line each; those between nodes only if `network`.
    pub fn figures_text(&self, network: bool) -> Vec<String> {
        let built_in = weft_coll::Model::default();
        let source = |measured: bool| match &self.measured {
            Some(path) if measured => path.clone(),
            _ => "built in".to_owned(),
        };
        let link = |name: &str, measured: Option<Link>, default: Link| {
            let Link { latency, overhead, per_byte, duplex, shared_per_message, shared_per_byte } =
                measured.unwrap_or(default);
            let nano = |seconds: f64| seconds * 1e9;
            let mut text = format!(
                "{name}: latency {:.0} ns, work of a message {:.0} ns at each end, {:.4} ns a byte, both ways at once {duplex:.1} times that",
                nano(latency),
                nano(overhead),
                nano(per_byte)
            );
            if shared_per_message > 0.0 || shared_per_byte > 0.0 {
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    ", of the adapter {:.0} ns a message and {:.4} ns a byte",
                    nano(shared_per_message),
                    nano(shared_per_byte)
                );
            }
            format!("{text} ({})", source(measured.is_some()))
        };
        let mut lines = vec![link("memory", self.figures.memory, Link::MEMORY)];
        if network {
            lines.push(link("network", self.figures.network, self.carried.unwrap_or(Link::NETWORK)));
        }
        let reduced = self.figures.per_byte_reduced;
        lines.push(format!(
            "reduction: {:.4} ns a byte ({})",
            reduced.unwrap_or(built_in.per_byte_reduced) * 1e9,
            source(reduced.is_some())
        ));
        let switch = self.figures.per_switch;
        lines.push(format!(
            "switch between ranks of a core: {:.0} ns ({})",
            switch.unwrap_or(built_in.per_switch) * 1e9,
            source(switch.is_some())
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(rules: &str, model: &str) -> Tuning {
        let (rules, model) = (rules.to_owned(), model.to_owned());
        Tuning::find(move |name| match name {
            "WEFT_COLLECTIVES" => Some(rules.clone()),
            "WEFT_MODEL" => Some(model.clone()),
            _ => None,
        })
    }

    #[test]
    fn each_figure_is_told_with_its_source() {
        let tuning = given("bcast -> flat", "weft-model 1; memory latency-ns=99; reduce per-byte-ns=0.5");
        assert!(tuning.faults.is_empty() && !tuning.rules.is_empty());
        let lines = tuning.figures_text(true);
        assert!(
            lines[0].starts_with("memory: latency 99 ns") && lines[0].ends_with("(WEFT_MODEL)"),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("(built in)") && lines[2].ends_with("(WEFT_MODEL)"), "{lines:?}");
        assert!(lines[3].ends_with("(built in)"), "{lines:?}");
    }

    #[test]
    fn the_network_is_that_of_the_transport_that_was_asked_for() {
        let of = |transport: &'static str| {
            Tuning::find(move |name| (name == "WEFT_TRANSPORT").then(|| transport.to_owned()))
        };
        assert_eq!((of("auto").figures().network, of("verbs").figures().network), (None, None));
        assert_eq!(of("softroce").figures().network, Some(Link::EMULATED));
        assert!(of("softroce").figures_text(true)[1].contains("latency 4000 ns"));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let tuning = given("bcast -> ring 3", "@/nowhere/at/all");
        assert_eq!(tuning.faults.len(), 2, "{:?}", tuning.faults);
        let told = |what: &str| tuning.faults.iter().any(|fault| fault.contains(what));
        assert!(told("WEFT_COLLECTIVES, line 1") && told("/nowhere/at/all"), "{:?}", tuning.faults);
        assert!(given("no", "no").faults.is_empty());
    }
}
