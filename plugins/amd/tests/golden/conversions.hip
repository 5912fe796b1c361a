/* conversions: local(0, 101) */
static __attribute__((device)) __attribute__((always_inline)) inline signed char char_from_float(float x) {
    return x != x ? 0 : x <= (-128.0f) ? (-128) : x >= 128.0f ? 127 : (signed char)x;
}
static __attribute__((device)) __attribute__((always_inline)) inline long long long_from_float(float x) {
    return x != x ? 0 : x <= (-9.223372e+18f) ? (-9223372036854775807ll - 1) : x >= 9.223372e+18f ? 9223372036854775807ll : (long long)x;
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(101, 101))) conversions(signed char *__restrict__ data0, const float *__restrict__ data1) {
    const long long r0 = __builtin_amdgcn_workitem_id_x();
    const float x0 = data1[r0];
    const bool v1 = (x0 < 128.0f) & ((-129.0f) < x0);
    const bool v2 = x0 < 0.0f;
    const bool v3 = 0.0f < x0;
    const signed char v4 = v1 ? char_from_float((v1 ? x0 : 0.0f)) : (v2 ? (-128) : (v3 ? 127 : 0));
    const bool v5 = (x0 < 9.223372e+18f) & ((-9.223372e+18f) < x0);
    const long long v6 = v2 ? (-9223372036854775807ll - 1) : (v3 ? 9223372036854775807ll : 0ll);
    const signed char v7 = (signed char)(v4 + (signed char)((v5 ? long_from_float((v5 ? x0 : 0.0f)) : v6)));
    data0[r0] = v7;
}
