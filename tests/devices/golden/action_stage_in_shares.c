/* r_13_37_11: stage(1, 3, 24, 8, 2) */
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
        for (long long r1 = 0; r1 < 2; r1++) {
            const boolx8 v2 = __builtin_convertvector(((splat_indexx8(r1 * 24) + lane0) < splat_indexx8(37)), boolx8);
            const boolx8 v3 = __builtin_convertvector(((splat_indexx8((r1 * 24) + 8) + lane0) < splat_indexx8(37)), boolx8);
            const boolx8 v4 = __builtin_convertvector(((splat_indexx8((r1 * 24) + 16) + lane0) < splat_indexx8(37)), boolx8);
            const indexx8 i5 = splat_indexx8(r1 * 24) + lane1;
            const indexx8 i6 = splat_indexx8((r1 * 24) + 8) + lane1;
            const indexx8 i7 = splat_indexx8((r1 * 24) + 16) + lane1;
            const boolx8 v8 = __builtin_convertvector((i5 < splat_indexx8(37)), boolx8);
            const boolx8 v9 = __builtin_convertvector((i6 < splat_indexx8(37)), boolx8);
            const boolx8 v10 = __builtin_convertvector((i7 < splat_indexx8(37)), boolx8);
            for (long long r9 = 0; r9 < 11; r9++) {
                const floatx8 x11 = load_floatx8_row_if(data2 + (r1 * 24) + (r9 * 37), v8);
                const floatx8 x12 = load_floatx8_row_if(data2 + ((r1 * 24) + 8) + (r9 * 37), v9);
                const floatx8 x13 = load_floatx8_row_if(data2 + ((r1 * 24) + 16) + (r9 * 37), v10);
                *(floatx8_in_memory *)(local0 + r9 * 24) = x11;
                *(floatx8_in_memory *)(local0 + 8 + (r9 * 24)) = x12;
                *(floatx8_in_memory *)(local0 + 16 + (r9 * 24)) = x13;
            }
            for (long long r2 = 0; r2 < 3; r2++) {
                const _Bool v14 = ((r0 * 9) + (r2 * 3)) < 13;
                const _Bool v15 = (((r0 * 9) + (r2 * 3)) + 1) < 13;
                const _Bool v16 = (((r0 * 9) + (r2 * 3)) + 2) < 13;
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
                const long long i26 = (12 < (((r0 * 9) + (r2 * 3)) + 1)) ? 12 : (((r0 * 9) + (r2 * 3)) + 1);
                const long long i27 = (12 < (((r0 * 9) + (r2 * 3)) + 2)) ? 12 : (((r0 * 9) + (r2 * 3)) + 2);
                const long long i28 = ((12 < ((r0 * 9) + (r2 * 3))) ? 12 : ((r0 * 9) + (r2 * 3))) * 11;
                for (long long r6 = 0; r6 < 11; r6++) {
                    const float x29 = data1[i28 + r6];
                    const float x30 = data1[(i26 * 11) + r6];
                    const float x31 = data1[(i27 * 11) + r6];
                    const floatx8 x32 = *(const floatx8_in_memory *)(local0 + r6 * 24);
                    const floatx8 x33 = *(const floatx8_in_memory *)(local0 + (r6 * 24) + 8);
                    const floatx8 x34 = *(const floatx8_in_memory *)(local0 + (r6 * 24) + 16);
                    acc0_0_0 = acc0_0_0 + (splat_floatx8(x29) * x32);
                    acc0_0_1 = acc0_0_1 + (splat_floatx8(x29) * x33);
                    acc0_0_2 = acc0_0_2 + (splat_floatx8(x29) * x34);
                    acc0_1_0 = acc0_1_0 + (splat_floatx8(x30) * x32);
                    acc0_1_1 = acc0_1_1 + (splat_floatx8(x30) * x33);
                    acc0_1_2 = acc0_1_2 + (splat_floatx8(x30) * x34);
                    acc0_2_0 = acc0_2_0 + (splat_floatx8(x31) * x32);
                    acc0_2_1 = acc0_2_1 + (splat_floatx8(x31) * x33);
                    acc0_2_2 = acc0_2_2 + (splat_floatx8(x31) * x34);
                }
                store_floatx8_row_if(data0 + ((r0 * 333) + (r1 * 24)) + (r2 * 111), acc0_0_0, v17);
                store_floatx8_row_if(data0 + (((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 8, acc0_0_1, v18);
                store_floatx8_row_if(data0 + (((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 16, acc0_0_2, v19);
                store_floatx8_row_if(data0 + (((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 37, acc0_1_0, v20);
                store_floatx8_row_if(data0 + ((((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 37) + 8, acc0_1_1, v21);
                store_floatx8_row_if(data0 + ((((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 37) + 16, acc0_1_2, v22);
                store_floatx8_row_if(data0 + (((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 74, acc0_2_0, v23);
                store_floatx8_row_if(data0 + ((((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 74) + 8, acc0_2_1, v24);
                store_floatx8_row_if(data0 + ((((r0 * 333) + (r1 * 24)) + (r2 * 111)) + 74) + 16, acc0_2_2, v25);
            }
        }
    }
}
