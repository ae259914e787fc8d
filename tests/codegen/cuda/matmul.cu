static __device__ __forceinline__ unsigned shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
static __device__ __forceinline__ void cp_async_16_or_zero(void* to, const void* from, bool keep) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(keep ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
static __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// grid 8 x 8 x 1, block 16 x 16 x 1, 16384 bytes of shared memory
extern "C" __global__ void __launch_bounds__(256)
matmul(const float* __restrict__ a,
       const float* __restrict__ b,
       float* __restrict__ c) {
  extern __shared__ __align__(16) unsigned char smem[];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  float* const a_s = (float*)smem;  // [2048]
  float* const b_s = (float*)(smem + 8192);  // [2048]
  float acc[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) {
    acc[i] = 0.0f;
  }
  const int i0 = ty * 16 + tx;
  const int i0_1 = i0 >> 5;
  const int i0_2 = (i0 & 31) * 4;
  const int i0_3 = by * 128 + i0_2;
  const int i0_4 = i0_1 * 1000 + i0_3;
  const int i0_5 = i0_1 * 128 + i0_2;
  const bool t0 = i0_3 < 1000;
  cp_async_16_or_zero(a_s + i0_5, a + i0_4, t0);
  const int i0_6 = ty * 16 + tx;
  const int i0_7 = i0_6 >> 5;
  const int i0_8 = (i0_6 & 31) * 4;
  const int i0_9 = i0_7 * 1024 + bx * 128 + i0_8;
  const int i0_10 = i0_7 * 128 + i0_8;
  cp_async_16(b_s + i0_10, b + i0_9);
  cp_async_commit();
  #pragma unroll 1
  for (int ko = 0; ko < 128; ++ko) {
    if (ko + 1 < 128) {
      const int i0_11 = ty * 16 + tx;
      const int i0_12 = i0_11 >> 5;
      const int i0_13 = (i0_11 & 31) * 4;
      const int i0_14 = by * 128 + i0_13;
      const int i0_15 = ((ko + 1) * 8 + i0_12) * 1000 + i0_14;
      const int i0_16 = (ko + 1 & 1) * 1024 + i0_12 * 128 + i0_13;
      const bool t0_1 = i0_14 < 1000;
      cp_async_16_or_zero(a_s + i0_16, a + i0_15, t0_1);
      const int i0_17 = ty * 16 + tx;
      const int i0_18 = i0_17 >> 5;
      const int i0_19 = (i0_17 & 31) * 4;
      const int i0_20 = ((ko + 1) * 8 + i0_18) * 1024 + bx * 128 + i0_19;
      const int i0_21 = (ko + 1 & 1) * 1024 + i0_18 * 128 + i0_19;
      cp_async_16(b_s + i0_21, b + i0_20);
      cp_async_commit();
    }
    cp_async_wait<1>();
    __syncthreads();
    float a_r[8];
    float b_r[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int i0_22 = (ko & 1) * 1024 + k * 128 + q * 64 + ty * 4;
        const float4 v0 = *(const float4*)(a_s + i0_22);
        a_r[q * 4] = v0.x;
        a_r[q * 4 + 1] = v0.y;
        a_r[q * 4 + 2] = v0.z;
        a_r[q * 4 + 3] = v0.w;
        const int i0_23 = (ko & 1) * 1024 + k * 128 + q * 64 + tx * 4;
        const float4 v0_1 = *(const float4*)(b_s + i0_23);
        b_r[q * 4] = v0_1.x;
        b_r[q * 4 + 1] = v0_1.y;
        b_r[q * 4 + 2] = v0_1.z;
        b_r[q * 4 + 3] = v0_1.w;
      }
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; ++i_1) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int i0_24 = i_1 * 8 + j;
          acc[i0_24] += a_r[i_1] * b_r[j];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 4; ++i_2) {
      if (by * 128 + h * 64 + ty * 4 + i_2 < 1000) {
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
          const int i0_25 = (h * 4 + i_2) * 8 + p * 4;
          const int i0_26 = (by * 128 + h * 64 + ty * 4 + i_2) * 1024 + bx * 128 + p * 64 + tx * 4;
          *(float4*)(c + i0_26) = make_float4(acc[i0_25], acc[i0_25 + 1], acc[i0_25 + 2], acc[i0_25 + 3]);
        }
      }
    }
  }
}
