static __device__ __forceinline__ unsigned shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void cluster_started() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
static __device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
static __device__ __forceinline__ void expect_arrivals(unsigned long long* arrivals, int bytes) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals)) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(arrivals)), "r"(bytes) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
}
static __device__ __forceinline__ void wait_for_arrivals(unsigned long long* arrivals) {
  unsigned all;
  do {
    asm volatile("{ .reg .pred p;\n"
                 "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                 "  selp.u32 %0, 1, 0, p; }"
                 : "=r"(all) : "r"(shared_address(arrivals)) : "memory");
  } while (all == 0);
}
template <int kBlocks, class T>
static __device__ __forceinline__ void send_in_cluster(T* to, T value, unsigned long long* arrivals) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    unsigned there, count;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there) : "r"(shared_address(to)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(count) : "r"(shared_address(arrivals)), "r"(block));
    if (sizeof(T) == 4) {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                   ::"r"(there), "r"(*(const unsigned*)&value), "r"(count) : "memory");
    } else {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                   ::"r"(there), "l"(*(const unsigned long long*)&value), "r"(count) : "memory");
    }
  }
}
static __device__ __forceinline__ void grid_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// grid 16 x 1 x 1, block 32 x 1 x 1, 16 bytes of shared memory, clusters of 2 blocks
extern "C" __global__ void __launch_bounds__(32)
row_sum(const float* __restrict__ x,
        float* __restrict__ out) {
  extern __shared__ __align__(16) unsigned char smem[];
  __shared__ unsigned long long arrivals[1];
  expect_arrivals(arrivals + 0, 8);
  cluster_started();
  const int bx = blockIdx.x / 2;
  const int tx = blockIdx.x % 2 * 32 + threadIdx.x;
  grid_wait();
  float out_local;
  float out_local_rf;
  out_local_rf = 0.0f;
  #pragma unroll 1
  for (int k_o = 0; k_o < 16; ++k_o) {
    out_local_rf += x[bx * 1024 + tx + k_o * 64];
  }
  out_local = 0.0f;
  float* const out_local_warps = (float*)smem;  // [2]
  float out_local_part;
  out_local_part = out_local_rf;
  const float part = __shfl_xor_sync(0xffffffffu, out_local_part, 16);
  const float both = out_local_part + part;
  out_local_part = both;
  const float part_1 = __shfl_xor_sync(0xffffffffu, out_local_part, 8);
  const float both_1 = out_local_part + part_1;
  out_local_part = both_1;
  const float part_2 = __shfl_xor_sync(0xffffffffu, out_local_part, 4);
  const float both_2 = out_local_part + part_2;
  out_local_part = both_2;
  const float part_3 = __shfl_xor_sync(0xffffffffu, out_local_part, 2);
  const float both_3 = out_local_part + part_3;
  out_local_part = both_3;
  const float part_4 = __shfl_xor_sync(0xffffffffu, out_local_part, 1);
  const float both_4 = out_local_part + part_4;
  out_local_part = both_4;
  cluster_wait();
  if ((tx & 31) == 0) {
    send_in_cluster<2>(out_local_warps + (tx >> 5), (float)out_local_part, arrivals + 0);
  }
  wait_for_arrivals(arrivals + 0);
  #pragma unroll
  for (int warp = 0; warp < 2; ++warp) {
    const float part_5 = out_local_warps[warp];
    const float both_5 = out_local + part_5;
    out_local = both_5;
  }
  if (tx < 1) {
    out[bx] = out_local;
  }
}
