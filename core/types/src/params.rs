//! The public parameters: one table that says name, variable, default and meaning of each (design law 8: at most 60).
//!
//! A parameter is set through its environment variable. Weft needs none of them to be right or fast; they are there
//! to look inside and to work around.

mod choices;
mod layers;

use crate::{Error, ErrorClass, Result};
pub use choices::*;
pub use layers::*;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name in configuration and tool interfaces.
    pub name: &'static str,
    /// The environment variable that sets it.
    pub variable: &'static str,
    /// What a value looks like.
    pub form: &'static str,
    /// How the tool interface shows a value.
    pub kind: Kind,
    /// The default, as a user would write it.
    pub default: &'static str,
    /// What it does and when to touch it.
    pub meaning: &'static str,
}

/// How the tool interface shows a value (section 15.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of 32 bits.
    Number32,
    /// A number of 64 bits.
    Number64,
    /// One of these texts, by its place.
    OneOf(&'static [&'static str]),
    /// A text.
    Text,
}

/// The values of a switch as texts.
pub const SWITCH: &[&str] = &["no", "yes"];

/// A whole number as parameters have it: `8K` is 8,192.
pub fn number(text: &str) -> Option<u64> {
    u64::read(text)
}

/// A value of a parameter as text.
trait Value: Sized {
    const FORM: &'static str;
    const KIND: Kind;
    fn read(text: &str) -> Option<Self>;
    fn show(&self) -> String;
}

impl Value for bool {
    const FORM: &'static str = "yes or no";
    const KIND: Kind = Kind::OneOf(SWITCH);
    fn read(text: &str) -> Option<bool> {
        yes_or_no(text)
    }
    fn show(&self) -> String {
        SWITCH[usize::from(*self)].to_owned()
    }
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

impl Value for u32 {
    const FORM: &'static str = "a whole number, K, M or G behind it for 2^10, 2^20 or 2^30";
    const KIND: Kind = Kind::Number32;
    fn read(text: &str) -> Option<u32> {
        u64::read(text)?.try_into().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    const FORM: &'static str = u32::FORM;
    const KIND: Kind = Kind::Number64;
    fn show(&self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> Option<u64> {
        let text = text.trim();
        let (digits, shift) = match text.bytes().last()? {
            b'k' | b'K' => (&text[..text.len() - 1], 10),
            b'm' | b'M' => (&text[..text.len() - 1], 20),
            b'g' | b'G' => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << shift)
    }
}

macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ty = $default:literal, $variable:literal, $meaning:literal;)*) => {
        /// The table, in the order manuals show it.
        pub const TABLE: &[Parameter] = &[$(Parameter {
            name: stringify!($name),
            variable: $variable,
            form: <$kind as Value>::FORM,
            kind: <$kind as Value>::KIND,
            default: $default,
            meaning: $meaning,
        },)*];

        /// The values in force.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Parameters {
            $(#[doc = $meaning] pub $name: $kind,)*
        }

        impl Default for Parameters {
            fn default() -> Parameters {
                Parameters { $($name: <$kind as Value>::read($default).expect("the table's own defaults can be read"),)* }
            }
        }

        impl Parameters {
            /// The values in force as texts, in the order of the table.
            pub fn texts(&self) -> Vec<String> {
                vec![$(self.$name.show()),*]
            }

            fn set(&mut self, variable: &str, text: &str) -> Option<bool> {
                match variable {
                    $($variable => { self.$name = <$kind as Value>::read(text)?; })*
                    _ => return Some(false),
                }
                Some(true)
            }
        }
    };
}

