/* Two vectors of WIDTH bytes interleaved, FIRST and SECOND half of the result, and what undoes it, EVEN and ODD: indices
   for SHUFFLED (processor_level.h). Elements have 4 bytes, or 8 where ELEMENT says so. */

#undef FIRST
#undef SECOND
#undef EVEN
#undef ODD
#if WIDTH == 64 && ELEMENT == 8
#define FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#elif WIDTH == 64
#define FIRST 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif WIDTH == 32 && ELEMENT == 8
#define FIRST 0, 4, 1, 5
#define SECOND 2, 6, 3, 7
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#elif WIDTH == 32
#define FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#elif ELEMENT == 8
#define FIRST 0, 2
#define SECOND 1, 3
#define EVEN 0, 2
#define ODD 1, 3
#else
#define FIRST 0, 4, 1, 5
#define SECOND 2, 6, 3, 7
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#endif
