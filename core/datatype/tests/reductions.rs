//! Every predefined operation on every predefined type against plain models, at odd alignments; the table of section
//! 6.9.2 (musts.md 6.9.2, 6.9.4).

use weft_datatype::{Class, Datatype, Kind, Predefined, PredefinedOp};
use weft_types::ErrorClass;
use weft_types::abi::*;

const OPS: [u32; 12] = [
    MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR,
    MPI_MAXLOC, MPI_MINLOC,
];

fn op(value: u32) -> PredefinedOp {
    PredefinedOp::from_abi(value).unwrap()
}

fn datatype(value: u32) -> Datatype {
    Predefined::from_abi(value).unwrap().into()
}

/// The section's table, as the standard prints it.
fn allowed(operation: u32, class: Class) -> bool {
    let groups: &[Class] = match operation {
        MPI_MAX | MPI_MIN => &[Class::CInteger, Class::FortranInteger, Class::Floating, Class::MultiLanguage],
        MPI_SUM | MPI_PROD => {
            &[Class::CInteger, Class::FortranInteger, Class::Floating, Class::Complex, Class::MultiLanguage]
        }
        MPI_LAND | MPI_LOR | MPI_LXOR => &[Class::CInteger, Class::Logical],
        MPI_BAND | MPI_BOR | MPI_BXOR => {
            &[Class::CInteger, Class::FortranInteger, Class::Byte, Class::MultiLanguage]
        }
        _ => &[Class::Pair],
    };
    groups.contains(&class)
}

#[test]
fn operations_take_the_types_of_the_table_and_name_what_they_refuse() {
    let mut accepted = 0;
    for predefined in Predefined::all() {
        for operation in OPS {
            let result = op(operation).kernel(&predefined.into());
            if !predefined.is_supported() {
                assert_eq!(result.unwrap_err().class(), ErrorClass::TYPE);
            } else if allowed(operation, predefined.class()) {
                result.unwrap_or_else(|error| panic!("{}: {error}", predefined.name()));
                accepted += 1;
            } else {
                let error = result.unwrap_err();
                assert_eq!(error.class(), ErrorClass::OP);
                assert!(
                    error.text().contains(op(operation).name()) && error.text().contains(predefined.name())
                );
            }
        }
    }
    assert!(accepted > 300, "{accepted}");
    for operation in [MPI_REPLACE, MPI_NO_OP] {
        assert_eq!(op(operation).kernel(&datatype(MPI_INT)).unwrap_err().class(), ErrorClass::OP);
    }
    let derived = Datatype::contiguous(2, &datatype(MPI_INT), weft_datatype::Form::Int).unwrap();
    assert_eq!(op(MPI_SUM).kernel(&derived).unwrap_err().class(), ErrorClass::OP);
}

fn apply(operation: u32, datatype: u32, left: &[u8], into: &[u8]) -> Vec<u8> {
    let kernel = op(operation).kernel(&Predefined::from_abi(datatype).unwrap().into()).unwrap();
    // Both at odd addresses.
    let shift = |bytes: &[u8]| [&[0_u8][..], bytes].concat();
    let (left, mut into) = (shift(left), shift(into));
    let mut apart = vec![0xEE; into.len()];
    kernel.apply_apart(&left[1..], &into[1..], &mut apart[1..]);
    kernel.apply(&left[1..], &mut into[1..]);
    assert_eq!(into[1..], apart[1..], "with three operands");
    into.split_off(1)
}

fn integer_model(operation: u32, a: i128, b: i128) -> Option<i128> {
    Some(match operation {
        MPI_MAX => a.max(b),
        MPI_MIN => a.min(b),
        MPI_SUM => a.wrapping_add(b),
        MPI_PROD => a.wrapping_mul(b),
        MPI_LAND => i128::from(a != 0 && b != 0),
        MPI_LOR => i128::from(a != 0 || b != 0),
        MPI_LXOR => i128::from((a != 0) ^ (b != 0)),
        MPI_BAND => a & b,
        MPI_BOR => a | b,
        MPI_BXOR => a ^ b,
        _ => return None,
    })
}

