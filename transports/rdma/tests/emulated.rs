//! All tests over emulated devices, as one program: device, transport and kit are compiled once for all of them, which takes longer than
//! the tests do. Each file is a subject; `cargo test -p weft-rdma --test emulated rings::` runs one.

mod common;

mod addresses;
mod counts;
mod cut;
mod endings;
mod in_vain;
mod kit;
mod late;
mod own;
mod paths;
mod rails;
mod rings;
mod wide;
