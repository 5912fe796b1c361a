/* quotients: vectorise(0, 8) */
#pragma OPENCL FP_CONTRACT OFF
typedef ushort bits_of_half __attribute__((may_alias));
static inline float exact_dividef(float x, float y) {
    return (float)((double)x / (double)y);
}
static inline double exact_divide(double x, double y) {
    return x / y;
}
static inline float exact_sqrtf(float x) {
    return (float)sqrt((double)x);
}
static inline double exact_sqrt(double x) {
    return sqrt(x);
}
typedef float floatx8 __attribute__((vector_size(32), may_alias));
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
static inline floatx8 sqrt_floatx8(floatx8 x) {
    return (floatx8){exact_sqrtf(x[0]), exact_sqrtf(x[1]), exact_sqrtf(x[2]), exact_sqrtf(x[3]), exact_sqrtf(x[4]), exact_sqrtf(x[5]), exact_sqrtf(x[6]), exact_sqrtf(x[7])};
}
static inline floatx8 fdiv_floatx8(floatx8 x, floatx8 y) {
    return (floatx8){exact_dividef(x[0], y[0]), exact_dividef(x[1], y[1]), exact_dividef(x[2], y[2]), exact_dividef(x[3], y[3]), exact_dividef(x[4], y[4]), exact_dividef(x[5], y[5]), exact_dividef(x[6], y[6]), exact_dividef(x[7], y[7])};
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void quotients(__global float *restrict data0, __global const float *restrict data1, __global const float *restrict data2) {
    for (long r0 = 0; r0 < 12; r0++) {
        const floatx8 x0 = *(__global const floatx8_in_memory *)(data1 + r0 * 8);
        const floatx8 x1 = *(__global const floatx8_in_memory *)(data2 + r0 * 8);
        *(__global floatx8_in_memory *)(data0 + r0 * 8) = fdiv_floatx8(sqrt_floatx8(x0), x1);
    }
    for (long r2 = 0; r2 < 5; r2++) {
        const float x2 = data1[r2 + 96];
        const float x3 = data2[r2 + 96];
        data0[r2 + 96] = exact_dividef(exact_sqrtf(x2), x3);
    }
}
