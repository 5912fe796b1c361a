/* matmul: stage(1, 3, 24, 8, 4), parallel */
#pragma OPENCL FP_CONTRACT OFF
typedef ushort bits_of_half __attribute__((may_alias));
typedef long indexx8 __attribute__((vector_size(64), may_alias));
static inline indexx8 splat_indexx8(long x) {
    return (indexx8){x, x, x, x, x, x, x, x};
}
typedef int boolx8 __attribute__((vector_size(32), may_alias));
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 load_floatx8_row_if(__global const float *p, boolx8 c) {
    return (floatx8){c[0] ? p[0] : 0, c[1] ? p[1] : 0, c[2] ? p[2] : 0, c[3] ? p[3] : 0, c[4] ? p[4] : 0, c[5] ? p[5] : 0, c[6] ? p[6] : 0, c[7] ? p[7] : 0};
}
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
static inline boolx8 splat_boolx8(int x) {
    return (boolx8){x, x, x, x, x, x, x, x};
}
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
static inline long min_index(long x, long y) {
    return y < x ? y : x;
}
static inline floatx8 fma_floatx8(floatx8 x, floatx8 y, floatx8 z) {
    return (floatx8){__builtin_fmaf(x[0], y[0], z[0]), __builtin_fmaf(x[1], y[1], z[1]), __builtin_fmaf(x[2], y[2], z[2]), __builtin_fmaf(x[3], y[3], z[3]), __builtin_fmaf(x[4], y[4], z[4]), __builtin_fmaf(x[5], y[5], z[5]), __builtin_fmaf(x[6], y[6], z[6]), __builtin_fmaf(x[7], y[7], z[7])};
}
static inline void store_floatx8_row_if(__global float *p, floatx8 x, boolx8 c) {
    for (int k = 0; k < 8; k++) if (c[k]) p[k] = x[k];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul(__global float *restrict data0, __global const float *restrict data1, __global const float *restrict data2) {
    const long part = get_group_id(0), parts = get_num_groups(0);
    __local float local0[2424] __attribute__((aligned(64)));
    const indexx8 lane0 = {0, 1, 2, 3, 4, 5, 6, 7};
    const indexx8 lane1 = {0, 1, 2, 3, 4, 5, 6, 7};
    for (long r0 = 4 * part / parts; r0 < 4 * (part + 1) / parts; r0++) {
        for (long r1 = 0; r1 < 3; r1++) {
            const boolx8 v2 = __builtin_convertvector(((splat_indexx8(r1 * 24) + lane0) < splat_indexx8(71)), boolx8);
            const boolx8 v3 = __builtin_convertvector(((splat_indexx8((r1 * 24) + 8) + lane0) < splat_indexx8(71)), boolx8);
            const boolx8 v4 = __builtin_convertvector(((splat_indexx8((r1 * 24) + 16) + lane0) < splat_indexx8(71)), boolx8);
            const indexx8 i5 = splat_indexx8(r1 * 24) + lane1;
            const indexx8 i6 = splat_indexx8((r1 * 24) + 8) + lane1;
            const indexx8 i7 = splat_indexx8((r1 * 24) + 16) + lane1;
            const boolx8 v8 = __builtin_convertvector((i5 < splat_indexx8(71)), boolx8);
            const boolx8 v9 = __builtin_convertvector((i6 < splat_indexx8(71)), boolx8);
            const boolx8 v10 = __builtin_convertvector((i7 < splat_indexx8(71)), boolx8);
            for (long r9 = 0; r9 < 101; r9++) {
                const floatx8 x11 = load_floatx8_row_if(data2 + (r1 * 24) + (r9 * 71), v8);
                const floatx8 x12 = load_floatx8_row_if(data2 + ((r1 * 24) + 8) + (r9 * 71), v9);
                const floatx8 x13 = load_floatx8_row_if(data2 + ((r1 * 24) + 16) + (r9 * 71), v10);
                *(__local floatx8_in_memory *)(local0 + r9 * 24) = x11;
                *(__local floatx8_in_memory *)(local0 + 8 + (r9 * 24)) = x12;
                *(__local floatx8_in_memory *)(local0 + 16 + (r9 * 24)) = x13;
            }
            for (long r2 = 0; r2 < 6; r2++) {
                const bool v14 = ((r0 * 18) + (r2 * 3)) < 67;
                const bool v15 = (((r0 * 18) + (r2 * 3)) + 1) < 67;
                const bool v16 = (((r0 * 18) + (r2 * 3)) + 2) < 67;
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
                for (long r6 = 0; r6 < 101; r6++) {
                    const float x26 = data1[(min_index((r0 * 18) + (r2 * 3), 66) * 101) + r6];
                    const float x27 = data1[(min_index(((r0 * 18) + (r2 * 3)) + 1, 66) * 101) + r6];
                    const float x28 = data1[(min_index(((r0 * 18) + (r2 * 3)) + 2, 66) * 101) + r6];
                    const floatx8 x29 = *(__local const floatx8_in_memory *)(local0 + r6 * 24);
                    const floatx8 x30 = *(__local const floatx8_in_memory *)(local0 + (r6 * 24) + 8);
                    const floatx8 x31 = *(__local const floatx8_in_memory *)(local0 + (r6 * 24) + 16);
                    acc0_0_0 = fma_floatx8(splat_floatx8(x26), x29, acc0_0_0);
                    acc0_0_1 = fma_floatx8(splat_floatx8(x26), x30, acc0_0_1);
                    acc0_0_2 = fma_floatx8(splat_floatx8(x26), x31, acc0_0_2);
                    acc0_1_0 = fma_floatx8(splat_floatx8(x27), x29, acc0_1_0);
                    acc0_1_1 = fma_floatx8(splat_floatx8(x27), x30, acc0_1_1);
                    acc0_1_2 = fma_floatx8(splat_floatx8(x27), x31, acc0_1_2);
                    acc0_2_0 = fma_floatx8(splat_floatx8(x28), x29, acc0_2_0);
                    acc0_2_1 = fma_floatx8(splat_floatx8(x28), x30, acc0_2_1);
                    acc0_2_2 = fma_floatx8(splat_floatx8(x28), x31, acc0_2_2);
                }
                store_floatx8_row_if(data0 + ((r0 * 1278) + (r1 * 24)) + (r2 * 213), acc0_0_0, v17);
                store_floatx8_row_if(data0 + (((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 8, acc0_0_1, v18);
                store_floatx8_row_if(data0 + (((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 16, acc0_0_2, v19);
                store_floatx8_row_if(data0 + (((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 71, acc0_1_0, v20);
                store_floatx8_row_if(data0 + ((((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 71) + 8, acc0_1_1, v21);
                store_floatx8_row_if(data0 + ((((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 71) + 16, acc0_1_2, v22);
                store_floatx8_row_if(data0 + (((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 142, acc0_2_0, v23);
                store_floatx8_row_if(data0 + ((((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 142) + 8, acc0_2_1, v24);
                store_floatx8_row_if(data0 + ((((r0 * 1278) + (r1 * 24)) + (r2 * 213)) + 142) + 16, acc0_2_2, v25);
            }
        }
    }
}
