/* running_sum: no actions */
void running_sum(void **buffers, const long long *variables) {
    int *restrict data0 = buffers[0];
    const int *restrict data1 = buffers[1];
    int acc0 = 0;
    for (long long r0 = 0; r0 < 9; r0++) {
        const int v0 = acc0;
        const int x1 = data1[r0];
        acc0 = acc0 + x1;
        data0[r0] = (v0 * 2) + x1;
    }
}
