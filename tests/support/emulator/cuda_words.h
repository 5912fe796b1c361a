/* The words of CUDA C for kernel.h. */
#define threadIdx emulated_place->thread
#define blockIdx emulated_place->block
#define blockDim emulated_place->threads
#define gridDim emulated_place->blocks
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ EMULATED_SHARED

static inline void __syncthreads(void) { emulated_wait_for_block(); }
static inline void __syncwarp(void) { emulated_wait_for_warp(); }
static inline float __int_as_float(int bits) {
    union { int given; float wanted; } both = {bits};
    return both.wanted;
}
#define __shfl_xor_sync(mask, value, by) ({ \
    union { __typeof__(value) as_value; unsigned bits; } both = {value}; \
    both.bits = emulated_exchanged(both.bits, emulated_place->number ^ (by)); \
    both.as_value; })

float sqrtf(float), truncf(float), fmaf(float, float, float);
double sqrt(double), trunc(double), fma(double, double, double);
