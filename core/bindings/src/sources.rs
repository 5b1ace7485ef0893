//! Joins the two prototype tables into one and stops at every difference that `exceptions.tsv` does not explain.

use std::collections::BTreeMap;

use crate::prototype::Prototype;
use crate::tsv::{Row, Table, matches};
use crate::{Result, TableError};

/// A procedure as the sources describe it.
pub(crate) struct Source<'a> {
    /// The right prototype.
    pub(crate) prototype: Prototype,
    /// Its row in api.tsv, unless MPI 4.1 does not have it.
    pub(crate) api: Option<Row<'a>>,
    /// The procedure whose code it shares.
    pub(crate) alias_of: Option<String>,
}

/// The rows of `exceptions.tsv`, each with a mark whether it was needed.
struct Exceptions<'a> {
    rows: Vec<(Row<'a>, bool)>,
}

impl<'a> Exceptions<'a> {
    /// The value of the exception `difference` of `name`, if there is one; marks it as needed.
    fn take(&mut self, name: &str, difference: &str) -> Result<Option<&'a str>> {
        let mut value = None;
        for (row, used) in &mut self.rows {
            if row.get("difference")? == difference && matches(row.get("procedures")?, name) {
                *used = true;
                value = Some(row.get("value")?);
            }
        }
        Ok(value)
    }
}

/// All procedures with a C binding, by name.
pub(crate) fn join<'a>(
    api: &'a Table,
    abi: &'a Table,
    exceptions: &'a Table,
) -> Result<BTreeMap<String, Source<'a>>> {
    let mut exceptions = Exceptions { rows: exceptions.rows().map(|row| (row, false)).collect() };
    let mut sources = BTreeMap::new();
    for row in api.rows() {
        let name = row.get("name")?;
        if !matches!(row.get("kind")?, "procedure" | "MPI_T tool procedure") {
            continue;
        }
        let mut text = row.get("c_prototype")?.to_owned();
        if let Some((wrong, right)) =
            exceptions.take(name, "spelling")?.and_then(|value| value.split_once('='))
        {
            text = text.replace(wrong, right);
        }
        let prototype = Prototype::parse(&text).map_err(|error| row.error(error))?;
        if prototype.name != name {
            return Err(row.error(format!("the row of {name} has a prototype of {}", prototype.name)));
        }
        let source = Source { prototype, api: Some(row), alias_of: None };
        if sources.insert(name.to_owned(), source).is_some() {
            return Err(row.error(format!("{name} is there twice")));
        }
    }
    let mut in_abi = Vec::new();
    for row in abi.rows() {
        let name = row.get("name")?;
        let prototype = Prototype::parse(row.get("prototype")?).map_err(|error| row.error(error))?;
        in_abi.push(name);
        match sources.get_mut(name) {
            Some(source) => reconcile(source, prototype, row, &mut exceptions)?,
            None => {
                if exceptions.take(name, "only-abi")?.is_none() {
                    return Err(
                        row.error(format!("{name} is not in api.tsv, and exceptions.tsv does not say why"))
                    );
                }
                let alias_of = exceptions.take(name, "alias")?.map(str::to_owned);
                sources.insert(name.to_owned(), Source { prototype, api: None, alias_of });
            }
        }
    }
    for name in sources.keys() {
        if !in_abi.contains(&name.as_str()) && exceptions.take(name, "only-api")?.is_none() {
            return Err(TableError(format!(
                "{name} is not in abi-functions.tsv, and exceptions.tsv does not say why"
            )));
        }
    }
    // An alias has the prototype of the procedure whose code it shares.
    let aliases: Vec<_> =
        sources.iter().filter_map(|(name, s)| Some((name.clone(), s.alias_of.clone()?))).collect();
    for (name, main) in aliases {
        let mut prototype = sources
            .get(&main)
            .ok_or_else(|| TableError(format!("{name} is an alias of {main}, which does not exist")))?
            .prototype
            .clone();
        prototype.name.clone_from(&name);
        if let Some(source) = sources.get_mut(&name) {
            source.prototype = prototype;
        }
    }
    match exceptions.rows.iter().find(|(_, used)| !used) {
        Some((row, _)) => Err(row.error("this exception explains nothing; remove it")),
        None => Ok(sources),
    }
}

