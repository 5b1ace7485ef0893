//! The keys of another process's memory on each of its devices.
//!
//! Whoever is told of a region hears one number of 64 bits. Of a process with two devices it is the key on the first (lower half) and on the
//! second. A process with more of them says the key on the first and the *number* of the region, under which it tells the others when asked:
//!
//! ```text
//! origin                                   owner
//! get, put                                 (has told address, first key, number)
//!   refused: nothing is known  Ask ------> looks up the region
//!   posted on any rail        <----- Tell  its keys on all devices
//! ```
//!
//! Both are datagrams, like those of first contact: an operation that is refused is tried again, and asks again after a while. So whatever is
//! posted has keys for every device, also when a connection fails and its requests go on by another. Regions are kept ([`MOST_KNOWN`]
//! of each peer), so that memory that is used again costs nothing more. Who has one device in common with the owner never asks.

use crate::flight::Deed;
use crate::peers::State;
use crate::rail::MOST_RAILS;
use crate::transport::Rdma;
use std::collections::HashMap;
use weft_api::Refused;
use weft_api::verbs::{Data, Hca, Nanos, RegionKeys, RemoteAddress, RemoteKey, Route, WorkRequest};
use weft_api::zero_copy::{RemoteMemory, RemoteRun};
use weft_types::PeerId;

/// Processes with so many devices say all keys in one number.
pub(crate) const SAID: usize = 2;
/// Regions of a peer whose keys are kept.
const MOST_KNOWN: usize = 4096;
/// How long an answer is waited for before it is asked for again.
const RETRY: Nanos = 1_000_000;

/// "WFK" and the version.
const MAGIC: u32 = 0x5746_4b01;

/// The keys of a region on each device.
pub(crate) type Row = [u32; MOST_RAILS];

/// One of the two datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWord {
    /// Who says it.
    pub from: PeerId,
    /// To whom.
    pub to: PeerId,
    /// Which of all processes that ever had its number the sender is.
    pub life: u32,
    /// What was said of the region.
    pub key: u64,
    /// Its keys; `None`: they are asked for.
    pub keys: Option<[u32; MOST_RAILS]>,
}

impl KeyWord {
    /// Bytes of one.
    pub const BYTES: usize = 28 + 4 * MOST_RAILS;

