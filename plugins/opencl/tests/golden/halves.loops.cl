/* halves: vectorise(0, 8) */
#pragma OPENCL FP_CONTRACT OFF
typedef ushort bits_of_half __attribute__((may_alias));
typedef ushort halfx8 __attribute__((vector_size(16), may_alias));
typedef halfx8 halfx8_in_memory __attribute__((aligned(2), may_alias));
static inline float float_from_half(ushort h) {
    bits_of_half bits = h;
    return vload_half(0, (const half *)&bits);
}
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 floatx8_from_half(halfx8 x) {
    return (floatx8){float_from_half(x[0]), float_from_half(x[1]), float_from_half(x[2]), float_from_half(x[3]), float_from_half(x[4]), float_from_half(x[5]), float_from_half(x[6]), float_from_half(x[7])};
}
static inline ushort half_from_float(float x) {
    bits_of_half bits;
    vstore_half(x, 0, (half *)&bits);
    return bits;
}
static inline halfx8 halfx8_from_float(floatx8 x) {
    return (halfx8){half_from_float(x[0]), half_from_float(x[1]), half_from_float(x[2]), half_from_float(x[3]), half_from_float(x[4]), half_from_float(x[5]), half_from_float(x[6]), half_from_float(x[7])};
}
static inline uint bits_uint_float(float x) {
    union { float given; uint wanted; } bits = {x};
    return bits.wanted;
}
static inline ushort bfloat16_from_float(float x) {
    uint b = bits_uint_float(x);
    return (ushort)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
typedef ushort bfloat16x8 __attribute__((vector_size(16), may_alias));
static inline bfloat16x8 bfloat16x8_from_float(floatx8 x) {
    return (bfloat16x8){bfloat16_from_float(x[0]), bfloat16_from_float(x[1]), bfloat16_from_float(x[2]), bfloat16_from_float(x[3]), bfloat16_from_float(x[4]), bfloat16_from_float(x[5]), bfloat16_from_float(x[6]), bfloat16_from_float(x[7])};
}
typedef bfloat16x8 bfloat16x8_in_memory __attribute__((aligned(2), may_alias));

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void halves(__global ushort *restrict data0, __global const ushort *restrict data1, __global const ushort *restrict data2) {
    for (long r0 = 0; r0 < 12; r0++) {
        const halfx8 x0 = *(__global const halfx8_in_memory *)(data1 + r0 * 8);
        const floatx8 v1 = floatx8_from_half(x0);
        const halfx8 x2 = *(__global const halfx8_in_memory *)(data2 + r0 * 8);
        const floatx8 v3 = floatx8_from_half(halfx8_from_float((v1 * floatx8_from_half(x2))));
        const bfloat16x8 v4 = bfloat16x8_from_float(floatx8_from_half(halfx8_from_float((v3 + v1))));
        *(__global bfloat16x8_in_memory *)(data0 + r0 * 8) = v4;
    }
    for (long r2 = 0; r2 < 5; r2++) {
        const ushort x5 = data1[r2 + 96];
        const float v6 = float_from_half(x5);
        const ushort x7 = data2[r2 + 96];
        const float v8 = float_from_half(half_from_float((v6 * float_from_half(x7)))) + v6;
        data0[r2 + 96] = bfloat16_from_float(float_from_half(half_from_float(v8)));
    }
}
