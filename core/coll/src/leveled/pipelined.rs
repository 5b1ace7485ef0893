//! Broadcast over the levels in segments: one is passed on inside a node while the next comes over the network.

use super::{SHAPES, stage_model, stages, tree_estimate};
use crate::call::Group;
use crate::circulant::skips;
use crate::model::{Estimate, Link, Model};
use crate::partition::Segments;
use crate::schedule::{Builder, CHANNELS};
use crate::tree::Shape;
use crate::{bcast, blocks};

/// How the segments of a stage travel.
#[derive(Clone, Copy, Debug)]
enum Way {
    Tree(Shape),
    /// On a circulant graph, in rounds.
    Blocks,
}

/// What a way takes: the first segment, and each further one of the busiest rank's processor and of its adapter.
#[derive(Clone, Copy, Debug)]
struct Time {
    first: f64,
    processor: f64,
    adapter: f64,
}

impl Time {
    fn of(way: Way, model: &Model, group: Group, bytes: f64) -> Time {
        let link = &model.inside;
        let Link { shared_per_message, shared_per_byte, .. } = *link;
        let adapter = shared_per_message + bytes * shared_per_byte;
        let work = link.overhead + bytes * link.per_byte_of_processor();
        match way {
            Way::Tree(shape) => {
                let others = group.size - 1;
                let levels = |radix: u32| f64::from(others.checked_ilog(radix).map_or(0, |log| log + 1));
                let (children, taken) = match shape {
                    Shape::Flat => (f64::from(others), 0.0),
                    Shape::Chain => (1.0, 1.0),
                    Shape::Binomial => (levels(2), 0.0),
                    Shape::Knomial(radix) => (f64::from(radix - 1) * levels(radix), 0.0),
                };
                let first = tree_estimate(model, group, bytes, false, shape).seconds();
                Time { first, processor: (children + taken) * work, adapter: children * adapter }
            }
            Way::Blocks => {
                let mut rounds = Estimate::new(model, group);
                skips(group.size).for_each(|(_, skip)| rounds.overlapping(1.0, skip, bytes, 0.0));
                Time { first: rounds.seconds(), processor: 2.0 * work * link.duplex, adapter }
            }
        }
    }

    fn all(&self, segments: f64) -> f64 {
        self.first + (segments - 1.0) * self.processor.max(self.adapter)
    }
}

/// The way that is the fastest for a stage by itself, and what it takes.
fn way(model: &Model, group: Group, segments: &Segments) -> (Way, Time) {
    let bytes = segments.length() as f64;
    let trees = SHAPES.into_iter().chain([Shape::Chain]).map(Way::Tree);
    let timed = trees.chain([Way::Blocks]).map(|way| (way, Time::of(way, model, group, bytes)));
    let count = f64::from(segments.count());
    timed.min_by(|a, b| a.1.all(count).total_cmp(&b.1.all(count))).expect("there are ways")
}

fn segments(bytes: u64, model: &Model) -> Segments {
    Segments::new(bytes, 1, model.segment(), CHANNELS)
}

/// Outwards to inwards, all stages at the same time. No two ranks talk to one another in two stages, so that each has the channels for itself.
pub(crate) fn bcast(b: &mut Builder, group: Group, model: &Model, root: u32, bytes: u64) {
    let segments = segments(bytes, model);
    if bytes == 0 {
        return;
    }
    for (level, stage) in stages(group, model, root).rev() {
        let (way, _) = way(&stage_model(model, level, 1.0), stage.group(), &segments);
        b.among(&stage.members, 0, |b| match way {
            Way::Tree(shape) => bcast::tree(b, stage.group(), stage.top, bytes, shape, model.segment()),
            Way::Blocks => blocks::bcast(b, stage.group(), stage.top, bytes, model.segment()),
        });
    }
}

/// Adds its time: those who stand for others have a part in several stages.
pub(crate) fn bcast_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, bytes: u64) {
    let segments = segments(bytes, model);
    let count = f64::from(segments.count());
    let (mut processor, mut adapter) = (0.0, 0.0_f64);
    for level in 0..=model.layout.levels.len() {
        let size = model.layout.widest(level, group.size);
        let (_, time) = way(&stage_model(model, level, 1.0), Group { rank: 0, size }, &segments);
        estimate.work(time.first);
        processor += time.processor;
        adapter = adapter.max(time.adapter);
    }
    let shared = model.ranks_per_core.max(1.0);
    estimate.work((count - 1.0) * (shared * processor).max(adapter));
    let messages = count * f64::from(group.size - 1);
    estimate.count(messages, messages * segments.length() as f64, messages);
}
