//! This process as a client of a PMIx launcher.

use crate::library::{Library, library};
use crate::sys::*;
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// What the library refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    what: &'static str,
    status: c_int,
    reason: String,
}

impl Refusal {
    /// Whether there is no launcher that answers.
    pub fn is_unreachable(&self) -> bool {
        self.status == PMIX_ERR_UNREACH
    }

    /// Whether the launcher does not do such things at all.
    pub fn is_unsupported(&self) -> bool {
        self.status == PMIX_ERR_NOT_SUPPORTED
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {} ({})", self.what, self.reason, self.status)
    }
}

/// Why this process did not become a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no library; what was looked for and what to do.
    NoLibrary(String),
    /// It refused.
    Refused(Refusal),
}

/// A fact of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Something of another type (`PMIX_...`), which is not looked into.
    Other(u16),
}

impl Value {
    /// The number that it is.
    pub fn number(&self) -> Option<i64> {
        if let Value::Number(number) = self { Some(*number) } else { None }
    }

    /// The text that it is.
    pub fn text(self) -> Option<String> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }
}

/// Facts of a job that launchers may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Number of its processes.
    Size,
    /// Number of processes that there is room for.
    Universe,
    /// The node of each process, as PMI-1 says it: `(vector,(0,2,4))`.
    ProcessMapping,
}

/// Whether libpmix can be opened here: its name and version, or why not and what to do. Opens it.
pub fn version() -> Result<String, String> {
    library().map(Library::version).map_err(str::to_owned)
}

/// A client, after `PMIx_Init`. All calls may be made by any thread: the library hands them to a thread of its own.
pub struct Client {
    library: &'static Library,
    own: pmix_proc,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PMIx client, rank {} of {}", self.own.rank, self.namespace())
    }
}

impl Client {
    /// Makes this process a client of the launcher whose variables (`PMIX_...`) it has. The library starts a thread, which takes no
    /// signals.
    pub fn join() -> Result<Client, Failure> {
        let library = library().map_err(|why| Failure::NoLibrary(why.to_owned()))?;
        let mut own = proc(&[0; PMIX_MAX_NSLEN + 1], 0);
        // A thread has the signal mask of the one that makes it; signals that come meanwhile are taken by the others, so that a
        // launcher that does not answer can be interrupted.
        let status = std::thread::scope(|scope| {
            let init = || {
                block_signals();
                // SAFETY: one structure to be filled in, and no wishes.
                unsafe { (library.PMIx_Init)(&mut own, null_mut(), 0) }
            };
            scope.spawn(init).join()
        });
        let status = status.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let client = Client { library, own };
        match status {
            PMIX_SUCCESS => Ok(client),
            status => Err(Failure::Refused(client.refusal("PMIx_Init", status))),
        }
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.own.rank
    }

