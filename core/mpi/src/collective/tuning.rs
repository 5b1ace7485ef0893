//! What users and measurements say about the choice of algorithms: rules and figures, the same at all ranks of the job.

use std::sync::Arc;
use weft_boot::settings::{self, Told};
use weft_boot::{Job, Launcher};
use weft_coll::text::Fault;
use weft_coll::{Figures, Link, Rules};
use weft_engine::Carrier;
use weft_types::params::Parameters;
use weft_types::{Error, ErrorClass, Result};

/// The info key by which a communicator gets rules of its own.
pub(crate) const KEY: &str = "weft_collectives";

/// What holds for all communicators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tuning {
    pub(crate) rules: Arc<Rules>,
    pub(crate) figures: Figures,
}

impl Tuning {
    /// Reads what the parameters name; collective over the job under launchers other than Weft's.
    ///
    /// # Errors
    /// What was asked for and cannot be read, with file, line and reason. Of a file at its usual place rank 0 says so, and the
    /// defaults hold.
    pub(crate) fn read(job: &Job, launcher: &mut dyn Launcher, parameters: &Parameters) -> Result<Tuning> {
        let rules = settings::agree(job, launcher, "WEFT_COLLECTIVES", &parameters.collectives)?;
        let figures = settings::agree(job, launcher, "WEFT_MODEL", &parameters.model)?;
        Ok(Tuning {
            rules: Arc::new(parsed(job, rules, Rules::parse)?),
            figures: parsed(job, figures, Figures::parse)?,
        })
    }

    /// What was not measured between nodes is as what carries messages there has it; and so is what is inside the node when the whole job is on
    /// one and a fabric was asked for. (In a job on several nodes those with one process each could not tell.)
    #[must_use]
    pub(crate) fn carried_by(mut self, carrier: Option<Carrier>, is_one_node: bool) -> Tuning {
        if let Some(carrier) = carrier {
            let link = *self.figures.network.get_or_insert(built_in(carrier));
            if is_one_node {
                self.figures.memory = Some(link);
            }
        }
        self
    }
}

/// What a message between two ranks takes that is carried so, unless it was measured.
fn built_in(carrier: Carrier) -> Link {
    match carrier {
        Carrier::Device => Link::NETWORK,
        Carrier::Sockets => Link::SOCKETS,
        Carrier::Emulator => Link::EMULATED,
    }
}

fn parsed<T: Default>(
    job: &Job,
    told: Option<Told>,
    parse: fn(&str, &str) -> std::result::Result<T, Fault>,
) -> Result<T> {
    let Some(told) = told else { return Ok(T::default()) };
    match parse(&told.text, &told.source) {
        Ok(value) => Ok(value),
        Err(fault) if told.asked => {
            Err(Error::new(ErrorClass::OTHER, format!("{fault}. Correct it, or unset the variable")))
        }
        Err(fault) => {
            if job.rank == 0 {
                eprintln!("weft: {fault}; it is not used");
            }
            Ok(T::default())
        }
    }
}

