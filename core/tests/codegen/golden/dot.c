/* r_37_29_41: dot(2, 0, 0), stage(1, 2, 32, 16) */
#include <dots.h>
typedef long long indexx16 __attribute__((vector_size(128), may_alias));
static inline indexx16 splat_indexx16(long long x) {
    return (indexx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef int boolx16 __attribute__((vector_size(64), may_alias));
typedef unsigned short bfloat16x16 __attribute__((vector_size(32), may_alias));
static inline bfloat16x16 load_bfloat16x16_row_if(const unsigned short *p, boolx16 c) {
    bfloat16x16 r;
    for (int k = 0; k < 16; k++) r[k] = c[k] ? p[k] : 0;
    return r;
}
typedef unsigned short ushortx16 __attribute__((vector_size(32), may_alias));
typedef unsigned int uintx16 __attribute__((vector_size(64), may_alias));
static inline uintx16 splat_uintx16(unsigned int x) {
    return (uintx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef uintx16 uintx16_in_memory __attribute__((aligned(4), may_alias));
static inline float bits_float_uint(unsigned int x) {
    union { unsigned int given; float wanted; } bits = {x};
    return bits.wanted;
}
static inline float float_from_bfloat16(unsigned short h) {
    return bits_float_uint((unsigned int)h << 16);
}
typedef float floatx16 __attribute__((vector_size(64), may_alias));
static inline floatx16 floatx16_from_bfloat16(bfloat16x16 x) {
    floatx16 r;
    for (int k = 0; k < 16; k++) r[k] = float_from_bfloat16(x[k]);
    return r;
}
static inline boolx16 splat_boolx16(int x) {
    return (boolx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
static inline floatx16 splat_floatx16(float x) {
    return (floatx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
static inline unsigned int bits_uint_float(float x) {
    union { float given; unsigned int wanted; } bits = {x};
    return bits.wanted;
}
static inline unsigned short bfloat16_from_float(float x) {
    unsigned int b = bits_uint_float(x);
    return (unsigned short)((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
static inline bfloat16x16 bfloat16x16_from_float(floatx16 x) {
    bfloat16x16 r;
    for (int k = 0; k < 16; k++) r[k] = bfloat16_from_float(x[k]);
    return r;
}
static inline void store_bfloat16x16_row_if(unsigned short *p, bfloat16x16 x, boolx16 c) {
    for (int k = 0; k < 16; k++) if (c[k]) p[k] = x[k];
}

void r_37_29_41(void **buffers, const long long *variables) {
    unsigned short *restrict data0 = buffers[0];
    const unsigned short *restrict data1 = buffers[1];
    const unsigned short *restrict data2 = buffers[2];
    char *scratch = (char *)variables[2];
    const indexx16 lane0 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const indexx16 i1 = splat_indexx16(0) + lane0;
    const indexx16 i2 = splat_indexx16(16) + lane0;
    const boolx16 v3 = __builtin_convertvector((i1 < splat_indexx16(29)), boolx16);
    const boolx16 v4 = __builtin_convertvector((i2 < splat_indexx16(29)), boolx16);
    unsigned int *restrict local0 = (unsigned int *)(scratch + 0);
    const indexx16 lane5 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const indexx16 i6 = splat_indexx16(0) + lane5;
    const indexx16 i7 = splat_indexx16(16) + lane5;
    const boolx16 v8 = __builtin_convertvector((i6 < splat_indexx16(29)), boolx16);
    const boolx16 v9 = __builtin_convertvector((i7 < splat_indexx16(29)), boolx16);
    for (long long r7 = 0; r7 < 20; r7++) {
        const bfloat16x16 x10 = load_bfloat16x16_row_if(data2 + r7 * 58, v8);
        const bfloat16x16 x11 = load_bfloat16x16_row_if(data2 + 16 + (r7 * 58), v9);
        const bfloat16x16 x12 = load_bfloat16x16_row_if(data2 + (r7 * 58) + 29, v8);
        const bfloat16x16 x13 = load_bfloat16x16_row_if(data2 + (16 + (r7 * 58)) + 29, v9);
        const uintx16 v14 = __builtin_convertvector((ushortx16)x12, uintx16) << splat_uintx16(16u);
        const uintx16 v15 = __builtin_convertvector((ushortx16)x13, uintx16) << splat_uintx16(16u);
        *(uintx16_in_memory *)(local0 + r7 * 32) = __builtin_convertvector((ushortx16)x10, uintx16) | v14;
        *(uintx16_in_memory *)(local0 + 16 + (r7 * 32)) = __builtin_convertvector((ushortx16)x11, uintx16) | v15;
    }
    const bfloat16x16 x16 = load_bfloat16x16_row_if(data2 + 1160, v3);
    const bfloat16x16 x17 = load_bfloat16x16_row_if(data2 + 1176, v4);
    const floatx16 v18 = floatx16_from_bfloat16(x16);
    const floatx16 v19 = floatx16_from_bfloat16(x17);
    for (long long r0 = 0; r0 < 19; r0++) {
        const _Bool v20 = (r0 * 2) < 37;
        const _Bool v21 = ((r0 * 2) + 1) < 37;
        const boolx16 v22 = splat_boolx16(-(v20)) & v3;
        const boolx16 v23 = splat_boolx16(-(v20)) & v4;
        const boolx16 v24 = splat_boolx16(-(v21)) & v3;
        const boolx16 v25 = splat_boolx16(-(v21)) & v4;
        floatx16 acc0_0_0 = splat_floatx16(0.0f);
        floatx16 acc0_0_1 = splat_floatx16(0.0f);
        floatx16 acc0_1_0 = splat_floatx16(0.0f);
        floatx16 acc0_1_1 = splat_floatx16(0.0f);
        for (long long r4 = 0; r4 < 20; r4++) {
            const long long i26 = (((36 < ((r0 * 2) + 1)) ? 36 : ((r0 * 2) + 1)) * 41) + (r4 * 2);
            const unsigned short x27 = data1[(((36 < (r0 * 2)) ? 36 : (r0 * 2)) * 41) + (r4 * 2)];
            const unsigned short x28 = data1[i26];
            const unsigned short x29 = data1[((((36 < (r0 * 2)) ? 36 : (r0 * 2)) * 41) + (r4 * 2)) + 1];
            const unsigned short x30 = data1[i26 + 1];
            const unsigned int v31 = (unsigned int)(x27) | ((unsigned int)(x29) << 16u);
            const unsigned int v32 = (unsigned int)(x28) | ((unsigned int)(x30) << 16u);
            const uintx16 x33 = *(const uintx16_in_memory *)(local0 + r4 * 32);
            const uintx16 x34 = *(const uintx16_in_memory *)(local0 + (r4 * 32) + 16);
            acc0_0_0 = (floatx16)add_dot2(acc0_0_0, splat_uintx16(v31), x33);
            acc0_0_1 = (floatx16)add_dot2(acc0_0_1, splat_uintx16(v31), x34);
            acc0_1_0 = (floatx16)add_dot2(acc0_1_0, splat_uintx16(v32), x33);
            acc0_1_1 = (floatx16)add_dot2(acc0_1_1, splat_uintx16(v32), x34);
        }
        const unsigned short x35 = data1[(((36 < (r0 * 2)) ? 36 : (r0 * 2)) * 41) + 40];
        const unsigned short x36 = data1[(((36 < ((r0 * 2) + 1)) ? 36 : ((r0 * 2) + 1)) * 41) + 40];
        const float v37 = float_from_bfloat16(x35);
        const float v38 = float_from_bfloat16(x36);
        const bfloat16x16 v39 = bfloat16x16_from_float((acc0_0_0 + (splat_floatx16(v37) * v18)));
        const bfloat16x16 v40 = bfloat16x16_from_float((acc0_0_1 + (splat_floatx16(v37) * v19)));
        const bfloat16x16 v41 = bfloat16x16_from_float((acc0_1_0 + (splat_floatx16(v38) * v18)));
        const bfloat16x16 v42 = bfloat16x16_from_float((acc0_1_1 + (splat_floatx16(v38) * v19)));
        store_bfloat16x16_row_if(data0 + r0 * 58, v39, v22);
        store_bfloat16x16_row_if(data0 + (r0 * 58) + 16, v40, v23);
        store_bfloat16x16_row_if(data0 + (r0 * 58) + 29, v41, v24);
        store_bfloat16x16_row_if(data0 + ((r0 * 58) + 29) + 16, v42, v25);
    }
}
