//! Cartesian topologies (sections 8.5.1 and 8.5.5 to 8.5.7): row-major grids, each dimension periodic or not.

use weft_types::{Error, ErrorClass, Result, abi};

/// A Cartesian topology: the numbers of processes and the periodicity of each dimension. No dimension at all is a grid of one
/// process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    dims: Box<[i32]>,
    periods: Box<[bool]>,
}

impl Cart {
    /// A grid with `dims[i]` processes in dimension `i`; `periods` has as many entries.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS` for an empty dimension or more than 2^31-1 processes.
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Cart> {
        debug_assert_eq!(dims.len(), periods.len());
        if let Some(at) = dims.iter().position(|&extent| extent < 1) {
            return Err(Error::new(
                ErrorClass::DIMS,
                format!("dims[{at}] is {}; each dimension has at least one process", dims[at]),
            ));
        }
        if dims.iter().try_fold(1_i32, |size, &extent| size.checked_mul(extent)).is_none() {
            return Err(Error::new(
                ErrorClass::DIMS,
                format!("dims = {dims:?} multiply to more than {} processes", i32::MAX),
            ));
        }
        Ok(Cart { dims: dims.into(), periods: periods.into() })
    }

    /// As [`Cart::new`], for the members of a group of `available` processes.
    ///
    /// # Errors
    /// As [`Cart::new`]; `MPI_ERR_DIMS` for a grid larger than the group.
    pub fn within(dims: &[i32], periods: &[bool], available: u32) -> Result<Cart> {
        let cart = Cart::new(dims, periods)?;
        match cart.size() <= available {
            true => Ok(cart),
            false => Err(Error::new(
                ErrorClass::DIMS,
                format!(
                    "dims = {dims:?} make a grid of {} processes; the communicator has {available}",
                    cart.size()
                ),
            )),
        }
    }

    /// Number of processes in each dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Whether each dimension is periodic.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Number of dimensions.
    pub fn ndims(&self) -> usize {
        self.dims.len()
    }

    /// Number of processes in the grid.
    pub fn size(&self) -> u32 {
        self.dims.iter().product::<i32>() as u32
    }

    /// The coordinates of a rank, one for each dimension.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank that is not in the grid.
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>> {
        let size = self.size();
        if rank < 0 || rank as u32 >= size {
            return Err(Error::new(
                ErrorClass::RANK,
                format!("rank is {rank}; the Cartesian topology has the ranks 0 to {}", size - 1),
            ));
        }
        let mut rest = rank;
        let mut coords = vec![0; self.ndims()];
        for (coordinate, &extent) in coords.iter_mut().zip(&self.dims).rev() {
            *coordinate = rest % extent;
            rest /= extent;
        }
        Ok(coords)
    }

    /// The rank at coordinates; those of periodic dimensions wrap around.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a coordinate outside a dimension that is not periodic.
    pub fn rank(&self, coords: &[i32]) -> Result<i32> {
        let mut rank = 0;
        for (at, &extent) in self.dims.iter().enumerate() {
            let Some(inside) = self.inside(at, i64::from(coords[at])) else {
                return Err(Error::new(
                    ErrorClass::ARG,
                    format!(
                        "coords[{at}] is {}; dimension {at} is not periodic and has the coordinates 0 to {}",
                        coords[at],
                        extent - 1
                    ),
                ));
            };
            rank = rank * extent + inside;
        }
        Ok(rank)
    }

    /// Where a coordinate ends up; `None` beyond the border of a dimension that is not periodic.
    fn inside(&self, dimension: usize, coordinate: i64) -> Option<i32> {
        let extent = i64::from(self.dims[dimension]);
        match self.periods[dimension] {
            true => Some(coordinate.rem_euclid(extent) as i32),
            false => (0..extent).contains(&coordinate).then_some(coordinate as i32),
        }
    }

