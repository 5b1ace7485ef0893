//! Collectives that the fabric's device runs (`weft::offload`): how the members of a communicator come to a group.

use weft::offload::Awaits;
use weft_types::Handle;

use super::point_to_point::complete;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// Looks with the other members whether they have a group, and makes it.
pub(super) fn join(call: &'static str, comm: Handle) -> Result<(), Raised> {
    let mut joining = gate::with(|process| process.begin_group(comm))?;
    loop {
        match joining.awaits() {
            Awaits::Request(request) => {
                let ended_well = complete(call, request).error.is_none();
                gate::with(|process| process.go_on_with_group(&mut joining, ended_well));
            }
            Awaits::Others => {
                gate::wait_for(call, Awaited::Something, |process| {
                    process.has_group_joined(&joining).then_some(())
                });
                gate::with(|process| process.go_on_with_group(&mut joining, true));
            }
            Awaits::Nothing => return Ok(()),
        }
    }
}
