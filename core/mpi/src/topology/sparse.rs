//! Sending edges to their ends when nobody knows who has how many for whom (`MPI_Dist_graph_create`).
//!
//! The nonblocking consensus of Hoefler, Siebert and Lumsdaine (PPoPP 2010): every process sends its records by synchronous
//! sends and takes whatever comes. When its own sends are complete, which means that they were matched, it joins a nonblocking
//! all-reduce; once that is complete everybody's sends were, and nothing more will come. Messages and memory grow with the
//! edges a process specifies or owns, and with the logarithm of the number of processes, never with the number itself. Two
//! exchanges that follow each other have different tags, so a process that is ahead cannot be mistaken for one that is behind.
//! The messages travel in lane 0 at all members, wherever the communicator's own do.

use super::dist_graph::Edge;
use super::steps::{Driver, bytes_of, bytes_to_words, memory_of, read_union, start_union, words_to_bytes};
use crate::process::Process;
use weft_datatype::Memory;
use weft_engine::{Envelope, RequestId, Selector, SendMode, Started};
use weft_types::{Handle, Rank, Result, Tag};

/// What an exchange gives one process.
pub(super) struct Exchanged {
    /// The edges that begin or end here, by who specified them and then in the order given.
    pub(super) edges: Vec<Edge>,
    /// The bitwise or of everybody's flags.
    pub(super) flags: u64,
}

/// Takes the next number of the communicator's collective channel for messages of our own.
pub(super) fn own_tag(process: &mut Process, comm: Handle) -> Result<Tag> {
    let comm = process.comms.get_mut(comm)?;
    comm.check_intra("a virtual topology")?;
    let sequence = comm.collectives.get();
    comm.collectives.advance();
    Ok(weft_coll::tag(false, sequence, 0))
}

/// Sends every edge to the processes at its ends; collective over `comm`.
///
/// # Errors
/// What went wrong on the way.
pub(super) fn exchange<D: Driver>(
    driver: &D,
    comm: Handle,
    specified: &[Edge],
    flags: u64,
) -> Result<Exchanged> {
    let mut exchange = driver.with(|process| Exchange::begin(process, comm, specified, flags))?;
    let flags = driver.wait(|process| exchange.poll(process).transpose())?;
    Ok(Exchanged { edges: exchange.into_edges(), flags })
}

struct Exchange {
    comm: Handle,
    selector: Selector,
    flags: u64,
    /// Own sends that are not known to be matched.
    sends: Vec<RequestId>,
    /// Messages being received: who sent them, how long they are.
    receives: Vec<(u32, RequestId, Memory, usize)>,
    arrived: Vec<(u32, Vec<Edge>)>,
    closing: Option<(RequestId, Memory)>,
    result: Option<u64>,
}

impl Exchange {
    fn begin(process: &mut Process, comm: Handle, specified: &[Edge], flags: u64) -> Result<Exchange> {
        let tag = own_tag(process, comm)?;
        let found = process.comms.get(comm)?;
        let (context, me, group) = (found.context.collective(), found.rank, found.group.clone());
        // The sort is stable, so that edges for one process stay in the order given.
        let mut deliveries: Vec<(i32, Edge)> = Vec::with_capacity(2 * specified.len());
        for &edge in specified {
            deliveries.push((edge.source, edge));
            if edge.destination != edge.source {
                deliveries.push((edge.destination, edge));
            }
        }
        deliveries.sort_by_key(|&(to, _)| to);
        let mut exchange = Exchange {
            comm,
            selector: Selector { context, peer: None, source: None, tag: Some(tag) },
            flags,
            sends: Vec::new(),
            receives: Vec::new(),
            arrived: Vec::new(),
            closing: None,
            result: None,
        };
        for batch in deliveries.chunk_by(|left, right| left.0 == right.0) {
            let to = Rank(batch[0].0 as u32);
            if to == me {
                exchange.arrived.push((me.0, batch.iter().map(|&(_, edge)| edge).collect()));
                continue;
            }
            let words = batch.iter().flat_map(|(_, edge)| [edge.source, edge.destination, edge.weight]);
            let bytes = words_to_bytes(words);
            let view = memory_of(&bytes).send_view(0, 0, bytes.len() as u64);
            let envelope = Envelope { peer: group.peer(to), context, source: me, tag };
            if let Started::Pending(request) = process.engine.send(envelope, SendMode::Synchronous, view)? {
                exchange.sends.push(request);
            }
        }
        Ok(exchange)
    }

    /// The flags once everything that will come is here.
    fn poll(&mut self, process: &mut Process) -> Result<Option<u64>> {
        while let Some((message, status)) = process.engine.improbe(self.selector) {
            let length = status.bytes as usize;
            let room = Memory::packed_scratch(length);
            let request = process.engine.imrecv(message, room.recv_view(0, 0, length as u64))?;
            self.receives.push((status.source.0, request, room, length));
        }
        for at in (0..self.receives.len()).rev() {
            if process.engine.is_complete(self.receives[at].1) {
                let (source, request, room, length) = self.receives.swap_remove(at);
                process.engine.take(request).error.map_or(Ok(()), Err)?;
                let words = bytes_to_words(&bytes_of(&room, length));
                let edge = |edge: &[i32]| Edge { source: edge[0], destination: edge[1], weight: edge[2] };
                self.arrived.push((source, words.chunks_exact(3).map(edge).collect()));
            }
        }
        for at in (0..self.sends.len()).rev() {
            if process.engine.is_complete(self.sends[at]) {
                let request = self.sends.swap_remove(at);
                process.engine.take(request).error.map_or(Ok(()), Err)?;
            }
        }
        if self.sends.is_empty() && self.closing.is_none() && self.result.is_none() {
            self.closing = Some(start_union(process, self.comm, [self.flags])?);
        }
        if let Some((request, memory)) = self.closing.take_if(|(request, _)| process.has_ended(*request)) {
            process.take_ended(request).error.map_or(Ok(()), Err)?;
            let [flags] = read_union(&memory);
            self.result = Some(flags);
        }
        Ok(self.result.filter(|_| self.receives.is_empty()))
    }

    /// Independent of the order in which the messages came.
    fn into_edges(mut self) -> Vec<Edge> {
        self.arrived.sort_by_key(|&(source, _)| source);
        self.arrived.into_iter().flat_map(|(_, edges)| edges).collect()
    }
}
