//! `MPI_Dims_create` (section 8.5.2): a number of nodes as a product of dimensions that are as close to each other as possible.
//!
//! "As close as possible" is taken by its words: the largest difference between two of the dimensions that are free to choose
//! is as small as possible; among equals the smallest largest one wins, then the smallest second largest, and so on. The search
//! walks through the divisors and leaves a branch as soon as it cannot come closer than the best found, so highly composite
//! numbers and primes near 2^31 take microseconds.

use weft_types::{Error, ErrorClass, Result};

/// Fills the zeros of `dims` so that the product of all is `nnodes`; positive entries stay. The entries set are in nonincreasing
/// order.
///
/// # Errors
/// `MPI_ERR_ARG` when `nnodes` is not positive; `MPI_ERR_DIMS` for a negative entry or a product of the given entries that does
/// not allow `nnodes` nodes.
pub fn balance(nnodes: i32, dims: &mut [i32]) -> Result<()> {
    if nnodes < 1 {
        return Err(Error::new(ErrorClass::ARG, format!("nnodes is {nnodes}; a grid has at least one node")));
    }
    if let Some(at) = dims.iter().position(|&extent| extent < 0) {
        return Err(Error::new(
            ErrorClass::DIMS,
            format!("dims[{at}] is {}; give 0 to have it chosen, or the number of nodes wanted", dims[at]),
        ));
    }
    let fixed = dims.iter().filter(|&&extent| extent > 0);
    let product = fixed.fold(1_i64, |product, &extent| product.saturating_mul(i64::from(extent)));
    let free = dims.iter().filter(|&&extent| extent == 0).count();
    let whole = i64::from(nnodes);
    if whole % product != 0 || free == 0 && product != whole {
        let rule = if free == 0 { "equal" } else { "divide" };
        return Err(Error::new(
            ErrorClass::DIMS,
            format!("the given entries of dims multiply to {product}, which must {rule} nnodes = {nnodes}"),
        ));
    }
    let mut chosen = closest((whole / product) as u32, free).into_iter();
    for extent in dims.iter_mut().filter(|extent| **extent == 0) {
        *extent = chosen.next().expect("one for each free dimension") as i32;
    }
    Ok(())
}

/// `count` factors of `number`, nonincreasing, with the smallest difference between first and last.
fn closest(number: u32, count: usize) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    // More dimensions than prime factors: the rest are 1, and what is left is to keep the largest small.
    let primes = prime_factors(number);
    if primes.len() <= count {
        let mut factors: Vec<u32> = primes.into_iter().rev().collect();
        factors.resize(count, 1);
        return factors;
    }
    let mut search = Search {
        divisors: divisors(&primes),
        spread: u32::MAX,
        best: Vec::new(),
        chosen: Vec::with_capacity(count),
    };
    search.descend(number, count, number);
    search.best
}

struct Search {
    /// All divisors, ascending.
    divisors: Vec<u32>,
    /// Largest minus smallest of the best so far.
    spread: u32,
    best: Vec<u32>,
    chosen: Vec<u32>,
}

impl Search {
    /// Writes `rest` as `count` nonincreasing factors of at most `most`. Candidates are tried from the smallest on, so that of
    /// several answers with one spread the lexicographically smallest is met first.
    fn descend(&mut self, rest: u32, count: usize, most: u32) {
        let largest = self.chosen.first().copied();
        if count == 1 {
            let spread = largest.unwrap_or(rest) - rest;
            if rest <= most && spread < self.spread {
                self.spread = spread;
                self.best.clone_from(&self.chosen);
                self.best.push(rest);
            }
            return;
        }
        let first = self.divisors.partition_point(|&divisor| !reaches(divisor, count, rest));
        for at in first..self.divisors.len() {
            let factor = self.divisors[at];
            if factor > most {
                return;
            }
            if !rest.is_multiple_of(factor) {
                continue;
            }
            let left = rest / factor;
            // The smallest of the others is at most their geometric mean: no answer below here is closer than that.
            let largest = largest.unwrap_or(factor);
            if largest.saturating_sub(root(left, count - 1)) >= self.spread {
                if self.chosen.is_empty() {
                    // A larger first factor makes the others smaller still.
                    return;
                }
                continue;
            }
            self.chosen.push(factor);
            self.descend(left, count - 1, factor);
            self.chosen.pop();
        }
    }
}

/// Whether `factor` to the power `count` is at least `product`.
fn reaches(factor: u32, count: usize, product: u32) -> bool {
    let mut power = 1_u64;
    for _ in 0..count {
        power *= u64::from(factor);
        if power >= u64::from(product) {
            return true;
        }
    }
    power >= u64::from(product)
}

