/* row_sums: unroll 2, vectorise 8 */
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
static inline float fold_add_floatx8(floatx8 x) {
    for (int apart = 4; apart; apart /= 2)
        for (int k = 0; k < apart; k++) x[k] = x[k] + x[k + apart];
    return x[0];
}

void row_sums(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    for (long long r0 = 0; r0 < 3; r0++) {
        floatx8 acc0_0 = splat_floatx8(0.0f);
        floatx8 acc0_1 = splat_floatx8(0.0f);
        for (long long r3 = 0; r3 < 4; r3++) {
            const floatx8 x0 = *(const floatx8_in_memory *)(data1 + (r0 * 64) + ((r3 * 2) * 8));
            const floatx8 x1 = *(const floatx8_in_memory *)(data1 + (r0 * 64) + (((r3 * 2) + 1) * 8));
            acc0_0 = acc0_0 + x0;
            acc0_1 = acc0_1 + x1;
        }
        float acc1 = 0.0f;
        const float v2 = fold_add_floatx8(acc0_0);
        const float v3 = fold_add_floatx8(acc0_1);
        acc1 = acc1 + v2;
        acc1 = acc1 + v3;
        data0[r0] = acc1;
    }
}
