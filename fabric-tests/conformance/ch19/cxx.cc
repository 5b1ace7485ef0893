/* A C++ program: mpi.h compiles as C++ without warnings, handles are values, callbacks are C++ functions of C linkage.
 *
 * Covers: 2.5.1, 2.6.3, 19.1.5
 * Ranks: 1 2 3
 */
#include "check.h"
#include <map>
#include <numeric>
#include <string>
#include <vector>

extern "C" void longest(void *in, void *inout, int *length, MPI_Datatype *)
{
    for (int i = 0; i < *length; i++)
        if (static_cast<int *>(in)[i] > static_cast<int *>(inout)[i]) static_cast<int *>(inout)[i] = static_cast<int *>(in)[i];
}

namespace {
const MPI_Comm world = MPI_COMM_WORLD;
const std::map<std::string, MPI_Datatype> by_name{{"int", MPI_INT}, {"double", MPI_DOUBLE}};

struct Communicator {
    MPI_Comm handle = MPI_COMM_NULL;
    explicit Communicator(MPI_Comm parent) { CHECK_OK(MPI_Comm_dup(parent, &handle)); }
    ~Communicator() { MPI_Comm_free(&handle); }
};

template <int N> int bound() { return N; }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_INT(bound<MPI_PROC_NULL>(), MPI_PROC_NULL);
    {
        Communicator twin(world);
        std::vector<double> numbers(1000, check_rank), sums(1000);
        CHECK_OK(MPI_Allreduce(numbers.data(), sums.data(), 1000, by_name.at("double"), MPI_SUM, twin.handle));
        CHECK(std::accumulate(sums.begin(), sums.end(), 0.0) == 1000.0 * check_size * (check_size - 1) / 2);
        MPI_Op op;
        int mine = check_rank * 3, most = 0;
        CHECK_OK(MPI_Op_create(longest, 1, &op));
        CHECK_OK(MPI_Allreduce(&mine, &most, 1, by_name.at("int"), op, twin.handle));
        CHECK_INT(most, (check_size - 1) * 3);
        CHECK_OK(MPI_Op_free(&op));
    }
    return check_end();
}
