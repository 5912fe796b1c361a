/* group_sum: no actions */
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(8, 8))) group_sum(float *__restrict__ data0, const float *__restrict__ data1) {
    __attribute__((shared)) float local0[8] __attribute__((aligned(64)));
    const long long r0 = __builtin_amdgcn_workgroup_id_y();
    const long long r1 = __builtin_amdgcn_workitem_id_x();
    const float x0 = data1[(r0 * 8) + r1];
    local0[r1] = x0;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    float acc0 = 0.0f;
    for (long long r2 = 0; r2 < 8; r2++) {
        const float x1 = local0[r2];
        acc0 = acc0 + x1;
    }
    if (r1 == 0) data0[r0] = acc0;
}
