/* plain: no actions */
void plain(void **buffers, const long long *variables) {
    float *restrict data0 = buffers[0];
    const float *restrict data1 = buffers[1];
    for (long long r0 = 0; r0 < 5; r0++) {
        const float x0 = data1[r0];
        data0[r0] = x0 + 3.0f;
    }
}
