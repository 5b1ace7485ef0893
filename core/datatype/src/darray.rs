//! `MPI_Type_create_darray` (section 5.1.4): one process's part of an array distributed over a grid of processes.

use crate::constructors::input;
use crate::decode::{Form, Recorder};
use crate::object::Datatype;
use crate::typemap::{TypeMap, add, mul};
use weft_types::abi::*;
use weft_types::{Error, ErrorClass, Result};

/// How an array is distributed; all slices have one entry for each dimension.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// Processes in the grid, the product of `processes`.
    pub size: i32,
    /// Which of them; the grid is in row-major order always.
    pub rank: i32,
    /// Elements of the whole array.
    pub sizes: &'a [i64],
    /// `MPI_DISTRIBUTE_BLOCK`, `_CYCLIC` or `_NONE`.
    pub distributions: &'a [i32],
    /// Elements of a block, or `MPI_DISTRIBUTE_DFLT_DARG`.
    pub arguments: &'a [i32],
    /// Processes.
    pub processes: &'a [i32],
    /// `MPI_ORDER_C` or `MPI_ORDER_FORTRAN`: how the array is stored.
    pub order: i32,
}

impl Datatype {
    /// `MPI_Type_create_darray`: the elements of `grid.rank`, with the whole array's extent.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` naming the dimension and the rule, `MPI_ERR_COUNT` when the array does not fit 64 bits.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn darray(grid: &Grid<'_>, old: &Datatype, form: Form) -> Result<Datatype> {
        let blocks = grid.block_sizes()?;
        let coordinates = grid.coordinates();
        let mut map = input(old)?;
        let mut extent = old.bounds().extent;
        for step in 0..grid.sizes.len() {
            // From the fastest dimension to the slowest.
            let i = if grid.order == MPI_ORDER_C { grid.sizes.len() - 1 - step } else { step };
            map =
                cyclic(map, blocks[i], grid.sizes[i], coordinates[i], i64::from(grid.processes[i]), extent)?;
            extent = mul(extent, grid.sizes[i])?;
        }
        let integers =
            |all: Recorder, values: &[i32]| values.iter().fold(all, |all, &value| all.integer(value));
        let mut recorder = Recorder::new(MPI_COMBINER_DARRAY, form)
            .integer(grid.size)
            .integer(grid.rank)
            .integer(grid.sizes.len() as i32)
            .counts(grid.sizes);
        for values in [grid.distributions, grid.arguments, grid.processes] {
            recorder = integers(recorder, values);
        }
        let contents = recorder.integer(grid.order).datatype(old).done();
        Datatype::derived(map.resized(0, extent)?, false, contents)
    }
}

impl Grid<'_> {
    /// Elements of one block in each dimension, after all checks.
    fn block_sizes(&self) -> Result<Vec<i64>> {
        let dimensions = self.sizes.len();
        assert!(
            [self.distributions.len(), self.arguments.len(), self.processes.len()] == [dimensions; 3],
            "one entry for each dimension"
        );
        let wrong = |text: String| Err(Error::new(ErrorClass::ARG, text));
        if dimensions == 0 {
            return wrong("ndims is 0; a distributed array has at least one dimension".to_owned());
        }
        if self.order != MPI_ORDER_C && self.order != MPI_ORDER_FORTRAN {
            return wrong(format!("order is {}; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN", self.order));
        }
        if self.size < 1 || !(0..self.size).contains(&self.rank) {
            return wrong(format!(
                "rank is {} and size is {}; the rule is 0 <= rank < size",
                self.rank, self.size
            ));
        }
        if let Some(i) = self.processes.iter().position(|&processes| processes < 1) {
            return wrong(format!("array_of_psizes[{i}] is {}; it must be positive", self.processes[i]));
        }
        let product = self.processes.iter().try_fold(1_i32, |all, &processes| all.checked_mul(processes));
        if product != Some(self.size) {
            return wrong(format!(
                "the product of array_of_psizes {:?} must be size, which is {} (section 5.1.4)",
                self.processes, self.size
            ));
        }
        (0..dimensions).map(|i| self.block_size(i)).collect()
    }

    fn block_size(&self, i: usize) -> Result<i64> {
        let (size, processes) = (self.sizes[i], i64::from(self.processes[i]));
        let (distribution, argument) = (self.distributions[i], self.arguments[i]);
        let wrong = |text: String| Err(Error::new(ErrorClass::ARG, text));
        if size < 1 {
            return wrong(format!("array_of_gsizes[{i}] is {size}; it must be positive"));
        }
        let default = argument == MPI_DISTRIBUTE_DFLT_DARG;
        if !default && argument < 1 && distribution != MPI_DISTRIBUTE_NONE {
            return wrong(format!(
                "array_of_dargs[{i}] is {argument}; it must be positive or MPI_DISTRIBUTE_DFLT_DARG"
            ));
        }
        match distribution {
            MPI_DISTRIBUTE_NONE if processes != 1 => wrong(format!(
                "array_of_psizes[{i}] is {processes}, but the dimension is not distributed (MPI_DISTRIBUTE_NONE); it \
                 must be 1"
            )),
            MPI_DISTRIBUTE_NONE => Ok(size),
            MPI_DISTRIBUTE_BLOCK if default => Ok(size / processes + i64::from(size % processes != 0)),
            MPI_DISTRIBUTE_BLOCK if i64::from(argument) * processes < size => wrong(format!(
                "array_of_dargs[{i}] * array_of_psizes[{i}] = {argument} * {processes} is less than \
                 array_of_gsizes[{i}] = {size}; blocks of that size do not hold the array"
            )),
            MPI_DISTRIBUTE_CYCLIC if default => Ok(1),
            MPI_DISTRIBUTE_BLOCK | MPI_DISTRIBUTE_CYCLIC => Ok(i64::from(argument)),
            other => wrong(format!(
                "array_of_distribs[{i}] is {other}; it must be MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC or \
                 MPI_DISTRIBUTE_NONE"
            )),
        }
    }

    /// Where the process stands in the grid.
    fn coordinates(&self) -> Vec<i64> {
        let (mut rank, mut size) = (self.rank, self.size);
        let place = |&processes: &i32| {
            size /= processes;
            let here = rank / size;
            rank %= size;
            i64::from(here)
        };
        self.processes.iter().map(place).collect()
    }
}

/// Blocks `coordinate`, `coordinate + processes`, ... of `block` copies of the map, `extent` bytes apart, of an array
/// of `size` copies; the last block may be cut short.
fn cyclic(
    map: TypeMap,
    block: i64,
    size: i64,
    coordinate: i64,
    processes: i64,
    extent: i64,
) -> Result<TypeMap> {
    // Copies in full rounds over all processes, and what is left of the last round here.
    let round = block.saturating_mul(processes);
    let rounds = size / round;
    let rest = (size % round).saturating_sub(block.saturating_mul(coordinate)).clamp(0, block);
    let mut parts = Vec::new();
    if rounds > 0 {
        let full = map.clone().repeated(block, extent)?;
        let full = if rounds > 1 { full.repeated(rounds, mul(round, extent)?)? } else { full };
        parts.push(full.shifted(mul(mul(coordinate, block)?, extent)?)?);
    }
    if rest > 0 {
        let at = add(mul(rounds, round)?, mul(coordinate, block)?)?;
        parts.push(map.repeated(rest, extent)?.shifted(mul(at, extent)?)?);
    }
    TypeMap::joined(parts)
}