/// The rules of a communicator's info.
///
/// # Errors
/// `MPI_ERR_INFO_VALUE`, with what is wrong.
pub(crate) fn read_hint(text: &str) -> Result<Rules> {
    Rules::parse(text, "the info key weft_collectives")
        .map_err(|fault| Error::new(ErrorClass::INFO_VALUE, fault.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::{Planning, Work};
    use super::*;
    use crate::comm::Comm;
    use crate::group::Group;
    use crate::info::Info;
    use weft_coll::registry::candidates;
    use weft_coll::{Call, Group as Place, Model, Vector};
    use weft_types::{ContextId, Handle, Rank};

    #[test]
    fn what_was_not_measured_is_as_what_carries_messages_has_it() {
        let tuning =
            |text: &str| Tuning { figures: Figures::parse(text, "f").expect("figures"), ..Tuning::default() };
        let nothing = tuning("weft-model 1");
        assert_eq!(nothing.clone().carried_by(None, true).figures, Figures::default());
        let sockets = nothing.clone().carried_by(Some(Carrier::Sockets), false).figures;
        assert_eq!((sockets.network, sockets.memory), (Some(Link::SOCKETS), None));
        let forced = nothing.carried_by(Some(Carrier::Emulator), true).figures;
        assert_eq!((forced.network, forced.memory), (Some(Link::EMULATED), Some(Link::EMULATED)));
        let measured = tuning("weft-model 1; network latency-ns=7000 overhead-ns=1 per-byte-ns=1");
        let figures = measured.clone().carried_by(Some(Carrier::Device), false).figures;
        assert_eq!(figures, measured.figures);
    }

    #[test]
    fn hints_that_change_nothing_leave_the_ways_of_collectives_alone() {
        let mut comm = Comm::new(ContextId::WORLD, Rank(0), Arc::new(Group::world(2)), Handle(0));
        let set = |comm: &mut Comm, key: &str, value: &str| {
            comm.node.way = crate::rounds::OnNode::Never;
            let mut info = Info::default();
            info.set(key.as_bytes(), value.as_bytes()).expect("short");
            comm.accept_hints(&info).expect("a good value");
            matches!(comm.node.way, crate::rounds::OnNode::Never)
        };
        let reproducible = crate::comm::REPRODUCIBLE;
        assert!(set(&mut comm, reproducible, "false"), "the default");
        assert!(!set(&mut comm, reproducible, "true"));
        assert!(set(&mut comm, reproducible, "true"), "the present value");
        assert!(!set(&mut comm, KEY, "allreduce -> circulant"));
        assert!(set(&mut comm, KEY, "allreduce -> circulant"), "the present rules");
        assert!(set(&mut comm, "mpi_assert_no_any_tag", "true"), "says nothing about collectives");
    }

    #[test]
    fn rules_of_the_job_and_of_a_communicator_decide_between_two_groups() {
        use crate::comm::{Inter, Sides};
        let (first, second) = (Arc::new(Group::world(3)), Arc::new(Group::world(3)));
        let mut comm = Comm::new(ContextId::WORLD, Rank(1), Arc::clone(&second), Handle(0));
        comm.inter = Some(Box::new(Inter { sides: Arc::new(Sides { first, second }), is_first: true }));
        let call = weft_coll::InterCall::Allgather { sent: 8, received: 8 };
        let receives = |comm: &Comm, rules: &str| {
            let rules = Arc::new(Rules::parse(rules, "job").expect("rules"));
            let planning = Planning { rules, ..Planning::default() };
            let schedule = comm.plan(&Work::Inter(&call), &comm.everyone(), &planning).expect("a plan");
            schedule.steps().iter().filter(|step| matches!(step, weft_coll::Step::Recv { .. })).count()
        };
        let own = "inter_allgather ranks=6 bytes=8 -> through-first";
        assert_eq!(receives(&comm, "inter_allgather -> direct"), 3, "one of each other member");
        assert_eq!(receives(&comm, own), 1, "all at once, from the first of the own group");
        let mut info = Info::default();
        info.set(KEY.as_bytes(), own.as_bytes()).expect("short");
        comm.accept_hints(&info).expect("a rule");
        assert_eq!(receives(&comm, "inter_allgather -> direct"), 1);
    }

    #[test]
    fn the_rules_of_a_communicator_go_before_those_of_the_job_and_those_before_the_model() {
        let vector = Vector { count: 1000, element: 8, commutative: true };
        let call = Call::Allreduce { vector, in_place: false };
        let place = Place { rank: 2, size: 6 };
        let built = |name: &str| {
            let model = Model::default();
            let mut all = candidates(&call, place, &model);
            let found = all.find(|algorithm| algorithm.name == name);
            found.expect("an algorithm").build(&call, place, &model)
        };
        let mut comm = Comm::new(ContextId::WORLD, Rank(2), Arc::new(Group::world(6)), Handle(0));
        let plan = |comm: &Comm, rules: &str| {
            let rules = Arc::new(Rules::parse(rules, "job").expect("rules"));
            let planning = Planning { rules, ..Planning::default() };
            comm.plan(&Work::Collective(&call), &comm.everyone(), &planning).expect("a plan")
        };
        assert_eq!(plan(&comm, ""), weft_coll::plan(&call, place, &Model::default()));
        assert_eq!(plan(&comm, "allreduce -> circulant"), built("circulant"));
        let mut info = Info::default();
        info.set(KEY.as_bytes(), b"allreduce ranks=6 -> reduce-bcast").expect("short");
        comm.accept_hints(&info).expect("a rule");
        assert_eq!(plan(&comm, "allreduce -> circulant"), built("reduce-bcast"));
        info.set(KEY.as_bytes(), b"allreduce -> magic").expect("short");
        info.set(crate::comm::REPRODUCIBLE.as_bytes(), b"true").expect("short");
        let error = comm.accept_hints(&info).expect_err("no such algorithm");
        assert_eq!(error.class(), ErrorClass::INFO_VALUE);
        assert!(error.text().contains("weft_collectives, line 1: allreduce has no algorithm"), "{error}");
        assert_eq!(plan(&comm, ""), built("reduce-bcast"), "what was there stays");
        assert_eq!(comm.hints.text(crate::comm::REPRODUCIBLE), None, "nothing is accepted by halves");
    }
}
