//! Reductions on LOGICAL with the literals of a compiler whose `.TRUE.` is -1 (its own program: they are told once in a process).

use weft_datatype::{Booleans, Predefined, PredefinedOp};
use weft_types::abi::*;

/// `op` on every pair of the numbers, in elements of `size` bytes.
fn combine(op: PredefinedOp, logical: u32, numbers: &[i128], size: usize) -> Vec<i128> {
    let kernel = op.kernel(&Predefined::from_abi(logical).unwrap().into()).unwrap();
    let bytes = |number: i128| number.to_le_bytes()[..size].to_vec();
    let pairs = || numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
    let left: Vec<u8> = pairs().flat_map(|(a, _)| bytes(a)).collect();
    let mut into: Vec<u8> = pairs().flat_map(|(_, b)| bytes(b)).collect();
    let mut apart = vec![0x55; into.len()];
    kernel.apply_apart(&left, &into, &mut apart);
    kernel.apply(&left, &mut into);
    assert_eq!(into, apart);
    into.chunks_exact(size)
        .map(|element| {
            let mut whole = [if element[size - 1] & 0x80 == 0 { 0 } else { 0xff }; 16];
            whole[..size].copy_from_slice(element);
            i128::from_le_bytes(whole)
        })
        .collect()
}

#[test]
fn results_are_the_literals_that_were_told() {
    const LOGICALS: [(u32, usize); 6] = [
        (MPI_LOGICAL, 4),
        (MPI_LOGICAL1, 1),
        (MPI_LOGICAL2, 2),
        (MPI_LOGICAL4, 4),
        (MPI_LOGICAL8, 8),
        (MPI_LOGICAL16, 16),
    ];
    // Whatever is not .FALSE. is true.
    let numbers = [0, -1, 1, 2];
    let truth = |number: i128| number != 0;
    for yes in [1, -1] {
        if yes == -1 {
            assert!(Booleans::new(&(-1_i32).to_le_bytes(), &[0; 4]).unwrap().tell());
            assert!(!Booleans::new(&7_i32.to_le_bytes(), &[0; 4]).unwrap().tell(), "only once");
        }
        for (logical, size) in LOGICALS {
            let all = [
                (PredefinedOp::Land, (|a, b| a && b) as fn(bool, bool) -> bool),
                (PredefinedOp::Lor, |a, b| a || b),
                (PredefinedOp::Lxor, |a, b| a != b),
            ];
            for (op, meaning) in all {
                let wanted: Vec<i128> = numbers
                    .iter()
                    .flat_map(|&a| numbers.map(|b| if meaning(truth(a), truth(b)) { yes } else { 0 }))
                    .collect();
                assert_eq!(combine(op, logical, &numbers, size), wanted, "{} of {size} bytes", op.name());
            }
        }
        // The truths of C stay 1 and 0.
        assert_eq!(combine(PredefinedOp::Lor, MPI_C_BOOL, &[0, 1], 1), [0, 1, 1, 1]);
        assert_eq!(combine(PredefinedOp::Lor, MPI_INT, &[0, 5], 4), [0, 1, 1, 1]);
    }
}
