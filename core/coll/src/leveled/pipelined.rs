//! Broadcast and reductions over the levels in segments: one is passed on inside a node while the next comes over the network, and one is combined in the
//! nodes while the last one goes from node to node.

use super::{SHAPES, stage_model, stages, tree_estimate};
use crate::call::{Group, Vector};
use crate::circulant::skips;
use crate::model::{Estimate, Link, Model};
use crate::partition::Segments;
use crate::schedule::{Buffer, Builder, CHANNELS, Range};
use crate::tree::Shape;
use crate::{bcast, blocks, reduce};

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
    fn of(way: Way, model: &Model, group: Group, bytes: f64, combining: bool) -> Time {
        let link = &model.inside;
        let Link { shared_per_message, shared_per_byte, .. } = *link;
        let adapter = shared_per_message + bytes * shared_per_byte;
        let work = link.overhead + bytes * link.per_byte_of_processor();
        let combine = if combining { bytes * model.per_byte_reduced } else { 0.0 };
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
                let first = tree_estimate(model, group, bytes, combining, shape).seconds();
                let processor = (children + taken) * work + children * combine;
                Time { first, processor, adapter: children * adapter }
            }
            Way::Blocks => {
                let mut rounds = Estimate::new(model, group);
                let combined = if combining { bytes } else { 0.0 };
                skips(group.size).for_each(|(_, skip)| rounds.overlapping(1.0, skip, bytes, combined));
                let processor = 2.0 * work * link.duplex + combine;
                Time { first: rounds.seconds(), processor, adapter }
            }
        }
    }

    fn all(&self, segments: f64) -> f64 {
        self.first + (segments - 1.0) * self.processor.max(self.adapter)
    }
}

/// The way that is the fastest for a stage by itself, and what it takes; of a reduction that keeps the order of ranks a tree.
fn way(model: &Model, group: Group, segments: &Segments, combining: bool, commutative: bool) -> (Way, Time) {
    let bytes = segments.length() as f64;
    let trees = SHAPES.into_iter().chain([Shape::Chain]).map(Way::Tree);
    let blocks = commutative.then_some(Way::Blocks);
    let timed = trees.chain(blocks).map(|way| (way, Time::of(way, model, group, bytes, combining)));
    let count = f64::from(segments.count());
    timed.min_by(|a, b| a.1.all(count).total_cmp(&b.1.all(count))).expect("there are ways")
}

fn segments(bytes: u64, model: &Model) -> Segments {
    Segments::new(bytes, 1, model.segment(), CHANNELS)
}

/// Outwards to inwards, all stages at the same time. No two ranks talk to one another in two stages, so that each has the channels for itself.
pub(crate) fn bcast(b: &mut Builder, group: Group, model: &Model, root: u32, bytes: u64) {
    if bytes > 0 {
        add_bcast(b, group, model, root, bytes, segments(bytes, model), 0);
    }
}

fn add_bcast(
    b: &mut Builder,
    group: Group,
    model: &Model,
    root: u32,
    bytes: u64,
    segments: Segments,
    first_channel: u32,
) {
    let segment = segments.length();
    for (level, stage) in stages(group, model, root).rev() {
        let (way, _) = way(&stage_model(model, level, 1.0), stage.group(), &segments, false, true);
        b.as_stage(&stage.members, None, first_channel, |b| match way {
            Way::Tree(shape) => bcast::tree(b, stage.group(), stage.top, bytes, shape, segment),
            Way::Blocks => blocks::bcast(b, stage.group(), stage.top, bytes, segment),
        });
    }
}

/// Channels of either half of an allreduce: two ranks may send to one another in both.
const HALF: u32 = CHANNELS / 2;

fn segments_of(vector: Vector, model: &Model, most: u32) -> Segments {
    Segments::new(vector.bytes(), vector.element, model.segment(), most)
}

