/* r_13_32_11: tile(1, 4, 16, 8) */
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
typedef int boolx8 __attribute__((vector_size(32), may_alias));
static inline void store_floatx8_row_if(float *p, floatx8 x, boolx8 c) {
    for (int k = 0; k < 8; k++) if (c[k]) p[k] = x[k];
}
static inline boolx8 splat_boolx8(int x) {
    return (boolx8){x, x, x, x, x, x, x, x};
}

void r_13_32_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 2; r0++) {
        for (long long r1 = 0; r1 < 4; r1++) {
            const _Bool v0 = (r1 * 4) < 13;
            const _Bool v1 = ((r1 * 4) + 1) < 13;
            const _Bool v2 = ((r1 * 4) + 2) < 13;
            const _Bool v3 = ((r1 * 4) + 3) < 13;
            floatx8 acc0_0_0 = splat_floatx8(0.0f);
            floatx8 acc0_0_1 = splat_floatx8(0.0f);
            floatx8 acc0_1_0 = splat_floatx8(0.0f);
            floatx8 acc0_1_1 = splat_floatx8(0.0f);
            floatx8 acc0_2_0 = splat_floatx8(0.0f);
            floatx8 acc0_2_1 = splat_floatx8(0.0f);
            floatx8 acc0_3_0 = splat_floatx8(0.0f);
            floatx8 acc0_3_1 = splat_floatx8(0.0f);
            for (long long r5 = 0; r5 < 11; r5++) {
                const float x4 = data1[(((12 < (r1 * 4)) ? 12 : (r1 * 4)) * 11) + r5];
                const float x5 = data1[(((12 < ((r1 * 4) + 1)) ? 12 : ((r1 * 4) + 1)) * 11) + r5];
                const float x6 = data1[(((12 < ((r1 * 4) + 2)) ? 12 : ((r1 * 4) + 2)) * 11) + r5];
                const float x7 = data1[(((12 < ((r1 * 4) + 3)) ? 12 : ((r1 * 4) + 3)) * 11) + r5];
                const floatx8 x8 = *(const floatx8_in_memory *)(data2 + (r0 * 16) + (r5 * 32));
                const floatx8 x9 = *(const floatx8_in_memory *)(data2 + ((r0 * 16) + (r5 * 32)) + 8);
                acc0_0_0 = acc0_0_0 + (splat_floatx8(x4) * x8);
                acc0_0_1 = acc0_0_1 + (splat_floatx8(x4) * x9);
                acc0_1_0 = acc0_1_0 + (splat_floatx8(x5) * x8);
                acc0_1_1 = acc0_1_1 + (splat_floatx8(x5) * x9);
                acc0_2_0 = acc0_2_0 + (splat_floatx8(x6) * x8);
                acc0_2_1 = acc0_2_1 + (splat_floatx8(x6) * x9);
                acc0_3_0 = acc0_3_0 + (splat_floatx8(x7) * x8);
                acc0_3_1 = acc0_3_1 + (splat_floatx8(x7) * x9);
            }
            store_floatx8_row_if(data0 + (r0 * 16) + (r1 * 128), acc0_0_0, splat_boolx8(-(v0)));
            store_floatx8_row_if(data0 + ((r0 * 16) + (r1 * 128)) + 8, acc0_0_1, splat_boolx8(-(v0)));
            store_floatx8_row_if(data0 + ((r0 * 16) + (r1 * 128)) + 32, acc0_1_0, splat_boolx8(-(v1)));
            store_floatx8_row_if(data0 + (((r0 * 16) + (r1 * 128)) + 32) + 8, acc0_1_1, splat_boolx8(-(v1)));
            store_floatx8_row_if(data0 + ((r0 * 16) + (r1 * 128)) + 64, acc0_2_0, splat_boolx8(-(v2)));
            store_floatx8_row_if(data0 + (((r0 * 16) + (r1 * 128)) + 64) + 8, acc0_2_1, splat_boolx8(-(v2)));
            store_floatx8_row_if(data0 + ((r0 * 16) + (r1 * 128)) + 96, acc0_3_0, splat_boolx8(-(v3)));
            store_floatx8_row_if(data0 + (((r0 * 16) + (r1 * 128)) + 96) + 8, acc0_3_1, splat_boolx8(-(v3)));
        }
    }
}
