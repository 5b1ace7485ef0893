//! Error classes, codes and strings: those of the standard and those users add (sections 9.4 and 9.5).
//!
//! Weft returns the class itself as the code of its own errors, because many programs compare a return value with `MPI_ERR_X`
//! directly. What went wrong in detail is kept per thread by the caller of this module, and joins the class's text
//! in `MPI_Error_string`.

use std::collections::BTreeMap;
use weft_types::{Error, ErrorClass, Result, abi};

/// First code that users are given.
const FIRST_USER: i32 = abi::MPI_ERR_LASTCODE + 1;

/// The classes and codes users added.
#[derive(Debug, Default)]
pub struct Codes {
    user: BTreeMap<i32, UserCode>,
}

#[derive(Debug)]
struct UserCode {
    /// The class of the code; a class is its own.
    class: i32,
    text: Option<Box<[u8]>>,
}

impl Codes {
    /// No user codes.
    pub const fn new() -> Codes {
        Codes { user: BTreeMap::new() }
    }

    /// `MPI_Add_error_class`.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` when the numbers are used up.
    pub fn add_class(&mut self) -> Result<i32> {
        let class = self.next()?;
        self.user.insert(class, UserCode { class, text: None });
        Ok(class)
    }

    /// `MPI_Add_error_code`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when `class` is no error class.
    pub fn add_code(&mut self, class: i32) -> Result<i32> {
        if !self.is_class(class) {
            return Err(self.unknown(
                "errorclass",
                class,
                "an error class of the standard or of MPI_Add_error_class",
            ));
        }
        let code = self.next()?;
        self.user.insert(code, UserCode { class, text: None });
        Ok(code)
    }

    /// `MPI_Add_error_string`; an empty string counts as one.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when the code was not added by the user, or the string is too long.
    pub fn add_string(&mut self, code: i32, text: &[u8]) -> Result<()> {
        if text.len() >= abi::MPI_MAX_ERROR_STRING as usize {
            return Err(Error::new(
                ErrorClass::ARG,
                format!(
                    "the error string has {} bytes; at most {} are allowed (MPI_MAX_ERROR_STRING - 1)",
                    text.len(),
                    abi::MPI_MAX_ERROR_STRING - 1
                ),
            ));
        }
        match self.user.get_mut(&code) {
            Some(entry) => {
                entry.text = Some(text.into());
                Ok(())
            }
            None => {
                Err(self.unknown("errorcode", code, "a code of MPI_Add_error_class or MPI_Add_error_code"))
            }
        }
    }

    /// `MPI_Remove_error_class`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it was not added, or codes or a string belong to it.
    pub fn remove_class(&mut self, class: i32) -> Result<()> {
        match self.user.get(&class) {
            Some(entry) if entry.class == class => {}
            _ => return Err(self.unknown("errorclass", class, "a class of MPI_Add_error_class")),
        }
        if let Some((code, _)) =
            self.user.iter().find(|(code, entry)| entry.class == class && **code != class)
        {
            return Err(Error::new(
                ErrorClass::ARG,
                format!("error class {class} still has the code {code}; remove the code first"),
            ));
        }
        self.remove(class)
    }

    /// `MPI_Remove_error_code`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it was not added as a code, or has a string.
    pub fn remove_code(&mut self, code: i32) -> Result<()> {
        match self.user.get(&code) {
            Some(entry) if entry.class != code => self.remove(code),
            _ => Err(self.unknown("errorcode", code, "a code of MPI_Add_error_code")),
        }
    }

    /// `MPI_Remove_error_string`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when no string was added to the code.
    pub fn remove_string(&mut self, code: i32) -> Result<()> {
        match self.user.get_mut(&code).map(|entry| entry.text.take()) {
            Some(Some(_)) => Ok(()),
            _ => Err(self.unknown("errorcode", code, "a code that MPI_Add_error_string gave a string")),
        }
    }

    /// `MPI_Error_class`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when there is no such code.
    pub fn class(&self, code: i32) -> Result<i32> {
        if standard_text(code).is_some() {
            return Ok(code);
        }
        match self.user.get(&code) {
            Some(entry) => Ok(entry.class),
            None => Err(self.unknown("errorcode", code, "an error code that MPI returned or the user added")),
        }
    }

    /// `MPI_Error_string`: the standard's or the user's words.
    ///
    /// # Errors
    /// As [`Codes::class`].
    pub fn text(&self, code: i32) -> Result<Vec<u8>> {
        if let Some(text) = standard_text(code) {
            return Ok(format!("{:?}: {text}", ErrorClass(code)).into_bytes());
        }
        match self.user.get(&code) {
            Some(entry) => Ok(entry.text.as_deref().unwrap_or_default().to_vec()),
            None => Err(self.unknown("errorcode", code, "an error code that MPI returned or the user added")),
        }
    }

