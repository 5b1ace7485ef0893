//! From bytes received to counts (sections 3.2.5 and 5.1.11).

use crate::object::Datatype;

/// `MPI_Get_count`: whole elements of `datatype` in `bytes` bytes. `None` stands for `MPI_UNDEFINED`: the bytes are
/// no whole number of elements, or the type has no data although bytes came.
///
/// The caller also turns a count that does not fit its output integer into `MPI_UNDEFINED`.
pub fn get_count(bytes: u64, datatype: &Datatype) -> Option<u64> {
    match datatype.size()? {
        0 => (bytes == 0).then_some(0),
        size => bytes.is_multiple_of(size).then(|| bytes / size),
    }
}

/// `MPI_Get_elements`: basic elements of `datatype` in `bytes` bytes, those of a partly received element included.
/// `None` stands for `MPI_UNDEFINED`: a basic element is cut in two.
pub fn get_elements(bytes: u64, datatype: &Datatype) -> Option<u64> {
    datatype.size()?;
    datatype.signature().elements_in(bytes)
}

/// `MPI_Status_set_elements` (section 13.3): the bytes that `elements` basic elements of consecutive copies of
/// `datatype` hold. `None` when they do not fit 64 bits or the type has none.
pub fn bytes_of_elements(elements: u64, datatype: &Datatype) -> Option<u64> {
    datatype.signature().bytes_of(elements)
}
