//! Datatypes, layouts, pack and unpack, predefined reductions.