    /// The attribute `MPI_LASTUSEDCODE`: the largest error class, the user's included. Codes do not count (section 9.5.1).
    pub fn last_used(&self) -> i32 {
        let mut classes = self.user.iter().rev().filter(|(code, entry)| **code == entry.class);
        classes.next().map_or(abi::MPI_ERR_LASTCODE, |(&class, _)| class)
    }

    /// Whether `class` may be the class of a code.
    fn is_class(&self, class: i32) -> bool {
        standard_text(class).is_some() || self.user.get(&class).is_some_and(|entry| entry.class == class)
    }

    fn next(&self) -> Result<i32> {
        let last = self.user.last_key_value().map_or(FIRST_USER - 1, |(&code, _)| code);
        last.checked_add(1).ok_or_else(|| Error::new(ErrorClass::OTHER, "all error codes are in use"))
    }

    fn remove(&mut self, code: i32) -> Result<()> {
        if self.user[&code].text.is_some() {
            return Err(Error::new(
                ErrorClass::ARG,
                format!("error code {code} still has a string; remove it with MPI_Remove_error_string first"),
            ));
        }
        self.user.remove(&code);
        Ok(())
    }

    fn unknown(&self, argument: &str, value: i32, rule: &str) -> Error {
        Error::new(ErrorClass::ARG, format!("{argument} is {value}; it must be {rule}"))
    }
}