#[test]
fn integers_logicals_and_bytes() {
    for predefined in Predefined::all() {
        let (size, signed) = match predefined.kind() {
            Some(Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 | Kind::I128) => (predefined.size(), true),
            Some(Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Bool | Kind::Logical(_)) => {
                (predefined.size(), false)
            }
            _ => continue,
        };
        let edge: i128 = if size == 16 { i128::MAX } else { (1_i128 << (8 * size - 1)) - 1 };
        let mut values = vec![0_i128, 1, 2, 3, 100, edge, edge - 1];
        if signed {
            values.extend([-1, -2, -100, -edge, -edge - 1]);
        } else {
            // All bits set; `decode` cuts it to the type's size.
            values.push(-1);
        }
        let encode = |value: i128| value.to_le_bytes()[..size].to_vec();
        let decode = |bytes: &[u8]| {
            let fill = if signed && bytes[size - 1] & 0x80 != 0 { 0xff } else { 0 };
            let mut whole = [fill; 16];
            whole[..size].copy_from_slice(bytes);
            i128::from_le_bytes(whole)
        };
        for operation in OPS.into_iter().filter(|&operation| allowed(operation, predefined.class())) {
            let pairs: Vec<(i128, i128)> =
                values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
            let left: Vec<u8> = pairs.iter().flat_map(|&(a, _)| encode(a)).collect();
            let into: Vec<u8> = pairs.iter().flat_map(|&(_, b)| encode(b)).collect();
            let result = apply(operation, predefined.handle(), &left, &into);
            for (bytes, &(a, b)) in result.chunks_exact(size).zip(&pairs) {
                let (a, b) = (decode(&encode(a)), decode(&encode(b)));
                let expected = decode(&encode(integer_model(operation, a, b).unwrap()));
                assert_eq!(decode(bytes), expected, "{} {operation} of {a}, {b}", predefined.name());
            }
        }
    }
}

/// Sums and products of two of them are exact in all formats, so that one model serves all.
const REALS: [f64; 9] = [0.0, 1.0, -1.0, 0.5, -2.25, 1024.0, -0.125, 7.0, f64::INFINITY];

fn real_model(operation: u32, a: f64, b: f64) -> f64 {
    match operation {
        MPI_MAX => a.max(b),
        MPI_MIN => a.min(b),
        MPI_SUM => a + b,
        _ => a * b,
    }
}

