//! The choice among algorithms: what each entry of the registry tells, and the minimum of the cost model.

use crate::algorithms;
use crate::call::{Call, Group};
use crate::layout::Stage;
use crate::model::{Estimate, Model, SEGMENTS};
use crate::rules::{Rule, Rules, verdict};
use crate::schedule::{Builder, Schedule};

/// One algorithm.
pub struct Algorithm {
    /// Unique among those of its operation.
    pub name: &'static str,
    /// The operations it is for, by [`Call::name`].
    pub operations: &'static [&'static str],
    /// Where it is described.
    pub source: &'static str,
    /// What its formula leaves open.
    pub parameters: &'static [Parameter],
    /// Whether it gives the right result for such a call. Reads only what is the same at all ranks.
    pub(crate) applies: fn(&Call<'_>, Group, &Model) -> bool,
    /// Adds up its time. Reads only what is the same at all ranks.
    pub(crate) estimate: fn(&mut Estimate<'_>, &Call<'_>, Group, &Model),
    /// Appends this rank's steps; only for calls it applies to.
    pub(crate) write: fn(&mut Builder, &Call<'_>, Group, &Model),
}

/// What an algorithm leaves open. A rule can name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// Bytes of a segment; otherwise those of which the formula says the least time.
    Segment,
    /// Exchanges under way at a time; otherwise those of which the model says that more gain nothing.
    Window,
}

impl std::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.operations.join("/"), self.name)
    }
}

impl Algorithm {
    /// This rank's schedule for a call the algorithm applies to.
    pub fn build(&self, call: &Call<'_>, group: Group, model: &Model) -> Schedule {
        let mut b = Builder::new();
        self.add(&mut b, call, group, model);
        b.finish().of(call, group)
    }

    pub(crate) fn add(&self, b: &mut Builder, call: &Call<'_>, group: Group, model: &Model) {
        match self.segment(call, group, model) {
            None => (self.write)(b, call, group, model),
            segment => (self.write)(b, call, group, &Model { segment, ..model.clone() }),
        }
    }

    pub(crate) fn time<'m>(&self, call: &Call<'_>, group: Group, model: &'m Model) -> Estimate<'m> {
        self.tuned(call, group, model).1
    }

    /// Bytes of the segments in which it does a call; `None` if it knows no segments. The same at all ranks.
    pub fn segment(&self, call: &Call<'_>, group: Group, model: &Model) -> Option<u64> {
        if !self.parameters.contains(&Parameter::Segment) {
            return None;
        }
        model.segment.or_else(|| self.tuned(call, group, model).0)
    }

    /// Exchanges that it has under way at a time; `None` if it knows no window. The same at all ranks.
    pub fn window(&self, call: &Call<'_>, group: Group, model: &Model) -> Option<usize> {
        let has_one = self.parameters.contains(&Parameter::Window);
        has_one.then(|| model.window(group.size, algorithms::bytes_of(call)))
    }

    /// The segment of which the formula says the least time, if there is a choice, and that time.
    fn tuned<'m>(&self, call: &Call<'_>, group: Group, model: &'m Model) -> (Option<u64>, Estimate<'m>) {
        if model.segment.is_some() || !self.parameters.contains(&Parameter::Segment) {
            return (None, self.as_told(call, group, model));
        }
        let mut tried = model.clone();
        let bytes = algorithms::bytes_of(call);
        // Of those in which everything is one segment one is enough.
        let longer = SEGMENTS.iter().filter(|&&segment| segment as f64 >= bytes).count();
        let lengths = &SEGMENTS[longer.saturating_sub(1)..];
        let mut best: Option<(u64, Estimate<'m>)> = None;
        for &segment in lengths {
            tried.segment = Some(segment);
            if !(self.applies)(call, group, &tried) {
                continue;
            }
            let estimate = self.as_told(call, group, &tried).by(model);
            if best.as_ref().is_none_or(|(_, least)| estimate.seconds() < least.seconds()) {
                best = Some((segment, estimate));
            }
        }
        let (segment, estimate) = best.expect("what applies has a segment with which it does");
        (Some(segment), estimate)
    }

    /// What the formula says of a model that leaves nothing open.
    fn as_told<'m>(&self, call: &Call<'_>, group: Group, model: &'m Model) -> Estimate<'m> {
        let mut estimate = Estimate::new(model, group);
        (self.estimate)(&mut estimate, call, group, model);
        estimate
    }

    /// Seconds it takes, by the model.
    pub fn seconds(&self, call: &Call<'_>, group: Group, model: &Model) -> f64 {
        self.time(call, group, model).seconds()
    }

    /// Messages of all ranks together, about.
    pub fn messages(&self, call: &Call<'_>, group: Group, model: &Model) -> f64 {
        self.time(call, group, model).messages()
    }
}

