//! Algorithms over the levels of a layout: inside the innermost groups first, then among those who stand for them, and so
//! on outwards (Karonis et al., *Exploiting hierarchy in parallel computer networks to optimize collective operation
//! performance*, 2000). A message crosses a level as seldom as can be.

pub(crate) mod pipelined;

use crate::barrier;
use crate::call::{Call, Group, Vector};
use crate::circulant::{Split, skips};
use crate::layout::{Layout, Stage};
use crate::model::{Estimate, Link, Model};
use crate::registry::{choose, least};
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::{Shape, Tree};
use crate::{bcast, gather, reduce};

/// Trees that a stage may use.
const SHAPES: [Shape; 3] = [Shape::Flat, Shape::Knomial(4), Shape::Binomial];

/// What a stage knows of the machine: the link of its level. `sharers` members of a group use its adapter at a time.
fn stage_model(model: &Model, level: usize, sharers: f64) -> Model {
    let link = model.layout.levels.get(level).map_or(&model.inside, |level| &level.link);
    let inside = Link {
        shared_per_message: link.shared_per_message * sharers,
        shared_per_byte: link.shared_per_byte * sharers,
        ..*link
    };
    Model { inside, layout: Layout::default(), ..model.clone() }
}

/// The stages with their levels, innermost first.
fn stages(
    group: Group,
    model: &Model,
    root: u32,
) -> impl DoubleEndedIterator<Item = (usize, Stage)> + ExactSizeIterator {
    let count = model.layout.levels.len();
    let stages = model.layout.stages(group.rank, group.size, root);
    stages.into_iter().enumerate().map(move |(depth, stage)| (count - depth, stage))
}

impl Stage {
    pub(crate) fn group(&self) -> Group {
        Group { rank: self.place, size: self.members.len() }
    }
}

/// The tree that takes `bytes` down (or, combining, up) the fastest.
fn shape(model: &Model, group: Group, bytes: f64, combining: bool) -> Shape {
    let time = |shape: &Shape| tree_estimate(model, group, bytes, combining, *shape).seconds();
    SHAPES.into_iter().min_by(|a, b| time(a).total_cmp(&time(b))).expect("there are shapes")
}

fn tree_estimate<'m>(
    model: &'m Model,
    group: Group,
    bytes: f64,
    combining: bool,
    shape: Shape,
) -> Estimate<'m> {
    let mut estimate = Estimate::new(model, group);
    match combining {
        true => reduce::estimate(&mut estimate, group, bytes, shape),
        false => bcast::estimate(&mut estimate, group, bytes, shape),
    }
    estimate
}

/// Barrier: arrive inwards to outwards, meet at the top, release.
pub(crate) fn barrier(b: &mut Builder, group: Group, model: &Model) {
    let mut gate = Vec::new();
    let mut below = Vec::new();
    for (level, stage) in stages(group, model, 0) {
        if level == 0 {
            b.among(&stage.members, 0, |b| barrier::add_dissemination(b, stage.group(), &mut gate));
            break;
        }
        let tree = Tree::new(
            shape(&stage_model(model, level, 1.0), stage.group(), 0.0, true),
            stage.place,
            stage.group().size,
        );
        b.among(&stage.members, 0, |b| barrier::add_arrival(b, &tree, &mut gate));
        below.push((stage, tree));
    }
    for (stage, tree) in below.into_iter().rev() {
        b.among(&stage.members, 0, |b| barrier::add_release(b, &tree, &gate));
    }
}

/// Broadcast outwards to inwards, each stage as is cheapest there.
pub(crate) fn bcast(b: &mut Builder, group: Group, model: &Model, root: u32, bytes: u64) {
    for (level, stage) in stages(group, model, root).rev() {
        let model = stage_model(model, level, 1.0);
        let call = Call::Bcast { root: stage.top, bytes };
        b.among(&stage.members, 0, |b| {
            choose(&call, stage.group(), &model).add(b, &call, stage.group(), &model)
        });
    }
}

/// Appends a reduction inwards to outwards of every rank's `own`, up to level `until`; into `result` where given.
fn add_reduce(
    b: &mut Builder,
    group: Group,
    model: &Model,
    (root, until): (u32, usize),
    vector: Vector,
    mut own: Range,
    result: Option<Range>,
) {
    for (level, stage) in stages(group, model, root) {
        if level < until {
            break;
        }
        let is_top = stage.place == stage.top;
        let result = is_top.then(|| result.unwrap_or_else(|| b.operand_scratch(own.bytes)));
        let shape = shape(&stage_model(model, level, 1.0), stage.group(), own.bytes as f64, true);
        b.among(&stage.members, 0, |b| {
            reduce::add_tree(b, stage.group(), stage.top, vector, own, result, shape);
        });
        match result {
            Some(result) => own = result,
            None => break,
        }
    }
}

