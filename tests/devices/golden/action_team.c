/* r_13_37_11: team(2, 8) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    shared float local0[8] __attribute__((aligned(64)));
    const long long r0 = thread;
    const _Bool v0 = r0 < 1;
    float acc0 = 0.0f;
    float acc1 = 0.0f;
    const long long r3 = group1;
    const long long r4 = group0;
    for (long long r2 = 0; r2 < 2; r2++) {
        const _Bool v1 = ((r2 * 8) + r0) < 11;
        const float x2 = v1 ? data1[((r2 * 8) + (r3 * 11)) + r0] : 0.0f;
        const float x3 = v1 ? data2[((r2 * 296) + r4) + (r0 * 37)] : 0.0f;
        acc1 = acc1 + (v1 ? (x2 * x3) : 0.0f);
    }
    local0[r0] = acc1;
    barrier();
    for (long long r1 = 0; r1 < 8; r1++) {
        const float x4 = local0[r1];
        acc0 = acc0 + x4;
    }
    if (v0) data0[r4 + (r3 * 37)] = acc0;
}
