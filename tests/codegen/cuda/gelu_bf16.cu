static __device__ __forceinline__ float f32_from_bf16(unsigned short x) {
  return __uint_as_float((unsigned)x << 16);
}
static __device__ __forceinline__ unsigned short bf16_from_f32(float x) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x), "f"(0.0f));
  return (unsigned short)(r >> 16);
}
static __device__ __forceinline__ float round_bf16(float x) {
  return f32_from_bf16(bf16_from_f32(x));
}
static __device__ __forceinline__ unsigned short low16(unsigned x) { return (unsigned short)x; }
static __device__ __forceinline__ unsigned short high16(unsigned x) {
  return (unsigned short)(x >> 16);
}
static __device__ __forceinline__ unsigned pack16(unsigned short low, unsigned short high) {
  return (unsigned)high << 16 | low;
}
static __device__ __forceinline__ float div_f32(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// grid 512 x 1 x 1, block 256 x 1 x 1
extern "C" __global__ void __launch_bounds__(256)
gelu_bf16(const unsigned short* __restrict__ x,
          unsigned short* __restrict__ out) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int i0 = (bx * 256 + tx) * 8;
  const uint4 v0 = *(const uint4*)(x + i0);
  const unsigned short t0 = bf16_from_f32(div_f32(f32_from_bf16(low16(v0.x)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(low16(v0.x))))))));
  const unsigned short t1 = bf16_from_f32(div_f32(f32_from_bf16(high16(v0.x)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(high16(v0.x))))))));
  const unsigned short t2 = bf16_from_f32(div_f32(f32_from_bf16(low16(v0.y)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(low16(v0.y))))))));
  const unsigned short t3 = bf16_from_f32(div_f32(f32_from_bf16(high16(v0.y)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(high16(v0.y))))))));
  const unsigned short t4 = bf16_from_f32(div_f32(f32_from_bf16(low16(v0.z)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(low16(v0.z))))))));
  const unsigned short t5 = bf16_from_f32(div_f32(f32_from_bf16(high16(v0.z)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(high16(v0.z))))))));
  const unsigned short t6 = bf16_from_f32(div_f32(f32_from_bf16(low16(v0.w)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(low16(v0.w))))))));
  const unsigned short t7 = bf16_from_f32(div_f32(f32_from_bf16(high16(v0.w)), round_bf16(1.0f + round_bf16(expf(round_bf16(-1.703125f * f32_from_bf16(high16(v0.w))))))));
  __stcs((uint4*)(out + i0), make_uint4(pack16(t0, t1), pack16(t2, t3), pack16(t4, t5), pack16(t6, t7)));
}
