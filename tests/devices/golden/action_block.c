/* r_13_37_11: block(0+1, 2x4, 1x1, 8) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    shared float local0[24] __attribute__((aligned(64)));
    shared float local1[32] __attribute__((aligned(64)));
    const long long r0 = group0;
    const long long r1 = thread;
    const _Bool v0 = ((r0 * 4) + (r1 % 4)) < 37;
    const long long r2 = group1;
    const _Bool v1 = v0 & (((r2 * 2) + (r1 / 4)) < 13);
    float acc0 = 0.0f;
    for (long long r3 = 0; r3 < 2; r3++) {
        const _Bool v2 = (r1 + (r3 * 8)) < 11;
        for (long long r5 = 0; r5 < 2; r5++) {
            const float x3 = (v2 & (((r2 * 2) + r5) < 13)) ? data1[(((r2 * 22) + r1) + (r3 * 8)) + (r5 * 11)] : 0.0f;
            local0[(r1 * 3) + r5] = x3;
        }
        for (long long r6 = 0; r6 < 4; r6++) {
            const long long i4 = ((((r0 * 4) + (r1 % 4)) + ((r1 / 4) * 37)) + (r3 * 296)) + (r6 * 74);
            const float x5 = (v0 & ((((r1 / 4) + (r3 * 8)) + (r6 * 2)) < 11)) ? data2[i4] : 0.0f;
            local1[r1 + (r6 * 8)] = x5;
        }
        barrier();
        for (long long r4 = 0; r4 < ((8 < ((r3 * (-8)) + 11)) ? 8 : ((r3 * (-8)) + 11)); r4++) {
            const float x6 = local0[(r1 / 4) + (r4 * 3)];
            const float x7 = local1[(r1 % 4) + (r4 * 4)];
            acc0 = acc0 + (x6 * x7);
        }
        barrier();
    }
    if (v1) data0[(((r0 * 4) + (r2 * 74)) + ((r1 / 4) * 37)) + (r1 % 4)] = acc0;
}
