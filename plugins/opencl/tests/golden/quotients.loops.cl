/* quotients: vectorise(0, 8) */
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
typedef float floatx8 __attribute__((vector_size(32), may_alias));
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
static inline floatx8 fdiv_floatx8(floatx8 x, floatx8 y) {
    return (floatx8){exact_dividef(x[0], y[0]), exact_dividef(x[1], y[1]), exact_dividef(x[2], y[2]), exact_dividef(x[3], y[3]), exact_dividef(x[4], y[4]), exact_dividef(x[5], y[5]), exact_dividef(x[6], y[6]), exact_dividef(x[7], y[7])};
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void quotients(__global float *restrict data0, __global const float *restrict data1, __global const float *restrict data2) {
    for (long r0 = 0; r0 < 12; r0++) {
        const floatx8 x0 = *(__global const floatx8_in_memory *)(data1 + r0 * 8);
        const floatx8 x1 = *(__global const floatx8_in_memory *)(data2 + r0 * 8);
        *(__global floatx8_in_memory *)(data0 + r0 * 8) = fdiv_floatx8(x0, x1);
    }
    for (long r2 = 0; r2 < 5; r2++) {
        const float x2 = data1[r2 + 96];
        const float x3 = data2[r2 + 96];
        data0[r2 + 96] = exact_dividef(x2, x3);
    }
}
