//! The predefined reduction operations (sections 6.9.2 and 6.9.4) and what they accept.

use crate::kernels;
use crate::memory::Elements;
use crate::object::Datatype;
use crate::predefined::{Class, Kind, Predefined};
use crate::unnamed::Element;
use crate::value_index;
use weft_types::abi::*;
use weft_types::{Error, ErrorClass, Result};

/// A predefined operation. All are commutative and associative (section 6.9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named as in section 6.9.2")]
pub enum PredefinedOp {
    Max,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    Maxloc,
    Minloc,
    /// Only in accumulating one-sided calls (section 12.3.4).
    Replace,
    /// Only in accumulating one-sided calls (section 12.3.4).
    NoOp,
}

/// A loop with two operands to read and one to write.
type Apart = unsafe fn(&[u8], &[u8], &mut [u8]);

/// The loop for one operation on one type, chosen once per call.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// `into = left op into`. Not safe only because it may be compiled for instructions that not every processor has; whoever
    /// makes a kernel knows that this one has them.
    onto: unsafe fn(&[u8], &mut [u8]),
    /// `into = left op right`; `None` where a copy and the other loop do as well.
    apart: Option<Apart>,
    meaning: Option<(PredefinedOp, Kind)>,
}

/// Bytes that are combined at a time where a loop with three operands is made of a copy and one with two: the result
/// stays in the nearest cache between the two.
const AT_A_TIME: usize = 4096;

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kernel")
    }
}

impl Kernel {
    /// Which operation it is, on elements of which representation; `None` for types made of several elements.
    pub const fn meaning(self) -> Option<(PredefinedOp, Kind)> {
        self.meaning
    }

    pub(crate) const fn new(onto: fn(&[u8], &mut [u8])) -> Kernel {
        Kernel { onto, apart: None, meaning: None }
    }

    /// With a loop that has three operands.
    pub(crate) const fn apart(onto: fn(&[u8], &mut [u8]), apart: fn(&[u8], &[u8], &mut [u8])) -> Kernel {
        Kernel { onto, apart: Some(apart), meaning: None }
    }

    /// Of loops that need certain instructions.
    ///
    /// # Safety
    /// This processor has them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const unsafe fn compiled_for(onto: unsafe fn(&[u8], &mut [u8]), apart: Apart) -> Kernel {
        Kernel { onto, apart: Some(apart), meaning: None }
    }

    /// `into = left op into`, element by element; both hold the same number of elements in their memory layout, at
    /// any alignment. Gaps of pair types stay as they are.
    #[inline]
    pub fn apply(self, left: &[u8], into: &mut [u8]) {
        // SAFETY: the processor has the instructions, see the field.
        unsafe { (self.onto)(left, into) };
    }

    /// `into = left op right`, element by element, all three being of one length; gaps of pair types come from the right operand.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn apply_apart(self, left: &[u8], right: &[u8], into: &mut [u8]) {
        assert!(left.len() == into.len() && right.len() == into.len(), "operands of different length");
        match self.apart {
            // SAFETY: the processor has the instructions, see the field.
            Some(apart) => unsafe { apart(left, right, into) },
            None => {
                let parts =
                    left.chunks(AT_A_TIME).zip(right.chunks(AT_A_TIME)).zip(into.chunks_mut(AT_A_TIME));
                for ((left, right), into) in parts {
                    into.copy_from_slice(right);
                    self.apply(left, into);
                }
            }
        }
    }

    /// As [`Kernel::apply`], on elements of collective arguments.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when the operands overlap: the program passed aliased buffers (section 2.3).
    ///
    /// # Panics
    /// When the counts differ or `into` is only read: a wrong schedule.
    pub fn combine(self, left: Elements, into: Elements) -> Result<()> {
        assert_eq!(left.count, into.count, "a reduction of ranges of different length");
        if into.count == 0 {
            return Ok(());
        }
        let (a, b) = (left.address as usize, into.address as usize);
        assert!(into.writable, "a schedule reduces into an argument that is only read");
        if a < b + into.span && b < a + left.span {
            return Err(crate::memory::aliased(a, b));
        }
        // SAFETY: `Elements` come from `Memory`, whose maker promised that the span may be read (and written, as
        // `writable` says) until the operation is complete; the two do not overlap.
        let (left, into) = unsafe {
            (
                std::slice::from_raw_parts(left.address, left.span),
                std::slice::from_raw_parts_mut(into.address, into.span),
            )
        };
        self.apply(left, into);
        Ok(())
    }

    /// As [`Kernel::combine`], where one of the operands is the library's own memory.
    ///
    /// # Panics
    /// As [`Kernel::combine`], and when the operands overlap.
    pub fn apply_elements(self, left: Elements, into: Elements) {
        self.combine(left, into).expect("the library's own memory overlaps no other");
    }
}

