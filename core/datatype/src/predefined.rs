//! The predefined datatypes (sections 3.2.2 and 19.1.9, annex A.1), looked up by their standard ABI value.
//!
//! Sizes and alignments are those of the LP64 ABIs of 64-bit Linux. A type that this build cannot hold has an
//! entry without a kind: its size is `MPI_UNDEFINED`, as the standard ABI asks.

use crate::layout::{Layout, Node};
use std::sync::{Arc, OnceLock};
use weft_types::abi::*;

/// What the bytes of one basic element mean to a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named by their machine representation")]
pub enum Kind {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// C `long double`: the 80-bit x87 format in 16 bytes on x86-64. Elsewhere it is moved, but not reduced.
    LongDouble,
    C32,
    C64,
    CLongDouble,
    /// C `_Bool` and C++ `bool`.
    Bool,
    /// Fortran LOGICAL of so many bytes.
    Logical(u8),
    /// Uninterpreted bytes and characters.
    Opaque(u8),
    /// A value and an `int`, as a C struct.
    FloatInt,
    DoubleInt,
    LongInt,
    IntInt,
    ShortInt,
    LongDoubleInt,
    /// A pair of one type.
    FloatFloat,
    DoubleDouble,
}

/// The groups of section 6.9.2 that decide which operations a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// "C integer".
    CInteger,
    /// "Fortran integer".
    FortranInteger,
    /// "Floating point".
    Floating,
    /// "Logical".
    Logical,
    /// "Complex".
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    MultiLanguage,
    /// Value and index pairs of `MPI_MAXLOC` and `MPI_MINLOC`.
    Pair,
    /// Characters, packed data and types without support: no reduction at all.
    Other,
}

impl Kind {
    /// (data bytes, extent, alignment).
    const fn shape(self) -> (u32, u32, u32) {
        match self {
            Kind::I8 | Kind::U8 | Kind::Bool => (1, 1, 1),
            Kind::I16 | Kind::U16 => (2, 2, 2),
            Kind::I32 | Kind::U32 | Kind::F32 => (4, 4, 4),
            Kind::I64 | Kind::U64 | Kind::F64 => (8, 8, 8),
            Kind::I128 | Kind::LongDouble => (16, 16, 16),
            Kind::C32 | Kind::FloatFloat => (8, 8, 4),
            Kind::C64 | Kind::DoubleDouble => (16, 16, 8),
            Kind::CLongDouble => (32, 32, 16),
            Kind::Logical(n) | Kind::Opaque(n) => (n as u32, n as u32, n as u32),
            Kind::FloatInt | Kind::IntInt => (8, 8, 4),
            Kind::DoubleInt | Kind::LongInt => (12, 16, 8),
            Kind::ShortInt => (6, 8, 4),
            Kind::LongDoubleInt => (20, 32, 16),
        }
    }

    /// Sizes of the two members of a pair; `None` for a single basic element.
    pub const fn pair_sizes(self) -> Option<(usize, usize)> {
        match self {
            Kind::FloatInt | Kind::IntInt | Kind::FloatFloat => Some((4, 4)),
            Kind::DoubleInt | Kind::LongInt => Some((8, 4)),
            Kind::ShortInt => Some((2, 4)),
            Kind::LongDoubleInt => Some((16, 4)),
            Kind::DoubleDouble => Some((8, 8)),
            _ => None,
        }
    }
}

/// One predefined datatype. All of them are static; a `&'static Predefined` is the object.
#[derive(Clone, Copy, Debug)]
pub struct Predefined {
    handle: u32,
    name: &'static str,
    size: u32,
    extent: u32,
    alignment: u32,
    kind: Option<Kind>,
    class: Class,
}

