// Declarations over a dimension from functions that declare for a number.
#include "heddle/dag/generalize.h"

#include <cmath>

#include "family/gpu_family_testing.h"

namespace heddle::testing {
namespace {

using Declare = std::function<std::vector<Tensor>(int64_t)>;

std::string wrong(const Dim& n, const Declare& declare) {
  const Generalized g = generalize(n, declare);
  const Schedule s = create_schedule(g.outputs);
  const Kernel kernel = build(s, all_args(s.dag()));
  for (const int64_t size : {1, 2, 5, 16, 31}) {
    const std::string d = wrong_at(kernel, g.outputs[0], {{n, size}});
    if (!d.empty()) return d;
  }
  return "";
}

TEST(Generalize, OperatorsBecomeFamilies) {
  const Dim n = dim("n", 1, 40);
  EXPECT_EQ(wrong(n,
                  [](int64_t m) -> std::vector<Tensor> {
                    return {ops::matmul(placeholder({m, 24}), placeholder({24, 40}))};
                  }),
            "");
  EXPECT_EQ(
      wrong(n,
            [](int64_t m) -> std::vector<Tensor> { return {ops::softmax(placeholder({m, 50}))}; }),
      "");
  EXPECT_EQ(wrong(n,
                  [](int64_t b) -> std::vector<Tensor> {
                    ops::Conv at;
                    at.padding = {1, 1};
                    return {ops::relu(ops::conv2d(placeholder({b, 3, 6, 5}),
                                                  constant_placeholder({8, 3, 3, 3}), at,
                                                  placeholder({8})))};
                  }),
            "");
}

// Each call of argmax makes a reducer of its own.
TEST(Generalize, ReducersAreComparedByTheirFormulas) {
  const Dim n = dim("n", 1, 40);
  const auto rows = [](int64_t m) -> std::vector<Tensor> {
    return {ops::argmax(placeholder({m, 50}), 1)};
  };
  const auto columns = [](int64_t m) -> std::vector<Tensor> {
    return {ops::argmax(placeholder({5, m}), 1)};
  };
  EXPECT_EQ(wrong(n, rows), "");
  EXPECT_EQ(wrong(n, columns), "");
  for (const Declare& declare : {Declare(rows), Declare(columns)}) {
    const Generalized g = generalize(n, declare);
    for (const int64_t at : {4, 40}) {
      const Schedule s = family_schedule(g.outputs, {{n, at}}, gpu());
      EXPECT_EQ(first_wrong(s, {"argmax", n, g.outputs[0]}, {1, 2, 5, 31, 40}), "") << at;
    }
  }
  const std::string error = error_of([&] {
    generalize(n, [](int64_t m) -> std::vector<Tensor> {
      const Tensor x = placeholder({5, m});
      return {m < 20 ? ops::argmax(x, 1) : ops::argmin(x, 1)};
    });
  });
  EXPECT_NE(error.find("other operations at other sizes"), std::string::npos) << error;
}

TEST(Generalize, CountsAndTheirInversesMayDependOnTheSize) {
  const Dim n = dim("n", 1, 40);
  EXPECT_EQ(
      wrong(n,
            [](int64_t m) -> std::vector<Tensor> { return {ops::mean(placeholder({m, 4}), {0})}; }),
      "");
  EXPECT_EQ(wrong(n,
                  [](int64_t m) -> std::vector<Tensor> {
                    const Tensor x = placeholder({m, 4});
                    const float inverse = 1.F / static_cast<float>(m);
                    return {compute({m, 4}, [&](Axis i, Axis j) { return x(i, j) * inverse; })};
                  }),
            "");
}

// Positions and masks are constants of the size. Of one element they are numbers.
TEST(Generalize, ConstantArraysThatBeginAlikeAreTheLargest) {
  const Dim n = dim("n", 1, 40);
  const auto declare = [](int64_t first) {
    return [first](int64_t m) -> std::vector<Tensor> {
      const Tensor x = placeholder({m, 4});
      if (m == 1) return {compute({m, 4}, [&](Axis i, Axis j) { return x(i, j) + float(first); })};
      NDArray values = NDArray::empty({m}, f32);
      for (int64_t i = 0; i < m; ++i) values.data<float>()[i] = static_cast<float>(first + i);
      const Tensor c = constant(values, "positions");
      return {compute({m, 4}, [&](Axis i, Axis j) { return x(i, j) + c(i); })};
    };
  };
  EXPECT_EQ(wrong(n, declare(5)), "");
  EXPECT_NE(error_of([&] {
              generalize(n, [&](int64_t m) { return declare(m)(m); });
            }).find("the values of 'positions'"),
            std::string::npos);
}

// Reshapes of one image need neither quotients nor remainders.
TEST(Generalize, IndicesAreComparedUpToWhatTheirAxesBound) {
  const Dim n = dim("n", 1, 40);
  const auto heads = [](int64_t b) -> std::vector<Tensor> {
    const Tensor x = ops::relu(ops::reshape(placeholder({b, 8, 6}), {b * 4, 2, 6}));
    const Tensor y = ops::relu(ops::reshape(x, {b * 8, 6}));
    return {ops::relu(ops::reshape(y, {b, 2, 4, 6}))};
  };
  EXPECT_EQ(wrong(n, heads), "");
}

TEST(Generalize, MultiplesMayBeDividedByStrides) {
  const Dim n = dim("n", 4, 40).multiple_of(4);
  const auto halves = [](int64_t m) -> std::vector<Tensor> {
    ops::Conv at;
    at.stride = {2, 2};
    at.padding = {1, 1};
    return {ops::relu(ops::conv2d(placeholder({1, 3, m, 5}), constant_placeholder({8, 3, 3, 3}), at,
                                  placeholder({8})))};
  };
  const Generalized g = generalize(n, halves);
  const Schedule s = create_schedule(g.outputs);
  const Kernel kernel = build(s, all_args(s.dag()));
  for (const int64_t size : {4, 12, 40})
    EXPECT_EQ(wrong_at(kernel, g.outputs[0], {{n, size}}), "") << size;
}

TEST(Generalize, StridesThatDoNotDivideASizeAskForMultiples) {
  const std::string error = error_of([] {
    generalize(dim("n", 4, 40), [](int64_t m) -> std::vector<Tensor> {
      return {ops::conv1d(placeholder({1, 3, m}), constant_placeholder({8, 3, 3}),
                          {.stride = {2}, .padding = {1}})};
    });
  });
  EXPECT_NE(error.find("give a range of their multiples, such as 32..512/32"), std::string::npos)
      << error;
}

TEST(Generalize, ADeclarationIsTheOneThatWasMeant) {
  const Dim n = dim("n", 1, 300);
  const Generalized g = generalize(n, [](int64_t m) -> std::vector<Tensor> {
    return {product(placeholder({m, 24}), constant_placeholder({24, 40}), 24)};
  });
  EXPECT_EQ(ComputeDag(g.outputs).structural_hash(),
            ComputeDag({matmul_family(n).result}).structural_hash());
}

TEST(Generalize, WhatDiffersInMoreThanSizesIsRefused) {
  const Dim n = dim("n", 1, 40);
  const auto error = [&](const Declare& declare) {
    return error_of([&] { generalize(n, declare); });
  };
  EXPECT_NE(error([](int64_t m) -> std::vector<Tensor> {
              const Tensor x = placeholder({m, 4});
              const auto root = static_cast<float>(std::sqrt(m));
              return {compute({m, 4}, [&](Axis i, Axis j) { return x(i, j) * root; })};
            }).find("the number"),
            std::string::npos);
  EXPECT_NE(error([](int64_t m) -> std::vector<Tensor> {
              const Tensor x = ops::relu(placeholder({m, 4}));
              return {m % 2 == 0 ? x : ops::relu(x)};
            }).find("other operations at other sizes"),
            std::string::npos);
  // Different at small sizes alone.
  EXPECT_NE(error([](int64_t m) -> std::vector<Tensor> {
              const Tensor x = ops::relu(placeholder({m, 4}));
              return {m > 1 ? x : ops::exp(x)};
            }).find("at size 1"),
            std::string::npos);
  EXPECT_NE(error([](int64_t m) -> std::vector<Tensor> {
              return {ops::relu(placeholder({m * m, 4}))};
            }).find("the extent of"),
            std::string::npos);
}

}  // namespace
}  // namespace heddle::testing
