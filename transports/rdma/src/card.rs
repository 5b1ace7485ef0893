//! What must be known of a process before it was ever talked to. It comes as text from outside.

use crate::rail::MOST_RAILS;
use std::fmt;
use std::str::FromStr;
use weft_api::verbs::{MOST_ADDRESSES, PortAddress, QueuePairNumber};
use weft_types::{Error, ErrorClass};

/// What must be known of a process before it was ever talked to: 64 bytes at most for each device in the launcher's key-value
/// store, and 48 for each further address of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCard {
    /// Its first device.
    pub first: RailCard,
    /// Those that it has besides.
    pub others: Vec<RailCard>,
}

/// One device of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RailCard {
    /// Where its device is reached, the preferred address first: at least one, at most [`MOST_ADDRESSES`].
    pub addresses: Vec<PortAddress>,
    /// Its queue pair for datagrams.
    pub datagrams: QueuePairNumber,
    /// That queue pair's key.
    pub qkey: u32,
}

impl PeerCard {
    /// Its device on a rail.
    pub fn rail(&self, rail: u8) -> Option<&RailCard> {
        match rail {
            0 => Some(&self.first),
            rail => self.others.get(usize::from(rail) - 1),
        }
    }

    /// How many devices it has.
    pub fn rails(&self) -> u8 {
        1 + self.others.len().min(MOST_RAILS - 1) as u8
    }
}

impl fmt::Display for PeerCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others.iter().try_for_each(|other| write!(f, "+{other}"))
    }
}

/// The first address, the queue pair, its key, and the other addresses.
impl fmt::Display for RailCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, more @ ..] = &*self.addresses else { unreachable!("there is an address") };
        write!(f, "{first}/{:x}/{:x}", self.datagrams.0, self.qkey)?;
        more.iter().try_for_each(|address| write!(f, "/{address}"))
    }
}

fn parse_rail(text: &str) -> Option<RailCard> {
    let mut parts = text.split('/');
    let first = parts.next()?.parse().ok()?;
    let number = u32::from_str_radix(parts.next()?, 16).ok()?;
    let qkey = u32::from_str_radix(parts.next()?, 16).ok()?;
    let mut addresses = vec![first];
    for part in parts {
        addresses.push(part.parse().ok()?);
    }
    let sane = addresses.len() <= MOST_ADDRESSES && number < 1 << 24;
    sane.then_some(RailCard { addresses, datagrams: QueuePairNumber(number), qkey })
}

impl FromStr for PeerCard {
    type Err = Error;

    fn from_str(text: &str) -> Result<PeerCard, Error> {
        let parse = || {
            let mut rails = text.split('+').map(parse_rail);
            let first = rails.next()??;
            let others =
                rails.collect::<Option<Vec<RailCard>>>().filter(|others| others.len() < MOST_RAILS)?;
            Some(PeerCard { first, others })
        };
        parse().ok_or_else(|| {
            Error::new(
                ErrorClass::OTHER,
                format!("the address '{text}' of a peer is none of ours: do all processes use the same version of Weft?"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_a_card_or_an_error(text in ".{0,60}") {
            let _ = text.parse::<PeerCard>();
        }

        #[test]
        fn what_is_read_is_written_the_same(
            text in r"(10\.0\.0\.[0-9]:47[0-9]{1,4}|\[fe80::[0-9a-f]\]:4791)(~1|@[0-9a-f])?/[0-9a-f]{1,7}/[0-9a-f]{1,9}(/10\.1\.0\.[0-9]:4791(~[12])?){0,4}",
        ) {
            if let Ok(card) = text.parse::<PeerCard>() {
                let again = card.to_string().parse::<PeerCard>();
                proptest::prop_assert_eq!(again.unwrap(), card);
            }
        }
    }

    #[test]
    fn cards_come_back() {
        let rail = RailCard {
            addresses: vec!["[fe80::1]:4791".parse().unwrap()],
            datagrams: QueuePairNumber(0xab_cdef),
            qkey: 0x1234_5678,
        };
        let card = PeerCard { first: rail.clone(), others: Vec::new() };
        assert_eq!(card.to_string().parse::<PeerCard>().unwrap(), card);
        let more = ["10.0.0.1:4791", "10.0.0.1:4791~1"].map(|text| text.parse().unwrap());
        let several = RailCard { addresses: [&rail.addresses[..], &more].concat(), ..rail.clone() };
        let two = PeerCard { others: vec![several.clone()], ..card.clone() };
        assert_eq!(two.to_string().parse::<PeerCard>().unwrap(), two);
        let with = |others| PeerCard { others: vec![rail.clone(); others], ..card.clone() };
        let most = with(MOST_RAILS - 1);
        assert_eq!(most.to_string().parse::<PeerCard>().unwrap(), most);
        assert!(most.to_string().len() < 512, "what any launcher's store takes: {most}");
        assert!(with(MOST_RAILS).to_string().parse::<PeerCard>().is_err(), "more than there may be");
        let longest = RailCard { addresses: [&several.addresses[..], &more].concat(), ..rail.clone() };
        assert!(longest.to_string().parse::<PeerCard>().is_err(), "five addresses");
        assert!(
            format!("{two}+").parse::<PeerCard>().is_err() && format!("{card}+").parse::<PeerCard>().is_err()
        );
        assert!("10.0.0.1:4791/1000000/0".parse::<PeerCard>().is_err(), "25 bits");
        let lid = RailCard { addresses: vec!["[fe80::2:c903]:4791@1f".parse().unwrap()], ..rail };
        let on_infiniband = PeerCard { first: lid, others: Vec::new() };
        assert_eq!(on_infiniband.to_string().parse::<PeerCard>().unwrap(), on_infiniband);
        assert_eq!(on_infiniband.first.addresses[0].address.lid, 0x1f);
        assert!("10.0.0.1:4791@0/10/0".parse::<PeerCard>().is_err(), "one form of each address");
    }
}
