//! First contact: three datagrams that tell each side the other's queue pair and when it takes something.
//!
//! Whoever wants to send makes its queue pair and *asks*, again and again until it knows the other's. Whoever is asked makes
//! its own, opens it and *answers*. Who has asked opens its own then, says that it is *ready*, and sends. Whoever was asked
//! sends nothing before it has heard that, or anything else by the connection: what came to a queue pair that is not open would
//! be dropped, and repeated when the device's retransmission time is over. When both ask at the same time, each takes the
//! other's question and answers it, and the other's answer says that it is ready: between two processes there is one queue pair
//! on each side, whoever began.
//!
//! When a connection fails and both live, the next one is begun in the same way. Each side ends its old queue pair first and
//! then says how many messages it has ever received from the other: that number is final, so the other knows what to send
//! again. What is taken after it by datagrams while another way is asked for does not count, and is dropped when it comes again.

use crate::rail::MOST_RAILS;
use weft_api::verbs::{MOST_WAYS, QueuePairNumber};
use weft_types::PeerId;

/// Whether an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// "This is my queue pair; what is yours?"
    Ask,
    /// "This is mine."
    Answer,
    /// "I have opened mine to yours."
    Ready,
    /// "I have given you up: do not ask."
    Refuse,
    /// "I have ended MPI and may never look at my device again: do not wait for my acknowledgements."
    Rest,
    /// "I have heard that you do."
    Heard,
    /// "I have not used this connection for long and would give it back: if nor have you, yield."
    Part,
    /// "I post nothing more by this connection: end yours when all of your own is there, and ask for datagrams instead." What
    /// it says of messages received is not final, since its queue pair still takes some.
    Yield,
}

/// What the next way between the two shall be. It is a connection when one needs it or both want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wants {
    /// Datagrams: there are connections enough.
    Datagrams,
    /// A connection, if the other has one to spare.
    Connection,
    /// A connection: registered memory is to be reached.
    MustConnect,
}

/// One of the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which.
    pub step: Step,
    /// Who says it.
    pub from: PeerId,
    /// To whom.
    pub to: PeerId,
    /// Which connection of the two: 0 is the one of messages, the others are for large operations.
    pub channel: u8,
    /// The queue pair for this connection.
    pub queue_pair: QueuePairNumber,
    /// The first packet number it will send. With [`Step::Rest`], how many messages it has ever sent, the lower 24 bits.
    pub first_packet: u32,
    /// The largest packet payload it can take, in bytes.
    pub mtu: u32,
    /// Which of all processes that ever had this number it is.
    pub life: u32,
    /// How many connections of these two have failed before this one.
    pub epoch: u32,
    /// What the way shall be that this is about.
    pub wants: Wants,
    /// Whether it has ended MPI and may not look at its device again.
    pub rests: bool,
    /// How often it has begun or ended to rest, wrapping: of two datagrams the older one has the lower number. Peers do not hear
    /// every turn, so it is too wide to wrap halfway between two that one of them hears.
    pub spell: u32,
    /// Which of the ways between the two devices this is about, as [`weft_api::verbs::ways`] numbers them.
    pub way: u8,
    /// Messages that it has ever received from the other, wrapping. Final in questions and answers, since nothing arrives at
    /// its older queue pairs any more.
    pub received: u32,
}

/// Of the handshake, of what it leads to (rings), and of the order of things said.
pub(crate) const VERSION: u32 = 9;
/// "WFT" and the version.
const MAGIC: u32 = 0x5746_5400 | VERSION;

impl Hello {
    /// Bytes on the wire.
    pub const BYTES: usize = 44;

    /// The bytes, little-endian.
    pub fn emit(self) -> [u8; Hello::BYTES] {
        let step = match self.step {
            Step::Ask => 1,
            Step::Answer => 2,
            Step::Rest => 3,
            Step::Refuse => 4,
            Step::Part => 5,
            Step::Yield => 6,
            Step::Heard => 7,
            Step::Ready => 8,
        };
        let wants = match self.wants {
            Wants::Datagrams => 0,
            Wants::Connection => 1,
            Wants::MustConnect => 2,
        };
        let words = [
            MAGIC,
            step | u32::from(self.channel) << 8
                | wants << 16
                | u32::from(self.rests) << 24
                | u32::from(self.way) << 25,
            self.from.0,
            self.to.0,
            self.queue_pair.0,
            self.first_packet,
            self.mtu,
            self.life,
            self.epoch,
            self.received,
            self.spell,
        ];
        let mut bytes = [0; Hello::BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` for bytes that are none of ours.
    pub fn parse(bytes: &[u8]) -> Option<Hello> {
        let bytes: &[u8; Hello::BYTES] = bytes.try_into().ok()?;
        let word = |i: usize| {
            u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
        };
        let step = match word(1) & 0xff {
            1 => Step::Ask,
            2 => Step::Answer,
            3 => Step::Rest,
            4 => Step::Refuse,
            5 => Step::Part,
            6 => Step::Yield,
            7 => Step::Heard,
            8 => Step::Ready,
            _ => return None,
        };
        let wants = match word(1) >> 16 & 0xff {
            0 => Wants::Datagrams,
            1 => Wants::Connection,
            2 => Wants::MustConnect,
            _ => return None,
        };
        let hello = Hello {
            step,
            from: PeerId(word(2)),
            to: PeerId(word(3)),
            channel: (word(1) >> 8) as u8,
            queue_pair: QueuePairNumber(word(4)),
            first_packet: word(5),
            mtu: word(6),
            life: word(7),
            epoch: word(8),
            wants,
            rests: word(1) >> 24 & 1 == 1,
            spell: word(10),
            way: (word(1) >> 25) as u8,
            received: word(9),
        };
        let sane = word(0) == MAGIC
            && word(1) >> 8 & 0xff < MOST_RAILS as u32
            && usize::from(hello.way) < MOST_WAYS
            && hello.queue_pair.0 < 1 << 24
            && hello.first_packet < 1 << 24
            && (256..=4096).contains(&hello.mtu)
            && hello.mtu.is_power_of_two();
        sane.then_some(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_read_was_written(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), Hello::BYTES..=Hello::BYTES)) {
            if let Some(hello) = Hello::parse(&bytes) {
                proptest::prop_assert_eq!(&hello.emit()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn hellos_come_back() {
        let hello = Hello {
            step: Step::Ask,
            from: PeerId(3),
            to: PeerId(u32::MAX),
            channel: 1,
            queue_pair: QueuePairNumber(17),
            first_packet: 0xff_ffff,
            mtu: 1024,
            life: 0xfeed,
            epoch: 2,
            wants: Wants::MustConnect,
            rests: true,
            spell: u32::MAX,
            way: 7,
            received: u32::MAX,
        };
        assert_eq!(Hello::parse(&hello.emit()), Some(hello));
        assert_eq!(Hello::parse(&hello.emit()[1..]), None);
    }
}