/// Compares the prototypes of both tables; `source` holds the right one afterwards.
fn reconcile(
    source: &mut Source<'_>,
    abi: Prototype,
    row: Row<'_>,
    exceptions: &mut Exceptions<'_>,
) -> Result<()> {
    let ours = &source.prototype;
    let name = ours.name.clone();
    let parameters = || ours.parameters.iter().zip(&abi.parameters);
    let same_types = ours.result.same_for_c(&abi.result)
        && ours.variadic == abi.variadic
        && ours.parameters.len() == abi.parameters.len()
        && parameters().all(|(a, b)| a.ty.same_for_c(&b.ty));
    let same_names = parameters().all(|(a, b)| a.name == b.name);
    if !same_types {
        match exceptions.take(&name, "types")? {
            Some("api") => return Ok(()),
            Some("abi") => source.prototype = abi,
            _ => {
                return Err(row.error(format!(
                    "the tables differ and exceptions.tsv does not say which is right:\n  api.tsv           {ours}\n  abi-functions.tsv {abi}"
                )));
            }
        }
    } else if !same_names && exceptions.take(&name, "names")?.is_none() {
        return Err(row.error(format!(
            "argument names differ and exceptions.tsv does not mention it:\n  api.tsv           {ours}\n  abi-functions.tsv {abi}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "name\tc_prototype\tkind\nMPI_A\tint MPI_A(int a)\tprocedure\n";

    fn join_texts(api: &str, abi: &str, exceptions: &str) -> std::result::Result<String, String> {
        let table =
            |file: &str, header: &str, text: &str| Table::parse(file, &format!("{header}{text}")).unwrap();
        let api = table("api.tsv", "", api);
        let abi = table("abi-functions.tsv", "name\tprototype\n", abi);
        let exceptions = table("exceptions.tsv", "procedures\tdifference\tvalue\treason\n", exceptions);
        join(&api, &abi, &exceptions)
            .map(|sources| sources.values().map(|s| s.prototype.to_string()).collect::<Vec<_>>().join("; "))
            .map_err(|error| error.0)
    }

    #[test]
    fn a_difference_needs_an_exception_and_an_exception_a_difference() {
        let abi = "MPI_A\tint MPI_A(MPI_Count a)\n";
        assert!(join_texts(API, abi, "").unwrap_err().contains("abi-functions.tsv:2"));
        assert_eq!(join_texts(API, abi, "MPI_A\ttypes\tapi\n").unwrap(), "int MPI_A(int a)");
        assert_eq!(join_texts(API, abi, "MPI_A\ttypes\tabi\n").unwrap(), "int MPI_A(MPI_Count a)");
        let same = "MPI_A\tint MPI_A(int a)\n";
        assert_eq!(join_texts(API, same, "").unwrap(), "int MPI_A(int a)");
        assert!(join_texts(API, same, "MPI_A\ttypes\tapi\n").unwrap_err().contains("explains nothing"));
    }

    #[test]
    fn a_procedure_of_one_table_only_needs_an_exception() {
        assert!(join_texts(API, "", "").unwrap_err().contains("MPI_A is not in abi-functions.tsv"));
        assert!(join_texts(API, "", "MPI_*\tonly-api\n").is_ok());
        let both = "MPI_A\tint MPI_A(int a)\nMPI_B\tint MPI_B(int b)\n";
        assert!(join_texts(API, both, "").unwrap_err().contains("MPI_B is not in api.tsv"));
        let aliased = join_texts(API, both, "MPI_B\tonly-abi\nMPI_B\talias\tMPI_A\n").unwrap();
        assert_eq!(aliased, "int MPI_A(int a); int MPI_B(int a)");
    }

    #[test]
    fn other_argument_names_need_an_exception() {
        let abi = "MPI_A\tint MPI_A(int b)\n";
        assert!(join_texts(API, abi, "").unwrap_err().contains("argument names differ"));
        assert!(join_texts(API, abi, "MPI_A\tnames\n").is_ok());
    }
}
