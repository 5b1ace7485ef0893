//! Errors: a class of the standard (section 9.4) and a sentence that says what, where, why and the remedy.

use std::fmt;

/// Result of every fallible operation of the house.
pub type Result<T> = std::result::Result<T, Error>;

/// An MPI error class (MPI 4.1 section 9.4), by its standard ABI value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorClass(pub i32);

impl ErrorClass {
    /// The integer value C programs see.
    pub const fn code(self) -> i32 {
        self.0
    }
}

macro_rules! classes {
    ($($name:ident = $value:ident;)*) => {
        #[allow(missing_docs, reason = "each is the class of that name in section 9.4")]
        impl ErrorClass {
            $(pub const $name: ErrorClass = ErrorClass(crate::abi::$value);)*
        }
        impl fmt::Debug for ErrorClass {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(ErrorClass::$name => f.write_str(stringify!($value)),)*
                    ErrorClass(other) => write!(f, "error class {other}"),
                }
            }
        }
    };
}

classes! {
    SUCCESS = MPI_SUCCESS; BUFFER = MPI_ERR_BUFFER; COUNT = MPI_ERR_COUNT; TYPE = MPI_ERR_TYPE;
    TAG = MPI_ERR_TAG; COMM = MPI_ERR_COMM; RANK = MPI_ERR_RANK; REQUEST = MPI_ERR_REQUEST;
    ROOT = MPI_ERR_ROOT; GROUP = MPI_ERR_GROUP; OP = MPI_ERR_OP; TOPOLOGY = MPI_ERR_TOPOLOGY;
    DIMS = MPI_ERR_DIMS; ARG = MPI_ERR_ARG; UNKNOWN = MPI_ERR_UNKNOWN; TRUNCATE = MPI_ERR_TRUNCATE;
    OTHER = MPI_ERR_OTHER; INTERN = MPI_ERR_INTERN; PENDING = MPI_ERR_PENDING;
    IN_STATUS = MPI_ERR_IN_STATUS; ACCESS = MPI_ERR_ACCESS; AMODE = MPI_ERR_AMODE;
    ASSERT = MPI_ERR_ASSERT; BAD_FILE = MPI_ERR_BAD_FILE; BASE = MPI_ERR_BASE;
    CONVERSION = MPI_ERR_CONVERSION; DISP = MPI_ERR_DISP; DUP_DATAREP = MPI_ERR_DUP_DATAREP;
    FILE_EXISTS = MPI_ERR_FILE_EXISTS; FILE_IN_USE = MPI_ERR_FILE_IN_USE; FILE = MPI_ERR_FILE;
    INFO_KEY = MPI_ERR_INFO_KEY; INFO_NOKEY = MPI_ERR_INFO_NOKEY; INFO_VALUE = MPI_ERR_INFO_VALUE;
    INFO = MPI_ERR_INFO; IO = MPI_ERR_IO; KEYVAL = MPI_ERR_KEYVAL; LOCKTYPE = MPI_ERR_LOCKTYPE;
    NAME = MPI_ERR_NAME; NO_MEM = MPI_ERR_NO_MEM; NOT_SAME = MPI_ERR_NOT_SAME;
    NO_SPACE = MPI_ERR_NO_SPACE; NO_SUCH_FILE = MPI_ERR_NO_SUCH_FILE; PORT = MPI_ERR_PORT;
    QUOTA = MPI_ERR_QUOTA; READ_ONLY = MPI_ERR_READ_ONLY; RMA_ATTACH = MPI_ERR_RMA_ATTACH;
    RMA_CONFLICT = MPI_ERR_RMA_CONFLICT; RMA_RANGE = MPI_ERR_RMA_RANGE;
    RMA_SHARED = MPI_ERR_RMA_SHARED; RMA_SYNC = MPI_ERR_RMA_SYNC; SERVICE = MPI_ERR_SERVICE;
    SIZE = MPI_ERR_SIZE; SPAWN = MPI_ERR_SPAWN; UNSUPPORTED_DATAREP = MPI_ERR_UNSUPPORTED_DATAREP;
    UNSUPPORTED_OPERATION = MPI_ERR_UNSUPPORTED_OPERATION; WIN = MPI_ERR_WIN;
    RMA_FLAVOR = MPI_ERR_RMA_FLAVOR; PROC_ABORTED = MPI_ERR_PROC_ABORTED;
    VALUE_TOO_LARGE = MPI_ERR_VALUE_TOO_LARGE; SESSION = MPI_ERR_SESSION;
    ERRHANDLER = MPI_ERR_ERRHANDLER; ABI = MPI_ERR_ABI;
}

/// An error on its way to the error handler of the object it happened on (section 9.3).
///
/// One pointer wide, so that a `Result` on the hot path stays in registers; the text is made only when an
/// error happens.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    class: ErrorClass,
    text: String,
    side: Option<Side>,
}

/// Which of a call's two buffers, with its count and datatype, an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is sent.
    Send,
    /// What is received into.
    Receive,
}

impl Side {
    /// Whether an argument of that name may belong to this side. Names that tell no side may belong to either.
    pub fn may_have(self, argument: &str) -> bool {
        !argument.starts_with(match self {
            Side::Send => "recv",
            Side::Receive => "send",
        })
    }
}

impl Error {
    /// An error of `class` whose `text` names argument, value, rule and remedy.
    #[cold]
    #[inline(never)]
    pub fn new(class: ErrorClass, text: impl Into<String>) -> Error {
        Error(Box::new(Inner { class, text: text.into(), side: None }))
    }

    /// The same error, known to be about one of a call's two buffers.
    #[cold]
    #[must_use]
    pub fn on_side(mut self, side: Side) -> Error {
        self.0.side = Some(side);
        self
    }

    /// Which of a call's two buffers it is about, where somebody said so.
    pub fn side(&self) -> Option<Side> {
        self.0.side
    }

    /// A broken invariant of Weft itself: class `MPI_ERR_INTERN`, with a request to report it.
    #[cold]
    pub fn internal(text: impl fmt::Display) -> Error {
        Error::new(
            ErrorClass::INTERN,
            format!(
                "internal error in Weft: {text}. This is a bug; please report it with the program that shows it"
            ),
        )
    }

    /// The error class.
    pub fn class(&self) -> ErrorClass {
        self.0.class
    }

    /// What, where, why and the remedy.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.class, self.0.text)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_one_pointer_wide() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn an_error_prints_class_and_text() {
        let error = Error::new(ErrorClass::RANK, "rank 7 is outside 0..=3");
        assert_eq!(error.to_string(), "MPI_ERR_RANK: rank 7 is outside 0..=3");
    }
}
