/* r_13_37_11: stage(1, 3, 24, 8) */
typedef long long indexx8 __attribute__((vector_size(64), may_alias));
static inline indexx8 splat_indexx8(long long x) {
    return (indexx8){x, x, x, x, x, x, x, x};
}
typedef int boolx8 __attribute__((vector_size(32), may_alias));
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 load_floatx8_row_if(const float *p, boolx8 c) {
    floatx8 r;
    for (int k = 0; k < 8; k++) r[k] = c[k] ? p[k] : 0;
    return r;
}
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
static inline boolx8 splat_boolx8(int x) {
    return (boolx8){x, x, x, x, x, x, x, x};
}
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
static inline void store_floatx8_row_if(float *p, floatx8 x, boolx8 c) {
    for (int k = 0; k < 8; k++) if (c[k]) p[k] = x[k];
}

void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    char *scratch = (char *)variables[2];
    const indexx8 lane0 = {0, 1, 2, 3, 4, 5, 6, 7};
    float *restrict local0 = (float *)(scratch + 0);
    const indexx8 lane1 = {0, 1, 2, 3, 4, 5, 6, 7};
    for (long long r0 = 0; r0 < 2; r0++) {
        const boolx8 v2 = __builtin_convertvector(((splat_indexx8(r0 * 24) + lane0) < splat_indexx8(37)), boolx8);
        const boolx8 v3 = __builtin_convertvector(((splat_indexx8((r0 * 24) + 8) + lane0) < splat_indexx8(37)), boolx8);
        const boolx8 v4 = __builtin_convertvector(((splat_indexx8((r0 * 24) + 16) + lane0) < splat_indexx8(37)), boolx8);
        const indexx8 i5 = splat_indexx8(r0 * 24) + lane1;
        const indexx8 i6 = splat_indexx8((r0 * 24) + 8) + lane1;
        const indexx8 i7 = splat_indexx8((r0 * 24) + 16) + lane1;
        const boolx8 v8 = __builtin_convertvector((i5 < splat_indexx8(37)), boolx8);
        const boolx8 v9 = __builtin_convertvector((i6 < splat_indexx8(37)), boolx8);
        const boolx8 v10 = __builtin_convertvector((i7 < splat_indexx8(37)), boolx8);
        for (long long r8 = 0; r8 < 11; r8++) {
            const floatx8 x11 = load_floatx8_row_if(data2 + (r0 * 24) + (r8 * 37), v8);
            const floatx8 x12 = load_floatx8_row_if(data2 + ((r0 * 24) + 8) + (r8 * 37), v9);
            const floatx8 x13 = load_floatx8_row_if(data2 + ((r0 * 24) + 16) + (r8 * 37), v10);
            *(floatx8_in_memory *)(local0 + r8 * 24) = x11;
            *(floatx8_in_memory *)(local0 + 8 + (r8 * 24)) = x12;
            *(floatx8_in_memory *)(local0 + 16 + (r8 * 24)) = x13;
        }
        for (long long r1 = 0; r1 < 5; r1++) {
            const _Bool v14 = (r1 * 3) < 13;
            const _Bool v15 = ((r1 * 3) + 1) < 13;
            const _Bool v16 = ((r1 * 3) + 2) < 13;
            const boolx8 v17 = splat_boolx8(-(v14)) & v2;
            const boolx8 v18 = splat_boolx8(-(v14)) & v3;
            const boolx8 v19 = splat_boolx8(-(v14)) & v4;
            const boolx8 v20 = splat_boolx8(-(v15)) & v2;
            const boolx8 v21 = splat_boolx8(-(v15)) & v3;
            const boolx8 v22 = splat_boolx8(-(v15)) & v4;
            const boolx8 v23 = splat_boolx8(-(v16)) & v2;
            const boolx8 v24 = splat_boolx8(-(v16)) & v3;
            const boolx8 v25 = splat_boolx8(-(v16)) & v4;
            floatx8 acc0_0_0 = splat_floatx8(0.0f);
            floatx8 acc0_0_1 = splat_floatx8(0.0f);
            floatx8 acc0_0_2 = splat_floatx8(0.0f);
            floatx8 acc0_1_0 = splat_floatx8(0.0f);
            floatx8 acc0_1_1 = splat_floatx8(0.0f);
            floatx8 acc0_1_2 = splat_floatx8(0.0f);
            floatx8 acc0_2_0 = splat_floatx8(0.0f);
            floatx8 acc0_2_1 = splat_floatx8(0.0f);
            floatx8 acc0_2_2 = splat_floatx8(0.0f);
            for (long long r5 = 0; r5 < 11; r5++) {
                const float x26 = data1[(((12 < (r1 * 3)) ? 12 : (r1 * 3)) * 11) + r5];
                const float x27 = data1[(((12 < ((r1 * 3) + 1)) ? 12 : ((r1 * 3) + 1)) * 11) + r5];
                const float x28 = data1[(((12 < ((r1 * 3) + 2)) ? 12 : ((r1 * 3) + 2)) * 11) + r5];
                const floatx8 x29 = *(const floatx8_in_memory *)(local0 + r5 * 24);
                const floatx8 x30 = *(const floatx8_in_memory *)(local0 + (r5 * 24) + 8);
                const floatx8 x31 = *(const floatx8_in_memory *)(local0 + (r5 * 24) + 16);
                acc0_0_0 = acc0_0_0 + (splat_floatx8(x26) * x29);
                acc0_0_1 = acc0_0_1 + (splat_floatx8(x26) * x30);
                acc0_0_2 = acc0_0_2 + (splat_floatx8(x26) * x31);
                acc0_1_0 = acc0_1_0 + (splat_floatx8(x27) * x29);
                acc0_1_1 = acc0_1_1 + (splat_floatx8(x27) * x30);
                acc0_1_2 = acc0_1_2 + (splat_floatx8(x27) * x31);
                acc0_2_0 = acc0_2_0 + (splat_floatx8(x28) * x29);
                acc0_2_1 = acc0_2_1 + (splat_floatx8(x28) * x30);
                acc0_2_2 = acc0_2_2 + (splat_floatx8(x28) * x31);
            }
            store_floatx8_row_if(data0 + (r0 * 24) + (r1 * 111), acc0_0_0, v17);
            store_floatx8_row_if(data0 + ((r0 * 24) + (r1 * 111)) + 8, acc0_0_1, v18);
            store_floatx8_row_if(data0 + ((r0 * 24) + (r1 * 111)) + 16, acc0_0_2, v19);
            store_floatx8_row_if(data0 + ((r0 * 24) + (r1 * 111)) + 37, acc0_1_0, v20);
            store_floatx8_row_if(data0 + (((r0 * 24) + (r1 * 111)) + 37) + 8, acc0_1_1, v21);
            store_floatx8_row_if(data0 + (((r0 * 24) + (r1 * 111)) + 37) + 16, acc0_1_2, v22);
            store_floatx8_row_if(data0 + ((r0 * 24) + (r1 * 111)) + 74, acc0_2_0, v23);
            store_floatx8_row_if(data0 + (((r0 * 24) + (r1 * 111)) + 74) + 8, acc0_2_1, v24);
            store_floatx8_row_if(data0 + (((r0 * 24) + (r1 * 111)) + 74) + 16, acc0_2_2, v25);
        }
    }
}
