//! Predefined types without a name (section 2.4.3): the parameterised Fortran types of section 19.1.9 and the pairs of
//! section 6.9.4.
//!
//! They are made when first asked for, committed, and never freed. Whoever hands out handles keeps one object for each
//! [`Unnamed`], so that asking again answers the same handle.

use crate::decode::{Form, Recorder};
use crate::object::Datatype;
use crate::predefined::{Class, Kind, Predefined};
use crate::typemap::TypeMap;
use weft_types::abi::*;
use weft_types::{Error, ErrorClass, Result};

/// Which type it is: the arguments of the call that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unnamed {
    /// `MPI_Type_create_f90_real(precision, range)`; either may be `MPI_UNDEFINED`.
    Real(i32, i32),
    /// `MPI_Type_create_f90_complex(precision, range)`; either may be `MPI_UNDEFINED`.
    Complex(i32, i32),
    /// `MPI_Type_create_f90_integer(range)`.
    Integer(i32),
    /// `MPI_Type_get_value_index` of two named types, by their ABI values.
    Pair(u32, u32),
}

/// What an element is to a reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element {
    /// The same as an element of a named type.
    As(&'static Predefined),
    /// A value and an index.
    Pair(Kind, Kind),
}

impl Unnamed {
    /// Makes the object.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when no Fortran kind has the precision and range, with the limits.
    pub fn make(self) -> Result<Datatype> {
        match self {
            Unnamed::Real(precision, range) => {
                self.parameterised(MPI_COMBINER_F90_REAL, &[precision, range], real(precision, range)?)
            }
            Unnamed::Complex(precision, range) => {
                let part = match real(precision, range)? {
                    MPI_REAL4 => MPI_COMPLEX8,
                    MPI_REAL8 => MPI_COMPLEX16,
                    _ => MPI_C_LONG_DOUBLE_COMPLEX,
                };
                self.parameterised(MPI_COMBINER_F90_COMPLEX, &[precision, range], part)
            }
            Unnamed::Integer(range) => {
                self.parameterised(MPI_COMBINER_F90_INTEGER, &[range], integer(range)?)
            }
            Unnamed::Pair(value, index) => pair(self, named(value), named(index)),
        }
    }

    fn parameterised(self, combiner: i32, arguments: &[i32], same_as: u32) -> Result<Datatype> {
        let element = named(same_as);
        let contents = arguments
            .iter()
            .fold(Recorder::new(combiner, Form::Int), |all, &value| all.integer(value))
            .done();
        Datatype::made(Datatype::from(element).map(), true, contents, Some((self, Element::As(element))))
    }
}

fn named(value: u32) -> &'static Predefined {
    Predefined::from_abi(value).expect("the caller names predefined types")
}

/// The named type of `selected_real_kind(precision, range)` (Fortran, IEEE kinds and the x87 one).
fn real(precision: i32, range: i32) -> Result<u32> {
    if precision == MPI_UNDEFINED && range == MPI_UNDEFINED {
        return Err(Error::new(
            ErrorClass::ARG,
            "p and r are both MPI_UNDEFINED; at least one must be given",
        ));
    }
    let given = |value: i32| if value == MPI_UNDEFINED { 0 } else { value };
    let long_double = named(MPI_LONG_DOUBLE);
    // Decimal digits and exponent range of C long double: the x87 format, else IEEE binary128.
    let widest = if cfg!(target_arch = "x86_64") { 18 } else { 33 };
    match (given(precision), given(range)) {
        (p, r) if p < 0 || r < 0 => Err(Error::new(
            ErrorClass::ARG,
            format!(
                "p is {precision} and r is {range}; they must not be negative (MPI_UNDEFINED: not given)"
            ),
        )),
        (..=6, ..=37) => Ok(MPI_REAL4),
        (..=15, ..=307) => Ok(MPI_REAL8),
        (p, ..=4931) if p <= widest && long_double.is_supported() => Ok(MPI_LONG_DOUBLE),
        (p, r) => Err(Error::new(
            ErrorClass::ARG,
            format!(
                "no REAL here has p = {p} decimal digits and an exponent range of r = {r}; the most is p = {widest}, \
                 r = 4931"
            ),
        )),
    }
}

/// The named type of `selected_int_kind(range)`.
fn integer(range: i32) -> Result<u32> {
    match range {
        i32::MIN..=-1 => Err(Error::new(ErrorClass::ARG, format!("r is {range}; it must not be negative"))),
        0..=2 => Ok(MPI_INTEGER1),
        3..=4 => Ok(MPI_INTEGER2),
        5..=9 => Ok(MPI_INTEGER4),
        10..=18 => Ok(MPI_INTEGER8),
        19..=38 => Ok(MPI_INTEGER16),
        _ => Err(Error::new(
            ErrorClass::ARG,
            format!("no INTEGER here has r = {range} decimal digits; the most is 38"),
        )),
    }
}

/// The pair of a value and an index in C struct layout.
fn pair(name: Unnamed, value: &'static Predefined, index: &'static Predefined) -> Result<Datatype> {
    let (Some(value_kind), Some(index_kind)) = (value.kind(), index.kind()) else {
        unreachable!("`value_index` hands out supported types only");
    };
    let members = [Datatype::from(value), Datatype::from(index)];
    let at = value.size().next_multiple_of(index.alignment()) as i64;
    let map = TypeMap::joined(vec![members[0].map(), members[1].map().shifted(at)?])?;
    let contents =
        members.iter().fold(Recorder::new(MPI_COMBINER_VALUE_INDEX, Form::Int), Recorder::datatype).done();
    Datatype::made(map, true, contents, Some((name, Element::Pair(value_kind, index_kind))))
}

/// What `MPI_Type_get_value_index` finds (section 6.9.4).
#[derive(Clone, Copy, Debug)]
pub enum ValueIndex {
    /// One of the nine named pairs.
    Named(&'static Predefined),
    /// A pair without a name.
    Unnamed(Unnamed),
}

impl ValueIndex {
    /// The pair of two types; `None` when there is none (`MPI_DATATYPE_NULL`).
    pub fn of(value: &Datatype, index: &Datatype) -> Option<ValueIndex> {
        let (value, index) = (value.as_predefined()?, index.as_predefined()?);
        let pair = match (value.handle(), index.handle()) {
            (MPI_FLOAT, MPI_INT) => MPI_FLOAT_INT,
            (MPI_DOUBLE, MPI_INT) => MPI_DOUBLE_INT,
            (MPI_LONG, MPI_INT) => MPI_LONG_INT,
            (MPI_INT, MPI_INT) => MPI_2INT,
            (MPI_SHORT, MPI_INT) => MPI_SHORT_INT,
            (MPI_LONG_DOUBLE, MPI_INT) => MPI_LONG_DOUBLE_INT,
            (MPI_REAL, MPI_REAL) => MPI_2REAL,
            (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION) => MPI_2DOUBLE_PRECISION,
            (MPI_INTEGER, MPI_INTEGER) => MPI_2INTEGER,
            _ => {
                let compared = matches!(
                    value.class(),
                    Class::CInteger | Class::FortranInteger | Class::Floating | Class::MultiLanguage
                );
                let counted =
                    matches!(index.class(), Class::CInteger | Class::FortranInteger | Class::MultiLanguage);
                let known = crate::value_index::is_known(value.kind()?, index.kind()?);
                return (compared && counted && known)
                    .then(|| ValueIndex::Unnamed(Unnamed::Pair(value.handle(), index.handle())));
            }
        };
        Some(ValueIndex::Named(named(pair)))
    }
}
