//! `PMI_process_mapping`: which ranks live on which node, as launchers write it: `(vector,(0,2,1),(2,1,4))`.
//!
//! Each block (first node, nodes, ranks per node) deals ranks to its nodes in order; when the blocks are used up before the
//! ranks are, they are dealt again.

/// Why a mapping cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMapping;

/// The node of each of `size` ranks.
///
/// Errors: the text is no mapping, or its blocks hold no ranks.
pub fn nodes(text: &str, size: u32) -> Result<Vec<u32>, NoMapping> {
    let blocks = blocks(text)?;
    let mut nodes = Vec::new();
    while nodes.len() < size as usize {
        let before = nodes.len();
        for &(first, count, per_node) in &blocks {
            for node in first..first.checked_add(count).ok_or(NoMapping)? {
                let left = size as usize - nodes.len();
                nodes.extend(std::iter::repeat_n(node, left.min(per_node as usize)));
                if nodes.len() == size as usize {
                    return Ok(nodes);
                }
            }
        }
        if nodes.len() == before {
            return Err(NoMapping);
        }
    }
    Ok(nodes)
}

/// The mapping of `count` ranks, all on this one node.
pub fn one_node(count: u32) -> String {
    format!("(vector,(0,1,{count}))")
}

/// The blocks as they stand there: first node, nodes, ranks per node.
pub(crate) fn blocks(text: &str) -> Result<Vec<(u32, u32, u32)>, NoMapping> {
    let compact: String = text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    let body = compact.strip_prefix("(vector,").and_then(|rest| rest.strip_suffix(')')).ok_or(NoMapping)?;
    let inner = body.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or(NoMapping)?;
    inner.split("),(").map(block).collect()
}

fn block(text: &str) -> Result<(u32, u32, u32), NoMapping> {
    let mut numbers = text.split(',').map(|number| number.parse::<u32>().map_err(|_| NoMapping));
    let mut next = || numbers.next().unwrap_or(Err(NoMapping));
    let block = (next()?, next()?, next()?);
    // A node count this large is damage, and walking it would take minutes.
    match numbers.next().is_none() && block.1 <= 1 << 22 && block.2 > 0 {
        true => Ok(block),
        false => Err(NoMapping),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_are_dealt_in_order_and_again() {
        assert_eq!(nodes("(vector,(0,2,1))", 4), Ok(vec![0, 1, 0, 1]));
        assert_eq!(nodes("(vector,(0,1,2),(1,2,1))", 4), Ok(vec![0, 0, 1, 2]));
        assert_eq!(nodes("(vector, (0, 1, 8))", 3), Ok(vec![0, 0, 0]));
        assert_eq!(nodes(&one_node(3), 3), Ok(vec![0, 0, 0]));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "(vector)",
            "(vector,(0,1))",
            "(vector,(0,1,0))",
            "(vector,(0,0,1))",
            "(matrix,(0,1,1))",
            "(vector,())",
        ] {
            assert_eq!(nodes(text, 2), Err(NoMapping), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_rank_gets_a_node(blocks in prop::collection::vec((0u32..9, 1u32..5, 1u32..5), 1..4), size in 0u32..70) {
            let list: Vec<String> = blocks.iter().map(|(a, b, c)| format!("({a},{b},{c})")).collect();
            let nodes = nodes(&format!("(vector,{})", list.join(",")), size);
            prop_assert_eq!(nodes.map(|nodes| nodes.len()), Ok(size as usize));
        }

        #[test]
        fn no_text_panics(text in "[(vector,)0-9 ]{0,40}") {
            let _ = nodes(&text, 5);
        }
    }
}
