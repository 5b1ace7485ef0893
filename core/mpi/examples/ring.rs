//! A number travels around all ranks, and all add up their ranks: `mpiexec -n 4 ring`.

use weft::{Reduce, Universe};

fn main() -> weft_types::Result<()> {
    let universe = Universe::init()?;
    let world = universe.world();
    let (rank, size) = (world.rank()?, world.size()?);
    let next = (rank + 1) % size;
    let before = (rank + size - 1) % size;
    if rank == 0 {
        world.send(&[1_u64], next, 0)?;
    }
    let (token, _) = world.receive::<u64>(Some(before), Some(0))?;
    if rank != 0 {
        world.send(&[token[0] * 2], next, 0)?;
    } else {
        println!("the token came back as {}", token[0]);
    }
    let sum = world.allreduce(&[rank], Reduce::Sum)?;
    assert_eq!(sum, [size * (size - 1) / 2]);
    Ok(())
}
