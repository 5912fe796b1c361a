/* matmul: block(0+1, 16x16, 1x1, 32) */
static __attribute__((device)) __attribute__((always_inline)) inline long long min_index(long long x, long long y) {
    return y < x ? y : x;
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256))) matmul(float *__restrict__ data0, const float *__restrict__ data1, const float *__restrict__ data2) {
    __attribute__((shared)) float local0[544] __attribute__((aligned(64)));
    __attribute__((shared)) float local1[512] __attribute__((aligned(64)));
    const long long r0 = __builtin_amdgcn_workgroup_id_x();
    const long long r1 = __builtin_amdgcn_workitem_id_x();
    const bool v0 = ((r0 * 16) + (r1 % 16)) < 71;
    const long long r2 = __builtin_amdgcn_workgroup_id_y();
    const bool v1 = v0 & (((r2 * 16) + (r1 / 16)) < 67);
    float acc0 = 0.0f;
    for (long long r3 = 0; r3 < 4; r3++) {
        const long long i2 = (((r2 * 1616) + ((r1 / 32) * 101)) + (r1 % 32)) + (r3 * 32);
        const bool v3 = ((r1 % 32) + (r3 * 32)) < 101;
        for (long long r5 = 0; r5 < 2; r5++) {
            const float x4 = (v3 & ((((r2 * 16) + (r1 / 32)) + (r5 * 8)) < 67)) ? data1[i2 + (r5 * 808)] : 0.0f;
            local0[(((r1 % 32) * 17) + (r1 / 32)) + (r5 * 8)] = x4;
        }
        for (long long r6 = 0; r6 < 2; r6++) {
            const long long i5 = ((((r0 * 16) + (r1 % 16)) + ((r1 / 16) * 71)) + (r3 * 2272)) + (r6 * 1136);
            const float x6 = (v0 & ((((r1 / 16) + (r3 * 32)) + (r6 * 16)) < 101)) ? data2[i5] : 0.0f;
            local1[r1 + (r6 * 256)] = x6;
        }
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        for (long long r4 = 0; r4 < min_index((r3 * (-32)) + 101, 32); r4++) {
            const float x7 = local0[(r1 / 16) + (r4 * 17)];
            const float x8 = local1[(r1 % 16) + (r4 * 16)];
            acc0 = __builtin_fmaf(x7, x8, acc0);
        }
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
    if (v1) data0[(((r0 * 16) + (r2 * 1136)) + ((r1 / 16) * 71)) + (r1 % 16)] = acc0;
}
