// The kernels of a family that nothing was measured for.
#include "family/size_points.h"
#include "heddle/family/generic.h"

#include "family/blocks.h"
#include "family/family_testing.h"
#include "family/near.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::testing {
namespace {

/// "" or the first size at which some kernel or the pick is wrong.
std::string first_wrong(const FamilyKernel& kernels, const Family& f, int64_t step = 13) {
  for (int64_t n = 1; n <= 257; n += n < 40 ? 1 : step) {
    for (const FamilyKernel::Variant& v : kernels.variants()) {
      const std::string d = wrong_at(v.kernel, f.result, {{f.n, n}}, n % 2 == 0);
      if (!d.empty()) return v.name + " at " + d;
    }
  }
  return "";
}

std::vector<Tensor> args_of(const Family& f) { return all_args(Schedule({f.result}).dag()); }

TEST(GenericFamily, EveryKernelIsRightAtEverySize) {
  for (const Family& f : {matmul_family(), softmax_family(), conv_family(), rows_family()}) {
    const FamilyKernel kernels = generic_family(args_of(f));
    EXPECT_LE(kernels.variants().size(), 4u) << f.name;
    EXPECT_EQ(first_wrong(kernels, f), "") << f.name;
  }
}

TEST(GenericFamily, FewAndManyRowsHaveKernelsOfTheirOwn) {
  const Family f = matmul_family(dim("n", 1, 1000), 256, 256);
  const FamilyKernel kernels = generic_family(args_of(f));
  const auto picked = [&](int64_t n) {
    return kernels.picked(call_arrays(ComputeDag(at_sizes({f.result}, {{f.n, n}}).outputs)));
  };
  EXPECT_EQ(picked(1), "n = 1");
  EXPECT_NE(picked(1000), picked(1));
  EXPECT_EQ(picked(2), picked(10)) << "the kernel for 10 rows runs for fewer, too";
  EXPECT_EQ(picked(15), "n = 10") << "and for somewhat more";
  EXPECT_NE(picked(16), "n = 10");
}

TEST(GenericFamily, IsPreparedAndProfiledAsAKernel) {
  const Family f = matmul_family(dim("n", 1, 1000), 64, 64);
  const FamilyKernel kernels = generic_family(args_of(f));
  const ComputeDag dag(at_sizes({f.result}, {{f.n, 7}}).outputs);
  std::vector<NDArray> arrays = call_arrays(dag);
  kernels.prepare(arrays);
  const Profile profile = kernels.profile(arrays, 1e-3);
  EXPECT_GT(profile.calls, 0);
  EXPECT_THROW(kernels.prepare(std::span(arrays).first(1)), Error);
  arrays.pop_back();
  EXPECT_THROW((void)kernels.picked(arrays), Error) << "a call of too few arrays runs no kernel";
}

/// The schedule of a product of many columns for all sizes, chosen at 500 rows for so many cores.
Schedule shared_product(const Family& f, int cores) {
  return family::shared_at_all_sizes(choice_for(cores, f.result, {{f.n, 500}}), {f.result});
}

/// The name of the parallel loop of the product: its parts in order.
std::string parallel_loop(const Schedule& s) {
  std::string name;
  for (const AxisState& a : s.state().axes) {
    if (a.defined && a.loop == LoopKind::Parallel && a.origin == AxisOrigin::Fused &&
        s.state().stages[static_cast<size_t>(a.stage)].output)
      name = a.name;
  }
  return name;
}

TEST(GenericFamily, CoresShareTheColumnsOfAProduct) {
  const Family f = matmul_family(dim("n", 1, 600), 8, 800);
  for (const int cores : {2, 3, 4}) {
    const Schedule s = shared_product(f, cores);
    EXPECT_EQ(parallel_loop(s), "j.o.o.i.o.o") << "for " << cores << " cores\n" << s;
    const Kernel kernel = build(s, args_of(f));
    for (const int64_t n : {1, 7, 8, 9, 31, 150, 600})
      EXPECT_EQ(wrong_at(kernel, f.result, {{f.n, n}}, n % 2 == 0), "") << cores << " cores";
  }
}

/// As a linear layer of a sequence: 1 x n x 8 by 8 x 800.
TEST(GenericFamily, CoresShareTheColumnsBehindAnAxisOfOneElement) {
  const Dim n = dim("n", 1, 600);
  const Tensor a = placeholder({1, n, 8}, f32, "a"), b = placeholder({8, 800}, f32, "b");
  const Axis k = reduce_axis(8, "k");
  const Tensor c = compute(
      {1, n, 800}, [&](Axis x, Axis i, Axis j) { return sum(a(x, i, k) * b(k, j), k); }, "c");
  const Schedule s = family::shared_at_all_sizes(choice_for(2, c, {{n, 500}}), {c});
  EXPECT_EQ(parallel_loop(s), "i2.o.o.i0.o.i1.o.o") << s;
  const Kernel kernel = build(s, all_args(s.dag()));
  for (const int64_t rows : {1, 7, 9, 150, 600})
    EXPECT_EQ(wrong_at(kernel, c, {{n, rows}}, rows % 2 == 0), "");
}

/// The number of row tiles in a block of the product.
int64_t row_block_tiles(const Schedule& s) {
  for (const AxisState& a : s.state().axes) {
    if (a.defined && a.name == "i.o" && s.state().stages[static_cast<size_t>(a.stage)].output)
      return a.factor;
  }
  return 0;
}

// Both parts of the rows would copy each panel of b.
TEST(GenericFamily, CoresDoNotShareRowsThatReadTheSameCopy) {
  const Dim n = dim("n", 1, 2000);
  const Tensor c = product(placeholder({128, 768}, f32, "a"), placeholder({768, n}, f32, "b"), 768);
  const Schedule one = choice_for(2, c, {{n, 2000}});
  ASSERT_EQ(row_block_tiles(one), 16) << one;
  const Schedule s = family::shared_at_all_sizes(one, {c});
  EXPECT_EQ(row_block_tiles(s), 16) << s;
}

TEST(GenericFamily, RowsAreSharedWhereTheColumnsHaveNoEvenParts) {
  const Family f = matmul_family(dim("n", 1, 600), 8, 300);
  const Schedule s = shared_product(f, 5);
  EXPECT_EQ(parallel_loop(s), "i.o.o.j.o.o") << s;
}

TEST(GenericFamily, TwoDimensionsHaveKernelsToo) {
  const Dim n = dim("n", 1, 40), m = dim("m", 1, 40);
  const Tensor y = softmax_of(placeholder({n, m}, f32, "x"));
  const FamilyKernel kernels = generic_family(all_args(Schedule({y}).dag()));
  for (const auto& [rows, cols] : {std::pair(1, 1), std::pair(7, 40), std::pair(40, 3)}) {
    for (const FamilyKernel::Variant& v : kernels.variants())
      EXPECT_EQ(wrong_at(v.kernel, y, {{n, rows}, {m, cols}}), "") << v.name;
  }
}

/// A product of narrow types, whose tiles in a matrix unit have no tails. It has the rows that make
/// tiles worth their copies.
Family narrow_product(DataType t, bool varying_columns) {
  const Dim n = dim("n", 1, 600);
  const Expr rows = varying_columns ? Expr(64) : Expr(n), cols = varying_columns ? Expr(n) : 40;
  const Axis k = reduce_axis(64, "k");
  const DataType sum_type = t.is_float() ? f32 : i32;
  const Tensor a = placeholder({rows, 64}, t, "a"), b = placeholder({64, cols}, t, "b");
  return {
      t.is_float() ? "floats" : "bytes", n,
      compute(
          {rows, cols},
          [&](Axis i, Axis j) { return sum(cast(sum_type, a(i, k)) * cast(sum_type, b(k, j)), k); },
          "c")};
}

/// One core, whose loop over blocks is serial and could be cut at the tail.
Target one_core(Target target) {
  target.cores = 1;
  return target;
}

TEST(GenericFamily, NarrowProductsOfVaryingColumnsAreRightAtEverySize) {
  for (const DataType t : {bf16, i8}) {
    for (const bool columns : {true, false}) {
      const Family f = narrow_product(t, columns);
      const FamilyKernel kernels = generic_family(args_of(f), one_core(Target::host()));
      EXPECT_EQ(first_wrong(kernels, f, columns ? 1 : 13), "")
          << f.name << (columns ? ", columns" : ", rows");
    }
  }
}

// Chosen for a CPU with a matrix unit on any machine.
TEST(GenericFamily, TilesHoldForAllColumns) {
  const Target target = one_core(Target::parse("llvm -mcpu=sapphirerapids"));
  for (const DataType t : {bf16, i8}) {
    for (const int64_t n : {17, 71, 300, 600}) {
      const Family f = narrow_product(t, true);
      const Schedule one =
          family::choice_near({f.result}, {{f.n, n}}, target, AutoSchedulerOptions{}).schedule;
      EXPECT_TRUE(std::any_of(one.steps().begin(), one.steps().end(),
                              [](const Step& s) { return s.kind == StepKind::Tensorize; }))
          << f.name << " at " << n << "\n"
          << one;
      const Schedule all = for_all_sizes(one, {f.result});
      std::vector<Tensor> args = all.dag().direct().placeholders();
      args.push_back(all.dag().outputs()[0]);
      EXPECT_NO_THROW((void)lower(all, args)) << f.name << " at " << n << "\n" << one;
    }
  }
}

TEST(GenericFamily, SizesOfNoArgumentAreRefused) {
  const Dim n = dim("n", 1, 9), m = dim("m", 1, 9);
  const Axis k = reduce_axis(m, "k");
  const Tensor x = placeholder({n}, f32, "x");
  const Tensor y = compute({n}, [&](Axis i) { return sum(x(i) * cast(f32, k), k); }, "y");
  EXPECT_NE(error_of([&] { generic_family({x, y}); }).find("extent over 'm'"), std::string::npos);
}

TEST(GenericFamily, ConstantShapesAreRefused) {
  const Tensor x = placeholder({4}, f32, "x");
  const Tensor y = compute({4}, [&](Axis i) { return x(i) + 1.f; }, "y");
  EXPECT_NE(error_of([&] { generic_family({x, y}); }).find("extent that varies"),
            std::string::npos);
}

// A few rows of an attention are another problem than one and than many, and so are short and long sums.
TEST(GenericFamily, PointsOfAnAttentionOnAGpu) {
  const Dim n = dim("n", 1, 1000), m = dim("m", 1, 10000);
  const Tensor x = placeholder({n, m}, f32, "x");
  const Axis k = reduce_axis(m, "k");
  const Tensor sums = compute(
                   {n}, [&](Axis i) { return sum(x(i, k), k); }, "sums"),
               copy = compute({n, m}, [&](Axis i, Axis j) { return x(i, j); }, "copy");
  const auto points_of = [&](const Tensor& t, const std::string& target) {
    std::vector<std::pair<int64_t, int64_t>> values;
    for (const auto& p : family::size_points({t}, {n.variable(), m.variable()},
                                             family::usual_spacing(Target::parse(target)))
                             .points)
      values.emplace_back(p[0].value, p[1].value);
    return values;
  };
  using Points = std::vector<std::pair<int64_t, int64_t>>;
  const Points ends = {{1, 1}, {1, 10000}, {1000, 1}, {1000, 10000}};
  EXPECT_EQ(points_of(copy, "cuda -gpu=h200"), ends);
  EXPECT_EQ(points_of(sums, "llvm -mcpu=haswell"), ends);
  EXPECT_EQ(points_of(sums, "cuda -gpu=h200"), (Points{{1, 100},
                                                       {1, 1000},
                                                       {1, 10000},
                                                       {16, 100},
                                                       {16, 1000},
                                                       {16, 10000},
                                                       {1000, 100},
                                                       {1000, 1000},
                                                       {1000, 10000}}));
}

// Below 32 the static choice of a GPU changes with what divides a size.
TEST(GenericFamily, PointsOfAGpuAreFinerFrom32On) {
  const auto points_of = [](int64_t lo, int64_t hi) {
    const Dim n = dim("n", lo, hi);
    const Tensor y = compute({n}, [](Axis i) { return Expr(1.0F) * i; }, "y");
    std::vector<int64_t> values;
    for (const auto& p : family::size_points({y}, {n.variable()}, {4, 6, 1.5}).points)
      values.push_back(p[0].value);
    return values;
  };
  EXPECT_EQ(points_of(1, 20), (std::vector<int64_t>{1, 3, 7, 20}));
  const std::vector<int64_t> points = points_of(1, 8192);
  ASSERT_GT(points.size(), 8U);
  EXPECT_EQ(points[0], 1);
  EXPECT_EQ(points[1], 6);
  EXPECT_GE(points[2], 32);
  for (size_t i = 3; i < points.size(); ++i) EXPECT_LE(points[i], 1.7 * points[i - 1]);
  EXPECT_EQ(points.back(), 8192);
  EXPECT_EQ(points_of(100, 120), (std::vector<int64_t>{100, 120}));
}

}  // namespace
}  // namespace heddle::testing
