// Which terms of a sum are zero: bounds of its index in terms of the axes of its stage.
#include "dag/patterns/needed_terms.h"

#include <gtest/gtest.h>

#include <functional>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"

namespace heddle::testing {
namespace {

constexpr int64_t kRows = 6, kKeys = 8;

/// The bounds of sum over j of exp(near(i, j) ? s[i, j] : masked) * v[j], or of the sum over i times w[i]
/// where `columns` are summed, as text.
std::string bounds(const std::function<Expr(const Expr& i, const Expr& j)>& near,
                   double masked = -1e30, bool columns = false) {
  const Tensor s = placeholder({kRows, kKeys}, f32, "s"), m = placeholder({kRows}, f32, "m"),
               v = placeholder({kKeys}, f32, "v"), w = placeholder({kRows}, f32, "w");
  const Tensor p = compute({kRows, kKeys}, [&](const Axis& i, const Axis& j) {
    return exp(select(near(i, j), s(i, j), make_const(f32, masked)) - m(i));
  });
  const Axis k = reduce_axis(columns ? kRows : kKeys, "k");
  const Tensor sums =
      columns ? compute({kKeys}, [&](const Axis& a) { return sum(p(k, a) * w(k), {k}); })
              : compute({kRows}, [&](const Axis& a) { return sum(p(a, k) * v(k), {k}); });
  const ComputeDag dag({sums});
  const dag::NeededTerms n = dag::needed_terms(dag, dag.index_of(sums.op()));
  const auto text = [&](const Expr& e) -> std::string {
    if (!e.defined()) return "-";
    std::string values;
    for (int64_t at = 0; at < 3; ++at)
      values += (at ? "," : "") +
                to_string(simplify(substitute(e, {{sums.op()->axes()[0].var(), Expr(at)}})));
    return values;
  };
  return text(n.first) + " " + text(n.end);
}

TEST(NeededTerms, OfRowsAndColumnsOfATriangle) {
  const auto causal = [](const Expr& i, const Expr& j) { return j <= i + 2; };
  EXPECT_EQ(bounds(causal), "- 3,4,5");
  EXPECT_EQ(bounds(causal, -1e30, true), "-2,-1,0 -");
  EXPECT_EQ(bounds([](const Expr& i, const Expr& j) { return j < i; }), "- 0,1,2");
}

TEST(NeededTerms, OfAWindow) {
  const auto window = [](const Expr& i, const Expr& j) { return j <= i && j >= i - 1; };
  EXPECT_EQ(bounds(window), "-1,0,1 1,2,3");
  EXPECT_EQ(bounds(window, -1e30, true), "0,1,2 2,3,4");
}

TEST(NeededTerms, AreAllWhereNothingIsZeroOrBoundsDecrease) {
  EXPECT_EQ(bounds([](const Expr& i, const Expr& j) { return j <= i; }, -5), "- -");
  EXPECT_EQ(bounds([](const Expr& i, const Expr& j) { return j + i <= 5; }), "- -");
  EXPECT_EQ(bounds([](const Expr& i, const Expr& j) { return j * 2 <= i; }), "- -");
}

}  // namespace
}  // namespace heddle::testing
