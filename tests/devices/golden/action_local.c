/* r_13_37_11: local(1, 8) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    const long long r1 = group0;
    const long long r2 = thread;
    const _Bool v0 = ((r1 * 8) + r2) < 37;
    for (long long r0 = 0; r0 < 13; r0++) {
        float acc0 = 0.0f;
        for (long long r3 = 0; r3 < 11; r3++) {
            const float x1 = data1[(r0 * 11) + r3];
            const float x2 = v0 ? data2[((r1 * 8) + r2) + (r3 * 37)] : 0.0f;
            acc0 = acc0 + (x1 * x2);
        }
        if (v0) data0[((r0 * 37) + (r1 * 8)) + r2] = acc0;
    }
}
