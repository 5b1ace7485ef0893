//! Which rank goes to which host. Pure.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weft_boot::Nodes;

use crate::options::Section;

/// A host of the command line or of a host file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedHost {
    /// Its name or address.
    pub name: String,
    /// How many ranks it shall have, where that was said.
    pub slots: Option<u32>,
}

/// The hosts that programs were given, and who is on them already. A host takes as many ranks as it has slots (`per_host`: as
/// many as that), then comes the next one, and after the last the first again; programs that share a list of hosts go on where
/// the one before them ended. Where nobody said any number for a list, its hosts share the ranks of all its programs evenly,
/// the first ones taking what is left over.
#[derive(Debug, Default)]
pub(crate) struct Dealer {
    /// Names of hosts, in the order in which they got their first rank.
    pub(crate) names: Vec<String>,
    /// Ranks on each of them.
    used: Vec<u32>,
    /// The place of each name.
    places: HashMap<String, usize>,
}

impl Dealer {
    /// The hosts of `count` more ranks, as indices into [`Dealer::names`], in blocks of a host; fewer when no host has a slot.
    /// `together`: how many ranks there are in all whose programs share `list`.
    pub(crate) fn deal(
        &mut self,
        list: &[NamedHost],
        count: u32,
        per_host: Option<u32>,
        together: u32,
    ) -> Vec<usize> {
        let silent = per_host.is_none() && list.iter().all(|host| host.slots.is_none());
        let (each, left_over) = match list.len() as u32 {
            0 => return Vec::new(),
            hosts => (together / hosts, together % hosts),
        };
        let share = |place: usize| match silent {
            true => each + u32::from((place as u32) < left_over),
            false => per_host.or(list[place].slots).unwrap_or(1),
        };
        // Rounds that a host has had decide; in a round, the order of the list.
        let rounds = |dealer: &Dealer, place: usize| {
            let share = share(place);
            (share > 0).then(|| (Reverse(dealer.used_by(&list[place].name) / share), Reverse(place)))
        };
        let mut turns: BinaryHeap<_> = (0..list.len()).filter_map(|place| rounds(self, place)).collect();
        let mut dealt = Vec::with_capacity(count as usize);
        while dealt.len() < count as usize {
            let Some((known, Reverse(place))) = turns.pop() else { break };
            // The same host may be on the list twice.
            if let Some(now) = rounds(self, place).filter(|&(now, _)| now != known) {
                turns.push(now);
                continue;
            }
            let room = share(place) - self.used_by(&list[place].name) % share(place);
            let taken = room.min(count - dealt.len() as u32);
            let index = self.index_of(&list[place].name);
            self.used[index] += taken;
            dealt.extend(std::iter::repeat_n(index, taken as usize));
            turns.extend(rounds(self, place));
        }
        dealt
    }

    fn used_by(&self, name: &str) -> u32 {
        self.places.get(name).map_or(0, |&index| self.used[index])
    }

    fn index_of(&mut self, name: &str) -> usize {
        if let Some(&index) = self.places.get(name) {
            return index;
        }
        self.names.push(name.to_owned());
        self.used.push(0);
        self.places.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }
}

/// The hosts of a program: its own (`-host`), else those of the job (`--hosts`, `--hostfile`), else those that other programs
/// have.
pub(crate) fn hosts_of<'a>(
    section: &'a Section,
    sections: &'a [Section],
    all: &'a [NamedHost],
) -> Vec<&'a NamedHost> {
    match (section.hosts.is_empty(), all.is_empty()) {
        (false, _) => section.hosts.iter().collect(),
        (true, false) => all.iter().collect(),
        (true, true) => sections.iter().flat_map(|section| &section.hosts).collect(),
    }
}

/// All hosts that are named for a job, each once.
pub(crate) fn all_hosts<'a>(sections: &'a [Section], all: &'a [NamedHost]) -> Vec<&'a NamedHost> {
    let mut hosts: Vec<&NamedHost> = Vec::new();
    for host in all.iter().chain(sections.iter().flat_map(|section| &section.hosts)) {
        if hosts.iter().all(|known| known.name != host.name) {
            hosts.push(host);
        }
    }
    hosts
}