impl Predefined {
    /// The type of a standard ABI value such as `weft_types::abi::MPI_INT`; `None` for any other number and for
    /// `MPI_DATATYPE_NULL`.
    #[inline]
    pub fn from_abi(value: u32) -> Option<&'static Predefined> {
        let index = value.checked_sub(FIRST)? as usize;
        TABLE.get(index)?.as_ref()
    }

    /// All of them, in the order of their values.
    pub fn all() -> impl Iterator<Item = &'static Predefined> {
        TABLE.iter().flatten()
    }

    /// The standard ABI value of the handle.
    pub const fn handle(&self) -> u32 {
        self.handle
    }

    /// The name of `MPI_Type_get_name`, the handle's own (section 7.8). Of two synonyms the ABI table's first.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether this build can hold values of the type; otherwise its size is `MPI_UNDEFINED` and it cannot be
    /// used in communication or in constructors.
    pub const fn is_supported(&self) -> bool {
        self.kind.is_some()
    }

    /// Data bytes of one element; 0 when unsupported.
    #[inline]
    pub const fn size(&self) -> usize {
        self.size as usize
    }

    /// Bytes from one element to the next in an array; 0 when unsupported.
    #[inline]
    pub const fn extent(&self) -> usize {
        self.extent as usize
    }

    /// Alignment the C compiler gives the type.
    pub const fn alignment(&self) -> usize {
        self.alignment as usize
    }

    /// Whether elements have no gaps.
    #[inline]
    pub const fn is_contiguous(&self) -> bool {
        self.size == self.extent
    }

    /// Representation of the element; `None` when unsupported.
    pub const fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// The group of section 6.9.2.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Bytes in "external32" of the element, or of the two members of a pair (tables 14.2 to 14.4).
    pub(crate) fn external_sizes(&self) -> (u32, u32) {
        match self.handle {
            MPI_LONG | MPI_UNSIGNED_LONG => (4, 0),
            MPI_WCHAR => (2, 0),
            MPI_LONG_INT => (4, 4),
            _ => match self.kind.and_then(Kind::pair_sizes) {
                Some((first, second)) => (first as u32, second as u32),
                None => (self.size, 0),
            },
        }
    }

    /// The type of `MPI_Type_match_size` (section 19.1.9): the named one of a class and a size in bytes. `None` when
    /// there is none here. Sixteen bytes are C's long double and gfortran's `real(10)`; `real(16)`, which is as long, is moved rightly
    /// with it, but reduced wrongly on x86-64.
    pub fn matching(typeclass: i32, size: i32) -> Option<&'static Predefined> {
        let value = match (typeclass, size) {
            (MPI_TYPECLASS_INTEGER, 1) => MPI_INTEGER1,
            (MPI_TYPECLASS_INTEGER, 2) => MPI_INTEGER2,
            (MPI_TYPECLASS_INTEGER, 4) => MPI_INTEGER4,
            (MPI_TYPECLASS_INTEGER, 8) => MPI_INTEGER8,
            (MPI_TYPECLASS_INTEGER, 16) => MPI_INTEGER16,
            (MPI_TYPECLASS_REAL, 2) => MPI_REAL2,
            (MPI_TYPECLASS_REAL, 4) => MPI_REAL4,
            (MPI_TYPECLASS_REAL, 8) => MPI_REAL8,
            (MPI_TYPECLASS_REAL, 16) => MPI_LONG_DOUBLE,
            (MPI_TYPECLASS_COMPLEX, 4) => MPI_COMPLEX4,
            (MPI_TYPECLASS_COMPLEX, 8) => MPI_COMPLEX8,
            (MPI_TYPECLASS_COMPLEX, 16) => MPI_COMPLEX16,
            (MPI_TYPECLASS_COMPLEX, 32) => MPI_C_LONG_DOUBLE_COMPLEX,
            (MPIX_TYPECLASS_LOGICAL, 1) => MPI_LOGICAL1,
            (MPIX_TYPECLASS_LOGICAL, 2) => MPI_LOGICAL2,
            (MPIX_TYPECLASS_LOGICAL, 4) => MPI_LOGICAL4,
            (MPIX_TYPECLASS_LOGICAL, 8) => MPI_LOGICAL8,
            (MPIX_TYPECLASS_LOGICAL, 16) => MPI_LOGICAL16,
            _ => return None,
        };
        Predefined::from_abi(value).filter(|found| found.is_supported())
    }

    /// Last data byte of one element, plus one.
    pub(crate) fn true_extent(&self) -> usize {
        match self.kind.and_then(Kind::pair_sizes) {
            Some((first, second)) => first.next_multiple_of(second.min(self.alignment())) + second,
            None => self.size(),
        }
    }

    pub(crate) fn node(&self) -> Node {
        match self.kind.and_then(Kind::pair_sizes) {
            Some((first, second)) => {
                Node::list([Node::run(0, first), Node::run((self.true_extent() - second) as i64, second)])
            }
            None => Node::run(0, self.size()),
        }
    }

    /// The layout of one element, made once.
    pub fn layout(&self) -> &Arc<Layout> {
        LAYOUTS[(self.handle - FIRST) as usize]
            .get_or_init(|| Arc::new(Layout::new(self.node(), i64::from(self.extent))))
    }
}

