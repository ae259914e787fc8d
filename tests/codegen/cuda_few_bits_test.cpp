// Numbers of few bits as floats: the text unpacks several of a word at once.
#include <gtest/gtest.h>

#include "codegen/cuda_cases.h"

namespace heddle::testing {
namespace {

/// The four bits of each lane, of pairs that lie in bytes, less `zero`.
Expr unpacked(const Load& load, int lanes, int64_t step, const Expr& zero = make_const(i32, 8)) {
  const Expr count = make_ramp(Expr(0), Expr(1), lanes), i = load.indices[0].as<Ramp>()->base;
  const Expr pair = make_broadcast(i.as<Binary>()->a * Expr(step), lanes) +
                    floordiv(count, make_const(i64.with_lanes(lanes), 2));
  const DataType word = i32.with_lanes(lanes);
  const Expr shift =
      cast(word, floormod(count, make_const(i64.with_lanes(lanes), 2))) * make_const(word, 4);
  const Expr bits = make_binary(BinaryOp::Shr, cast(word, make_load(load.buffer, {pair})), shift);
  return make_binary(BinaryOp::BitAnd, bits, make_const(word, 15)) - make_broadcast(zero, lanes);
}

TEST(CudaFewBits, PairsOfWeightsAreUnpacked) {
  std::vector<Case> cases;
  for (DataType t : {f16, bf16}) {
    for (int lanes : {4, 8, 16}) {
      for (const int64_t step : {lanes / 2, 3}) {
        cases.push_back(elementwise_case(
            "weights of " + to_string(t), {u8, t}, t, lanes, true, [&](const std::vector<Expr>& x) {
              const Expr bits = unpacked(*x[0].as<Load>(), lanes, step);
              const Expr scaled = cast(t.with_lanes(lanes), bits) * x[1];
              return scaled + x[1];
            }));
      }
    }
  }
  check(cases);
}

// Numbers of a word become floats behind an exponent, those of 16-bit floats in pairs with their scale; the zero is a
// number or that of a block.
TEST(CudaFewBits, NumbersOfFewBitsAreScaled) {
  std::vector<Case> cases;
  for (DataType t : {f16, bf16, f32}) {
    for (const int lanes : {4, 8, 16}) {
      for (const bool zeros : {false, true}) {
        cases.push_back(elementwise_case(
            "scaled weights of " + to_string(t), {u8, t, u8}, f32, lanes, true,
            [&](const std::vector<Expr>& x) {
              const Expr i = x[0].as<Load>()->indices[0].as<Ramp>()->base;
              const auto of_block = [&](const Expr& v) {
                return make_load(v.as<Load>()->buffer, {i});
              };
              const Expr zero = bitwise_and(cast(i32, of_block(x[2])), make_const(i32, 15));
              const Expr bits =
                  unpacked(*x[0].as<Load>(), lanes, lanes / 2, zeros ? zero : make_const(i32, 8));
              const Expr scale = make_broadcast(of_block(x[1]), lanes);
              return cast(f32.with_lanes(lanes), cast(t.with_lanes(lanes), bits) * scale);
            }));
      }
    }
  }
  for (const DataType t : {u8, i8}) {
    for (const int zero : {0, 128}) {
      cases.push_back(elementwise_case(
          "bytes of " + to_string(t), {t}, f32, 8, true, [&](const std::vector<Expr>& x) {
            const DataType word = i32.with_lanes(8);
            return cast(f32.with_lanes(8), cast(word, x[0]) - make_const(word, zero));
          }));
    }
  }
  check(cases);
}

// A byte that becomes a signed one is no number of eight bits any more: 200 is -56.
TEST(CudaFewBits, BytesThatWrapKeepTheirSign) {
  std::vector<Case> cases;
  for (const DataType t : {f16, bf16, f32}) {
    for (const int lanes : {4, 8, 16}) {
      cases.push_back(elementwise_case(
          "wrapped bytes as " + to_string(t), {u8, t}, f32, lanes, true,
          [&](const std::vector<Expr>& x) {
            const Expr i = x[0].as<Load>()->indices[0].as<Ramp>()->base;
            const Expr scale = make_broadcast(make_load(x[1].as<Load>()->buffer, {i}), lanes);
            const Expr number = cast(t.with_lanes(lanes), cast(i8.with_lanes(lanes), x[0]));
            return cast(f32.with_lanes(lanes), number * scale);
          }));
    }
  }
  check(cases);
}

}  // namespace
}  // namespace heddle::testing
