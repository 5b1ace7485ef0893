//! What parameters can be set to, beyond numbers and yes or no: one type for each kind of choice.

use super::{Kind, Value, yes_or_no};

/// The values of a [`Choice`] as texts.
pub const CHOICES: &[&str] = &["auto", "yes", "no"];

/// The values of [`Fabric`] as texts, in its order.
pub const FABRICS: &[&str] = &["auto", "shm", "softroce", "verbs", "ofi"];

/// Which fabric carries messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// The shortest way there is to each.
    Auto,
    /// Shared memory: all processes must be on one node.
    Shm,
    /// RDMA by the emulator in user space, over UDP.
    Softroce,
    /// RDMA by a device of the system, through libibverbs.
    Verbs,
    /// Whatever libfabric drives: Omni-Path, Slingshot, EFA, InfiniBand, TCP.
    Ofi,
}

impl Value for Fabric {
    const FORM: &'static str = "auto, shm, softroce, verbs or ofi";
    const KIND: Kind = Kind::OneOf(FABRICS);
    fn show(&self) -> String {
        FABRICS[*self as usize].to_owned()
    }
    fn read(text: &str) -> Option<Fabric> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Fabric::Auto),
            "shm" => Some(Fabric::Shm),
            "softroce" => Some(Fabric::Softroce),
            "verbs" => Some(Fabric::Verbs),
            "ofi" => Some(Fabric::Ofi),
            _ => None,
        }
    }
}

/// A provider of libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The best one.
    Auto,
    /// The one of this name.
    Named(String),
}

impl Value for Provider {
    const FORM: &'static str = "auto, or the name of a provider: letters, digits, ; and _";
    const KIND: Kind = Kind::Text;
    fn show(&self) -> String {
        match self {
            Provider::Auto => "auto".to_owned(),
            Provider::Named(name) => name.clone(),
        }
    }
    fn read(text: &str) -> Option<Provider> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b';' | b'_' | b'-');
        match text {
            "auto" => Some(Provider::Auto),
            "" => None,
            name => name.bytes().all(legal).then(|| Provider::Named(name.to_owned())),
        }
    }
}

/// The values of [`Rdma`] as texts, in its order.
pub const RDMA: &[&str] = &["auto", "require", "prefer"];

/// Whether messages between nodes must be carried by RDMA devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rdma {
    /// Where such a transport was asked for by name, they must.
    Auto,
    /// They must.
    Require,
    /// Sockets are allowed where devices cannot.
    Prefer,
}

impl Value for Rdma {
    const FORM: &'static str = "auto, require or prefer";
    const KIND: Kind = Kind::OneOf(RDMA);
    fn show(&self) -> String {
        RDMA[*self as usize].to_owned()
    }
    fn read(text: &str) -> Option<Rdma> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Rdma::Auto),
            "require" => Some(Rdma::Require),
            "prefer" => Some(Rdma::Prefer),
            _ => None,
        }
    }
}

/// The values of [`Routes`] as texts, in its order.
pub const ROUTES: &[&str] = &["auto", "no", "require"];

/// Whether the connection manager is asked for the route to each peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routes {
    /// Where there is one; what it does not say is left at the defaults.
    #[default]
    Auto,
    /// It is not.
    Off,
    /// It must answer: a way of which it says nothing is not used.
    Require,
}

impl Value for Routes {
    const FORM: &'static str = "auto, no or require";
    const KIND: Kind = Kind::OneOf(ROUTES);
    fn show(&self) -> String {
        ROUTES[*self as usize].to_owned()
    }
    fn read(text: &str) -> Option<Routes> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Routes::Auto),
            "require" => Some(Routes::Require),
            other => yes_or_no(other).and_then(|on| (!on).then_some(Routes::Off)),
        }
    }
}

/// A small number that Weft finds out unless the user gives it, at most `MOST`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given<const MOST: u8>(pub Option<u8>);

impl<const MOST: u8> Given<MOST> {
    fn of(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Given(None)),
            number => number.parse().ok().filter(|&number| number <= MOST).map(|number| Given(Some(number))),
        }
    }

    fn text(self) -> String {
        self.0.map_or_else(|| "auto".to_owned(), |number| number.to_string())
    }
}

