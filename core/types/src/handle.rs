//! Bit layout of user handles.
//!
//! A predefined handle is its standard ABI value, 1 to 4095. A handle made at run time is a 31-bit number:
//!
//! ```text
//!  30..27   26..20       19..0
//!  kind     generation   slot
//! ```
//!
//! `kind` is at least 1, so a run-time handle is at least 2^27 and never collides with the reserved range;
//! it fits a Fortran INTEGER. The generation changes each time a slot is reused, so that a stale handle is
//! found and named instead of followed.

/// The kinds of MPI objects that have handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HandleKind {
    /// `MPI_Comm`
    Comm = 1,
    /// `MPI_Datatype`
    Datatype = 2,
    /// `MPI_Errhandler`
    Errhandler = 3,
    /// `MPI_File`
    File = 4,
    /// `MPI_Group`
    Group = 5,
    /// `MPI_Info`
    Info = 6,
    /// `MPI_Message`
    Message = 7,
    /// `MPI_Op`
    Op = 8,
    /// `MPI_Request`
    Request = 9,
    /// `MPI_Session`
    Session = 10,
    /// `MPI_Win`
    Win = 11,
    /// `MPI_Request` that is not one request of the engine: persistent, generalized, of several parts.
    LocalRequest = 12,
    /// `MPI_Request` that is one of a lane's engine, other than lane 0's: a lane of 5 bits takes the place of those of the generation but for 2.
    LaneRequest = 13,
    /// `MPI_Message` of a lane other than lane 0.
    LaneMessage = 14,
}

impl HandleKind {
    /// The C type of such a handle, for error texts.
    pub const fn c_name(self) -> &'static str {
        match self {
            HandleKind::Comm => "MPI_Comm",
            HandleKind::Datatype => "MPI_Datatype",
            HandleKind::Errhandler => "MPI_Errhandler",
            HandleKind::File => "MPI_File",
            HandleKind::Group => "MPI_Group",
            HandleKind::Info => "MPI_Info",
            HandleKind::Message | HandleKind::LaneMessage => "MPI_Message",
            HandleKind::Op => "MPI_Op",
            HandleKind::Request | HandleKind::LocalRequest | HandleKind::LaneRequest => "MPI_Request",
            HandleKind::Session => "MPI_Session",
            HandleKind::Win => "MPI_Win",
        }
    }
}

/// A handle as C and Fortran programs hold it: the value of the opaque pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// Number of slots of one kind that can be alive at once.
    pub const SLOTS: u32 = 1 << 20;
    /// Generations before a slot's number repeats.
    pub const GENERATIONS: u32 = 1 << 7;

    /// Composes a run-time handle.
    #[inline]
    pub const fn new(kind: HandleKind, generation: u32, slot: u32) -> Handle {
        debug_assert!(slot < Self::SLOTS);
        Handle(((kind as u32) << 27) | ((generation & (Self::GENERATIONS - 1)) << 20) | slot)
    }

    /// Whether the value lies in the range of predefined handles.
    #[inline]
    pub const fn is_predefined(self) -> bool {
        self.0 < 4096
    }

    /// The kind bits, meaningful for run-time handles only.
    #[inline]
    pub const fn kind_bits(self) -> u32 {
        self.0 >> 27
    }

    /// The generation bits.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 20) & (Self::GENERATIONS - 1)
    }

    /// The slot index.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.0 & (Self::SLOTS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_time_handles_stay_outside_the_reserved_range_and_inside_31_bits() {
        for kind in [HandleKind::Comm, HandleKind::Win] {
            for (generation, slot) in [(0, 0), (127, Handle::SLOTS - 1)] {
                let handle = Handle::new(kind, generation, slot);
                assert!(!handle.is_predefined());
                assert!(handle.0 <= i32::MAX as u32);
                assert_eq!(
                    (handle.kind_bits(), handle.generation(), handle.slot()),
                    (kind as u32, generation, slot)
                );
            }
        }
    }
}
