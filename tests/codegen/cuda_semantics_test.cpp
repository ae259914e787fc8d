// The meaning of the text of kernels. It is compiled as host C++ (cuda_host_shim.h) and compared
// with the interpreter, for every operation and type and both scalar and vector statements.
#include <gtest/gtest.h>

#include "codegen/cuda_cases.h"
#include "heddle/support/error.h"

namespace heddle::testing {
namespace {

constexpr BinaryOp kBinary[] = {
    BinaryOp::Add,      BinaryOp::Sub, BinaryOp::Mul,    BinaryOp::Div,   BinaryOp::FloorDiv,
    BinaryOp::FloorMod, BinaryOp::Mod, BinaryOp::Min,    BinaryOp::Max,   BinaryOp::Pow,
    BinaryOp::Atan2,    BinaryOp::Eq,  BinaryOp::Ne,     BinaryOp::Lt,    BinaryOp::Le,
    BinaryOp::And,      BinaryOp::Or,  BinaryOp::BitAnd, BinaryOp::BitOr, BinaryOp::BitXor,
    BinaryOp::Shl,      BinaryOp::Shr};

/// Calls `fn` unless the operation has no meaning for the type.
template <class F>
void where_legal(F fn) {
  try {
    fn();
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
  }
}

TEST(CudaSemantics, EveryBinaryOperationOfEveryType) {
  std::vector<Case> cases;
  std::vector<BinaryOp> ops;
  for (DataType t : kTypes) {
    for (BinaryOp op : kBinary) {
      const bool compare =
          op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
      // Computed in double by the interpreter and rounded once: f32 is exact but for these.
      const bool exact = op != BinaryOp::Pow && op != BinaryOp::Atan2;
      for (int lanes : {1, 4}) {
        where_legal([&] {
          cases.push_back(elementwise_case(
              std::string(to_string(op)) + " of " + to_string(t), {t, t}, compare ? boolean : t,
              lanes, exact,
              [&](const std::vector<Expr>& x) { return make_binary(op, x[0], x[1]); }));
          ops.push_back(op);
        });
      }
    }
  }
  std::vector<BinaryOp*> pointers;
  for (BinaryOp& op : ops) pointers.push_back(&op);
  check(cases, pointers);
}

TEST(CudaSemantics, EveryBinaryOperationWithAConstant) {
  std::vector<Case> cases;
  for (DataType t : {i8, i16, i32, i64, u8, u16, u32, u64, f32, f16, bf16, f64}) {
    for (BinaryOp op : kBinary) {
      for (int64_t c : {3, 8, -1, -3}) {
        if (c < 0 && (t.is_uint() || op == BinaryOp::Shl || op == BinaryOp::Shr)) continue;
        if (op == BinaryOp::Pow || op == BinaryOp::Atan2) continue;
        if ((op == BinaryOp::Shl || op == BinaryOp::Shr) && c >= t.bits) continue;
        const bool compare =
            op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
        where_legal([&] {
          cases.push_back(elementwise_case(
              std::string(to_string(op)) + " of " + to_string(t) + " with " + std::to_string(c),
              {t}, compare ? boolean : t, 1, op != BinaryOp::Div || t.is_integral(),
              [&](const std::vector<Expr>& x) {
                return make_binary(op, x[0], make_const(t, static_cast<double>(c)));
              }));
        });
      }
    }
  }
  check(cases);
}

TEST(CudaSemantics, EveryUnaryOperationOfEveryType) {
  std::vector<Case> cases;
  for (DataType t : kTypes) {
    for (int op = 0; op <= static_cast<int>(UnaryOp::RoundTf32); ++op) {
      const auto u = static_cast<UnaryOp>(op);
      const bool test = u == UnaryOp::IsNan || u == UnaryOp::IsInf;
      const bool exact = t.is_integral() || test || u == UnaryOp::Neg || u == UnaryOp::Abs ||
                         u == UnaryOp::Floor || u == UnaryOp::Ceil || u == UnaryOp::Round ||
                         u == UnaryOp::Trunc || u == UnaryOp::RoundTf32;
      for (int lanes : {1, 8}) {
        where_legal([&] {
          cases.push_back(elementwise_case(
              std::string(to_string(u)) + " of " + to_string(t), {t}, test ? boolean : t, lanes,
              exact, [&](const std::vector<Expr>& x) { return make_unary(u, x[0]); }));
        });
      }
    }
  }
  check(cases);
}

TEST(CudaSemantics, EveryConversion) {
  std::vector<Case> cases;
  for (DataType from : kTypes) {
    for (DataType to : kTypes) {
      for (int lanes : {1, 4}) {
        cases.push_back(elementwise_case(
            to_string(from) + " to " + to_string(to), {from}, to, lanes, true,
            [&](const std::vector<Expr>& x) { return cast(to.with_lanes(lanes), x[0]); }));
      }
    }
  }
  check(cases);
}

// The exact quotient by a constant scale, and bytes that are stored two at a time.
TEST(CudaSemantics, RoundingToBytesOfAScale) {
  std::vector<Case> cases;
  for (const double scale : {0.04093281, 6.0 / 255, 0.5, 3.0, -0.7, 0x1p-40, 0x1.fffffep-3}) {
    for (const int lanes : {1, 2, 4}) {
      const auto number = [&](double v) { return make_const(f32.with_lanes(lanes), v); };
      cases.push_back(elementwise_case(
          "round(x / " + std::to_string(scale) + ")", {f32}, f32, lanes, true,
          [&](const std::vector<Expr>& v) { return round(v[0] / number(scale)); }));
      for (const DataType type : {i8, u8}) {
        const double low = type == u8 ? 0 : -128;
        cases.push_back(elementwise_case(
            "bytes of " + std::to_string(scale), {f32}, type, lanes, true,
            [&](const std::vector<Expr>& v) {
              const Expr steps = round(v[0] / number(scale)) + number(3);
              return cast(type.with_lanes(lanes), min(max(steps, number(low)), number(low + 255)));
            }));
        // Of 16 bits: one product, where all values agree.
        for (const DataType from : {f16, bf16}) {
          cases.push_back(elementwise_case(
              "bytes of " + std::to_string(scale) + " and 16 bits", {from}, type, lanes, true,
              [&](const std::vector<Expr>& v) {
                const Expr steps =
                    round(cast(f32.with_lanes(lanes), v[0]) / number(scale)) + number(3);
                return cast(type.with_lanes(lanes),
                            min(max(steps, number(low)), number(low + 255)));
              }));
        }
        cases.push_back(elementwise_case("what bytes stand for", {type}, f32, lanes, true,
                                         [&](const std::vector<Expr>& v) {
                                           return cast(f32.with_lanes(lanes), v[0]) * number(scale);
                                         }));
      }
    }
  }
  check(std::move(cases));
}

TEST(CudaSemantics, ChainsAreRoundedAfterEachOperation) {
  std::vector<Case> cases;
  for (DataType t : {f16, bf16, f32, i8, u8, i16, i32, i64}) {
    for (int lanes : {1, 8, 16}) {
      cases.push_back(elementwise_case(
          "a chain of " + to_string(t), {t, t}, t, lanes, true, [&](const std::vector<Expr>& x) {
            const Expr three = make_const(t.with_lanes(lanes), 3);
            const Expr sum = x[0] + x[1] - three;
            return max(sum * x[1], min(x[0] * sum + three, x[1] - (x[0] - sum)));
          }));
    }
  }
  check(cases);
}

// A false lane, or an arm that is not taken, does not load.
TEST(CudaSemantics, SelectsAreLazy) {
  std::vector<Case> cases;
  for (DataType t : {f32, bf16, i8, i64}) {
    for (int lanes : {1, 4, 8}) {
      // Reads kN / 2 before the element, where that exists.
      cases.push_back(elementwise_case(
          "a guarded load of " + to_string(t), {t}, t, lanes, true,
          [&](const std::vector<Expr>& x) {
            const Load* load = x[0].as<Load>();
            const Expr index = load->indices[0];
            const Expr half = make_const(i64.with_lanes(lanes), static_cast<double>(kN / 2 + 3));
            const Expr before = make_load(load->buffer, {index - half});
            const Expr zero = make_const(t.with_lanes(lanes), 0);
            return make_select(index < half, zero, before * before);
          }));
    }
  }
  // A scalar condition chooses between vectors.
  cases.push_back(
      elementwise_case("a guarded vector", {f32}, f32, 4, true, [&](const std::vector<Expr>& x) {
        const Load* load = x[0].as<Load>();
        const Ramp* ramp = load->indices[0].as<Ramp>();
        const Expr before = make_load(load->buffer, {make_ramp(ramp->base - Expr(64), Expr(1), 4)});
        return make_select(ramp->base < Expr(64), make_const(f32.with_lanes(4), 5), before + x[0]);
      }));
  check(cases);
}

TEST(CudaSemantics, IndexArithmetic) {
  std::vector<Case> cases;
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    const auto small = [&] { return Expr(static_cast<int64_t>(1 + random() % 9)); };
    cases.push_back(elementwise_case(
        "index " + std::to_string(i), {i32}, i64, 1, true, [&](const std::vector<Expr>& x) {
          const Expr i1 = x[0].as<Load>()->indices[0], data = cast(i64, x[0]);
          const Expr a =
              floordiv(i1 * small() - Expr(static_cast<int64_t>(random() % 600)), small());
          const Expr b = floormod(i1 + a, small()) * small();
          const Expr big = i1 * Expr(int64_t{1} << (20 + random() % 20));
          const Expr c = random() % 2 ? max(a, b) : min(big, a + data);
          return c * small() + floordiv(big, small()) - data * small() +
                 make_binary(BinaryOp::Shl, a, Expr(2));
        }));
  }
  check(cases);
}

/// A single element of a thread holds all bits of its type, wherever its value goes from there.
TEST(CudaSemantics, SingleElementsOfThreads) {
  GpuKernel k;
  k.name = "single";
  const Buffer in = gpu_buffer("in", i64, kN), out = gpu_buffer("out", i64, kN),
               own = gpu_buffer("own", i64, 1, Scope::Local);
  k.args = {in, out};
  Var bx("bx"), tx("tx"), v("v");
  const Expr at = bx * Expr(256) + tx;
  const Stmt body = make_block(
      {make_store(own, {Expr(0)}, make_load(in, {at})),
       make_let(v, make_load(own, {Expr(0)}), make_store(out, {at}, Expr(v) * Expr(3)))});
  k.grid[0] = kN / 256;
  k.block[0] = 256;
  k.body = thread_loop(LoopKind::BlockX, bx, k.grid[0],
                       thread_loop(LoopKind::ThreadX, tx, 256, make_allocate(own, body)));
  const HostLibrary library(one_kernel(k));
  ASSERT_TRUE(library.ready());
  NDArray x = NDArray::zeros({kN}, i64), y = NDArray::zeros({kN}, i64);
  for (int64_t i = 0; i < kN; ++i) x.at<int64_t>({i}) = (int64_t{1} << 40) + i;
  library.run(k, {x, y});
  for (int64_t i = 0; i < kN; ++i) EXPECT_EQ(y.at<int64_t>({i}), 3 * x.at<int64_t>({i})) << i;
}

TEST(CudaSemantics, KernelsOfManyThreads) {
  const GpuKernel k = copy_with_tail(kN - 7);
  const HostLibrary library(one_kernel(k));
  ASSERT_TRUE(library.ready());
  std::mt19937_64 random(1);
  const NDArray in = random_array(f32, random, nullptr, false);
  NDArray out = NDArray::zeros({kN}, f32);
  library.run(k, {in, out});
  for (int64_t i = 0; i < kN; ++i) {
    const double want = i < kN - 7 ? in.get(i) : 0;
    EXPECT_TRUE(out.get(i) == want || std::isnan(want)) << i;
  }
}

}  // namespace
}  // namespace heddle::testing
