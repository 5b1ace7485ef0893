//! Groups by lists and ranges of ranks (section 7.3.2). Ranges stay ranges: a range of a strided group costs the same
//! whatever its length.

use super::{Group, Pieces};
use weft_types::{Error, ErrorClass, PeerId, Rank, Result};

/// Ranks `first, first + stride, ...`, `count` of them, all inside the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progression {
    first: u32,
    stride: i32,
    count: u32,
}

impl Progression {
    fn at(self, step: u32) -> u32 {
        (i64::from(self.first) + i64::from(self.stride) * i64::from(step)) as u32
    }

    fn lowest(self) -> u32 {
        self.first.min(self.at(self.count - 1))
    }

    fn highest(self) -> u32 {
        self.first.max(self.at(self.count - 1))
    }
}

impl Group {
    /// The members of the given ranks, in that order (`MPI_Group_incl`).
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank outside the group or one given twice.
    pub fn include(&self, ranks: impl IntoIterator<Item = i32>) -> Result<Group> {
        let mut seen = Seen::new(self.size());
        let mut members = Pieces::default();
        for rank in ranks {
            let rank = self.check(rank)?;
            seen.add(rank.0)?;
            members.push(self.peer(rank));
        }
        Ok(members.finish())
    }

    /// The group without the members of the given ranks, in the order here (`MPI_Group_excl`).
    ///
    /// # Errors
    /// As [`Group::include`].
    pub fn exclude(&self, ranks: impl IntoIterator<Item = i32>) -> Result<Group> {
        let mut seen = Seen::new(self.size());
        let mut out = Vec::new();
        for rank in ranks {
            let rank = self.check(rank)?;
            seen.add(rank.0)?;
            out.push(rank.0);
        }
        out.sort_unstable();
        Ok(self.without(out))
    }

    /// The members of `(first, last, stride)` triplets of ranks, in that order (`MPI_Group_range_incl`).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a stride of zero or of the wrong sign, `MPI_ERR_RANK` for a rank outside the group or one in two
    /// ranges.
    pub fn include_ranges(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        let ranges = self.progressions(ranges)?;
        let mut members = Pieces::default();
        for range in ranges {
            match self {
                Group::Strided { stride, .. } => {
                    let first = self.peer(Rank(range.first));
                    match stride.checked_mul(range.stride) {
                        Some(stride) => members.push_progression(first, stride, range.count),
                        // Only a single member can be so far from the next one.
                        None => members.push(first),
                    }
                }
                _ => (0..range.count).for_each(|step| members.push(self.peer(Rank(range.at(step))))),
            }
        }
        Ok(members.finish())
    }

    /// The group without the members of `(first, last, stride)` triplets of ranks, in the order here
    /// (`MPI_Group_range_excl`).
    ///
    /// # Errors
    /// As [`Group::include_ranges`].
    pub fn exclude_ranges(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        let mut out = self.progressions(ranges)?;
        if out.iter().all(|range| range.count == 1 || range.stride.abs() == 1) {
            // Intervals: what lies between them.
            out.sort_unstable_by_key(|range| range.lowest());
            let mut members = Pieces::default();
            let mut next = 0;
            for range in out {
                members.push_ranks(self, next, range.lowest());
                next = range.highest() + 1;
            }
            members.push_ranks(self, next, self.size());
            return Ok(members.finish());
        }
        let mut ranks: Vec<u32> =
            out.into_iter().flat_map(|range| (0..range.count).map(move |step| range.at(step))).collect();
        ranks.sort_unstable();
        Ok(self.without(ranks))
    }

    /// The group without the given ranks, which ascend.
    fn without(&self, ranks: Vec<u32>) -> Group {
        let mut members = Pieces::default();
        let mut next = 0;
        for rank in ranks {
            members.push_ranks(self, next, rank);
            next = rank + 1;
        }
        members.push_ranks(self, next, self.size());
        members.finish()
    }

    /// The ranks that triplets stand for, checked.
    fn progressions(&self, ranges: &[[i32; 3]]) -> Result<Vec<Progression>> {
        let mut all = Vec::with_capacity(ranges.len());
        for (index, &[first, last, stride]) in ranges.iter().enumerate() {
            let wrong = |reason: &str| {
                Error::new(
                    ErrorClass::ARG,
                    format!("ranges[{index}] is ({first}, {last}, {stride}): {reason}"),
                )
            };
            if stride == 0 {
                return Err(wrong("the stride is 0; it must be negative or positive"));
            }
            if (stride > 0) != (last >= first) && last != first {
                return Err(wrong("it never reaches its last rank; the sign of the stride is wrong"));
            }
            let lowest = self.check(first)?;
            let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
            self.check((i64::from(first) + steps * i64::from(stride)) as i32)?;
            let stride = if steps == 0 { 1 } else { stride };
            all.push(Progression { first: lowest.0, stride, count: steps as u32 + 1 });
        }
        self.check_disjoint(&all)?;
        Ok(all)
    }

    fn check_disjoint(&self, ranges: &[Progression]) -> Result<()> {
        // Ranges that lie one behind the other need no look at their ranks.
        let mut spans: Vec<(u32, u32)> = ranges.iter().map(|r| (r.lowest(), r.highest())).collect();
        spans.sort_unstable();
        if spans.windows(2).all(|pair| pair[0].1 < pair[1].0) {
            return Ok(());
        }
        let mut seen = Seen::new(self.size());
        let mut ranks = ranges.iter().flat_map(|range| (0..range.count).map(|step| range.at(step)));
        ranks.try_for_each(|rank| seen.add(rank))
    }
}

/// Which ranks were given: a bit each.
#[derive(Debug)]
struct Seen(Vec<u64>);

impl Seen {
    fn new(size: u32) -> Seen {
        Seen(vec![0; (size as usize).div_ceil(64)])
    }

    fn add(&mut self, rank: u32) -> Result<()> {
        let (word, bit) = (rank as usize / 64, 1 << (rank % 64));
        if self.0[word] & bit != 0 {
            return Err(Error::new(
                ErrorClass::RANK,
                format!("rank {rank} is given twice; a group has each process once"),
            ));
        }
        self.0[word] |= bit;
        Ok(())
    }
}

impl Group {
    /// The members in that order. The caller has excluded duplicates.
    pub fn from_peers(peers: impl IntoIterator<Item = PeerId>) -> Group {
        peers.into_iter().collect()
    }
}
