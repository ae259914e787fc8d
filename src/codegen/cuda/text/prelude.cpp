#include "codegen/cuda/text/prelude.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/text/generated.h"
#include "codegen/cuda/text/math_text.h"
#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

struct Helper {
  std::string_view name;
  std::string_view needs;  ///< other helpers, separated by blanks; they precede it in the table
  bool ptx;                ///< made of PTX instructions
  std::string_view body;   ///< $ stands for what makes a function inline
};

constexpr std::string_view kInline = "static __device__ __forceinline__";

// clang-format off
constexpr Helper kHelpers[] = {
    // ---- 16-bit floats, by their bits ----
    {"f32_from_f16", "", true, R"($ float f32_from_f16(unsigned short x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
})"},
    {"f16_from_f32", "", true, R"($ unsigned short f16_from_f32(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
})"},
    {"f16_from_f64", "", true, R"($ unsigned short f16_from_f64(double x) {
  unsigned short r;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(x));
  return r;
})"},
    {"f32_from_bf16", "", false, R"($ float f32_from_bf16(unsigned short x) {
  return __uint_as_float((unsigned)x << 16);
})"},
    // The upper half of a pair: a conversion of one number has a fraction of the rate of a pair's.
    {"bf16_from_f32", "", true, R"($ unsigned short bf16_from_f32(float x) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x), "f"(0.0f));
  return (unsigned short)(r >> 16);
})"},
    // The value is first rounded to odd: the last bit is set where bits are cut off. The second
    // rounding then gives the result of a single one.
    {"bf16_from_f64", "bf16_from_f32", false, R"($ unsigned short bf16_from_f64(double x) {
  const float cut = __double2float_rz(x);
  return bf16_from_f32((double)cut == x ? cut : __uint_as_float(__float_as_uint(cut) | 1));
})"},
    {"round_f16", "f32_from_f16 f16_from_f32", false, R"($ float round_f16(float x) {
  return f32_from_f16(f16_from_f32(x));
})"},
    {"round_bf16", "f32_from_bf16 bf16_from_f32", false, R"($ float round_bf16(float x) {
  return f32_from_bf16(bf16_from_f32(x));
})"},
    {"f32_from_few_bits", "", false, R"($ float f32_from_few_bits(int x) {
  return __int_as_float(0x4b400000 + x) - 12582912.0f;
})"},
    // ---- votes ----
    // Of the lanes of a set, those before this one.
    {"lanes_below", "", true, R"($ int lanes_below(unsigned lanes) {
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  return __popc(lanes & below);
})"},
    // ---- parts of 32-bit words ----
    {"low16", "", false, R"($ unsigned short low16(unsigned x) { return (unsigned short)x; })"},
    {"high16", "", false,
     R"($ unsigned short high16(unsigned x) {
  return (unsigned short)(x >> 16);
})"},
    {"pack16", "", false, R"($ unsigned pack16(unsigned short low, unsigned short high) {
  return (unsigned)high << 16 | low;
})"},
    // Converts two f32 values to a pair of 16-bit floats by one instruction.
    {"pack_f16", "f16_from_f32 pack16", true, R"($ unsigned pack_f16(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return pack16(f16_from_f32(low), f16_from_f32(high));
#endif
})"},
    {"pack_bf16", "", true, R"($ unsigned pack_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
})"},
    // round(x / c), where `inverse` is 1 / c, rounded: both remainders are exact, and the quotient of the last
    // step is the rounded one (Markstein). IEEE division branches. What is not finite stays.
    {"round_quotient", "", false,
     R"($ float round_quotient(float x, float c, float inverse) {
  const float first = __fmul_rn(x, inverse);
  const float second = __fmaf_rn(__fmaf_rn(-first, c, x), inverse, first);
  const float quotient = __fmaf_rn(__fmaf_rn(-second, c, x), inverse, second);
  return fabsf(first) <= 3.40282347e38f ? rintf(quotient) : first;
})"},
    {"pack_bytes", "", false, R"($ unsigned short pack_bytes(unsigned char low, unsigned char high) {
#if defined(__CUDA_ARCH__)
  return (unsigned short)__byte_perm(low, high, 0x40);
#else
  return (unsigned short)((unsigned)high << 8 | low);
#endif
})"},
    {"pack8", "", false,
     R"($ unsigned pack8(unsigned char a, unsigned char b, unsigned char c, unsigned char d) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(__byte_perm(a, b, 0x40), __byte_perm(c, d, 0x40), 0x5410);
#else
  return (unsigned)d << 24 | (unsigned)c << 16 | (unsigned)b << 8 | a;
#endif
})"},
    {"get16", "", false, R"($ unsigned short get16(const unsigned* words, int i) {
  return (unsigned short)(words[i >> 1] >> (i & 1) * 16);
})"},
    {"put16", "", false, R"($ void put16(unsigned* words, int i, unsigned short x) {
  const int at = (i & 1) * 16;
  words[i >> 1] = (words[i >> 1] & ~(0xffffu << at)) | (unsigned)x << at;
})"},
    {"get8", "", false, R"($ unsigned char get8(const unsigned* words, int i) {
  return (unsigned char)(words[i >> 2] >> (i & 3) * 8);
})"},
    {"put8", "", false, R"($ void put8(unsigned* words, int i, unsigned char x) {
  const int at = (i & 3) * 8;
  words[i >> 2] = (words[i >> 2] & ~(0xffu << at)) | (unsigned)x << at;
})"},
    // ---- integers: results wrap, which C++ promises for unsigned types only ----
    {"add_i32", "", false, R"($ int add_i32(int a, int b) {
  return (int)((unsigned)a + (unsigned)b);
})"},
    {"sub_i32", "", false, R"($ int sub_i32(int a, int b) {
  return (int)((unsigned)a - (unsigned)b);
})"},
    {"mul_i32", "", false, R"($ int mul_i32(int a, int b) {
  return (int)((unsigned)a * (unsigned)b);
})"},
    {"add_i64", "", false, R"($ long long add_i64(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
})"},
    {"sub_i64", "", false, R"($ long long sub_i64(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
})"},
    {"mul_i64", "", false, R"($ long long mul_i64(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
})"},
    {"abs_i32", "sub_i32", false, R"($ int abs_i32(int a) { return a < 0 ? sub_i32(0, a) : a; })"},
    {"abs_i64", "sub_i64", false, R"($ long long abs_i64(long long a) {
  return a < 0 ? sub_i64(0, a) : a;
})"},
    {"div_i32", "sub_i32", false, R"($ int div_i32(int a, int b) {
  return b == -1 ? sub_i32(0, a) : a / b;
})"},
    {"mod_i32", "", false, R"($ int mod_i32(int a, int b) { return b == -1 ? 0 : a % b; })"},
    {"div_i64", "sub_i64", false, R"($ long long div_i64(long long a, long long b) {
  return b == -1 ? sub_i64(0, a) : a / b;
})"},
    {"mod_i64", "", false, R"($ long long mod_i64(long long a, long long b) {
  return b == -1 ? 0 : a % b;
})"},
    {"floor_div_i32", "div_i32 mod_i32", false, R"($ int floor_div_i32(int a, int b) {
  const int r = mod_i32(a, b);
  return div_i32(a, b) - (r != 0 && (r < 0) != (b < 0));
})"},
    {"floor_mod_i32", "mod_i32", false, R"($ int floor_mod_i32(int a, int b) {
  const int r = mod_i32(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
})"},
    {"floor_div_i64", "div_i64 mod_i64", false, R"($ long long floor_div_i64(long long a, long long b) {
  const long long r = mod_i64(a, b);
  return div_i64(a, b) - (r != 0 && (r < 0) != (b < 0));
})"},
    {"floor_mod_i64", "mod_i64", false, R"($ long long floor_mod_i64(long long a, long long b) {
  const long long r = mod_i64(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
})"},
    // ---- floats: NaN when an operand is ----
    {"min_f32", "", false, R"($ float min_f32(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a < b || a != a ? a : b;
#endif
})"},
    {"max_f32", "", false, R"($ float max_f32(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a > b || a != a ? a : b;
#endif
})"},
    {"min_f64", "", false, R"($ double min_f64(double a, double b) { return a < b || a != a ? a : b; })"},
    {"max_f64", "", false, R"($ double max_f64(double a, double b) { return a > b || a != a ? a : b; })"},
    // The error is at most 2 ulp over the full range. Exact division has a slow path.
    {"div_f32", "", true, R"($ float div_f32(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
})"},
    {"erf_f32", "div_f32", false, kErfText},
    {"tanh_f32", "div_f32", false, kTanhText},
    // The error is at most 2 ulp. Subnormal results are flushed to zero.
    {"exp2_f32", "", true, R"($ float exp2_f32(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
})"},
    {"sqrt_f32", "", true, R"($ float sqrt_f32(float x) {
  float r;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
})"},
    {"tf32_from_f32", "", false, R"($ float tf32_from_f32(float x) {
  unsigned bits;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#else
  bits = __float_as_uint(x);
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000;
#endif
  return __uint_as_float(bits);
})"},
    // ---- floats to integers: truncated, saturating, NaN to 0 ----
    // (Doubles to 32 bits and both to 64 bits: what the hardware makes of NaN is not 0.)
    {"i8_from_f32", "", false, R"($ signed char i8_from_f32(float x) {
  return (signed char)max(-128, min(127, __float2int_rz(x)));
})"},
    // A quotient that becomes a byte, where a product gives the same (byte_quotient.h).
    {"i8_of_product", "min_f32 max_f32", false,
     R"($ signed char i8_of_product(float x, float factor, float zero, float low, float high) {
  return (signed char)__float2int_rn(min_f32(max_f32(__fmaf_rn(x, factor, zero), low), high));
})"},
    {"u8_of_product", "min_f32 max_f32", false,
     R"($ unsigned char u8_of_product(float x, float factor, float zero, float low, float high) {
  return (unsigned char)__float2int_rn(min_f32(max_f32(__fmaf_rn(x, factor, zero), low), high));
})"},
    {"whole_product", "min_f32 max_f32", false,
     R"($ unsigned whole_product(float x, float factor, float zero, float low, float high) {
  return __float_as_uint(min_f32(max_f32(__fmaf_rn(x, factor, zero), low), high));
})"},
    {"f32_of_whole", "", false, R"($ float f32_of_whole(unsigned bits, unsigned above, float zero) {
  return __uint_as_float((bits & 0xff) ^ above) - zero;
})"},
    {"i16_from_f32", "", false, R"($ short i16_from_f32(float x) {
  return (short)max(-32768, min(32767, __float2int_rz(x)));
})"},
    {"i32_from_f32", "", false, R"($ int i32_from_f32(float x) { return __float2int_rz(x); })"},
    {"i64_from_f32", "", false, R"($ long long i64_from_f32(float x) {
  return x != x ? 0 : __float2ll_rz(x);
})"},
    {"u8_from_f32", "", false, R"($ unsigned char u8_from_f32(float x) {
  return (unsigned char)min(255u, __float2uint_rz(x));
})"},
    {"u16_from_f32", "", false, R"($ unsigned short u16_from_f32(float x) {
  return (unsigned short)min(65535u, __float2uint_rz(x));
})"},
    {"u32_from_f32", "", false, R"($ unsigned u32_from_f32(float x) { return __float2uint_rz(x); })"},
    {"u64_from_f32", "", false, R"($ unsigned long long u64_from_f32(float x) {
  return x > 0 ? __float2ull_rz(x) : 0;
})"},
    {"i32_from_f64", "", false, R"($ int i32_from_f64(double x) {
  return x != x ? 0 : __double2int_rz(x);
})"},
    {"i8_from_f64", "i32_from_f64", false, R"($ signed char i8_from_f64(double x) {
  return (signed char)max(-128, min(127, i32_from_f64(x)));
})"},
    {"i16_from_f64", "i32_from_f64", false, R"($ short i16_from_f64(double x) {
  return (short)max(-32768, min(32767, i32_from_f64(x)));
})"},
    {"i64_from_f64", "", false, R"($ long long i64_from_f64(double x) {
  return x != x ? 0 : __double2ll_rz(x);
})"},
    {"u32_from_f64", "", false, R"($ unsigned u32_from_f64(double x) {
  return x > 0 ? __double2uint_rz(x) : 0;
})"},
    {"u8_from_f64", "u32_from_f64", false, R"($ unsigned char u8_from_f64(double x) {
  return (unsigned char)min(255u, u32_from_f64(x));
})"},
    {"u16_from_f64", "u32_from_f64", false, R"($ unsigned short u16_from_f64(double x) {
  return (unsigned short)min(65535u, u32_from_f64(x));
})"},
    {"u64_from_f64", "", false, R"($ unsigned long long u64_from_f64(double x) {
  return x > 0 ? __double2ull_rz(x) : 0;
})"},
    // ---- asynchronous copies from global to shared memory ----
    {"shared_address", "", true, R"($ unsigned shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
})"},
    {"cp_async_4", "shared_address", true, R"($ void cp_async_4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               ::"r"(shared_address(to)), "l"(from) : "memory");
})"},
    {"cp_async_8", "shared_address", true, R"($ void cp_async_8(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
               ::"r"(shared_address(to)), "l"(from) : "memory");
})"},
    {"cp_async_16", "shared_address", true, R"($ void cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               ::"r"(shared_address(to)), "l"(from) : "memory");
})"},
    // Reads nothing and writes zeros unless `keep` holds.
    {"cp_async_4_or_zero", "shared_address", true, R"($ void cp_async_4_or_zero(void* to, const void* from, bool keep) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               ::"r"(shared_address(to)), "l"(from), "r"(keep ? 4 : 0) : "memory");
})"},
    {"cp_async_8_or_zero", "shared_address", true, R"($ void cp_async_8_or_zero(void* to, const void* from, bool keep) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               ::"r"(shared_address(to)), "l"(from), "r"(keep ? 8 : 0) : "memory");
})"},
    {"cp_async_16_or_zero", "shared_address", true, R"($ void cp_async_16_or_zero(void* to, const void* from, bool keep) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               ::"r"(shared_address(to)), "l"(from), "r"(keep ? 16 : 0) : "memory");
})"},
    {"cp_async_commit", "", true, R"($ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
})"},
    {"cp_async_wait", "", true, R"(template <int kPending>
$ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
})"},
    // The barrier of a part of a launch, whose blocks have fewer threads than the launch.
    {"part_sync", "", true, R"(template <int kThreads>
$ void part_sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
})"},
    // ---- the blocks of a cluster; the last block of a grid ----
    //
    // All threads wait for this once, before anything is stored in another block's memory.
    {"cluster_started", "", true, R"($ void cluster_started() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
})"},
    {"cluster_wait", "", true, R"($ void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
})"},
    {"cluster_sync", "", true, R"($ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
})"},
    {"store_in_cluster", "", true, R"(template <int kBlocks, class T>
$ void store_in_cluster(T* to, T value) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(to), "r"(block));
    *there = value;
  }
})"},
    // Stores that signal their arrival to each block. They need no barrier, and no fence that would
    // wait for all other memory operations. The mbarrier of a wait counts bytes (as quack's cluster
    // reductions do). As in CUTLASS, the wait acquires for the block, because the data lies in its
    // own shared memory.
    {"expect_arrivals", "shared_address", true, R"($ void expect_arrivals(unsigned long long* arrivals, int bytes) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals)) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(arrivals)), "r"(bytes) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
})"},
    {"wait_for_arrivals", "shared_address", true, R"($ void wait_for_arrivals(unsigned long long* arrivals) {
  unsigned all;
  do {
    asm volatile("{ .reg .pred p;\n"
                 "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                 "  selp.u32 %0, 1, 0, p; }"
                 : "=r"(all) : "r"(shared_address(arrivals)) : "memory");
  } while (all == 0);
})"},
    {"send_in_cluster", "shared_address", true, R"(template <int kBlocks, class T>
$ void send_in_cluster(T* to, T value, unsigned long long* arrivals) {
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
})"},
    // The tickets wrap around to zero, so that the next launch finds them zero. The barriers order
    // the accesses of all threads with the fences of the first thread.
    {"last_to_finish", "", false, R"($ bool last_to_finish(unsigned* tickets, unsigned blocks) {
  bool last = false;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    __threadfence();
    last = atomicInc(tickets, blocks - 1) == blocks - 1;
    __threadfence();
  }
  return __syncthreads_or(last);
})"},
    {"prefetch_l2", "", true, R"($ void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
})"},
    // Loads that stay before the wait for the kernel before: ptxas moves those of read-only memory (.nc) behind it.
    {"load_ahead_2", "", true, R"($ unsigned short load_ahead_2(const void* p) {
  unsigned short r;
  asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];"
               : "=h"(r) : "l"(p));
  return r;
})"},
    {"load_ahead_4", "", true, R"($ unsigned load_ahead_4(const void* p) {
  unsigned r;
  asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];"
               : "=r"(r) : "l"(p));
  return r;
})"},
    {"load_ahead_8", "", true, R"($ uint2 load_ahead_8(const void* p) {
  uint2 r;
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(r.x), "=r"(r.y) : "l"(p));
  return r;
})"},
    {"load_ahead_16", "", true, R"($ uint4 load_ahead_16(const void* p) {
  uint4 r;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
  return r;
})"},
    // The memory of the kernels before this one is complete after the first instruction. The second
    // one lets the blocks of the next kernel begin when all blocks of this one have come here.
    {"grid_wait", "", true, R"($ void grid_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
})"},
    // ---- sm_90: tiles that TMA loads and warp groups multiply; barriers in shared memory ----
    {"TensorMap", "", false, R"(struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};)"},
    {"prefetch_map", "TensorMap", true, R"($ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
})"},
    // The fences make the initialisation visible to the copy engine and, after a barrier, to all
    // threads.
    {"barrier_init", "shared_address", true, R"($ void barrier_init(unsigned long long* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n"
               "fence.mbarrier_init.release.cluster;\n"
               "fence.proxy.async.shared::cta;"
               ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
})"},
    {"barrier_expect", "shared_address", true, R"($ void barrier_expect(unsigned long long* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
})"},
    {"barrier_arrive", "shared_address", true, R"($ void barrier_arrive(unsigned long long* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               ::"r"(shared_address(barrier)) : "memory");
})"},
    {"barrier_wait", "shared_address", true, R"($ void barrier_wait(unsigned long long* barrier, unsigned parity) {
  asm volatile("{ .reg .pred done;\n"
               "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra WAIT; }"
               ::"r"(shared_address(barrier)), "r"(parity) : "memory");
})"},
    // The wgmma that read the tile has ended, so nothing needs the fence of a release in the cluster
    // (CUTLASS's ClusterBarrier::arrive).
    {"barrier_arrive_pair", "shared_address", true, R"($ void barrier_arrive_pair(unsigned long long* barrier) {
#pragma unroll
  for (int block = 0; block < 2; ++block) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there) : "r"(shared_address(barrier)), "r"(block));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  }
})"},
    // The shared memory descriptor of a tile for wgmma. Rows have 128 bytes and are swizzled.
    // Groups of eight rows are 1024 bytes apart. Boxes of 64 rows are 8192 bytes apart, which is
    // used only where rows run across the depth.
    {"box_descriptor", "shared_address", true, R"(template <int kAcross>
$ unsigned long long box_descriptor(const void* p) {
  return (unsigned long long)(kAcross ? 8192 >> 4 : 1) << 16 | 1024ull >> 4 << 32 | 1ull << 62 |
         (shared_address(p) & 0x3ffff) >> 4;
})"},
    {"wgmma_fence", "", true, R"($ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
})"},
    {"wgmma_commit", "", true, R"($ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
})"},
    // The compiler must not move reads of the accumulators that are complete before the wait.
    {"wgmma_wait", "", true, R"(template <int kPending, int kCount>
$ void wgmma_wait(float* d) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
})"},
    {"wgmma_wait_s32", "", true, R"(template <int kPending, int kCount>
$ void wgmma_wait_s32(int* d) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i]) :: "memory");
})"},
    {"give_registers", "", true, R"(template <int kLeft>
$ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kLeft));
})"},
    {"take_registers", "", true, R"(template <int kAll>
$ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kAll));
})"},
    // ---- tiles ----
    {"round_tf32", "", true, R"(template <int kCount>
$ void round_tf32(float* x) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x[i]));
    x[i] = __uint_as_float(bits);
  }
})"},
};
// clang-format on

