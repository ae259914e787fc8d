#include "heddle/dag/compute_dag.h"
#include "heddle/dag/all_producers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dag/declarations.h"

namespace heddle::dag_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names(const ComputeDag& dag) {
  std::vector<std::string> result;
  for (int s = 0; s < dag.size(); ++s) result.push_back(dag.stage(s).name());
  return result;
}

TEST(ComputeDag, StagesAreInTopologicalOrder) {
  const Softmax s;
  const ComputeDag dag({s.y});
  EXPECT_THAT(names(dag), ElementsAre("x", "high", "total", "y"));
  EXPECT_THAT(info(dag, "x").consumers, ElementsAre(1, 2, 3));
  EXPECT_THAT(info(dag, "x").producers, IsEmpty());
  EXPECT_THAT(info(dag, "y").producers, ElementsAre(0, 1, 2));
  EXPECT_EQ(info(dag, "y").reads[0].producer, 0);
  EXPECT_EQ(dag.index_of(s.total.op()), 2);
  EXPECT_EQ(dag.index_of(placeholder({1}).op()), -1);
  ASSERT_EQ(dag.placeholders().size(), 1u);
  EXPECT_TRUE(dag.placeholders()[0].same_as(s.x));
}

TEST(ComputeDag, CountsWork) {
  const Matmul m(32, 64, 16);
  const ComputeDag dag({m.d});
  EXPECT_EQ(info(dag, "C").points, 32 * 64);
  EXPECT_EQ(info(dag, "C").reduce_points, 16);
  EXPECT_EQ(info(dag, "C").flops_per_point, 2);
  EXPECT_EQ(info(dag, "C").flops, 2. * 32 * 64 * 16);
  EXPECT_EQ(info(dag, "D").flops, 2. * 32 * 64);
  EXPECT_EQ(dag.total_flops(), 2. * 32 * 64 * 17);
  EXPECT_EQ(dag.compulsory_bytes(), 4 * (32 * 16 + 16 * 64 + 64 + 32 * 64));
  const Matmul h(32, 64, 16, f16);
  EXPECT_EQ(ComputeDag({h.d}).compulsory_bytes(), 2 * (32 * 16 + 16 * 64 + 64 + 32 * 64));
}

TEST(ComputeDag, IntegerArithmeticOnDataIsWorkAndOnIndicesIsNot) {
  Tensor a = placeholder({8, 8}, i8, "A");
  Axis k = reduce_axis(8, "k");
  Tensor c = compute(
      {8, 8},
      [&](Axis i, Axis j) {
        return sum(cast(i32, a(i, floormod(k * 3 + 1, 8))) * cast(i32, a(k, j)), k);
      },
      "c");
  EXPECT_EQ(info(ComputeDag({c}), "c").flops_per_point, 2);
}

TEST(ComputeDag, OutputsThatAreReadAndSeveralOutputs) {
  const Matmul m(32, 64, 16);
  const ComputeDag dag({m.d, m.c});
  EXPECT_TRUE(info(dag, "C").is_output);
  EXPECT_TRUE(info(dag, "D").is_output);
  EXPECT_EQ(dag.outputs().size(), 2u);
  EXPECT_EQ(dag.compulsory_bytes(), 4 * (32 * 16 + 16 * 64 + 64 + 2 * 32 * 64));

  Tensor x = placeholder({8}, f32, "x");
  const auto t =
      compute_all({8}, [&](Axis i) { return std::vector<Expr>{x(i) + 1.f, x(i) * 2.f}; }, "t");
  Tensor u = compute({8}, [&](Axis i) { return t[1](i) - t[0](i); }, "u");
  const ComputeDag two({u});
  EXPECT_THAT(names(two), ElementsAre("x", "t", "u"));
  EXPECT_EQ(info(two, "t").stage_class, StageClass::LocationTunable);
  EXPECT_EQ(info(two, "t").flops_per_point, 2);
}

TEST(ComputeDag, KnowsWhatDependsOnConstantsOnly) {
  Tensor w = constant_placeholder({8}, f32, "w"), x = placeholder({8}, f32, "x");
  Tensor w2 = compute({8}, [&](Axis i) { return w(i) * 2.f; }, "w2");
  Tensor iota = compute({8}, [&](Axis i) { return cast(f32, i); }, "iota");
  Tensor y = compute({8}, [&](Axis i) { return x(i) * w2(i) + iota(i); }, "y");
  const ComputeDag dag({y});
  EXPECT_TRUE(info(dag, "w").depends_only_on_constants);
  EXPECT_TRUE(info(dag, "w2").depends_only_on_constants);
  EXPECT_TRUE(info(dag, "iota").depends_only_on_constants);
  EXPECT_FALSE(info(dag, "x").depends_only_on_constants);
  EXPECT_TRUE(info(dag, "w2").precomputable);
  EXPECT_FALSE(
      info(dag, "iota").precomputable);        // nothing to prepare it from: computed at each call
  EXPECT_FALSE(info(dag, "w").precomputable);  // it is there already
  EXPECT_FALSE(info(dag, "x").precomputable);
  EXPECT_FALSE(info(dag, "y").depends_only_on_constants);
}

