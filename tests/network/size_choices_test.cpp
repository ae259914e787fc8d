// The sizes at which the kernels of a node are chosen.
#include "network/cut/sizes/size_choices.h"

#include <gtest/gtest.h>

#include "heddle/dsl/tensor.h"
#include "heddle/family/schedule.h"
#include "heddle/runtime/family_kernel.h"
#include "heddle/support/json.h"

namespace heddle::testing {
namespace {

/// n rows of f16 times a matrix.
struct Product {
  Product(int64_t most, int64_t depth, int64_t columns) : n(dim("n", 1, most)) {
    const Tensor a = placeholder({n, depth}, f16, "a"), b = placeholder({depth, columns}, f16, "b");
    const Axis k = reduce_axis(depth, "k");
    const Tensor sums = compute(
        {n, columns},
        [&](Axis i, Axis j) { return sum(cast(f32, a(i, k)) * cast(f32, b(k, j)), k); }, "sums");
    c = compute({n, columns}, [&](Axis i, Axis j) { return cast(f16, sums(i, j)); }, "c");
  }
  family::SizeChoices choices(const Target& target) const {
    return network::size_choices({c}, {n.variable()}, target, {});
  }
  std::string steps(const Schedule& one) const {
    return for_all_sizes(one, {c}).to_json().at("steps").dump();
  }

  Dim n;
  Tensor c;
};

TEST(SizeChoices, OfAGpuChangeWhereTheRuleChooses) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  for (const Product& p : {Product(2048, 768, 768), Product(512, 3072, 768), Product(64, 64, 64)}) {
    const family::SizeChoices made = p.choices(gpu);
    ASSERT_EQ(made.choices.size(), made.points.points.size());
    EXPECT_LE(made.choices.size(), 6U);
    for (size_t i = 1; i < made.choices.size(); ++i)
      EXPECT_NE(p.steps(made.choices[i - 1].schedule), p.steps(made.choices[i].schedule)) << i;
    EXPECT_EQ(made.points.points.back()[0].value, p.n.hi());
    // The points are leaves of the tree, and each runs up to its size.
    for (size_t i = 0; i < made.points.points.size(); ++i) {
      const int64_t at[] = {made.points.points[i][0].value};
      EXPECT_EQ(variant_at(made.points.tree, at), static_cast<int>(i));
    }
  }
}

TEST(SizeChoices, OfAGpuAreThoseOfTheRuleAtTheirPoints) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  const Product p(512, 768, 2304);
  const family::SizeChoices made = p.choices(gpu);
  for (size_t i = 0; i < made.choices.size(); ++i) {
    const std::vector<SizeValue>& point = made.points.points[i];
    EXPECT_EQ(p.steps(made.choices[i].schedule),
              p.steps(family::choice_for_range({p.c}, point, gpu, {}).schedule))
        << point[0].value;
  }
  // 300 rows are not those of 512, whose tiles would leave half of the multiprocessors idle. The rule may
  // choose other columns of a tile every few rows: a point that is 1.5 times as large stands for them.
  const int64_t rows[] = {300};
  const auto chosen = static_cast<size_t>(variant_at(made.points.tree, rows));
  ASSERT_LT(chosen + 1, made.choices.size());
  EXPECT_LE(made.points.points[chosen][0].value, rows[0] * 3 / 2);
  EXPECT_NE(p.steps(made.choices[chosen].schedule), p.steps(made.choices.back().schedule));
}

TEST(SizeChoices, OfACpuAreFewAndFarApart) {
  Target cpu = Target::host();
  cpu.cores = 2;
  const family::SizeChoices made = Product(512, 64, 64).choices(cpu);
  EXPECT_EQ(made.choices.size(), 4U);
}

}  // namespace
}  // namespace heddle::testing
