//! Every algorithm against the model, message by message: which is chosen, and what the best would have taken.
//!
//! `cargo run --profile fast -p weft-coll --example scale -- NODES RANKS_PER_NODE OPERATION BYTES`

use weft_coll::registry::rank_algorithms;
use weft_coll::simulation::simulate;
use weft_coll::{Call, Group, Model, Partition, Vector};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, per_node, operation, bytes] = &arguments[..] else {
        eprintln!("usage: scale NODES RANKS_PER_NODE OPERATION BYTES");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let (nodes, per_node, bytes) = (number(nodes), number(per_node), u64::from(number(bytes)));
    let size = nodes * per_node;
    let vector = Vector { count: bytes.div_ceil(8), element: 8, commutative: true };
    let counts = vec![vector.count; size as usize];
    let call = match operation.as_str() {
        "barrier" => Call::Barrier,
        "bcast" => Call::Bcast { root: 0, bytes },
        "reduce" => Call::Reduce { root: 0, vector, in_place: false },
        "allreduce" => Call::Allreduce { vector, in_place: false },
        "allgather" => Call::Allgather { bytes, in_place: false },
        "alltoall" => Call::Alltoall { bytes, in_place: false },
        "reduce_scatter" => Call::ReduceScatter {
            counts: &counts,
            vector: Vector { count: vector.count * u64::from(size), ..vector },
            in_place: false,
        },
        _ => panic!("no such operation"),
    };
    let model = Model::cluster(Partition::Block(per_node));
    for (algorithm, modelled) in rank_algorithms(&call, Group { rank: 0, size }, &model) {
        let simulated = match modelled {
            // What is hopeless would take the longest to look at.
            slow if slow > 50e-3 => None,
            _ => simulate(algorithm, &call, size, &model),
        };
        match simulated {
            Some(outcome) => println!(
                "{:26} model {:10.2} us, simulated {:10.2} us, {} messages, {} of them between nodes",
                algorithm.name,
                modelled * 1e6,
                outcome.seconds * 1e6,
                outcome.messages,
                outcome.far_messages
            ),
            None => println!("{:26} model {:10.2} us", algorithm.name, modelled * 1e6),
        }
    }
}
