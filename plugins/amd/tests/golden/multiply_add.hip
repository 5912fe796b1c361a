/* multiply_add: local(0, 101) */
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(101, 101))) multiply_add(float *__restrict__ data0, const float *__restrict__ data1, const float *__restrict__ data2, const float *__restrict__ data3) {
    const long long r0 = __builtin_amdgcn_workitem_id_x();
    const float x0 = data1[r0];
    const float x1 = data2[r0];
    const float x2 = data3[r0];
    data0[r0] = (x0 * x1) + x2;
}
