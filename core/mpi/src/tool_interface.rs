//! The state of the tool information interface (section 15.3): what there is to see, and who looks at it.
//!
//! Control variables are the public parameters, all of them settable until MPI is started, none afterwards. Performance
//! variables are levels and counts of this process: readable at any time, neither started nor written. There are no events.
//! Indices are positions in fixed tables, so they never change.

use std::collections::{BTreeMap, BTreeSet};

use weft_types::params::{Kind, Parameter, Parameters, TABLE};
use weft_types::{Error, ErrorClass, Result, abi};

use crate::process::Process;

/// A text of a control variable has room for so many characters with its NUL.
pub const TEXT_ROOM: usize = 1024;

/// A level or a count of this process.
#[derive(Debug)]
pub struct Level {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
    /// Whether it only ever rises: a counter, not a level.
    pub rises: bool,
    /// Asks the process.
    pub of: fn(&Process) -> u64,
}

impl Level {
    /// Its class (section 15.3.7).
    pub const fn class(&self) -> i32 {
        if self.rises { abi::MPI_T_PVAR_CLASS_COUNTER } else { abi::MPI_T_PVAR_CLASS_LEVEL }
    }
}

/// The performance variables.
pub const LEVELS: [Level; 11] = [
    Level {
        name: "weft_posted_receives",
        meaning: "Receives of this process that wait for a message.",
        rises: false,
        of: |process| process.engine.levels().posted as u64,
    },
    Level {
        name: "weft_unexpected_messages",
        meaning: "Messages that have arrived, or announced themselves, and that no receive has matched yet.",
        rises: false,
        of: |process| process.engine.levels().unexpected as u64,
    },
    Level {
        name: "weft_requests",
        meaning: "Point-to-point requests that exist, complete or not, until the program takes their result.",
        rises: false,
        of: |process| process.engine.levels().requests as u64,
    },
    Level {
        name: "weft_peers",
        meaning: "Processes that this one has talked to.",
        rises: false,
        of: |process| process.engine.levels().peers as u64,
    },
    Level {
        name: "weft_communicators",
        meaning: "Communicators that exist, predefined ones included.",
        rises: false,
        of: |process| process.comms.iter().count() as u64,
    },
    Level {
        name: "weft_windows",
        meaning: "Windows that exist.",
        rises: false,
        of: |process| process.windows.len() as u64,
    },
    Level {
        name: "weft_work_requests",
        meaning: "Work requests that this process has posted to an RDMA device: messages, puts, gets, atomics.",
        rises: true,
        of: |process| process.engine.device_work().0,
    },
    Level {
        name: "weft_doorbells",
        meaning: "How often this process has told an RDMA device of work requests.",
        rises: true,
        of: |process| process.engine.device_work().1,
    },
    Level {
        name: "weft_registrations",
        meaning: "How often this process has registered memory of the program with an RDMA device for messages and collectives; what stays registered is \
                  not registered again (WEFT_KEEP_REGISTERED).",
        rises: true,
        of: |process| process.engine.registrations()[1],
    },
    Level {
        name: "weft_collectives_handed_over",
        meaning: "Collectives that this process has handed to the fabric's device or its provider.",
        rises: true,
        of: |process| process.engine.collectives_handed_over(),
    },
    Level {
        name: "weft_collective_messages",
        meaning: "Messages with data of collectives that this process has sent, outside the lanes of further threads; there are none where \
                  they go by shared memory.",
        rises: true,
        of: |process| process.engine.messages_of_collectives(),
    },
];

/// A category: its name, its meaning, its variables and its parts.
#[derive(Debug)]
pub struct Category {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub meaning: &'static str,
    /// The control variables in it: all or none.
    pub parameters: bool,
    /// The performance variables in it: all or none.
    pub levels: bool,
    /// The categories in it, by index.
    pub parts: &'static [i32],
}

/// The categories.
pub const CATEGORIES: [Category; 3] = [
    Category { name: "weft", meaning: "All of Weft.", parameters: false, levels: false, parts: &[1, 2] },
    Category {
        name: "weft_parameters",
        meaning: "The public parameters, as in weft-info --params.",
        parameters: true,
        levels: false,
        parts: &[],
    },
    Category {
        name: "weft_levels",
        meaning: "How much of what this process holds at the moment, and what it has asked of devices.",
        parameters: false,
        levels: true,
        parts: &[],
    },
];

