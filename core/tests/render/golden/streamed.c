/* streamed: vectorise 8, stream */
typedef float floatx8 __attribute__((vector_size(32), may_alias));
typedef floatx8 floatx8_in_memory __attribute__((aligned(4), may_alias));
static inline floatx8 splat_floatx8(float x) {
    return (floatx8){x, x, x, x, x, x, x, x};
}
typedef long long bytesx32 __attribute__((vector_size(32), may_alias));

void streamed(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    for (long long r0 = 0; r0 < 8; r0++) {
        const floatx8 x0 = *(const floatx8_in_memory *)(data1 + r0 * 8);
        store_past_caches((bytesx32 *)(data0 + r0 * 8), (bytesx32)(x0 + splat_floatx8(3.0f)));
    }
    wait_for_stores();
}