parameters! {
    eager_limit: u32 = "64K", "WEFT_EAGER_LIMIT",
        "Largest message in bytes that is sent without asking the receiver first. Larger ones wait for the receive and save a copy.";
    piece: u32 = "32K", "WEFT_PIECE",
        "Shortest packet in bytes of a message that leaves in several. Sender and receiver copy at the same time, a packet apart: short packets keep them close, but each has its cost.";
    eager_budget_per_sender: u32 = "1M", "WEFT_EAGER_BUDGET_PER_SENDER",
        "Bytes of messages nobody asked for yet that one sender may make this process hold; beyond it senders ask first.";
    eager_budget_total: u64 = "64M", "WEFT_EAGER_BUDGET_TOTAL",
        "Bytes of messages nobody asked for yet that all senders together may make this process hold. Each lane beside the first (WEFT_LANES) may hold an eighth of that.";
    oversubscribed: Choice = "auto", "WEFT_OVERSUBSCRIBED",
        "Whether waiting ranks give their core away at once. Found out from the number of ranks and cores of the node.";
    single_copy: Choice = "auto", "WEFT_SINGLE_COPY",
        "Whether large messages inside a node may be read straight from the sender's memory (process_vm_readv). Probed at start; where the kernel allows it they are read or streamed, whichever is found to be faster.";
    gaps: Gaps = "auto", "WEFT_GAPS",
        "How large messages with gaps (noncontiguous datatypes) travel inside a node: read (one copy, by the receiver, from layout to layout), stream (packed and unpacked piece by piece by both ends), auto (what costs less).";
    rendezvous: Rendezvous = "auto", "WEFT_RENDEZVOUS",
        "How large messages travel between nodes: read (the receiver's device reads the sender's memory), write (the sender's device writes into the receiver's), stream (copied packet by packet), auto (what costs less). Where memory cannot be registered they are streamed.";
    keep_registered: bool = "yes", "WEFT_KEEP_REGISTERED",
        "Whether memory that was registered with an RDMA device for a large message stays registered for the next one where the device pins its pages and does not follow what the program maps (no on-demand paging). A thread is told by the kernel what is unmapped (userfaultfd), and unmapping such memory waits for it. no, or where the kernel does not tell: registered for each message that is worth it.";
    node_collectives: Choice = "auto", "WEFT_NODE_COLLECTIVES",
        "Whether blocking collectives inside a node go by flags in shared memory (auto, yes) or by messages (no). The same on all ranks.";
    offload: Choice = "auto", "WEFT_OFFLOAD",
        "Whether barrier, bcast, reduce and allreduce between nodes are handed to the fabric's provider where it offers collectives (libfabric's FI_COLLECTIVE): yes where it does, a device or its software; auto and no never. The same on all ranks. WEFT_VERBOSE=1 says what came of it.";
    lanes: u32 = "0", "WEFT_LANES",
        "Independent lanes for the communicators of programs with MPI_THREAD_MULTIPLE, 1 to 32; 1 keeps everything in one. The first is MPI_COMM_WORLD's, and communicators that are made one after the other get the others in turn. 0 chooses one more than the process has cores, at least 4.";
    bind_lanes: bool = "no", "WEFT_BIND_LANES",
        "Whether a thread that uses a communicator of a lane is bound to the core that mpiexec --threads has chosen for the lane, or to the nearest that no thread has (mpiexec --bind-threads). Not the thread that opened MPI and the process's first one, whose later threads would inherit the core, nor threads that the program has bound.";
    transport: Fabric = "auto", "WEFT_TRANSPORT",
        "Which fabric carries messages: shm (one node), softroce (the RDMA emulator over UDP, any number of nodes), verbs (RDMA devices: InfiniBand, RoCE), ofi (what libfabric drives: Omni-Path, Slingshot, EFA, InfiniBand, TCP), auto (shm where it can).";
    ofi_provider: Provider = "auto", "WEFT_OFI_PROVIDER",
        "Which provider of libfabric carries messages (WEFT_TRANSPORT=ofi), by the name that fi_info shows (tcp;ofi_rxm); the same on all ranks. auto: the best of those that can do what is needed; weft-info and WEFT_VERBOSE=1 say which and why.";
    ofi_tags: Choice = "auto", "WEFT_OFI_TAGS",
        "Whether messages of libfabric carry a tag (FI_TAGGED) or none (FI_MSG); the same on all ranks. auto: none, unless the provider has only messages with tags.";
    rdma: Rdma = "auto", "WEFT_RDMA",
        "Whether messages between nodes must be carried by RDMA devices. require: they must, or the job ends and says why they cannot. prefer: what WEFT_TRANSPORT names may be replaced by sockets, which is said once. auto: what WEFT_TRANSPORT names is an error where it cannot be had; without it, a device that is not used is told.";
    rails: u32 = "1", "WEFT_RAILS",
        "RDMA devices (or ports) of one process, 1 to 8: the nearest, then others of the same kind, each on a card of its own as far as there are so many. The first of each process reaches the first of others, the second the second, and so on. Large messages go by all, as fast as each is, and what one that fails has carried by the others. With softroce each is another socket.";
    connections: u32 = "0", "WEFT_CONNECTIONS",
        "RDMA connections of one process. Messages to further peers go by datagrams, which take next to no memory; who talks much, and whose memory is put to or read, gets a connection. 0: what fits 64 MiB, and a 64th of the device's queue pairs.";
    rings: Choice = "auto", "WEFT_RINGS",
        "Whether a process gives peers that talk often rings in its memory, into which their devices write short messages, instead of receive requests. auto: where an RDMA device says of a connection that it writes bytes in order, so that nothing else must tell of them. Half a MiB for 16 peers at a time.";
    frames: bool = "yes", "WEFT_FRAMES",
        "Whether short packets of softroce leave in Ethernet frames of their own, past UDP and IP of the kernel (and rules for what leaves the host): to hosts in the network of the own interface, where the process may send such (CAP_NET_RAW). no: all by UDP sockets.";
    link_mtu: u32 = "0", "WEFT_LINK_MTU",
        "Longest IP packet in bytes that softroce sends; shorter ones carry 256, 512, 1024, 2048 or 4096 bytes of a message. 0: what the network interface and the way to each peer carry as far as the kernel knows. For networks where something between carries less than the interfaces say (1500).";
    routes: Routes = "auto", "WEFT_ROUTES",
        "Whether librdmacm is asked for the route to each peer over RDMA devices (verbs): service level, traffic class, hop limit, rate, bytes of a packet and lifetime, as the subnet manager (InfiniBand) or the administrator (RoCE) has them. auto: where it can be asked; otherwise the defaults. no: never. require: what it gives no route to is not reached, and says why. WEFT_VERBOSE=1 says what came of it.";
    service_level: ServiceLevel = "auto", "WEFT_SERVICE_LEVEL",
        "Service level of InfiniBand packets (0 to 15), or priority of RoCE packets (0 to 7), whatever the route says. auto: that of the route, 0 without one. The same on all ranks.";
    traffic_class: TrafficClass = "auto", "WEFT_TRAFFIC_CLASS",
        "Traffic class of global routing headers, with RoCE the type of service of IP: 104 is DSCP 26 (the class of service and two bits). auto: that of the route (for RoCE what the administrator has set as default_roce_tos), 0 without one. The same on all ranks.";
    partition: PartitionKey = "auto", "WEFT_PARTITION",
        "Partition of the InfiniBand subnet that the job's packets are in, as the subnet manager has set it up (0x8001; ibv_devinfo -v and /sys/class/infiniband/DEVICE/ports/1/pkeys show those of a port). auto: the first of the port's table, or the first of which it is a full member. Ports that are not in it are not used. The same on all ranks.";
    progress_agent: bool = "no", "WEFT_PROGRESS_AGENT",
        "Whether a thread of the library moves what is under way while the program computes: large messages, puts and collectives whose other end waits for this process. It sleeps while the program calls MPI; calls take locks then. Worth it where cores are left over.";
    verbose: u32 = "0", "WEFT_VERBOSE",
        "1 prints once per job what was found and chosen; 2 prints it on every rank. To standard error.";
    leaks: bool = "no", "WEFT_LEAKS",
        "Whether a process prints at the end of MPI which objects the program made and did not free, and where it made them.";
    check: Check = "no", "WEFT_CHECK",
        "collectives: before every collective call the ranks compare procedure, root, operation, counts and type signatures, and those that do not fit get an error that names two ranks instead of hanging. Costs messages.";
    reproducible: bool = "no", "WEFT_REPRODUCIBLE",
        "Whether reductions combine operands in one order that depends on the number of ranks alone, so that results do not change with placement, message size or algorithm. By communicator: the info key weft_reproducible.";
    collectives: Setting = "auto", "WEFT_COLLECTIVES",
        "Rules that say which algorithm a collective takes, instead of the cost model: allreduce ranks=2..16 bytes=..8K nodes=1 -> recursive-doubling. auto: the file weft/collectives in $XDG_CONFIG_HOME (~/.config), if there is one. The same on all ranks. By communicator: the info key weft_collectives. weft-info --explain tells what they do.";
    model: Setting = "auto", "WEFT_MODEL",
        "Figures of this machine from which the cost model of collectives computes. auto: the file that weft-info --measure has written (weft/model-HOST in $XDG_CACHE_HOME, ~/.cache), if there is one. The same on all ranks.";
    unreachable_after: u32 = "30", "WEFT_UNREACHABLE_AFTER",
        "Seconds after which a process that runs, but with which no contact over the fabric comes about, is given up: what needs it fails with MPI_ERR_OTHER, where both have called MPI all that time and have asked each other in vain (a packet filter, a way that is down). 0: never. Over verbs devices a connection that fails in the middle of traffic is given up after 10 s at the latest. Under Weft's mpiexec only: other launchers tell no process what another one does.";
    faults: Option<FaultPlan> = "no", "WEFT_FAULTS",
        "Faults on purpose, round whatever carries messages, from a seed: delay (packets come late, by up to the time), loss (a packet comes by a retransmission, the time later), refuse (no room, so often in a row), hold (ends of puts and gets are told late), deny (memory is not registered or read), dead (the ways to and from a rank die, each after so many packets). Over softroce loss, double and overtake happen to datagrams. The same seed chooses the same packets.";
    latency: Option<LatencyModel> = "no", "WEFT_LATENCY",
        "Times of another network (LogGP), added to those of whatever carries messages, so that a program can be tried on one machine with the latency of a cluster. Groups of node ranks stay as near as they are. The same on all ranks.";
    trace_packets: Option<PacketTrace> = "no", "WEFT_TRACE_PACKETS",
        "A file per rank in which packets, puts, gets and atomics are written down as RoCEv2 (pcap), with the first bytes of their content, for tshark and Wireshark.";
    watchdog: Watchdog = "auto", "WEFT_WATCHDOG",
        "Seconds after which a blocked call tells what it waits for, to mpiexec (--watchdog) or, under other launchers, to standard error. auto: half a minute, to Weft's mpiexec only, which speaks up when a deadlock is certain.";
}

