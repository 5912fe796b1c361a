/* r_13_37_11: vectorise(1, 8) */
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));

void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 13; r0++) {
        floatx8 acc1 = splat_floatx8(0.0f);
        for (long long r5 = 0; r5 < 11; r5++) {
            const float x0 = data1[(r0 * 11) + r5];
            const floatx8 x1 = *(const floatx8_in_memory *)(data2 + (r5 * 37) + 29);
            acc1 = acc1 + (splat_floatx8(x0) * x1);
        }
        for (long long r1 = 0; r1 < 4; r1++) {
            floatx8 acc0 = splat_floatx8(0.0f);
            for (long long r3 = 0; r3 < 11; r3++) {
                const float x2 = data1[(r0 * 11) + r3];
                const floatx8 x3 = *(const floatx8_in_memory *)(data2 + (r1 * 8) + (r3 * 37));
                acc0 = acc0 + (splat_floatx8(x2) * x3);
            }
            *(floatx8_in_memory *)(data0 + (r0 * 37) + (r1 * 8)) = acc0;
        }
        *(floatx8_in_memory *)(data0 + (r0 * 37) + 29) = acc1;
    }
}