/// The value of a control variable in the form of its datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `MPI_UINT32_T`
    Number32(u32),
    /// `MPI_UINT64_T`
    Number64(u64),
    /// `MPI_INT`, an item of an enumeration.
    Item(i32),
    /// `MPI_CHAR`
    Text(String),
}

/// What an error of the interface is: its code, and words that nobody but a debugger sees (section 15.3.10).
fn error(code: i32, text: &str) -> Error {
    Error::new(ErrorClass(code), text)
}

/// Who looks at what.
#[derive(Debug, Default)]
pub struct ToolInterface {
    users: u32,
    /// Values set before MPI was started, by index.
    settings: BTreeMap<usize, String>,
    cvars: BTreeMap<usize, usize>,
    sessions: BTreeSet<usize>,
    /// Session and variable of each handle.
    pvars: BTreeMap<usize, (usize, usize)>,
    /// Identifiers given out.
    made: usize,
}

/// Identifiers below are constants of the interface.
const FIRST: usize = 16;

impl ToolInterface {
    /// Nobody looks yet.
    pub const fn new() -> ToolInterface {
        ToolInterface {
            users: 0,
            settings: BTreeMap::new(),
            cvars: BTreeMap::new(),
            sessions: BTreeSet::new(),
            pvars: BTreeMap::new(),
            made: 0,
        }
    }

    /// `MPI_T_init_thread`.
    pub fn begin(&mut self) {
        self.users += 1;
    }

    /// `MPI_T_finalize`: the last user's handles and sessions go with it.
    ///
    /// # Errors
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    pub fn end(&mut self) -> Result<()> {
        self.check()?;
        self.users -= 1;
        if self.users == 0 {
            self.cvars.clear();
            self.pvars.clear();
            self.sessions.clear();
        }
        Ok(())
    }

    /// Fails unless somebody looks.
    ///
    /// # Errors
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    pub fn check(&self) -> Result<()> {
        match self.users {
            0 => Err(error(abi::MPI_T_ERR_NOT_INITIALIZED, "MPI_T_init_thread was not called")),
            _ => Ok(()),
        }
    }

    /// What was set before MPI was started: variables of the environment and their values.
    pub fn settings(&self) -> Vec<(String, String)> {
        self.settings.iter().map(|(&index, text)| (TABLE[index].variable.to_owned(), text.clone())).collect()
    }

    fn name(&mut self) -> usize {
        self.made += 1;
        FIRST + self.made
    }

    /// `MPI_T_cvar_handle_alloc`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_INDEX`.
    pub fn open_cvar(&mut self, index: i32) -> Result<usize> {
        let index = place(index, TABLE.len())?;
        let handle = self.name();
        self.cvars.insert(handle, index);
        Ok(handle)
    }

    /// `MPI_T_cvar_handle_free`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_HANDLE`.
    pub fn close_cvar(&mut self, handle: usize) -> Result<()> {
        self.cvars.remove(&handle).map(drop).ok_or_else(bad_handle)
    }

    /// The index of the control variable of a handle.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_HANDLE`.
    pub fn cvar(&self, handle: usize) -> Result<usize> {
        self.cvars.get(&handle).copied().ok_or_else(bad_handle)
    }

    /// The value of a control variable. `started`: the parameters in force, once MPI was started.
    ///
    /// # Errors
    /// `MPI_T_ERR_NOT_ACCESSIBLE` when the environment cannot be read.
    pub fn read_cvar(&self, index: usize, started: Option<&Parameters>) -> Result<Value> {
        let text = match started {
            Some(parameters) => parameters.texts().swap_remove(index),
            None => {
                let environment = crate::process::environment_variables().chain(self.settings());
                let (parameters, _) = Parameters::from_environment(environment)
                    .map_err(|bad| error(abi::MPI_T_ERR_NOT_ACCESSIBLE, bad.text()))?;
                parameters.texts().swap_remove(index)
            }
        };
        Ok(match TABLE[index].kind {
            Kind::Number32 => Value::Number32(text.parse().unwrap_or_default()),
            Kind::Number64 => Value::Number64(text.parse().unwrap_or_default()),
            Kind::OneOf(items) => {
                Value::Item(items.iter().position(|&item| item == text).unwrap_or_default() as i32)
            }
            Kind::Text => Value::Text(text),
        })
    }

