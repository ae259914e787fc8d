static __device__ __forceinline__ unsigned short f16_from_f32(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
static __device__ __forceinline__ unsigned pack16(unsigned short low, unsigned short high) {
  return (unsigned)high << 16 | low;
}
static __device__ __forceinline__ unsigned pack_f16(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return pack16(f16_from_f32(low), f16_from_f32(high));
#endif
}
static __device__ __forceinline__ unsigned shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               ::"r"(shared_address(to)), "l"(from) : "memory");
}
static __device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
static __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
static __device__ __forceinline__ void ldmatrix_x4(unsigned* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}
static __device__ __forceinline__ void mma_m16n8k16_f16_f32(float* d, const unsigned* a, const unsigned* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// grid 4 x 4 x 1, block 128 x 1 x 1, 10240 bytes of shared memory
extern "C" __global__ void __launch_bounds__(128)
mma_f16(const unsigned short* __restrict__ a,
        const unsigned short* __restrict__ b,
        unsigned short* __restrict__ c) {
  extern __shared__ __align__(16) unsigned char smem[];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  unsigned short* const a_s = (unsigned short*)smem;  // [2560]
  unsigned short* const b_s = (unsigned short*)(smem + 5120);  // [2560]
  float acc[32];
  unsigned fa[8];  // f16
  unsigned fb[8];  // f16
  #pragma unroll
  for (int z = 0; z < 32; ++z) {
    acc[z] = 0.0f;
  }
  #pragma unroll 1
  for (int ko = 0; ko < 8; ++ko) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i0 = (tx >> 2) + r * 32;
      const int i1 = (tx & 3) * 8;
      const int i2 = (by * 64 + i0) * 256 + ko * 32 + i1;
      const int i3 = i0 * 40 + i1;
      cp_async_16(a_s + i3, a + i2);
      const int i4 = (bx * 64 + i0) * 256 + ko * 32 + i1;
      cp_async_16(b_s + i3, b + i4);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    #pragma unroll
    for (int ks = 0; ks < 2; ++ks) {
      #pragma unroll
      for (int mi = 0; mi < 2; ++mi) {
        ldmatrix_x4(fa + mi * 4, a_s + ((((tx >> 5) >> 1) * 32 + mi * 16 + ((tx & 31) & 15)) * 40 + (ks * 16 + ((tx & 31) >> 4) * 8)));
      }
      #pragma unroll
      for (int ni = 0; ni < 2; ++ni) {
        ldmatrix_x4(fb + ni * 4, b_s + ((((tx >> 5) & 1) * 32 + ni * 16 + (((tx & 31) >> 4) * 8 + ((tx & 31) & 7))) * 40 + (ks * 16 + (((tx & 31) >> 3) & 1) * 8)));
      }
      #pragma unroll
      for (int mi_1 = 0; mi_1 < 2; ++mi_1) {
        #pragma unroll
        for (int ni_1 = 0; ni_1 < 4; ++ni_1) {
          mma_m16n8k16_f16_f32(acc + (mi_1 * 16 + ni_1 * 4), fa + mi_1 * 4, fb + ni_1 * 2);
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i5 = i * 16 + j * 4 + h * 2;
        const int i6 = (by * 64 + ((tx >> 5) >> 1) * 32 + i * 16 + h * 8 + ((tx & 31) >> 2)) * 256 + (bx * 64 + ((tx >> 5) & 1) * 32 + j * 8 + ((tx & 31) & 3) * 2);
        *(unsigned*)(c + i6) = pack_f16(acc[i5], acc[i5 + 1]);
      }
    }
  }
}
