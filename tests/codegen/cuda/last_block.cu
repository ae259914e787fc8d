static __device__ __forceinline__ bool last_to_finish(unsigned* tickets, unsigned blocks) {
  bool last = false;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    __threadfence();
    last = atomicInc(tickets, blocks - 1) == blocks - 1;
    __threadfence();
  }
  return __syncthreads_or(last);
}
static __device__ __forceinline__ void grid_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// grid 8 x 1 x 1, block 64 x 1 x 1, 16 bytes of shared memory
extern "C" __global__ void __launch_bounds__(64)
sum_of_all(const float* __restrict__ x,
           float* out,
           float* out_rf,
           unsigned* __restrict__ tickets) {
  extern __shared__ __align__(16) unsigned char smem[];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  grid_wait();
  float out_rf_local;
  float out_rf_local_rf;
  out_rf_local_rf = 0.0f;
  #pragma unroll 1
  for (int k_o = 0; k_o < 16; ++k_o) {
    out_rf_local_rf += x[bx * 1024 + tx + k_o * 64];
  }
  out_rf_local = 0.0f;
  float* const out_rf_local_warps = (float*)smem;  // [2]
  float out_rf_local_part;
  out_rf_local_part = out_rf_local_rf;
  const float part = __shfl_xor_sync(0xffffffffu, out_rf_local_part, 16);
  const float both = out_rf_local_part + part;
  out_rf_local_part = both;
  const float part_1 = __shfl_xor_sync(0xffffffffu, out_rf_local_part, 8);
  const float both_1 = out_rf_local_part + part_1;
  out_rf_local_part = both_1;
  const float part_2 = __shfl_xor_sync(0xffffffffu, out_rf_local_part, 4);
  const float both_2 = out_rf_local_part + part_2;
  out_rf_local_part = both_2;
  const float part_3 = __shfl_xor_sync(0xffffffffu, out_rf_local_part, 2);
  const float both_3 = out_rf_local_part + part_3;
  out_rf_local_part = both_3;
  const float part_4 = __shfl_xor_sync(0xffffffffu, out_rf_local_part, 1);
  const float both_4 = out_rf_local_part + part_4;
  out_rf_local_part = both_4;
  if ((tx & 31) == 0) {
    out_rf_local_warps[tx >> 5] = out_rf_local_part;
  }
  __syncthreads();
  #pragma unroll
  for (int warp = 0; warp < 2; ++warp) {
    const float part_5 = out_rf_local_warps[warp];
    const float both_5 = out_rf_local + part_5;
    out_rf_local = both_5;
  }
  if (tx < 1) {
    out_rf[bx] = out_rf_local;
  }
  if (!last_to_finish(tickets, 8)) return;
  if (tx < 1) {
    out[0] = 0.0f;
  }
  #pragma unroll 1
  for (int i_o = 0; i_o < 8; ++i_o) {
    __syncthreads();
    if (tx < 1) {
      out[0] += out_rf[i_o];
    }
  }
}
