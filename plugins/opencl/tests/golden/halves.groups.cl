/* halves: local(0, 32) */
#pragma OPENCL FP_CONTRACT OFF
typedef ushort bits_of_half __attribute__((may_alias));
static inline float float_from_half(ushort h) {
    bits_of_half bits = h;
    return vload_half(0, (const half *)&bits);
}
static inline ushort half_from_float(float x) {
    bits_of_half bits;
    vstore_half_rte(x, 0, (half *)&bits);
    return bits;
}
static inline uint bits_uint_float(float x) {
    union { float given; uint wanted; } bits = {x};
    return bits.wanted;
}
static inline ushort bfloat16_from_float(float x) {
    uint b = bits_uint_float(x);
    return (ushort)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void halves(__global ushort *restrict data0, __global const ushort *restrict data1, __global const ushort *restrict data2) {
    const long r0 = get_group_id(0);
    const long r1 = get_local_id(0);
    const bool v0 = ((r0 * 32) + r1) < 101;
    const ushort x1 = v0 ? data1[(r0 * 32) + r1] : 0x0000;
    const float v2 = float_from_half(x1);
    const ushort x3 = v0 ? data2[(r0 * 32) + r1] : 0x0000;
    const float v4 = float_from_half(half_from_float((v2 * float_from_half(x3)))) + v2;
    if (v0) data0[(r0 * 32) + r1] = bfloat16_from_float(float_from_half(half_from_float(v4)));
}