/// Variables that begin with `WEFT_` and are no parameters: how mpiexec talks to its ranks, and what the scripts and
/// test programs of the project are told.
const NOT_PARAMETERS: [&str; 3] = ["WEFT_JOB", "WEFT_NODE_FD", "WEFT_PREFIX"];

/// Prefix of what test programs are told.
const TESTS: &str = "WEFT_TEST_";

impl Parameters {
    /// Whether `text` is a value of the parameter that `variable` sets.
    pub fn accepts(variable: &str, text: &str) -> bool {
        Parameters::default().set(variable, text) == Some(true)
    }

    /// The defaults, changed by those of `variables` (name, value) that set a parameter. Also returns what to say about names
    /// that look like a parameter and are none.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` for a value that cannot be read, naming variable, value and form.
    pub fn from_environment(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Parameters, Vec<String>)> {
        let mut parameters = Parameters::default();
        let mut unknown = Vec::new();
        for (variable, text) in variables {
            let parameter = variable.starts_with("WEFT_") && !variable.starts_with(TESTS);
            if !parameter || NOT_PARAMETERS.contains(&variable.as_str()) {
                continue;
            }
            match parameters.set(&variable, text.trim()) {
                Some(true) => {}
                // A name that resembles none of ours is somebody else's (WEFT_PREFIX of a build script).
                Some(false) => unknown.extend(nearest(&variable).map(|near| {
                    format!("the environment variable {variable} sets nothing; did you mean {near}? `weft-info --params` lists all")
                })),
                None => {
                    let form = TABLE.iter().find(|row| row.variable == variable).map_or("", |row| row.form);
                    return Err(Error::new(
                        ErrorClass::OTHER,
                        format!("the environment variable {variable} is {text:?}; it must be {form}. Correct or unset it"),
                    ));
                }
            }
        }
        Ok((parameters, unknown))
    }
}