/// Reduction to one rank. Right for any operation if the layout is contiguous and the root is rank 0.
pub(crate) fn reduce(
    b: &mut Builder,
    group: Group,
    model: &Model,
    root: u32,
    vector: Vector,
    in_place: bool,
) {
    let is_root = group.rank == root;
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let own = Range::new(if is_root && in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = is_root.then_some(Range::new(Buffer::Recv, 0, bytes));
    add_reduce(b, group, model, (root, 0), vector, own, result);
}

/// Allreduce: one rank of each outermost group combines for it. Right for any operation if the layout is contiguous.
pub(crate) fn allreduce(b: &mut Builder, group: Group, model: &Model, vector: Vector, in_place: bool) {
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let own = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = Range::new(Buffer::Recv, 0, bytes);
    add_reduce(b, group, model, (0, 1), vector, own, Some(result));
    let stages: Vec<_> = stages(group, model, 0).collect();
    if let Some((0, stage)) = stages.last() {
        let model = stage_model(model, 0, 1.0);
        let call = Call::Allreduce { vector, in_place: true };
        b.among(&stage.members, 0, |b| {
            choose(&call, stage.group(), &model).add(b, &call, stage.group(), &model)
        });
    }
    for (level, stage) in stages.into_iter().rev().filter(|&(level, _)| level > 0) {
        let model = stage_model(model, level, 1.0);
        let call = Call::Bcast { root: stage.top, bytes };
        b.among(&stage.members, 0, |b| {
            choose(&call, stage.group(), &model).add(b, &call, stage.group(), &model)
        });
    }
}

/// Allreduce in which every rank of an outermost group combines a part of the vector for it, so that all of them use the
/// network. For groups of equal size that follow one another, and operations that commute.
pub(crate) fn allreduce_split(b: &mut Builder, group: Group, model: &Model, vector: Vector, in_place: bool) {
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let result = Range::new(Buffer::Recv, 0, bytes);
    if !in_place {
        b.copy(Range::new(Buffer::Send, 0, bytes), result);
    }
    let together = model.layout.levels[0].groups.fullest(group.size);
    let (node, place) = (group.rank / together, group.rank % together);
    let inside = crate::layout::Members::strided(node * together, 1, together);
    let across = crate::layout::Members::strided(place, together, group.size / together);
    let split = Split::new(vector, together);
    b.among(&inside, 0, |b| split.scatter(b, place));
    let (offset, part) = split.part(place);
    if part > 0 {
        let among = Group { rank: node, size: across.len() };
        let vector = Vector { count: part / vector.element, ..vector };
        let model = stage_model(model, 0, f64::from(together));
        let call = Call::Allreduce { vector, in_place: true };
        b.among(&across, offset, |b| choose(&call, among, &model).add(b, &call, among, &model));
    }
    b.among(&inside, 0, |b| split.gather(b, place));
}

/// Allgather: collected inwards to outwards, exchanged at the top, given out again. For layouts of equal blocks at every
/// level.
pub(crate) fn allgather(b: &mut Builder, group: Group, model: &Model, bytes: u64, in_place: bool) {
    let Group { rank, size } = group;
    if bytes == 0 {
        return;
    }
    let mine = Range::new(Buffer::Recv, u64::from(rank) * bytes, bytes);
    if !in_place {
        b.copy(Range::new(Buffer::Send, 0, bytes), mine);
    }
    let stages: Vec<_> = stages(group, model, 0).collect();
    // Ranks for which each member of the stage stands.
    let stands_for =
        |level: usize| model.layout.levels.get(level).map_or(1, |level| level.groups.fullest(size));
    for (level, stage) in stages.iter().filter(|&&(level, _)| level > 0) {
        let offset = u64::from(stage.members.rank(0)) * bytes;
        let block = bytes * u64::from(stands_for(*level));
        let own = Range::new(Buffer::Recv, u64::from(stage.place) * block, block);
        b.among(&stage.members, offset, |b| {
            gather::add_gather(b, stage.group(), 0, own, Buffer::Recv, true, Shape::Flat)
        });
    }
    if let Some((0, stage)) = stages.last() {
        let model = stage_model(model, 0, 1.0);
        let call = Call::Allgather { bytes: bytes * u64::from(stands_for(0)), in_place: true };
        b.among(&stage.members, 0, |b| {
            choose(&call, stage.group(), &model).add(b, &call, stage.group(), &model)
        });
    }
    for (level, stage) in stages.into_iter().rev().filter(|&(level, _)| level > 0) {
        let model = stage_model(model, level, 1.0);
        let call = Call::Bcast { root: 0, bytes: bytes * u64::from(size) };
        b.among(&stage.members, 0, |b| {
            choose(&call, stage.group(), &model).add(b, &call, stage.group(), &model)
        });
    }
}

/// Adds the time of a stage at `level`, which all groups run at once.
fn stage(
    estimate: &mut Estimate<'_>,
    group: Group,
    model: &Model,
    level: usize,
    add: impl FnOnce(Group, &Model, &mut Estimate<'_>),
) {
    let size = model.layout.widest(level, group.size);
    let copies = level.checked_sub(1).map_or(1, |outer| model.layout.levels[outer].groups.groups(group.size));
    let model = stage_model(model, level, 1.0);
    let group = Group { rank: 0, size };
    let mut part = Estimate::new(&model, group);
    add(group, &model, &mut part);
    estimate.within(f64::from(copies), &part);
}

/// Adds the time of the cheapest algorithm of a stage.
fn best(estimate: &mut Estimate<'_>, group: Group, model: &Model, level: usize, call: &Call<'_>) {
    stage(estimate, group, model, level, |group, model, part| {
        part.within(1.0, &least(call, group, model));
    });
}

/// Adds a reduction at every level from the innermost to `until`.
fn inwards(estimate: &mut Estimate<'_>, group: Group, model: &Model, until: usize, bytes: f64) {
    for level in (until..=model.layout.levels.len()).rev() {
        stage(estimate, group, model, level, |group, model, part| {
            let shape = shape(model, group, bytes, true);
            reduce::estimate(part, group, bytes, shape);
        });
    }
}

pub(crate) fn barrier_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model) {
    inwards(estimate, group, model, 1, 0.0);
    stage(estimate, group, model, 0, |group, _, part| barrier::dissemination_estimate(part, group, 2));
    for level in 1..=model.layout.levels.len() {
        stage(estimate, group, model, level, |group, model, part| {
            bcast::estimate(part, group, 0.0, shape(model, group, 0.0, true));
        });
    }
}

pub(crate) fn bcast_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, bytes: u64) {
    for level in 0..=model.layout.levels.len() {
        best(estimate, group, model, level, &Call::Bcast { root: 0, bytes });
    }
}

