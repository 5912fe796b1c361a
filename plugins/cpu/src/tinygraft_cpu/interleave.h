/* Two vectors of WIDTH bytes interleaved: the indices of both halves of the result, for SHUFFLED (processor_level.h). */

#undef FIRST
#undef SECOND
#if WIDTH == 64
#define FIRST 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif WIDTH == 32
#define FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST 0, 4, 1, 5
#define SECOND 2, 6, 3, 7
#endif
