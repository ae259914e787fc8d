// The nests of the instructions for products, run by the interpreter, against the instructions
// themselves in the emulator, with operands that lie as the layouts say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/emulator_testing.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"

namespace heddle::testing {
namespace {

constexpr int64_t kLanes = 32;

// d, a and b of a product of m x n x k.
struct Operands {
  NDArray d, a, b;
};
Operands draw(const InstructionForm& f, int64_t m, int64_t n, int64_t k) {
  Operands x{NDArray::random({m, n}, f.types[0], 1), NDArray::random({m, k}, f.types[1], 2),
             NDArray::random({k, n}, f.types[2], 3)};
  // The units truncate f32 to tf32, which holds these numbers exactly.
  for (NDArray* operand : {&x.a, &x.b}) {
    for (int64_t i = 0; operand->dtype() == f32 && i < operand->size(); ++i)
      operand->set(i, std::round(operand->get(i) * 64) / 64);
  }
  return x;
}

// What the nest of the instruction makes of the operands.
NDArray by_nest(const MachineInstruction& instruction, const InstructionForm& f, const Operands& x,
                const std::vector<int64_t>& extents) {
  const InstructionNest nest = nest_of(instruction, f, extents);
  const NDArray d = x.d.copy();
  interpret({"nest", nest.operands, nest.body}, {d, x.a, x.b});
  return d;
}

// Where element (i, j) of a fragment of one tile lies: its lane, and its place in the lane.
struct Held {
  int64_t lane, at;
};
Held held_at(const LayoutDigits& layout, int64_t i, int64_t j) {
  const auto digit = [&](size_t d) { return layout[d].of(layout[d].dim == 0 ? i : j); };
  Held h{4 * digit(2) + digit(3), 0};
  for (size_t d = 4; d < layout.size(); ++d) h.at = h.at * layout[d].modulus + digit(d);
  return h;
}

// The elements of matrix `x` in the order of lanes, `each` in a lane. Tiles of columns follow each
// other in a lane.
NDArray scattered(const NDArray& x, const LayoutDigits& layout, int64_t tile_cols) {
  const int64_t rows = x.shape()[0], cols = x.shape()[1], tile = rows * tile_cols / kLanes;
  NDArray out = NDArray::zeros({x.size()}, x.dtype());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const Held h = held_at(layout, i, j % tile_cols);
      out.set(h.lane * (x.size() / kLanes) + j / tile_cols * tile + h.at, x.get(i * cols + j));
    }
  }
  return out;
}

// Copies `count` elements of each thread between memory and its registers.
Stmt copy(const Buffer& to, const Buffer& from, int64_t count, const Expr& thread) {
  return serial(count, [&](Var i) {
    const Expr all = thread * Expr(count) + i.expr();
    const bool loads = to->scope == Scope::Local;
    return store(to, loads ? i.expr() : all, at(from, loads ? all : i.expr()));
  });
}

std::string name_of(const InstructionForm& f) {
  return to_string(f.types[0]) + " += " + to_string(f.types[1]) + " * " + to_string(f.types[2]) +
         " at ";
}

// wgmma adds up products of 8-bit floats with 13 bits (lower/gpu/tiles/partial_sums.h).
void expect_near(const NDArray& got, const NDArray& want, const InstructionForm& f) {
  const std::string what = name_of(f);
  const double eps = want.dtype() == i32      ? 0
                     : f.types[1].is_float8() ? 4e-3
                     : want.dtype() == f16    ? 4e-3
                                              : 1e-5;
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.get(i), want.get(i), eps * std::max(1.0, std::abs(want.get(i)))) << what << i;
}