impl PredefinedOp {
    /// The operation of a standard ABI value such as `weft_types::abi::MPI_SUM`.
    pub const fn from_abi(value: u32) -> Option<PredefinedOp> {
        Some(match value {
            MPI_MAX => PredefinedOp::Max,
            MPI_MIN => PredefinedOp::Min,
            MPI_SUM => PredefinedOp::Sum,
            MPI_PROD => PredefinedOp::Prod,
            MPI_LAND => PredefinedOp::Land,
            MPI_BAND => PredefinedOp::Band,
            MPI_LOR => PredefinedOp::Lor,
            MPI_BOR => PredefinedOp::Bor,
            MPI_LXOR => PredefinedOp::Lxor,
            MPI_BXOR => PredefinedOp::Bxor,
            MPI_MAXLOC => PredefinedOp::Maxloc,
            MPI_MINLOC => PredefinedOp::Minloc,
            MPI_REPLACE => PredefinedOp::Replace,
            MPI_NO_OP => PredefinedOp::NoOp,
            _ => return None,
        })
    }

    /// The handle's name.
    pub const fn name(self) -> &'static str {
        match self {
            PredefinedOp::Max => "MPI_MAX",
            PredefinedOp::Min => "MPI_MIN",
            PredefinedOp::Sum => "MPI_SUM",
            PredefinedOp::Prod => "MPI_PROD",
            PredefinedOp::Land => "MPI_LAND",
            PredefinedOp::Band => "MPI_BAND",
            PredefinedOp::Lor => "MPI_LOR",
            PredefinedOp::Bor => "MPI_BOR",
            PredefinedOp::Lxor => "MPI_LXOR",
            PredefinedOp::Bxor => "MPI_BXOR",
            PredefinedOp::Maxloc => "MPI_MAXLOC",
            PredefinedOp::Minloc => "MPI_MINLOC",
            PredefinedOp::Replace => "MPI_REPLACE",
            PredefinedOp::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether the tables of sections 6.9.2 and 6.9.4 allow the operation on types of the class.
    pub const fn allows(self, class: Class) -> bool {
        match self {
            PredefinedOp::Max | PredefinedOp::Min => {
                matches!(
                    class,
                    Class::CInteger | Class::FortranInteger | Class::Floating | Class::MultiLanguage
                )
            }
            PredefinedOp::Sum | PredefinedOp::Prod => matches!(
                class,
                Class::CInteger
                    | Class::FortranInteger
                    | Class::Floating
                    | Class::Complex
                    | Class::MultiLanguage
            ),
            PredefinedOp::Land | PredefinedOp::Lor | PredefinedOp::Lxor => {
                matches!(class, Class::CInteger | Class::Logical)
            }
            PredefinedOp::Band | PredefinedOp::Bor | PredefinedOp::Bxor => {
                matches!(class, Class::CInteger | Class::FortranInteger | Class::Byte | Class::MultiLanguage)
            }
            PredefinedOp::Maxloc | PredefinedOp::Minloc => matches!(class, Class::Pair),
            PredefinedOp::Replace | PredefinedOp::NoOp => false,
        }
    }

    const fn allowed_text(self) -> &'static str {
        match self {
            PredefinedOp::Max | PredefinedOp::Min => {
                "C integer, Fortran integer, floating point and multi-language types"
            }
            PredefinedOp::Sum | PredefinedOp::Prod => {
                "C integer, Fortran integer, floating point, complex and multi-language types"
            }
            PredefinedOp::Land | PredefinedOp::Lor | PredefinedOp::Lxor => "C integer and logical types",
            PredefinedOp::Band | PredefinedOp::Bor | PredefinedOp::Bxor => {
                "C integer, Fortran integer and multi-language types and MPI_BYTE"
            }
            PredefinedOp::Maxloc | PredefinedOp::Minloc => "the pair types of section 6.9.4",
            PredefinedOp::Replace | PredefinedOp::NoOp => {
                "no type in a reduction, only in accumulating one-sided calls"
            }
        }
    }

    /// The loop for elements of `datatype`; an error of class `MPI_ERR_OP` that names both when the pair is not
    /// allowed.
    pub fn kernel(self, datatype: &Datatype) -> Result<Kernel> {
        let predefined = match (datatype.as_predefined(), datatype.unnamed_element()) {
            (Some(predefined), _) | (None, Some((_, Element::As(predefined)))) => predefined,
            (None, Some((_, Element::Pair(value, index)))) => {
                return value_index::find(self, value, index)
                    .ok_or_else(|| self.refuse("a type of MPI_Type_get_value_index"));
            }
            (None, None) => {
                return Err(self.refuse("a derived datatype; make an operation for it with MPI_Op_create"));
            }
        };
        if !predefined.is_supported() {
            datatype.check_usable()?;
        }
        if !self.allows(predefined.class()) {
            return Err(self.refuse(predefined.name()));
        }
        self.lookup(predefined)
    }

    fn lookup(self, predefined: &Predefined) -> Result<Kernel> {
        let find =
            |kind| kernels::find(self, kind).map(|kernel| Kernel { meaning: Some((self, kind)), ..kernel });
        predefined.kind().and_then(find).ok_or_else(|| {
            Error::new(
                ErrorClass::OP,
                format!("{} on {} is not available on this processor", self.name(), predefined.name()),
            )
        })
    }

    #[cold]
    fn refuse(self, what: &str) -> Error {
        Error::new(
            ErrorClass::OP,
            format!(
                "{} is not defined for {what}; it takes {} (section 6.9.2)",
                self.name(),
                self.allowed_text()
            ),
        )
    }
}
