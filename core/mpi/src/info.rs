//! Info objects: ordered string pairs (chapter 10).

use weft_types::{Error, ErrorClass, Result, abi};

/// Longest key in bytes, without the terminating NUL of C.
pub const MAX_KEY: usize = abi::MPI_MAX_INFO_KEY as usize - 1;
/// Longest value in bytes, without the terminating NUL of C.
pub const MAX_VALUE: usize = abi::MPI_MAX_INFO_VAL as usize - 1;

/// A string as MPI knows it: bytes of no named encoding.
type Text = Box<[u8]>;

/// Key and value pairs in the order their keys were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<(Text, Text)>,
}

impl Info {
    /// Adds the pair, or replaces the key's value (`MPI_Info_set`).
    ///
    /// # Errors
    /// `MPI_ERR_INFO_KEY` or `MPI_ERR_INFO_VALUE` for strings that are too long, or an empty key.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        if value.len() > MAX_VALUE {
            return Err(Error::new(
                ErrorClass::INFO_VALUE,
                format!(
                    "the value of key {:?} has {} bytes; at most {MAX_VALUE} are allowed (MPI_MAX_INFO_VAL - 1)",
                    String::from_utf8_lossy(key),
                    value.len()
                ),
            ));
        }
        match self.pairs.iter_mut().find(|(k, _)| **k == *key) {
            Some((_, old)) => *old = value.into(),
            None => self.pairs.push((key.into(), value.into())),
        }
        Ok(())
    }

    /// The value of `key`, if it is set.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_KEY` for a key that no pair can have.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        Ok(self.pairs.iter().find(|(k, _)| **k == *key).map(|(_, value)| &**value))
    }

    /// The value of one of Weft's or the standard's own keys, as text.
    pub fn text(&self, key: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(k, _)| **k == *key.as_bytes())?;
        std::str::from_utf8(&pair.1).ok()
    }

    /// Removes the pair of `key`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_NOKEY` when there is none, `MPI_ERR_INFO_KEY` for a key that no pair can have.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        let Some(index) = self.pairs.iter().position(|(k, _)| **k == *key) else {
            return Err(Error::new(
                ErrorClass::INFO_NOKEY,
                format!("the key {:?} is not set, so it cannot be deleted", String::from_utf8_lossy(key)),
            ));
        };
        self.pairs.remove(index);
        Ok(())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether no key is set.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The `n`-th key, from 0; the order is stable until a key is set or deleted.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a number outside.
    pub fn key(&self, n: i32) -> Result<&[u8]> {
        let key = usize::try_from(n).ok().and_then(|n| self.pairs.get(n));
        key.map(|(key, _)| &**key).ok_or_else(|| {
            Error::new(
                ErrorClass::ARG,
                format!("n is {n}; the info object has {} keys, numbered from 0", self.pairs.len()),
            )
        })
    }

    /// The pairs in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(key, value)| (&**key, &**value))
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Error::new(
            ErrorClass::INFO_KEY,
            format!(
                "a key of {} bytes is given; keys have 1 to {MAX_KEY} bytes (MPI_MAX_INFO_KEY - 1)",
                key.len()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_first_setting_and_survives_replacement() {
        let mut info = Info::default();
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
            info.set(key.as_bytes(), value.as_bytes()).expect("legal");
        }
        assert_eq!((info.len(), info.key(0).ok(), info.key(1).ok()), (2, Some(&b"b"[..]), Some(&b"a"[..])));
        assert_eq!(info.text("b"), Some("3"));
        assert_eq!(info.key(2).expect_err("outside").class(), ErrorClass::ARG);
        assert_eq!(info.key(-1).expect_err("outside").class(), ErrorClass::ARG);
    }

    #[test]
    fn keys_are_case_sensitive_and_empty_values_allowed() {
        let mut info = Info::default();
        info.set(b"Key", b"").expect("legal");
        assert_eq!(info.get(b"Key"), Ok(Some(&b""[..])));
        assert_eq!(info.get(b"key"), Ok(None));
    }

    #[test]
    fn bounds_have_their_own_classes() {
        let mut info = Info::default();
        let class = |result: Result<()>| result.expect_err("refused").class();
        assert_eq!(class(info.set(&[b'k'; MAX_KEY + 1], b"v")), ErrorClass::INFO_KEY);
        assert_eq!(class(info.set(b"", b"v")), ErrorClass::INFO_KEY);
        assert_eq!(class(info.set(b"k", &[b'v'; MAX_VALUE + 1])), ErrorClass::INFO_VALUE);
        assert_eq!(class(info.delete(b"k")), ErrorClass::INFO_NOKEY);
        info.set(&[b'k'; MAX_KEY], &[b'v'; MAX_VALUE]).expect("just fits");
        info.delete(&[b'k'; MAX_KEY]).expect("set");
        assert!(info.is_empty());
    }
}
