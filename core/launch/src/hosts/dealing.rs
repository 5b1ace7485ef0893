//! Which rank goes to which host. Pure.

use weft_boot::Nodes;

/// A host of the command line or of a host file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedHost {
    /// Its name or address.
    pub name: String,
    /// How many ranks it shall have, where that was said.
    pub slots: Option<u32>,
}

/// The host of each of `count` ranks, as indices into `hosts`.
///
/// A host takes as many ranks as it has slots (`per_host`: as many as that), then comes the next one, and after the last the first
/// again. Where nobody said any number, the hosts share the ranks evenly, the first ones taking what is left over.
pub(crate) fn deal(hosts: &[NamedHost], count: u32, per_host: Option<u32>) -> Vec<usize> {
    let silent = per_host.is_none() && hosts.iter().all(|host| host.slots.is_none());
    let share = |index: usize| match silent {
        true => count / hosts.len() as u32 + u32::from((index as u32) < count % hosts.len() as u32),
        false => per_host.or(hosts[index].slots).unwrap_or(1),
    };
    let mut dealt = Vec::with_capacity(count as usize);
    while dealt.len() < count as usize {
        let before = dealt.len();
        for index in 0..hosts.len() {
            let left = count as usize - dealt.len();
            dealt.extend(std::iter::repeat_n(index, left.min(share(index) as usize)));
        }
        if dealt.len() == before {
            break; // Only hosts without any slot.
        }
    }
    dealt
}

/// The dealt ranks as everybody is told: their hosts as nodes.
pub(crate) fn nodes(hosts: &[usize]) -> Nodes {
    Nodes::listed(&hosts.iter().map(|&host| host as u32).collect::<Vec<u32>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(slots: &[Option<u32>]) -> Vec<NamedHost> {
        slots.iter().map(|&slots| NamedHost { name: "h".to_owned(), slots }).collect()
    }

    #[test]
    fn slots_are_filled_in_order_and_again() {
        assert_eq!(deal(&hosts(&[Some(2), Some(1)]), 5, None), [0, 0, 1, 0, 0]);
        assert_eq!(deal(&hosts(&[Some(2), None]), 3, None), [0, 0, 1]);
        assert_eq!(deal(&hosts(&[Some(8), Some(8)]), 4, Some(1)), [0, 1, 0, 1]);
    }

    #[test]
    fn without_numbers_the_hosts_share_evenly() {
        assert_eq!(deal(&hosts(&[None, None, None]), 7, None), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(deal(&hosts(&[None, None, None]), 2, None), [0, 1]);
    }

    #[test]
    fn hosts_without_slots_get_nobody() {
        assert_eq!(deal(&hosts(&[Some(0), Some(2)]), 3, None), [1, 1, 1]);
        assert!(deal(&hosts(&[Some(0)]), 3, None).is_empty());
    }

    #[test]
    fn everybody_is_told_what_was_dealt() {
        let dealt = deal(&hosts(&[Some(2), Some(1)]), 5, None);
        let told = nodes(&dealt);
        assert_eq!(told.to_string(), "(vector,(0,1,2),(1,1,1))");
        assert_eq!((0..5).map(|rank| told.node(rank)).collect::<Vec<u32>>(), [0, 0, 1, 0, 0]);
    }
}
