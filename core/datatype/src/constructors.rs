//! The datatype constructors (sections 5.1.2, 5.1.3, 5.1.7, 5.1.10).
//!
//! All take 64-bit counts; [`Form`] says which C form was called, for decoding only. A constructor copies what it
//! is given: later changes of its inputs are not seen.

use crate::decode::{Form, Recorder};
use crate::object::Datatype;
use crate::typemap::{TypeMap, mul};
use weft_types::abi::*;
use weft_types::{Error, ErrorClass, Result};

impl Datatype {
    /// `MPI_Type_contiguous`: `count` elements back to back.
    pub fn contiguous(count: i64, old: &Datatype, form: Form) -> Result<Datatype> {
        let map = input(old)?;
        let extent = old.bounds().extent;
        let map = map.repeated(nonnegative("count", count)?, extent)?;
        let contents = Recorder::new(MPI_COMBINER_CONTIGUOUS, form).count(count).datatype(old).done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_dup`: the same type as another object, committed when the original is (section 5.1.10).
    pub fn duplicate(&self) -> Result<Datatype> {
        let contents = Recorder::new(MPI_COMBINER_DUP, Form::Int).datatype(self).done();
        Datatype::derived(input(self)?, self.is_committed(), contents)
    }

    /// `MPI_Type_create_resized`: new bounds `lb` and `lb + extent`, in bytes.
    pub fn resized(old: &Datatype, lb: i64, extent: i64, form: Form) -> Result<Datatype> {
        let contents =
            Recorder::new(MPI_COMBINER_RESIZED, form).address(lb).address(extent).datatype(old).done();
        Datatype::derived(input(old)?.resized(lb, extent)?, false, contents)
    }

    /// `MPI_Type_vector`: `count` blocks of `blocklength` elements, `stride` extents apart.
    pub fn vector(count: i64, blocklength: i64, stride: i64, old: &Datatype, form: Form) -> Result<Datatype> {
        let bytes = if count > 1 { mul(stride, old.bounds().extent)? } else { 0 };
        let map = blocks(count, blocklength, bytes, old)?;
        let contents = Recorder::new(MPI_COMBINER_VECTOR, form)
            .counts(&[count, blocklength, stride])
            .datatype(old)
            .done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_create_hvector`: as [`Datatype::vector`], the stride in bytes.
    pub fn hvector(
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        let map = blocks(count, blocklength, stride, old)?;
        let contents = Recorder::new(MPI_COMBINER_HVECTOR, form)
            .counts(&[count, blocklength])
            .address(stride)
            .datatype(old)
            .done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_indexed`: block `i` has `blocklengths[i]` elements at `displacements[i]` extents.
    pub fn indexed(
        blocklengths: &[i64],
        displacements: &[i64],
        old: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        let map = indexed(blocklengths, displacements, old.bounds().extent, old)?;
        let contents = Recorder::new(MPI_COMBINER_INDEXED, form)
            .count(blocklengths.len() as i64)
            .counts(blocklengths)
            .counts(displacements)
            .datatype(old)
            .done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_create_hindexed`: as [`Datatype::indexed`], displacements in bytes.
    pub fn hindexed(
        blocklengths: &[i64],
        displacements: &[i64],
        old: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        let map = indexed(blocklengths, displacements, 1, old)?;
        let contents = Recorder::new(MPI_COMBINER_HINDEXED, form)
            .count(blocklengths.len() as i64)
            .counts(blocklengths)
            .addresses(displacements)
            .datatype(old)
            .done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_create_indexed_block`: blocks of one length at `displacements[i]` extents.
    pub fn indexed_block(
        blocklength: i64,
        displacements: &[i64],
        old: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        nonnegative("blocklength", blocklength)?;
        let lengths = vec![blocklength; displacements.len()];
        let map = indexed(&lengths, displacements, old.bounds().extent, old)?;
        let contents = Recorder::new(MPI_COMBINER_INDEXED_BLOCK, form)
            .count(displacements.len() as i64)
            .count(blocklength)
            .counts(displacements)
            .datatype(old)
            .done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_create_hindexed_block`: blocks of one length at displacements in bytes.
    pub fn hindexed_block(
        blocklength: i64,
        displacements: &[i64],
        old: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        nonnegative("blocklength", blocklength)?;
        let lengths = vec![blocklength; displacements.len()];
        let map = indexed(&lengths, displacements, 1, old)?;
        let contents = Recorder::new(MPI_COMBINER_HINDEXED_BLOCK, form)
            .count(displacements.len() as i64)
            .count(blocklength)
            .addresses(displacements)
            .datatype(old)
            .done();
        Datatype::derived(map, false, contents)
    }

    /// `MPI_Type_create_struct`: block `i` has `blocklengths[i]` elements of `types[i]` at `displacements[i]` bytes.
    ///
    /// # Panics
    /// When the three slices differ in length.
    pub fn structure(
        blocklengths: &[i64],
        displacements: &[i64],
        types: &[Datatype],
        form: Form,
    ) -> Result<Datatype> {
        assert!(blocklengths.len() == displacements.len() && types.len() == blocklengths.len());
        let mut parts = Vec::with_capacity(types.len());
        for (index, old) in types.iter().enumerate() {
            let length = nonnegative_at("array_of_blocklengths", index, blocklengths[index])?;
            let map = input(old)?;
            if length > 0 {
                parts.push(map.repeated(length, old.bounds().extent)?.shifted(displacements[index])?);
            }
        }
        let mut recorder = Recorder::new(MPI_COMBINER_STRUCT, form)
            .count(types.len() as i64)
            .counts(blocklengths)
            .addresses(displacements);
        for old in types {
            recorder = recorder.datatype(old);
        }
        Datatype::derived(TypeMap::joined(parts)?, false, recorder.done())
    }

    /// `MPI_Type_create_subarray` (section 5.1.3): `subsizes` at `starts` of an array of `sizes`; `order` is
    /// `MPI_ORDER_C` or `MPI_ORDER_FORTRAN`. The extent is the whole array's.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: i32,
        old: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        let dimensions = sizes.len();
        assert!(subsizes.len() == dimensions && starts.len() == dimensions);
        if dimensions == 0 {
            return Err(Error::new(ErrorClass::ARG, "ndims is 0; a subarray has at least one dimension"));
        }
        if order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN {
            return Err(Error::new(
                ErrorClass::ARG,
                format!("order is {order}; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN"),
            ));
        }
        for i in 0..dimensions {
            let (size, subsize, start) = (sizes[i], subsizes[i], starts[i]);
            if size < 1 || subsize < 1 || subsize > size || start < 0 || start > size - subsize {
                return Err(Error::new(
                    ErrorClass::ARG,
                    format!(
                        "dimension {i}: size {size}, subsize {subsize}, start {start}; the rules are \
                         1 <= subsize <= size and 0 <= start <= size - subsize (section 5.1.3)"
                    ),
                ));
            }
        }
        let mut map = input(old)?;
        let mut stride = old.bounds().extent;
        let mut step = |map: TypeMap, i: usize| -> Result<TypeMap> {
            let map = map.repeated(subsizes[i], stride)?.shifted(mul(starts[i], stride)?)?;
            stride = mul(stride, sizes[i])?;
            Ok(map)
        };
        // From the fastest dimension to the slowest.
        for i in 0..dimensions {
            map = step(map, if order == MPI_ORDER_C { dimensions - 1 - i } else { i })?;
        }
        let contents = Recorder::new(MPI_COMBINER_SUBARRAY, form)
            .integer(dimensions as i32)
            .counts(sizes)
            .counts(subsizes)
            .counts(starts)
            .integer(order)
            .datatype(old)
            .done();
        Datatype::derived(map.resized(0, stride)?, false, contents)
    }
}

fn blocks(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<TypeMap> {
    let map = input(old)?;
    let block = map.repeated(nonnegative("blocklength", blocklength)?, old.bounds().extent)?;
    let count = nonnegative("count", count)?;
    // Blocks without entries have no bounds either.
    if blocklength == 0 { Ok(TypeMap::empty()) } else { block.repeated(count, stride) }
}

fn indexed(lengths: &[i64], displacements: &[i64], unit: i64, old: &Datatype) -> Result<TypeMap> {
    assert_eq!(lengths.len(), displacements.len(), "one displacement for each block");
    if let Some(index) = lengths.iter().position(|&length| length < 0) {
        return Err(negative(&format!("array_of_blocklengths[{index}]"), lengths[index]));
    }
    let blocks = lengths.iter().copied().zip(displacements.iter().copied());
    input(old)?.blocks(blocks.filter(|block| block.0 > 0), unit, old.bounds().extent)
}

/// The type map of a constructor's input: any supported type, committed or not (section 5.1.9).
pub(crate) fn input(old: &Datatype) -> Result<TypeMap> {
    if old.size().is_none() {
        old.check_usable()?;
    }
    Ok(old.map())
}

fn nonnegative(name: &str, value: i64) -> Result<i64> {
    if value >= 0 { Ok(value) } else { Err(negative(name, value)) }
}

fn nonnegative_at(name: &str, index: usize, value: i64) -> Result<i64> {
    if value >= 0 { Ok(value) } else { Err(negative(&format!("{name}[{index}]"), value)) }
}

#[cold]
fn negative(name: &str, value: i64) -> Error {
    Error::new(ErrorClass::COUNT, format!("{name} is {value}; it must not be negative"))
}
