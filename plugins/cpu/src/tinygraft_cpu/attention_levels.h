/* attention.h for one type of numbers (REAL) and each kind of processor: how wide vectors are and what registers hold. */

#ifndef NAMED
#define JOINED(x, type, level) x##_##type##_##level
#define NAMED(x, type, level) JOINED(x, type, level)
#endif

#ifdef SEVERAL_PROCESSORS

#define NAME(x) NAMED(x, REAL, 2)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#define WIDTH 64
#define TILE_ROWS 6
#define TILE_VECTORS 4
#include "attention.h"
#include "attention_end.h"

#define NAME(x) NAMED(x, REAL, 1)
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 32
#define TILE_ROWS 6
#define TILE_VECTORS 2
#include "attention.h"
#include "attention_end.h"
#endif

#define NAME(x) NAMED(x, REAL, 0)
#define TARGET
#define WIDTH 16
#if defined(__aarch64__)
#define TILE_ROWS 6
#define TILE_VECTORS 4
#else
#define TILE_ROWS 6
#define TILE_VECTORS 2
#endif
#include "attention.h"
#include "attention_end.h"
