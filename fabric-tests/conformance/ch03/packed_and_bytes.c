/* Matching of types: MPI_PACKED matches every type at either end, bytes travel as they are, synonyms are the same type, and
 * MPI_CHARACTER is one character.
 *
 * Covers: 3.2.2, 3.3.1, 3.3.2, 5.2
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = check_size - 1 - check_rank, position = 0, numbers[3] = {1, 2, 3}, in[3] = {0, 0, 0};
    double reals[2] = {4.5, -5.25}, back[2] = {0, 0};
    char packed[200], unpacked[200];
    MPI_Status status;
    CHECK_OK(MPI_Pack(numbers, 3, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD));
    int of_ints = position;
    CHECK_OK(MPI_Pack(reals, 2, MPI_DOUBLE, packed, sizeof packed, &position, MPI_COMM_WORLD));

    /* Packed to packed, in two parts of different types. */
    CHECK_OK(MPI_Sendrecv(packed, position, MPI_PACKED, peer, 1, unpacked, sizeof unpacked, MPI_PACKED, peer, 1,
                          MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 1, MPI_PACKED, position);
    int at = 0;
    CHECK_OK(MPI_Unpack(unpacked, position, &at, in, 3, MPI_INT, MPI_COMM_WORLD));
    CHECK_OK(MPI_Unpack(unpacked, position, &at, back, 2, MPI_DOUBLE, MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) CHECK_INT(in[i], i + 1);
    CHECK(back[0] == 4.5 && back[1] == -5.25);

    /* Packed to typed, typed to packed. */
    memset(in, 0, sizeof in);
    CHECK_OK(MPI_Sendrecv(packed, of_ints, MPI_PACKED, peer, 2, in, 3, MPI_INT, peer, 2, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 2, MPI_INT, 3);
    for (int i = 0; i < 3; i++) CHECK_INT(in[i], i + 1);
    memset(unpacked, 0, sizeof unpacked);
    CHECK_OK(MPI_Sendrecv(numbers, 3, MPI_INT, peer, 3, unpacked, sizeof unpacked, MPI_PACKED, peer, 3, MPI_COMM_WORLD,
                          &status));
    int bytes = -1;
    CHECK_OK(MPI_Get_count(&status, MPI_PACKED, &bytes));
    memset(in, 0, sizeof in);
    at = 0;
    CHECK_OK(MPI_Unpack(unpacked, bytes, &at, in, 3, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) CHECK_INT(in[i], i + 1);

    /* Example 3.4: forty bytes of reals, received among sixty. */
    float a[10], b[15];
    for (int i = 0; i < 10; i++) a[i] = 0.5f * (float)i;
    memset(b, 0xEE, sizeof b);
    CHECK_OK(MPI_Sendrecv(a, 40, MPI_BYTE, peer, 4, b, 60, MPI_BYTE, peer, 4, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 4, MPI_BYTE, 40);
    CHECK(memcmp(a, b, 40) == 0);
    CHECK_BYTES(b + 10, 0xEE, 20);

    /* Example 3.2: ten reals into room for fifteen. */
    memset(b, 0xEE, sizeof b);
    CHECK_OK(MPI_Sendrecv(a, 10, MPI_FLOAT, peer, 5, b, 15, MPI_FLOAT, peer, 5, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 5, MPI_FLOAT, 10);
    CHECK(memcmp(a, b, 40) == 0);
    CHECK_BYTES(b + 10, 0xEE, 20);

    /* Example 3.5: five characters into the last five of ten. */
    char text[11] = "abcdefghij", other[11] = "0123456789";
    CHECK_OK(MPI_Sendrecv(text, 5, MPI_CHARACTER, peer, 6, other + 5, 5, MPI_CHARACTER, peer, 6, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 6, MPI_CHARACTER, 5);
    CHECK_STR(other, "01234abcde");

    long long l = 77, m = 0;
    CHECK(MPI_LONG_LONG == MPI_LONG_LONG_INT && MPI_C_COMPLEX == MPI_C_FLOAT_COMPLEX);
    CHECK_OK(MPI_Sendrecv(&l, 1, MPI_LONG_LONG, peer, 7, &m, 1, MPI_LONG_LONG_INT, peer, 7, MPI_COMM_WORLD, &status));
    CHECK_INT(m, 77);
    return check_end();
}
