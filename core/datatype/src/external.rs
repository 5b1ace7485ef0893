//! The "external32" representation (section 14.5.2): big-endian, byte-aligned, sizes of tables 14.2 to 14.4.
//!
//! Data is packed natively and converted on the way, in pieces; the signature says what each byte belongs to.

use crate::buffer::{RecvBuf, SendBuf};
use crate::object::Datatype;
use crate::predefined::Kind;
use crate::signature::{Basics, Signature};
use weft_types::{Error, ErrorClass, Result};

/// The name of the only representation there is.
pub const NAME: &[u8] = b"external32";

/// Native bytes converted at a time.
const PIECE: usize = 4096;

/// Bytes that `count` elements take in "external32".
///
/// # Errors
/// `MPI_ERR_COUNT` when these do not fit 63 bits.
pub fn size(datatype: &Datatype, count: u64) -> Result<i64> {
    let one = datatype.signature().external_bytes();
    one.checked_mul(count).and_then(|bytes| i64::try_from(bytes).ok()).ok_or_else(|| {
        Error::new(
            ErrorClass::COUNT,
            format!("count {count} times {one} bytes in external32 does not fit 63 bits"),
        )
    })
}

/// Writes the elements of `from` to `out`; both are as long as `count` elements of `signature` say.
///
/// # Panics
/// When they are not.
pub fn pack(signature: &Signature, count: u64, from: &SendBuf, out: &mut [u8]) {
    let (mut offset, mut rest) = (0, out);
    let mut native = [0_u8; PIECE];
    let (mut have, mut used) = (0, 0);
    convert(signature, count, |basics| {
        let (size, external) = (basics.size as usize, basics.external as usize);
        let mut left = basics.count as usize;
        while left > 0 {
            if have - used < size {
                // An element may straddle two pieces: begin the next one with it.
                offset += used;
                (have, used) = (PIECE.min(from.len() - offset), 0);
                from.pack(offset, &mut native[..have]);
            }
            let now = left.min((have - used) / size);
            let (done, later) = std::mem::take(&mut rest).split_at_mut(now * external);
            let elements = native[used..used + now * size].chunks_exact(size);
            elements
                .zip(done.chunks_exact_mut(external))
                .for_each(|(from, to)| to_external(basics.kind, from, to));
            rest = later;
            used += now * size;
            left -= now;
        }
    });
    assert!(rest.is_empty(), "as long as the elements say");
}

/// Reads the elements of `into` from `data`; both are as long as `count` elements of `signature` say.
///
/// # Panics
/// When they are not.
pub fn unpack(signature: &Signature, count: u64, data: &[u8], into: &mut RecvBuf) {
    let (mut offset, mut rest) = (0, data);
    let mut native = [0_u8; PIECE];
    let mut used = 0;
    convert(signature, count, |basics| {
        let (size, external) = (basics.size as usize, basics.external as usize);
        let mut left = basics.count as usize;
        while left > 0 {
            if PIECE - used < size {
                into.unpack(offset, &native[..used]);
                offset += used;
                used = 0;
            }
            let now = left.min((PIECE - used) / size);
            let (elements, later) = rest.split_at(now * external);
            let places = native[used..used + now * size].chunks_exact_mut(size);
            elements
                .chunks_exact(external)
                .zip(places)
                .for_each(|(from, to)| to_native(basics.kind, from, to));
            rest = later;
            used += now * size;
            left -= now;
        }
    });
    into.unpack(offset, &native[..used]);
    assert!(rest.is_empty(), "as long as the elements say");
}

fn convert(signature: &Signature, count: u64, mut run: impl FnMut(Basics)) {
    for _ in 0..count {
        let ended = signature.for_each(&mut |basics| {
            run(basics);
            Ok::<(), std::convert::Infallible>(())
        });
        match ended {
            Ok(()) => {}
        }
    }
}