TEST(InstructionNests, MmaIsItsNest) {
  const MachineInstruction& mma = mma_instruction();
  EXPECT_EQ(mma.forms.size(), 12u);
  for (const InstructionForm& f : mma.forms) {
    const int64_t m = mma::kRows, n = mma::kCols, k = f.extents[2][0],
                  pack = mma::elements_per_register(f.types[1]);
    const Operands x = draw(f, m, n, k);
    const auto d = mma::accumulator(0, 1);
    OneKernel kernel({scattered(x.d, d, n), scattered(x.a, mma::left(0, 1, pack), k),
                      scattered(x.b, mma::right(0, 1, pack), n)},
                     1, kLanes);
    const Buffer rd = local("rd", f.types[0], m * n / kLanes),
                 ra = local("ra", f.types[1], m * k / kLanes),
                 rb = local("rb", f.types[2], k * n / kLanes);
    kernel.run(make_allocate(
        rd, make_allocate(
                ra, make_allocate(rb, threads(kLanes, [&](Var t) {
                                    return seq({copy(rd, kernel[0], m * n / kLanes, t.expr()),
                                                copy(ra, kernel[1], m * k / kLanes, t.expr()),
                                                copy(rb, kernel[2], k * n / kLanes, t.expr()),
                                                make_tile_op(tile::Mma{16, 8, static_cast<int>(k)},
                                                             {{rd, 0}, {ra, 0}, {rb, 0}}),
                                                copy(kernel[0], rd, m * n / kLanes, t.expr())});
                                  })))));
    expect_near(kernel.arrays[0], scattered(by_nest(mma, f, x, {m, n, k}), d, n), f);
  }
}

// Position of element (line, step) of a tile in boxes, in elements, where TMA swizzles the 16-byte
// pieces of a row (the 128-byte swizzle).
int64_t swizzled(const LayoutDigits& layout, int64_t line, int64_t step, int64_t row,
                 int64_t piece) {
  int64_t flat = 0;
  for (const LayoutDigit& d : layout) {
    const int64_t extent = d.modulus > 0 ? d.modulus : d.divisor > 1 ? 1 : row;
    flat = flat * extent + d.of(d.dim == 0 ? line : step);
  }
  return flat / row * row + ((flat % row / piece) ^ (flat / row % 8)) * piece + flat % piece;
}

// A warp group multiplies 64 rows: its warps 16 each, with the nest of each of them.
void expect_wgmma(const InstructionForm& f, int64_t n, bool across) {
  const int64_t m = wgmma::kRows, k = f.extents[2][0], row = tma::row_elements(f.types[1]),
                piece = 16 / f.types[1].bytes(), box = row * row;
  const Operands x = draw(f, m, n, k);
  const LayoutDigits layout = across ? tma::across_depth(0, 1, row) : tma::along_depth(0, 1, row);
  const auto boxed = [&](const NDArray& operand, int64_t lines, bool left) {
    NDArray out = NDArray::zeros({std::max<int64_t>(box, 64 * row)}, operand.dtype());
    for (int64_t l = 0; l < lines; ++l) {
      for (int64_t s = 0; s < k; ++s)
        out.set(swizzled(layout, l, s, row, piece), operand.get(left ? l * k + s : s * n + l));
    }
    return out;
  };
  NDArray d = NDArray::zeros({m * n}, f.types[0]), want = d.copy();
  for (int64_t w = 0; w < wgmma::kWarps; ++w) {
    Operands part = x;
    part.d = NDArray::zeros({16, n}, f.types[0]);
    part.a = NDArray::zeros({16, k}, f.types[1]);
    for (int64_t i = 0; i < 16 * n; ++i) part.d.set(i, x.d.get(w * 16 * n + i));
    for (int64_t i = 0; i < 16 * k; ++i) part.a.set(i, x.a.get(w * 16 * k + i));
    const auto fill = [&](NDArray* to, const NDArray& from) {
      const NDArray lanes = scattered(from, mma::accumulator(0, 1), mma::kCols);
      for (int64_t i = 0; i < 16 * n; ++i) to->set(w * 16 * n + i, lanes.get(i));
    };
    fill(&d, part.d);
    fill(&want, by_nest(wgmma_instruction(), f, part, {16, n, k}));
  }
  OneKernel kernel({d, boxed(x.a, m, true), boxed(x.b, n, false)}, 1, 4 * kLanes);
  const int64_t size = kernel.arrays[1].size(), each = size / (4 * kLanes);
  const Buffer rd = local("rd", f.types[0], n / 2), sa = shared("sa", f.types[1], size),
               sb = shared("sb", f.types[2], size);
  kernel.run(make_allocate(
      sa,
      make_allocate(
          sb, make_allocate(
                  rd, threads(4 * kLanes, [&](Var t) {
                    const auto tile = [&](const Buffer& to, const Buffer& from) {
                      return serial(each, [&](Var i) {
                        const Expr e = t.expr() * Expr(each) + i.expr();
                        return store(to, e, at(from, e));
                      });
                    };
                    return seq(
                        {copy(rd, kernel[0], n / 2, t.expr()), tile(sa, kernel[1]),
                         tile(sb, kernel[2]), make_sync(SyncKind::StoreFence), barrier(),
                         make_sync(SyncKind::GroupFence),
                         make_tile_op(tile::GroupMma{64, static_cast<int>(n), static_cast<int>(k),
                                                     across, across, false},
                                      {{rd, 0}, {sa, 0}, {sb, 0}}),
                         make_sync(SyncKind::GroupCommit),
                         make_tile_op(tile::GroupWait{0, static_cast<int>(n / 2)}, {{rd, 0}}),
                         copy(kernel[0], rd, n / 2, t.expr())});
                  })))));
  expect_near(kernel.arrays[0], want, f);
}

