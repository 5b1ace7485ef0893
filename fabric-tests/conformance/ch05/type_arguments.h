/* One row for each procedure that moves data of a datatype: what its datatypes are called and whether it reads (s) or writes (r)
 * their elements here, what its counts are called, and its arguments, in which T(i) and N(i) are those.
 * ROW: there is a form for large counts too. Included by type_arguments.c, once for each form.
 */
ROW(Accumulate, "s:origin_datatype r:target_datatype", "origin_count target_count", (out, N(0), T(0), 0, 0, N(1),
    T(1), MPI_SUM, win))
ROW(Allgather, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), comm))
ROW(Allgather_init, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), comm,
    MPI_INFO_NULL, &request))
ROW(Allgatherv, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1), DISPLACEMENTS, T(1),
    comm))
ROW(Allgatherv_init, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1), DISPLACEMENTS,
    T(1), comm, MPI_INFO_NULL, &request))
ROW(Allreduce, "r:datatype", "count", (out, in, N(0), T(0), op, comm))
ROW(Allreduce_init, "r:datatype", "count", (out, in, N(0), T(0), op, comm, MPI_INFO_NULL, &request))
ROW(Alltoall, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), comm))
ROW(Alltoall_init, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), comm,
    MPI_INFO_NULL, &request))
ROW(Alltoallv, "s:sendtype r:recvtype", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, T(0), in, COUNTS(1),
    DISPLACEMENTS, T(1), comm))
ROW(Alltoallv_init, "s:sendtype r:recvtype", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, T(0), in,
    COUNTS(1), DISPLACEMENTS, T(1), comm, MPI_INFO_NULL, &request))
ROW(Alltoallw, "s:sendtypes r:recvtypes", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, MANY(0), in,
    COUNTS(1), DISPLACEMENTS, MANY(1), comm))
ROW(Alltoallw_init, "s:sendtypes r:recvtypes", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, MANY(0), in,
    COUNTS(1), DISPLACEMENTS, MANY(1), comm, MPI_INFO_NULL, &request))
ROW(Bcast, "s:datatype", "count", (in, N(0), T(0), 0, comm))
ROW(Bcast_init, "s:datatype", "count", (in, N(0), T(0), 0, comm, MPI_INFO_NULL, &request))
ROW(Bsend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm))
ROW(Bsend_init, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ONLY(Compare_and_swap, "s:datatype", "", (out, out, in, T(0), 0, 0, win))
ROW(Exscan, "r:datatype", "count", (out, in, N(0), T(0), op, comm))
ROW(Exscan_init, "r:datatype", "count", (out, in, N(0), T(0), op, comm, MPI_INFO_NULL, &request))
ONLY(Fetch_and_op, "s:datatype", "", (out, in, T(0), 0, 0, MPI_SUM, win))
ROW(Gather, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), 0, comm))
ROW(Gather_init, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), 0, comm,
    MPI_INFO_NULL, &request))
ROW(Gatherv, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1), DISPLACEMENTS, T(1), 0,
    comm))
ROW(Gatherv_init, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1), DISPLACEMENTS,
    T(1), 0, comm, MPI_INFO_NULL, &request))
ROW(Get, "r:origin_datatype s:target_datatype", "origin_count target_count", (out, N(0), T(0), 0, 0, N(1), T(1), win))
ROW(Get_accumulate, "s:origin_datatype r:result_datatype r:target_datatype", "origin_count result_count target_count",
    (out, N(0), T(0), in, N(1), T(1), 0, 0, N(2), T(2), MPI_SUM, win))
ROW(Iallgather, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), comm, &request))
ROW(Iallgatherv, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1), DISPLACEMENTS,
    T(1), comm, &request))
ROW(Iallreduce, "r:datatype", "count", (out, in, N(0), T(0), op, comm, &request))
ROW(Ialltoall, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), comm, &request))
ROW(Ialltoallv, "s:sendtype r:recvtype", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, T(0), in, COUNTS(1),
    DISPLACEMENTS, T(1), comm, &request))
ROW(Ialltoallw, "s:sendtypes r:recvtypes", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, MANY(0), in,
    COUNTS(1), DISPLACEMENTS, MANY(1), comm, &request))
