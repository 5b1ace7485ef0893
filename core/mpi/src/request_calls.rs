//! What can be done to a request besides completing it: start, cancel, free (sections 3.7.3, 3.8.4, 3.9, 13.2).

use crate::lanes::request_handle;
use crate::persistent::{
    OnCells, Operation, Persistent, active_already, begin_collective, begin_receive, begin_send, begun_in,
};
use crate::process::Process;
use crate::request::{COLLECTIVE, Generalized, Kind, Local};
use weft_engine::RequestId;
use weft_types::{Error, ErrorClass, Handle, Result};

fn refused(text: &str) -> Error {
    Error::new(ErrorClass::REQUEST, text)
}

fn not_to_cancel() -> Error {
    refused("the request belongs to a collective operation, which cannot be cancelled")
}

fn not_to_free() -> Error {
    refused("the request belongs to an active collective operation; complete it instead")
}

impl Process {
    /// `MPI_Start`: begins what a persistent request does.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when the request is not persistent or is active; errors of the operation.
    pub fn start_request(&mut self, request: Handle) -> Result<()> {
        let Kind::Local(local) = self.requests.kind(&self.engine, request)? else {
            return Err(refused(
                "the request is not persistent; only requests made by an _init call can be started",
            ));
        };
        if let Some(started) = self.requests.start_partitioned(&mut self.engine, local) {
            return started;
        }
        let Local::Persistent(persistent) = self.requests.local(local) else {
            return Err(refused(
                "the request is not persistent; only requests made by an _init call can be started",
            ));
        };
        if persistent.active().is_some() {
            return Err(active_already());
        }
        if let OnCells::Yes(stream) = &persistent.cells {
            if let Some(request) = self.engine.start_kept(stream)? {
                self.engine.tag_request(request, persistent.comm.0 | COLLECTIVE);
                persistent.begun(request_handle(request));
                return Ok(());
            }
            // Its cells have ended, for good.
            if let Local::Persistent(persistent) = self.requests.local_mut(local) {
                persistent.cells = OnCells::No;
            }
            return self.start_request(request);
        }
        let (operation, comm, lane) = (persistent.operation.clone(), persistent.comm, persistent.lane);
        let started = self.start_operation(operation, comm, lane)?;
        if let Local::Persistent(persistent) = self.requests.local(local) {
            persistent.begun(started);
        }
        Ok(())
    }

    fn start_operation(&mut self, operation: Operation, comm: Handle, lane: u32) -> Result<Handle> {
        let begun = match operation {
            Operation::Send(Some(envelope), mode, buffer) => {
                self.on_lane(lane, |engine| begin_send(engine, envelope, mode, buffer, comm))?
            }
            Operation::Receive(Some(selector), buffer) => {
                self.on_lane(lane, |engine| begin_receive(engine, selector, buffer, comm))?
            }
            Operation::Buffered(Some(envelope), buffer) => {
                return self.buffered_send_in(lane, comm, envelope, &buffer);
            }
            // To MPI_PROC_NULL.
            Operation::Send(None, ..) | Operation::Buffered(None, _) => RequestId::COMPLETE,
            Operation::Receive(None, _) => return self.requests.insert(Local::NullReceive),
            Operation::Collective(kept) => {
                self.on_lane(lane, |engine| begin_collective(engine, &kept, comm))?
            }
        };
        Ok(begun_in(lane, begun))
    }

    /// Makes a persistent request.
    ///
    /// # Errors
    /// As [`crate::table::Table::insert`].
    pub fn persistent(&mut self, operation: Operation, comm: Handle) -> Result<Handle> {
        let lane = self.comms.get(comm)?.lane;
        self.requests.insert(Local::Persistent(Box::new(Persistent::new(operation, comm, lane))))
    }

    /// `MPI_Cancel`. The generalized request, if it is one: its function is due.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` for requests that cannot be cancelled.
    pub fn cancel(&mut self, request: Handle) -> Result<Option<Generalized>> {
        match self.requests.kind(&self.engine, request)? {
            Kind::Null => Err(refused("the request is MPI_REQUEST_NULL; there is nothing to cancel")),
            Kind::CompleteSend => Ok(None),
            Kind::Engine(id) if self.engine.owner(id) & COLLECTIVE != 0 => Err(not_to_cancel()),
            Kind::Engine(id) => {
                self.engine.cancel(id);
                Ok(None)
            }
            Kind::Lane(id) => {
                let cancelled = self.on_lane(id.lane(), |engine| {
                    let collective = engine.owner(id.local()) & COLLECTIVE != 0;
                    if !collective {
                        engine.cancel(id.local());
                    }
                    !collective
                });
                if cancelled { Ok(None) } else { Err(not_to_cancel()) }
            }
            Kind::Local(local) => match self.requests.local(local) {
                Local::NullReceive => Ok(None),
                Local::Flush(_) => {
                    Err(refused("the request is of a buffer flush, which cannot be cancelled"))
                }
                &Local::Buffered { serial, .. } => {
                    if self.requests.buffers.cancel(&mut self.engine, serial)
                        && let Local::Buffered { cancelling, .. } = self.requests.local_mut(local)
                    {
                        *cancelling = true;
                    }
                    Ok(None)
                }
                Local::Generalized(generalized) => Ok(Some(*generalized)),
                Local::Construction(_) => {
                    Err(refused("the request makes a communicator, which cannot be cancelled"))
                }
                Local::OneSided(..) => Err(refused(
                    "the request is of a one-sided operation, which cannot be cancelled (section 12.3.5)",
                )),
                Local::PartitionedSend(_) | Local::PartitionedReceive(_) => Err(refused(
                    "the request is of a partitioned operation, which cannot be cancelled (section 4.2.1)",
                )),
                Local::Pair { .. } => Err(refused("the request is of a sendrecv, which cannot be cancelled")),
                Local::Persistent(persistent) => match persistent.active() {
                    _ if matches!(persistent.operation, Operation::Collective(_)) => Err(not_to_cancel()),
                    Some(inner) => self.cancel(inner),
                    None => Err(refused("the persistent request is inactive; there is nothing to cancel")),
                },
            },
        }
    }

