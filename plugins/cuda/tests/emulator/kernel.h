/* The words of CUDA C as C for this processor: it stands before each emulated kernel.
   Shared memory is a section of its own, which the scheduler fills with NaN before each block. */
#include "place.h"

static Place *emulated_place;
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
void emulated_begin(Place *place, char **first, char **last) {
    emulated_place = place;
    *first = __start_emulated_shared;
    *last = __stop_emulated_shared;
}

#define threadIdx emulated_place->thread
#define blockIdx emulated_place->block
#define blockDim emulated_place->threads
#define gridDim emulated_place->blocks
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("emulated_shared")))
#define bool _Bool
#define WARP 32

static inline void __syncthreads(void) { emulated_place->wait(0); }
static inline void __syncwarp(void) { emulated_place->wait(1); }
static inline float __int_as_float(int bits) {
    union { int given; float wanted; } both = {bits};
    return both.wanted;
}
static inline unsigned emulated_exchanged(unsigned bits, unsigned lane) {
    unsigned number = emulated_place->number, first = number / WARP * WARP;
    emulated_place->lanes[number] = bits;
    __syncwarp();
    bits = (unsigned)emulated_place->lanes[first + lane % WARP];
    __syncwarp();
    return bits;
}
#define __shfl_xor_sync(mask, value, by) ({ \
    union { __typeof__(value) as_value; unsigned bits; } both = {value}; \
    both.bits = emulated_exchanged(both.bits, emulated_place->number ^ (by)); \
    both.as_value; })

float sqrtf(float), truncf(float), fmaf(float, float, float);
double sqrt(double), trunc(double), fma(double, double, double);
