//! A bad network on purpose: datagrams that are lost, doubled and overtaken, from a seed.

use std::net::SocketAddr;

/// How bad it is: chances between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The same seed makes the same faults of the same traffic.
    pub seed: u64,
    /// That a datagram is lost.
    pub loss: f64,
    /// That it comes twice.
    pub doubling: f64,
    /// That the next one overtakes it.
    pub overtaking: f64,
}

/// What happens to the datagrams of one sender.
#[derive(Debug)]
pub(crate) struct Mischief {
    faults: Faults,
    state: u64,
    /// One that the next overtakes.
    late: Option<(SocketAddr, Vec<u8>)>,
}

impl Mischief {
    pub(crate) fn new(faults: Faults) -> Mischief {
        Mischief { faults, state: faults.seed, late: None }
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn chance(&mut self, of: f64) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ z >> 31) >> 11) as f64) < of * (1_u64 << 53) as f64
    }

    /// What leaves in place of a datagram, in order.
    pub(crate) fn of(&mut self, to: SocketAddr, datagram: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut leave = Vec::new();
        if !self.chance(self.faults.loss) {
            leave.push((to, datagram.to_vec()));
            if self.chance(self.faults.doubling) {
                leave.push((to, datagram.to_vec()));
            }
        }
        if self.late.is_none() && self.chance(self.faults.overtaking) {
            self.late = leave.pop();
        } else {
            leave.extend(self.late.take());
        }
        leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_faults_of_the_chances_that_were_asked_for() {
        let faults = Faults { seed: 7, loss: 0.1, doubling: 0.05, overtaking: 0.05 };
        let to: SocketAddr = "10.0.0.1:4791".parse().unwrap();
        let run = || -> Vec<u8> {
            let mut mischief = Mischief::new(faults);
            (0..=255)
                .cycle()
                .take(10_000)
                .flat_map(|n: u8| mischief.of(to, &[n]))
                .map(|(_, d)| d[0])
                .collect()
        };
        let once = run();
        assert_eq!(once, run());
        let expected = 10_000.0 * 0.9 * 1.05;
        assert!((once.len() as f64 - expected).abs() < 300.0, "{} of {expected}", once.len());
        assert!(once.windows(2).filter(|pair| pair[0] == pair[1].wrapping_add(1)).count() > 200, "overtaken");
    }
}