    /// Sets a control variable, before MPI is started.
    ///
    /// # Errors
    /// `MPI_T_ERR_CVAR_SET_NOT_NOW` afterwards, `MPI_T_ERR_INVALID` for a value that it cannot have.
    pub fn write_cvar(&mut self, index: usize, value: Value, started: bool) -> Result<()> {
        if started {
            return Err(error(abi::MPI_T_ERR_CVAR_SET_NOT_NOW, "MPI was started with the value in force"));
        }
        let text = match value {
            Value::Number32(number) => number.to_string(),
            Value::Number64(number) => number.to_string(),
            Value::Item(item) => {
                let Kind::OneOf(items) = TABLE[index].kind else {
                    return Err(error(abi::MPI_T_ERR_INVALID, "the variable has no enumeration"));
                };
                match usize::try_from(item).ok().and_then(|item| items.get(item)) {
                    Some(item) => (*item).to_owned(),
                    None => return Err(error(abi::MPI_T_ERR_INVALID, "no item of the enumeration")),
                }
            }
            Value::Text(text) => text,
        };
        if text.len() >= TEXT_ROOM || !Parameters::accepts(TABLE[index].variable, text.trim()) {
            return Err(error(abi::MPI_T_ERR_INVALID, TABLE[index].form));
        }
        self.settings.insert(index, text);
        Ok(())
    }

    /// `MPI_T_pvar_session_create`.
    pub fn open_session(&mut self) -> usize {
        let session = self.name();
        self.sessions.insert(session);
        session
    }

    /// `MPI_T_pvar_session_free`: its handles go with it.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`.
    pub fn close_session(&mut self, session: usize) -> Result<()> {
        self.check_session(session)?;
        self.sessions.remove(&session);
        self.pvars.retain(|_, (of, _)| *of != session);
        Ok(())
    }

    fn check_session(&self, session: usize) -> Result<()> {
        match self.sessions.contains(&session) {
            true => Ok(()),
            false => Err(error(abi::MPI_T_ERR_INVALID_SESSION, "no such session")),
        }
    }

    /// `MPI_T_pvar_handle_alloc`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`, `MPI_T_ERR_INVALID_INDEX`.
    pub fn open_pvar(&mut self, session: usize, index: i32) -> Result<usize> {
        self.check_session(session)?;
        let index = place(index, LEVELS.len())?;
        let handle = self.name();
        self.pvars.insert(handle, (session, index));
        Ok(handle)
    }

    /// `MPI_T_pvar_handle_free`.
    ///
    /// # Errors
    /// As [`ToolInterface::pvar`].
    pub fn close_pvar(&mut self, session: usize, handle: usize) -> Result<()> {
        self.pvar(session, handle)?;
        self.pvars.remove(&handle);
        Ok(())
    }

    /// The level of a handle in its session.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`; `MPI_T_ERR_INVALID_HANDLE` also for a handle of another session.
    pub fn pvar(&self, session: usize, handle: usize) -> Result<&'static Level> {
        self.check_session(session)?;
        match self.pvars.get(&handle) {
            Some(&(of, index)) if of == session => Ok(&LEVELS[index]),
            _ => Err(bad_handle()),
        }
    }

    /// What a change of a performance variable comes to: `refusal` for one of them, since all are continuous and only read;
    /// nothing for all at once, which passes those over (section 15.3.7).
    ///
    /// # Errors
    /// `refusal`, and as [`ToolInterface::pvar`].
    pub fn change_pvar(&self, session: usize, handle: usize, refusal: i32) -> Result<()> {
        if handle == abi::MPI_T_PVAR_ALL_HANDLES {
            return self.check_session(session);
        }
        self.pvar(session, handle)?;
        Err(error(refusal, "the performance variable is continuous and can only be read"))
    }
}

/// A valid index below `length`.
///
/// # Errors
/// `MPI_T_ERR_INVALID_INDEX`.
pub fn place(index: i32, length: usize) -> Result<usize> {
    let index = usize::try_from(index).ok().filter(|&index| index < length);
    index.ok_or_else(|| error(abi::MPI_T_ERR_INVALID_INDEX, "no such index"))
}

