// Debug mode: kernels that check their arguments for NaN and infinity.
#include <cmath>
#include <limits>

#include "driver/driver_testing.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "lower/passes/finite_checks.h"

namespace heddle::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

struct Quotient {
  Tensor x = placeholder({33, 7}, f32, "x"), d = placeholder({7}, f32, "d");
  Tensor n = placeholder({33}, i32, "n");
  Tensor y =
      compute({33, 7}, [&](Axis i, Axis j) { return x(i, j) / d(j) + cast(f32, n(i)); }, "y");
  Schedule s = create_schedule({y});
  Kernel kernel = build(s, {x, d, n, y}, {.name = "quotient", .check_finite = true});
  std::vector<NDArray> arrays = {NDArray::random({33, 7}, f32, 1), NDArray::full({7}, f32, 2),
                                 NDArray::zeros({33}, i32), NDArray::zeros({33, 7}, f32)};
};

TEST(CheckFinite, FiniteArgumentsPassAndTheResultIsRight) {
  Quotient q;
  EXPECT_EQ(complaint(q.kernel, q.arrays), "");
  EXPECT_EQ(q.arrays[3].get(50), q.arrays[0].get(50) / 2);
  for (const Tensor& t : usual_programs()) {
    const Schedule s = create_schedule({t});
    EXPECT_EQ(wrong_when_run(s, {.check_finite = true}), "");
  }
}

TEST(CheckFinite, NamesTheKernelTheTensorAndTheFirstIndex) {
  for (const int64_t at : {0, 1, 100, 230}) {
    Quotient q;
    q.arrays[0].set(230, kInf);
    q.arrays[0].set(at, kNan);
    const std::string index = "[" + std::to_string(at / 7) + ", " + std::to_string(at % 7) + "]";
    EXPECT_EQ(complaint(q.kernel, q.arrays), "kernel 'quotient': input 'x' is NaN at " + index +
                                                 "; output 'y' is NaN at " + index);
  }
}

TEST(CheckFinite, EveryTensorOnceAndWhatArisesInTheKernel) {
  Quotient q;
  q.arrays[0].fill(1);
  q.arrays[1].set(3, 0);
  EXPECT_EQ(complaint(q.kernel, q.arrays), "kernel 'quotient': output 'y' is infinite at [0, 3]");
  q.arrays[0].set(10, -kInf);
  q.arrays[1].set(3, kNan);
  EXPECT_EQ(complaint(q.kernel, q.arrays),
            "kernel 'quotient': input 'x' is infinite at [1, 3], 'd' is NaN at [3]; "
            "output 'y' is NaN at [0, 3]");
}

TEST(CheckFinite, TypesOfSixteenBitsAndPackedConstants) {
  for (const DataType type : {f16, bf16, f64}) {
    const Tensor x = placeholder({5, 6}, type, "x"), y = ops::relu(x);
    const Kernel k = build(create_schedule({y}), {x, y}, {.check_finite = true});
    const NDArray a = NDArray::full({5, 6}, type, 1), b = NDArray::zeros({5, 6}, type);
    EXPECT_EQ(complaint(k, {a, b}), "");
    a.set(29, kInf);
    EXPECT_EQ(
        complaint(k, {a, b}),
        "kernel 'kernel': input 'x' is infinite at [4, 5]; output 'relu' is infinite at [4, 5]");
  }
  const Schedule s = create_schedule({conv_block()});
  const Kernel k = build(s, all_args(s.dag()), {.check_finite = true});
  std::vector<NDArray> arrays = call_arrays(s.dag());
  EXPECT_EQ(complaint(k, arrays), "");
  EXPECT_EQ(differs(s.dag(), arrays, 1e-4), "");
  arrays[1].set(0, kNan);
  k.refresh();
  EXPECT_NE(complaint(k, arrays).find("is NaN at [0, 0, 0, 0]"), std::string::npos);
}

TEST(CheckFinite, OffIsTheSameCode) {
  Quotient q;
  const std::vector<Tensor> args = {q.x, q.d, q.n, q.y};
  const Kernel off = build(q.s, args, {.name = "quotient"});
  LowerOptions options;
  options.name = "quotient";
  const LoweredProgram plain = lower(q.s, args, options);
  EXPECT_EQ(off.source("loops"), to_string(plain.main));
  EXPECT_EQ(off.source("llvm"), emit_llvm({plain.main}, q.s.target(), "ll"));
  EXPECT_EQ(off.source("llvm").find("report"), std::string::npos);
  // On: the same loops, and one check for each of the three arguments of a floating-point type.
  const std::string on = q.kernel.source("loops");
  size_t checks = 0;
  for (size_t at = on.find("report["); at != std::string::npos; at = on.find("report[", at + 1))
    ++checks;
  EXPECT_EQ(checks, 3U) << on;
}

// The kernels of a GPU, run by the emulator.
TEST(CheckFinite, KernelsOfAGpu) {
  Quotient q;
  const Schedule s = create_schedule({q.y}, Target::parse("cuda -gpu=h200"));
  const std::vector<Tensor> args = {q.x, q.d, q.n, q.y};
  GpuProgram program = lower_gpu(s, args);
  const size_t kernels = program.main.size();
  std::vector<lowering::CheckedArgument> checked;
  for (size_t i = 0; i < args.size(); ++i) checked.push_back({program.args[i], i == 3});
  const lowering::FiniteChecks checks = lowering::add_finite_checks(program, checked);
  EXPECT_EQ(program.main.size(), kernels + 3);
  EXPECT_EQ(checks.args, (std::vector<int>{0, 1, 3}));
  EXPECT_NE(emit_cuda(program).find("_check2"), std::string::npos);
  program.args.push_back(checks.report);  // the emulator knows arguments and persistent buffers
  q.arrays[0].set(41, kNan);
  q.arrays[0].set(77, kInf);
  q.arrays[1].set(5, kInf);
  std::vector<NDArray> all = q.arrays;
  all.push_back(NDArray::zeros({3 * checks.slots}, i64));
  emulate(program, all);
  const auto first = [&](int64_t row) {
    int64_t least = FiniteReport::kNothing;
    for (int64_t t = 0; t < checks.slots; ++t) {
      least = std::min(least, all[4].data<int64_t>()[row * checks.slots + t]);
    }
    return least;
  };
  EXPECT_EQ(first(0), 2 * 41);
  EXPECT_EQ(first(1), 2 * 5 + 1);
  EXPECT_EQ(first(2), 2 * 41);
}

}  // namespace
}  // namespace heddle::testing
