//! A small client of the crate `mpi` (rsmpi): ring, reduction and scan over all ranks.

use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().expect("MPI was not initialised before");
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());

    let next = world.process_at_rank((rank + 1) % size);
    let before = world.process_at_rank((rank + size - 1) % size);
    let mut token = [0i64; 1000];
    let mine: Vec<i64> = (0..1000).map(|i| i64::from(rank) * 10_000 + i).collect();
    mpi::point_to_point::send_receive_into(&mine[..], &next, &mut token[..], &before);
    let from = i64::from((rank + size - 1) % size);
    assert!(token.iter().enumerate().all(|(i, &value)| value == from * 10_000 + i as i64));

    let mut sum = 0i32;
    world.all_reduce_into(&rank, &mut sum, mpi::collective::SystemOperation::sum());
    assert_eq!(sum, size * (size - 1) / 2);
    let mut prefix = 0i32;
    world.scan_into(&1i32, &mut prefix, mpi::collective::SystemOperation::sum());
    assert_eq!(prefix, rank + 1);
    world.barrier();
    println!("PASS rank {rank} of {size}");
}
