/* matmul: unroll 3, vectorise 8 */
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));

void matmul(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    const long long part = variables[0];
    const long long parts = variables[1];
    for (long long r0 = 2 * part / parts; r0 < 2 * (part + 1) / parts; r0++) {
        for (long long r1 = 0; r1 < 2; r1++) {
            floatx8 acc0_0 = splat_floatx8(0.0f);
            floatx8 acc0_1 = splat_floatx8(0.0f);
            floatx8 acc0_2 = splat_floatx8(0.0f);
            for (long long r4 = 0; r4 < 5; r4++) {
                const float x0 = data1[((r0 * 3) * 5) + r4];
                const float x1 = data1[(((r0 * 3) + 1) * 5) + r4];
                const float x2 = data1[(((r0 * 3) + 2) * 5) + r4];
                const floatx8 x3 = *(const floatx8_in_memory *)(data2 + (r4 * 16) + (r1 * 8));
                acc0_0 = acc0_0 + (splat_floatx8(x0) * x3);
                acc0_1 = acc0_1 + (splat_floatx8(x1) * x3);
                acc0_2 = acc0_2 + (splat_floatx8(x2) * x3);
            }
            *(floatx8_in_memory *)(data0 + ((r0 * 3) * 16) + (r1 * 8)) = acc0_0;
            *(floatx8_in_memory *)(data0 + (((r0 * 3) + 1) * 16) + (r1 * 8)) = acc0_1;
            *(floatx8_in_memory *)(data0 + (((r0 * 3) + 2) * 16) + (r1 * 8)) = acc0_2;
        }
    }
}