using ByName = std::map<std::string, GeneratedHelper, std::less<>>;

const ByName& generated() {
  static const ByName all = [] {
    ByName out;
    for (auto* family : {mma_helpers, ldmatrix_helpers, wgmma_helpers, bulk_helpers, group_helpers,
                         float8_helpers, short_extrema_helpers, few_bits_helpers}) {
      for (GeneratedHelper& h : family()) out.emplace(h.name, std::move(h));
    }
    return out;
  }();
  return all;
}

}  // namespace

std::string Prelude::use(std::string_view name) {
  if (used_.contains(name)) return std::string(name);
  const auto* helper = std::find_if(std::begin(kHelpers), std::end(kHelpers),
                                    [&](const Helper& h) { return h.name == name; });
  const bool written = helper != std::end(kHelpers);
  const auto found = written ? generated().end() : generated().find(name);
  HEDDLE_ICHECK(written || found != generated().end(),
                "CUDA code has no helper function '" + std::string(name) + "'");
  used_.insert(std::string(name));
  for (std::string_view rest = written ? helper->needs : found->second.needs; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    use(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::string(name);
}

std::string Prelude::text(Which which) const {
  std::string out;
  const auto add = [&](std::string_view body) {
    const size_t mark = body.find('$');
    out += body.substr(0, mark);
    if (mark != std::string_view::npos) {
      out += kInline;
      out += body.substr(mark + 1);
    }
    out += "\n";
  };
  for (const Helper& h : kHelpers) {
    if (used_.contains(h.name) && !(h.ptx && which == Which::PlainOnly)) add(h.body);
  }
  for (const std::string& name : used_) {
    const auto found = generated().find(name);
    if (found != generated().end() && !(found->second.ptx && which == Which::PlainOnly))
      add(found->second.text());
  }
  return out;
}

std::vector<std::string> Prelude::names() {
  std::vector<std::string> all;
  for (const Helper& h : kHelpers) all.emplace_back(h.name);
  for (const auto& [name, helper] : generated()) all.push_back(name);
  return all;
}

}  // namespace heddle::cuda
