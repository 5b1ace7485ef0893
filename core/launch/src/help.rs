//! The text of `mpiexec --help`.

/// What mpiexec can do, by example first.
pub(crate) const TEXT: &str = "\
mpiexec starts MPI programs (and any others) as the ranks of one job, on this machine or on several hosts.

  mpiexec -n 4 ./program arguments          four processes
  mpiexec -n 1 ./master : -n 3 ./worker     several programs in one job (they share MPI_COMM_WORLD)
  mpiexec -n 4 -l ./program                 tell whose line is whose
  mpiexec -n 4 --timeout 60 ./program       end the job after a minute
  mpiexec -n 2 --bind-to core ./program     one core for each rank
  mpiexec --hosts a:4,b:4 ./program         four processes on each of two hosts

One or two dashes mean the same. Options stand before the program; what follows it belongs to it.

For one program (between two ':')
  -n, -np N                 number of processes (1 if not given); more than cores is fine
  -env NAME VALUE           set a variable; -x NAME=VALUE is the same
  -wdir FOLDER              working folder
  -path FOLDERS             where to look for the program before PATH
  -host a:4,b:4             hosts for this program alone
  -soft LIST                acceptable numbers of processes, such as 2,4:16:4 (the largest up to -n is taken)
  -arch NAME                refuse to run on a machine of another architecture
  -file FILE                further options of this kind from a file, # for comments
  -pset NAME                the processes belong to the process set NAME, a URI such as app://ocean (several programs
                            may share one; each program also has a set of its own, weft://app/0 and so on)
  --threads N|omp           threads of each rank (omp: what OMP_NUM_THREADS says); each rank is bound to as many cores, near one
                            another and an RDMA device, one for each lane of its threads (also: --cpus-per-rank N,
                            --map-by socket:PE=N)
  -thread-level LEVEL       MPI_Init gives at least this level, such as MPI_THREAD_MULTIPLE
  --initial-errhandler mpi_errors_are_fatal|mpi_errors_abort|mpi_errors_return
                            error handler before and at MPI_Init, and after MPI_Finalize
  --memory-alloc-kinds LIST memory allocation kinds the program asks for

For the job
  -genv NAME VALUE          set a variable for all programs; -genvnone passes on none of your own but PATH
  -l, --tag-output          begin every line of output with its rank: [3] text
  --timeout SECONDS         end the job after this time, with exit code 124 (also: variable MPIEXEC_TIMEOUT)
  --watchdog SECONDS|off    show who waits for what when ranks have been blocked so long, and again while they are. Not
                            given: only a deadlock that is certain is told, after half a minute
  --watchdog-abort          end the job when a deadlock is certain, with exit code 125
  --bind-to none|hwthread|core|numa|socket
                            keep each rank on one such part of the machine (none if not given)
  --map-by slot|hwthread|core|numa|socket|node
                            deal the ranks over such parts in turn
  --bind-threads            with --threads: a thread that works with a lane is bound to the lane's core (not the main thread,
                            nor one that has been bound by the program)
  --report-bindings         print where each rank, its lanes and its progress agent run (for another machine: set
                            HWLOC_XMLFILE or HWLOC_SYNTHETIC)
  -s, --stdin 0|none        who reads standard input: rank 0 (if not given) or nobody
  -usize N                  value of MPI_UNIVERSE_SIZE
  -configfile FILE          programs and their options from a file, one program a line, # for comments
  --hosts a:4,b:4           the hosts to use, and how many ranks each takes before the next one (shared evenly if not given);
                            without -n, as many ranks as they take (of several programs, one may be without -n: it gets
                            what the others leave)
  -f, --hostfile FILE       the same, one host a line: a:4 or a slots=4, # for comments
  -ppn N                    ranks on each host before the next one
  --agent COMMAND           what starts mpiexec's agent on {host}; ssh -x -o BatchMode=yes {host} if not given (MPIEXEC_AGENT)
  -v, --verbose             print what is started
  -h, --help; -V, --version

Output of all ranks comes out line by line. Signals that mpiexec gets go to all ranks; the second Ctrl-C ends the job
at once. When a rank dies, calls MPI_Abort, or leaves without MPI_Finalize, the others are ended, and mpiexec
says which rank it was and how it ended. Exit code: that of the first rank that failed (128 + number for a
signal), 124 after --timeout, 125 after --watchdog-abort, 127 and 126 when a program is missing or cannot be executed, 2 for wrong options.
";
