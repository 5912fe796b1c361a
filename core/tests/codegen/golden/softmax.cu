/* r_301_203_203_203: team(3+2+1, 32) */
__device__ inline float max_float(float x, float y) {
    return y > x || y != y ? y : x;
}

extern "C" __global__ void r_301_203_203_203(float *__restrict__ data0, float *__restrict__ data1, const float *__restrict__ data2) {
    __shared__ float local0[32];
    __shared__ float local1[32];
    const long long r1 = threadIdx.x;
    const long long r2 = blockIdx.x;
    float acc0 = -__builtin_inff();
    float acc1 = -__builtin_inff();
    for (long long r4 = 0; r4 < 7; r4++) {
        const bool v0 = ((r4 * 32) + r1) < 203;
        const float x1 = v0 ? data2[((r4 * 32) + (r2 * 203)) + r1] : 0.0f;
        acc1 = max_float(acc1, v0 ? x1 : (-__builtin_inff()));
    }
    local0[r1] = acc1;
    __syncthreads();
    for (long long r3 = 0; r3 < 32; r3++) {
        const float x2 = local0[r3];
        acc0 = max_float(acc0, x2);
    }
    float acc2 = 0.0f;
    float acc3 = 0.0f;
    for (long long r6 = 0; r6 < 7; r6++) {
        const bool v3 = ((r6 * 32) + r1) < 203;
        const float x4 = v3 ? data2[((r6 * 32) + (r2 * 203)) + r1] : 0.0f;
        acc3 = acc3 + (v3 ? (x4 - acc0) : 0.0f);
    }
    local1[r1] = acc3;
    __syncthreads();
    for (long long r5 = 0; r5 < 32; r5++) {
        const float x5 = local1[r5];
        acc2 = acc2 + x5;
    }
    const bool v6 = r1 < 1;
    for (long long r0 = 0; r0 < 7; r0++) {
        const bool v7 = ((r0 * 32) + r1) < 203;
        const float x8 = v7 ? data2[((r0 * 32) + (r2 * 203)) + r1] : 0.0f;
        if (v7) data0[((r0 * 32) + (r2 * 203)) + r1] = (x8 - acc0) * acc2;
    }
    if (v6) data1[r2] = acc2;
}
