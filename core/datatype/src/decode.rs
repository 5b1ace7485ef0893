//! What `MPI_Type_get_envelope` and `MPI_Type_get_contents` tell (section 5.1.13).

use crate::object::Datatype;
use weft_types::abi;

/// Which form of a constructor was called: with `int` counts, or the `_c` form with `MPI_Count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `int` counts, `MPI_Aint` byte displacements.
    Int,
    /// `MPI_Count` counts and displacements: they are told as large counts.
    Large,
}

/// The call that made a derived type, in the argument order of section 5.1.13.
#[derive(Clone, Debug)]
pub struct Contents {
    /// `MPI_COMBINER_...`
    pub combiner: i32,
    /// Counts, block lengths and the like of the `int` form; dimensions, orders and ranks of both.
    pub integers: Vec<i32>,
    /// Byte displacements and bounds of the `int` form.
    pub addresses: Vec<i64>,
    /// Counts and displacements of the large form.
    pub large_counts: Vec<i64>,
    /// The types the call was given.
    pub datatypes: Vec<Datatype>,
}

/// The combiner of any type, `MPI_COMBINER_NAMED` for predefined ones.
pub fn combiner(datatype: &Datatype) -> i32 {
    datatype.contents().map_or(abi::MPI_COMBINER_NAMED, |contents| contents.combiner)
}

/// Collects the arguments of one constructor call.
pub(crate) struct Recorder {
    form: Form,
    contents: Contents,
}

impl Recorder {
    pub(crate) fn new(combiner: i32, form: Form) -> Recorder {
        let contents = Contents {
            combiner,
            integers: Vec::new(),
            addresses: Vec::new(),
            large_counts: Vec::new(),
            datatypes: Vec::new(),
        };
        Recorder { form, contents }
    }

    /// A count or displacement in elements. In the `int` form it came from an `int`.
    pub(crate) fn count(mut self, value: i64) -> Recorder {
        match self.form {
            Form::Int => self.contents.integers.push(value as i32),
            Form::Large => self.contents.large_counts.push(value),
        }
        self
    }

    pub(crate) fn counts(self, values: &[i64]) -> Recorder {
        values.iter().fold(self, |all, &value| all.count(value))
    }

    /// A displacement or bound in bytes.
    pub(crate) fn address(mut self, value: i64) -> Recorder {
        match self.form {
            Form::Int => self.contents.addresses.push(value),
            Form::Large => self.contents.large_counts.push(value),
        }
        self
    }

    pub(crate) fn addresses(self, values: &[i64]) -> Recorder {
        values.iter().fold(self, |all, &value| all.address(value))
    }

    /// A number that is an `int` in both forms (dimensions, order, rank, size of a grid).
    pub(crate) fn integer(mut self, value: i32) -> Recorder {
        self.contents.integers.push(value);
        self
    }

    pub(crate) fn datatype(mut self, datatype: &Datatype) -> Recorder {
        self.contents.datatypes.push(datatype.clone());
        self
    }

    pub(crate) fn done(self) -> Contents {
        self.contents
    }
}
