//! Where this process runs: its node, and what parts of it the process is restricted to.

use crate::process::Process;
use std::sync::Arc;
use weft_boot::machine;
use weft_place::mapping::Seat;
use weft_place::{CpuSet, Hardware};

/// The parts of the machine, read once.
#[derive(Debug)]
pub struct Machine {
    /// Packages, caches and so on.
    pub parts: Hardware,
    /// Whether these are of the machine this process runs on, and not of one that hwloc's variables only describe.
    pub is_here: bool,
}

impl Process {
    /// The machine; `None` when hwloc's variables describe none that can be read, which is said once.
    pub fn hardware(&mut self) -> Option<Arc<Machine>> {
        if self.machine.is_none() {
            let read = machine::hardware().map_err(|why| {
                if self.job.rank == 0 {
                    eprintln!(
                        "weft: {why}; communicators are not split by hardware, and topologies know nodes only"
                    );
                }
            });
            let found = read.ok().map(|(parts, is_here)| Arc::new(Machine { parts, is_here }));
            self.machine = Some(found);
        }
        self.machine.clone().flatten()
    }

    /// The CPUs this process may run on at this moment. On a machine that is only described: those that mpiexec planned for
    /// it (`--bind-to`), or all.
    pub fn present_cpus(&mut self) -> CpuSet {
        match self.hardware() {
            Some(machine) if !machine.is_here => {
                let planned = self.job.local_cpus.get(self.job.local_index as usize);
                planned.cloned().unwrap_or_else(|| machine.parts.cpus())
            }
            _ => machine::allowed_cpus(),
        }
    }

    /// Where this process sits for mapping: by the CPUs it was started with.
    pub fn own_seat(&mut self) -> Seat {
        let node = self.job.node();
        match (self.hardware(), self.job.local_cpus.get(self.job.local_index as usize)) {
            (Some(machine), Some(cpus)) => machine.parts.seat(node, cpus),
            _ => Seat::on_node(node),
        }
    }
}