/// One basic element; the slices have the sizes of its [`Basics`].
fn to_external(kind: Kind, from: &[u8], to: &mut [u8]) {
    match kind {
        Kind::LongDouble | Kind::CLongDouble => {
            for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
                *to = long_double_to_quad(from).to_be_bytes();
            }
        }
        Kind::C32 => reverse_parts::<4>(from, to),
        Kind::C64 => reverse_parts::<8>(from, to),
        _ => {
            // Only the least significant bytes are moved when the external integer is smaller.
            let mut bytes = big_endian(from);
            let kept = &mut bytes.as_mut_slice()[..from.len()];
            let cut = from.len() - to.len();
            let sign = kept[0] & 0x80;
            to.copy_from_slice(&kept[cut..]);
            if cut > 0 && is_signed(kind) {
                to[0] = to[0] & 0x7f | sign;
            }
        }
    }
}

/// As [`to_external`], the other way.
fn to_native(kind: Kind, from: &[u8], to: &mut [u8]) {
    match kind {
        Kind::LongDouble | Kind::CLongDouble => {
            for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
                *to = quad_to_long_double(u128::from_be_bytes(*from));
            }
        }
        Kind::C32 => reverse_parts::<4>(from, to),
        Kind::C64 => reverse_parts::<8>(from, to),
        Kind::Bool => to[0] = u8::from(from[0] != 0),
        _ => {
            let widened = to.len() - from.len();
            let fill = if is_signed(kind) && from[0] & 0x80 != 0 { 0xff } else { 0 };
            to[..widened].fill(fill);
            to[widened..].copy_from_slice(from);
            let bytes = big_endian(to);
            to.copy_from_slice(&bytes[..to.len()]);
        }
    }
}

fn is_signed(kind: Kind) -> bool {
    matches!(kind, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 | Kind::I128)
}

/// The bytes of a native number most significant first, or the reverse; at the front of the result.
fn big_endian(bytes: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..bytes.len()].copy_from_slice(bytes);
    if cfg!(target_endian = "little") {
        out[..bytes.len()].reverse();
    }
    out
}

/// Complex numbers: each of the two parts by itself.
fn reverse_parts<const N: usize>(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
        to.copy_from_slice(&big_endian(from)[..N]);
    }
}

const QUAD_FRACTION: u32 = 112;

/// C `long double` as IEEE binary128. The x87 format has the same exponent, and 63 bits of fraction behind an
/// explicit integer bit: every value is exact.
fn long_double_to_quad(bytes: &[u8; 16]) -> u128 {
    if !crate::x87::AVAILABLE {
        return u128::from_ne_bytes(*bytes);
    }
    let bits = u128::from_le_bytes(*bytes);
    let significand = bits as u64;
    let (sign, exponent) = ((bits >> 79) & 1, (bits >> 64) & 0x7fff);
    let fraction = u128::from(significand << 1) << (QUAD_FRACTION - 64);
    match exponent {
        0x7fff => sign << 127 | 0x7fff << QUAD_FRACTION | fraction,
        // Without the integer bit zero or denormal: the same scale in binary128, where the bit is not stored.
        0 if significand >> 63 == 0 => sign << 127 | fraction,
        // The unit itself refuses the other numbers without integer bit: no number.
        _ if significand >> 63 == 0 => 0x7fff << QUAD_FRACTION | 1 << (QUAD_FRACTION - 1),
        _ => sign << 127 | exponent.max(1) << QUAD_FRACTION | fraction,
    }
}