/// The index of a name.
///
/// # Errors
/// `MPI_T_ERR_INVALID_NAME`.
pub fn index_of<'a>(names: impl IntoIterator<Item = &'a str>, name: &[u8]) -> Result<i32> {
    let index = names.into_iter().position(|known| known.as_bytes() == name);
    index.map(|index| index as i32).ok_or_else(|| error(abi::MPI_T_ERR_INVALID_NAME, "no such name"))
}

/// The name of a control variable: that of the environment variable, in lower case.
pub fn cvar_name(parameter: &Parameter) -> String {
    parameter.variable.to_ascii_lowercase()
}

fn bad_handle() -> Error {
    error(abi::MPI_T_ERR_INVALID_HANDLE, "no such handle")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T: std::fmt::Debug>(result: Result<T>) -> i32 {
        result.expect_err("refused").class().code()
    }

    #[test]
    fn values_are_set_until_mpi_is_started() {
        let mut tools = ToolInterface::new();
        assert_eq!(code(tools.check()), abi::MPI_T_ERR_NOT_INITIALIZED);
        tools.begin();
        let at = |name: &str| TABLE.iter().position(|row| row.name == name).expect("a parameter");
        for (name, value, other) in [
            ("eager_limit", Value::Number32(4096), Value::Text("x".into())),
            ("eager_budget_total", Value::Number64(1 << 33), Value::Item(7)),
            ("single_copy", Value::Item(2), Value::Item(3)),
            ("watchdog", Value::Text("17".into()), Value::Text("soon".into())),
        ] {
            let index = at(name);
            tools.write_cvar(index, value.clone(), false).expect("legal");
            assert_eq!(tools.read_cvar(index, None), Ok(value.clone()));
            assert_eq!(code(tools.write_cvar(index, other, false)), abi::MPI_T_ERR_INVALID, "{name}");
            assert_eq!(code(tools.write_cvar(index, value, true)), abi::MPI_T_ERR_CVAR_SET_NOT_NOW);
        }
        assert!(tools.settings().contains(&("WEFT_EAGER_LIMIT".to_owned(), "4096".to_owned())));
        let started = Parameters::default();
        assert_eq!(
            tools.read_cvar(at("eager_limit"), Some(&started)),
            Ok(Value::Number32(started.eager_limit))
        );
    }

    #[test]
    fn handles_belong_to_their_session() {
        let mut tools = ToolInterface::new();
        tools.begin();
        tools.begin();
        let (one, two) = (tools.open_session(), tools.open_session());
        let handle = tools.open_pvar(one, 0).expect("there is one");
        assert_eq!(code(tools.open_pvar(one, LEVELS.len() as i32)), abi::MPI_T_ERR_INVALID_INDEX);
        assert_eq!(code(tools.open_pvar(7, 0)), abi::MPI_T_ERR_INVALID_SESSION);
        assert_eq!(code(tools.pvar(two, handle)), abi::MPI_T_ERR_INVALID_HANDLE);
        tools.pvar(one, handle).expect("its own");
        let refusal = abi::MPI_T_ERR_PVAR_NO_WRITE;
        assert_eq!(code(tools.change_pvar(one, handle, refusal)), refusal);
        assert_eq!(tools.change_pvar(one, abi::MPI_T_PVAR_ALL_HANDLES, refusal), Ok(()));
        tools.close_session(one).expect("open");
        assert_eq!(code(tools.pvar(one, handle)), abi::MPI_T_ERR_INVALID_SESSION);
        tools.end().expect("two users");
        tools.check().expect("one is left");
        tools.end().expect("the last");
        assert_eq!(code(tools.end()), abi::MPI_T_ERR_NOT_INITIALIZED);
    }

    #[test]
    fn categories_name_what_there_is() {
        for category in &CATEGORIES {
            assert!(category.parts.iter().all(|&part| place(part, CATEGORIES.len()).is_ok()));
            assert!(
                index_of(CATEGORIES.iter().map(|category| category.name), category.name.as_bytes()).is_ok()
            );
        }
        let names: BTreeSet<String> = TABLE.iter().map(cvar_name).collect();
        assert_eq!(names.len(), TABLE.len());
    }
}
