//! The PMI-1 and PMI-2 wire protocols, as text: what launchers and their processes say to each other over an
//! inherited socket.
//!
//! [`wire1`], [`wire2`] and [`mapping`] are pure; [`client1`] and [`client2`] speak them over a [`channel::LauncherSocket`].
//! The server side of PMI-1 is in `weft-launch`.

pub mod channel;
pub mod client1;
pub mod client2;
pub mod mapping;
pub mod wire1;
pub mod wire2;
