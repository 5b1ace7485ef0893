/* One try of a thread level, included by the programs that ask for each. */
#include <pthread.h>

static void *elsewhere(void *result)
{
    MPI_Is_thread_main(result);
    return NULL;
}

static int try_level(int *argc, char ***argv, int wanted)
{
    int provided = -1, asked = -1, is_main = 0;
    CHECK_INT(MPI_Init_thread(argc, argv, wanted, &provided), MPI_SUCCESS);
    check_world();
    CHECK(provided == MPI_THREAD_SINGLE || provided == MPI_THREAD_FUNNELED || provided == MPI_THREAD_SERIALIZED
          || provided == MPI_THREAD_MULTIPLE);
    /* A library that has a level grants it when it is asked for; this one has all. */
    CHECK(provided >= wanted);
    CHECK_OK(MPI_Query_thread(&asked));
    CHECK_INT(asked, provided);
    CHECK_OK(MPI_Is_thread_main(&is_main));
    CHECK(is_main);
    if (provided >= MPI_THREAD_MULTIPLE) {
        pthread_t thread;
        is_main = 1;
        CHECK_INT(pthread_create(&thread, NULL, elsewhere, &is_main), 0);
        pthread_join(thread, NULL);
        CHECK_INT(is_main, 0);
    }
    int one = 1, sum = 0;
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_INT(sum, check_size);
    return check_end();
}
