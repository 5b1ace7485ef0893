//! From bytes received to counts (sections 3.2.5 and 5.1.11).
//!
//! No message has more than 64 bits of bytes, but a program may set any number of elements, up to 63 bits, in a status of its own
//! (section 13.3): then their bytes have a few bits more.

use crate::object::Datatype;

/// `MPI_Get_count`: whole elements of `datatype` in `bytes` bytes. `None` stands for `MPI_UNDEFINED`: the bytes are
/// no whole number of elements, or the type has no data although bytes came.
///
/// The caller also turns a count that does not fit its output integer into `MPI_UNDEFINED`.
pub fn get_count(bytes: u128, datatype: &Datatype) -> Option<u64> {
    match (datatype.size()?, u64::try_from(bytes)) {
        (0, _) => (bytes == 0).then_some(0),
        (size, Ok(bytes)) => bytes.is_multiple_of(size).then(|| bytes / size),
        (size, Err(_)) => {
            let size = u128::from(size);
            bytes.is_multiple_of(size).then(|| u64::try_from(bytes / size).ok())?
        }
    }
}

/// `MPI_Get_elements`: basic elements of `datatype` in `bytes` bytes, those of a partly received element included.
/// `None` stands for `MPI_UNDEFINED`: a basic element is cut in two.
pub fn get_elements(bytes: u128, datatype: &Datatype) -> Option<u64> {
    datatype.size()?;
    let signature = datatype.signature();
    match u64::try_from(bytes) {
        Ok(bytes) => signature.elements_in(bytes),
        Err(_) if signature.bytes() == 0 => None,
        Err(_) => {
            let (copies, rest) =
                (bytes / u128::from(signature.bytes()), bytes % u128::from(signature.bytes()));
            let inside = signature.elements_in(rest as u64)?;
            let all =
                copies.checked_mul(u128::from(signature.elements()))?.checked_add(u128::from(inside))?;
            u64::try_from(all).ok()
        }
    }
}

/// `MPI_Status_set_elements` (section 13.3): the bytes that `elements` basic elements of consecutive copies of
/// `datatype` hold. `None` when the type has none.
pub fn bytes_of_elements(elements: u64, datatype: &Datatype) -> Option<u128> {
    let signature = datatype.signature();
    match signature.elements() {
        0 => (elements == 0).then_some(0),
        each => {
            let inside = signature.bytes_of(elements % each)?;
            Some(u128::from(elements / each) * u128::from(signature.bytes()) + u128::from(inside))
        }
    }
}
