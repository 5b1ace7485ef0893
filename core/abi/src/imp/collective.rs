//! Collective operations (chapter 6).

use weft_datatype::{RecvBuf, SendBuf};
use weft_engine::{Envelope, Selector, SendMode, Started};
use weft_types::{ContextId, Handle, PeerId, Rank, Tag, abi};

use crate::gate;
use crate::raise::Raised;

/// Returns once every process of the job has called it.
pub(super) fn world_barrier() -> Result<(), Raised> {
    let (rank, size) = gate::with(|process| {
        process.comms.get(Handle(abi::MPI_COMM_WORLD)).map(|comm| (comm.rank.0, comm.size))
    })?;
    let context = ContextId::WORLD.collective();
    let mut step = 1;
    while step < size {
        let to = PeerId((rank + step) % size);
        let from = PeerId((rank + size - step) % size);
        let tag = Tag(i32::MAX);
        let (send, receive) = gate::with(|process| {
            let source = Some(Rank(from.0));
            let receive = process
                .engine
                .recv(Selector { context, peer: Some(from), source, tag: Some(tag) }, RecvBuf::empty())?;
            let envelope = Envelope { peer: to, context, source: Rank(rank), tag };
            Ok((process.engine.send(envelope, SendMode::Standard, SendBuf::empty())?, receive))
        })
        .map_err(|error: weft_types::Error| Raised::from(error))?;
        super::point_to_point::complete(receive);
        if let Started::Pending(send) = send {
            super::point_to_point::complete(send);
        }
        step *= 2;
    }
    Ok(())
}
