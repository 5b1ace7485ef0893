//! The declarations of `sys.rs` are those of the kernel's header: a C program prints what the compiler makes of it, and the source here
//! is searched for that.

use std::process::Command;

/// Constants that are written there as `const NAME: type = value;`.
const CONSTANTS: [&str; 12] = [
    "UFFD_API",
    "UFFD_USER_MODE_ONLY",
    "UFFDIO_API",
    "UFFDIO_REGISTER",
    "UFFDIO_UNREGISTER",
    "UFFDIO_WRITEPROTECT",
    "UFFDIO_REGISTER_MODE_WP",
    "UFFD_FEATURE_PAGEFAULT_FLAG_WP",
    "UFFD_FEATURE_EVENT_REMAP",
    "UFFD_FEATURE_EVENT_REMOVE",
    "UFFD_FEATURE_EVENT_UNMAP",
    "UFFD_EVENT_UNMAP",
];

/// Expressions of the header, and what the declarations say.
const LAYOUTS: [(&str, u64); 14] = [
    ("sizeof(struct uffdio_api)", 24),
    ("offsetof(struct uffdio_api, features)", 8),
    ("sizeof(struct uffdio_register)", 32),
    ("offsetof(struct uffdio_register, mode)", 16),
    ("sizeof(struct uffdio_range)", 16),
    ("offsetof(struct uffdio_range, len)", 8),
    ("sizeof(struct uffdio_writeprotect)", 24),
    ("offsetof(struct uffdio_writeprotect, mode)", 16),
    ("sizeof(struct uffd_msg)", 32),
    ("offsetof(struct uffd_msg, arg.remap.from)", 8),
    ("offsetof(struct uffd_msg, arg.remap.to)", 16),
    ("offsetof(struct uffd_msg, arg.remap.len)", 24),
    ("offsetof(struct uffd_msg, arg.remove.start)", 8),
    ("offsetof(struct uffd_msg, arg.remove.end)", 16),
];

/// The value of a constant in the source.
fn ours(name: &str) -> u64 {
    let source = include_str!("../src/sys.rs");
    let line = source.lines().find(|line| line.starts_with(&format!("const {name}:"))).expect(name);
    let value = line.rsplit_once("= ").expect("a value").1.trim_end_matches(';').replace('_', "");
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).expect("a number"),
        None => text.parse().expect("a number"),
    };
    match value.split_once(" << ") {
        Some((one, bits)) => number(one) << number(bits),
        None => number(&value),
    }
}

#[test]
fn declarations_agree_with_the_kernels_header() {
    let folder = std::env::temp_dir().join(format!("weft-mappings-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("print.c"), folder.join("print"));
    let expressions = CONSTANTS.iter().copied().chain(LAYOUTS.map(|(expression, _)| expression));
    let prints: String =
        expressions.map(|what| format!("printf(\"%llu\\n\", (unsigned long long)({what}));\n")).collect();
    let program = format!(
        "#include <linux/userfaultfd.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <sys/ioctl.h>\nint main(void) {{\n{prints}return 0;\n}}\n"
    );
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg("-o").arg(&binary).arg(&source).output();
    let printed =
        compiled.ok().filter(|output| output.status.success()).map(|_| Command::new(&binary).output());
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(printed) = printed else {
        println!("skipped: no C compiler, or a header without what is asked for (Debian: linux-libc-dev)");
        return;
    };
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    let theirs: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    let declared = CONSTANTS.iter().map(|name| ours(name)).chain(LAYOUTS.map(|(_, value)| value));
    assert_eq!(declared.collect::<Vec<_>>(), theirs);
}