/// IEEE binary128 as C `long double`, rounded to nearest, ties to even.
fn quad_to_long_double(quad: u128) -> [u8; 16] {
    if !crate::x87::AVAILABLE {
        return quad.to_ne_bytes();
    }
    let sign = quad >> 127;
    let exponent = (quad >> QUAD_FRACTION) & 0x7fff;
    let fraction = quad & ((1 << QUAD_FRACTION) - 1);
    const DROPPED: u32 = QUAD_FRACTION - 63;
    let bits = if exponent == 0x7fff {
        // An infinity, or a number that is none and must stay none when its low bits go.
        let kept = fraction >> DROPPED;
        let quiet = if fraction != 0 && kept == 0 { 1 << 62 } else { 0 };
        0x7fff << 64 | 1 << 63 | kept | quiet
    } else {
        let integer = u128::from(exponent != 0) << 63;
        let (kept, rest) = (fraction >> DROPPED, fraction & ((1 << DROPPED) - 1));
        let half = 1 << (DROPPED - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let significand = (integer | kept) + u128::from(up);
        match significand >> 63 {
            // Rounded up to the next power of two.
            2 => (exponent + 1) << 64 | 1 << 63,
            // The largest denormal number rounded up to the smallest normal one.
            1 if exponent == 0 => 1 << 64 | significand,
            _ => exponent << 64 | significand,
        }
    };
    (sign << 79 | bits).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predefined::Predefined;
    use weft_types::abi::*;

    fn external(handle: u32, native: &[u8]) -> Vec<u8> {
        let datatype = Datatype::from(Predefined::from_abi(handle).unwrap());
        let count = (native.len() / datatype.bounds().extent as usize) as u64;
        // SAFETY: `native` outlives the buffer.
        let from = unsafe { datatype.send_buf(native.as_ptr(), count).unwrap() };
        let mut out = vec![0xee; size(&datatype, count).unwrap() as usize];
        pack(&datatype.signature(), count, &from, &mut out);
        let mut back = native.to_vec();
        back.fill(0x55);
        // SAFETY: `back` outlives the buffer and is touched through it only.
        let mut into = unsafe { datatype.recv_buf(back.as_mut_ptr(), count).unwrap() };
        unpack(&datatype.signature(), count, &out, &mut into);
        let mut packed = vec![0; from.len()];
        from.pack(0, &mut packed);
        let mut again = vec![0; from.len()];
        // SAFETY: `back` outlives the buffer.
        unsafe { datatype.send_buf(back.as_ptr(), count).unwrap() }.pack(0, &mut again);
        assert_eq!(again, packed, "there and back");
        out
    }

    /// Tables 14.2, 14.3 and 14.4.
    #[test]
    fn sizes_are_those_of_the_tables() {
        let table: &[(u32, i64)] = &[
            (MPI_PACKED, 1),
            (MPI_BYTE, 1),
            (MPI_CHAR, 1),
            (MPI_UNSIGNED_CHAR, 1),
            (MPI_SIGNED_CHAR, 1),
            (MPI_WCHAR, 2),
            (MPI_SHORT, 2),
            (MPI_UNSIGNED_SHORT, 2),
            (MPI_INT, 4),
            (MPI_LONG, 4),
            (MPI_UNSIGNED, 4),
            (MPI_UNSIGNED_LONG, 4),
            (MPI_LONG_LONG_INT, 8),
            (MPI_UNSIGNED_LONG_LONG, 8),
            (MPI_FLOAT, 4),
            (MPI_DOUBLE, 8),
            (MPI_LONG_DOUBLE, 16),
            (MPI_C_BOOL, 1),
            (MPI_INT8_T, 1),
            (MPI_INT16_T, 2),
            (MPI_INT32_T, 4),
            (MPI_INT64_T, 8),
            (MPI_UINT8_T, 1),
            (MPI_UINT16_T, 2),
            (MPI_UINT32_T, 4),
            (MPI_UINT64_T, 8),
            (MPI_AINT, 8),
            (MPI_COUNT, 8),
            (MPI_OFFSET, 8),
            (MPI_C_FLOAT_COMPLEX, 8),
            (MPI_C_DOUBLE_COMPLEX, 16),
            (MPI_C_LONG_DOUBLE_COMPLEX, 32),
            (MPI_CHARACTER, 1),
            (MPI_LOGICAL, 4),
            (MPI_INTEGER, 4),
            (MPI_REAL, 4),
            (MPI_DOUBLE_PRECISION, 8),
            (MPI_COMPLEX, 8),
            (MPI_DOUBLE_COMPLEX, 16),
            (MPI_CXX_BOOL, 1),
            (MPI_CXX_FLOAT_COMPLEX, 8),
            (MPI_CXX_DOUBLE_COMPLEX, 16),
            (MPI_CXX_LONG_DOUBLE_COMPLEX, 32),
            (MPI_INTEGER1, 1),
            (MPI_INTEGER2, 2),
            (MPI_INTEGER4, 4),
            (MPI_INTEGER8, 8),
            (MPI_INTEGER16, 16),
            (MPI_REAL4, 4),
            (MPI_REAL8, 8),
            (MPI_COMPLEX8, 8),
            (MPI_COMPLEX16, 16),
            (MPI_LONG_INT, 8),
            (MPI_SHORT_INT, 6),
        ];
        for &(handle, bytes) in table {
            let predefined = Predefined::from_abi(handle).unwrap();
            assert_eq!(size(&predefined.into(), 3).unwrap(), 3 * bytes, "{}", predefined.name());
        }
        assert!(size(&Predefined::from_abi(MPI_DOUBLE).unwrap().into(), 1 << 60).is_err());
    }

    #[test]
    fn numbers_are_big_endian_and_shortened_with_their_sign() {
        assert_eq!(external(MPI_INT, &0x0102_0304_i32.to_ne_bytes()), [1, 2, 3, 4]);
        assert_eq!(external(MPI_LONG, &(-2_i64).to_ne_bytes()), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(external(MPI_UNSIGNED_LONG, &0xffff_fffe_u64.to_ne_bytes()), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(external(MPI_WCHAR, &0x20ac_i32.to_ne_bytes()), [0x20, 0xac]);
        assert_eq!(external(MPI_DOUBLE, &1.5_f64.to_ne_bytes()), [0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
        let complex: Vec<u8> = [1.0_f32, -2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        assert_eq!(external(MPI_C_FLOAT_COMPLEX, &complex), [0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0]);
        assert_eq!(external(MPI_INTEGER16, &1_i128.to_ne_bytes())[15], 1);
        // A value that the shorter integer cannot hold keeps its sign.
        let mut to = [0; 4];
        to_external(Kind::I64, &(-(1_i64 << 40) - 1).to_ne_bytes(), &mut to);
        assert!(to[0] & 0x80 != 0);
        let long: Vec<u8> = (0..20_000_i64).flat_map(|x| (x - 10_000).to_ne_bytes()).collect();
        assert_eq!(external(MPI_LONG, &long)[4 * 9_999..4 * 10_001], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn long_double_becomes_binary128_and_back() {
        let x87 = |sign: u128, exponent: u128, significand: u64| {
            (sign << 79 | exponent << 64 | u128::from(significand)).to_le_bytes()
        };
        let one = long_double_to_quad(&x87(0, 16383, 1 << 63));
        assert_eq!(one, 0x3fff << 112);
        assert_eq!(long_double_to_quad(&x87(1, 16384, 3 << 62)), 1 << 127 | 0x40008 << 108);
        assert_eq!(long_double_to_quad(&x87(1, 0, 0)), 1 << 127);
        for (exponent, significand) in [
            (16383, 1 << 63),
            (16383, u64::MAX),
            (1, 1 << 63),
            (0x7ffe, u64::MAX),
            (0, 1),
            (0, u64::MAX >> 1),
            (0x7fff, 1 << 63),
            (0x7fff, 3 << 62),
            (0, 0),
        ] {
            for sign in [0, 1] {
                let value = x87(sign, exponent, significand);
                assert_eq!(
                    quad_to_long_double(long_double_to_quad(&value)),
                    value,
                    "{exponent} {significand:#x}"
                );
            }
        }
        // Rounding to nearest even, into the next power of two, and into infinity.
        let ulp = 1_u128 << 49;
        assert_eq!(quad_to_long_double(one + ulp / 2), x87(0, 16383, 1 << 63));
        assert_eq!(quad_to_long_double(one + ulp / 2 + 1), x87(0, 16383, (1 << 63) + 1));
        assert_eq!(quad_to_long_double((0x4000 << 112) - 1), x87(0, 16384, 1 << 63));
        assert_eq!(quad_to_long_double((0x7fff << 112) - 1), x87(0, 0x7fff, 1 << 63));
        assert_eq!(quad_to_long_double((1 << 112) - 1), x87(0, 1, 1 << 63));
        assert_eq!(quad_to_long_double(0x7fff << 112 | 1), x87(0, 0x7fff, 3 << 62));
    }
}
