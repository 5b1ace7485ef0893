//! What the layers round a transport shall do: faults on purpose, the times of another network, a trace of packets. Plain values,
//! read from the variables once; the layers themselves are in `weft_sim::layers`.

use super::{Kind, Value, yes_or_no};
use std::fmt::Write;

/// Something that happens to some of many, by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance<W> {
    /// Between 0 (never) and 1.
    pub of: f64,
    /// What happens then: a time in nanoseconds, or how often.
    pub what: W,
}

/// Faults on purpose, from a seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultPlan {
    /// The same seed chooses the same packets.
    pub seed: u64,
    /// A packet is shown late, by up to so many nanoseconds.
    pub delay: Chance<u64>,
    /// A packet is lost, and comes by a retransmission so many nanoseconds later.
    pub loss: Chance<u64>,
    /// A datagram comes twice.
    pub double: f64,
    /// The next datagram overtakes one.
    pub overtake: f64,
    /// A packet or operation is refused, so many times in a row.
    pub refuse: Chance<u64>,
    /// The end of an operation is told late, by up to so many nanoseconds.
    pub hold: Chance<u64>,
    /// Memory is not registered, or not read.
    pub deny: f64,
    /// The ways between this process and all others die, each after so many packets.
    pub dead: Option<(u32, u64)>,
}

impl FaultPlan {
    /// No faults.
    pub const NONE: FaultPlan = FaultPlan {
        seed: 1,
        delay: Chance { of: 0.0, what: 200_000 },
        loss: Chance { of: 0.0, what: 5_000_000 },
        double: 0.0,
        overtake: 0.0,
        refuse: Chance { of: 0.0, what: 1 },
        hold: Chance { of: 0.0, what: 200_000 },
        deny: 0.0,
        dead: None,
    };

    /// Reads what a user writes: `seed=7,delay=0.1:200us,refuse=0.2:8`.
    pub fn parse(text: &str) -> Option<FaultPlan> {
        let mut plan = FaultPlan::NONE;
        for (key, value) in pairs(text)? {
            match key {
                "seed" => plan.seed = value.parse().ok()?,
                "delay" => plan.delay = with(value, plan.delay, nanoseconds)?,
                "loss" => plan.loss = with(value, plan.loss, nanoseconds)?,
                "double" => plan.double = chance(value)?,
                "overtake" => plan.overtake = chance(value)?,
                "refuse" => plan.refuse = with(value, plan.refuse, count)?,
                "hold" => plan.hold = with(value, plan.hold, nanoseconds)?,
                "deny" => plan.deny = chance(value)?,
                "dead" => {
                    let (rank, after) = value.split_once(':').unwrap_or((value, "0"));
                    plan.dead = Some((rank.parse().ok()?, u64::read(after)?));
                }
                _ => return None,
            }
        }
        Some(plan)
    }

    /// The same as text.
    pub fn text(&self) -> String {
        let mut text = format!("seed={}", self.seed);
        let mut add = |key: &str, chance: f64, what: &str| {
            if chance > 0.0 {
                let _ = write!(text, ",{key}={chance}{what}");
            }
        };
        add("delay", self.delay.of, &format!(":{}", time(self.delay.what)));
        add("loss", self.loss.of, &format!(":{}", time(self.loss.what)));
        add("double", self.double, "");
        add("overtake", self.overtake, "");
        add("refuse", self.refuse.of, &format!(":{}", self.refuse.what));
        add("hold", self.hold.of, &format!(":{}", time(self.hold.what)));
        add("deny", self.deny, "");
        if let Some((rank, after)) = self.dead {
            let _ = write!(text, ",dead={rank}:{after}");
        }
        text
    }
}

