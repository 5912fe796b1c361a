/* r_13_37_11: reorder(1+0) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 37; r0++) {
        for (long long r1 = 0; r1 < 13; r1++) {
            float acc0 = 0.0f;
            for (long long r2 = 0; r2 < 11; r2++) {
                const float x0 = data1[(r1 * 11) + r2];
                const float x1 = data2[r0 + (r2 * 37)];
                acc0 = acc0 + (x0 * x1);
            }
            data0[r0 + (r1 * 37)] = acc0;
        }
    }
}
