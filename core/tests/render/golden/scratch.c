/* scratch: no actions */
static inline float max_float(float x, float y) {
    return y > x || y != y ? y : x;
}

void scratch(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const long long var_n = variables[0];
    char *scratch = (char *)variables[3];
    for (long long r0 = 0; r0 < var_n; r0++) {
        float *restrict local0 = (float *)(scratch + 0);
        float acc0 = -__builtin_inff();
        for (long long r1 = 0; r1 < 12; r1++) {
            const float x0 = data1[(r0 * 12) + r1];
            local0[r1] = x0;
            acc0 = max_float(acc0, x0);
        }
        for (long long r2 = 0; r2 < 12; r2++) {
            const float x1 = local0[r2];
            data0[(r0 * 12) + r2] = x1 - acc0;
        }
    }
}
