//! What this process keeps about each process it has talked to, found by a two-level table: eight bytes for each
//! 256 processes of the job that lie below the highest one talked to, nothing else for the silent ones.

use crate::layouts::Exchanged;
use crate::paces::Habits;
use crate::shares::Parts;
use crate::zero_copy::Means;
use std::collections::VecDeque;
use weft_api::Capabilities;
use weft_proto::{AnnounceLedger, AnnounceWindow, Paces, ReceiveLedger, Rows, SendLimits, SendWindow, Turns};
use weft_types::{ContextId, PeerId};
use weft_wire::SmallPacket;

/// What waits for room in the transport, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outgoing {
    /// A control packet.
    Packet(SmallPacket),
    /// A send request in phase Queued or Leading.
    Message(u32),
    /// The lead of a send that was given up when so many of its bytes had left: zeros come instead, so that what is sent behind
    /// it can be read by a process that begins again.
    Filler {
        /// Bytes that have left.
        done: u32,
        /// Bytes in all.
        lead: u32,
    },
}

/// Who gets the lead that is arriving from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeadTarget {
    /// A receive request.
    Request(u32),
    /// A message without a receive.
    Message(u32),
    /// Nobody: the receive was given up, because the sender had parted before the lead was whole.
    Nobody,
}

/// The lead of the newest announcement of a peer, while it is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub(crate) target: LeadTarget,
    /// Bytes that are still to come.
    pub(crate) left: u32,
    /// Bytes in all.
    pub(crate) total: u32,
    /// When its sender began, where that is wanted; else 0.
    pub(crate) stamp: u64,
}

/// One process we have talked to.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Budget for sending without asking; shut while `queue` or `held` is not empty, not connected, or dead.
    pub(crate) window: SendWindow,
    /// Largest payload sent inline.
    pub(crate) max_inline: u32,
    /// The transport's number for it, once connected.
    pub(crate) route: u32,
    /// Longest put that its device takes at once; 0 until connected, and for ever where there is none.
    pub(crate) max_put: u32,
    pub(crate) ledger: ReceiveLedger,
    pub(crate) id: PeerId,
    /// Bytes that each of us may make the other hold.
    pub(crate) budget: u32,
    pub(crate) connected: bool,
    pub(crate) dead: bool,
    /// Has ended MPI after a loss at least once: it may still answer what was given up then.
    pub(crate) has_parted: bool,
    /// Reading its memory failed once: not tried again.
    pub(crate) unreadable: bool,
    /// Whether the peer is in the engine's list of peers with work to push.
    pub(crate) listed: bool,
    pub(crate) limits: SendLimits,
    pub(crate) capabilities: Capabilities,
    /// Packets and messages in order of sending, until the transport has room.
    pub(crate) queue: VecDeque<Outgoing>,
    /// Sends in phase Streaming.
    pub(crate) streams: VecDeque<u32>,
    pub(crate) lead: Option<Lead>,
    /// What devices can do with its memory, where they can do anything.
    pub(crate) means: Option<Box<Means>>,
    /// What streams and reading of its messages have cost, once there was one.
    pub(crate) paces: Option<Box<Paces>>,
    /// Which way its messages of middle length take in turns, once there were some.
    pub(crate) turns: Option<Box<Turns>>,
    /// What was tried with rows of them, once there was one.
    pub(crate) rows: Option<Box<Rows>>,
    /// Parts of its messages that it may copy, once there was one.
    pub(crate) parts: Option<Box<Parts>>,
    /// Sends to it of which it may lay out parts.
    pub(crate) lent: u32,
    /// What it was owed when the last such message went to it: something else since says that it has sent something.
    pub(crate) owed_then: u32,
    /// What it did with the messages that were announced to it.
    pub(crate) habits: Habits,
    /// Layouts that we have told each other, once there is one.
    pub(crate) layouts: Option<Box<Exchanged>>,
    /// How many messages may be announced to it, and the number it may announce.
    pub(crate) announce: AnnounceWindow,
    pub(crate) announced: AnnounceLedger,
    /// Sends in phase Queued that wait until they may be announced, by channel, in order.
    pub(crate) held: Vec<(ContextId, VecDeque<u32>)>,
}

const PAGE: usize = 256;

/// All peers talked to.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// By peer number: index into `peers` plus one; 0 for a stranger.
    directory: Vec<Option<Box<[u32; PAGE]>>>,
    peers: Vec<Peer>,
}

impl Peers {
    /// Index of a peer we have talked to.
    #[inline]
    pub(crate) fn index(&self, id: PeerId) -> Option<u32> {
        let page = self.directory.get(id.0 as usize / PAGE)?.as_ref()?;
        page[id.0 as usize % PAGE].checked_sub(1)
    }

    /// Whether a process is known to be gone.
    pub(crate) fn is_dead(&self, id: PeerId) -> bool {
        self.index(id).is_some_and(|index| self.at(index).dead)
    }

    /// The peer, when we have talked to it.
    #[inline]
    pub(crate) fn find_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        let index = self.index(id)?;
        self.peers.get_mut(index as usize)
    }

    /// The peer of an index, when there is one.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Peer> {
        self.peers.get_mut(index as usize)
    }

    /// Number of peers met; their indices are below.
    pub(crate) fn len(&self) -> u32 {
        self.peers.len() as u32
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Peer {
        &self.peers[index as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Peer {
        &mut self.peers[index as usize]
    }

    /// Number of peers we have talked to.
    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Remembers a new peer, gate shut until it is connected.
    pub(crate) fn insert(
        &mut self,
        id: PeerId,
        budget: u32,
        announcements: u32,
        capabilities: Capabilities,
    ) -> u32 {
        let index = self.peers.len() as u32;
        let mut window = SendWindow::new(budget);
        window.shut();
        self.peers.push(Peer {
            window,
            max_inline: capabilities.max_inline.min(u32::MAX as usize) as u32,
            route: 0,
            max_put: 0,
            ledger: ReceiveLedger::new(budget),
            id,
            budget,
            connected: false,
            dead: false,
            has_parted: false,
            unreadable: false,
            listed: false,
            limits: SendLimits {
                packet: capabilities.max_copy.min(u32::MAX as usize) as u32,
                full: capabilities.full_copy.min(u32::MAX as usize) as u32,
                single: 0,
                eager: 0,
                lead: 0,
                piece: 0,
            },
            capabilities,
            queue: VecDeque::new(),
            streams: VecDeque::new(),
            lead: None,
            means: None,
            paces: None,
            turns: None,
            rows: None,
            parts: None,
            lent: 0,
            owed_then: 0,
            habits: Habits::default(),
            layouts: None,
            announce: AnnounceWindow::new(announcements),
            announced: AnnounceLedger::new(announcements),
            held: Vec::new(),
        });
        let page = id.0 as usize / PAGE;
        if self.directory.len() <= page {
            self.directory.resize_with(page + 1, || None);
        }
        self.directory[page].get_or_insert_with(|| Box::new([0; PAGE]))[id.0 as usize % PAGE] = index + 1;
        index
    }
}
