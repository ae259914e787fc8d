static __device__ __forceinline__ unsigned shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               ::"r"(shared_address(to)), "l"(from) : "memory");
}
static __device__ __forceinline__ void cp_async_16_or_zero(void* to, const void* from, bool keep) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               ::"r"(shared_address(to)), "l"(from), "r"(keep ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
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
  const int i1 = i0 >> 5;
  const int i2 = (i0 & 31) * 4;
  const int i3 = by * 128 + i2;
  const int i4 = i1 * 1000 + i3;
  const int i5 = i1 * 128 + i2;
  const bool c0 = i3 < 1000;
  cp_async_16_or_zero(a_s + i5, a + i4, c0);
  const int i6 = i1 * 1024 + bx * 128 + i2;
  cp_async_16(b_s + i5, b + i6);
  cp_async_commit();
  #pragma unroll 1
  for (int ko = 0; ko < 128; ++ko) {
    if (ko + 1 < 128) {
      const int i7 = ty * 16 + tx;
      const int i8 = i7 >> 5;
      const int i9 = (i7 & 31) * 4;
      const int i10 = by * 128 + i9;
      const int i11 = ((ko + 1) * 8 + i8) * 1000 + i10;
      const int i12 = ((ko + 1) & 1) * 1024 + i8 * 128 + i9;
      const bool c1 = i10 < 1000;
      cp_async_16_or_zero(a_s + i12, a + i11, c1);
      const int i13 = ((ko + 1) * 8 + i8) * 1024 + bx * 128 + i9;
      cp_async_16(b_s + i12, b + i13);
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
        const int i14 = (ko & 1) * 1024 + k * 128 + q * 64 + ty * 4;
        const float4 v0 = *(const float4*)(a_s + i14);
        a_r[q * 4] = v0.x;
        a_r[q * 4 + 1] = v0.y;
        a_r[q * 4 + 2] = v0.z;
        a_r[q * 4 + 3] = v0.w;
        const int i15 = (ko & 1) * 1024 + k * 128 + q * 64 + tx * 4;
        const float4 v1 = *(const float4*)(b_s + i15);
        b_r[q * 4] = v1.x;
        b_r[q * 4 + 1] = v1.y;
        b_r[q * 4 + 2] = v1.z;
        b_r[q * 4 + 3] = v1.w;
      }
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; ++i_1) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int i16 = i_1 * 8 + j;
          acc[i16] += a_r[i_1] * b_r[j];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 4; ++i_2) {
      const int i17 = by * 128 + h * 64 + ty * 4 + i_2;
      if (i17 < 1000) {
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
          const int i18 = (h * 4 + i_2) * 8 + p * 4;
          const int i19 = i17 * 1024 + bx * 128 + p * 64 + tx * 4;
          *(float4*)(c + i19) = make_float4(acc[i18], acc[i18 + 1], acc[i18 + 2], acc[i18 + 3]);
        }
      }
    }
  }
}
