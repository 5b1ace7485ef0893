//! What exists before initialisation and after finalisation (section 11.4.1): info objects, error handlers, error
//! codes, the tool interface.

use crate::codes::Codes;
use crate::errhandler::Errhandlers;
use crate::info::Info;
use crate::table::{Table, stale};
use crate::tool_interface::ToolInterface;
use weft_types::{Error, ErrorClass, Handle, HandleKind, Result, abi};

/// The objects that need no initialised MPI. Shared by all threads; its owner keeps it behind a lock.
#[derive(Debug)]
pub struct Always {
    /// Info objects.
    pub infos: Table<Info>,
    /// `MPI_INFO_ENV`, while the World Model is active or was.
    pub environment: Option<Info>,
    /// Error handlers.
    pub errhandlers: Errhandlers,
    /// Error classes and codes.
    pub codes: Codes,
    /// The tool information interface.
    pub tools: ToolInterface,
}

impl Default for Always {
    fn default() -> Always {
        Always::new()
    }
}

impl Always {
    /// Nothing made yet.
    pub const fn new() -> Always {
        Always {
            infos: Table::new(HandleKind::Info),
            environment: None,
            errhandlers: Errhandlers::new(),
            codes: Codes::new(),
            tools: ToolInterface::new(),
        }
    }

    /// The info object of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`.
    pub fn info(&self, handle: Handle) -> Result<&Info> {
        if handle.0 == abi::MPI_INFO_ENV {
            return self.environment.as_ref().ok_or_else(|| stale(HandleKind::Info, handle, false));
        }
        self.infos.get(handle)
    }

    /// The info object of a handle, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`, also for `MPI_INFO_ENV`, which programs can only read.
    pub fn info_mut(&mut self, handle: Handle) -> Result<&mut Info> {
        if handle.0 == abi::MPI_INFO_ENV {
            return Err(Error::new(
                ErrorClass::INFO,
                "MPI_INFO_ENV can only be read; change a copy made by MPI_Info_dup",
            ));
        }
        self.infos.get_mut(handle)
    }

    /// The hints of an info argument; the null handle has none.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`.
    pub fn hints(&self, handle: Handle) -> Result<Info> {
        match handle.0 {
            abi::MPI_INFO_NULL => Ok(Info::default()),
            _ => self.info(handle).cloned(),
        }
    }
}
