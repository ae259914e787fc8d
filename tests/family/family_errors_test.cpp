// What families refuse, and how they say it.
#include "family/family_testing.h"

namespace heddle::testing {
namespace {

void expect_error(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(text.find("INTERNAL"), std::string::npos) << text;
}

NDArray zeros(std::vector<int64_t> shape) { return NDArray::zeros(std::move(shape), f32); }

TEST(FamilyErrors, DimensionsHaveARange) {
  expect_error(error_of([] { dim("n", 0, 4); }), "dimension 'n' is 0 to 4");
  expect_error(error_of([] { dim("n", 5, 4); }), "dimension 'n' is 5 to 4");
  expect_error(error_of([] { (void)dim("n", 9, 15).multiple_of(8); }),
               "no size that is a multiple of 8");
  expect_error(error_of([] { (void)dim("n", 1, 64).multiple_of(8).multiple_of(2); }),
               "multiples of 8 already");
}

TEST(FamilyErrors, ExtentsAreSumsOfDimensions) {
  const Dim n = dim("n", 1, 64);
  expect_error(error_of([&] { placeholder({Expr(n) * n}, f32, "x"); }), "no sum of dimensions");
  expect_error(error_of([&] { placeholder({Expr(n) - 1}, f32, "x"); }), "0 to 63");
  expect_error(error_of([&] { placeholder({Var("v").expr()}, f32, "x"); }), "no sum of dimensions");
}

TEST(FamilyErrors, ReadsAreInBoundsForEverySize) {
  const Dim n = dim("n", 1, 64), m = dim("m", 1, 64);
  const Tensor x = placeholder({n, 4}, f32, "x"), c = placeholder({64}, f32, "c");
  const auto read = [&](auto body) { return error_of([&] { compute({n}, body, "y"); }); };
  expect_error(read([&](Axis i) { return x(i + 1, 0); }), "below the extent");
  expect_error(read([&](Axis i) { return x(i - 1, 0); }), "at least 0");
  expect_error(read([&](Axis) { return x(1, 0); }), "below the extent");
  expect_error(error_of([&] { compute({m}, [&](Axis i) { return x(i, 0); }, "y"); }), "'x'");
  expect_error(read([&](Axis i) { return x(min(i * 2, Expr(n)), 0); }), "below the extent");
  expect_error(read([&](Axis i) { return x(max(Expr(n) - 1, i + 1), 0); }), "below the extent");
  // These are fine.
  EXPECT_EQ(read([&](Axis i) { return x(max(min(i * 3 - 40, Expr(n) - 1), 0), 0); }), "no error");
  EXPECT_EQ(read([&](Axis i) { return x(floormod(i * 3, Expr(n)), 0); }), "no error");
  EXPECT_EQ(read([&](Axis i) { return x(select(i < 1, Expr(n) - 1, i - 1), 0); }), "no error");
  EXPECT_EQ(read([&](Axis i) { return x(Expr(n) - 1 - i, 0); }), "no error");
  EXPECT_EQ(read([&](Axis i) { return select(i >= 1, x(i - 1, 0), 0.f); }), "no error");
  EXPECT_EQ(read([&](Axis i) { return select(i + 1 < Expr(n), x(i + 1, 0), 0.f); }), "no error");
  EXPECT_EQ(read([&](Axis i) { return c(i); }), "no error");
}

TEST(FamilyErrors, WhatNeedsConstantsNamesTheDimension) {
  const Family f = matmul_family();
  expect_error(error_of([&] { (void)f.result.extent(0); }), "symbolic extent n, which is 1 to 300");
  expect_error(error_of([&] { ops::matmul(f.result, placeholder({40, 3})); }), "symbolic extent n");
  expect_error(error_of([&] { NDArray::zeros(f.result.extents(), f32); }), "symbolic extent n");
  expect_error(error_of([&] { make_template(ComputeDag({f.result}), Target::host()); }),
               "symbolic extent n");
}

TEST(FamilyErrors, SizesComeFromArguments) {
  const Dim n = dim("n", 1, 64), m = dim("m", 1, 64);
  const Tensor x = placeholder({Expr(n) + m}, f32, "x");
  const Tensor y = compute({n}, [&](Axis i) { return x(i); }, "y");
  expect_error(error_of([&] { build(Schedule({y}), {x, y}); }),
               "no argument has the dimension 'm'");
}

TEST(FamilyErrors, CallsAgreeOnSizesInTheirRange) {
  const Dim n = dim("n", 2, 64);
  const Tensor x = placeholder({n, 4}, f32, "x"), z = placeholder({Expr(n) + 1}, f32, "z");
  const Tensor y = compute({n, 4}, [&](Axis i, Axis j) { return x(i, j) + z(i + 1); }, "y");
  const Kernel kernel = build(create_schedule({y}), {x, z, y});
  EXPECT_EQ(error_of([&] { kernel(zeros({7, 4}), zeros({8}), zeros({7, 4})); }), "no error");
  const auto call = [&](int64_t in, int64_t sums, int64_t out, int64_t cols = 4) {
    return error_of([&] { kernel(zeros({in, cols}), zeros({sums}), zeros({out, 4})); });
  };
  expect_error(call(7, 8, 8), "argument 2 ('y') of kernel 'kernel' has extent 8 in dimension 0");
  expect_error(call(7, 9, 7), "which is n + 1, and other arguments make that 8");
  expect_error(call(65, 66, 65), "the kernel is for 2 to 64 there");
  expect_error(call(1, 2, 1), "the kernel is for 2 to 64 there");
  expect_error(call(7, 8, 7, 5), "must have shape");
  const Dim eights = dim("n", 1, 64).multiple_of(8);
  const Tensor w = placeholder({eights}, f32, "w");
  const Tensor v = compute({eights}, [&](Axis i) { return w(i) * 2.f; }, "v");
  const Kernel of_eights = build(create_schedule({v}), {w, v});
  EXPECT_EQ(error_of([&] { of_eights(zeros({24}), zeros({24})); }), "no error");
  expect_error(error_of([&] { of_eights(zeros({25}), zeros({25})); }),
               "the kernel is for 8 to 64, multiples of 8 only there");
}

TEST(FamilyErrors, InstancesNeedEverySize) {
  const Family f = matmul_family();
  expect_error(error_of([&] { at_sizes({f.result}, {}); }), "the size 'n' has no value");
  expect_error(error_of([&] { at_sizes({f.result}, {{f.n, 301}}); }), "cannot be 301");
}

}  // namespace
}  // namespace heddle::testing
