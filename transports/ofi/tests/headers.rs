//! The declarations of `sys` are those of the installed headers: a C program prints what the compiler makes of them.

use std::collections::HashMap;
use std::fmt::Write;
use std::process::Command;
use weft_ofi::sys::{COLLECTIVE_CONSTANTS, COLLECTIVE_LAYOUTS, CONSTANTS, LAYOUTS, Layout};

fn layouts() -> impl Iterator<Item = &'static Layout> {
    LAYOUTS.iter().chain(COLLECTIVE_LAYOUTS)
}

fn constants() -> impl Iterator<Item = &'static (&'static str, u64)> {
    CONSTANTS.iter().chain(COLLECTIVE_CONSTANTS)
}

/// What a field is called in C.
fn in_c(field: &str) -> &str {
    field.trim_start_matches("r#")
}

fn program() -> String {
    let mut text = String::from(
        "#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n\
         #include <rdma/fi_rma.h>\n#include <rdma/fi_atomic.h>\n#include <rdma/fi_tagged.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_collective.h>\n\
         #include <rdma/fi_errno.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for (structure, _, fields) in layouts() {
        writeln!(text, "printf(\"{structure} %zu\\n\", sizeof(struct {structure}));").unwrap();
        for (field, _) in *fields {
            let field = in_c(field);
            writeln!(text, "printf(\"{structure}.{field} %zu\\n\", offsetof(struct {structure}, {field}));")
                .unwrap();
        }
    }
    for (constant, _) in constants() {
        writeln!(text, "printf(\"{constant} %llu\\n\", (unsigned long long)({constant}));").unwrap();
    }
    text.push_str("return 0;\n}\n");
    text
}

#[test]
fn declarations_agree_with_the_installed_headers() {
    let folder = std::env::temp_dir().join(format!("weft-ofi-headers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, "#include <rdma/fabric.h>\nint main(void) { return 0; }\n").unwrap();
    let compile = || Command::new("cc").arg("-o").arg(&binary).arg(&source).output();
    let there = compile().is_ok_and(|output| output.status.success());
    if !there {
        std::fs::remove_dir_all(&folder).unwrap();
        println!("skipped: no C compiler, or no headers of libfabric (Debian: libfabric-dev)");
        return;
    }
    std::fs::write(&source, program()).unwrap();
    let output = compile().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = Command::new(&binary).output().unwrap().stdout;
    std::fs::remove_dir_all(&folder).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let numbers: HashMap<&str, u64> = printed
        .lines()
        .map(|line| line.split_once(' ').expect("name and number"))
        .map(|(name, number)| (name, number.parse().expect("a number")))
        .collect();
    let mut wrong = Vec::new();
    let mut compare = |name: String, ours: u64| {
        let theirs = numbers[name.as_str()];
        if ours != theirs {
            wrong.push(format!("{name}: {ours} here, {theirs} in the headers"));
        }
    };
    let mut fields_seen = 0;
    for (structure, bytes, fields) in layouts() {
        compare((*structure).into(), *bytes as u64);
        for (field, offset) in *fields {
            compare(format!("{structure}.{}", in_c(field)), *offset as u64);
            fields_seen += 1;
        }
    }
    for (constant, value) in constants() {
        compare((*constant).into(), *value);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{} structures with {fields_seen} fields and {} constants agree",
        layouts().count(),
        constants().count()
    );
}
