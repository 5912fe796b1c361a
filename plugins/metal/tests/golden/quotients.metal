/* quotients: local(0, 101) */
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
using namespace metal;

[[max_total_threads_per_threadgroup(101)]] kernel void quotients(device float * data0, device const float * data1, device const float * data2, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
    const long r0 = thread_index;
    const float x0 = data1[r0];
    const float x1 = data2[r0];
    data0[r0] = precise::sqrt(x0) / x1;
}
