/* exchange: no actions */
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

extern "C" __global__ void __launch_bounds__(256) exchange(int *__restrict__ data0, const int *__restrict__ data1) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    int *local0 = (int *)(shared_bytes + 0);
    const long long r0 = blockIdx.x;
    const long long r1 = threadIdx.x;
    const int x0 = data1[(r0 * 256) + r1];
    local0[r1 + 19744] = x0;
    __syncthreads();
    const int x1 = local0[19999 - r1];
    data0[(r0 * 256) + r1] = x1;
}
