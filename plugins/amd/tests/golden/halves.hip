/* halves: local(0, 101) */
static __attribute__((device)) __attribute__((always_inline)) inline unsigned int bits_uint_float(float x) {
    union { float given; unsigned int wanted; } bits = {x};
    return bits.wanted;
}
static __attribute__((device)) __attribute__((always_inline)) inline unsigned short bfloat16_from_float(float x) {
    unsigned int b = bits_uint_float(x);
    return (unsigned short)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(101, 101))) halves(unsigned short *__restrict__ data0, const _Float16 *__restrict__ data1, const _Float16 *__restrict__ data2) {
    const long long r0 = __builtin_amdgcn_workitem_id_x();
    const _Float16 x0 = data1[r0];
    const float v1 = (float)(x0);
    const _Float16 x2 = data2[r0];
    const float v3 = (float)((_Float16)(((float)((_Float16)((v1 * (float)(x2)))) + v1)));
    data0[r0] = bfloat16_from_float(v3);
}
