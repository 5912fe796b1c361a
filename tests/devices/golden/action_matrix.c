/* r_13_37_11: matrix(1, 0, 1x1, 8, 16, 1) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    shared float local2[64] __attribute__((aligned(64)));
    shared float local0[128] __attribute__((aligned(64)));
    shared float local1[128] __attribute__((aligned(64)));
    const long long r1 = group0;
    const long long r2 = thread;
    const _Bool v0 = ((r1 * 8) + r2) < 37;
    const long long r3 = group1;
    zero(0);
    for (long long r5 = 0; r5 < 16; r5++) {
        const _Bool v1 = (((r3 * 8) + (r5 / 2)) < 13) & ((r2 + ((r5 % 2) * 8)) < 11);
        const float x2 = v1 ? data1[(((r3 * 88) + r2) + ((r5 / 2) * 11)) + ((r5 % 2) * 8)] : 0.0f;
        local0[r2 + (r5 * 8)] = x2;
    }
    for (long long r6 = 0; r6 < 16; r6++) {
        const float x3 = (v0 & (r6 < 11)) ? data2[((r1 * 8) + r2) + (r6 * 37)] : 0.0f;
        local1[r2 + (r6 * 8)] = x3;
    }
    barrier();
    for (long long r4 = 0; r4 < 2; r4++) {
        load(1, local0 + r4 * 8, 64);
        load(2, local1 + r4 * 64, 32);
        multiply(0, 1, 2);
    }
    store(0, local2, 32);
    barrier();
    for (long long r0 = 0; r0 < 8; r0++) {
        const float x4 = local2[r2 + (r0 * 8)];
        if (v0 & (((r3 * 8) + r0) < 13)) data0[(((r1 * 8) + (r3 * 296)) + r2) + (r0 * 37)] = x4;
    }
}
