// Scans: a sum over all earlier elements takes one operation for each point.
#include "lower/lower_testing.h"
#include "lower/passes.h"

namespace heddle::testing {
namespace {

Tensor running_sum(int64_t rows, int64_t n, bool exclusive, bool reverse) {
  const Tensor x = placeholder({rows, n}, f32, "X");
  const Axis k = reduce_axis(n, "k");
  return compute(
      {rows, n},
      [&](Axis i, Axis j) {
        const Expr place = reverse ? Expr(n - 1) - j : Expr(j);
        const Expr element = reverse ? x(i, Expr(n - 1) - k) : x(i, k);
        return sum(select(exclusive ? k < place : k <= place, element, 0.f), k);
      },
      "s");
}

std::string text_of(const Schedule& s) { return to_string(lower(s, all_args(s.dag())).main); }

bool is_linear(const Schedule& s) {
  const std::string text = text_of(s);
  return text.find("s.total") != std::string::npos && text.find("for k ") == std::string::npos;
}

TEST(Scans, TakeOnePassInEveryDirection) {
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      const Tensor t = running_sum(5, 21, exclusive, reverse);
      for (const Schedule& s : {Schedule({t}), create_schedule({t})}) {
        EXPECT_TRUE(is_linear(s)) << text_of(s);
        EXPECT_EQ(wrong_after(s), "");
      }
    }
  }
}

// An exclusive one reads the element before, under a select of its own.
TEST(Scans, OfTheOperatorTakeOnePass) {
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      for (const int axis : {0, 1}) {
        const Tensor t = ops::cumsum(placeholder({6, 64}, f32, "X"), axis, exclusive, reverse);
        const Schedule s = create_schedule({t});
        EXPECT_EQ(text_of(s).find("for k "), std::string::npos) << text_of(s);
        EXPECT_EQ(wrong_after(s), "");
      }
    }
  }
}

// The scan of the blocks' totals too.
TEST(Scans, InBlocksTakeOnePass) {
  const Tensor t = ops::cumsum(placeholder({1 << 16}, f32, "X"), 0);
  const Schedule s = create_schedule({t});
  EXPECT_EQ(text_of(s).find("for k "), std::string::npos) << text_of(s);
}

// Narrow and wide tiles. Columns that fill no whole vectors have narrow ones only.
TEST(Scans, AlongColumnsTakeOnePassInEveryTile) {
  for (const int64_t columns : {4096, 4136}) {
    const Tensor t = ops::cumsum(placeholder({3, columns}, f32, "X"), 0);
    const Template tmpl =
        make_template(ComputeDag({t}), Target::parse("llvm -mcpu=skylake-avx512"));
    Config config = tmpl.default_config();
    const auto vectors = static_cast<size_t>(tmpl.knob_index("vectors"));
    EXPECT_EQ(config.values[vectors] > 16, columns == 4096);
    for (const int64_t v : tmpl.knobs()[vectors].values) {
      config.values[vectors] = v;
      const Schedule s = tmpl.instantiate(config);
      if (columns == 4096) {
        EXPECT_EQ(text_of(s).find("for k "), std::string::npos) << text_of(s);
      }
      EXPECT_EQ(wrong_after(s), "") << v;
    }
  }
}

TEST(Scans, OfOtherLoopsAreRightAllTheSame) {
  const Tensor t = running_sum(8, 16, false, false);
  Schedule s({t});
  auto [io, ii] = s[t].split(s[t].axis(0), 4);
  s[t].reorder({io, s[t].axis(1), s[t].reduce_axis(0), ii});
  s[t].vectorize(ii);
  EXPECT_TRUE(is_linear(s)) << text_of(s);
  EXPECT_EQ(wrong_after(s), "");
  // The points of a row in any order: each sums up what is before it.
  Schedule q({t});
  q[t].vectorize(q[t].axis(1));
  EXPECT_FALSE(is_linear(q));
  EXPECT_EQ(wrong_after(q), "");
  Schedule p({t});
  p[t].parallel(p[t].axis(1));
  EXPECT_FALSE(is_linear(p));
  EXPECT_EQ(wrong_after(p), "");
}

// Looks like one, but each point weighs what is before it anew.
TEST(Scans, OfWhatDependsOnThePointAreNone) {
  const Tensor x = placeholder({20}, f32, "X");
  const Axis k = reduce_axis(20, "k");
  const Tensor t =
      compute({20}, [&](Axis i) { return sum(select(k <= i, x(k) * x(i), 0.f), k); }, "s");
  EXPECT_FALSE(is_linear(Schedule({t})));
  EXPECT_EQ(wrong_after(Schedule({t})), "");
}

TEST(Scans, ThatAreLongAreCutIntoBlocks) {
  for (const int64_t n : {16384, 16390}) {
    for (const bool reverse : {false, true}) {
      const Tensor x = placeholder({n}, i32, "X");
      const Tensor t = ops::cumsum(x, 0, reverse, reverse);
      const Schedule s = create_schedule({t});
      std::vector<NDArray> arrays = call_arrays(s.dag());
      build(s, all_args(s.dag())).call(arrays);
      int64_t total = 0;
      int wrong = 0;
      for (int64_t p = 0; p < n; ++p) {
        const int64_t i = reverse ? n - 1 - p : p;
        if (reverse) wrong += arrays[1].at<int32_t>({i}) != static_cast<int32_t>(total);
        total += arrays[0].at<int32_t>({i});
        if (!reverse) wrong += arrays[1].at<int32_t>({i}) != static_cast<int32_t>(total);
      }
      EXPECT_EQ(wrong, 0) << n << (reverse ? " reversed" : "");
    }
  }
}

}  // namespace
}  // namespace heddle::testing
