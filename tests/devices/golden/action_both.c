/* r_13_37_11: vectorise(1, 4), unroll(0, 2), unroll(1, 2) */
typedef float floatx4 __attribute__((vector_size(16), may_alias));
static inline floatx4 splat_floatx4(float x) {
    return (floatx4){x, x, x, x};
}
typedef floatx4 floatx4_in_memory __attribute__((aligned(4), may_alias));

void r_13_37_11(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    const float *restrict data2 = buffers[2];
    for (long long r0 = 0; r0 < 6; r0++) {
        for (long long r1 = 0; r1 < 4; r1++) {
            floatx4 acc0_0_0 = splat_floatx4(0.0f);
            floatx4 acc0_0_1 = splat_floatx4(0.0f);
            floatx4 acc0_1_0 = splat_floatx4(0.0f);
            floatx4 acc0_1_1 = splat_floatx4(0.0f);
            for (long long r5 = 0; r5 < 11; r5++) {
                const float x0 = data1[(r0 * 22) + r5];
                const float x1 = data1[((r0 * 22) + 11) + r5];
                const floatx4 x2 = *(const floatx4_in_memory *)(data2 + (r1 * 8) + (r5 * 37));
                const floatx4 x3 = *(const floatx4_in_memory *)(data2 + ((r1 * 8) + 4) + (r5 * 37));
                acc0_0_0 = acc0_0_0 + (splat_floatx4(x0) * x2);
                acc0_0_1 = acc0_0_1 + (splat_floatx4(x0) * x3);
                acc0_1_0 = acc0_1_0 + (splat_floatx4(x1) * x2);
                acc0_1_1 = acc0_1_1 + (splat_floatx4(x1) * x3);
            }
            *(floatx4_in_memory *)(data0 + (r0 * 74) + (r1 * 8)) = acc0_0_0;
            *(floatx4_in_memory *)(data0 + ((r0 * 74) + (r1 * 8)) + 4) = acc0_0_1;
            *(floatx4_in_memory *)(data0 + ((r0 * 74) + 37) + (r1 * 8)) = acc0_1_0;
            *(floatx4_in_memory *)(data0 + (((r0 * 74) + 37) + (r1 * 8)) + 4) = acc0_1_1;
        }
        for (long long r6 = 0; r6 < 1; r6++) {
            float acc1_0 = 0.0f;
            float acc1_1 = 0.0f;
            for (long long r7 = 0; r7 < 11; r7++) {
                const float x4 = data1[(r0 * 22) + r7];
                const float x5 = data1[((r0 * 22) + 11) + r7];
                const float x6 = data2[(r6 + (r7 * 37)) + 36];
                acc1_0 = acc1_0 + (x4 * x6);
                acc1_1 = acc1_1 + (x5 * x6);
            }
            data0[((r0 * 74) + r6) + 36] = acc1_0;
            data0[(((r0 * 74) + 37) + r6) + 36] = acc1_1;
        }
        for (long long r8 = 0; r8 < 1; r8++) {
            floatx4 acc2_0 = splat_floatx4(0.0f);
            floatx4 acc2_1 = splat_floatx4(0.0f);
            for (long long r9 = 0; r9 < 11; r9++) {
                const float x7 = data1[(r0 * 22) + r9];
                const float x8 = data1[((r0 * 22) + 11) + r9];
                const floatx4 x9 = *(const floatx4_in_memory *)(data2 + ((r8 * 4) + (r9 * 37)) + 32);
                acc2_0 = acc2_0 + (splat_floatx4(x7) * x9);
                acc2_1 = acc2_1 + (splat_floatx4(x8) * x9);
            }
            *(floatx4_in_memory *)(data0 + ((r0 * 74) + (r8 * 4)) + 32) = acc2_0;
            *(floatx4_in_memory *)(data0 + (((r0 * 74) + 37) + (r8 * 4)) + 32) = acc2_1;
        }
    }
    for (long long r10 = 0; r10 < 1; r10++) {
        for (long long r11 = 0; r11 < 4; r11++) {
            floatx4 acc3_0 = splat_floatx4(0.0f);
            floatx4 acc3_1 = splat_floatx4(0.0f);
            for (long long r12 = 0; r12 < 11; r12++) {
                const float x10 = data1[((r10 * 11) + r12) + 132];
                const floatx4 x11 = *(const floatx4_in_memory *)(data2 + (r11 * 8) + (r12 * 37));
                const floatx4 x12 = *(const floatx4_in_memory *)(data2 + ((r11 * 8) + 4) + (r12 * 37));
                acc3_0 = acc3_0 + (splat_floatx4(x10) * x11);
                acc3_1 = acc3_1 + (splat_floatx4(x10) * x12);
            }
            *(floatx4_in_memory *)(data0 + ((r10 * 37) + (r11 * 8)) + 444) = acc3_0;
            *(floatx4_in_memory *)(data0 + (((r10 * 37) + (r11 * 8)) + 4) + 444) = acc3_1;
        }
        for (long long r13 = 0; r13 < 1; r13++) {
            float acc4 = 0.0f;
            for (long long r14 = 0; r14 < 11; r14++) {
                const float x13 = data1[((r10 * 11) + r14) + 132];
                const float x14 = data2[(r13 + (r14 * 37)) + 36];
                acc4 = acc4 + (x13 * x14);
            }
            data0[((r10 * 37) + r13) + 480] = acc4;
        }
        for (long long r15 = 0; r15 < 1; r15++) {
            floatx4 acc5 = splat_floatx4(0.0f);
            for (long long r16 = 0; r16 < 11; r16++) {
                const float x15 = data1[((r10 * 11) + r16) + 132];
                const floatx4 x16 = *(const floatx4_in_memory *)(data2 + ((r15 * 4) + (r16 * 37)) + 32);
                acc5 = acc5 + (splat_floatx4(x15) * x16);
            }
            *(floatx4_in_memory *)(data0 + ((r10 * 37) + (r15 * 4)) + 476) = acc5;
        }
    }
}