ROW(Ibcast, "s:datatype", "count", (in, N(0), T(0), 0, comm, &request))
ROW(Ibsend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Iexscan, "r:datatype", "count", (out, in, N(0), T(0), op, comm, &request))
ROW(Igather, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), 0, comm, &request))
ROW(Igatherv, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1), DISPLACEMENTS, T(1),
    0, comm, &request))
ROW(Ineighbor_allgather, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), ring,
    &request))
ROW(Ineighbor_allgatherv, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1),
    DISPLACEMENTS, T(1), ring, &request))
ROW(Ineighbor_alltoall, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), ring,
    &request))
ROW(Ineighbor_alltoallv, "s:sendtype r:recvtype", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, T(0), in,
    COUNTS(1), DISPLACEMENTS, T(1), ring, &request))
ROW(Ineighbor_alltoallw, "s:sendtypes r:recvtypes", "sendcounts recvcounts", (out, COUNTS(0), ADDRESSES, MANY(0), in,
    COUNTS(1), ADDRESSES, MANY(1), ring, &request))
ROW(Irecv, "r:datatype", "count", (in, N(0), T(0), 0, 0, comm, &request))
ROW(Ireduce, "r:datatype", "count", (out, in, N(0), T(0), op, 0, comm, &request))
ROW(Ireduce_scatter, "r:datatype", "recvcounts", (out, in, COUNTS(0), T(0), op, comm, &request))
ROW(Ireduce_scatter_block, "r:datatype", "recvcount", (out, in, N(0), T(0), op, comm, &request))
ROW(Irsend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Iscan, "r:datatype", "count", (out, in, N(0), T(0), op, comm, &request))
ROW(Iscatter, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), 0, comm, &request))
ROW(Iscatterv, "s:sendtype r:recvtype", "sendcounts recvcount", (out, COUNTS(0), DISPLACEMENTS, T(0), in, N(1), T(1),
    0, comm, &request))
ROW(Isend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Isendrecv, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), 0, 0, in, N(1), T(1), 0, 0, comm,
    &request))
ROW(Isendrecv_replace, "r:datatype", "count", (in, N(0), T(0), 0, 0, 0, 0, comm, &request))
ROW(Issend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Neighbor_allgather, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), ring))
ROW(Neighbor_allgather_init, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), ring,
    MPI_INFO_NULL, &request))
ROW(Neighbor_allgatherv, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1),
    DISPLACEMENTS, T(1), ring))
ROW(Neighbor_allgatherv_init, "s:sendtype r:recvtype", "sendcount recvcounts", (out, N(0), T(0), in, COUNTS(1),
    DISPLACEMENTS, T(1), ring, MPI_INFO_NULL, &request))
ROW(Neighbor_alltoall, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), ring))
ROW(Neighbor_alltoall_init, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), ring,
    MPI_INFO_NULL, &request))
ROW(Neighbor_alltoallv, "s:sendtype r:recvtype", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, T(0), in,
    COUNTS(1), DISPLACEMENTS, T(1), ring))
ROW(Neighbor_alltoallv_init, "s:sendtype r:recvtype", "sendcounts recvcounts", (out, COUNTS(0), DISPLACEMENTS, T(0),
    in, COUNTS(1), DISPLACEMENTS, T(1), ring, MPI_INFO_NULL, &request))
ROW(Neighbor_alltoallw, "s:sendtypes r:recvtypes", "sendcounts recvcounts", (out, COUNTS(0), ADDRESSES, MANY(0), in,
    COUNTS(1), ADDRESSES, MANY(1), ring))
ROW(Neighbor_alltoallw_init, "s:sendtypes r:recvtypes", "sendcounts recvcounts", (out, COUNTS(0), ADDRESSES, MANY(0),
    in, COUNTS(1), ADDRESSES, MANY(1), ring, MPI_INFO_NULL, &request))
