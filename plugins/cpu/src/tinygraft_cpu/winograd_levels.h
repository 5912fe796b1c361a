/* winograd_tiles.h for one type of numbers (REAL) and each kind of processor, as attention_levels.h has them. */

#ifndef NAMED
#define JOINED(x, type, level) x##_##type##_##level
#define NAMED(x, type, level) JOINED(x, type, level)
#endif

#ifdef SEVERAL_PROCESSORS

#define NAME(x) NAMED(x, REAL, 2)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#define WIDTH 64
#define ROWS 8
#define VECTORS 3
#include "winograd_tiles.h"
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS

#define NAME(x) NAMED(x, REAL, 1)
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 32
#define ROWS 4
#define VECTORS 3
#include "winograd_tiles.h"
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
#endif

#define NAME(x) NAMED(x, REAL, 0)
#define TARGET
#define WIDTH 16
#if defined(__aarch64__)
#define ROWS 8
#define VECTORS 3
#else
#define ROWS 4
#define VECTORS 2
#endif
#include "winograd_tiles.h"
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
