/* r_13_37_11: unroll(0, 4), local(1, 4) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    const long long r1 = group0;
    const long long r2 = thread;
    const _Bool v0 = ((r1 * 4) + r2) < 37;
    for (long long r0 = 0; r0 < 3; r0++) {
        float acc0_0 = 0.0f;
        float acc0_1 = 0.0f;
        float acc0_2 = 0.0f;
        float acc0_3 = 0.0f;
        for (long long r4 = 0; r4 < 11; r4++) {
            const float x1 = data1[(r0 * 44) + r4];
            const float x2 = data1[((r0 * 44) + 11) + r4];
            const float x3 = data1[((r0 * 44) + 22) + r4];
            const float x4 = data1[((r0 * 44) + 33) + r4];
            const float x5 = v0 ? data2[((r4 * 37) + (r1 * 4)) + r2] : 0.0f;
            acc0_0 = acc0_0 + (x1 * x5);
            acc0_1 = acc0_1 + (x2 * x5);
            acc0_2 = acc0_2 + (x3 * x5);
            acc0_3 = acc0_3 + (x4 * x5);
        }
        if (v0) data0[((r0 * 148) + (r1 * 4)) + r2] = acc0_0;
        if (v0) data0[(((r0 * 148) + 37) + (r1 * 4)) + r2] = acc0_1;
        if (v0) data0[(((r0 * 148) + 74) + (r1 * 4)) + r2] = acc0_2;
        if (v0) data0[(((r0 * 148) + 111) + (r1 * 4)) + r2] = acc0_3;
    }
    for (long long r5 = 0; r5 < 1; r5++) {
        float acc1 = 0.0f;
        for (long long r6 = 0; r6 < 11; r6++) {
            const float x6 = data1[((r5 * 11) + r6) + 132];
            const float x7 = v0 ? data2[((r6 * 37) + (r1 * 4)) + r2] : 0.0f;
            acc1 = acc1 + (x6 * x7);
        }
        if (v0) data0[(((r5 * 37) + (r1 * 4)) + r2) + 444] = acc1;
    }
}
