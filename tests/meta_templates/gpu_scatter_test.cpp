// Scatters on GPUs: rows of the result have owners, who store each source at the point that it names.
#include <algorithm>

#include "environment.h"
#include "heddle/codegen/emulator.h"
#include "heddle/dag/scatter.h"
#include "heddle/lower/lower.h"
#include "lower/lower_testing.h"
#include "lower/random_scatter.h"
#include "selftest/random_schedule.h"

namespace heddle::testing {
namespace {

Target h200() { return Target::parse("cuda -gpu=h200"); }

/// What differs from the declaration; sums and the last of several sources have one order.
std::string wrong_on_gpu(const Schedule& s) {
  std::vector<NDArray> arrays = call_arrays(s.dag());
  emulate(lower_gpu(s, all_args(s.dag())), arrays, {.seed = 3});
  return differs(s.dag(), arrays, 0);
}

bool searches_on_gpu(const Schedule& s) {
  const GpuProgram p = lower_gpu(s, all_args(s.dag()));
  return std::any_of(p.main.begin(), p.main.end(), [](const GpuKernel& k) {
    return std::any_of(k.args.begin(), k.args.end(),
                       [&](const Buffer& b) { return searches(k.body, b); });
  });
}

TEST(GpuScatter, RandomScattersAreExactAndSearchNothing) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 60),
                seed = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  int64_t taken = 0, combined = 0;
  for (int64_t n = seed; n < seed + count; ++n) {
    SCOPED_TRACE("seed " + std::to_string(n));
    Rng rng(static_cast<uint64_t>(n));
    const DrawnScatter d = draw_scatter(rng, 20);
    const Template t = make_template(ComputeDag({d.result}), h200());
    if (t.name().find("scatter") == std::string::npos) continue;  // many sources of few points
    ++taken;
    combined += t.name() == "cuda_combined_scatter";
    EXPECT_FALSE(searches_on_gpu(t.static_schedule()));
    EXPECT_EQ(wrong_on_gpu(t.static_schedule()), "");
    for (int i = 0; i < 3; ++i) {
      const Config c = selftest::random_config(t, rng);
      EXPECT_EQ(wrong_on_gpu(t.instantiate(c)), "") << t.config_to_json(c).dump();
    }
  }
  EXPECT_GT(2 * taken, count);
  EXPECT_GT(20 * combined, count);
}

// Sources of all blocks meet at a few points: sums, largest and smallest of integers, with and without
// columns, and points outside of the array.
TEST(GpuScatter, BlocksCombineIntegers) {
  for (const int which : {0, 1, 2}) {
    for (const DataType type : {i32, i64}) {
      for (const int64_t columns : {1, 5, 70}) {
        const int64_t sources = columns == 1 ? 9000 : 300;
        const Tensor at = placeholder({sources, columns}, i64, "at"),
                     x = placeholder({sources, columns}, type, "x");
        const Axis q = reduce_axis(sources, "q");
        const Tensor y = compute(
            {350, columns},
            [&](Axis i, Axis c) {
              const Expr hit = floormod(at(q, c), Expr(360)) - 3 == Expr(i);
              const Expr identity = which == 0   ? make_const(type, 0)
                                    : which == 1 ? lowest_value(type)
                                                 : highest_value(type);
              return reduced(which, select(hit, x(q, c) * 2 - 1, identity), {q});
            },
            "S");
        const Template t = make_template(ComputeDag({y}), h200());
        SCOPED_TRACE(std::to_string(which) + " " + to_string(type) + " " + std::to_string(columns));
        EXPECT_EQ(t.name(), "cuda_combined_scatter");
        EXPECT_FALSE(searches_on_gpu(t.static_schedule()));
        EXPECT_EQ(wrong_on_gpu(t.static_schedule()), "");
      }
    }
  }
}

// A sum without places, whose loops are bound to blocks: the loops over sources are around all others.
TEST(GpuScatter, BlocksShareASumOfIntegers) {
  const Tensor x = placeholder({700, 6}, i32, "x");
  const Axis q = reduce_axis(700, "q");
  const Tensor y = compute({6}, [&](Axis c) { return sum(x(q, c), {q}); }, "y");
  const auto shared = [&](bool outermost) {
    Schedule s({y}, h200());
    StageRef stage = s[y];
    if (outermost) stage.reorder({stage.reduce_axis(0), stage.axis(0)});
    auto [block, thread] = stage.split(stage.reduce_axis(0), 64);
    stage.bind(block, LoopKind::BlockX);
    stage.bind(thread, LoopKind::ThreadX);
    return s;
  };
  EXPECT_EQ(wrong_on_gpu(shared(true)), "");
  EXPECT_THROW(lower_gpu(shared(false), {x, y}), Error);
}

