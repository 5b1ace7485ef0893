//! Our structures, numbers and keys are those of the installed headers: a C program prints the headers', and each is compared.

use super::*;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// Where Debian and builds from source keep the headers.
const FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/pmix2/include",
    "/usr/lib/aarch64-linux-gnu/pmix2/include",
    "/usr/include",
    "/usr/local/include",
];

/// What the header says of an expression of C, and what we do.
struct Claim {
    expression: String,
    ours: String,
}

fn claims() -> Vec<Claim> {
    let mut list = Vec::new();
    let mut number = |expression: String, ours: i64| {
        list.push(Claim { expression: format!("(long)({expression})"), ours: ours.to_string() });
    };
    macro_rules! fields {
        ($($ours:ident $theirs:ident { $($field:ident)* })*) => {
            $(
                number(concat!("sizeof(", stringify!($theirs), ")").to_owned(), size_of::<$ours>() as i64);
                number(concat!("_Alignof(", stringify!($theirs), ")").to_owned(), align_of::<$ours>() as i64);
                $(number(
                    concat!("offsetof(", stringify!($theirs), ", ", stringify!($field), ")").to_owned(),
                    std::mem::offset_of!($ours, $field) as i64,
                );)*
            )*
        };
    }
    fields! {
        pmix_proc pmix_proc_t { nspace rank }
        pmix_byte_object pmix_byte_object_t { bytes size }
        pmix_info pmix_info_t { key flags value }
        pmix_pdata pmix_pdata_t { proc key value }
        pmix_value pmix_value_t { data }
    }
    // A word of Rust too.
    number("offsetof(pmix_value_t, type)".to_owned(), std::mem::offset_of!(pmix_value, r#type) as i64);
    let any = pmix_value { r#type: 0, data: pmix_value_data { widest: [0; 3] } };
    macro_rules! members {
        ($($member:ident)*) => {
            $(
                number(
                    concat!("offsetof(pmix_value_t, data.", stringify!($member), ")").to_owned(),
                    std::mem::offset_of!(pmix_value, data.$member) as i64,
                );
                number(
                    concat!("sizeof(((pmix_value_t *)0)->data.", stringify!($member), ")").to_owned(),
                    // SAFETY: all members are valid where all bytes are zero.
                    size_of_val(unsafe { &any.data.$member }) as i64,
                );
            )*
        };
    }
    members! { flag string size integer int8 int16 int32 int64 uint8 uint16 uint32 uint64 rank bo }
    number("sizeof(((pmix_value_t *)0)->type)".to_owned(), size_of_val(&any.r#type) as i64);
    number("sizeof(pmix_scope_t)".to_owned(), size_of_val(&PMIX_GLOBAL) as i64);
    number("sizeof(pmix_status_t)".to_owned(), size_of::<c_int>() as i64);
    number("sizeof(((pmix_info_t *)0)->flags)".to_owned(), 4);
    macro_rules! numbers {
        ($($name:ident)*) => { $(number(stringify!($name).to_owned(), $name as i64);)* };
    }
    numbers! {
        PMIX_MAX_NSLEN PMIX_MAX_KEYLEN PMIX_RANK_WILDCARD PMIX_SUCCESS PMIX_ERR_UNREACH PMIX_ERR_NOT_FOUND PMIX_ERR_NOT_SUPPORTED
        PMIX_GLOBAL PMIX_BOOL PMIX_STRING PMIX_SIZE PMIX_INT PMIX_INT8 PMIX_INT16 PMIX_INT32 PMIX_INT64 PMIX_UINT PMIX_UINT8
        PMIX_UINT16 PMIX_UINT32 PMIX_UINT64 PMIX_BYTE_OBJECT PMIX_PROC_RANK
    }
    macro_rules! keys {
        ($($name:ident)*) => {
            $(list.push(Claim { expression: stringify!($name).to_owned(), ours: $name.to_str().unwrap().to_owned() });)*
        };
    }
    keys! {
        PMIX_JOB_SIZE PMIX_UNIV_SIZE PMIX_APPNUM PMIX_ANL_MAP PMIX_COLLECT_DATA PMIX_IMMEDIATE
    }
    list
}

/// The types of the functions, as [`crate::library`] has them; C refuses an initialiser of another type.
const FUNCTIONS: &str = "
pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
pmix_status_t (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;
int (*initialized)(void) = PMIx_Initialized;
pmix_status_t (*abort_job)(int, const char *, pmix_proc_t *, size_t) = PMIx_Abort;
pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = PMIx_Put;
pmix_status_t (*commit)(void) = PMIx_Commit;
pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t) = PMIx_Fence;
pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) = PMIx_Get;
pmix_status_t (*publish)(const pmix_info_t *, size_t) = PMIx_Publish;
pmix_status_t (*lookup)(pmix_pdata_t *, size_t, const pmix_info_t *, size_t) = PMIx_Lookup;
pmix_status_t (*unpublish)(char **, const pmix_info_t *, size_t) = PMIx_Unpublish;
pmix_status_t (*resolve_nodes)(const char *, char **) = PMIx_Resolve_nodes;
pmix_status_t (*resolve_peers)(const char *, const char *, pmix_proc_t **, size_t *) = PMIx_Resolve_peers;
const char *(*error_string)(pmix_status_t) = PMIx_Error_string;
const char *(*get_version)(void) = PMIx_Get_version;
";

#[test]
fn every_field_number_key_and_function_is_that_of_the_installed_headers() {
    let Some(include) =
        FOLDERS.iter().find(|folder| std::fs::exists(format!("{folder}/pmix.h")).unwrap_or(false))
    else {
        println!("skip: no pmix.h to compare with (Debian: libpmix-dev)");
        return;
    };
    let folder = std::env::temp_dir().join(format!("weft-pmix-header-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let claims = claims();
    let mut program = format!(
        "#include <stdio.h>\n#include <stddef.h>\n#include <pmix.h>\n{FUNCTIONS}\nint main(void) {{\n"
    );
    for claim in &claims {
        let format = if claim.expression.starts_with('(') { "%ld" } else { "%s" };
        writeln!(program, "    printf(\"{format}\\n\", {});", claim.expression).unwrap();
    }
    program.push_str("    return 0;\n}\n");
    std::fs::write(folder.join("header.c"), program).unwrap();
    let cc = |words: &[&str]| {
        Command::new("cc")
            .current_dir(&folder)
            .args(["-w", "-Werror=incompatible-pointer-types", "-I", include])
            .args(words)
            .stdin(Stdio::null())
            .output()
    };
    // The functions' types, without a library to link with.
    let compiled = match cc(&["-c", "header.c"]) {
        Ok(output) => output,
        Err(error) => {
            println!("skip: no C compiler to read pmix.h with: {error}");
            return;
        }
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let linked =
        cc(&["-Wl,--unresolved-symbols=ignore-all", "-z", "lazy", "-o", "header", "header.c"]).unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    let printed = Command::new(folder.join("header")).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let theirs: Vec<&str> = printed.lines().collect();
    assert_eq!(theirs.len(), claims.len());
    let wrong: Vec<String> = claims
        .iter()
        .zip(theirs)
        .filter(|(claim, theirs)| claim.ours != *theirs)
        .map(|(claim, theirs)| format!("{}: the header says {theirs}, we {}", claim.expression, claim.ours))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} fields, sizes, numbers and keys compared", claims.len());
}
