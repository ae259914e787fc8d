
// grid 512 x 1 x 1, block 256 x 1 x 1, 32 bytes of shared memory
extern "C" __global__ void __launch_bounds__(256)
row_sum(const float* __restrict__ x,
        float* __restrict__ out) {
  extern __shared__ __align__(16) unsigned char smem[];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  float acc;
  float* const parts = (float*)smem;  // [8]
  acc = 0.0f;
  #pragma unroll 1
  for (int r = 0; r < 4; ++r) {
    float v[4];
    const int i0 = bx * 4096 + r * 1024 + tx * 4;
    const float4 v0 = *(const float4*)(x + i0);
    v[0] = v0.x;
    v[1] = v0.y;
    v[2] = v0.z;
    v[3] = v0.w;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc += v[j];
    }
  }
  acc += __shfl_xor_sync(0xffffffffu, acc, 16);
  acc += __shfl_xor_sync(0xffffffffu, acc, 8);
  acc += __shfl_xor_sync(0xffffffffu, acc, 4);
  acc += __shfl_xor_sync(0xffffffffu, acc, 2);
  acc += __shfl_xor_sync(0xffffffffu, acc, 1);
  if ((tx & 31) == 0) {
    parts[tx >> 5] = acc;
  }
  __syncthreads();
  if (tx < 8) {
    acc = parts[tx];
    acc += __shfl_xor_sync(0xffu, acc, 4);
    acc += __shfl_xor_sync(0xffu, acc, 2);
    acc += __shfl_xor_sync(0xffu, acc, 1);
  }
  if (tx < 1) {
    out[bx] = acc;
  }
}