    /// `MPI_Request_free`: what is under way completes on its own. What goes wrong with a message then is told to the error
    /// handler of its communicator, and of a one-sided operation by the next synchronisation of its window
    /// ([`crate::window::Window::take_error`]). The generalized request, if it is one and complete: its free function is due.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` for the null handle and for collectives.
    pub fn free_request(&mut self, request: Handle) -> Result<Option<Generalized>> {
        match self.requests.kind(&self.engine, request)? {
            Kind::Null => return Err(refused("the request is MPI_REQUEST_NULL; there is nothing to free")),
            Kind::CompleteSend => {}
            Kind::Engine(id) if self.engine.owner(id) & COLLECTIVE != 0 => return Err(not_to_free()),
            Kind::Engine(id) => self.engine.abandon(id),
            Kind::Lane(id) => {
                let released = self.on_lane(id.lane(), |engine| {
                    let collective = engine.owner(id.local()) & COLLECTIVE != 0;
                    if !collective {
                        engine.abandon(id.local());
                    }
                    !collective
                });
                if !released {
                    return Err(not_to_free());
                }
            }
            Kind::Local(local) => match self.requests.local_mut(local) {
                Local::PartitionedSend(_) | Local::PartitionedReceive(_) => {
                    if let Some(freed) = self.requests.free_partitioned(&mut self.engine, local) {
                        freed?;
                        // Threads remember its board.
                        self.comms.changes.add();
                    }
                }
                Local::Construction(_) => {
                    return Err(refused("the request makes a communicator; complete it instead"));
                }
                &mut Local::Buffered { serial, .. } => {
                    self.requests.buffers.forget(serial);
                    self.requests.forget(local);
                }
                Local::Flush(_) => {
                    return Err(refused("the request is of a buffer flush; complete it instead"));
                }
                Local::NullReceive | Local::OneSided(..) => self.requests.forget(local),
                Local::Generalized(generalized) if !generalized.complete => generalized.released = true,
                &mut Local::Generalized(generalized) => {
                    self.requests.forget(local);
                    return Ok(Some(generalized));
                }
                &mut Local::Pair { send, receive, .. } => {
                    self.requests.forget(local);
                    self.free_request(send)?;
                    return self.free_request(receive);
                }
                Local::Persistent(persistent) => {
                    let active = persistent.active();
                    if active.is_some() && matches!(persistent.operation, Operation::Collective(_)) {
                        return Err(not_to_free());
                    }
                    let had_cells = matches!(persistent.cells, OnCells::Yes(_));
                    let collective = match &persistent.operation {
                        Operation::Collective(kept) => Some((kept.clone(), persistent.lane)),
                        _ => None,
                    };
                    self.requests.forget(local);
                    if let Some((kept, lane)) = collective {
                        self.on_lane(lane, |engine| engine.free_kept(&kept));
                    }
                    if had_cells {
                        self.engine.close_streams();
                    }
                    if let Some(inner) = active {
                        return self.free_request(inner);
                    }
                }
            },
        }
        Ok(None)
    }

    /// `MPI_Grequest_complete`. The request, if it was freed before: its free function is due.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is not a generalized request, or is complete.
    pub fn complete_generalized(&mut self, request: Handle) -> Result<Option<Generalized>> {
        let Kind::Local(local) = self.requests.kind(&self.engine, request)? else {
            return Err(refused("the request is not a generalized one"));
        };
        match self.requests.local_mut(local) {
            Local::Generalized(generalized) if generalized.complete => {
                Err(refused("the generalized request is complete already"))
            }
            Local::Generalized(generalized) => {
                generalized.complete = true;
                let generalized = *generalized;
                if generalized.released {
                    self.requests.forget(local);
                    return Ok(Some(generalized));
                }
                Ok(None)
            }
            _ => Err(refused("the request is not a generalized one")),
        }
    }
}
