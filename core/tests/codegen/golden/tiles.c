/* r_61_67_101: matrix(1, 1, 2x2, 64, 128, 1) */
#include <tiles.h>
typedef long long indexx16 __attribute__((vector_size(128), may_alias));
typedef long long indexx64 __attribute__((vector_size(512), may_alias));
static inline indexx16 splat_indexx16(long long x) {
    return (indexx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef int boolx16 __attribute__((vector_size(64), may_alias));
static inline boolx16 splat_boolx16(int x) {
    return (boolx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef signed char charx16 __attribute__((vector_size(16), may_alias));
static inline charx16 load_charx16_row_if(const signed char *p, boolx16 c) {
    charx16 r;
    for (int k = 0; k < 16; k++) r[k] = c[k] ? p[k] : 0;
    return r;
}
typedef unsigned char ucharx16 __attribute__((vector_size(16), may_alias));
typedef unsigned int uintx16 __attribute__((vector_size(64), may_alias));
static inline uintx16 splat_uintx16(unsigned int x) {
    return (uintx16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef uintx16 uintx16_in_memory __attribute__((aligned(4), may_alias));
static inline indexx64 splat_indexx64(long long x) {
    return (indexx64){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef int boolx64 __attribute__((vector_size(256), may_alias));
static inline boolx64 splat_boolx64(int x) {
    return (boolx64){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
typedef signed char charx64 __attribute__((vector_size(64), may_alias));
static inline charx64 load_charx64_row_if(const signed char *p, boolx64 c) {
    charx64 r;
    for (int k = 0; k < 64; k++) r[k] = c[k] ? p[k] : 0;
    return r;
}
typedef charx64 charx64_in_memory __attribute__((aligned(1), may_alias));
typedef int intx16 __attribute__((vector_size(64), may_alias));
typedef intx16 intx16_in_memory __attribute__((aligned(4), may_alias));
static inline void store_intx16_row_if(int *p, intx16 x, boolx16 c) {
    for (int k = 0; k < 16; k++) if (c[k]) p[k] = x[k];
}

void r_61_67_101(void **buffers, const long long *variables) {
    int *restrict data0 = buffers[0];
    const signed char *restrict data1 = buffers[1];
    const signed char *restrict data2 = buffers[2];
    char *scratch = (char *)variables[2];
    begin_tiles();
    const indexx16 lane0 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    int *restrict local2 = (int *)(scratch + 0);
    signed char *restrict local0 = (signed char *)(scratch + 8192);
    const indexx64 lane1 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    unsigned int *restrict local1 = (unsigned int *)(scratch + 12288);
    const indexx16 lane2 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (long long r0 = 0; r0 < 2; r0++) {
        for (long long r13 = 0; r13 < 32; r13++) {
            const _Bool v3 = r13 < 26;
            const _Bool v4 = r13 < 25;
            for (long long r14 = 0; r14 < 4; r14++) {
                const boolx16 v5 = __builtin_convertvector(((splat_indexx16((r0 * 64) + (r14 * 16)) + lane2) < splat_indexx16(67)), boolx16);
                const charx16 x6 = load_charx16_row_if(data2 + ((r0 * 64) + (r13 * 268)) + (r14 * 16), splat_boolx16(-(v3)) & v5);
                const boolx16 v7 = splat_boolx16(-(v4)) & v5;
                const charx16 x8 = load_charx16_row_if(data2 + (((r0 * 64) + (r13 * 268)) + (r14 * 16)) + 67, v7);
                const uintx16 v9 = __builtin_convertvector((ucharx16)x8, uintx16) << splat_uintx16(8u);
                const charx16 x10 = load_charx16_row_if(data2 + (((r0 * 64) + (r13 * 268)) + (r14 * 16)) + 134, v7);
                const uintx16 v11 = __builtin_convertvector((ucharx16)x10, uintx16) << splat_uintx16(16u);
                const uintx16 v12 = (__builtin_convertvector((ucharx16)x6, uintx16) | v9) | v11;
                const charx16 x13 = load_charx16_row_if(data2 + (((r0 * 64) + (r13 * 268)) + (r14 * 16)) + 201, v7);
                const uintx16 v14 = __builtin_convertvector((ucharx16)x13, uintx16) << splat_uintx16(24u);
                *(uintx16_in_memory *)(local1 + (r13 * 64) + (r14 * 16)) = v12 | v14;
            }
        }
        for (long long r1 = 0; r1 < 2; r1++) {
            for (long long r10 = 0; r10 < 32; r10++) {
                const _Bool v15 = ((r1 * 32) + r10) < 61;
                for (long long r11 = 0; r11 < 2; r11++) {
                    const boolx64 v16 = __builtin_convertvector(((splat_indexx64(r11 * 64) + lane1) < splat_indexx64(101)), boolx64);
                    const charx64 x17 = load_charx64_row_if(data1 + ((r1 * 3232) + (r10 * 101)) + (r11 * 64), splat_boolx64(-(v15)) & v16);
                    *(charx64_in_memory *)(local0 + (r10 * 128) + (r11 * 64)) = x17;
                }
            }
            for (long long r7 = 0; r7 < 2; r7++) {
                zero(0);
                zero(1);
                zero(2);
                zero(3);
                for (long long r8 = 0; r8 < 2; r8++) {
                    load(4, local0 + r8 * 64, 128);
                    load(5, local0 + (r8 * 64) + 2048, 128);
                    load(6, local1 + (r7 * 32) + (r8 * 1024), 256);
                    load(7, local1 + ((r7 * 32) + (r8 * 1024)) + 16, 256);
                    multiply(0, 4, 6);
                    multiply(1, 4, 7);
                    multiply(2, 5, 6);
                    multiply(3, 5, 7);
                }
                store(0, local2 + r7 * 32, 256);
                store(1, local2 + (r7 * 32) + 16, 256);
                store(2, local2 + (r7 * 32) + 1024, 256);
                store(3, local2 + ((r7 * 32) + 1024) + 16, 256);
            }
            for (long long r2 = 0; r2 < 32; r2++) {
                const _Bool v18 = ((r1 * 32) + r2) < 61;
                for (long long r3 = 0; r3 < 4; r3++) {
                    const boolx16 v19 = __builtin_convertvector(((splat_indexx16((r0 * 64) + (r3 * 16)) + lane0) < splat_indexx16(67)), boolx16);
                    const intx16 x20 = *(const intx16_in_memory *)(local2 + (r2 * 64) + (r3 * 16));
                    store_intx16_row_if(data0 + (((r0 * 64) + (r1 * 2144)) + (r2 * 67)) + (r3 * 16), x20, splat_boolx16(-(v18)) & v19);
                }
            }
        }
    }
    end_tiles();
}