TEST(ComputeDag, RefusesWhatIsNoOutput) {
  const auto message = [](std::vector<Tensor> outputs) -> std::string {
    try {
      ComputeDag dag(std::move(outputs));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      return e.what();
    }
    return "no error";
  };
  const Matmul m;
  EXPECT_THAT(message({}), HasSubstr("needs at least one output"));
  EXPECT_THAT(message({m.a}), HasSubstr("output 0, 'A', is a placeholder"));
  EXPECT_THAT(message({m.d, Tensor()}), HasSubstr("output 1 is a Tensor that was never assigned"));
  EXPECT_THAT(message({m.d, m.d}), HasSubstr("'D' is named as an output twice"));
}

TEST(ComputeDag, Text) {
  const Matmul m(32, 64, 16);
  EXPECT_EQ(
      ComputeDag({m.d}).to_text(),
      "A: f32[32, 16] placeholder\n"
      "B: f32[16, 64] placeholder\n"
      "C: f32[32, 64] complex reduction over k=16, reads A[i, k] (affine, reused along j), "
      "B[k, j] (affine, reused along i)\n"
      "bias: f32[64] placeholder\n"
      "D: f32[32, 64] direct compute, output, reads C[i, j] (elementwise), bias[j] (broadcast, "
      "reused along i)\n");
  const Conv c(4, 8, 16, 3, 1, 1);
  EXPECT_EQ(
      ComputeDag({c.relu}).to_text(),
      "data: f32[2, 4, 8, 8] placeholder\n"
      "pad: f32[2, 4, 10, 10] location-tunable, reads data[i0, i1, i2 - 1, i3 - 1] (injective, "
      "guarded)\n"
      "weight: f32[16, 4, 3, 3] constant placeholder\n"
      "conv: f32[2, 16, 8, 8] complex reduction over rc=4, rh=3, rw=3, reads pad[i0, rc, i2 + "
      "rh, i3 + rw] (affine, reused along i1, windows along i2 and i3), weight[i1, rc, rh, rw] "
      "(affine, reused along i0, i2 and i3)\n"
      "bias: f32[16] constant placeholder\n"
      "relu: f32[2, 16, 8, 8] direct compute, output, reads conv[i0, i1, i2, i3] "
      "(elementwise), bias[i1] (broadcast, reused along i0, i2 and i3)\n");
}

TEST(ComputeDag, AllProducersAreFoundOnceWhateverTheNumberOfPaths) {
  // Each stage reads the one before it along two ways: 2^60 paths to the first.
  Tensor t = placeholder({4}, f32, "t0");
  const Tensor apart = placeholder({4}, f32, "apart");
  for (int n = 0; n < 60; ++n) {
    const Tensor left = compute({4}, [&](Axis i) { return t(i) + 1.f; });
    t = compute({4}, [&](Axis i) { return t(i) * left(i); });
  }
  const Tensor last = compute({4}, [&](Axis i) { return t(i) + apart(i); });
  const ComputeDag dag({last});
  std::vector<int> expected;
  for (int x = 0; x < dag.size(); ++x) {
    if (x != dag.index_of(apart.op()) && x != dag.index_of(last.op())) expected.push_back(x);
  }
  std::vector<int> of_product = all_producers(dag, dag.index_of(t.op()));
  of_product.push_back(dag.index_of(t.op()));
  std::sort(of_product.begin(), of_product.end());
  EXPECT_EQ(of_product, expected);
  EXPECT_EQ(all_producers(dag, dag.index_of(last.op())).size(), 122u);
  EXPECT_TRUE(all_producers(dag, dag.index_of(apart.op())).empty());
}

TEST(ComputeDag, ALongChainIsNoProblem) {
  Tensor t = placeholder({4}, f32, "t0");
  for (int n = 1; n <= 2000; ++n) t = compute({4}, [&](Axis i) { return t(i) + 1.f; });
  EXPECT_EQ(ComputeDag({t}).size(), 2001);
}

}  // namespace
}  // namespace heddle::dag_test
