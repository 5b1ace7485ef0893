//! How a process is found by others: what it leaves with the launcher.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;
use weft_types::{Error, ErrorClass, PeerId, Result};

/// Address of a process's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiCard {
    /// Name of the provider: only equal ones understand each other's addresses.
    pub provider: String,
    /// Its messages have tags: only who sends such is heard.
    pub with_tags: bool,
    /// What messages to it begin with; of another process at the same address, earlier or later, it is another.
    pub key: u32,
    /// The address in the provider's form.
    pub address: Vec<u8>,
}

/// Where processes are found at first contact.
pub trait OfiDirectory: fmt::Debug + Send {
    /// The card of a process.
    ///
    /// # Errors
    /// It has none, or whoever keeps the cards cannot be asked.
    fn find(&mut self, peer: PeerId) -> Result<OfiCard>;
}

// `;` and blanks mean something to process managers.
impl fmt::Display for OfiCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.with_tags { "ofi-tags" } else { "ofi" };
        write!(f, "{kind}/{}/{:08x}/", self.provider.replace(';', "+"), self.key)?;
        self.address.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for OfiCard {
    type Err = Error;

    fn from_str(text: &str) -> Result<OfiCard> {
        let wrong =
            || Error::new(ErrorClass::OTHER, format!("{text:?} is no address of a libfabric endpoint"));
        let mut parts = text.split('/');
        let (Some(kind @ ("ofi" | "ofi-tags")), Some(provider), Some(key), Some(address), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        if !address.is_ascii() || address.len() % 2 != 0 {
            return Err(wrong());
        }
        let byte = |at: usize| u8::from_str_radix(&address[at..at + 2], 16).map_err(|_| wrong());
        Ok(OfiCard {
            provider: provider.replace('+', ";"),
            with_tags: kind == "ofi-tags",
            key: u32::from_str_radix(key, 16).map_err(|_| wrong())?,
            address: (0..address.len()).step_by(2).map(byte).collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_card_is_read_as_it_was_written(provider in "[a-z;_0-9]{1,20}", with_tags: bool, key: u32, address: Vec<u8>) {
            let card = OfiCard { provider, with_tags, key, address };
            let text = card.to_string();
            prop_assert!(!text.contains([';', ' ', '=']));
            prop_assert_eq!(text.parse::<OfiCard>().unwrap(), card);
        }

        #[test]
        fn any_other_text_is_refused(text: String) {
            if let Ok(card) = text.parse::<OfiCard>() {
                prop_assert_eq!(card.to_string().to_lowercase(), text.to_lowercase().replace(';', "+"));
            }
        }
    }
}