// The same where a call gives the number of columns, of rows of them or of sources.
TEST(GpuScatter, BlocksShareSumsOfDynamicSizes) {
  const Dim n = dim("n", 1, 4096);
  for (const Shape& shape : {Shape{700, 3, n}, Shape{700, n, 4}, Shape{n, 3, 8}}) {
    const Tensor x = placeholder(shape, i32, "x");
    const Axis q = reduce_axis(shape[0], "q");
    const Tensor y =
        compute({shape[1], shape[2]}, [&](Axis r, Axis c) { return sum(x(q, r, c), {q}); }, "y");
    Schedule s({y}, h200());
    StageRef stage = s[y];
    stage.reorder({stage.reduce_axis(0), stage.axis(0), stage.axis(1)});
    auto [block, thread] = stage.split(stage.reduce_axis(0), 64);
    stage.bind(block, LoopKind::BlockX);
    stage.bind(thread, LoopKind::ThreadX);
    const GpuProgram p = lower_gpu(s, {x, y});
    for (const int64_t size : {1, 70, 300}) {
      const auto extents = [&](const Tensor& t) {
        Extents out;
        for (const Expr& e : t.shape())
          out.push_back(*as_int(simplify(substitute(e, {{n.variable(), Expr(size)}}))));
        return out;
      };
      const NDArray in = NDArray::random(extents(x), i32, 1),
                    out = NDArray::full(extents(y), i32, 77);
      std::vector<NDArray> arrays = {in, out};
      emulate(p, arrays, {.seed = 3});
      const int64_t results = out.size(), sources = in.size() / results;
      for (int64_t i = 0; i < results; ++i) {
        double want = 0;
        for (int64_t k = 0; k < sources; ++k) want += in.get(k * results + i);
        ASSERT_EQ(out.get(i), want) << "n " << size << ", element " << i << "\n" << to_string(p);
      }
    }
  }
}

/// The gradient of `rows` rows that `count` positions read.
Tensor gradient_of_rows(int64_t rows, int64_t columns, int64_t count, DataType type) {
  const Tensor table = placeholder({rows, columns}, type, "table"),
               at = placeholder({count}, i64, "at"),
               head = placeholder({count, columns}, type, "h");
  return gradient({ops::gather(table, at)}, {table}, {head})[0];
}

TEST(GpuScatter, AGradientOfAGatherStoresWhatWasRead) {
  for (const DataType type : {f32, f16, bf16}) {
    const Schedule s = create_schedule({gradient_of_rows(300, 40, 70, type)}, h200());
    EXPECT_FALSE(searches_on_gpu(s)) << to_string(type);
    EXPECT_EQ(wrong_on_gpu(s), "") << to_string(type);
  }
}

// The last of the updates of an element stays, and those outside of the array are dropped.
TEST(GpuScatter, OperatorsThatReplaceElements) {
  const Tensor x = placeholder({90, 12}, f32, "x"), u = placeholder({50, 12}, f32, "u"),
               at = placeholder({50}, i64, "at");
  const Tensor place =
      compute({50, 1}, [&](Axis q, Axis) { return floormod(at(q), Expr(95)) - 1; }, "place");
  const Tensor places = compute(
      {50, 12}, [&](Axis q, Axis c) { return floormod(at(q) + c, Expr(95)) - 1; }, "places");
  for (const Tensor& y : {ops::scatter_nd(x, place, u), ops::scatter_elements(x, places, u, 0)}) {
    const Schedule s = create_schedule({y}, h200());
    EXPECT_FALSE(searches_on_gpu(s)) << y.name();
    EXPECT_EQ(wrong_on_gpu(s), "") << y.name();
  }
}

// A few rows that all sources name are sums of many terms each.
TEST(GpuScatter, FewPointsSearch) {
  const auto name_of = [](int64_t rows) {
    return make_template(ComputeDag({gradient_of_rows(rows, 8, 100000, f32)}), h200()).name();
  };
  EXPECT_EQ(name_of(2).find("scatter"), std::string::npos) << name_of(2);
  EXPECT_EQ(name_of(50000), "cuda_scatter");
}

}  // namespace
}  // namespace heddle::testing
