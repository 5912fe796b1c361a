/* group_sum: no actions */
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
using namespace metal;

[[max_total_threads_per_threadgroup(8)]] kernel void group_sum(device float * data0, device const float * data1, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup float local0[8] __attribute__((aligned(64)));
    const long r0 = block_index.y;
    const long r1 = thread_index;
    const float x0 = data1[(r0 * 8) + r1];
    local0[r1] = x0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float acc0 = 0.0f;
    for (long r2 = 0; r2 < 8; r2++) {
        const float x1 = local0[r2];
        acc0 = acc0 + x1;
    }
    if (r1 == 0) data0[r0] = acc0;
}
