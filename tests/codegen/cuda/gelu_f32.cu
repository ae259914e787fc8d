static __device__ __forceinline__ float div_f32(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// grid 1024 x 1 x 1, block 256 x 1 x 1
extern "C" __global__ void __launch_bounds__(256)
gelu_f32(const float* __restrict__ x,
         float* __restrict__ out) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int i0 = (bx * 256 + tx) * 4;
  const float4 v0 = *(const float4*)(x + i0);
  __stcs((float4*)(out + i0), make_float4(div_f32(v0.x, 1.0f + expf(-1.702f * v0.x)),
      div_f32(v0.y, 1.0f + expf(-1.702f * v0.y)),
      div_f32(v0.z, 1.0f + expf(-1.702f * v0.z)),
      div_f32(v0.w, 1.0f + expf(-1.702f * v0.w))));
}