macro_rules! given {
    ($most:literal, $form:literal) => {
        impl Value for Given<$most> {
            const FORM: &'static str = $form;
            const KIND: Kind = Kind::Text;
            fn show(&self) -> String {
                self.text()
            }
            fn read(text: &str) -> Option<Self> {
                Given::of(text)
            }
        }
    };
}

given!(15, "auto, or a whole number from 0 to 15");
given!(255, "auto, or a whole number from 0 to 255");

/// A partition of an InfiniBand subnet that Weft chooses unless the user does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionKey(pub Option<u16>);

impl Value for PartitionKey {
    const FORM: &'static str =
        "auto, or a partition key in hexadecimal from 0x0001 to 0xffff, with or without its highest bit";
    const KIND: Kind = Kind::Text;
    fn show(&self) -> String {
        self.0.map_or_else(|| "auto".to_owned(), |key| format!("{key:#06x}"))
    }
    fn read(text: &str) -> Option<PartitionKey> {
        let text = text.to_ascii_lowercase();
        if text == "auto" {
            return Some(PartitionKey(None));
        }
        let key = u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        // The lowest 15 bits are the number, and there is none of number 0.
        (key & 0x7fff != 0).then_some(PartitionKey(Some(key)))
    }
}

/// A service level of InfiniBand, or a priority of Ethernet.
pub type ServiceLevel = Given<15>;

/// A traffic class of global routing headers; with RoCE the type of service of IP.
pub type TrafficClass = Given<255>;

/// A choice left to Weft unless the user makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Weft finds out what works.
    Auto,
    /// Use it, and say so when it does not work.
    On,
    /// Do not use it.
    Off,
}

impl Value for Choice {
    const FORM: &'static str = "auto, yes or no";
    const KIND: Kind = Kind::OneOf(CHOICES);
    fn show(&self) -> String {
        CHOICES[*self as usize].to_owned()
    }
    fn read(text: &str) -> Option<Choice> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Choice::Auto),
            other => yes_or_no(other).map(|on| if on { Choice::On } else { Choice::Off }),
        }
    }
}

/// The values of [`Gaps`] as texts, in its order.
pub const GAPS: &[&str] = &["auto", "read", "stream"];

/// How large messages with gaps travel inside a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// What costs less by the figures of the machine.
    Auto,
    /// One copy from layout to layout.
    Read,
    /// Packed and unpacked piece by piece.
    Stream,
}

impl Value for Gaps {
    const FORM: &'static str = "auto, read or stream";
    const KIND: Kind = Kind::OneOf(GAPS);
    fn show(&self) -> String {
        GAPS[*self as usize].to_owned()
    }
    fn read(text: &str) -> Option<Gaps> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Gaps::Auto),
            "read" => Some(Gaps::Read),
            "stream" => Some(Gaps::Stream),
            _ => None,
        }
    }
}

/// The values of [`Rendezvous`] as texts, in its order.
pub const RENDEZVOUS: &[&str] = &["auto", "read", "write", "stream"];

/// How messages that are announced travel between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// What costs less by the figures of the device.
    Auto,
    /// The receiver's device reads the sender's memory.
    Read,
    /// The sender's device writes into the receiver's memory.
    Write,
    /// Copied packet by packet.
    Stream,
}

impl Value for Rendezvous {
    const FORM: &'static str = "auto, read, write or stream";
    const KIND: Kind = Kind::OneOf(RENDEZVOUS);
    fn show(&self) -> String {
        RENDEZVOUS[*self as usize].to_owned()
    }
    fn read(text: &str) -> Option<Rendezvous> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Rendezvous::Auto),
            "read" => Some(Rendezvous::Read),
            "write" => Some(Rendezvous::Write),
            "stream" => Some(Rendezvous::Stream),
            _ => None,
        }
    }
}

/// When a blocked call tells what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watchdog {
    /// After half a minute, to Weft's mpiexec, which prints deadlocks that are certain.
    Auto,
    /// Never.
    Off,
    /// After so many seconds, and again; without Weft's mpiexec to standard error.
    Every(u32),
}

