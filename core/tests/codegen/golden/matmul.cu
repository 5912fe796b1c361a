/* r_301_203_101: block(0+1, 8x4, 4x4, 32) */
extern "C" __global__ void r_301_203_101(float *__restrict__ data0, const float *__restrict__ data1, const float *__restrict__ data2) {
    __shared__ float local0[1056];
    __shared__ float local1[512];
    const long long r0 = blockIdx.y;
    const long long r1 = threadIdx.x;
    const bool v0 = ((r0 * 32) + (r1 / 4)) < 301;
    const bool v1 = (((r0 * 32) + (r1 / 4)) + 8) < 301;
    const bool v2 = (((r0 * 32) + (r1 / 4)) + 16) < 301;
    const bool v3 = (((r0 * 32) + (r1 / 4)) + 24) < 301;
    const long long r3 = blockIdx.x;
    const bool v4 = ((r3 * 16) + (r1 % 4)) < 203;
    const bool v5 = (((r3 * 16) + (r1 % 4)) + 4) < 203;
    const bool v6 = (((r3 * 16) + (r1 % 4)) + 8) < 203;
    const bool v7 = (((r3 * 16) + (r1 % 4)) + 12) < 203;
    const bool v8 = v0 & v4;
    const bool v9 = v0 & v5;
    const bool v10 = v0 & v6;
    const bool v11 = v0 & v7;
    const bool v12 = v1 & v4;
    const bool v13 = v1 & v5;
    const bool v14 = v1 & v6;
    const bool v15 = v1 & v7;
    const bool v16 = v2 & v4;
    const bool v17 = v2 & v5;
    const bool v18 = v2 & v6;
    const bool v19 = v2 & v7;
    const bool v20 = v3 & v4;
    const bool v21 = v3 & v5;
    const bool v22 = v3 & v6;
    const bool v23 = v3 & v7;
    float acc0_0_0 = 0.0f;
    float acc0_0_1 = 0.0f;
    float acc0_0_2 = 0.0f;
    float acc0_0_3 = 0.0f;
    float acc0_1_0 = 0.0f;
    float acc0_1_1 = 0.0f;
    float acc0_1_2 = 0.0f;
    float acc0_1_3 = 0.0f;
    float acc0_2_0 = 0.0f;
    float acc0_2_1 = 0.0f;
    float acc0_2_2 = 0.0f;
    float acc0_2_3 = 0.0f;
    float acc0_3_0 = 0.0f;
    float acc0_3_1 = 0.0f;
    float acc0_3_2 = 0.0f;
    float acc0_3_3 = 0.0f;
    const bool v24 = ((r3 * 16) + (r1 % 16)) < 203;
    for (long long r5 = 0; r5 < 4; r5++) {
        const bool v25 = (r1 + (r5 * 32)) < 101;
        for (long long r7 = 0; r7 < 32; r7++) {
            const float x26 = (v25 & (((r0 * 32) + r7) < 301)) ? data1[(((r0 * 3232) + r1) + (r5 * 32)) + (r7 * 101)] : 0.0f;
            local0[(r1 * 33) + r7] = x26;
        }
        const long long i27 = (((r3 * 16) + (r1 % 16)) + ((r1 / 16) * 203)) + (r5 * 6496);
        for (long long r8 = 0; r8 < 16; r8++) {
            const float x28 = (v24 & ((((r1 / 16) + (r5 * 32)) + (r8 * 2)) < 101)) ? data2[i27 + (r8 * 406)] : 0.0f;
            local1[r1 + (r8 * 32)] = x28;
        }
        __syncthreads();
        for (long long r6 = 0; r6 < ((32 < ((r5 * (-32)) + 101)) ? 32 : ((r5 * (-32)) + 101)); r6++) {
            const float x29 = local0[(r1 / 4) + (r6 * 33)];
            const float x30 = local0[((r1 / 4) + (r6 * 33)) + 8];
            const float x31 = local0[((r1 / 4) + (r6 * 33)) + 16];
            const float x32 = local0[((r1 / 4) + (r6 * 33)) + 24];
            const float x33 = local1[(r1 % 4) + (r6 * 16)];
            const float x34 = local1[((r1 % 4) + (r6 * 16)) + 4];
            const float x35 = local1[((r1 % 4) + (r6 * 16)) + 8];
            const float x36 = local1[((r1 % 4) + (r6 * 16)) + 12];
            acc0_0_0 = acc0_0_0 + (x29 * x33);
            acc0_0_1 = acc0_0_1 + (x29 * x34);
            acc0_0_2 = acc0_0_2 + (x29 * x35);
            acc0_0_3 = acc0_0_3 + (x29 * x36);
            acc0_1_0 = acc0_1_0 + (x30 * x33);
            acc0_1_1 = acc0_1_1 + (x30 * x34);
            acc0_1_2 = acc0_1_2 + (x30 * x35);
            acc0_1_3 = acc0_1_3 + (x30 * x36);
            acc0_2_0 = acc0_2_0 + (x31 * x33);
            acc0_2_1 = acc0_2_1 + (x31 * x34);
            acc0_2_2 = acc0_2_2 + (x31 * x35);
            acc0_2_3 = acc0_2_3 + (x31 * x36);
            acc0_3_0 = acc0_3_0 + (x32 * x33);
            acc0_3_1 = acc0_3_1 + (x32 * x34);
            acc0_3_2 = acc0_3_2 + (x32 * x35);
            acc0_3_3 = acc0_3_3 + (x32 * x36);
        }
        __syncthreads();
    }
    const long long i37 = ((((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)) + 1624;
    const long long i38 = ((((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)) + 3248;
    const long long i39 = ((((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)) + 4872;
    const long long i40 = ((((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)) + 4;
    const long long i41 = ((((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)) + 8;
    const long long i42 = ((((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)) + 12;
    if (v8) data0[(((r3 * 16) + (r0 * 6496)) + ((r1 / 4) * 203)) + (r1 % 4)] = acc0_0_0;
    if (v9) data0[i40] = acc0_0_1;
    if (v10) data0[i41] = acc0_0_2;
    if (v11) data0[i42] = acc0_0_3;
    if (v12) data0[i37] = acc0_1_0;
    if (v13) data0[i37 + 4] = acc0_1_1;
    if (v14) data0[i37 + 8] = acc0_1_2;
    if (v15) data0[i37 + 12] = acc0_1_3;
    if (v16) data0[i38] = acc0_2_0;
    if (v17) data0[i38 + 4] = acc0_2_1;
    if (v18) data0[i38 + 8] = acc0_2_2;
    if (v19) data0[i38 + 12] = acc0_2_3;
    if (v20) data0[i39] = acc0_3_0;
    if (v21) data0[i39 + 4] = acc0_3_1;
    if (v22) data0[i39 + 8] = acc0_3_2;
    if (v23) data0[i39 + 12] = acc0_3_3;
}
