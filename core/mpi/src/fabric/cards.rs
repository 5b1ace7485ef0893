//! The cards by which processes find each other on a fabric, as they leave them with the launcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::alike;
use weft_boot::{Launcher, SharedLauncher};
use weft_engine::{Directory, Fabric, OfiCard, OfiDirectory, PeerCard};
use weft_place::transport::Way;
use weft_types::params::LatencyModel;
use weft_types::{Error, ErrorClass, PeerId, Result};

/// The launcher's key under which a process says how it is found, where it has said so `round` times before; where it is found by several
/// transports, by the letter of a road in place of that number.
pub(super) fn key(rank: u32, round: u32) -> String {
    match round {
        0 => format!("weft-card-{rank}"),
        round if round < FIRST_LETTER => format!("weft-card-{rank}.{round}"),
        letter => format!("weft-card-{rank}.{}", char::from_u32(letter).unwrap_or('?')),
    }
}

/// More often than that nobody says how he is found.
const FIRST_LETTER: u32 = b'a' as u32;

/// The cards that processes left with the launcher, each behind the name of its transport.
#[derive(Clone, Debug)]
pub(super) struct Cards {
    pub(super) launcher: SharedLauncher,
    pub(super) way: Way,
    /// Of this process.
    pub(super) rank: u32,
    pub(super) latency: Option<LatencyModel>,
    /// How often processes have said before how they are reached; what was said last counts.
    pub(super) round: Arc<AtomicU32>,
}

impl Cards {
    pub(super) fn text(&mut self, peer: PeerId) -> Result<String> {
        let failed = |why: String| Error::new(ErrorClass::OTHER, why);
        let text = self.launcher.get(peer.0, &key(peer.0, self.round.load(Ordering::Relaxed)))?.ok_or_else(|| {
            failed(format!(
                "the launcher does not know how process {} is reached: did it start with the same WEFT_TRANSPORT?",
                peer.0
            ))
        })?;
        card_of(&text, peer, &self.way, &Fabric::version(), (self.rank, &self.latency)).map(str::to_owned)
    }
}

/// The card in what a process left with the launcher: the name of its transport, the version of what it says there with the times of
/// another network that it adds, and the card. `own`: the number of this process and the times that it adds.
fn card_of<'a>(
    text: &'a str,
    peer: PeerId,
    way: &Way,
    version: &str,
    own: (u32, &Option<LatencyModel>),
) -> Result<&'a str> {
    let failed = |why: String| Err(Error::new(ErrorClass::OTHER, why));
    let mut parts = text.splitn(3, ':');
    let theirs = parts.next().filter(|_| text.contains(':')).unwrap_or("something else");
    if theirs != way.name() {
        return failed(format!(
            "process {} is reached by {theirs}, process {} by {way}. Nodes agree at the start, so processes of one node were told or found \
             something different: set WEFT_TRANSPORT and WEFT_RDMA for the whole job (mpiexec -genv), or unset them everywhere; \
             weft-info --explain transports in place of each program says what it would take",
            peer.0, own.0
        ));
    }
    let (said, card) = (parts.next(), parts.next());
    let (theirs, model) = said.map_or((None, ""), |said| {
        let (version, model) = said.split_once('+').unwrap_or((said, ""));
        (Some(version), model)
    });
    match (theirs, card) {
        (Some(theirs), Some(card)) if theirs == version => {
            alike::compare(model, own, peer.0)?;
            Ok(card)
        }
        (theirs, card) => {
            let theirs = match (theirs, card) {
                (Some(theirs), Some(_)) if theirs.split('.').count() == 2 => format!("version {theirs}"),
                // Before versions were said.
                _ => "an older version".to_owned(),
            };
            failed(format!(
                "process {} runs another version of Weft: what it says over {way} is of {theirs}, what this one says of version {version}. \
                 Start all processes with the same installation (LD_LIBRARY_PATH, and what is installed on each node)",
                peer.0
            ))
        }
    }
}

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        self.text(peer)?.parse()
    }
}

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.text(peer)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_version_is_named() {
        let read = |text| card_of(text, PeerId(3), &Way::Softroce, "3.701", (0, &None));
        assert_eq!(read("softroce:3.701:[fe80::1]:4791/10/0").unwrap(), "[fe80::1]:4791/10/0");
        for other in [
            "softroce:3.602:10.0.0.1:4791/10/0",
            "softroce:10.0.0.1:4791/10/0",
            "softroce:[fe80::1]:4791/10/0",
            "softroce:3.701",
        ] {
            let error = read(other).unwrap_err();
            assert!(error.text().contains("process 3 runs another version of Weft"), "{other}: {error}");
        }
        for other in ["verbs:3.701:10.0.0.1:4791/10/0", "", "what"] {
            let error = read(other).unwrap_err();
            assert!(error.text().contains("process 3 is reached by "), "{other}: {error}");
        }
    }
}
