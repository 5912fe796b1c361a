/* gather: no actions */
typedef int intx4 __attribute__((vector_size(16), may_alias));
typedef intx4 intx4_in_memory __attribute__((aligned(4), may_alias));
typedef long long indexx4 __attribute__((vector_size(32), may_alias));
static inline indexx4 splat_indexx4(long long x) {
    return (indexx4){x, x, x, x};
}
typedef int boolx4 __attribute__((vector_size(16), may_alias));
typedef float floatx4 __attribute__((vector_size(16), may_alias));
static inline floatx4 load_floatx4_at_if(const float *p, indexx4 i, boolx4 c) {
    floatx4 r;
    for (int k = 0; k < 4; k++) r[k] = c[k] ? p[i[k]] : 0;
    return r;
}
typedef floatx4 floatx4_in_memory __attribute__((aligned(4), may_alias));

void gather(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const int *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 7; r0++) {
        const intx4 x0 = *(const intx4_in_memory *)(data1 + r0 * 4);
        const indexx4 i1 = __builtin_convertvector(x0, indexx4);
        const boolx4 v2 = (~__builtin_convertvector((i1 < splat_indexx4(0)), boolx4)) & __builtin_convertvector((i1 < splat_indexx4(11)), boolx4);
        const floatx4 x3 = load_floatx4_at_if(data2, i1, v2);
        *(floatx4_in_memory *)(data0 + r0 * 4) = x3;
    }
}