TEST(InstructionNests, WgmmaIsItsNest) {
  EXPECT_EQ(wgmma_instruction().forms.size(), 11u);
  for (const InstructionForm& f : wgmma_instruction().forms) {
    for (const int64_t n : {8, 24, 64}) expect_wgmma(f, n, false);
    if (f.types[1].bytes() == 2) expect_wgmma(f, 64, true);
  }
}

TEST(InstructionTable, FormsAreFoundByTypesAndExtents) {
  EXPECT_EQ(mma_instruction().form({f64, f64, f64}), nullptr);
  EXPECT_NE(mma_instruction().form({f32, f16, f16}, {16, 8, 16}), nullptr);
  EXPECT_EQ(mma_instruction().form({f32, f16, f16}, {16, 8, 8}), nullptr);
  EXPECT_NE(wgmma_instruction().form({f32, f16, f16}, {16, 40, 16}), nullptr);
  EXPECT_EQ(wgmma_instruction().form({i32, i8, i8}, {16, 40, 32}), nullptr);
  EXPECT_NE(wgmma_instruction().form({i32, i8, i8}, {16, 48, 32}), nullptr);
  EXPECT_EQ(wgmma_instruction().form({f16, f16, f16}), nullptr);
}

TEST(InstructionTable, TargetsHaveTheirInstructions) {
  const auto legal = [](const MachineInstruction& i, const std::vector<DataType>& types,
                        const char* target) {
    return i.legal(Target::parse(target), *i.form(types));
  };
  EXPECT_TRUE(legal(mma_instruction(), {f32, f16, f16}, "cuda -gpu=a100"));
  EXPECT_FALSE(legal(mma_instruction(), {f32, f8e4m3, f8e4m3}, "cuda -gpu=a100"));
  EXPECT_FALSE(legal(wgmma_instruction(), {f32, f16, f16}, "cuda -gpu=a100"));
  EXPECT_TRUE(legal(wgmma_instruction(), {f32, f16, f16}, "cuda -gpu=h200"));
  EXPECT_TRUE(legal(amx_instruction(), {f32, bf16, bf16}, "llvm -mcpu=sapphirerapids"));
  EXPECT_FALSE(legal(amx_instruction(), {f32, f16, f16}, "llvm -mcpu=sapphirerapids"));
  EXPECT_FALSE(legal(amx_instruction(), {i32, u8, i8}, "llvm -mcpu=znver4"));
}

}  // namespace
}  // namespace heddle::testing