/// What an error class of the standard means; `None` for other numbers.
pub fn standard_text(class: i32) -> Option<&'static str> {
    Some(match class {
        abi::MPI_SUCCESS => "no error",
        abi::MPI_ERR_BUFFER => "invalid buffer address",
        abi::MPI_ERR_COUNT => "invalid count",
        abi::MPI_ERR_TYPE => "invalid datatype",
        abi::MPI_ERR_TAG => "invalid tag",
        abi::MPI_ERR_COMM => "invalid communicator",
        abi::MPI_ERR_RANK => "invalid rank",
        abi::MPI_ERR_REQUEST => "invalid request or message handle",
        abi::MPI_ERR_ROOT => "invalid root",
        abi::MPI_ERR_GROUP => "invalid group",
        abi::MPI_ERR_OP => "invalid reduction operation",
        abi::MPI_ERR_TOPOLOGY => "invalid topology",
        abi::MPI_ERR_DIMS => "invalid dimensions",
        abi::MPI_ERR_ARG => "invalid argument of another kind",
        abi::MPI_ERR_UNKNOWN => "unknown error",
        abi::MPI_ERR_TRUNCATE => "message longer than the receive buffer",
        abi::MPI_ERR_OTHER => "another known error",
        abi::MPI_ERR_INTERN => "internal error of the library",
        abi::MPI_ERR_PENDING => "the request is not complete yet",
        abi::MPI_ERR_IN_STATUS => "the error code is in the status",
        abi::MPI_ERR_ACCESS => "permission denied",
        abi::MPI_ERR_AMODE => "invalid access mode",
        abi::MPI_ERR_ASSERT => "invalid assertion",
        abi::MPI_ERR_BAD_FILE => "invalid file name",
        abi::MPI_ERR_BASE => "invalid base address",
        abi::MPI_ERR_CONVERSION => "error in a data conversion function",
        abi::MPI_ERR_DISP => "invalid displacement",
        abi::MPI_ERR_DUP_DATAREP => "the data representation is already registered",
        abi::MPI_ERR_FILE_EXISTS => "the file exists",
        abi::MPI_ERR_FILE_IN_USE => "the file is in use",
        abi::MPI_ERR_FILE => "invalid file handle",
        abi::MPI_ERR_INFO_KEY => "invalid info key",
        abi::MPI_ERR_INFO_NOKEY => "the info key is not set",
        abi::MPI_ERR_INFO_VALUE => "invalid info value",
        abi::MPI_ERR_INFO => "invalid info object",
        abi::MPI_ERR_IO => "input or output error",
        abi::MPI_ERR_KEYVAL => "invalid attribute key",
        abi::MPI_ERR_LOCKTYPE => "invalid lock type",
        abi::MPI_ERR_NAME => "the service name is not published",
        abi::MPI_ERR_NO_MEM => "out of memory",
        abi::MPI_ERR_NOT_SAME => "an argument differs between processes",
        abi::MPI_ERR_NO_SPACE => "no space left on the device",
        abi::MPI_ERR_NO_SUCH_FILE => "the file does not exist",
        abi::MPI_ERR_PORT => "invalid port name",
        abi::MPI_ERR_QUOTA => "quota exceeded",
        abi::MPI_ERR_READ_ONLY => "read-only file or file system",
        abi::MPI_ERR_RMA_ATTACH => "memory cannot be attached",
        abi::MPI_ERR_RMA_CONFLICT => "conflicting window accesses",
        abi::MPI_ERR_RMA_RANGE => "target memory is not part of the window",
        abi::MPI_ERR_RMA_SHARED => "memory cannot be shared",
        abi::MPI_ERR_RMA_SYNC => "wrong synchronisation of window accesses",
        abi::MPI_ERR_SERVICE => "invalid service name",
        abi::MPI_ERR_SIZE => "invalid size",
        abi::MPI_ERR_SPAWN => "processes could not be spawned",
        abi::MPI_ERR_UNSUPPORTED_DATAREP => "unsupported data representation",
        abi::MPI_ERR_UNSUPPORTED_OPERATION => "unsupported operation",
        abi::MPI_ERR_WIN => "invalid window",
        abi::MPI_ERR_RMA_FLAVOR => "wrong flavor of window",
        abi::MPI_ERR_PROC_ABORTED => "a process of the operation has aborted",
        abi::MPI_ERR_VALUE_TOO_LARGE => "the value is too large for its type",
        abi::MPI_ERR_SESSION => "invalid session",
        abi::MPI_ERR_ERRHANDLER => "invalid error handler",
        abi::MPI_ERR_ABI => "Fortran properties of the ABI cannot be set",
        abi::MPI_T_ERR_CANNOT_INIT => "the tool interface cannot be initialised",
        abi::MPI_T_ERR_NOT_ACCESSIBLE => "the tool interface's item is not accessible",
        abi::MPI_T_ERR_NOT_INITIALIZED => "the tool interface is not initialised",
        abi::MPI_T_ERR_NOT_SUPPORTED => "the tool interface does not support this",
        abi::MPI_T_ERR_MEMORY => "the tool interface is out of memory",
        abi::MPI_T_ERR_INVALID => "invalid use of the tool interface",
        abi::MPI_T_ERR_INVALID_INDEX => "invalid index in the tool interface",
        abi::MPI_T_ERR_INVALID_ITEM => "invalid item in the tool interface",
        abi::MPI_T_ERR_INVALID_SESSION => "invalid tool session",
        abi::MPI_T_ERR_INVALID_HANDLE => "invalid handle of the tool interface",
        abi::MPI_T_ERR_INVALID_NAME => "unknown name in the tool interface",
        abi::MPI_T_ERR_OUT_OF_HANDLES => "no more handles in the tool interface",
        abi::MPI_T_ERR_OUT_OF_SESSIONS => "no more tool sessions",
        abi::MPI_T_ERR_CVAR_SET_NOT_NOW => "the control variable cannot be set now",
        abi::MPI_T_ERR_CVAR_SET_NEVER => "the control variable can never be set",
        abi::MPI_T_ERR_PVAR_NO_WRITE => "the performance variable cannot be written",
        abi::MPI_T_ERR_PVAR_NO_STARTSTOP => "the performance variable cannot be started or stopped",
        abi::MPI_T_ERR_PVAR_NO_ATOMIC => "the performance variable cannot be read and reset at once",
        abi::MPI_ERR_LASTCODE => "the last error code of the standard",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_the_standard_has_a_text_and_is_its_own_class() {
        let codes = Codes::new();
        for class in (0..=62).chain(1001..=1018).chain([abi::MPI_ERR_LASTCODE]) {
            assert_eq!(codes.class(class), Ok(class));
            let text = String::from_utf8(codes.text(class).expect("known")).expect("ASCII");
            assert!(text.len() < abi::MPI_MAX_ERROR_STRING as usize && text.len() > 5, "{text}");
        }
        assert_eq!(codes.class(63).expect_err("hole").class(), ErrorClass::ARG);
        assert_eq!(codes.class(-1).expect_err("negative").class(), ErrorClass::ARG);
    }

    #[test]
    fn user_codes_follow_their_class_and_leave_in_order() {
        let mut codes = Codes::new();
        assert_eq!(codes.last_used(), abi::MPI_ERR_LASTCODE);
        let class = codes.add_class().expect("room");
        let code = codes.add_code(class).expect("room");
        assert_eq!(codes.last_used(), class, "codes are no classes");
        assert_eq!((codes.class(code), codes.class(class)), (Ok(class), Ok(class)));
        assert_eq!(codes.text(code), Ok(vec![]));
        codes.add_string(code, b"flat tyre").expect("user code");
        assert_eq!(codes.text(code), Ok(b"flat tyre".to_vec()));
        assert!(codes.remove_class(class).is_err(), "has a code");
        assert!(codes.remove_code(code).is_err(), "has a string");
        assert!(codes.remove_code(class).is_err(), "a class is no code");
        codes.remove_string(code).expect("has one");
        assert!(codes.remove_string(code).is_err());
        codes.remove_code(code).expect("bare");
        codes.remove_class(class).expect("bare");
        assert_eq!(codes.last_used(), abi::MPI_ERR_LASTCODE);
    }

    #[test]
    fn the_standards_codes_cannot_be_changed() {
        let mut codes = Codes::new();
        assert!(codes.add_string(abi::MPI_ERR_RANK, b"x").is_err());
        assert!(codes.remove_class(abi::MPI_ERR_RANK).is_err());
        assert!(codes.add_code(99_999).is_err());
        let code = codes.add_code(abi::MPI_ERR_RANK).expect("a class of the standard may get codes");
        assert_eq!(codes.class(code), Ok(abi::MPI_ERR_RANK));
    }
}
