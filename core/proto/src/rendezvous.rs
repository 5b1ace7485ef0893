//! Whether announced messages travel by the device's reads or writes, from which size on: a function of capabilities and model,
//! asked once for each peer.

/// What the user says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rendezvous {
    /// As [`choose`] finds from the costs.
    #[default]
    Auto,
    /// The receiver reads, whenever it can.
    Read,
    /// The sender writes, whenever it can.
    Write,
    /// Copied packet by packet.
    Stream,
}

impl From<weft_types::params::Rendezvous> for Rendezvous {
    fn from(said: weft_types::params::Rendezvous) -> Rendezvous {
        use weft_types::params::Rendezvous as Said;
        match said {
            Said::Auto => Rendezvous::Auto,
            Said::Read => Rendezvous::Read,
            Said::Write => Rendezvous::Write,
            Said::Stream => Rendezvous::Stream,
        }
    }
}

/// What the choice depends on. Times in seconds, rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RendezvousCosts {
    /// Whether devices can read and write each other's memory.
    pub read: bool,
    /// See `read`.
    pub write: bool,
    /// Whether a region stays good for the next message from the same memory.
    pub kept: bool,
    /// Of registering a range at one end, and giving it back.
    pub registration: f64,
    /// Of each byte of it.
    pub registration_per_byte: f64,
    /// From a read to its end, without bytes.
    pub read_latency: f64,
    /// From a packet's departure to its being seen.
    pub latency: f64,
    /// Of reads and writes.
    pub bandwidth: f64,
    /// Of packets that both ends copy.
    pub copy_bandwidth: f64,
}

/// How messages that are announced travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RendezvousPlan {
    /// The sender offers its memory to be read.
    pub read: bool,
    /// The receiver offers its memory to be written, where it does not read.
    pub write: bool,
    /// Bytes of the shortest message that does either.
    pub least: u64,
}

impl RendezvousPlan {
    /// Everything is streamed.
    pub const STREAM: RendezvousPlan = RendezvousPlan { read: false, write: false, least: u64::MAX };
}

/// Chooses. Reading is preferred: it takes one packet less, and the sender's processor has no part in it.
pub fn choose(said: Rendezvous, costs: &RendezvousCosts) -> RendezvousPlan {
    let (read, write) = (costs.read, costs.write);
    match said {
        Rendezvous::Stream => RendezvousPlan::STREAM,
        Rendezvous::Read => RendezvousPlan { read, write: false, least: 0 },
        Rendezvous::Write => RendezvousPlan { read: false, write, least: 0 },
        Rendezvous::Auto if !read && !write => RendezvousPlan::STREAM,
        Rendezvous::Auto => {
            // A kept region is paid for once and used, say, four times.
            let share = if costs.kept { 0.25 } else { 1.0 };
            let fixed = 2.0 * costs.registration * share + (costs.read_latency - costs.latency).max(0.0);
            let gain = 1.0 / costs.copy_bandwidth
                - 1.0 / costs.bandwidth
                - 2.0 * costs.registration_per_byte * share;
            match gain > 0.0 {
                true => RendezvousPlan { read, write, least: (fixed / gain).ceil() as u64 },
                false => RendezvousPlan::STREAM,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card of 100 Gbit/s whose pages cost 0.1 us each to register.
    const CARD: RendezvousCosts = RendezvousCosts {
        read: true,
        write: true,
        kept: false,
        registration: 1e-6,
        registration_per_byte: 0.1e-6 / 4096.0,
        read_latency: 2.5e-6,
        latency: 1.5e-6,
        bandwidth: 12e9,
        copy_bandwidth: 6e9,
    };

    #[test]
    fn what_devices_gain_pays_for_registration_from_some_size_on() {
        let plan = choose(Rendezvous::Auto, &CARD);
        assert!(plan.read && plan.write);
        assert_eq!(plan.least, 86_944);
        let kept = choose(Rendezvous::Auto, &RendezvousCosts { kept: true, ..CARD });
        assert!(kept.least < plan.least / 3, "{kept:?}");
        let slow = RendezvousCosts { registration_per_byte: 1e-10, ..CARD };
        assert_eq!(choose(Rendezvous::Auto, &slow), RendezvousPlan::STREAM, "pages dearer than the copy");
    }

    #[test]
    fn what_is_said_holds_as_far_as_it_can() {
        let only = |read, write| RendezvousPlan { read, write, least: 0 };
        assert_eq!(choose(Rendezvous::Read, &CARD), only(true, false));
        assert_eq!(choose(Rendezvous::Write, &CARD), only(false, true));
        assert_eq!(choose(Rendezvous::Stream, &CARD), RendezvousPlan::STREAM);
        let none = RendezvousCosts { read: false, write: false, ..CARD };
        assert_eq!(choose(Rendezvous::Read, &none), only(false, false));
        assert_eq!(choose(Rendezvous::Auto, &none), RendezvousPlan::STREAM);
    }
}
