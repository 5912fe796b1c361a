/* conversions: local(0, 101) */
#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
using namespace metal;
static inline char char_from_float(float x) {
    return x != x ? 0 : x <= (-128.0f) ? (-128) : x >= 128.0f ? 127 : (char)x;
}
static inline long long_from_float(float x) {
    return x != x ? 0 : x <= (-9.223372e+18f) ? (-9223372036854775807l - 1) : x >= 9.223372e+18f ? 9223372036854775807l : (long)x;
}

[[max_total_threads_per_threadgroup(101)]] kernel void conversions(device char * data0, device const float * data1, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
    const long r0 = thread_index;
    const float x0 = data1[r0];
    const bool v1 = (x0 < 128.0f) & ((-129.0f) < x0);
    const bool v2 = x0 < 0.0f;
    const bool v3 = 0.0f < x0;
    const char v4 = v1 ? char_from_float((v1 ? x0 : 0.0f)) : (v2 ? (-128) : (v3 ? 127 : 0));
    const bool v5 = (x0 < 9.223372e+18f) & ((-9.223372e+18f) < x0);
    const long v6 = v2 ? (-9223372036854775807l - 1) : (v3 ? 9223372036854775807l : 0l);
    const char v7 = (char)(v4 + (char)((v5 ? long_from_float((v5 ? x0 : 0.0f)) : v6)));
    data0[r0] = v7;
}