/// The table's variable that begins most like `variable`; `None` when they share no more than `WEFT_` and two letters.
fn nearest(variable: &str) -> Option<&'static str> {
    let shared = |name: &str| name.bytes().zip(variable.bytes()).take_while(|(a, b)| a == b).count();
    let best = TABLE.iter().map(|row| (shared(row.variable), row.variable)).max_by_key(|&(shared, _)| shared);
    best.filter(|&(shared, _)| shared > "WEFT_".len() + 2).map(|(_, variable)| variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_can_be_read() {
        for (row, text) in TABLE.iter().zip(Parameters::default().texts()) {
            assert!(Parameters::accepts(row.variable, &text), "{}: {text}", row.name);
            assert!(!Parameters::accepts(row.variable, "?"), "{}", row.name);
        }
        assert_eq!([Choice::Auto, Choice::On, Choice::Off].map(|choice| choice.show()), *CHOICES);
        assert_eq!([false, true].map(|switch| switch.show()), *SWITCH);
    }

    fn read(pairs: &[(&str, &str)]) -> Result<(Parameters, Vec<String>)> {
        Parameters::from_environment(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn the_table_is_small_and_its_names_fit_their_variables() {
        assert!(TABLE.len() <= 60);
        for row in TABLE {
            assert!(row.variable.starts_with("WEFT_") && !row.meaning.is_empty() && !row.default.is_empty());
        }
    }

    #[test]
    fn a_text_is_told_from_the_name_of_its_file() {
        for (value, setting) in [
            ("auto", Setting::Auto),
            ("no", Setting::Off),
            ("@/etc/rules", Setting::File("/etc/rules".into())),
            ("bcast -> flat", Setting::Text("bcast -> flat".into())),
            ("bcast->flat", Setting::Text("bcast->flat".into())),
        ] {
            assert_eq!(Setting::of(value), Some(setting), "{value}");
        }
        for named in [true, false] {
            let read = Setting::of(&Setting::handed_over("/a b", named, "one\ntwo\n"));
            let (path, text) = ("/a b".to_owned(), "one\ntwo\n".to_owned());
            assert_eq!(read, Some(Setting::Read { path, named, text }));
        }
        assert_eq!(["flat", "@", "=", "@=x"].map(Setting::of), [None, None, None, None]);
    }

    #[test]
    fn sizes_take_suffixes_and_switches_many_words() {
        let (parameters, unknown) = read(&[
            ("WEFT_EAGER_LIMIT", "8k"),
            ("WEFT_SINGLE_COPY", "No"),
            ("HOME", "/"),
            ("WEFT_JOB", "v=1"),
        ])
        .expect("legal");
        assert_eq!((parameters.eager_limit, parameters.single_copy), (8192, Choice::Off));
        assert!(unknown.is_empty());
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named_with_its_form() {
        for (variable, value) in [
            ("WEFT_EAGER_LIMIT", "many"),
            ("WEFT_EAGER_LIMIT", "5G"),
            ("WEFT_SINGLE_COPY", ""),
            ("WEFT_VERBOSE", "-1"),
        ] {
            let error = read(&[(variable, value)]).expect_err("unreadable");
            assert!(error.text().contains(variable) && error.text().contains("must be"), "{error}");
        }
    }

    #[test]
    fn small_numbers_have_bounds() {
        let (parameters, _) =
            read(&[("WEFT_SERVICE_LEVEL", "15"), ("WEFT_TRAFFIC_CLASS", "104")]).expect("legal");
        assert_eq!((parameters.service_level, parameters.traffic_class), (Given(Some(15)), Given(Some(104))));
        for (variable, value) in [
            ("WEFT_SERVICE_LEVEL", "16"),
            ("WEFT_TRAFFIC_CLASS", "256"),
            ("WEFT_SERVICE_LEVEL", "-1"),
            ("WEFT_ROUTES", "yes"),
        ] {
            assert!(!Parameters::accepts(variable, value), "{variable}={value}");
        }
        assert!(Parameters::accepts("WEFT_ROUTES", "off") && Parameters::accepts("WEFT_ROUTES", "require"));
    }

    #[test]
    fn partitions_are_keys() {
        for (text, key) in [("0x8001", 0x8001), ("0X7FFF", 0x7fff), ("0x1", 1)] {
            let (parameters, _) = read(&[("WEFT_PARTITION", text)]).expect("legal");
            assert_eq!(parameters.partition, PartitionKey(Some(key)));
        }
        assert_eq!(read(&[]).expect("nothing set").0.partition, PartitionKey(None));
        for text in ["0x8000", "0x0", "8001", "0x10001", "", "0x"] {
            assert!(!Parameters::accepts("WEFT_PARTITION", text), "{text}");
        }
    }

    #[test]
    fn a_misspelt_variable_is_reported_with_its_neighbour() {
        let (_, unknown) = read(&[("WEFT_EAGER_LIMITS", "1")]).expect("no bad value");
        assert!(unknown[0].contains("did you mean WEFT_EAGER_LIMIT?"), "{unknown:?}");
        let (_, unknown) = read(&[("WEFT_PREFIX", "/opt"), ("WEFT_SEED", "7")]).expect("no bad value");
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
