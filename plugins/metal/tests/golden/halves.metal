/* halves: local(0, 101) */
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
using namespace metal;
static inline uint bits_uint_float(float x) {
    union { float given; uint wanted; } bits = {x};
    return bits.wanted;
}
static inline ushort bfloat16_from_float(float x) {
    uint b = bits_uint_float(x);
    return (ushort)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

[[max_total_threads_per_threadgroup(101)]] kernel void halves(device ushort * data0, device const half * data1, device const half * data2, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
    const long r0 = thread_index;
    const half x0 = data1[r0];
    const float v1 = (float)(x0);
    const half x2 = data2[r0];
    const ushort v3 = bfloat16_from_float((float)((half)(((float)((half)((v1 * (float)(x2)))) + v1))));
    data0[r0] = v3;
}