/// The times of a network, after the LogGP model (Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995): they come on top of those of
/// the transport, whose work stands for the overhead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyModel {
    /// L: from the last byte's departure to its arrival, in nanoseconds.
    pub latency: u64,
    /// g: least time between the departures of two packets to one process, in nanoseconds.
    pub gap: u64,
    /// 1/G: bytes per second to one process; 0: no limit.
    pub bandwidth: u64,
    /// So many ranks in a row share a node: between them nothing is added.
    pub node: u32,
}

impl LatencyModel {
    /// Reads what a user writes: `2us,gap=100ns,bandwidth=12G,node=4`.
    pub fn parse(text: &str) -> Option<LatencyModel> {
        let mut model = LatencyModel { latency: 0, gap: 0, bandwidth: 0, node: 1 };
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        model.latency = nanoseconds(first.trim().strip_prefix("latency=").unwrap_or(first.trim()))?;
        for (key, value) in pairs(rest)? {
            match key {
                "gap" => model.gap = nanoseconds(value)?,
                "bandwidth" => model.bandwidth = bytes_per_second(value)?,
                "node" => model.node = value.parse().ok().filter(|&ranks| ranks > 0)?,
                _ => return None,
            }
        }
        Some(model)
    }

    /// The same as text.
    pub fn text(&self) -> String {
        let mut text = time(self.latency);
        if self.gap > 0 {
            let _ = write!(text, ",gap={}", time(self.gap));
        }
        if self.bandwidth > 0 {
            let _ = write!(text, ",bandwidth={}", self.bandwidth);
        }
        if self.node > 1 {
            let _ = write!(text, ",node={}", self.node);
        }
        text
    }
}

/// Where packets are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTrace {
    /// The file of a process; `%r` stands for its rank.
    pub path: String,
    /// Bytes of a packet's content that are kept.
    pub snap: u32,
    /// Bytes that a file may have.
    pub most: u64,
}

impl PacketTrace {
    /// Reads what a user writes: `file-%r.pcap,snap=256,most=100M`.
    pub fn parse(text: &str) -> Option<PacketTrace> {
        let (path, rest) = text.split_once(',').unwrap_or((text, ""));
        // Each process writes a file of its own.
        if !path.contains("%r") {
            return None;
        }
        let mut trace = PacketTrace { path: path.to_owned(), snap: 96, most: 256 << 20 };
        for (key, value) in pairs(rest)? {
            match key {
                "snap" => trace.snap = u32::read(value)?,
                "most" => trace.most = u64::read(value)?,
                _ => return None,
            }
        }
        Some(trace)
    }

    /// The file of a rank.
    pub fn file(&self, rank: u32) -> String {
        self.path.replace("%r", &rank.to_string())
    }

    /// The same as text.
    pub fn text(&self) -> String {
        format!("{},snap={},most={}", self.path, self.snap, self.most)
    }
}

/// The values of a variable that turns a layer on: `no`, or what it shall do.
macro_rules! layers {
    ($($layer:ident: $form:literal;)*) => {$(
        impl Value for Option<$layer> {
            const FORM: &'static str = $form;
            const KIND: Kind = Kind::Text;
            fn read(text: &str) -> Option<Option<$layer>> {
                match yes_or_no(text) {
                    Some(false) => Some(None),
                    _ => $layer::parse(text).map(Some),
                }
            }
            fn show(&self) -> String {
                self.as_ref().map_or_else(|| "no".to_owned(), $layer::text)
            }
        }
    )*};
}

layers! {
    FaultPlan: "no, or some of seed=N, delay=CHANCE:TIME, loss=CHANCE:TIME, refuse=CHANCE:TIMES, hold=CHANCE:TIME, deny=CHANCE, double=CHANCE, overtake=CHANCE, dead=RANK:PACKETS, separated by commas; chances from 0 to 1, times such as 200us";
    LatencyModel: "no, or a time such as 2us, and behind it some of gap=TIME, bandwidth=BYTES-PER-SECOND (12G), node=RANKS, separated by commas";
    PacketTrace: "no, or a file with %r for the rank (packets-%r.pcap), and behind it some of snap=BYTES, most=BYTES, separated by commas";
}

