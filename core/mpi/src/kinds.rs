//! Memory allocation kinds (section 11.4.3): lists such as `system,mpi:alloc_mem,gpu:device`.
//!
//! Weft moves bytes that processor instructions reach, so it supports the two kinds of the standard: memory of the operating
//! system and memory of the library, the latter with its three restrictors. Others are dropped from what is granted.

/// The kinds that are always there.
const ALWAYS: [&str; 2] = ["mpi", "system"];
/// The restrictors of the kind `mpi`.
const RESTRICTORS: [&str; 3] = ["alloc_mem", "win_allocate", "win_allocate_shared"];

/// The elements of a list; an empty list has none.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty())
}

fn is_supported(element: &str) -> bool {
    let (kind, restrictors) = match element.split_once(':') {
        Some((kind, restrictors)) => (kind, Some(restrictors)),
        None => (element, None),
    };
    match restrictors {
        None => ALWAYS.contains(&kind),
        Some(restrictors) => {
            kind == "mpi" && restrictors.split(':').all(|restrictor| RESTRICTORS.contains(&restrictor))
        }
    }
}

/// What the library says it supports when `requested` was asked for: the requested kinds it has, each in the words of the
/// request, and then those it has anyway. `None`: nothing was asked for.
pub fn granted(requested: Option<&str>) -> String {
    let mut granted: Vec<&str> = Vec::new();
    let supported = elements(requested.unwrap_or_default()).filter(|element| is_supported(element));
    for element in supported.chain(ALWAYS) {
        if !granted.contains(&element) {
            granted.push(element);
        }
    }
    granted.join(",")
}

/// Whether every kind of an assertion (`mpi_assert_memory_alloc_kinds`) is supported; otherwise the assertion is ignored.
pub fn supports_all(asserted: &str) -> bool {
    elements(asserted).all(is_supported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_supported_is_granted_in_the_words_of_the_request() {
        for (requested, expected) in [
            (None, "mpi,system"),
            (Some(""), "mpi,system"),
            (Some("system"), "system,mpi"),
            (Some(" system , gpu:device,mpi:alloc_mem "), "system,mpi:alloc_mem,mpi"),
            (Some("mpi:win_allocate:alloc_mem,mpi"), "mpi:win_allocate:alloc_mem,mpi,system"),
            (Some("mpi:win_allocate_shared,mpi:moon,system:x,mpi:"), "mpi:win_allocate_shared,mpi,system"),
            (Some("mpi,mpi"), "mpi,system"),
        ] {
            assert_eq!(granted(requested), expected, "{requested:?}");
        }
    }

    #[test]
    fn an_assertion_with_an_unknown_kind_is_ignored() {
        for (asserted, supported) in [
            ("", true),
            ("system", true),
            ("mpi:alloc_mem, system", true),
            ("system,gpu", false),
            ("System", false),
        ] {
            assert_eq!(supports_all(asserted), supported, "{asserted:?}");
        }
    }

    proptest! {
        #[test]
        fn a_grant_is_a_fixed_point(requested in "[a-z:, ]{0,40}") {
            let once = granted(Some(&requested));
            prop_assert!(supports_all(&once));
            prop_assert_eq!(granted(Some(&once)), once);
        }
    }
}