ROW(Pack, "s:datatype", "incount", (out, N(0), T(0), in, 64, POSITION, comm))
ROW(Pack_external, "s:datatype", "incount", ("external32", out, N(0), T(0), in, 64, EXTERNAL_POSITION))
ONLY(Precv_init, "r:datatype", "count", (in, 1, N(0), T(0), 0, 0, comm, MPI_INFO_NULL, &request))
ONLY(Psend_init, "s:datatype", "count", (out, 1, N(0), T(0), 0, 0, comm, MPI_INFO_NULL, &request))
ROW(Put, "s:origin_datatype r:target_datatype", "origin_count target_count", (out, N(0), T(0), 0, 0, N(1), T(1), win))
ROW(Raccumulate, "s:origin_datatype r:target_datatype", "origin_count target_count", (out, N(0), T(0), 0, 0, N(1),
    T(1), MPI_SUM, win, &request))
ROW(Recv, "r:datatype", "count", (in, N(0), T(0), 0, 0, comm, MPI_STATUS_IGNORE))
ROW(Recv_init, "r:datatype", "count", (in, N(0), T(0), 0, 0, comm, &request))
ROW(Reduce, "r:datatype", "count", (out, in, N(0), T(0), op, 0, comm))
ROW(Reduce_init, "r:datatype", "count", (out, in, N(0), T(0), op, 0, comm, MPI_INFO_NULL, &request))
ROW(Reduce_local, "r:datatype", "count", (out, in, N(0), T(0), op))
ROW(Reduce_scatter, "r:datatype", "recvcounts", (out, in, COUNTS(0), T(0), op, comm))
ROW(Reduce_scatter_block, "r:datatype", "recvcount", (out, in, N(0), T(0), op, comm))
ROW(Reduce_scatter_block_init, "r:datatype", "recvcount", (out, in, N(0), T(0), op, comm, MPI_INFO_NULL, &request))
ROW(Reduce_scatter_init, "r:datatype", "recvcounts", (out, in, COUNTS(0), T(0), op, comm, MPI_INFO_NULL, &request))
ROW(Rget, "r:origin_datatype s:target_datatype", "origin_count target_count", (out, N(0), T(0), 0, 0, N(1), T(1), win,
    &request))
ROW(Rget_accumulate, "s:origin_datatype r:result_datatype r:target_datatype",
    "origin_count result_count target_count", (out, N(0), T(0), in, N(1), T(1), 0, 0, N(2), T(2), MPI_SUM, win,
    &request))
ROW(Rput, "s:origin_datatype r:target_datatype", "origin_count target_count", (out, N(0), T(0), 0, 0, N(1), T(1), win,
    &request))
ROW(Rsend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm))
ROW(Rsend_init, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Scan, "r:datatype", "count", (out, in, N(0), T(0), op, comm))
ROW(Scan_init, "r:datatype", "count", (out, in, N(0), T(0), op, comm, MPI_INFO_NULL, &request))
ROW(Scatter, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), 0, comm))
ROW(Scatter_init, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), in, N(1), T(1), 0, comm,
    MPI_INFO_NULL, &request))
ROW(Scatterv, "s:sendtype r:recvtype", "sendcounts recvcount", (out, COUNTS(0), DISPLACEMENTS, T(0), in, N(1), T(1),
    0, comm))
ROW(Scatterv_init, "s:sendtype r:recvtype", "sendcounts recvcount", (out, COUNTS(0), DISPLACEMENTS, T(0), in, N(1),
    T(1), 0, comm, MPI_INFO_NULL, &request))
ROW(Send, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm))
ROW(Send_init, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Sendrecv, "s:sendtype r:recvtype", "sendcount recvcount", (out, N(0), T(0), 0, 0, in, N(1), T(1), 0, 0, comm,
    MPI_STATUS_IGNORE))
ROW(Sendrecv_replace, "r:datatype", "count", (in, N(0), T(0), 0, 0, 0, 0, comm, MPI_STATUS_IGNORE))
ROW(Ssend, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm))
ROW(Ssend_init, "s:datatype", "count", (out, N(0), T(0), 0, 0, comm, &request))
ROW(Unpack, "r:datatype", "outcount", (out, 64, POSITION, in, N(0), T(0), comm))
ROW(Unpack_external, "r:datatype", "outcount", ("external32", out, 64, EXTERNAL_POSITION, in, N(0), T(0)))
