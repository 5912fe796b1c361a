/* elementwise: vectorise 8 */
typedef long long indexx8 __attribute__((vector_size(64), may_alias));
static inline indexx8 splat_indexx8(long long x) {
    return (indexx8){x, x, x, x, x, x, x, x};
}
typedef int boolx8 __attribute__((vector_size(32), may_alias));
typedef float floatx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 load_floatx8_row_if(const float *p, boolx8 c) {
    floatx8 r;
    for (int k = 0; k < 8; k++) r[k] = c[k] ? p[k] : 0;
    return r;
}
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
typedef int intx8 __attribute__((vector_size(32), may_alias));
static inline floatx8 max_floatx8(floatx8 x, floatx8 y) {
    return (floatx8)(((intx8)y & ((y > x) | (y != y))) | ((intx8)x & ~((y > x) | (y != y))));
}
static inline void store_floatx8_row_if(float *p, floatx8 x, boolx8 c) {
    for (int k = 0; k < 8; k++) if (c[k]) p[k] = x[k];
}

void elementwise(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    for (long long r0 = 0; r0 < 5; r0++) {
        const indexx8 lane0 = {0, 1, 2, 3, 4, 5, 6, 7};
        const indexx8 i1 = splat_indexx8(r0 * 8) + lane0;
        const boolx8 v2 = __builtin_convertvector((i1 < splat_indexx8(37)), boolx8);
        const floatx8 x3 = load_floatx8_row_if(data1 + r0 * 8, v2);
        store_floatx8_row_if(data0 + r0 * 8, max_floatx8(x3 + splat_floatx8(3.0f), x3 * x3), v2);
    }
}
