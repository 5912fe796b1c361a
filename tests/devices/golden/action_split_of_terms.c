/* r_13_37_11: split(2, 4) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 13; r0++) {
        for (long long r1 = 0; r1 < 37; r1++) {
            float acc0 = 0.0f;
            for (long long r2 = 0; r2 < 2; r2++) {
                for (long long r3 = 0; r3 < 4; r3++) {
                    const float x0 = data1[((r0 * 11) + (r2 * 4)) + r3];
                    const float x1 = data2[(r1 + (r2 * 148)) + (r3 * 37)];
                    acc0 = acc0 + (x0 * x1);
                }
            }
            float acc1 = 0.0f;
            for (long long r4 = 0; r4 < 3; r4++) {
                const float x2 = data1[((r0 * 11) + r4) + 8];
                const float x3 = data2[(r1 + (r4 * 37)) + 296];
                acc1 = acc1 + (x2 * x3);
            }
            data0[(r0 * 37) + r1] = acc0 + acc1;
        }
    }
}
