//! What it takes to open one more end of this process on what leads to other nodes, for another lane.

use super::mixed::{ByLauncher, LaneCards, Texts};
use std::net::IpAddr;
use weft_engine::{Directory, Fabric, OfiCarrier, OfiWanted, RouteWish};
use weft_place::agreed::Road;
use weft_place::transport::Way;
use weft_types::params::{Choice, FaultPlan};
use weft_types::{Error, PeerId, Result};

/// What it takes to open one more end on the fabric of this process, like the first one: with as many transports.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    /// Each transport, and by which road it leads where there are several.
    pub(super) ends: Vec<(Option<Road>, End)>,
    /// Who knows what leads where, if there are several.
    pub(super) guide: Option<ByLauncher>,
}

impl Opener {
    /// The name of what is opened.
    pub(crate) fn way(&self) -> String {
        self.ends.iter().map(|(_, end)| end.way.name()).collect::<Vec<_>>().join(" and ")
    }

    /// Opens an end. Also returns how others find it: what `texts` must answer of theirs.
    ///
    /// # Errors
    /// It cannot be had: descriptors, queue pairs or memory are used up.
    pub(crate) fn open(&self, texts: impl Texts + Clone + 'static) -> Result<(Fabric, String)> {
        let open =
            |(road, end): &(Option<Road>, End)| end.open(LaneCards { road: *road, texts: texts.clone() });
        let opened = self.ends.iter().map(open).collect::<Result<Vec<_>>>()?;
        let (mut ways, mut cards): (Vec<Fabric>, Vec<String>) = opened.into_iter().unzip();
        let Some(guide) = &self.guide else {
            let only = ways.pop().zip(cards.pop());
            return only.ok_or_else(|| Error::internal("no transport is open"));
        };
        let said = guide.mixed.said(&cards);
        Ok((Fabric::several(ways, Box::new(guide.clone()), guide.mixed.carrier()), said))
    }
}

/// What it takes to open one more end on one transport.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) me: PeerId,
    pub(super) way: Way,
    pub(super) address: IpAddr,
    pub(super) on_one_node: bool,
    pub(super) rail: Option<String>,
    pub(super) rails: u32,
    pub(super) connections: u32,
    pub(super) rings: Choice,
    pub(super) frames: bool,
    pub(super) link_mtu: u32,
    pub(super) routes: RouteWish,
    pub(super) partition: Option<u16>,
    /// Those of datagrams.
    pub(super) faults: Option<FaultPlan>,
    /// Libfabric's, which the first end has chosen.
    pub(super) provider: Option<String>,
    pub(super) carrier: Option<OfiCarrier>,
}

impl End {
    fn open<T: Texts + 'static>(&self, directory: LaneCards<T>) -> Result<(Fabric, String)> {
        match self.way {
            Way::Ofi => Fabric::ofi(self.me, &self.wanted(), Box::new(directory)),
            _ => self.open_rdma(Box::new(directory)),
        }
    }

    /// Of libfabric. It was told of the job when it was opened first.
    pub(super) fn wanted(&self) -> OfiWanted {
        OfiWanted {
            between_nodes: !self.on_one_node,
            address: Some(self.address),
            provider: self.provider.clone(),
            rail: self.rail.clone(),
            carrier: self.carrier,
            processes: None,
            job: None,
            offload: Some(false),
        }
    }

    pub(super) fn open_rdma(&self, directory: Box<dyn Directory>) -> Result<(Fabric, String)> {
        let (mut fabric, card) = match self.way {
            Way::Verbs => {
                let address = (!self.on_one_node).then_some(self.address);
                let wish = (address, self.partition);
                Fabric::verbs(self.me, wish, self.rail.as_deref(), self.rails, self.routes, directory)
            }
            Way::Softroce | Way::Shm | Way::Ofi => {
                let faults = self.faults.as_ref();
                Fabric::softroce(self.me, self.address, self.rails, faults, self.link_mtu, directory)
            }
        }?;
        fabric.set_connections(self.connections);
        fabric.set_rings(self.rings);
        if !self.frames {
            fabric.set_frames(false);
        }
        Ok((fabric, card))
    }
}