    /// The name of the job.
    pub fn namespace(&self) -> String {
        let bytes: Vec<u8> =
            self.own.nspace.iter().map(|&c| c.cast_unsigned()).take_while(|&c| c != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The library's name and version.
    pub fn version(&self) -> String {
        self.library.version()
    }

    /// A fact of the job; `None` where the launcher does not tell it.
    pub fn fact(&self, fact: Fact) -> Option<Value> {
        let key = match fact {
            Fact::Size => PMIX_JOB_SIZE,
            Fact::Universe => PMIX_UNIV_SIZE,
            Fact::ProcessMapping => PMIX_ANL_MAP,
        };
        self.ask(PMIX_RANK_WILDCARD, key).ok().flatten()
    }

    /// Which program of the command line this process runs; `None` where the launcher does not tell it.
    pub fn appnum(&self) -> Option<Value> {
        self.ask(self.own.rank, PMIX_APPNUM).ok().flatten()
    }

    /// The names of the job's nodes, in an order that is the same at all processes.
    pub fn nodes(&self) -> Result<Vec<String>, Refusal> {
        let mut names: *mut c_char = null_mut();
        // SAFETY: the name of a job, and a place for a text that becomes ours.
        let status = unsafe { (self.library.PMIx_Resolve_nodes)(self.own.nspace.as_ptr(), &mut names) };
        let names = OwnedText(names);
        self.check("PMIx_Resolve_nodes", status)?;
        Ok(names.text().split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// The ranks of the job on one of its [`Client::nodes`].
    pub fn ranks_on(&self, node: &str) -> Result<Vec<u32>, Refusal> {
        let node = self.word("PMIx_Resolve_peers", node)?;
        let (mut procs, mut count): (*mut pmix_proc, usize) = (null_mut(), 0);
        // SAFETY: two C strings, and places for an array that becomes ours and its length.
        let status = unsafe {
            (self.library.PMIx_Resolve_peers)(node.as_ptr(), self.own.nspace.as_ptr(), &mut procs, &mut count)
        };
        let mut ranks = Vec::new();
        if status == PMIX_SUCCESS && !procs.is_null() {
            // SAFETY: the library made an array of so many.
            ranks.extend(unsafe { std::slice::from_raw_parts(procs, count) }.iter().map(|proc| proc.rank));
        }
        // SAFETY: null, or an array of the C allocator that nobody else has.
        unsafe { libc::free(procs.cast::<c_void>()) };
        self.check("PMIx_Resolve_peers", status).map(|()| ranks)
    }

    /// Stores `text` under `key` for the others, who see it after the next [`Client::fence`].
    pub fn put(&self, key: &str, text: &str) -> Result<(), Refusal> {
        let (key, text) = (self.key("PMIx_Put", key)?, self.word("PMIx_Put", text)?);
        let mut value = string(&text);
        // SAFETY: a key that is short enough and a value, both copied by the library.
        let status = unsafe { (self.library.PMIx_Put)(PMIX_GLOBAL, key.as_ptr(), &mut value) };
        self.check("PMIx_Put", status)
    }

    /// Waits for all processes of the job; what they have put before can be got after it.
    pub fn fence(&self) -> Result<(), Refusal> {
        // SAFETY: no arguments.
        let status = unsafe { (self.library.PMIx_Commit)() };
        self.check("PMIx_Commit", status)?;
        // What processes of other nodes have put is brought here: a value that is fetched later would have a server keep all that its
        // process had put by then, and not see what comes after it.
        let wishes = [info(PMIX_COLLECT_DATA, flag())];
        // SAFETY: no list of processes means all of the job; the wishes live until the call returns.
        let status = unsafe { (self.library.PMIx_Fence)(null(), 0, wishes.as_ptr(), wishes.len()) };
        self.check("PMIx_Fence", status)
    }

    /// What process `rank` has put under `key` before the last fence; `None` where it has not.
    pub fn get(&self, rank: u32, key: &str) -> Result<Option<String>, Refusal> {
        let key = self.key("PMIx_Get", key)?;
        Ok(self.ask(rank, &key)?.and_then(Value::text))
    }

    fn ask(&self, rank: u32, key: &CStr) -> Result<Option<Value>, Refusal> {
        let (whose, wishes) = (proc(&self.own.nspace, rank), immediately());
        let mut value: *mut pmix_value = null_mut();
        // SAFETY: a process, a key and wishes, which live until the call returns, and a place for a value that becomes ours.
        let status = unsafe {
            (self.library.PMIx_Get)(&whose, key.as_ptr(), wishes.as_ptr(), wishes.len(), &mut value)
        };
        match status {
            PMIX_SUCCESS if !value.is_null() => {
                // SAFETY: the library has made this value and forgotten it.
                let found = unsafe { self.taken(value) };
                // SAFETY: memory of the C allocator that nobody else has.
                unsafe { libc::free(value.cast::<c_void>()) };
                Ok(Some(found))
            }
            PMIX_SUCCESS | PMIX_ERR_NOT_FOUND => Ok(None),
            status => Err(self.refusal("PMIx_Get", status)),
        }
    }

    /// Publishes `text` under `name` for other jobs of the launcher.
    pub fn publish(&self, name: &str, text: &str) -> Result<(), Refusal> {
        let (name, text) = (self.key("PMIx_Publish", name)?, self.word("PMIx_Publish", text)?);
        let data = info(&name, string(&text));
        // SAFETY: one description, which lives until the call returns.
        self.check("PMIx_Publish", unsafe { (self.library.PMIx_Publish)(&data, 1) })
    }

    /// Withdraws `name`.
    pub fn unpublish(&self, name: &str) -> Result<(), Refusal> {
        let name = self.key("PMIx_Unpublish", name)?;
        let mut names = [name.as_ptr().cast_mut(), null_mut()];
        // SAFETY: a list of C strings with a null at its end, which are only read.
        self.check("PMIx_Unpublish", unsafe { (self.library.PMIx_Unpublish)(names.as_mut_ptr(), null(), 0) })
    }

    /// What is published under `name`; `None`: nothing.
    pub fn lookup(&self, name: &str) -> Result<Option<String>, Refusal> {
        let name = self.key("PMIx_Lookup", name)?;
        let mut found =
            pmix_pdata { proc: proc(&[0; PMIX_MAX_NSLEN + 1], 0), key: key_field(&name), value: nothing() };
        // SAFETY: one question, to be filled in.
        let status = unsafe { (self.library.PMIx_Lookup)(&mut found, 1, null(), 0) };
        match status {
            // SAFETY: a value that is empty or was made by the library for us.
            PMIX_SUCCESS => Ok(unsafe { self.taken(&mut found.value) }.text()),
            PMIX_ERR_NOT_FOUND => Ok(None),
            status => Err(self.refusal("PMIx_Lookup", status)),
        }
    }

    /// The way to end the job.
    pub fn aborter(&self) -> Aborter {
        Aborter(self.library)
    }

    /// Leaves the launcher: this process may end now. Nothing else is to be asked afterwards.
    pub fn finalize(&self) -> Result<(), Refusal> {
        // SAFETY: no wishes.
        self.check("PMIx_Finalize", unsafe { (self.library.PMIx_Finalize)(null(), 0) })
    }

    /// The value, and its parts freed.
    ///
    /// # Safety
    /// The library has made the value, and nobody else looks at it.
    unsafe fn taken(&self, value: *mut pmix_value) -> Value {
        // SAFETY: a value of the library's, as the caller says.
        let found = read(unsafe { &*value });
        match self.library.PMIx_Value_destruct {
            // SAFETY: as above; it is not looked at afterwards.
            Some(destruct) => unsafe { destruct(value) },
            None => {
                // SAFETY: as above.
                let value = unsafe { &*value };
                match value.r#type {
                    // SAFETY: the member of this type; null or memory of the C allocator.
                    PMIX_STRING => unsafe { libc::free(value.data.string.cast::<c_void>()) },
                    // SAFETY: as above.
                    PMIX_BYTE_OBJECT => unsafe { libc::free(value.data.bo.bytes.cast::<c_void>()) },
                    // Numbers have no parts, and nothing else is asked for.
                    _ => {}
                }
            }
        }
        found
    }

    fn word(&self, what: &'static str, text: &str) -> Result<CString, Refusal> {
        CString::new(text).map_err(|_| Refusal {
            what,
            status: 0,
            reason: "no text with a zero in it".into(),
        })
    }

    fn key(&self, what: &'static str, text: &str) -> Result<CString, Refusal> {
        match text.len() {
            1..=PMIX_MAX_KEYLEN => self.word(what, text),
            length => Err(Refusal {
                what,
                status: 0,
                reason: format!("a name of {length} bytes, where 1 to {PMIX_MAX_KEYLEN} are allowed"),
            }),
        }
    }

    fn check(&self, what: &'static str, status: c_int) -> Result<(), Refusal> {
        match status {
            PMIX_SUCCESS => Ok(()),
            status => Err(self.refusal(what, status)),
        }
    }

    fn refusal(&self, what: &'static str, status: c_int) -> Refusal {
        Refusal { what, status, reason: self.library.reason(status) }
    }
}

/// Ends the job from any thread, also while another one waits in a fence.
#[derive(Clone, Copy)]
pub struct Aborter(&'static Library);

impl fmt::Debug for Aborter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aborter")
    }
}

impl Aborter {
    /// Asks the launcher to end the whole job with `code`. Returns when it has been told, or at once where this process is
    /// no client any more.
    pub fn abort(&self, code: i32) {
        // SAFETY: no arguments.
        if unsafe { (self.0.PMIx_Initialized)() } != 0 {
            // Whether it succeeds or not, the caller ends its process with this code.
            // SAFETY: a C string, and no list of processes, which means all of the job.
            unsafe { (self.0.PMIx_Abort)(code, c"".as_ptr(), null_mut(), 0) };
        }
    }
}

/// A text of the C allocator, or null.
struct OwnedText(*mut c_char);

impl OwnedText {
    fn text(&self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        // SAFETY: a C string, as the library makes them.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned()
    }
}

impl Drop for OwnedText {
    fn drop(&mut self) {
        // SAFETY: null, or memory of the C allocator that nobody else has.
        unsafe { libc::free(self.0.cast::<c_void>()) }
    }
}

fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is filled before it is used; the mask is that of this thread.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), null_mut());
    }
}

