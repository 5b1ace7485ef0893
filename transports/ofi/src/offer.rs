//! What a provider offers, as plain data: all that the choice between providers looks at.
#![forbid(unsafe_code)]

use crate::select::Wanted;
use crate::sys;
use std::fmt;
use std::net::IpAddr;

/// One `fi_info` of the library, without pointers. Bits are those of [`sys`].
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Name of the provider, layers joined by `;`: only shown and compared with what a user forces, never a reason.
    pub provider: String,
    /// Its domain: a network interface, a device.
    pub domain: String,
    /// Its fabric: what can reach each other.
    pub fabric: String,
    /// `FI_MSG` and such.
    pub caps: u64,
    /// What the program must do (`FI_CONTEXT` and such).
    pub mode: u64,
    /// What registered memory needs (`FI_MR_LOCAL` and such).
    pub mr_mode: i32,
    /// What it speaks on the wire (`FI_PROTO_RXM` and such), 0 where it does not say.
    pub protocol: u32,
    /// Form of the addresses (`FI_SOCKADDR_IN` and such).
    pub addr_format: u32,
    /// The own address, where it is one of the internet's.
    pub ip: Option<IpAddr>,
    /// Longest message in bytes.
    pub max_msg_size: usize,
    /// Longest message in bytes that is copied at once.
    pub inject_size: usize,
    /// Sends that may be under way.
    pub tx_size: usize,
    /// Receives that may be posted.
    pub rx_size: usize,
    /// Runs of memory of one read, here and there.
    pub runs: usize,
    /// Order that messages and remote accesses keep (`FI_ORDER_SAS` and such).
    pub msg_order: u64,
    /// `FI_PROGRESS_AUTO` or `FI_PROGRESS_MANUAL`.
    pub data_progress: u32,
    /// `FI_RM_ENABLED` where the provider keeps its queues from overrunning.
    pub resource_mgmt: u32,
    /// Bytes of a key of registered memory.
    pub mr_key_size: usize,
    /// Transmit contexts of one endpoint.
    pub max_ep_tx_ctx: usize,
    /// Endpoints of a domain.
    pub ep_cnt: usize,
    /// Whether a write can tell when its bytes are visible at the target (`FI_DELIVERY_COMPLETE`).
    pub tells_delivery: bool,
    /// The device behind it, where the provider tells.
    pub nic: Nic,
}

/// By which of the library's ways packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Messages without tags (`FI_MSG`).
    Messages,
    /// Messages that all have one tag (`FI_TAGGED`).
    Tags,
}

impl Carrier {
    /// What a provider must offer for it.
    pub fn capability(self) -> u64 {
        match self {
            Carrier::Messages => sys::FI_MSG,
            Carrier::Tags => sys::FI_TAGGED,
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carrier::Messages => write!(f, "messages without tags (FI_MSG)"),
            Carrier::Tags => write!(f, "messages with tags (FI_TAGGED)"),
        }
    }
}

/// What is known of a network device; the default where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// It sits on the PCI bus, so the provider drives a device and not the kernel's sockets.
    pub on_bus: bool,
    /// Bits per second, 0 where not known.
    pub speed: usize,
    /// Whether its link is known to be down.
    pub down: bool,
}

impl Offer {
    /// Whether all of these capabilities are offered.
    pub fn can(&self, caps: u64) -> bool {
        self.caps & caps == caps
    }

    /// How packets go: as was asked for; else without tags, unless the provider has only messages with them.
    pub fn carrier(&self, wanted: &Wanted) -> Carrier {
        let own = if self.can(sys::FI_MSG) { Carrier::Messages } else { Carrier::Tags };
        wanted.carrier.unwrap_or(own)
    }

    /// Whether it drives a device itself: one is on the bus, or the addresses are of a kind that only devices have.
    pub fn drives_a_device(&self) -> bool {
        let devices_only = matches!(
            self.addr_format,
            sys::FI_ADDR_PSMX2 | sys::FI_ADDR_EFA | sys::FI_ADDR_OPX | sys::FI_ADDR_CXI
        );
        self.nic.on_bus || devices_only
    }

    /// Whether an adapter carries the messages, and not the kernel's sockets: it drives a device, or memory must be registered
    /// also where only this process uses it, which the kernel needs of nobody. (A device that is emulated is on no bus.)
    pub fn is_adapter(&self) -> bool {
        self.drives_a_device() || self.mr_mode & sys::FI_MR_LOCAL != 0
    }

    /// Bytes of the longest message that still leaves in one step. Devices and the layers over message endpoints
    /// or datagrams (rxm, rxd) copy up to 16 KiB eagerly and take longer ones in steps of their own; sockets take all there is.
    pub fn eager_bytes(&self) -> usize {
        let layered = matches!(self.protocol, sys::FI_PROTO_RXM | sys::FI_PROTO_RXM_TCP | sys::FI_PROTO_RXD);
        if self.drives_a_device() || layered || self.ip.is_none() { 16 << 10 } else { usize::MAX }
    }

    /// Whether a message takes no detour on its way to the kernel's sockets, where these carry it: it goes into a connection as it lies
    /// (xnet), without a layer that copies it (rxm) or a thread that does the work (the old provider for sockets).
    pub fn is_direct(&self) -> bool {
        !self.pays_calls() || self.protocol == sys::FI_PROTO_XNET
    }

    /// Whether every message costs a system call, or two: the kernel's sockets carry them.
    pub fn pays_calls(&self) -> bool {
        self.ip.is_some() && !self.is_adapter()
    }

    /// Bits per second of its link, 0 where not known.
    pub fn speed(&self) -> usize {
        self.nic.speed
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.provider, if self.domain.is_empty() { "?" } else { &self.domain })?;
        if let Some(ip) = self.ip {
            write!(f, " ({ip})")?;
        }
        Ok(())
    }
}
