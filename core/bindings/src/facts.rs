//! `facts.tsv`: what the prototypes do not say.

use std::cell::Cell;

use crate::Result;
use crate::tsv::{Row, Table, matches};

const FACTS: [&str; 12] = [
    "anytime",
    "width",
    "at-once",
    "replacement",
    "direction",
    "length",
    "not-negative",
    "nullable",
    "unchecked",
    "checked",
    "class",
    "absent",
];

/// All facts, with a mark on those that were ever used.
pub(crate) struct Facts<'a> {
    rows: Vec<Fact<'a>>,
}

struct Fact<'a> {
    row: Row<'a>,
    procedures: &'a str,
    argument: &'a str,
    fact: &'a str,
    value: &'a str,
    used: Cell<bool>,
}

impl<'a> Facts<'a> {
    pub(crate) fn load(table: &'a Table) -> Result<Facts<'a>> {
        let mut rows = Vec::new();
        for row in table.rows() {
            let fact = row.get("fact")?;
            if !FACTS.contains(&fact) {
                return Err(row.error(format!("unknown fact {fact}")));
            }
            let (procedures, argument, value) =
                (row.get("procedures")?, row.get("argument")?, row.get("value")?);
            rows.push(Fact { row, procedures, argument, fact, value, used: Cell::new(false) });
        }
        Ok(Facts { rows })
    }

    /// The last of the `facts` that holds for an argument of a procedure (by its base name): fact and value.
    pub(crate) fn last(&self, procedure: &str, argument: &str, facts: &[&str]) -> Option<(&'a str, &'a str)> {
        let mut found = None;
        for fact in &self.rows {
            let here = matches(fact.procedures, procedure) && matches(fact.argument, argument);
            if here && (fact.argument == "-") == (argument == "-") && facts.contains(&fact.fact) {
                fact.used.set(true);
                found = Some((fact.fact, fact.value));
            }
        }
        found
    }

    /// The value of one fact.
    pub(crate) fn get(&self, procedure: &str, argument: &str, fact: &str) -> Option<&'a str> {
        self.last(procedure, argument, &[fact]).map(|(_, value)| value)
    }

    /// Fails if a row matched nothing.
    pub(crate) fn all_used(&self) -> Result<()> {
        match self.rows.iter().find(|fact| !fact.used.get()) {
            Some(fact) => Err(fact.row.error("this fact holds for no argument; remove or correct it")),
            None => Ok(()),
        }
    }
}
