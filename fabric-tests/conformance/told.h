/* A check for errors that explain themselves: class, and the words that MPI_Error_string must contain. */
#ifndef TOLD_H
#define TOLD_H

static inline void check_told(int code, int wanted, const char *call, const char *words[], int n, const char *file, int line)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    if (check_class_of(code) != wanted) {
        fprintf(stderr, "FAIL %s:%d rank %d: %s: got class %d, wanted %d; text: %s\n", file, line, check_rank, call,
                check_class_of(code), wanted, text);
        check_failures++;
        return;
    }
    for (int i = 0; i < n; i++)
        if (strstr(text, words[i]) == NULL) {
            fprintf(stderr, "FAIL %s:%d rank %d: %s: the text does not say \"%s\": %s\n", file, line, check_rank, call, words[i], text);
            check_failures++;
            return;
        }
}

/* The call fails with this class, and the text has these words. */
#define TOLD(call, wanted, ...)                                                                              \
    do {                                                                                                     \
        const char *words_[] = {__VA_ARGS__};                                                                \
        int code_ = (call);                                                                                  \
        check_told(code_, (wanted), #call, words_, (int)(sizeof words_ / sizeof *words_), __FILE__, __LINE__); \
    } while (0)

#endif
