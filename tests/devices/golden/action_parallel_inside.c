/* r_13_37_11: vectorise(0, 4), parallel(1) */
typedef float floatx4 __attribute__((vector_size(16), may_alias));
static inline floatx4 splat_floatx4(float x) {
    return (floatx4){x, x, x, x};
}
static inline floatx4 load_floatx4_step(const float *p, long long step) {
    floatx4 r;
    for (int k = 0; k < 4; k++) r[k] = p[k * step];
    return r;
}
static inline void store_floatx4_step(float *p, long long step, floatx4 x) {
    for (int k = 0; k < 4; k++) p[k * step] = x[k];
}

void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    const long long part = variables[0];
    const long long parts = variables[1];
    for (long long r0 = 0; r0 < 3; r0++) {
        for (long long r1 = 37 * part / parts; r1 < 37 * (part + 1) / parts; r1++) {
            floatx4 acc0 = splat_floatx4(0.0f);
            for (long long r3 = 0; r3 < 11; r3++) {
                const floatx4 x0 = load_floatx4_step(data1 + (r0 * 44) + r3, 11);
                const float x1 = data2[r1 + (r3 * 37)];
                acc0 = acc0 + (x0 * splat_floatx4(x1));
            }
            store_floatx4_step(data0 + (r0 * 148) + r1, 37, acc0);
        }
    }
    for (long long r4 = 0; r4 < 1; r4++) {
        for (long long r5 = 37 * part / parts; r5 < 37 * (part + 1) / parts; r5++) {
            float acc1 = 0.0f;
            for (long long r6 = 0; r6 < 11; r6++) {
                const float x2 = data1[((r4 * 11) + r6) + 132];
                const float x3 = data2[r5 + (r6 * 37)];
                acc1 = acc1 + (x2 * x3);
            }
            data0[((r4 * 37) + r5) + 444] = acc1;
        }
    }
}
