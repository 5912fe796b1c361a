/* quotients: local(0, 32) */
#pragma OPENCL FP_CONTRACT OFF
typedef ushort bits_of_half __attribute__((may_alias));
static inline float exact_dividef(float x, float y) {
    const uint sign = (as_uint(x) ^ as_uint(y)) & 0x80000000u;
    ulong a = as_uint(x) & 0x7fffffffu, b = as_uint(y) & 0x7fffffffu;
    if (a == 0 || b == 0 || a >= 0x7f800000u || b >= 0x7f800000u) return x / y;
    int of_a = a >> 23, of_b = b >> 23;  /* exponents */
    const int shift_a = of_a ? 0 : clz((uint)a) - 8, shift_b = of_b ? 0 : clz((uint)b) - 8;
    a = of_a ? (a & 0x7fffffu) | 0x800000u : a << shift_a;
    b = of_b ? (b & 0x7fffffu) | 0x800000u : b << shift_b;
    int exponent = (of_a ? of_a : 1 - shift_a) - (of_b ? of_b : 1 - shift_b) + 127;
    if (a < b) {
        a <<= 1;
        exponent -= 1;
    }
    const ulong quotient = (a << 32) / b | ((a << 32) % b != 0);  /* 33 bits; the last one says that more follow */
    const int beyond = exponent > 0 ? 9 : min(10 - exponent, 40);
    const ulong rest = quotient & ((1ul << beyond) - 1), middle = 1ul << (beyond - 1);
    ulong bits = quotient >> beyond;
    bits += rest > middle || (rest == middle && (bits & 1));
    if (exponent > 0) bits += (ulong)(exponent - 1) << 23;
    return as_float(sign | (uint)min(bits, 0x7f800000ul));
}
static inline double exact_divide(double x, double y) {
    return x / y;
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void quotients(__global float *restrict data0, __global const float *restrict data1, __global const float *restrict data2) {
    const long r0 = get_group_id(0);
    const long r1 = get_local_id(0);
    const bool v0 = ((r0 * 32) + r1) < 101;
    const float x1 = v0 ? data1[(r0 * 32) + r1] : 0.0f;
    const float x2 = v0 ? data2[(r0 * 32) + r1] : 0.0f;
    if (v0) data0[(r0 * 32) + r1] = exact_dividef(x1, x2);
}