/// The 80-bit format of a value, by hand.
fn long_double(value: f64) -> [u8; 16] {
    let bits = value.to_bits();
    let (sign, exponent, fraction) = (bits >> 63, (bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
    let (exponent, significand) = match exponent {
        0 => (0, 0),
        0x7ff => (0x7fff, (1 << 63) | (fraction << 11)),
        _ => (exponent + 16383 - 1023, (1 << 63) | (fraction << 11)),
    };
    let mut out = [0xcc; 16];
    out[..8].copy_from_slice(&significand.to_le_bytes());
    out[8..10].copy_from_slice(&((sign << 15 | exponent) as u16).to_le_bytes());
    out
}

#[test]
fn floating_point() {
    for predefined in Predefined::all().filter(|predefined| predefined.class() == Class::Floating) {
        for operation in [MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD] {
            for (a, b) in REALS.iter().flat_map(|&a| REALS.map(|b| (a, b))) {
                let expected = real_model(operation, a, b);
                let what = format!("{} {operation} of {a}, {b}", predefined.name());
                let equal = |got: f64| got == expected || got.is_nan() && expected.is_nan();
                match predefined.kind().unwrap() {
                    Kind::F32 => {
                        let (a, b) = ((a as f32).to_le_bytes(), (b as f32).to_le_bytes());
                        let out = apply(operation, predefined.handle(), &a, &b);
                        assert!(equal(f64::from(f32::from_le_bytes(out.try_into().unwrap()))), "{what}");
                    }
                    Kind::F64 => {
                        let out = apply(operation, predefined.handle(), &a.to_le_bytes(), &b.to_le_bytes());
                        assert!(equal(f64::from_le_bytes(out.try_into().unwrap())), "{what}");
                    }
                    Kind::LongDouble => {
                        let out = apply(operation, predefined.handle(), &long_double(a), &long_double(b));
                        let mut expected_bytes = long_double(expected);
                        if expected == 0.0 {
                            expected_bytes[9] = out[9];
                        }
                        assert!(out == expected_bytes || expected.is_nan(), "{what}");
                        assert_eq!(out[10..], [0xcc; 6], "padding was touched");
                    }
                    other => unreachable!("{other:?} is not a floating point kind"),
                }
            }
        }
    }
}

#[test]
fn long_double_has_64_bits_of_precision() {
    // 1 + 2^-63 is not a double.
    let mut tiny = long_double(1.0);
    tiny[8..10].copy_from_slice(&(16383_u16 - 63).to_le_bytes());
    let out = apply(MPI_SUM, MPI_LONG_DOUBLE, &long_double(1.0), &tiny);
    assert_eq!(u64::from_le_bytes(out[..8].try_into().unwrap()), (1 << 63) | 1);
}

#[test]
fn complex_numbers() {
    let (a, b) = ([1.5_f64, -2.0], [0.25, 3.0]);
    let sum = [1.75, 1.0];
    let product = [1.5 * 0.25 + 2.0 * 3.0, 1.5 * 3.0 - 2.0 * 0.25];
    for predefined in Predefined::all().filter(|predefined| predefined.class() == Class::Complex) {
        let encode = |value: [f64; 2]| -> Vec<u8> {
            match predefined.kind().unwrap() {
                Kind::C32 => value.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
                Kind::C64 => value.iter().flat_map(|x| x.to_le_bytes()).collect(),
                _ => value.iter().flat_map(|x| long_double(*x)).collect(),
            }
        };
        let twice = |value: [f64; 2]| [encode(value), encode(value)].concat();
        for (operation, expected) in [(MPI_SUM, sum), (MPI_PROD, product)] {
            let out = apply(operation, predefined.handle(), &twice(a), &twice(b));
            assert_eq!(out, twice(expected), "{} {operation}", predefined.name());
        }
    }
}

#[test]
fn pairs_take_the_lower_index_of_equals_and_leave_gaps_alone() {
    for predefined in Predefined::all().filter(|predefined| predefined.class() == Class::Pair) {
        let kind = predefined.kind().unwrap();
        let (value_size, index_size) = kind.pair_sizes().unwrap();
        let at = value_size.next_multiple_of(index_size.min(4).max(if kind == Kind::DoubleDouble {
            8
        } else {
            4
        }));
        let value = |x: i64| -> Vec<u8> {
            match kind {
                Kind::FloatInt | Kind::FloatFloat => (x as f32).to_le_bytes().to_vec(),
                Kind::DoubleInt | Kind::DoubleDouble => (x as f64).to_le_bytes().to_vec(),
                Kind::LongDoubleInt => long_double(x as f64).to_vec(),
                _ => x.to_le_bytes()[..value_size].to_vec(),
            }
        };
        let index = |x: i64| match kind {
            Kind::FloatFloat | Kind::DoubleDouble => value(x),
            _ => (x as i32).to_le_bytes().to_vec(),
        };
        let encode = |pairs: &[(i64, i64)]| {
            let mut out = vec![0xcc_u8; pairs.len() * predefined.extent()];
            for (&(v, i), bytes) in pairs.iter().zip(out.chunks_exact_mut(predefined.extent())) {
                bytes[..value_size].copy_from_slice(&value(v));
                bytes[at..at + index_size].copy_from_slice(&index(i));
            }
            out
        };
        let left = [(5, 1), (5, 9), (-3, 4), (7, 2), (0, 8)];
        let into = [(5, 2), (5, 3), (2, 1), (-7, 9), (0, 8)];
        let max = [(5, 1), (5, 3), (2, 1), (7, 2), (0, 8)];
        let min = [(5, 1), (5, 3), (-3, 4), (-7, 9), (0, 8)];
        for (operation, expected) in [(MPI_MAXLOC, max), (MPI_MINLOC, min)] {
            let out = apply(operation, predefined.handle(), &encode(&left), &encode(&into));
            assert_eq!(out, encode(&expected), "{} {operation}", predefined.name());
            // The last element may end at its last data byte.
            let data = predefined.extent() * 4 + at + index_size;
            let cut = apply(operation, predefined.handle(), &encode(&left)[..data], &encode(&into)[..data]);
            assert_eq!(cut, encode(&expected)[..data]);
        }
    }
}
