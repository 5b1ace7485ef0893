use super::cart::Cart;
use super::dist_graph::DistGraph;
use super::graph::Graph;
use super::steps::Driver;
use weft_types::{Handle, Result};
pub fn for_cart<D: Driver>(_driver: &D, _parent: Handle, _cart: &Cart) -> Result<Option<Vec<u32>>> {
    Ok(None)
}
pub fn for_graph<D: Driver>(_driver: &D, _parent: Handle, _graph: &Graph) -> Result<Option<Vec<u32>>> {
    Ok(None)
}
pub fn for_dist_graph<D: Driver>(
    _driver: &D,
    _parent: Handle,
    own: DistGraph,
) -> Result<(DistGraph, Option<Vec<u32>>)> {
    Ok((own, None))
}
pub fn map_cart(process: &mut crate::Process, comm: Handle, cart: &Cart) -> Result<Option<u32>> {
    let rank = process.comms.get(comm)?.rank.0;
    Ok((rank < cart.size()).then_some(rank))
}
pub fn map_graph(process: &mut crate::Process, comm: Handle, graph: &Graph) -> Result<Option<u32>> {
    let rank = process.comms.get(comm)?.rank.0;
    Ok((rank < graph.size()).then_some(rank))
}
