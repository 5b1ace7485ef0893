//! The head comment of a test program: what it covers and how it is run.
//!
//! ```c
//! /* Messages between one pair are received in the order of their sends.
//!  *
//!  * Covers: 3.5, 3.7.4
//!  * Ranks: 2 3
//!  * Timeout: 60
//!  */
//! ```
//!
//! `Covers` (sections of the standard whose lines in the checklist the program holds) and `Ranks` are required. The others:
//! `Timeout` (seconds, default 60), `Exit` (`0`, `nonzero`, or a number; default 0), `Stderr` (a text that must appear there;
//! may be repeated), `Absent` (a text that must not appear in either stream; may be repeated), `Args` (of the program),
//! `Mpiexec` (options of mpiexec), `Env` (`NAME=value`; may be repeated), `Default` (the same, unless the environment says
//! otherwise), `Flags` (of the compiler), `Aborts: yes` (ranks do not print their last line), `Leaves: yes` (objects are alive
//! at the end, on purpose), `Node: one` (the ranks must share a node). This file is also compiled into the build script.

/// What the head comment of one program says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Sections of the standard, as written.
    pub covers: Vec<String>,
    /// Numbers of ranks to run with.
    pub ranks: Vec<u32>,
    /// Seconds after which the run counts as hung.
    pub timeout: u64,
    /// Demanded exit code of mpiexec.
    pub exit: Exit,
    /// Texts that must appear in standard error.
    pub stderr: Vec<String>,
    /// Texts that must not appear in standard output or error.
    pub absent: Vec<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Options of mpiexec.
    pub mpiexec: Vec<String>,
    /// Environment of mpiexec and its ranks.
    pub env: Vec<(String, String)>,
    /// The same, for what the tests' own environment does not set.
    pub default_env: Vec<(String, String)>,
    /// Further flags of the compiler.
    pub flags: Vec<String>,
    /// Whether the ranks end without their `PASS` line.
    pub aborts: bool,
    /// Whether objects are alive at the end on purpose, so that a look for leaks finds them.
    pub leaves: bool,
    /// Whether all ranks must share a node, also where jobs are spread over several hosts.
    pub one_node: bool,
}

/// The exit code that mpiexec must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exactly this code.
    Code(i32),
    /// Any but 0.
    Nonzero,
}

impl Head {
    /// Reads the first comment of a C source text.
    ///
    /// # Errors
    /// A sentence naming the field that is missing or cannot be read.
    pub fn parse(source: &str) -> Result<Self, String> {
        let start = source.find("/*").ok_or("no head comment")?;
        let end = source[start..].find("*/").ok_or("the head comment has no end")? + start;
        let mut head = Self {
            covers: Vec::new(),
            ranks: Vec::new(),
            timeout: 60,
            exit: Exit::Code(0),
            stderr: Vec::new(),
            absent: Vec::new(),
            args: Vec::new(),
            mpiexec: Vec::new(),
            env: Vec::new(),
            default_env: Vec::new(),
            flags: Vec::new(),
            aborts: false,
            leaves: false,
            one_node: false,
        };
        for line in source[start + 2..end].lines() {
            let line = line.trim().trim_start_matches('*').trim();
            let Some((name, value)) = line.split_once(": ") else { continue };
            let value = value.trim();
            let words = || value.split_whitespace().map(str::to_owned);
            match name {
                "Covers" => head.covers.extend(value.split(',').map(|s| s.trim().to_owned())),
                "Ranks" => {
                    for word in words() {
                        head.ranks.push(word.parse().map_err(|_| format!("Ranks: {word} is not a number"))?);
                    }
                }
                "Timeout" => {
                    head.timeout = value.parse().map_err(|_| format!("Timeout: {value} is not a number"))?;
                }
                "Exit" if value == "nonzero" => head.exit = Exit::Nonzero,
                "Exit" => {
                    head.exit =
                        Exit::Code(value.parse().map_err(|_| format!("Exit: {value} is not a number"))?);
                }
                "Stderr" => head.stderr.push(value.to_owned()),
                "Absent" => head.absent.push(value.to_owned()),
                "Args" => head.args.extend(words()),
                "Mpiexec" => head.mpiexec.extend(words()),
                "Env" | "Default" => {
                    let (key, text) = value.split_once('=').ok_or(format!("{name}: {value} has no ="))?;
                    let list = if name == "Env" { &mut head.env } else { &mut head.default_env };
                    list.push((key.to_owned(), text.to_owned()));
                }
                "Flags" => head.flags.extend(words()),
                "Aborts" => head.aborts = value == "yes",
                "Leaves" => head.leaves = value == "yes",
                "Node" => head.one_node = value == "one",
                _ => {}
            }
        }
        if head.covers.is_empty() {
            return Err("the head comment has no Covers line".to_owned());
        }
        if head.ranks.is_empty() {
            return Err("the head comment has no Ranks line".to_owned());
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, Head};

    #[test]
    fn all_fields_of_a_head_are_read() {
        let head = Head::parse(
            "/* Says: what.\n * Covers: 3.5, 3.7.4\n * Ranks: 1 2\n * Exit: nonzero\n * Stderr: rank 1\n * Env: A=b\n * Default: B=c\n * Mpiexec: -l -s none\n */\nint x;",
        )
        .unwrap();
        assert_eq!(head.covers, ["3.5", "3.7.4"]);
        assert_eq!(head.ranks, [1, 2]);
        assert_eq!(head.exit, Exit::Nonzero);
        assert_eq!(head.stderr, ["rank 1"]);
        assert_eq!(head.mpiexec, ["-l", "-s", "none"]);
        assert_eq!(head.env, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(head.default_env, [("B".to_owned(), "c".to_owned())]);
        assert_eq!(head.timeout, 60);
    }

    #[test]
    fn a_head_without_ranks_or_sections_is_refused() {
        assert!(Head::parse("/* Ranks: 1 */").is_err());
        assert!(Head::parse("/* Covers: 3.5 */").is_err());
        assert!(Head::parse("/* Covers: 3.5\n Ranks: two */").is_err());
        assert!(Head::parse("int main;").is_err());
    }
}