    /// Source and destination of a shift by `disp` along `direction`, seen from `rank`; `MPI_PROC_NULL` beyond a border.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS` when there is no such dimension; `MPI_ERR_RANK` as [`Cart::coords`].
    pub fn shift(&self, rank: i32, direction: i32, disp: i32) -> Result<(i32, i32)> {
        let dimension = usize::try_from(direction).ok().filter(|&dimension| dimension < self.ndims());
        let Some(dimension) = dimension else {
            let has = match self.ndims() {
                0 => "the Cartesian topology has no dimension to shift along".to_owned(),
                count => format!("the Cartesian topology has the dimensions 0 to {}", count - 1),
            };
            return Err(Error::new(ErrorClass::DIMS, format!("direction is {direction}; {has}")));
        };
        let coords = self.coords(rank)?;
        let stride: i32 = self.dims[dimension + 1..].iter().product();
        let at = |step: i64| match self.inside(dimension, i64::from(coords[dimension]) + step) {
            Some(coordinate) => rank + (coordinate - coords[dimension]) * stride,
            None => abi::MPI_PROC_NULL,
        };
        Ok((at(-i64::from(disp)), at(i64::from(disp))))
    }

    /// The neighbours of a rank in the order of section 8.6: for each dimension the one at -1, then the one at +1;
    /// `MPI_PROC_NULL` beyond a border. Always twice as many as dimensions.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` as [`Cart::coords`].
    pub fn neighbors(&self, rank: i32) -> Result<Vec<i32>> {
        self.coords(rank)?;
        let mut neighbors = Vec::with_capacity(2 * self.ndims());
        for dimension in 0..self.ndims() {
            let (below, above) = self.shift(rank, dimension as i32, 1)?;
            neighbors.extend([below, above]);
        }
        Ok(neighbors)
    }