/// How many ranks hosts take before they begin anew.
pub(crate) fn slots<'a>(hosts: impl IntoIterator<Item = &'a NamedHost>, per_host: Option<u32>) -> u32 {
    let slots = |host: &NamedHost| per_host.or(host.slots).unwrap_or(1);
    hosts.into_iter().map(slots).fold(0, u32::saturating_add)
}

/// The number of processes of those programs for which none was given (`None`): as many as the slots of the program's own
/// hosts; as the slots of the job's hosts that others leave, for the only such program that uses these; else one.
pub(crate) fn complete_counts(
    counts: &[Option<u32>],
    sections: &[Section],
    all: &[NamedHost],
    per_host: Option<u32>,
) -> Vec<u32> {
    let shares = |at: usize| sections[at].hosts.is_empty();
    let silent_sharers = (0..counts.len()).filter(|&at| shares(at) && counts[at].is_none()).count();
    let taken =
        (0..counts.len()).filter(|&at| shares(at)).filter_map(|at| counts[at]).fold(0, u32::saturating_add);
    let choose = |at: usize| match (counts[at], shares(at)) {
        (Some(count), _) => count,
        (None, false) => slots(&sections[at].hosts, per_host),
        (None, true) if silent_sharers == 1 && !all.is_empty() => {
            slots(all, per_host).saturating_sub(taken).max(1)
        }
        (None, true) => 1,
    };
    (0..counts.len()).map(choose).collect()
}

/// The dealt ranks as everybody is told: their hosts as nodes.
pub(crate) fn nodes(hosts: &[usize]) -> Nodes {
    Nodes::listed(&hosts.iter().map(|&host| host as u32).collect::<Vec<u32>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(slots: &[Option<u32>]) -> Vec<NamedHost> {
        slots.iter().enumerate().map(|(at, &slots)| NamedHost { name: format!("h{at}"), slots }).collect()
    }

    fn deal(hosts: &[NamedHost], count: u32, per_host: Option<u32>) -> Vec<usize> {
        let mut dealer = Dealer::default();
        let dealt = dealer.deal(hosts, count, per_host, count);
        let place = |index: usize| hosts.iter().position(|host| host.name == dealer.names[index]);
        dealt.into_iter().map(|index| place(index).expect("one of them")).collect()
    }

    fn section(count: u32, hosts: &[NamedHost]) -> Section {
        let empty = Default::default();
        Section {
            count,
            program: "x".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            wdir: None,
            path: None,
            hosts: hosts.to_vec(),
            threads: None,
            asked: empty,
        }
    }

    #[test]
    fn programs_go_on_where_the_one_before_them_ended() {
        let list = hosts(&[Some(2), Some(2)]);
        let mut dealer = Dealer::default();
        let dealt: Vec<usize> =
            [2, 2, 1].iter().flat_map(|&count| dealer.deal(&list, count, None, 5)).collect();
        assert_eq!(dealt, [0, 0, 1, 1, 0]);
        let (mut dealer, list) = (Dealer::default(), hosts(&[None, None, None]));
        let dealt: Vec<usize> = [2, 4].iter().flat_map(|&count| dealer.deal(&list, count, None, 6)).collect();
        assert_eq!(dealt, [0, 0, 1, 1, 2, 2], "evenly over all programs");
    }

    #[test]
    fn who_gives_no_number_gets_the_slots_of_his_hosts_or_those_that_are_left() {
        let (all, own) = (hosts(&[Some(2), Some(3)]), hosts(&[Some(4)]));
        let counts = |given: &[Option<u32>], own_of_the_second: &[NamedHost], all: &[NamedHost]| {
            let sections = [section(0, &[]), section(0, own_of_the_second), section(0, &[])];
            complete_counts(given, &sections[..given.len()], all, None)
        };
        assert_eq!(counts(&[None], &[], &all), [5]);
        assert_eq!(counts(&[Some(1), None], &[], &all), [1, 4], "a master and as many workers as fit");
        assert_eq!(counts(&[Some(7), None], &[], &all), [7, 1]);
        assert_eq!(counts(&[None, None], &[], &all), [1, 1], "nobody says how they share");
        assert_eq!(counts(&[Some(1), None], &own, &all), [1, 4]);
        assert_eq!(counts(&[None, None, Some(2)], &own, &all), [3, 4, 2]);
        assert_eq!(counts(&[None, None], &own, &[]), [1, 4]);
        assert_eq!(counts(&[None], &[], &[]), [1]);
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
