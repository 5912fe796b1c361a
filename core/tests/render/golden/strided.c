/* strided: no actions */
typedef int intx4 __attribute__((vector_size(16), may_alias));
static inline intx4 load_intx4_step(const int *p, long long step) {
    intx4 r;
    for (int k = 0; k < 4; k++) r[k] = p[k * step];
    return r;
}
static inline void store_intx4_step(int *p, long long step, intx4 x) {
    for (int k = 0; k < 4; k++) p[k * step] = x[k];
}

void strided(void **buffers, const long long *variables) {
    int *restrict data0 = buffers[0];
    const int *restrict data1 = buffers[1];
    for (long long r0 = 0; r0 < 3; r0++) {
        const intx4 x0 = load_intx4_step(data1 + (r0 * 4) * 2, 2);
        store_intx4_step(data0 + 11 + ((r0 * 4) * (-1)), -1, x0);
    }
}