/// Inwards to outwards to `root`, all stages at the same time. Right for any operation if the layout is contiguous and the root is rank 0.
#[allow(clippy::too_many_arguments, reason = "who, what, from where to where, and in which segments")]
fn add_reduce(
    b: &mut Builder,
    group: Group,
    model: &Model,
    root: u32,
    vector: Vector,
    mut own: Range,
    result: Option<Range>,
    segments: Segments,
) {
    for (level, stage) in stages(group, model, root) {
        let (among, is_top) = (stage.group(), stage.place == stage.top);
        if among.size < 2 {
            continue;
        }
        let (way, _) = way(&stage_model(model, level, 1.0), among, &segments, true, vector.commutative);
        let result = is_top.then(|| result.unwrap_or_else(|| b.operand_scratch(own.bytes)));
        b.among(&stage.members, 0, |b| match way {
            Way::Tree(shape) => {
                reduce::add_segments(b, among, stage.top, vector, own, result, (shape, segments));
            }
            Way::Blocks => {
                blocks::add_reduce(b, among, stage.top, vector.element, own, result, segments.length());
            }
        });
        match result {
            Some(result) => own = result,
            None => return,
        }
    }
    if let Some(result) = result {
        b.copy(own, result);
    }
}

/// Reduction to one rank.
pub(crate) fn reduce(
    b: &mut Builder,
    group: Group,
    model: &Model,
    root: u32,
    vector: Vector,
    in_place: bool,
) {
    let (is_root, bytes) = (group.rank == root, vector.bytes());
    if bytes == 0 {
        return;
    }
    let own = Range::new(if is_root && in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = is_root.then_some(Range::new(Buffer::Recv, 0, bytes));
    add_reduce(b, group, model, root, vector, own, result, segments_of(vector, model, CHANNELS));
}

/// Reduction to rank 0 and broadcast, each segment as soon as it is combined.
pub(crate) fn allreduce(b: &mut Builder, group: Group, model: &Model, vector: Vector, in_place: bool) {
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let own = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = (group.rank == 0).then_some(Range::new(Buffer::Recv, 0, bytes));
    let segments = segments_of(vector, model, HALF);
    add_reduce(b, group, model, 0, vector, own, result, segments);
    add_bcast(b, group, model, 0, bytes, segments, HALF);
}

/// What all stages take: those who stand for others have a part in several.
#[derive(Clone, Copy, Debug, Default)]
struct Through {
    first: f64,
    processor: f64,
    adapter: f64,
}

impl Through {
    fn of(group: Group, model: &Model, segments: &Segments, combining: bool, commutative: bool) -> Through {
        let mut through = Through::default();
        for level in 0..=model.layout.levels.len() {
            let size = model.layout.widest(level, group.size);
            let stage = stage_model(model, level, 1.0);
            let (_, time) = way(&stage, Group { rank: 0, size }, segments, combining, commutative);
            through.first += time.first;
            through.processor += time.processor;
            through.adapter = through.adapter.max(time.adapter);
        }
        through
    }

    /// Of one after the other of each segment.
    fn and(self, other: Through) -> Through {
        Through {
            first: self.first + other.first,
            processor: self.processor + other.processor,
            adapter: self.adapter + other.adapter,
        }
    }

    fn add(
        self,
        estimate: &mut Estimate<'_>,
        group: Group,
        model: &Model,
        segments: &Segments,
        messages: f64,
    ) {
        let count = f64::from(segments.count());
        let shared = model.ranks_per_core.max(1.0);
        estimate.work(self.first + (count - 1.0) * (shared * self.processor).max(self.adapter));
        let messages = messages * count * f64::from(group.size - 1);
        estimate.count(messages, messages * segments.length() as f64, messages);
    }
}

/// Adds the time of a broadcast.
pub(crate) fn bcast_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, bytes: u64) {
    let segments = segments(bytes, model);
    Through::of(group, model, &segments, false, true).add(estimate, group, model, &segments, 1.0);
}

/// Adds the time of a reduction to one rank.
pub(crate) fn reduce_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, vector: Vector) {
    let segments = segments_of(vector, model, CHANNELS);
    Through::of(group, model, &segments, true, vector.commutative)
        .add(estimate, group, model, &segments, 1.0);
}

/// Adds the time of a reduction to all.
pub(crate) fn allreduce_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, vector: Vector) {
    let segments = segments_of(vector, model, HALF);
    let up = Through::of(group, model, &segments, true, vector.commutative);
    let down = Through::of(group, model, &segments, false, true);
    up.and(down).add(estimate, group, model, &segments, 2.0);
}
