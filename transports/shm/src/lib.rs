//! Node-local transport: rings, inline cells, single copy, sleeping and waking.
