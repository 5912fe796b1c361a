/* matmul: block(0+1, 4x8, 2x1, 32) */
#pragma OPENCL FP_CONTRACT OFF
typedef ushort bits_of_half __attribute__((may_alias));
static inline long min_index(long x, long y) {
    return y < x ? y : x;
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void matmul(__global float *restrict data0, __global const float *restrict data1, __global const float *restrict data2) {
    __local float local0[288];
    __local float local1[256];
    const long r0 = get_group_id(0);
    const long r1 = get_local_id(0);
    const bool v0 = ((r0 * 8) + (r1 % 8)) < 71;
    const long r2 = get_group_id(1);
    const bool v1 = v0 & (((r2 * 8) + (r1 / 8)) < 67);
    const bool v2 = v0 & ((((r2 * 8) + (r1 / 8)) + 4) < 67);
    float acc0_0 = 0.0f;
    float acc0_1 = 0.0f;
    for (long r4 = 0; r4 < 4; r4++) {
        const bool v3 = (r1 + (r4 * 32)) < 101;
        for (long r6 = 0; r6 < 8; r6++) {
            const float x4 = (v3 & (((r2 * 8) + r6) < 67)) ? data1[(((r2 * 808) + r1) + (r4 * 32)) + (r6 * 101)] : 0.0f;
            local0[(r1 * 9) + r6] = x4;
        }
        for (long r7 = 0; r7 < 8; r7++) {
            const long i5 = ((((r0 * 8) + (r1 % 8)) + ((r1 / 8) * 71)) + (r4 * 2272)) + (r7 * 284);
            const float x6 = (v0 & ((((r1 / 8) + (r4 * 32)) + (r7 * 4)) < 101)) ? data2[i5] : 0.0f;
            local1[r1 + (r7 * 32)] = x6;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (long r5 = 0; r5 < min_index((r4 * (-32)) + 101, 32); r5++) {
            const float x7 = local0[(r1 / 8) + (r5 * 9)];
            const float x8 = local0[((r1 / 8) + (r5 * 9)) + 4];
            const float x9 = local1[(r1 % 8) + (r5 * 8)];
            acc0_0 = fma(x7, x9, acc0_0);
            acc0_1 = fma(x8, x9, acc0_1);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const long i10 = ((((r0 * 8) + (r2 * 568)) + ((r1 / 8) * 71)) + (r1 % 8)) + 284;
    if (v1) data0[(((r0 * 8) + (r2 * 568)) + ((r1 / 8) * 71)) + (r1 % 8)] = acc0_0;
    if (v2) data0[i10] = acc0_1;
}
