//! libmpi_abi: the C entry points on the MPI standard ABI.