const FIRST: u32 = MPI_DATATYPE_NULL;
static LAYOUTS: [OnceLock<Arc<Layout>>; 256] = [const { OnceLock::new() }; 256];
static TABLE: [Option<Predefined>; 256] = table();

macro_rules! entries {
    ($($handle:ident $class:ident $kind:expr;)*) => {
        const fn table() -> [Option<Predefined>; 256] {
            let mut table = [const { None }; 256];
            $({
                let kind: Option<Kind> = $kind;
                let (size, extent, alignment) = match kind { Some(kind) => kind.shape(), None => (0, 0, 1) };
                table[($handle - FIRST) as usize] = Some(Predefined {
                    handle: $handle, name: stringify!($handle), size, extent, alignment, kind,
                    class: Class::$class,
                });
            })*
            table
        }
    };
}

entries! {
    MPI_AINT MultiLanguage Some(Kind::I64);
    MPI_COUNT MultiLanguage Some(Kind::I64);
    MPI_OFFSET MultiLanguage Some(Kind::I64);
    MPI_PACKED Other Some(Kind::Opaque(1));
    MPI_SHORT CInteger Some(Kind::I16);
    MPI_INT CInteger Some(Kind::I32);
    MPI_LONG CInteger Some(Kind::I64);
    MPI_LONG_LONG_INT CInteger Some(Kind::I64);
    MPI_UNSIGNED_SHORT CInteger Some(Kind::U16);
    MPI_UNSIGNED CInteger Some(Kind::U32);
    MPI_UNSIGNED_LONG CInteger Some(Kind::U64);
    MPI_UNSIGNED_LONG_LONG CInteger Some(Kind::U64);
    MPI_FLOAT Floating Some(Kind::F32);
    MPI_C_COMPLEX Complex Some(Kind::C32);
    MPI_CXX_FLOAT_COMPLEX Complex Some(Kind::C32);
    MPI_DOUBLE Floating Some(Kind::F64);
    MPI_C_DOUBLE_COMPLEX Complex Some(Kind::C64);
    MPI_CXX_DOUBLE_COMPLEX Complex Some(Kind::C64);
    MPI_LOGICAL Logical Some(Kind::Logical(4));
    MPI_INTEGER FortranInteger Some(Kind::I32);
    MPI_REAL Floating Some(Kind::F32);
    MPI_COMPLEX Complex Some(Kind::C32);
    MPI_DOUBLE_PRECISION Floating Some(Kind::F64);
    MPI_DOUBLE_COMPLEX Complex Some(Kind::C64);
    MPI_CHARACTER Other Some(Kind::Opaque(1));
    MPI_LONG_DOUBLE Floating Some(Kind::LongDouble);
    MPI_C_LONG_DOUBLE_COMPLEX Complex Some(Kind::CLongDouble);
    MPI_CXX_LONG_DOUBLE_COMPLEX Complex Some(Kind::CLongDouble);
    MPI_FLOAT_INT Pair Some(Kind::FloatInt);
    MPI_DOUBLE_INT Pair Some(Kind::DoubleInt);
    MPI_LONG_INT Pair Some(Kind::LongInt);
    MPI_2INT Pair Some(Kind::IntInt);
    MPI_SHORT_INT Pair Some(Kind::ShortInt);
    MPI_LONG_DOUBLE_INT Pair Some(Kind::LongDoubleInt);
    MPI_2REAL Pair Some(Kind::FloatFloat);
    MPI_2DOUBLE_PRECISION Pair Some(Kind::DoubleDouble);
    MPI_2INTEGER Pair Some(Kind::IntInt);
    MPI_C_BOOL Logical Some(Kind::Bool);
    MPI_CXX_BOOL Logical Some(Kind::Bool);
    MPI_WCHAR Other Some(Kind::Opaque(4));
    MPI_INT8_T CInteger Some(Kind::I8);
    MPI_UINT8_T CInteger Some(Kind::U8);
    MPI_CHAR Other Some(Kind::Opaque(1));
    MPI_SIGNED_CHAR CInteger Some(Kind::I8);
    MPI_UNSIGNED_CHAR CInteger Some(Kind::U8);
    MPI_BYTE Byte Some(Kind::U8);
    MPI_INT16_T CInteger Some(Kind::I16);
    MPI_UINT16_T CInteger Some(Kind::U16);
    MPI_INT32_T CInteger Some(Kind::I32);
    MPI_UINT32_T CInteger Some(Kind::U32);
    MPI_INT64_T CInteger Some(Kind::I64);
    MPI_UINT64_T CInteger Some(Kind::U64);
    MPI_LOGICAL1 Logical Some(Kind::Logical(1));
    MPI_INTEGER1 FortranInteger Some(Kind::I8);
    MPI_LOGICAL2 Logical Some(Kind::Logical(2));
    MPI_INTEGER2 FortranInteger Some(Kind::I16);
    MPI_REAL2 Other None;
    MPI_LOGICAL4 Logical Some(Kind::Logical(4));
    MPI_INTEGER4 FortranInteger Some(Kind::I32);
    MPI_REAL4 Floating Some(Kind::F32);
    MPI_COMPLEX4 Other None;
    MPI_LOGICAL8 Logical Some(Kind::Logical(8));
    MPI_INTEGER8 FortranInteger Some(Kind::I64);
    MPI_REAL8 Floating Some(Kind::F64);
    MPI_COMPLEX8 Complex Some(Kind::C32);
    MPI_LOGICAL16 Logical Some(Kind::Logical(16));
    MPI_INTEGER16 FortranInteger Some(Kind::I128);
    MPI_REAL16 Other None;
    MPI_COMPLEX16 Complex Some(Kind::C64);
    MPI_COMPLEX32 Other None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datatype_of_the_abi_has_an_entry() {
        // 73 handles of the ABI's table less MPI_DATATYPE_NULL and less the two aliases.
        let table = include_str!("../../bindings/table/abi-constants.tsv");
        let mut found = 0;
        for line in table.lines() {
            let mut columns = line.split('\t');
            let (Some(name), Some(value), Some(kind)) = (columns.next(), columns.next(), columns.next())
            else {
                continue;
            };
            if kind == "handle:MPI_Datatype" && name != "MPI_DATATYPE_NULL" {
                let entry = Predefined::from_abi(value.parse().unwrap()).expect(name);
                // Of two names for one handle the table of section 3.2.2 says which is the synonym.
                let default = match name {
                    "MPI_LONG_LONG" => "MPI_LONG_LONG_INT",
                    "MPI_C_FLOAT_COMPLEX" => "MPI_C_COMPLEX",
                    name => name,
                };
                assert_eq!(entry.name(), default);
                found += 1;
            }
        }
        assert_eq!(found, Predefined::all().count());
        assert!(Predefined::from_abi(MPI_DATATYPE_NULL).is_none());
        assert!(Predefined::from_abi(4000).is_none() && Predefined::from_abi(0).is_none());
    }

    #[test]
    fn fixed_size_handles_carry_their_size() {
        for entry in Predefined::all().filter(|entry| entry.handle & 0x40 != 0 && entry.is_supported()) {
            assert_eq!(entry.size(), 1 << ((entry.handle >> 3) & 7), "{}", entry.name());
        }
    }

    #[test]
    fn pair_types_are_laid_out_as_c_structs() {
        for (handle, size, extent, true_extent) in [
            (MPI_SHORT_INT, 6, 8, 8),
            (MPI_DOUBLE_INT, 12, 16, 12),
            (MPI_LONG_INT, 12, 16, 12),
            (MPI_FLOAT_INT, 8, 8, 8),
            (MPI_LONG_DOUBLE_INT, 20, 32, 20),
            (MPI_2DOUBLE_PRECISION, 16, 16, 16),
        ] {
            let entry = Predefined::from_abi(handle).unwrap();
            assert_eq!((entry.size(), entry.extent(), entry.true_extent()), (size, extent, true_extent));
        }
        let mut runs = Vec::new();
        Predefined::from_abi(MPI_SHORT_INT)
            .unwrap()
            .layout()
            .for_each_run(0, 12, |at, len| runs.push((at, len)));
        assert_eq!(runs, [(0, 2), (4, 4), (8, 2), (12, 4)]);
    }
}
