//! C prototypes as values: parsed from the tables, printed into the header.

use std::fmt;

use crate::{Result, TableError};

/// A C type of an argument or a result: `const` or not, one base name, pointer stars, array brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CType {
    /// `int`, `char`, `void`, `double` or an `MPI_` type.
    pub base: String,
    /// Whether the base is const.
    pub is_const: bool,
    /// Number of `*`.
    pub stars: usize,
    /// The array brackets behind the name; the first is always empty.
    pub arrays: Vec<Option<usize>>,
}

impl CType {
    /// Whether this is the value itself, not an address.
    pub fn is_value(&self) -> bool {
        self.stars == 0 && self.arrays.is_empty()
    }

    /// Pointer levels, with an array as one more.
    pub fn pointers(&self) -> usize {
        self.stars + self.arrays.len().min(1)
    }

    /// Whether both are the same for a C compiler: an array argument is a pointer.
    pub fn same_for_c(&self, other: &CType) -> bool {
        let inner = |ty: &CType| ty.arrays.get(1..).map(<[_]>::to_vec).unwrap_or_default();
        self.base == other.base
            && (self.is_const == other.is_const || self.is_value())
            && self.pointers() == other.pointers()
            && inner(self) == inner(other)
    }

    fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_const {
            f.write_str("const ")?;
        }
        write!(f, "{} {}{name}", self.base, "*".repeat(self.stars))?;
        self.arrays.iter().try_for_each(|length| match length {
            Some(length) => write!(f, "[{length}]"),
            None => f.write_str("[]"),
        })
    }
}

/// A named parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name in the standard, which is also the Fortran keyword.
    pub name: String,
    /// Its type.
    pub ty: CType,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ty.write(&self.name, f)
    }
}

/// A C function declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// What it returns.
    pub result: CType,
    /// Its name.
    pub name: String,
    /// Its parameters; empty for `(void)`.
    pub parameters: Vec<Parameter>,
    /// Whether it ends in `...`.
    pub variadic: bool,
}

impl Prototype {
    /// Parses a declaration such as `int MPI_Comm_rank(MPI_Comm comm, int *rank)`, with or without a semicolon.
    pub fn parse(text: &str) -> Result<Prototype> {
        let fail = |why: &str| TableError(format!("cannot parse the prototype `{text}`: {why}"));
        let body = text.trim().trim_end_matches(';').replace(". . .", "...");
        let (head, rest) = body.split_once('(').ok_or_else(|| fail("no parameter list"))?;
        let inside = rest.strip_suffix(')').ok_or_else(|| fail("no closing parenthesis"))?;
        let head = parse_declaration(head).ok_or_else(|| fail("no result type or name"))?;
        let mut parameters = Vec::new();
        let mut variadic = false;
        for part in inside.split(',').map(str::trim) {
            match part {
                "void" if parameters.is_empty() => {}
                "..." => variadic = true,
                _ if variadic => return Err(fail("a parameter after ...")),
                _ => parameters
                    .push(parse_declaration(part).ok_or_else(|| fail(&format!("parameter `{part}`")))?),
            }
        }
        Ok(Prototype { result: head.ty, name: head.name, parameters, variadic })
    }

    /// The declaration with another name (the `PMPI_` twin, a typedef).
    pub fn with_name(&self, name: &str) -> String {
        let mut parameters: Vec<String> = self.parameters.iter().map(ToString::to_string).collect();
        if self.variadic {
            parameters.push("...".to_owned());
        }
        if parameters.is_empty() {
            parameters.push("void".to_owned());
        }
        let head = Parameter { name: name.to_owned(), ty: self.result.clone() };
        format!("{head}({})", parameters.join(", "))
    }
}

impl fmt::Display for Prototype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_name(&self.name))
    }
}

/// `const T **name[][3]`
fn parse_declaration(text: &str) -> Option<Parameter> {
    let (is_const, text) = match text.trim().strip_prefix("const ") {
        Some(rest) => (true, rest.trim()),
        None => (false, text.trim()),
    };
    let identifier =
        |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (base, rest) = text.split_at(identifier(text));
    let stars = rest.chars().take_while(|c| *c == '*' || c.is_whitespace()).filter(|c| *c == '*').count();
    let rest = rest.trim_start_matches(|c: char| c == '*' || c.is_whitespace());
    let (name, mut brackets) = rest.split_at(identifier(rest));
    let mut arrays = Vec::new();
    while let Some(inside) = brackets.trim().strip_prefix('[') {
        let (length, rest) = inside.split_once(']')?;
        arrays.push(if length.is_empty() { None } else { Some(length.parse().ok()?) });
        brackets = rest;
    }
    let good = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic());
    (good(base) && good(name) && brackets.trim().is_empty()).then(|| Parameter {
        name: name.to_owned(),
        ty: CType { base: base.to_owned(), is_const, stars, arrays },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_declaration_prints_as_it_was_read() {
        for text in [
            "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)",
            "int MPI_Finalize(void)",
            "double MPI_Wtime(void)",
            "MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint disp)",
            "int MPI_Pcontrol(const int level, ...)",
            "int MPI_Init(int *argc, char ***argv)",
            "int MPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup)",
            "int MPI_Comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[])",
        ] {
            assert_eq!(Prototype::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_array_is_a_pointer_for_c_but_constness_and_levels_count() {
        let ty = |text: &str| parse_declaration(text).unwrap().ty;
        assert!(ty("const int a[]").same_for_c(&ty("const int *a")));
        assert!(!ty("int a[]").same_for_c(&ty("const int *a")));
        assert!(!ty("int a[][3]").same_for_c(&ty("int *a")));
        assert!(ty("const int level").same_for_c(&ty("int level")));
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in
            ["int MPI_X", "int MPI_X(int)", "MPI_X(int a)", "int MPI_X(int a,)", "int MPI_X(..., int a)"]
        {
            let error = Prototype::parse(text).unwrap_err();
            assert!(error.0.contains(text), "{error}");
        }
    }
}
