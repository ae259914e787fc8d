// Declarations that are deeper than a stack: long chains of stages, and nested expressions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "dag/declaration/declaration.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/elementwise.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"

namespace heddle::testing {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    return e.what();
  }
  return "no error";
}

Expr nested(Expr x, int levels) {
  for (int i = 0; i < levels; ++i) x = x + 1.f;
  return x;
}

TEST(Deep, ExpressionsBeyondTheLimitAreAnErrorAndAreDestroyed) {
  const Tensor a = placeholder({4}, f32, "a");
  EXPECT_THAT(error_of([&] { compute({4}, [&](Axis i) { return nested(a(i), 200000); }, "y"); }),
              ::testing::AllOf(::testing::HasSubstr("'y' is nested deeper than 4000 levels"),
                               ::testing::HasSubstr("tensors of their own")));
  EXPECT_THAT(error_of([&] {
                compute({4}, [&](Axis i) {
                  Expr n = i;
                  for (int k = 0; k < 200000; ++k) n = n + i;
                  return n * 0.5f;
                });
              }),
              ::testing::HasSubstr("nested deeper than 4000 levels"));
}

TEST(Deep, ExpressionsUpToTheLimitRun) {
  const Tensor a = placeholder({4}, f32, "a");
  const Tensor y = compute({4}, [&](Axis i) { return nested(a(i), 3900); }, "y");
  const NDArray x = NDArray::from(std::vector<float>{1, 2, 3, 4}), out = NDArray::zeros({4}, f32);
  build(create_schedule({y}), {a, y}).call(std::vector<NDArray>{x, out});
  EXPECT_EQ(out.get(3), 3904);
}

// 20,000 stages, each reading the one before it.
Tensor chain(const Tensor& first, int stages) {
  Tensor x = first;
  for (int s = 0; s < stages; ++s)
    x = compute(
        x.shape(), [&](Axis i) { return s % 2 ? max(x(i), 0.f) : x(i) + 1.f; },
        "s" + std::to_string(s));
  return x;
}

TEST(Deep, ChainsOfStagesRun) {
  const Tensor a = placeholder({4}, f32, "a");
  const Tensor y = chain(a, 20000);
  EXPECT_EQ(ComputeDag({y}).size(), 20001);
  const NDArray x = NDArray::from(std::vector<float>{1, 2, 3, 4}), out = NDArray::zeros({4}, f32);
  EXPECT_EQ(interpret({y}, {{a, x}})[0].get(3), 10004);
  build(create_schedule({y}), {a, y}).call(std::vector<NDArray>{x, out});
  EXPECT_EQ(out.get(3), 10004);
}

TEST(Deep, ChainsOfStagesRunOnGpus) {
  const Tensor a = placeholder({4}, f32, "a");
  const Schedule s = create_schedule({chain(a, 2000)}, Target::parse("cuda -gpu=h200"));
  EXPECT_FALSE(lower_gpu(s, {a, s.dag().outputs()[0]}).main.empty());
}

}  // namespace
}  // namespace heddle::testing