fn proc(nspace: &[c_char; PMIX_MAX_NSLEN + 1], rank: u32) -> pmix_proc {
    pmix_proc { nspace: *nspace, rank }
}

/// A key in its field, which [`Client::key`] has held to its length.
fn key_field(key: &CStr) -> [c_char; PMIX_MAX_KEYLEN + 1] {
    let mut field = [0; PMIX_MAX_KEYLEN + 1];
    for (to, from) in field.iter_mut().zip(key.to_bytes()) {
        *to = from.cast_signed();
    }
    field
}

fn info(key: &CStr, value: pmix_value) -> pmix_info {
    pmix_info { key: key_field(key), flags: 0, value }
}

/// The answer, or that there is none, from what this node knows: no other is asked, and nothing is waited for.
fn immediately() -> [pmix_info; 1] {
    [info(PMIX_IMMEDIATE, flag())]
}

fn nothing() -> pmix_value {
    pmix_value { r#type: 0, data: pmix_value_data { widest: [0; 3] } }
}

fn flag() -> pmix_value {
    pmix_value { r#type: PMIX_BOOL, data: pmix_value_data { flag: true } }
}

/// A text that is lent: such a value is never destructed.
fn string(text: &CStr) -> pmix_value {
    pmix_value { r#type: PMIX_STRING, data: pmix_value_data { string: text.as_ptr().cast_mut() } }
}

fn read(value: &pmix_value) -> Value {
    let data = &value.data;
    // SAFETY: the type says which member was written; a text is null or a C string.
    unsafe {
        match value.r#type {
            PMIX_STRING if data.string.is_null() => Value::Other(PMIX_STRING),
            PMIX_STRING => Value::Text(CStr::from_ptr(data.string).to_string_lossy().into_owned()),
            PMIX_BOOL => Value::Number(i64::from(data.flag)),
            PMIX_INT => Value::Number(i64::from(data.integer)),
            PMIX_INT8 => Value::Number(i64::from(data.int8)),
            PMIX_INT16 => Value::Number(i64::from(data.int16)),
            PMIX_INT32 => Value::Number(i64::from(data.int32)),
            PMIX_INT64 => Value::Number(data.int64),
            PMIX_UINT8 => Value::Number(i64::from(data.uint8)),
            PMIX_UINT16 => Value::Number(i64::from(data.uint16)),
            PMIX_UINT | PMIX_UINT32 | PMIX_PROC_RANK => Value::Number(i64::from(data.uint32)),
            PMIX_UINT64 => i64::try_from(data.uint64).map_or(Value::Other(PMIX_UINT64), Value::Number),
            PMIX_SIZE => i64::try_from(data.size).map_or(Value::Other(PMIX_SIZE), Value::Number),
            other => Value::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_their_types() {
        let of = |r#type, data| read(&pmix_value { r#type, data }).number();
        assert_eq!(of(PMIX_INT, pmix_value_data { integer: -7 }), Some(-7));
        assert_eq!(of(PMIX_INT8, pmix_value_data { int8: -1 }), Some(-1));
        assert_eq!(of(PMIX_INT16, pmix_value_data { int16: -2 }), Some(-2));
        assert_eq!(of(PMIX_INT32, pmix_value_data { int32: i32::MIN }), Some(i64::from(i32::MIN)));
        assert_eq!(of(PMIX_UINT8, pmix_value_data { uint8: 255 }), Some(255));
        assert_eq!(of(PMIX_UINT16, pmix_value_data { uint16: 65535 }), Some(65535));
        assert_eq!(of(PMIX_UINT32, pmix_value_data { uint32: u32::MAX }), Some(i64::from(u32::MAX)));
        assert_eq!(of(PMIX_PROC_RANK, pmix_value_data { rank: 3 }), Some(3));
        assert_eq!(of(PMIX_SIZE, pmix_value_data { size: 9 }), Some(9));
        assert_eq!(of(PMIX_UINT64, pmix_value_data { uint64: u64::MAX }), None);
        assert_eq!(of(PMIX_BOOL, pmix_value_data { flag: true }), Some(1));
        assert_eq!(of(PMIX_BYTE_OBJECT, pmix_value_data { widest: [0; 3] }), None);
    }

    #[test]
    fn texts_are_copied_and_none_is_no_text() {
        let text = c"0,1,2";
        assert_eq!(read(&string(text)).text().as_deref(), Some("0,1,2"));
        let none = pmix_value { r#type: PMIX_STRING, data: pmix_value_data { string: null_mut() } };
        assert_eq!(read(&none).text(), None);
    }

    #[test]
    fn a_key_stands_in_its_field_with_a_zero_behind_it() {
        let wish = info(PMIX_COLLECT_DATA, flag());
        // SAFETY: a field with a zero behind the key.
        assert_eq!(unsafe { CStr::from_ptr(wish.key.as_ptr()) }, PMIX_COLLECT_DATA);
        let longest = CString::new("k".repeat(PMIX_MAX_KEYLEN)).unwrap();
        assert_eq!(key_field(&longest)[PMIX_MAX_KEYLEN], 0);
    }
}