/// `key=value`, separated by commas.
fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').map(|(key, value)| (key.trim(), value.trim()))).collect()
}

fn chance(text: &str) -> Option<f64> {
    text.parse().ok().filter(|chance| (0.0..=1.0).contains(chance))
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|&times| times > 0)
}

/// `CHANCE` or `CHANCE:WHAT`.
fn with(text: &str, usual: Chance<u64>, what: fn(&str) -> Option<u64>) -> Option<Chance<u64>> {
    match text.split_once(':') {
        Some((of, rest)) => Some(Chance { of: chance(of)?, what: what(rest)? }),
        None => Some(Chance { of: chance(text)?, ..usual }),
    }
}

const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// A time of at most an hour; without a unit it would be a guess.
fn nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = UNITS.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let time = number.trim().parse::<f64>().ok()? * unit as f64;
    (0.0..=3.6e12).contains(&time).then_some(time as u64)
}

fn time(nanoseconds: u64) -> String {
    let whole = |&&(_, unit): &&(&str, u64)| nanoseconds.is_multiple_of(unit);
    let &(name, unit) = UNITS.iter().rev().find(whole).expect("a nanosecond divides all");
    format!("{}{name}", nanoseconds / unit)
}

/// As manufacturers count: 12G is twelve thousand million.
fn bytes_per_second(text: &str) -> Option<u64> {
    let (digits, unit) = match text.bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'm' | b'M' => (&text[..text.len() - 1], 1e6),
        b'g' | b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let rate = digits.parse::<f64>().ok()? * unit;
    (1.0..1e15).contains(&rate).then_some(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_shown() {
        for text in [
            "seed=1",
            "seed=7,delay=0.1:200us,loss=0.01:5ms,double=0.5,overtake=0.25,refuse=0.2:8,hold=1:3ns,deny=0.125,dead=3:1000",
        ] {
            assert_eq!(FaultPlan::parse(text).expect(text).text(), text);
        }
        for text in ["2us", "1500ns,gap=100ns,bandwidth=12000000000,node=4", "0s"] {
            assert_eq!(LatencyModel::parse(text).expect(text).text(), text);
        }
        let text = "/tmp/packets-%r.pcap,snap=64,most=1024";
        let trace = PacketTrace::parse(text).expect(text);
        assert_eq!((trace.text(), trace.file(12)), (text.to_owned(), "/tmp/packets-12.pcap".to_owned()));
    }

    #[test]
    fn what_is_left_out_is_as_usual() {
        let plan = FaultPlan::parse("delay=0.5, refuse=1,").unwrap();
        assert_eq!((plan.delay.what, plan.refuse.what, plan.seed), (200_000, 1, 1));
        let model = LatencyModel::parse("latency=1.5us,bandwidth=12.5G").unwrap();
        assert_eq!((model.latency, model.bandwidth, model.node), (1_500, 12_500_000_000, 1));
        assert_eq!(PacketTrace::parse("p%r").unwrap().snap, 96);
    }

    #[test]
    fn slips_of_the_pen_are_refused() {
        for text in [
            "delay",
            "delay=2",
            "delay=0.1:5",
            "delay=-0.1:5us",
            "refuse=0.1:0",
            "losss=0.1",
            "dead=x",
            "dead=1:2:3",
        ] {
            assert_eq!(FaultPlan::parse(text), None, "{text}");
        }
        for text in ["", "2", "2us,4", "2us,node=0", "-2us", "2us,bandwidth=0", "2h"] {
            assert_eq!(LatencyModel::parse(text), None, "{text}");
        }
        for text in ["", "packets.pcap", "p%r,snap", "p%r,size=3"] {
            assert_eq!(PacketTrace::parse(text), None, "{text}");
        }
        assert_eq!(<Option<FaultPlan> as Value>::read("no"), Some(None));
        assert_eq!(<Option<LatencyModel> as Value>::read("off"), Some(None));
    }
}
