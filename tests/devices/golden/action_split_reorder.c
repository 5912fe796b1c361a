/* r_13_37_11: split(1, 8), reorder(1+0) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 4; r0++) {
        for (long long r1 = 0; r1 < 13; r1++) {
            for (long long r2 = 0; r2 < 8; r2++) {
                float acc0 = 0.0f;
                for (long long r3 = 0; r3 < 11; r3++) {
                    const float x0 = data1[(r1 * 11) + r3];
                    const float x1 = data2[((r0 * 8) + r2) + (r3 * 37)];
                    acc0 = acc0 + (x0 * x1);
                }
                data0[((r0 * 8) + (r1 * 37)) + r2] = acc0;
            }
        }
    }
    for (long long r4 = 0; r4 < 13; r4++) {
        for (long long r5 = 0; r5 < 5; r5++) {
            float acc1 = 0.0f;
            for (long long r6 = 0; r6 < 11; r6++) {
                const float x2 = data1[(r4 * 11) + r6];
                const float x3 = data2[(r5 + (r6 * 37)) + 32];
                acc1 = acc1 + (x2 * x3);
            }
            data0[((r4 * 37) + r5) + 32] = acc1;
        }
    }
}
