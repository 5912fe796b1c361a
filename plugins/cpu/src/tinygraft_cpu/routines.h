/* What routines share: splitting work over the pool, workspace, and keys that order elements of any type.

   A routine is a function void f(void **buffers, const long long *facts), launched as a kernel on one thread is; it
   asks the pool for the others itself. `buffers` are its wanted results and then its operands, `facts` are listed above each
   routine. Results do not depend on the number of threads. */

#ifndef TINYGRAFT_ROUTINES_H
#define TINYGRAFT_ROUTINES_H

#include <stddef.h>
#include <stdint.h>

/* Compiled for several processors, of which the best is chosen when the extension is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* Kinds of elements: how their bits become a key. */
enum { UNSIGNED_KEY, SIGNED_KEY, FLOAT_KEY };

typedef void (*tg_part)(void *job, int part, int parts);

void tg_split(tg_part function, void *job, int parts); /* run in `parts` chunks, or in 1 where the pool is busy */
void *tg_room(size_t bytes);                           /* workspace of this thread, until its next call */
void *tg_take(size_t bytes);                           /* memory that tg_give frees; ends the process without any */
void tg_give(void *memory);

enum { KEPT = 32 << 20 }; /* bytes up to which a thread keeps its workspace */

static inline void *tg_workspace(size_t bytes) { return bytes <= KEPT ? tg_room(bytes) : tg_take(bytes); }
static inline void tg_leave(void *memory, size_t bytes) {
    if (bytes > KEPT) tg_give(memory);
}

/* Whether one of n numbers is not finite. */
static inline int tg_strange(const float *x, long n) {
    const uint32_t infinity = 0x7f800000;
    uint32_t found = 0;
    for (long k = 0; k < n; k++) {
        uint32_t bits;
        __builtin_memcpy(&bits, x + k, sizeof bits);
        found |= (bits & infinity) == infinity;
    }
    return (int)found;
}

static inline long tg_begin(long n, int part, int parts) { return (long)((__int128)n * part / parts); }

/* The type of the elements of an operand. `nan_above` is the greatest magnitude, as bits, that is no NaN. */
typedef struct {
    int bytes;
    int kind;
    int descending;
    uint64_t nan_above;
} tg_order;

/* A key of `bits` bits, ascending in the order of sort: NaN is the greatest, -0.0 equals 0.0. */
static inline __attribute__((always_inline)) uint64_t tg_key(uint64_t x, int bits, int kind, uint64_t nan_above) {
    uint64_t sign = 1ull << (bits - 1), all = sign | (sign - 1);
    if (kind == UNSIGNED_KEY) return x;
    if (kind == SIGNED_KEY) return x ^ sign;
    uint64_t magnitude = x & (sign - 1), negative = 0 - (x >> (bits - 1));
    uint64_t key = magnitude ? (x ^ (negative | sign)) & all : sign; /* no branch: signs are not predictable */
    return magnitude > nan_above ? all : key;
}

/* The bits of the element with this key; no other than 0 and NaN have several. */
static inline uint64_t tg_bits(uint64_t key, int bits, int kind) {
    uint64_t sign = 1ull << (bits - 1), all = sign | (sign - 1);
    if (kind == UNSIGNED_KEY) return key;
    if (kind == SIGNED_KEY) return key ^ sign;
    return key & sign ? key ^ sign : ~key & all;
}

static inline uint64_t tg_raw(const void *x, long i, int bytes) {
    switch (bytes) {
    case 1: return ((const uint8_t *)x)[i];
    case 2: return ((const uint16_t *)x)[i];
    case 4: return ((const uint32_t *)x)[i];
    default: return ((const uint64_t *)x)[i];
    }
}

static inline void tg_put(void *x, long i, int bytes, uint64_t raw) {
    switch (bytes) {
    case 1: ((uint8_t *)x)[i] = (uint8_t)raw; break;
    case 2: ((uint16_t *)x)[i] = (uint16_t)raw; break;
    case 4: ((uint32_t *)x)[i] = (uint32_t)raw; break;
    default: ((uint64_t *)x)[i] = raw;
    }
}

#endif
