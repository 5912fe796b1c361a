/* matmul: block(0+1, 16x16, 1x1, 32) */
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
using namespace metal;
static inline long min_index(long x, long y) {
    return y < x ? y : x;
}

[[max_total_threads_per_threadgroup(256)]] kernel void matmul(device float * data0, device const float * data1, device const float * data2, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup float local0[544] __attribute__((aligned(64)));
    threadgroup float local1[512] __attribute__((aligned(64)));
    const long r0 = block_index.x;
    const long r1 = thread_index;
    const bool v0 = ((r0 * 16) + (r1 % 16)) < 71;
    const long r2 = block_index.y;
    const bool v1 = v0 & (((r2 * 16) + (r1 / 16)) < 67);
    float acc0 = 0.0f;
    for (long r3 = 0; r3 < 4; r3++) {
        const long i2 = (((r2 * 1616) + ((r1 / 32) * 101)) + (r1 % 32)) + (r3 * 32);
        const bool v3 = ((r1 % 32) + (r3 * 32)) < 101;
        for (long r5 = 0; r5 < 2; r5++) {
            const float x4 = (v3 & ((((r2 * 16) + (r1 / 32)) + (r5 * 8)) < 67)) ? data1[i2 + (r5 * 808)] : 0.0f;
            local0[(((r1 % 32) * 17) + (r1 / 32)) + (r5 * 8)] = x4;
        }
        for (long r6 = 0; r6 < 2; r6++) {
            const long i5 = ((((r0 * 16) + (r1 % 16)) + ((r1 / 16) * 71)) + (r3 * 2272)) + (r6 * 1136);
            const float x6 = (v0 & ((((r1 / 16) + (r3 * 32)) + (r6 * 16)) < 101)) ? data2[i5] : 0.0f;
            local1[r1 + (r6 * 256)] = x6;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (long r4 = 0; r4 < min_index((r3 * (-32)) + 101, 32); r4++) {
            const float x7 = local0[(r1 / 16) + (r4 * 17)];
            const float x8 = local1[(r1 % 16) + (r4 * 16)];
            acc0 = fma(x7, x8, acc0);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (v1) data0[(((r0 * 16) + (r2 * 1136)) + ((r1 / 16) * 71)) + (r1 % 16)] = acc0;
}
