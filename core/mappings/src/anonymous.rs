//! Whether memory has no file behind it, by `/proc/self/maps` (proc_pid_maps(5)).
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufRead, BufReader};

/// Whether all of a range is mapped, privately, and no file is behind it.
pub(super) fn is_anonymous(start: u64, end: u64) -> bool {
    let Ok(file) = File::open("/proc/self/maps") else { return false };
    is_anonymous_by(BufReader::with_capacity(16 << 10, file), start, end)
}

fn is_anonymous_by(mut lines: impl BufRead, start: u64, end: u64) -> bool {
    let mut at = start;
    let mut line = Vec::with_capacity(256);
    loop {
        line.clear();
        if !matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            return false;
        }
        let Some(mapping) = Mapping::parse(&line) else { return false };
        if mapping.end <= at {
            continue;
        }
        if mapping.start > at || !mapping.private || mapping.inode != 0 {
            return false;
        }
        at = mapping.end;
        if at >= end {
            return true;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    private: bool,
    inode: u64,
}

impl Mapping {
    /// A line: `start-end rwxp offset device inode path`. The path need not be text.
    fn parse(line: &[u8]) -> Option<Mapping> {
        let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok());
        let (start, end) = word()?.split_once('-')?;
        let rights = word()?;
        let (_offset, _device, inode) = (word()?, word()?, word()?);
        Some(Mapping {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            private: rights.ends_with('p'),
            inode: inode.trim_end().parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000004000 rw-p 00000000 00:00 0 
7f0000004000-7f0000008000 r--p 00000000 00:00 0 
7f0000008000-7f000000a000 rw-s 00000000 00:01 1029                       /dev/zero (deleted)
7f000000a000-7f000000b000 rw-p 00001000 fe:00 131                        /usr/lib/a file\\012 of two lines
7f000000c000-7f000000d000 rw-s 00000000 00:00 0 
";

    #[test]
    fn only_private_memory_without_a_file_and_without_a_hole_counts() {
        let is = |start, end| is_anonymous_by(MAPS.as_bytes(), start, end);
        assert!(is(0x55d0_c8a0_1000, 0x55d0_c8a0_3000));
        assert!(is(0x7f00_0000_0000, 0x7f00_0000_8000), "two mappings beside each other");
        assert!(!is(0x7f00_0000_7000, 0x7f00_0000_9000), "shared");
        assert!(!is(0x7f00_0000_a000, 0x7f00_0000_b000), "a file's");
        assert!(!is(0x7f00_0000_c000, 0x7f00_0000_d000), "shared without a file");
        assert!(!is(0x7f00_0000_b000, 0x7f00_0000_c000) && !is(0x55d0_c8a2_0000, 0x55d0_c8a2_2000), "a hole");
        assert!(!is(0x7fff_0000_0000, 0x7fff_0000_1000), "behind everything");
    }

    #[test]
    fn own_memory_is_recognised() {
        let heap = vec![1_u8; 1 << 20];
        let start = heap.as_ptr() as u64 & !4095;
        assert!(is_anonymous(start, start + (1 << 20)));
        let code = own_memory_is_recognised as *const () as u64 & !4095;
        assert!(!is_anonymous(code, code + 4096));
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(bytes: Vec<u8>, start: u64, length in 0_u64..1 << 20) {
            let _ = is_anonymous_by(&bytes[..], start, start.saturating_add(length));
        }
    }
}
