//! Error handlers (section 9.3): predefined ones are plain handles, user-made ones are counted.

use crate::table::Table;
use weft_types::{Error, ErrorClass, Handle, HandleKind, Result, abi};

/// The kinds of objects handlers are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `MPI_Comm_create_errhandler`
    Comm,
    /// `MPI_Win_create_errhandler`
    Win,
    /// `MPI_File_create_errhandler`
    File,
    /// `MPI_Session_create_errhandler`
    Session,
}

impl Target {
    const fn noun(self) -> &'static str {
        match self {
            Target::Comm => "communicators",
            Target::Win => "windows",
            Target::File => "files",
            Target::Session => "sessions",
        }
    }
}

/// A user-made handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Errhandler {
    target: Target,
    function: usize,
    /// The handles the program holds: one from making it, one from each `MPI_Comm_get_errhandler` and the like.
    held: u32,
    /// The objects it is attached to.
    attached: u32,
}

/// What is to be done with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End all connected processes.
    Fatal,
    /// End the processes of the object.
    Abort,
    /// Return the code.
    Return,
    /// Call the user's function at this address, then return the code.
    Call(usize),
}

/// All user-made handlers of the process.
#[derive(Debug)]
pub struct Errhandlers {
    table: Table<Errhandler>,
}

fn freed_before(handle: Handle) -> Error {
    Error::new(
        ErrorClass::ERRHANDLER,
        format!(
            "the error handler {:#x} was freed before; objects still have it, but the program does not",
            handle.0
        ),
    )
}

impl Default for Errhandlers {
    fn default() -> Errhandlers {
        Errhandlers::new()
    }
}

impl Errhandlers {
    /// No user-made handlers.
    pub const fn new() -> Errhandlers {
        Errhandlers { table: Table::new(HandleKind::Errhandler) }
    }

    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&mut self, place: fn() -> String) {
        self.table.remember_places(place);
    }

    /// Where each handler was made that the program has not freed, if that was remembered. What it freed may be attached still,
    /// to `MPI_COMM_WORLD` for good.
    pub(crate) fn sites(&self) -> impl Iterator<Item = Option<&str>> {
        let held = self.table.iter().filter(|(_, errhandler)| errhandler.held > 0);
        held.map(|(handle, _)| self.table.site(handle))
    }

    /// Makes a handler that calls `function`.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn create(&mut self, target: Target, function: usize) -> Result<Handle> {
        self.table.insert(Errhandler { target, function, held: 1, attached: 0 })
    }

    /// Checks that the handler may be attached to `target`, and counts the attachment.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER` for a bad handle, a handler of another kind, and one that the program has freed while objects keep it.
    pub fn attach(&mut self, target: Target, handle: Handle) -> Result<()> {
        if is_predefined(handle) {
            return Ok(());
        }
        let errhandler = self.table.get_mut(handle)?;
        if errhandler.held == 0 {
            return Err(freed_before(handle));
        }
        if errhandler.target != target {
            return Err(Error::new(
                ErrorClass::ERRHANDLER,
                format!(
                    "the error handler {:#x} was made for {}, not for {}",
                    handle.0,
                    errhandler.target.noun(),
                    target.noun()
                ),
            ));
        }
        errhandler.attached += 1;
        Ok(())
    }

    /// Counts one more object to which a handler is attached: one that inherits it.
    pub fn retain(&mut self, handle: Handle) {
        if let Some(errhandler) = self.table.find_mut(handle) {
            errhandler.attached += 1;
        }
    }

    /// Counts one more handle that the program holds to an attached handler (`MPI_Comm_get_errhandler`).
    pub fn hand_out(&mut self, handle: Handle) {
        if let Some(errhandler) = self.table.find_mut(handle) {
            errhandler.held += 1;
        }
    }

    /// One object less; the last one ends a handler that the program has freed.
    pub fn release(&mut self, handle: Handle) {
        if let Some(errhandler) = self.table.find_mut(handle) {
            errhandler.attached -= 1;
            self.end_if_unused(handle);
        }
    }

    /// `MPI_Errhandler_free`: a predefined handler is left alone.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER` for a bad handle, and for one that the program has freed while objects keep the handler.
    pub fn free(&mut self, handle: Handle) -> Result<()> {
        if is_predefined(handle) {
            return Ok(());
        }
        let errhandler = self.table.get_mut(handle)?;
        let Some(held) = errhandler.held.checked_sub(1) else {
            return Err(freed_before(handle));
        };
        errhandler.held = held;
        self.end_if_unused(handle);
        Ok(())
    }

    fn end_if_unused(&mut self, handle: Handle) {
        if self.table.find(handle).is_some_and(|errhandler| errhandler.held == 0 && errhandler.attached == 0)
        {
            let _ = self.table.remove(handle);
        }
    }

    /// What the handler does.
    pub fn action(&self, handle: Handle) -> Action {
        match handle.0 {
            abi::MPI_ERRORS_RETURN => Action::Return,
            abi::MPI_ERRORS_ABORT => Action::Abort,
            _ => {
                self.table.find(handle).map_or(Action::Fatal, |errhandler| Action::Call(errhandler.function))
            }
        }
    }
}

fn is_predefined(handle: Handle) -> bool {
    matches!(handle.0, abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT | abi::MPI_ERRORS_RETURN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handler_lives_while_it_is_attached() {
        let mut handlers = Errhandlers::new();
        let handle = handlers.create(Target::Comm, 4096).expect("room");
        handlers.attach(Target::Comm, handle).expect("right kind");
        handlers.free(handle).expect("alive");
        assert_eq!(handlers.action(handle), Action::Call(4096));
        assert_eq!(handlers.sites().count(), 0, "the program has freed it");
        let twice = handlers.free(handle).expect_err("the object's share is not the program's");
        assert!(twice.text().contains("freed before"), "{twice}");
        handlers.hand_out(handle);
        handlers.free(handle).expect("handed out once more");
        assert_eq!(handlers.action(handle), Action::Call(4096));
        handlers.release(handle);
        assert_eq!(handlers.free(handle).expect_err("gone").class(), ErrorClass::ERRHANDLER);
    }

    #[test]
    fn handlers_of_another_kind_are_refused() {
        let mut handlers = Errhandlers::new();
        let handle = handlers.create(Target::Win, 4096).expect("room");
        let error = handlers.attach(Target::Comm, handle).expect_err("for windows");
        assert!(error.text().contains("was made for windows, not for communicators"), "{error}");
        assert!(handlers.attach(Target::Comm, Handle(abi::MPI_ERRHANDLER_NULL)).is_err());
        for predefined in [abi::MPI_ERRORS_ARE_FATAL, abi::MPI_ERRORS_ABORT, abi::MPI_ERRORS_RETURN] {
            handlers.attach(Target::Comm, Handle(predefined)).expect("predefined fit everything");
        }
    }
}