    /// The bytes, little-endian.
    pub fn emit(self) -> [u8; KeyWord::BYTES] {
        let head = [
            MAGIC,
            u32::from(self.keys.is_some()),
            self.from.0,
            self.to.0,
            self.life,
            self.key as u32,
            (self.key >> 32) as u32,
        ];
        let mut bytes = [0; KeyWord::BYTES];
        let words = head.into_iter().chain(self.keys.unwrap_or_default());
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` for bytes that are none of ours.
    pub fn parse(bytes: &[u8]) -> Option<KeyWord> {
        let bytes: &[u8; KeyWord::BYTES] = bytes.try_into().ok()?;
        let word = |i: usize| {
            u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
        };
        let keys: Row = std::array::from_fn(|rail| word(7 + rail));
        let keys = match word(1) {
            0 if keys == Row::default() => None,
            1 => Some(keys),
            _ => return None,
        };
        let key = u64::from(word(5)) | u64::from(word(6)) << 32;
        (word(0) == MAGIC).then_some(KeyWord {
            from: PeerId(word(2)),
            to: PeerId(word(3)),
            life: word(4),
            key,
            keys,
        })
    }
}

/// How a request names memory on the first rail.
#[inline]
pub(crate) fn first_key(memory: RemoteMemory) -> RemoteAddress {
    RemoteAddress { address: memory.address, key: RemoteKey(memory.key as u32) }
}

/// What is known of the memory of peers with more than [`SAID`] devices.
#[derive(Debug, Default)]
pub(crate) struct Keyrings {
    of: HashMap<PeerId, Keyring>,
    /// Counts the regions of this process.
    last: u32,
    /// Those that there are: where their keys are.
    own: HashMap<u32, Row>,
}

#[derive(Debug, Default)]
struct Keyring {
    known: HashMap<u64, Row>,
    /// What is asked for, and when again.
    asked: HashMap<u64, Nanos>,
}

impl Keyrings {
    /// What is said of an own region with these keys on so many devices.
    pub(crate) fn say(&mut self, keys: &[RegionKeys; MOST_RAILS], rails: usize) -> u64 {
        let first = u64::from(keys[0].remote.0);
        if rails <= SAID {
            return first | u64::from(keys[1].remote.0) << 32;
        }
        self.last = self.last.wrapping_add(1).max(1);
        self.own.insert(self.last, keys.map(|keys| keys.remote.0));
        first | u64::from(self.last) << 32
    }

    /// An own region is no more.
    pub(crate) fn forget(&mut self, key: u64) {
        self.own.remove(&((key >> 32) as u32));
    }

    /// The keys of an own region; none fits where it is no more.
    fn tell(&self, key: u64) -> Row {
        let row = self.own.get(&((key >> 32) as u32)).filter(|row| row[0] == key as u32);
        row.copied().unwrap_or_default()
    }

    /// A peer is no more.
    pub(crate) fn drop_peer(&mut self, peer: PeerId) {
        self.of.remove(&peer);
    }

    /// How a request names memory of a peer on a rail.
    #[inline]
    pub(crate) fn remote(&self, peer: PeerId, memory: RemoteMemory, rail: u8) -> RemoteAddress {
        match rail {
            0 => first_key(memory),
            rail => {
                RemoteAddress { address: memory.address, key: RemoteKey(self.on(peer, memory.key, rail)) }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn on(&self, peer: PeerId, key: u64, rail: u8) -> u32 {
        match self.of.get(&peer) {
            // One that was never told fits nothing, and the device refuses it.
            Some(ring) => ring.known.get(&key).map_or(0, |row| row[usize::from(rail)]),
            None if usize::from(rail) < SAID => (key >> 32) as u32,
            None => 0,
        }
    }
}

impl<H: Hca> Rdma<H> {
    /// Whether keys of a peer must be asked for: it has more devices than it says keys of, and there is more than one way to it.
    fn must_ask(&self, index: u32) -> bool {
        self.rails.len() > 1 && usize::from(self.peers.at(index).theirs) > SAID
    }

    /// Sees to it that every key of the memory that is named is known.
    ///
    /// # Errors
    /// It is asked for.
    #[inline]
    pub(crate) fn has_keys(&mut self, index: u32, runs: &[RemoteRun]) -> Result<(), Refused> {
        if self.rails.len() == 1 { Ok(()) } else { self.looks_up(index, runs.iter().map(|run| run.memory)) }
    }

    /// As [`Rdma::has_keys`], of one place.
    #[inline]
    pub(crate) fn has_key(&mut self, index: u32, memory: RemoteMemory) -> Result<(), Refused> {
        if self.rails.len() == 1 { Ok(()) } else { self.looks_up(index, [memory].into_iter()) }
    }

    #[inline(never)]
    fn looks_up(&mut self, index: u32, memory: impl Iterator<Item = RemoteMemory>) -> Result<(), Refused> {
        if !self.must_ask(index) {
            return Ok(());
        }
        let (id, now) = (self.peers.at(index).id, self.now());
        let ring = self.keyrings.of.entry(id).or_default();
        let mut unknown: Vec<u64> =
            memory.map(|memory| memory.key).filter(|key| !ring.known.contains_key(key)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.dedup();
        for key in unknown {
            let ring = self.keyrings.of.entry(id).or_default();
            if ring.asked.get(&key).is_none_or(|&next| next <= now) {
                ring.asked.insert(key, now + RETRY);
                self.say_keys(index, key, None);
            }
        }
        Err(Refused::Full)
    }

    /// Asks or tells, by the path in use. What finds no room is lost, and asked for again.
    fn say_keys(&mut self, index: u32, key: u64, keys: Option<Row>) {
        let Route::Known { .. } = self.route_to(index) else { return };
        let peer = self.peers.at(index);
        let (rail, to) = (peer.rail, peer.id);
        let Some(&path) = peer.paths.on(rail) else { return };
        let word = KeyWord { from: self.me, to, life: self.life, key, keys }.emit();
        let parts = [&word[..]];
        let mut request = WorkRequest::new(0, path.datagram(), &[]);
        (request.data, request.signaled) = (Data::Inline(&parts), false);
        let own = &mut self.rails[usize::from(rail)];
        let _ = own.hca.post_send(own.card.datagrams, &request);
    }

    /// One of the datagrams came. Whether it is news to whoever waits.
    pub(crate) fn key_word_came(&mut self, word: KeyWord) -> bool {
        let Some(index) = self.peers.find(word.from).filter(|_| word.to == self.me) else { return false };
        let peer = self.peers.at(index);
        if matches!(peer.state, State::Gone) || peer.life != word.life {
            return false;
        }
        let Some(row) = word.keys else {
            let row = self.keyrings.tell(word.key);
            self.say_keys(index, word.key, Some(row));
            return false;
        };
        let Some(ring) = self.keyrings.of.get_mut(&word.from) else { return false };
        if ring.asked.remove(&word.key).is_none() {
            return false;
        }
        if ring.known.len() >= MOST_KNOWN {
            // What is under way may be repeated on another rail, and needs its keys.
            let ends = self.peers.beside(word.from).chain([index]);
            let used: Vec<u64> =
                ends.flat_map(|end| self.peers.at(end).flight.deeds()).filter_map(Deed::key).collect();
            ring.known.retain(|key, _| used.contains(key));
        }
        ring.known.insert(word.key, row);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_api::verbs::LocalKey;

    proptest::proptest! {
        #[test]
        fn what_is_read_was_written(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), KeyWord::BYTES..=KeyWord::BYTES), step in 0_u8..3) {
            let mut bytes = bytes;
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[4..8].copy_from_slice(&u32::from(step).to_le_bytes());
            if let Some(word) = KeyWord::parse(&bytes) {
                proptest::prop_assert_eq!(&word.emit()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn two_keys_are_said_and_more_are_told() {
        let keys = |first: u32| {
            std::array::from_fn(|rail| RegionKeys {
                local: LocalKey(0),
                remote: RemoteKey(first + rail as u32),
            })
        };
        let mut own = Keyrings::default();
        let said = own.say(&keys(0x10), 2);
        assert_eq!(said, 0x11_0000_0010);
        let memory = |key| RemoteMemory { address: 7, key };
        let peer = PeerId(3);
        for rail in [0, 1] {
            assert_eq!(own.remote(peer, memory(said), rail).key, RemoteKey(0x10 + u32::from(rail)));
        }
        let said = [own.say(&keys(0x20), 5), own.say(&keys(0x20), 5)];
        assert_ne!(said[0], said[1], "the same keys of another region");
        assert_eq!(own.tell(said[1])[..5], [0x20, 0x21, 0x22, 0x23, 0x24]);
        own.forget(said[1]);
        assert_eq!(own.tell(said[1]), Row::default(), "it is no more");
        let mut other = Keyrings::default();
        other.of.entry(peer).or_default().known.insert(said[0], own.tell(said[0]));
        for rail in 0..5 {
            assert_eq!(other.remote(peer, memory(said[0]), rail).key, RemoteKey(0x20 + u32::from(rail)));
        }
        assert_eq!(other.remote(peer, memory(said[1]), 3).key, RemoteKey(0), "never told");
        assert_eq!(other.remote(peer, memory(said[1]), 0).key, RemoteKey(0x20), "that is said");
    }
}
