/* r_13_37_11: local(1, 8) */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    const long long r0 = group0;
    const long long r1 = thread;
    const _Bool v0 = ((r0 * 8) + r1) < 37;
    float acc0 = 0.0f;
    const long long r3 = group1;
    for (long long r2 = 0; r2 < 11; r2++) {
        const float x1 = data1[r2 + (r3 * 11)];
        const float x2 = v0 ? data2[((r2 * 37) + (r0 * 8)) + r1] : 0.0f;
        acc0 = acc0 + (x1 * x2);
    }
    if (v0) data0[((r0 * 8) + (r3 * 37)) + r1] = acc0;
}
