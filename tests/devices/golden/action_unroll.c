/* r_13_37_11: unroll(0, 4) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 3; r0++) {
        for (long long r1 = 0; r1 < 37; r1++) {
            float acc0_0 = 0.0f;
            float acc0_1 = 0.0f;
            float acc0_2 = 0.0f;
            float acc0_3 = 0.0f;
            for (long long r3 = 0; r3 < 11; r3++) {
                const float x0 = data1[(r0 * 44) + r3];
                const float x1 = data1[((r0 * 44) + 11) + r3];
                const float x2 = data1[((r0 * 44) + 22) + r3];
                const float x3 = data1[((r0 * 44) + 33) + r3];
                const float x4 = data2[r1 + (r3 * 37)];
                acc0_0 = acc0_0 + (x0 * x4);
                acc0_1 = acc0_1 + (x1 * x4);
                acc0_2 = acc0_2 + (x2 * x4);
                acc0_3 = acc0_3 + (x3 * x4);
            }
            data0[(r0 * 148) + r1] = acc0_0;
            data0[((r0 * 148) + 37) + r1] = acc0_1;
            data0[((r0 * 148) + 74) + r1] = acc0_2;
            data0[((r0 * 148) + 111) + r1] = acc0_3;
        }
    }
    for (long long r4 = 0; r4 < 1; r4++) {
        for (long long r5 = 0; r5 < 37; r5++) {
            float acc1 = 0.0f;
            for (long long r6 = 0; r6 < 11; r6++) {
                const float x5 = data1[((r4 * 11) + r6) + 132];
                const float x6 = data2[r5 + (r6 * 37)];
                acc1 = acc1 + (x5 * x6);
            }
            data0[((r4 * 37) + r5) + 444] = acc1;
        }
    }
}
