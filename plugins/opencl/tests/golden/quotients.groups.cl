/* quotients: local(0, 32) */
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

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void quotients(__global float *restrict data0, __global const float *restrict data1, __global const float *restrict data2) {
    const long r0 = get_group_id(0);
    const long r1 = get_local_id(0);
    const bool v0 = ((r0 * 32) + r1) < 101;
    const float x1 = v0 ? data1[(r0 * 32) + r1] : 0.0f;
    const float x2 = v0 ? data2[(r0 * 32) + r1] : 0.0f;
    if (v0) data0[(r0 * 32) + r1] = exact_dividef(exact_sqrtf(x1), x2);
}
