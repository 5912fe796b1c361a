/* r_13_37_11: parallel */
void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    const long long part = variables[0];
    const long long parts = variables[1];
    for (long long r0 = 13 * part / parts; r0 < 13 * (part + 1) / parts; r0++) {
        for (long long r1 = 0; r1 < 37; r1++) {
            float acc0 = 0.0f;
            for (long long r2 = 0; r2 < 11; r2++) {
                const float x0 = data1[(r0 * 11) + r2];
                const float x1 = data2[r1 + (r2 * 37)];
                acc0 = acc0 + (x0 * x1);
            }
            data0[(r0 * 37) + r1] = acc0;
        }
    }
}