impl Value for Watchdog {
    const FORM: &'static str = "auto, off, or a whole number of seconds above 0";
    const KIND: Kind = Kind::Text;
    fn show(&self) -> String {
        match self {
            Watchdog::Auto => "auto".to_owned(),
            Watchdog::Off => "off".to_owned(),
            Watchdog::Every(seconds) => seconds.to_string(),
        }
    }
    fn read(text: &str) -> Option<Watchdog> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Watchdog::Auto),
            "off" | "no" | "0" => Some(Watchdog::Off),
            other => other.parse().ok().filter(|&seconds| seconds > 0).map(Watchdog::Every),
        }
    }
}

impl Watchdog {
    /// Reads a value of the parameter, for those who set it on a command line.
    pub fn parse(text: &str) -> Option<Watchdog> {
        <Watchdog as Value>::read(text.trim())
    }
}

/// What is checked although it costs messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing.
    Nothing,
    /// That the collective calls of all ranks fit together.
    Collectives,
}

/// The values of a [`Check`] as texts.
pub const CHECKS: &[&str] = &["no", "collectives"];

impl Value for Check {
    const FORM: &'static str = "no or collectives";
    const KIND: Kind = Kind::OneOf(CHECKS);
    fn show(&self) -> String {
        CHECKS[usize::from(*self == Check::Collectives)].to_owned()
    }
    fn read(text: &str) -> Option<Check> {
        match text.to_ascii_lowercase().as_str() {
            "collectives" => Some(Check::Collectives),
            other => yes_or_no(other).and_then(|on| (!on).then_some(Check::Nothing)),
        }
    }
}

/// A text that a parameter gives, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The file at its usual place, if there is one.
    Auto,
    /// None.
    Off,
    /// This file.
    File(String),
    /// What mpiexec read for all ranks.
    Read {
        /// The file.
        path: String,
        /// Whether it was named; otherwise it is the one at the usual place.
        named: bool,
        /// Its content.
        text: String,
    },
    /// The text itself.
    Text(String),
}

impl Setting {
    /// The value by which mpiexec hands a file's content to its ranks, so that all have the same.
    pub fn handed_over(path: &str, named: bool, text: &str) -> String {
        let mark = if named { "@=" } else { "=" };
        format!("{mark}{path}\n{text}")
    }

    /// A value of such a variable as people read it: without the content of files that mpiexec has read.
    pub fn brief(value: &str) -> String {
        match Setting::read(value) {
            Some(Setting::Read { path, .. }) => format!("@{path}"),
            _ => value.to_owned(),
        }
    }

    /// Reads a value of the variable.
    pub fn of(text: &str) -> Option<Setting> {
        Setting::read(text)
    }
}

impl Value for Setting {
    const FORM: &'static str =
        "auto, no, @FILE, or the text itself (its lines may be separated by semicolons)";
    const KIND: Kind = Kind::Text;
    fn show(&self) -> String {
        match self {
            Setting::Auto => "auto".to_owned(),
            Setting::Off => "no".to_owned(),
            Setting::File(path) | Setting::Read { path, .. } => format!("@{path}"),
            Setting::Text(text) => text.clone(),
        }
    }
    fn read(text: &str) -> Option<Setting> {
        let handed = |rest: &str, named: bool| {
            let (path, text) = rest.split_once('\n')?;
            Some(Setting::Read { path: path.to_owned(), named, text: text.to_owned() })
        };
        if let Some(rest) = text.strip_prefix("@=") {
            return handed(rest, true);
        }
        if let Some(rest) = text.strip_prefix('=') {
            return handed(rest, false);
        }
        if let Some(path) = text.strip_prefix('@') {
            return (!path.is_empty()).then(|| Setting::File(path.to_owned()));
        }
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Setting::Auto),
            other if yes_or_no(other) == Some(false) => Some(Setting::Off),
            // A single word that is no rule is a slip of the pen.
            _ => {
                let statements = text.trim().contains([' ', '\n']) || text.contains("->");
                statements.then(|| Setting::Text(text.to_owned()))
            }
        }
    }
}
