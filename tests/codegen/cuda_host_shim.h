// Definitions by which CUDA text runs as host C++: one thread after the other, or the lanes of a warp
// at the same time, each in a thread of the host. They are placed before the kernels. They replace NVCC's built-ins, and those of the prelude's functions that
// consist of PTX.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "support/numbers/half.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __align__(n) alignas(n)
#define __shared__

namespace shim {

using std::isinf;
using std::isnan;

struct Dim {
  int x, y, z;
};
inline thread_local Dim blockIdx, threadIdx;

#define HEDDLE_SHIM_VECTOR2(type, element)   \
  struct alignas(2 * sizeof(element)) type { \
    element x, y;                            \
  };                                         \
  inline type make_##type(element x, element y) { return {x, y}; }
#define HEDDLE_SHIM_VECTOR4(type, element) \
  struct alignas(16) type {                \
    element x, y, z, w;                    \
  };                                       \
  inline type make_##type(element x, element y, element z, element w) { return {x, y, z, w}; }
HEDDLE_SHIM_VECTOR2(float2, float)
HEDDLE_SHIM_VECTOR2(double2, double)
HEDDLE_SHIM_VECTOR2(int2, int)
HEDDLE_SHIM_VECTOR2(uint2, unsigned)
HEDDLE_SHIM_VECTOR2(longlong2, long long)
HEDDLE_SHIM_VECTOR2(ulonglong2, unsigned long long)
HEDDLE_SHIM_VECTOR4(float4, float)
HEDDLE_SHIM_VECTOR4(int4, int)
HEDDLE_SHIM_VECTOR4(uint4, unsigned)

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a > b ? a : b; }

template <class To, class From>
To bits(From v) {
  To to;
  std::memcpy(&to, &v, sizeof to);
  return to;
}
inline float __uint_as_float(unsigned v) { return bits<float>(v); }
inline float __int_as_float(unsigned v) { return bits<float>(v); }
inline unsigned __float_as_uint(float v) { return bits<unsigned>(v); }
inline double __longlong_as_double(unsigned long long v) { return bits<double>(v); }
inline float __fmul_rn(float a, float b) { return a * b; }
// A GPU has one NaN.
inline float __fmaf_rn(float a, float b, float c) {
  const float r = std::fmaf(a, b, c);
  return isnan(r) ? bits<float>(0x7fffffffu) : r;
}
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __double2float_rz(double x) {
  float r = static_cast<float>(x);
  if (std::fabs(static_cast<double>(r)) > std::fabs(x)) r = std::nextafterf(r, 0);
  return r;
}

/// The hardware's conversions saturate. For NaN the worst value is assumed.
template <class To, class From>
To truncated(From v) {
  if (v != v) return std::numeric_limits<To>::min();
  if (v <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (v >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(v);
}
// These give 0 for NaN (PTX ISA, cvt).
inline int __float2int_rz(float v) { return v != v ? 0 : truncated<int>(v); }
inline int __float2int_rn(float v) { return __float2int_rz(rintf(v)); }
inline unsigned __float2uint_rz(float v) { return truncated<unsigned>(v); }
inline long long __float2ll_rz(float v) { return truncated<long long>(v); }
inline unsigned long long __float2ull_rz(float v) { return truncated<unsigned long long>(v); }
inline int __double2int_rz(double v) { return truncated<int>(v); }
inline unsigned __double2uint_rz(double v) { return truncated<unsigned>(v); }
inline long long __double2ll_rz(double v) { return truncated<long long>(v); }
inline unsigned long long __double2ull_rz(double v) { return truncated<unsigned long long>(v); }

template <class T>
void __stcs(T* to, T v) {
  *to = v;
}

inline float f32_from_f16(unsigned short v) { return heddle::half_to_float(v); }
inline unsigned short f16_from_f32(float v) { return heddle::float_to_half(v); }
inline unsigned short f16_from_f64(double v) { return heddle::double_to_half(v); }
inline unsigned short bf16_from_f32(float v) { return heddle::float_to_bfloat16(v); }
inline unsigned pack_f16(float low, float high) {
  return static_cast<unsigned>(f16_from_f32(high)) << 16 | f16_from_f32(low);
}
inline unsigned pack_bf16(float low, float high) {
  return static_cast<unsigned>(bf16_from_f32(high)) << 16 | bf16_from_f32(low);
}
inline float div_f32(float a, float b) { return a / b; }
inline float exp2_f32(float x) { return std::exp2(x); }
inline float sqrt_f32(float x) { return std::sqrt(x); }

// Lanes of a warp. Those that are not all here take no part in each other's votes.
inline int lane() { return threadIdx.x & 31; }
inline int __popc(unsigned lanes) { return std::popcount(lanes); }
inline int __ffs(unsigned bits) { return bits == 0 ? 0 : std::countr_zero(bits) + 1; }
template <class T>
void atomicAdd(T* to, T x) {
  std::atomic_ref<T>(*to).fetch_add(x);
}
template <class T>
void atomicMax(T* to, T x) {
  std::atomic_ref<T> at(*to);
  for (T now = at.load(); now < x && !at.compare_exchange_weak(now, x);) {
  }
}
template <class T>
void atomicMin(T* to, T x) {
  std::atomic_ref<T> at(*to);
  for (T now = at.load(); x < now && !at.compare_exchange_weak(now, x);) {
  }
}
inline int lanes_below(unsigned lanes) { return __popc(lanes & ((1u << lane()) - 1)); }
inline unsigned __activemask() { return 1u << lane(); }
inline unsigned __ballot_sync(unsigned lanes, bool yes) {
  static std::barrier<> together(32);
  static bool said[32];
  if (lanes == __activemask()) return yes ? lanes : 0;
  said[lane()] = yes;
  together.arrive_and_wait();
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) votes |= static_cast<unsigned>(said[i]) << i;
  together.arrive_and_wait();
  return votes;
}
inline bool __any_sync(unsigned lanes, bool yes) { return __ballot_sync(lanes, yes) != 0; }
