//! Bytes in "external32" (section 14.5.2) from a file or another machine: whatever they are, they are unpacked into exactly the data
//! bytes of the elements, and what they are unpacked to comes back the same when it is packed and unpacked again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_datatype::{Datatype, Form, external};

/// Elements of a derived type, and bytes of the memory around it.
const MOST: usize = 1 << 14;
const BESIDE: u8 = 0x5a;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[shape, count, handle, other], data)) = bytes.split_first_chunk() else { return };
    let Some(datatype) = datatype(shape, handle, other) else { return };
    let count = u64::from(count);
    let Ok(size) = external::size(&datatype, count) else { return };
    let (low, high) = datatype.span(count).expect("small");
    if size as usize > MOST || high - low > MOST as i64 {
        return;
    }
    let signature = datatype.signature();
    // As much as the elements take, as `MPI_Unpack_external` checks before.
    let mut data = data.to_vec();
    data.resize(size as usize, 0xff);
    let once = unpacked(&datatype, count, &data, (low, high));
    let mut data = vec![0; size as usize];
    // SAFETY: `once` is what the elements span, and stays.
    let from = unsafe { datatype.send_buf(once.as_ptr().wrapping_sub(low as usize), count) }.expect("small");
    external::pack(&signature, count, &from, &mut data);
    let twice = unpacked(&datatype, count, &data, (low, high));
    assert_eq!(once, twice);
});

/// The span of the elements after they were unpacked; nothing between them is touched.
fn unpacked(datatype: &Datatype, count: u64, data: &[u8], (low, high): (i64, i64)) -> Vec<u8> {
    let mut memory = vec![BESIDE; (high - low) as usize];
    let address = memory.as_mut_ptr().wrapping_sub(low as usize);
    // SAFETY: `memory` is what the elements span, and nobody else uses it.
    let mut into = unsafe { datatype.recv_buf(address, count) }.expect("small");
    external::unpack(&datatype.signature(), count, data, &mut into);
    let mut is_data = vec![false; memory.len()];
    let extent = datatype.bounds().extent;
    for element in 0..count as i64 {
        let layout = datatype.layout();
        layout.for_each_run(0, layout.size, |at, length| {
            let first = (element * extent + at - low) as usize;
            is_data[first..first + length].fill(true);
        });
    }
    for (at, (&byte, &is_data)) in memory.iter().zip(&is_data).enumerate() {
        assert!(is_data || byte == BESIDE, "byte {at} is none of the elements");
    }
    memory
}

/// A predefined type, or two in a row, a vector or a structure.
fn datatype(shape: u8, handle: u8, other: u8) -> Option<Datatype> {
    let named = |number: u8| Datatype::predefined(0x200 | u32::from(number)).map(Datatype::from);
    let (first, second) = (named(handle)?, named(other)?);
    let number = i64::from(shape >> 2);
    let made = match shape & 3 {
        0 => return Some(first),
        1 => Datatype::vector(number % 7, 2, number % 5 + 2, &first, Form::Int),
        2 => Datatype::hindexed(&[number % 9, 3], &[-number, 300], &second, Form::Large),
        _ => Datatype::structure(&[number % 6, 2], &[8, 300], &[first, second], Form::Large),
    };
    let made = made.ok()?;
    made.commit();
    Some(made)
}
