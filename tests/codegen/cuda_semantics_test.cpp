// The meaning of the text of kernels. It is compiled as host C++ (cuda_host_shim.h) and compared
// with the interpreter, for every operation and type and both scalar and vector statements.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/cuda_host_library.h"
#include "codegen/cuda_kernels.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/support/error.h"
#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle::testing {
namespace {

constexpr int64_t kN = 256;
const std::vector<DataType> kTypes{f64, f32, f16, bf16, f8e4m3, f8e5m2, i8,     i16,
                                   i32, i64, u8,  u16,  u32,    u64,    boolean};

/// A kernel of one thread over `kN` elements, and what it says for the message of a failure.
struct Case {
  GpuKernel kernel;
  std::string what;
  bool exact = true;  ///< otherwise within a few ulp
};

/// out[i] = fn(in...[i]), `lanes` at a time.
template <class F>
Case elementwise_case(const std::string& what, const std::vector<DataType>& inputs, DataType output,
                      int lanes, bool exact, F fn) {
  GpuKernel k;
  std::vector<Expr> loads;
  Var i("i");
  const Expr index = lanes == 1 ? i.expr() : make_ramp(i * Expr(lanes), Expr(1), lanes);
  for (size_t a = 0; a < inputs.size(); ++a) {
    k.args.push_back(gpu_buffer("in" + std::to_string(a), inputs[a], kN));
    loads.push_back(make_load(k.args.back(), {index}));
  }
  k.args.push_back(gpu_buffer("out", output, kN));
  k.body = make_for(i, Expr(kN / lanes), LoopKind::Serial,
                    make_store(k.args.back(), {index}, fn(loads)));
  return {k, what + " x" + std::to_string(lanes), exact};
}

// Random bits and special values, without operands for which the operation is undefined.
NDArray random_array(DataType t, std::mt19937_64& random, BinaryOp* op, bool second) {
  NDArray a = NDArray::empty({kN}, t);
  const bool divisor = op && second &&
                       (*op == BinaryOp::Div || *op == BinaryOp::Mod || *op == BinaryOp::FloorDiv ||
                        *op == BinaryOp::FloorMod);
  const bool shift = op && second && (*op == BinaryOp::Shl || *op == BinaryOp::Shr);
  auto* bytes = static_cast<uint8_t*>(a.data());
  for (int64_t i = 0; i < kN; ++i) {
    uint64_t bits = random();
    if (t.is_bool()) bits &= 1;
    if (t.is_float() && random() % 4) {
      // Of moderate size: special values meet each other often enough.
      const double v = (static_cast<double>(random() % 20001) - 10000) / 1024;
      const auto f = static_cast<float>(v);
      if (t == f64) std::memcpy(&bits, &v, 8);
      if (t == f32) bits = 0, std::memcpy(&bits, &f, 4);
      if (t == f16) bits = float_to_half(f);
      if (t == bf16) bits = float_to_bfloat16(f);
      if (t == f8e4m3) bits = float_to_e4m3(f);
      if (t == f8e5m2) bits = float_to_e5m2(f);
    }
    if (t.is_integral() && random() % 4 == 0) bits = random() % 2 ? random() % 5 : ~(random() % 5);
    if (t.is_integral() && random() % 16 == 0) bits = uint64_t{1} << (t.bits - 1);
    if (shift) bits = random() % t.bits;
    const auto width = static_cast<size_t>(t.bytes());
    if (divisor && t.is_integral() && (bits << (64 - 8 * width)) == 0) bits = 3;
    if (t.is_bool()) bits &= 1;
    std::memcpy(bytes + i * static_cast<int64_t>(width), &bits, width);
  }
  return a;
}

double value_at(const NDArray& a, int64_t i) { return a.get(i); }

::testing::AssertionResult same(const NDArray& want, const NDArray& got, bool exact) {
  const DataType t = want.dtype();
  const auto width = static_cast<size_t>(t.bytes());
  for (int64_t i = 0; i < kN; ++i) {
    const auto* w = static_cast<const uint8_t*>(want.data()) + i * static_cast<int64_t>(width);
    const auto* g = static_cast<const uint8_t*>(got.data()) + i * static_cast<int64_t>(width);
    if (std::memcmp(w, g, width) == 0) continue;
    const double x = value_at(want, i), y = value_at(got, i);
    if (t.is_float()) {
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      const double epsilon = t == f64    ? 0x1p-52
                             : t == f32  ? 0x1p-23
                             : t == f16  ? 0x1p-10
                             : t == bf16 ? 0x1p-7
                                         : 0x1p-2;
      const double smallest = t == f64 ? 0x1p-1070 : t == f16 ? 0x1p-24 : 0x1p-130;
      if (!exact && std::abs(x - y) <= 4 * epsilon * std::abs(x) + smallest) continue;
    }
    return ::testing::AssertionFailure() << "element " << i << ": " << y << ", not " << x;
  }
  return ::testing::AssertionSuccess();
}

void check(std::vector<Case> cases, const std::vector<BinaryOp*>& ops = {}) {
  GpuProgram program;
  program.name = "all";
  for (Case& c : cases) {
    c.kernel.name = "k" + std::to_string(program.main.size());
    program.main.push_back(c.kernel);
  }
  const HostLibrary library(program);
  ASSERT_TRUE(library.ready());
  std::mt19937_64 random(7);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    std::vector<NDArray> args;
    for (size_t a = 0; a + 1 < c.kernel.args.size(); ++a) {
      args.push_back(
          random_array(c.kernel.args[a]->dtype, random, ops.empty() ? nullptr : ops[i], a == 1));
    }
    std::vector<NDArray> want = args;
    const DataType out = c.kernel.args.back()->dtype;
    want.push_back(NDArray::zeros({kN}, out));
    args.push_back(NDArray::zeros({kN}, out));
    interpret(LoweredFunction{c.kernel.name, c.kernel.args, c.kernel.body}, want);
    library.run(c.kernel, args);
    EXPECT_TRUE(same(want.back(), args.back(), c.exact)) << c.what;
  }
}

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

TEST(CudaSemantics, PairsOfWeightsAreUnpacked) {
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
TEST(CudaSemantics, NumbersOfFewBitsAreScaled) {
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