    /// The subgrid of the dimensions that remain, and the ranks here of those in it together with `rank`, in its order
    /// (section 8.5.7).
    ///
    /// # Errors
    /// `MPI_ERR_RANK` as [`Cart::coords`].
    pub fn sub(&self, rank: i32, remain: &[bool]) -> Result<(Cart, Vec<i32>)> {
        let own = self.coords(rank)?;
        let kept: Vec<usize> = (0..self.ndims()).filter(|&dimension| remain[dimension]).collect();
        let cart = Cart {
            dims: kept.iter().map(|&dimension| self.dims[dimension]).collect(),
            periods: kept.iter().map(|&dimension| self.periods[dimension]).collect(),
        };
        let mut members = Vec::with_capacity(cart.size() as usize);
        for inner in 0..cart.size() as i32 {
            let mut coords = own.clone();
            for (&dimension, coordinate) in kept.iter().zip(cart.coords(inner)?) {
                coords[dimension] = coordinate;
            }
            members.push(self.rank(&coords)?);
        }
        Ok((cart, members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid(dims: &[i32], periods: &[bool]) -> Cart {
        Cart::new(dims, periods).expect("a grid")
    }

    #[test]
    fn numbering_is_row_major() {
        let cart = grid(&[2, 2], &[false, false]);
        let coords: Vec<_> = (0..4).map(|rank| cart.coords(rank).expect("inside")).collect();
        assert_eq!(coords, [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }

    #[test]
    fn coordinates_wrap_in_periodic_dimensions_only() {
        let cart = grid(&[3, 4], &[true, false]);
        assert_eq!(cart.rank(&[-1, 2]), Ok(10));
        assert_eq!(cart.rank(&[i32::MIN, 0]), cart.rank(&[i32::MIN.rem_euclid(3), 0]));
        let error = cart.rank(&[0, 4]).expect_err("outside");
        assert_eq!(error.class(), ErrorClass::ARG);
        assert_eq!(
            error.text(),
            "coords[1] is 4; dimension 1 is not periodic and has the coordinates 0 to 3"
        );
    }

    #[test]
    fn shifts_end_at_borders_and_go_round_in_circles() {
        let cart = grid(&[3, 4], &[true, false]);
        assert_eq!(cart.shift(0, 0, 1), Ok((8, 4)));
        assert_eq!(cart.shift(0, 1, 1), Ok((abi::MPI_PROC_NULL, 1)));
        assert_eq!(cart.shift(3, 1, -1), Ok((abi::MPI_PROC_NULL, 2)));
        assert_eq!(cart.shift(5, 0, 7), Ok((1, 9)));
        assert_eq!(cart.shift(5, 1, 0), Ok((5, 5)));
        assert_eq!(cart.shift(0, 0, i32::MIN), cart.shift(0, 0, i32::MIN.rem_euclid(3)));
        assert_eq!(cart.shift(0, 2, 1).expect_err("no such").class(), ErrorClass::DIMS);
        assert_eq!(cart.shift(0, -1, 1).expect_err("no such").class(), ErrorClass::DIMS);
        assert_eq!(grid(&[], &[]).shift(0, 0, 1).expect_err("no dimension").class(), ErrorClass::DIMS);
    }

    #[test]
    fn neighbors_come_by_dimension_negative_first() {
        let null = abi::MPI_PROC_NULL;
        assert_eq!(grid(&[3, 3], &[false, true]).neighbors(0), Ok(vec![null, 3, 2, 1]));
        assert_eq!(grid(&[1], &[true]).neighbors(0), Ok(vec![0, 0]));
        assert_eq!(grid(&[1], &[false]).neighbors(0), Ok(vec![null, null]));
        assert_eq!(grid(&[], &[]).neighbors(0), Ok(vec![]));
    }

    #[test]
    fn subgrids_of_example_8_8() {
        let cart = grid(&[2, 3, 4], &[true, false, true]);
        let (sub, members) = cart.sub(5, &[true, false, true]).expect("inside");
        assert_eq!((sub.dims(), sub.periods()), (&[2, 4][..], &[true, true][..]));
        assert_eq!(members, [4, 5, 6, 7, 16, 17, 18, 19]);
        let (sub, members) = cart.sub(5, &[false; 3]).expect("inside");
        assert_eq!((sub.ndims(), sub.size(), members), (0, 1, vec![5]));
    }

    #[test]
    fn grids_that_cannot_be_are_named() {
        let text = |dims: &[i32], size| {
            Cart::within(dims, &vec![false; dims.len()], size).expect_err("no grid").text().to_owned()
        };
        assert_eq!(text(&[2, 0], 9), "dims[1] is 0; each dimension has at least one process");
        assert_eq!(text(&[2, 2], 3), "dims = [2, 2] make a grid of 4 processes; the communicator has 3");
        assert!(text(&[1 << 20, 1 << 20], 9).contains("more than 2147483647 processes"));
    }

    proptest! {
        #[test]
        fn ranks_and_coordinates_are_inverse(dims in prop::collection::vec(1i32..5, 0..5), periodic in any::<bool>()) {
            let cart = grid(&dims, &vec![periodic; dims.len()]);
            for rank in 0..cart.size() as i32 {
                let coords = cart.coords(rank).expect("inside");
                prop_assert_eq!(cart.rank(&coords), Ok(rank));
            }
        }

        #[test]
        fn source_and_destination_of_a_shift_mirror_each_other(
            dims in prop::collection::vec((1i32..5, any::<bool>()), 1..4),
            disp in -9i32..9,
        ) {
            let (dims, periods): (Vec<i32>, Vec<bool>) = dims.into_iter().unzip();
            let cart = grid(&dims, &periods);
            for direction in 0..dims.len() as i32 {
                for rank in 0..cart.size() as i32 {
                    let (source, dest) = cart.shift(rank, direction, disp).expect("legal");
                    if dest >= 0 {
                        prop_assert_eq!(cart.shift(dest, direction, disp).expect("legal").0, rank);
                    }
                    if source >= 0 {
                        prop_assert_eq!(cart.shift(source, direction, disp).expect("legal").1, rank);
                    }
                }
            }
        }
    }
}