pub(crate) fn reduce_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, bytes: u64) {
    inwards(estimate, group, model, 0, bytes as f64);
}

pub(crate) fn allreduce_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, vector: Vector) {
    inwards(estimate, group, model, 1, vector.bytes() as f64);
    best(estimate, group, model, 0, &Call::Allreduce { vector, in_place: true });
    for level in 1..=model.layout.levels.len() {
        best(estimate, group, model, level, &Call::Bcast { root: 0, bytes: vector.bytes() });
    }
}

pub(crate) fn split_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, vector: Vector) {
    let together = model.layout.levels[0].groups.fullest(group.size);
    let nodes = group.size / together;
    let node = Group { rank: 0, size: together };
    let mut inner = model.layout.clone();
    inner.levels.remove(0);
    let within = Model { layout: inner, ..model.clone() };
    let mut part = Estimate::new(&within, node);
    circulant_estimate(&mut part, node, vector.bytes() as f64, 2.0, 1.0);
    estimate.within(f64::from(nodes), &part);
    let across = stage_model(model, 0, f64::from(together));
    let vector = Vector { count: vector.count.div_ceil(u64::from(together)), ..vector };
    let call = Call::Allreduce { vector, in_place: true };
    let among = Group { rank: 0, size: nodes };
    // Where what all ranks of a node send in a round has passed the adapter before an answer can come, one rank's round hides behind another's.
    let link = &model.layout.levels[0].link;
    let passes =
        f64::from(together) * (link.shared_per_message + vector.bytes() as f64 * link.shared_per_byte);
    if passes <= link.latency {
        let alone = stage_model(model, 0, 1.0);
        let part = choose(&call, among, &across).time(&call, among, &alone);
        estimate.within(f64::from(together), &part);
        estimate.work(passes);
    } else {
        estimate.within(f64::from(together), &least(&call, among, &across));
    }
}

pub(crate) fn allgather_estimate(estimate: &mut Estimate<'_>, group: Group, model: &Model, bytes: u64) {
    let levels = &model.layout.levels;
    let stands_for = |level: usize| levels.get(level).map_or(1, |level| level.groups.fullest(group.size));
    for level in (1..=levels.len()).rev() {
        let block = bytes * u64::from(stands_for(level));
        stage(estimate, group, model, level, |_, _, part| part.with_all(block as f64));
    }
    best(
        estimate,
        group,
        model,
        0,
        &Call::Allgather { bytes: bytes * u64::from(stands_for(0)), in_place: true },
    );
    for level in 1..=levels.len() {
        best(estimate, group, model, level, &Call::Bcast { root: 0, bytes: bytes * u64::from(group.size) });
    }
}

/// Reduce-scatter (and allgather, `phases` = 2) on a circulant graph of a vector of `bytes`.
pub(crate) fn circulant_estimate(
    estimate: &mut Estimate<'_>,
    group: Group,
    bytes: f64,
    phases: f64,
    reduced: f64,
) {
    for (before, skip) in skips(group.size) {
        let moved = bytes * f64::from(before - skip) / f64::from(group.size);
        estimate.exchange(phases, skip, moved);
        estimate.combine(reduced * moved);
    }
}
