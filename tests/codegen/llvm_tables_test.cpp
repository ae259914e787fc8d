// Functions of four bits, which become tables in registers, have the values that their expressions have.
#include <gtest/gtest.h>

#include "codegen/llvm_util.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

/// How the numbers of a block of `lanes` lie in its bytes.
enum class Order : uint8_t { Neighbours, Halves, UpperHalf };

struct Case {
  int lanes, bits;
  Order order;
};

// out[i] = ((number i) - 8) * scale[block] + offset[block], `lanes` numbers in each block.
LoweredFunction unpack(const Case& c, int64_t blocks, int64_t bytes) {
  const int per_byte = 8 / c.bits, n = c.lanes;
  Buffer packed = argument("packed", u8, blocks * bytes), scale = argument("scale", f32, blocks),
         offset = argument("offset", f32, blocks), out = argument("out", f32, blocks * n);
  Var b("b");
  const Expr lane = make_ramp(Expr(0), Expr(1), n);
  const auto all = [&](const Expr& e) { return make_broadcast(e, n); };
  const auto number = [&](int value) { return all(make_const(i32, value)); };
  Expr at, shift = number(c.order == Order::UpperHalf ? 4 : 0);
  if (c.order == Order::Neighbours) {
    at = floordiv(lane, all(Expr(per_byte)));
    shift = cast(i32.with_lanes(n), floormod(lane, all(Expr(per_byte)))) * number(c.bits);
  } else {
    at = lane;
  }
  const Expr byte = make_load(packed, {at + all(b * Expr(bytes))});
  Expr x = make_binary(BinaryOp::Shr, cast(i32.with_lanes(n), byte), shift);
  if (c.order != Order::UpperHalf) x = make_binary(BinaryOp::BitAnd, x, number((1 << c.bits) - 1));
  const Expr y = cast(f32.with_lanes(n), x - number(8)) * all(make_load(scale, {b})) +
                 all(make_load(offset, {b}));
  return {"unpack",
          {packed, scale, offset, out},
          make_for(b, blocks, LoopKind::Serial,
                   make_store(out, {make_ramp(b * Expr(n), Expr(1), n)}, y))};
}

int number_of(const Case& c, const uint8_t* block, int i) {
  switch (c.order) {
    case Order::Neighbours: {
      const int per_byte = 8 / c.bits;
      return block[i / per_byte] >> (i % per_byte * c.bits) & ((1 << c.bits) - 1);
    }
    case Order::Halves: return block[i] & ((1 << c.bits) - 1);
    case Order::UpperHalf: return block[i] >> 4;
  }
  return 0;
}

TEST(Tables, HaveTheValuesOfTheirExpressions) {
  constexpr int64_t kBlocks = 9;
  Rng rng(5);
  for (const int lanes : {4, 8, 16, 32, 64}) {
    for (const Case c : {Case{lanes, 4, Order::Neighbours}, Case{lanes, 2, Order::Neighbours},
                         Case{lanes, 4, Order::Halves}, Case{lanes, 3, Order::Halves},
                         Case{lanes, 4, Order::UpperHalf}}) {
      const int64_t bytes = c.order == Order::Neighbours ? lanes * c.bits / 8 : lanes;
      // Nothing outside of the bytes is read.
      for (const bool at_front : {false, true}) {
        GuardedArray<uint8_t> packed(static_cast<size_t>(kBlocks * bytes), at_front);
        GuardedArray<float> scale(kBlocks), offset(kBlocks),
            out(static_cast<size_t>(kBlocks * lanes));
        for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<uint8_t>((rng() % 256));
        for (size_t i = 0; i < scale.size(); ++i) {
          scale[i] = static_cast<float>((rng() % 9)) / 4;
          offset[i] = static_cast<float>((rng() % 9));
        }
        const CompiledModule module = compile(unpack(c, kBlocks, bytes));
        ASSERT_EQ(call(module, packed.data(), scale.data(), offset.data(), out.data()), 0);
        for (int64_t i = 0; i < kBlocks * lanes; ++i) {
          const auto b = static_cast<size_t>(i / lanes);
          const int n =
              number_of(c, &packed[b * static_cast<size_t>(bytes)], static_cast<int>(i % lanes));
          ASSERT_EQ(out[static_cast<size_t>(i)], static_cast<float>(n - 8) * scale[b] + offset[b])
              << lanes << " lanes of " << c.bits << " bits, element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::testing
