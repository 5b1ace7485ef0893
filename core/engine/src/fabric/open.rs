//! Fabrics are opened: devices emulated here, RDMA devices, what libfabric drives.

use super::told::rails_of;
use super::{Fabric, Guide, Several};
use crate::types::Carrier;
use std::net::IpAddr;
use weft_ofi::{Ofi, OfiDirectory, select::Wanted};
use weft_rdma::{Directory, MOST_RAILS, Rdma};
use weft_softroce::{Faults, Udp, link_mtu as carried_by};
use weft_types::params::FaultPlan;
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_verbs::{RouteWish, Verbs, Wish, choose, own_numa_node, survey};

impl Fabric {
    /// Opens `rails` (1 to [`MOST_RAILS`]) emulated RDMA devices at `address` for process `me`, whose datagrams are lost, doubled and overtaken as
    /// `faults` says. No IP packet is longer than `link_mtu` bytes; 0: than the interface and the ways carry. Also returns how others find it: what their `directory` must answer.
    ///
    /// # Errors
    /// The socket cannot be had; what the device refused.
    pub fn softroce(
        me: PeerId,
        address: IpAddr,
        rails: u32,
        faults: Option<&FaultPlan>,
        link_mtu: u32,
        directory: Box<dyn Directory>,
    ) -> Result<(Fabric, String)> {
        let faults = faults.filter(|plan| plan.loss.of + plan.double + plan.overtake > 0.0);
        let faults = faults.map(|plan| Faults {
            seed: plan.seed ^ u64::from(me.0) << 32,
            loss: plan.loss.of,
            doubling: plan.double,
            overtaking: plan.overtake,
        });
        let carried = carried_by(address);
        let link_mtu = if link_mtu == 0 { carried } else { carried.min(link_mtu) };
        let open = || {
            Udp::open_with(address, Some(0), link_mtu, faults).map_err(|error| {
                Error::new(
                    ErrorClass::OTHER,
                    format!("softroce cannot open a UDP socket at {address}: {error}. Is the network up? See weft-doctor"),
                )
            })
        };
        let cards = (0..rails.clamp(1, MOST_RAILS as u32)).map(|_| open()).collect::<Result<_>>()?;
        let rdma = Rdma::open_rails(cards, me, directory)?;
        let name = rdma.card().to_string();
        Ok((Fabric::Softroce(rdma), name))
    }

    /// Opens the RDMA device of this host that suits process `me` best: with an address in the network of `address`, an address
    /// of this host that the others reach, where there is such a one; on InfiniBand in this `partition`, where one is given; `rail`, if it can be used. With several `rails` also the next
    /// best ports of the same kind, as far as there are so many. Returns what [`Fabric::softroce`] does.
    ///
    /// # Errors
    /// There is no library, no device that can be used (with the reason for each), or it refused something.
    pub fn verbs(
        me: PeerId,
        (address, partition): (Option<IpAddr>, Option<u16>),
        rail: Option<&str>,
        rails: u32,
        routes: RouteWish,
        directory: Box<dyn Directory>,
    ) -> Result<(Fabric, String)> {
        let wish = Wish { address, numa_node: own_numa_node(), partition };
        let choices = choose(&survey()?, wish).map_err(|why| {
            Error::new(
                ErrorClass::OTHER,
                format!(
                    "no RDMA device can be used: {why}. WEFT_TRANSPORT=softroce does without a device, by UDP"
                ),
            )
        })?;
        // The launcher shares the devices out among the ranks of a node.
        let ports = rails_of(choices, rail, rails).into_iter();
        let devices = ports.map(|port| Verbs::open_with(port, routes)).collect::<Result<_>>()?;
        let rdma = Rdma::open_rails(devices, me, directory)?;
        let name = rdma.card().to_string();
        Ok((Fabric::Verbs(rdma), name))
    }

    /// Opens an endpoint of libfabric's provider that suits process `me` best. Returns what [`Fabric::softroce`] does.
    ///
    /// # Errors
    /// There is no library, no provider that can be used (with the reason for each), or it refused something.
    pub fn ofi(me: PeerId, wanted: &Wanted, directory: Box<dyn OfiDirectory>) -> Result<(Fabric, String)> {
        let ofi = Ofi::open(me, wanted, directory)?;
        let name = ofi.card().to_string();
        Ok((Fabric::Ofi(ofi), name))
    }

    /// Joins open transports of one process, each toward the processes that `guide` says; see [`Several`]. `carrier`: what moves messages in
    /// the job, the same at all its processes.
    pub fn several(ways: Vec<Fabric>, guide: Box<dyn Guide>, carrier: Carrier) -> Fabric {
        Fabric::Several(Box::new(Several::new(ways, guide, carrier)))
    }
}
