use super::*;
use proptest::prelude::*;

/// `nodes` nodes of `ranks` ranks each; ranks are dealt out node after node, or one to each in turn.
fn machine(nodes: u32, ranks: u32, cyclic: bool) -> Vec<Seat> {
    let node = |rank| if cyclic { rank % nodes } else { rank / ranks };
    (0..nodes * ranks).map(|rank| Seat::on_node(node(rank))).collect()
}

fn across_nodes(edges: &impl Edges, seats: &[Seat]) -> (u64, u64) {
    let identity: Vec<u32> = (0..seats.len() as u32).collect();
    let before = spread(edges, seats, &identity)[0];
    let after =
        arrange(edges, seats, Work::default()).map_or(before, |order| spread(edges, seats, &order)[0]);
    (before, after)
}

#[test]
fn a_grid_is_cut_into_blocks() {
    let grid = Grid::new(&[8, 8], &[false, false]);
    // Rows of two nodes' halves become quadrants of 4 x 4.
    assert_eq!(across_nodes(&grid, &machine(4, 16, false)), (48, 32));
    assert_eq!(across_nodes(&grid, &machine(4, 16, true)).1, 32);
    let torus = Grid::new(&[8, 8], &[true, true]);
    assert_eq!(across_nodes(&torus, &machine(4, 16, true)), (128, 64));
}

#[test]
fn what_is_good_stays() {
    let seats = machine(4, 8, false);
    assert_eq!(arrange(&Grid::new(&[32], &[false]), &seats, Work::default()), None, "a line, cut thrice");
    assert_eq!(arrange(&Grid::new(&[4, 8], &[false, false]), &[Seat::on_node(3); 32], Work::default()), None);
    assert_eq!(arrange(&Grid::new(&[], &[]), &[Seat::on_node(3)], Work::default()), None);
    assert_eq!(arrange(&Grid::new(&[3], &[true]), &seats, Work::default()), None, "too many seats");
}

#[test]
fn a_graph_finds_its_clusters() {
    // Eight cliques of six whose members are scattered over the ranks, with light edges from one to the next.
    let mut edges = Vec::new();
    for clique in 0..8_u32 {
        for left in 0..6 {
            edges.extend((0..left).map(|right| (left * 8 + clique, right * 8 + clique, 10)));
        }
        edges.push((clique, (clique + 1) % 8, 1));
    }
    let graph = Traffic::new(48, &edges);
    let (before, after) = across_nodes(&graph, &machine(8, 6, false));
    assert_eq!((before, after), (1202, 8));
}

#[test]
fn levels_below_the_node_count_too() {
    // One node, two packages of eight cores; ranks alternate between the packages.
    let seat = |rank: u32| Seat([0, rank % 2, rank % 2, rank % 2, rank]);
    let seats: Vec<Seat> = (0..16).map(seat).collect();
    let grid = Grid::new(&[4, 4], &[false, false]);
    let identity: Vec<u32> = (0..16).collect();
    let before = spread(&grid, &seats, &identity);
    let order = arrange(&grid, &seats, Work::default()).expect("better");
    let after = spread(&grid, &seats, &order);
    assert_eq!((before[1], after[1]), (24, 8));
    assert_eq!(before.iter().sum::<u64>(), after.iter().sum::<u64>());
}

#[test]
fn half_a_million_places_take_bounded_effort() {
    let seats: Vec<Seat> = (0..1 << 19).map(|rank| Seat::on_node(rank % 4096)).collect();
    let (before, after) = across_nodes(&Grid::new(&[512, 1024], &[true, true]), &seats);
    assert!(after * 4 < before, "{before} {after}");
}

fn permutation(order: &[u32]) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted.iter().copied().eq(0..order.len() as u32)
}

fn any_seats(count: usize) -> impl Strategy<Value = Vec<Seat>> {
    prop::collection::vec((0u32..4, 0u32..2, 0u32..2), count).prop_map(|seats| {
        let seat = |(node, package, core)| Seat([node, package, package, package, 2 * package + core]);
        seats.into_iter().map(seat).collect()
    })
}

fn check(edges: &impl Edges, seats: &[Seat]) -> Result<(), TestCaseError> {
    let identity: Vec<u32> = (0..seats.len() as u32).collect();
    let before = spread(edges, seats, &identity);
    if let Some(order) = arrange(edges, seats, Work::new(1 << 18)) {
        prop_assert!(permutation(&order));
        let after = spread(edges, seats, &order);
        prop_assert!(after < before && after[0] <= before[0]);
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_grid_gets_worse(
        (dims, periodic, seats) in prop::collection::vec((1u32..6, any::<bool>()), 1..4).prop_flat_map(|sides| {
            let (dims, periodic): (Vec<u32>, Vec<bool>) = sides.into_iter().unzip();
            let count = dims.iter().product::<u32>() as usize;
            (Just(dims), Just(periodic), any_seats(count))
        })
    ) {
        check(&Grid::new(&dims, &periodic), &seats)?;
    }

    #[test]
    fn no_graph_gets_worse(
        edges in prop::collection::vec((0u32..24, 0u32..24, 0u64..100), 0..120),
        seats in any_seats(24),
    ) {
        check(&Traffic::new(24, &edges), &seats)?;
    }

    #[test]
    fn seats_travel(words in any::<[u32; LEVELS]>()) {
        prop_assert_eq!(Seat::from_bytes(&Seat(words).to_bytes()), Seat(words));
    }
}