/// This rank's schedule for a call, by the algorithm that the model finds cheapest.
pub fn plan(call: &Call<'_>, group: Group, model: &Model) -> Schedule {
    choose(call, group, model).build(call, group, model)
}

/// This rank's schedule for a call, by the first rule that fits it (those of earlier `rules` first), and by the model when none
/// does.
pub fn plan_by(call: &Call<'_>, group: Group, model: &Model, rules: &[&Rules]) -> Schedule {
    let chosen = choose_by(call, group, model, rules);
    match chosen.rule {
        Some(rule) => chosen.algorithm.build(call, group, &rule.adjust(model)),
        None => chosen.algorithm.build(call, group, model),
    }
}

/// This rank's schedule for a call among the members of a stage alone. Roots in the call are places among them; in the schedule
/// ranks are those of the communicator.
pub fn plan_among(call: &Call<'_>, stage: &Stage, model: &Model) -> Schedule {
    let (mut b, group) = (Builder::new(), stage.group());
    b.among(&stage.members, 0, |b| choose(call, group, model).add(b, call, group, model));
    b.finish()
}

/// What decides a call.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'r> {
    /// What it takes.
    pub algorithm: &'static Algorithm,
    /// The rule that says so; `None`: the model finds it cheapest.
    pub rule: Option<&'r Rule>,
}

/// What [`plan_by`] takes, and why.
pub fn choose_by<'r>(call: &Call<'_>, group: Group, model: &Model, rules: &[&'r Rules]) -> Chosen<'r> {
    let verdict = verdict(rules, call, group, model);
    if let Some((rule, algorithm)) = verdict.named {
        return Chosen { algorithm, rule: Some(rule) };
    }
    let allowed = cheapest_of(call, group, model, |algorithm| verdict.allows(algorithm));
    let algorithm = allowed.map_or_else(|| choose(call, group, model), |(algorithm, _)| algorithm);
    Chosen { algorithm, rule: None }
}

/// The algorithm [`plan`] takes.
pub fn choose(call: &Call<'_>, group: Group, model: &Model) -> &'static Algorithm {
    cheapest(call, group, model).0
}

/// The time of the algorithm that [`choose`] takes.
pub(crate) fn least<'m>(call: &Call<'_>, group: Group, model: &'m Model) -> Estimate<'m> {
    cheapest(call, group, model).1
}

fn cheapest<'m>(call: &Call<'_>, group: Group, model: &'m Model) -> (&'static Algorithm, Estimate<'m>) {
    cheapest_of(call, group, model, |_| true).expect("every operation has an algorithm without restrictions")
}

fn cheapest_of<'m>(
    call: &Call<'_>,
    group: Group,
    model: &'m Model,
    allows: impl Fn(&Algorithm) -> bool,
) -> Option<(&'static Algorithm, Estimate<'m>)> {
    let allowed = candidates(call, group, model).filter(|algorithm| allows(algorithm));
    let timed = allowed.map(|algorithm| (algorithm, algorithm.time(call, group, model)));
    timed.min_by(|a, b| a.1.seconds().total_cmp(&b.1.seconds()))
}

/// All algorithms that apply, with their modelled seconds, cheapest first.
pub fn rank_algorithms(call: &Call<'_>, group: Group, model: &Model) -> Vec<(&'static Algorithm, f64)> {
    let mut all: Vec<_> = candidates(call, group, model)
        .map(|algorithm| (algorithm, algorithm.seconds(call, group, model)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// The algorithms that apply to a call.
pub fn candidates(call: &Call<'_>, group: Group, model: &Model) -> impl Iterator<Item = &'static Algorithm> {
    algorithms::all().filter(move |algorithm| {
        algorithm.operations.contains(&call.name()) && (algorithm.applies)(call, group, model)
    })
}
