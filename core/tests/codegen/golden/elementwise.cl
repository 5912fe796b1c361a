/* E_13_5_37: local(1+2, 32) */
__kernel void E_13_5_37(__global float *restrict data0, __global const float *restrict data1) {
    const long r0 = get_group_id(0);
    const long r1 = get_local_id(0);
    const bool v0 = ((r0 * 32) + r1) < 185;
    const long r2 = get_group_id(1);
    const long i1 = (r2 + ((((r0 * 32) + r1) / 37) * 13)) + ((((r0 * 32) + r1) % 37) * 65);
    const float x2 = v0 ? data1[i1] : 0.0f;
    if (v0) data0[((r0 * 32) + (r2 * 185)) + r1] = x2;
}
