/* E_13_5_37: local(1+2, 32) */
extern "C" __global__ void E_13_5_37(float *__restrict__ data0, const float *__restrict__ data1) {
    const long long r0 = blockIdx.x;
    const long long r1 = threadIdx.x;
    const bool v0 = ((r0 * 32) + r1) < 185;
    const long long r2 = blockIdx.y;
    const long long i1 = (r2 + ((((r0 * 32) + r1) / 37) * 13)) + ((((r0 * 32) + r1) % 37) * 65);
    const float x2 = v0 ? data1[i1] : 0.0f;
    if (v0) data0[((r0 * 32) + (r2 * 185)) + r1] = x2;
}