/// The largest whole number whose power `degree` is at most `number`.
fn root(number: u32, degree: usize) -> u32 {
    let (mut low, mut high) = (1, number);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let within = middle == 1 || {
            let mut power = 1_u64;
            (0..degree).all(|_| {
                power *= u64::from(middle);
                power <= u64::from(number)
            })
        };
        if within {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The prime factors, ascending, with their multiplicity.
fn prime_factors(mut number: u32) -> Vec<u32> {
    let mut primes = Vec::new();
    let mut candidate = 2;
    while candidate <= number / candidate {
        while number.is_multiple_of(candidate) {
            primes.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        primes.push(number);
    }
    primes
}

/// All divisors of the product of the primes, ascending.
fn divisors(primes: &[u32]) -> Vec<u32> {
    let mut divisors = vec![1];
    for &prime in primes {
        let with: Vec<u32> = divisors.iter().map(|divisor| divisor * prime).collect();
        divisors.extend(with);
        divisors.sort_unstable();
        divisors.dedup();
    }
    divisors
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dims<const N: usize>(nnodes: i32, mut dims: [i32; N]) -> [i32; N] {
        balance(nnodes, &mut dims).expect("possible");
        dims
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(dims(6, [0, 0]), [3, 2]);
        assert_eq!(dims(7, [0, 0]), [7, 1]);
        assert_eq!(dims(6, [0, 3, 0]), [2, 3, 1]);
        let error = balance(7, &mut [0, 3, 0]).expect_err("3 does not divide 7");
        assert_eq!(error.class(), ErrorClass::DIMS);
        assert_eq!(error.text(), "the given entries of dims multiply to 3, which must divide nnodes = 7");
    }

    #[test]
    fn borders() {
        assert_eq!(dims(1, []), []);
        assert_eq!(dims(1, [0, 0, 0]), [1, 1, 1]);
        assert_eq!(dims(12, [4, 0]), [4, 3]);
        assert_eq!(dims(4, [2, 2]), [2, 2]);
        for (nnodes, given) in [(2, &[][..]), (8, &[2, 2]), (4, &[-1, 0]), (4, &[i32::MAX, i32::MAX, 0])] {
            let error = balance(nnodes, &mut given.to_vec()).expect_err("impossible");
            assert_eq!(error.class(), ErrorClass::DIMS, "{given:?}");
        }
        assert_eq!(balance(0, &mut [0]).expect_err("nothing").class(), ErrorClass::ARG);
        assert_eq!(balance(-4, &mut [0]).expect_err("nothing").class(), ErrorClass::ARG);
    }

    #[test]
    fn greedy_methods_fall_into_these() {
        assert_eq!(dims(16, [0, 0, 0]), [4, 2, 2]);
        assert_eq!(dims(72, [0, 0, 0]), [6, 4, 3]);
        assert_eq!(dims(2744, [0, 0, 0]), [14, 14, 14]);
        assert_eq!(dims(1440, [0, 0, 0]), [12, 12, 10]);
        assert_eq!(dims(100_000, [0, 0, 0]), [50, 50, 40]);
    }

    #[test]
    fn huge_prime_and_highly_composite_numbers() {
        assert_eq!(dims(i32::MAX, [0, 0, 0]), [i32::MAX, 1, 1]);
        assert_eq!(dims(1 << 30, [0; 10]), [8; 10]);
        assert_eq!(dims(1 << 30, [0; 3]), [1024; 3]);
        // The number below 2^31 with most divisors (1536), in every number of dimensions.
        for count in 1..=40 {
            let mut dims = vec![0; count];
            balance(2_095_133_040, &mut dims).expect("possible");
            assert_eq!(dims.iter().map(|&extent| i64::from(extent)).product::<i64>(), 2_095_133_040);
        }
    }

    /// Every way to write `number` as `count` nonincreasing factors.
    fn all(number: u32, count: usize, most: u32, chosen: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
        if count == 0 {
            if number == 1 {
                found.push(chosen.clone());
            }
            return;
        }
        for factor in (1..=number.min(most)).filter(|&factor| number.is_multiple_of(factor)) {
            chosen.push(factor);
            all(number / factor, count - 1, factor, chosen, found);
            chosen.pop();
        }
    }

    #[test]
    fn small_cases_against_brute_force() {
        for number in 1..=400 {
            for count in 1..=5 {
                let mut found = Vec::new();
                all(number, count, number, &mut Vec::new(), &mut found);
                let best = found.into_iter().min_by_key(|dims| (dims[0] - dims[count - 1], dims.clone()));
                assert_eq!(Some(closest(number, count)), best, "{number} nodes in {count} dimensions");
            }
        }
    }

    proptest! {
        #[test]
        fn given_entries_stay_and_the_product_is_right(
            fixed in prop::collection::vec(0i32..6, 0..6),
            more in 1i32..2000,
        ) {
            let product: i32 = fixed.iter().filter(|&&extent| extent > 0).product();
            let mut dims = fixed.clone();
            let nnodes = if fixed.contains(&0) { product * more } else { product };
            balance(nnodes, &mut dims).expect("possible");
            prop_assert_eq!(dims.iter().product::<i32>(), nnodes);
            prop_assert!(dims.iter().zip(&fixed).all(|(now, then)| *then == 0 || now == then));
            let set: Vec<i32> = dims.iter().zip(&fixed).filter(|(_, then)| **then == 0).map(|(now, _)| *now).collect();
            prop_assert!(set.is_sorted_by(|left, right| left >= right));
        }
    }
}
