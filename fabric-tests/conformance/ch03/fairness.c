/* MPI_Waitsome, MPI_Testsome and repeated MPI_Waitany over streams from several senders serve every stream in the end.
 *
 * Covers: 3.7.5
 * Ranks: 3 5
 */
#include "check.h"

#define EACH 2000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int senders = check_size - 1;
    for (int how = 0; how < 3; how++) {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank != 0) {
            for (int i = 0; i < EACH; i++) CHECK_OK(MPI_Send(&i, 1, MPI_INT, 0, how, MPI_COMM_WORLD));
            continue;
        }
        int values[8], next[8] = {0}, indices[8], outcount;
        MPI_Request requests[8];
        MPI_Status statuses[8];
        for (int s = 0; s < senders; s++)
            CHECK_OK(MPI_Irecv(&values[s], 1, MPI_INT, s + 1, how, MPI_COMM_WORLD, &requests[s]));
        for (int done = 0; done < senders * EACH; done += outcount) {
            if (how == 0)
                CHECK_OK(MPI_Waitsome(senders, requests, &outcount, indices, statuses));
            else if (how == 1)
                CHECK_OK(MPI_Testsome(senders, requests, &outcount, indices, statuses));
            else {
                CHECK_OK(MPI_Waitany(senders, requests, &indices[0], &statuses[0]));
                outcount = 1;
            }
            for (int k = 0; k < outcount; k++) {
                int s = indices[k];
                CHECK_INT(statuses[k].MPI_SOURCE, s + 1);
                CHECK_INT(values[s], next[s]);
                /* The stream goes on at once: this place is always listed. */
                if (++next[s] < EACH)
                    CHECK_OK(MPI_Irecv(&values[s], 1, MPI_INT, s + 1, how, MPI_COMM_WORLD, &requests[s]));
            }
        }
        for (int s = 0; s < senders; s++) CHECK_INT(next[s], EACH);
    }
    return check_end();
}
