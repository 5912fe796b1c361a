/* TILES, a header, for each kind of processor (processor_level.h): how wide vectors are, and how many of them a tile has in
   registers. LEVELLED(x, level) is what a name of the header becomes. */

#ifdef SEVERAL_PROCESSORS

#define NAME(x) LEVELLED(x, 2)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#define WIDTH 64
#define ROWS 8
#define VECTORS 3
#include TILES
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS

#define NAME(x) LEVELLED(x, 1)
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 32
#define ROWS 4
#define VECTORS 3
#include TILES
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
#endif

#define NAME(x) LEVELLED(x, 0)
#define TARGET
#define WIDTH 16
#if defined(__aarch64__)
#define ROWS 8
#define VECTORS 3
#else
#define ROWS 4
#define VECTORS 2
#endif
#include TILES
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
