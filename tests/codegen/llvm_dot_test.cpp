// Sums of products of integers become one instruction where the indices allow it, and give the same
// sum where they do not. Loads for them do not pass the end of the elements.
#include <gtest/gtest.h>

#include <random>

#include "codegen/llvm_util.h"
#include "support/numbers/half.h"

namespace heddle::testing {
namespace {

constexpr int kLanes = 8;

// How many elements of a and of b terms name; `whole`: the last group of both is whole.
int elements(int stride, int last, int lanes, bool whole) {
  return stride * (lanes - 1) + (whole ? (last / stride + 1) * stride : last + 1);
}

// Factors whose highest bit is inverted, read as the other type of bytes.
enum class Flipped : uint8_t { None, OfA, OfB };

DataType other_sign(DataType t) { return t.element() == i8 ? u8 : i8; }
Expr flipped(const Expr& x) {
  const DataType t = other_sign(x.dtype());
  const Expr mask = make_const(t, t == u8 ? 128 : -128);
  const int n = x.dtype().lanes;
  return make_binary(BinaryOp::BitXor, cast(t.with_lanes(n), x),
                     n == 1 ? mask : make_broadcast(mask, n));
}

// out[lane] = first[lane] + sum of a[at] * b[stride*lane + at] over `terms`, in this order.
LoweredFunction dot(DataType ta, DataType tb, int stride, const std::vector<int>& terms,
                    int n = kLanes, bool whole = false, Flipped flip = Flipped::None) {
  const DataType wide = ta == bf16 ? f32 : i32;
  const int last = *std::max_element(terms.begin(), terms.end());
  Buffer first = argument("first", wide, n),
         a = argument("a", ta, elements(stride, last, 1, whole)),
         b = argument("b", tb, elements(stride, last, n, whole));
  Buffer out = argument("out", wide, n);
  const Expr lanes = make_ramp(Expr(0), Expr(1), n);
  Expr sum = make_load(first, {lanes});
  for (int at : terms) {
    Expr one = make_load(a, {Expr(at)}), y = make_load(b, {make_ramp(Expr(at), Expr(stride), n)});
    if (flip == Flipped::OfA) one = flipped(one);
    if (flip == Flipped::OfB) y = flipped(y);
    sum = sum + make_broadcast(cast(wide, one), n) * cast(wide.with_lanes(n), y);
  }
  return {"dot", {first, a, b, out}, make_store(out, {lanes}, sum)};
}

template <class A, class B>
void expect_sum(DataType ta, DataType tb, int stride, const std::vector<int>& terms,
                int lanes = kLanes, bool extremes = false, bool whole = false,
                Flipped flip = Flipped::None) {
  const int last = *std::max_element(terms.begin(), terms.end());
  std::vector<int32_t> first(static_cast<size_t>(lanes)), out(static_cast<size_t>(lanes));
  // No element past the buffers is read.
  GuardedArray<A> a(static_cast<size_t>(elements(stride, last, 1, whole)));
  GuardedArray<B> b(static_cast<size_t>(elements(stride, last, lanes, whole)));
  std::mt19937 random(3);
  auto any = [&](auto low, auto high) {
    const int x = std::uniform_int_distribution<int>(low, high)(random);
    return !extremes ? x : x % 2 == 0 ? low : high;
  };
  for (int32_t& x : first) x = any(-1000000, 1000000);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<A>(any(std::numeric_limits<A>::min(), std::numeric_limits<A>::max()));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<B>(any(std::numeric_limits<B>::min(), std::numeric_limits<B>::max()));
  const CompiledModule m = compile(dot(ta, tb, stride, terms, lanes, whole, flip));
  ASSERT_EQ(call(m, first.data(), a.data(), b.data(), out.data()), 0);
  for (int lane = 0; lane < lanes; ++lane) {
    auto want = static_cast<uint32_t>(first[lane]);
    for (int at : terms) {
      // The inverted bit adds 128 to i8, and takes it from u8.
      const auto value = [](auto x, bool inverted) {
        return static_cast<int32_t>(x) + (!inverted                       ? 0
                                          : std::is_signed_v<decltype(x)> ? 128
                                                                          : -128);
      };
      want += static_cast<uint32_t>(value(a[at], flip == Flipped::OfA) *
                                    value(b[stride * lane + at], flip == Flipped::OfB));
    }
    EXPECT_EQ(static_cast<uint32_t>(out[lane]), want) << "lane " << lane;
  }
}

TEST(LlvmDot, PairsAndWhatIsLeftOver) {
  for (const std::vector<int>& terms :
       {std::vector<int>{0, 1}, {1, 0}, {0}, {1, 2}, {0, 1, 2, 3}, {0, 2, 1}, {0, 1, 0, 1}}) {
    expect_sum<int16_t, int16_t>(i16, i16, 2, terms);
    expect_sum<int8_t, int8_t>(i8, i8, 2, terms);
    expect_sum<uint8_t, int8_t>(u8, i8, 2, terms);
    expect_sum<int8_t, int16_t>(i8, i16, 2, terms);
    expect_sum<int8_t, int8_t>(i8, i8, 3, terms);
    for (int lanes : {2, 3, 5, 16}) expect_sum<int8_t, int8_t>(i8, i8, 2, terms, lanes);
  }
}

TEST(LlvmDot, GroupsOfFour) {
  for (const std::vector<int>& terms : {std::vector<int>{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 2}}) {
    expect_sum<uint8_t, int8_t>(u8, i8, 4, terms);
    expect_sum<int8_t, uint8_t>(i8, u8, 4, terms);
    expect_sum<int8_t, int8_t>(i8, i8, 4, terms);
    expect_sum<uint8_t, uint8_t>(u8, u8, 4, terms);
    for (int lanes : {2, 3, 4, 7, 13, 16}) {
      expect_sum<uint8_t, int8_t>(u8, i8, 4, terms, lanes, /*extremes=*/true);
      expect_sum<int8_t, int8_t>(i8, i8, 4, terms, lanes, /*extremes=*/true);
      expect_sum<uint8_t, uint8_t>(u8, u8, 4, terms, lanes, /*extremes=*/true);
    }
  }
}

TEST(LlvmDot, FactorsOfTheOtherSign) {
  for (const Flipped flip : {Flipped::OfA, Flipped::OfB})
    for (const std::vector<int>& terms : {std::vector<int>{0, 1, 2, 3}, {0, 1, 2}, {0, 1}})
      for (int lanes : {2, 5, 8, 16})
        for (const bool whole : {false, true}) {
          expect_sum<int8_t, int8_t>(i8, i8, 4, terms, lanes, true, whole, flip);
          expect_sum<uint8_t, uint8_t>(u8, u8, 4, terms, lanes, true, whole, flip);
          expect_sum<int8_t, int8_t>(i8, i8, 2, terms, lanes, true, whole, flip);
          expect_sum<uint8_t, int8_t>(u8, i8, 2, terms, lanes, true, whole, flip);
        }
}

// They are converted, and no bytes of a group.
TEST(LlvmDot, FloatsOfEightBitsAreNoFlippedBytes) {
  std::vector<uint8_t> a(4, 0x38);  // 1.0
  std::vector<int8_t> b(4 * kLanes, 3);
  std::vector<int32_t> first(kLanes, 5), out(kLanes);
  const CompiledModule m = compile(dot(f8e4m3, i8, 4, {0, 1, 2, 3}, kLanes, false, Flipped::OfA));
  ASSERT_EQ(call(m, first.data(), a.data(), b.data(), out.data()), 0);
  for (const int32_t sum : out) EXPECT_EQ(sum, 5 + 4 * (1 - 128) * 3);
}

// Of elements that are there and count for nothing.
TEST(LlvmDot, TheLastGroupIsFilledUp) {
  for (int lanes : {2, 5, 8, 16}) {
    for (const std::vector<int>& terms :
         {std::vector<int>{0}, {0, 1}, {0, 1, 2}, {0, 2}, {0, 1, 2, 3, 4}, {3, 0, 1}}) {
      expect_sum<uint8_t, int8_t>(u8, i8, 4, terms, lanes, true, /*whole=*/true);
      expect_sum<int8_t, int8_t>(i8, i8, 4, terms, lanes, false, true);
      expect_sum<int8_t, int8_t>(i8, i8, 2, terms, lanes, true, true);
      expect_sum<uint8_t, int16_t>(u8, i16, 2, terms, lanes, true, true);
      expect_sum<int16_t, int16_t>(i16, i16, 2, terms, lanes, false, true);
    }
  }
}

TEST(LlvmDot, PairsOfBf16) {
  for (int lanes : {2, 3, 8, 13, 16}) {
    for (const std::vector<int>& terms :
         {std::vector<int>{0, 1}, {1, 0}, {0, 1, 2}, {0, 1, 2, 3}}) {
      const int last = *std::max_element(terms.begin(), terms.end());
      std::vector<float> first(static_cast<size_t>(lanes)), out(first.size());
      GuardedArray<uint16_t> a(static_cast<size_t>(elements(2, last, 1, false)));
      GuardedArray<uint16_t> b(static_cast<size_t>(elements(2, last, lanes, false)));
      std::mt19937 random(5);
      // Of few bits: all sums are exact.
      const auto any = [&] { return static_cast<float>(static_cast<int>(random() % 511) - 255); };
      for (float& x : first) x = any();
      for (size_t i = 0; i < a.size(); ++i) a[i] = float_to_bfloat16(any());
      for (size_t i = 0; i < b.size(); ++i) b[i] = float_to_bfloat16(any());
      const CompiledModule m = compile(dot(bf16, bf16, 2, terms, lanes));
      ASSERT_EQ(call(m, first.data(), a.data(), b.data(), out.data()), 0);
      for (int lane = 0; lane < lanes; ++lane) {
        float want = first[static_cast<size_t>(lane)];
        for (int at : terms)
          want += bfloat16_to_float(a[static_cast<size_t>(at)]) *
                  bfloat16_to_float(b[static_cast<size_t>(2 * lane + at)]);
        EXPECT_EQ(out[static_cast<size_t>(lane)], want) << lanes << " lanes, lane " << lane;
      }
    }
  }
}

TEST(LlvmDot, TheInstructionIsThere) {
  auto text = [](const LoweredFunction& f, const char* target) {
    return emit_llvm({f}, Target::parse(target), "s");
  };
  const LoweredFunction pairs = dot(i16, i16, 2, {0, 1}), fours = dot(u8, i8, 4, {0, 1, 2, 3});
  const LoweredFunction ss = dot(i8, i8, 4, {0, 1, 2, 3}), uu = dot(u8, u8, 4, {0, 1, 2, 3});
  constexpr const char* kHaswell = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu";
  constexpr const char* kCascadelake = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu";
  constexpr const char* kInt8 = "llvm -mcpu=sierraforest -mtriple=x86_64-linux-gnu";
  constexpr const char* kArm = "llvm -mcpu=neoverse-n2 -mtriple=aarch64-linux-gnu";
  const auto has = [&](const LoweredFunction& f, const char* target, const char* instruction) {
    return text(f, target).find(instruction) != std::string::npos;
  };
  EXPECT_TRUE(has(pairs, kHaswell, "vpmaddwd"));
  EXPECT_TRUE(has(pairs, kCascadelake, "vpdpwssd"));
  EXPECT_TRUE(has(fours, kCascadelake, "vpdpbusd"));
  EXPECT_FALSE(has(fours, kHaswell, "vpmaddubsw"));
  EXPECT_FALSE(has(ss, kCascadelake, "vpdpb"));
  EXPECT_TRUE(has(fours, kInt8, "vpdpbusd"));
  EXPECT_TRUE(has(ss, kInt8, "vpdpbssd"));
  EXPECT_TRUE(has(uu, kInt8, "vpdpbuud"));
  for (const Flipped flip : {Flipped::OfA, Flipped::OfB})  // one of both signs is made of it
    EXPECT_TRUE(has(dot(i8, i8, 4, {0, 1, 2, 3}, kLanes, false, flip), kCascadelake, "vpdpbusd"));
  for (const char* target : {kCascadelake, kInt8})  // of narrower vectors than their registers
    EXPECT_TRUE(has(dot(u8, i8, 4, {0, 1, 2, 3}, 2), target, "vpdpbusd"));
  const LoweredFunction arm = dot(u8, i8, 4, {0, 1, 2, 3}, 4);
  EXPECT_TRUE(has(arm, kArm, "usdot\t"));
  EXPECT_FALSE(has(arm, "llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu", "dot\t"));
  const LoweredFunction halves = dot(bf16, bf16, 2, {0, 1}, 16);
  EXPECT_TRUE(has(halves, "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu", "vdpbf16ps"));
  EXPECT_FALSE(has(halves, kCascadelake, "vdpbf16ps"));
  // Of a last group that is filled up, too.
  const LoweredFunction three = dot(u8, i8, 4, {0, 1, 2, 3, 4, 5, 6}, kLanes, true);
  EXPECT_TRUE(has(three, kCascadelake, "vpdpbusd"));
  EXPECT_FALSE(has(three, kCascadelake, "vpmulld"));
  EXPECT_FALSE(has(three, kCascadelake, "vpmov"));
}

// out[i] = in[offset of lane i], `rows` rows of `row` elements: what packing reads.
template <class T>
void expect_interleaved(DataType t, int lanes, int rows, int run, int row) {
  GuardedArray<T> in(static_cast<size_t>(row * (rows - 1) + lanes / rows));
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(i * 37 + 11);
  Buffer from = argument("in", t, static_cast<int64_t>(in.size()));
  Buffer to = argument("out", t, lanes);
  const Expr lane = make_ramp(Expr(0), Expr(1), lanes);
  auto x = [&](int64_t value) { return make_broadcast(Expr(value), lanes); };
  // Runs of `run` elements from each row in turn; or, of 0, a whole row after the other.
  const Expr which =
      run == 0 ? floordiv(lane, x(lanes / rows)) : floormod(floordiv(lane, x(run)), x(rows));
  const Expr in_row = run == 0 ? floormod(lane, x(lanes / rows))
                               : floordiv(lane, x(run * rows)) * x(run) + floormod(lane, x(run));
  const Expr at = which * x(row) + in_row;
  const CompiledModule m =
      compile({"rows", {from, to}, make_store(to, {lane}, make_load(from, {at}))});
  std::vector<T> out(static_cast<size_t>(lanes));
  ASSERT_EQ(call(m, in.data(), out.data()), 0);
  for (int i = 0; i < lanes; ++i) {
    const int part = run == 0 ? i / (lanes / rows) : i / run % rows;
    const int place = run == 0 ? i % (lanes / rows) : i / (run * rows) * run + i % run;
    EXPECT_EQ(out[i], in[static_cast<size_t>(part * row + place)]) << lanes << " lanes, lane " << i;
  }
}

TEST(LlvmDot, RowsAreInterleavedByShuffles) {
  for (int row : {50, 1000}) {
    expect_interleaved<int8_t>(i8, 32, 2, 1, row);
    expect_interleaved<int8_t>(i8, 10, 2, 1, row);
    expect_interleaved<int8_t>(i8, 64, 4, 1, row);
    expect_interleaved<int16_t>(i16, 16, 2, 1, row);
    expect_interleaved<float>(f32, 8, 2, 1, row);
    expect_interleaved<int8_t>(i8, 12, 6, 0, row);
    expect_interleaved<int8_t>(i8, 24, 6, 0, row);
    expect_interleaved<int16_t>(i16, 10, 5, 0, row);
    expect_interleaved<int8_t>(i8, 24, 8, 0, row);
  }
}

}  // namespace
}  // namespace heddle::testing
