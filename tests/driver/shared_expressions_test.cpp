// Bodies in which parts are used several times, again and again: as a tree each of them would have
// more nodes than there are atoms.
#include <functional>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/driver_testing.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"

namespace heddle::testing {
namespace {

constexpr int kSteps = 64;
constexpr int64_t kSide = 24;

struct Shared {
  std::string name;
  std::function<Expr(const Expr& a, const Expr& b, const Axis& i, const Axis& j)> body;
};

Expr mandelbrot(const Expr& a, const Expr& b, bool until_it_escapes) {
  // Near the origin the iteration converges: rounding does not grow.
  const Expr re = a * .2f, im = b * .2f;
  Expr x = re, y = im, count = make_float(f32, 0);
  for (int s = 0; s < kSteps; ++s) {
    const Expr next_x = x * x - y * y + re, next_y = x * y * 2.f + im;
    const Expr inside = x * x + y * y < 4.f;
    x = until_it_escapes ? select(inside, next_x, x) : next_x;
    y = until_it_escapes ? select(inside, next_y, y) : next_y;
    count = count + select(inside, Expr(1.f), Expr(0.f));
  }
  return until_it_escapes ? x + y + count : x + y;
}

std::vector<Shared> all_shared() {
  std::vector<Shared> out;
  out.push_back({"mandelbrot", [](const Expr& a, const Expr& b, const Axis&, const Axis&) {
                   return mandelbrot(a, b, false);
                 }});
  out.push_back({"escape", [](const Expr& a, const Expr& b, const Axis&, const Axis&) {
                   return mandelbrot(a, b, true);
                 }});
  out.push_back({"logistic", [](const Expr& a, const Expr& b, const Axis&, const Axis&) {
                   Expr v = a;
                   for (int s = 0; s < kSteps; ++s) v = v * v * .5f + v * .25f;
                   return v + b;
                 }});
  out.push_back({"by data", [](const Expr& a, const Expr& b, const Axis&, const Axis&) {
                   Expr v = a;
                   for (int s = 0; s < kSteps; ++s)
                     v = select(b > static_cast<float>(s) * .02f, v * .5f, v + b * .125f);
                   return v;
                 }});
  out.push_back({"by place", [](const Expr& a, const Expr& b, const Axis& i, const Axis&) {
                   Expr v = a;
                   for (int s = 0; s < kSteps; ++s)
                     v = select(Expr(i) < Expr(s), v * .5f, v + b * .125f);
                   return v;
                 }});
  out.push_back({"conditions", [](const Expr& a, const Expr& b, const Axis&, const Axis&) {
                   Expr c = a > 0.f;
                   for (int s = 0; s < kSteps; ++s) {
                     const float at = static_cast<float>(s) * .01f;
                     c = (c && b > at) || (!c && a < at);
                   }
                   return select(c, a, b);
                 }});
  out.push_back({"integers", [](const Expr& a, const Expr& b, const Axis& i, const Axis& j) {
                   Expr h = cast(i32, Expr(i) * 64 + j);
                   for (int s = 0; s < kSteps; ++s) h = floormod(h * 3 + h * h, Expr(10007));
                   return a + b + cast(f32, h);
                 }});
  return out;
}

Tensor declare(const Shared& shared) {
  const Tensor a = placeholder({kSide, kSide}, f32, "A"), b = placeholder({kSide, kSide}, f32, "B");
  return compute(
      {kSide, kSide}, [&](Axis i, Axis j) { return shared.body(a(i, j), b(i, j), i, j); }, "z");
}

class SharedExpressions : public ::testing::TestWithParam<Shared> {};

TEST_P(SharedExpressions, AreBuiltAndRight) {
  const Tensor z = declare(GetParam());
  EXPECT_EQ(wrong_when_run(create_schedule({z})), "");
  EXPECT_EQ(wrong_when_run(naive_schedule({z})), "");
}

TEST_P(SharedExpressions, ArePrintedAtReadableLength) {
  const Tensor z = declare(GetParam());
  EXPECT_LT(to_string(z.op()->bodies()[0]).size(), 100000U);
  const Schedule s = create_schedule({z});
  EXPECT_LT(to_string(lower(s, all_args(s.dag())).main).size(), 4000000U);
}

TEST_P(SharedExpressions, AreRightOnAGpu) {
  const Tensor z = declare(GetParam());
  const Schedule s = create_schedule({z}, Target::parse("cuda -gpu=h100"));
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  std::vector<NDArray> arrays = call_arrays(s.dag());
  emulate(program, arrays);
  EXPECT_EQ(differs(s.dag(), arrays, 1e-4), "");
  const std::string text = emit_cuda(program);
  EXPECT_LT(text.size(), 4000000U);
  if (!cuda::nvrtc_available()) return;
  EXPECT_FALSE(cuda::compile_cuda(text, "sm_90a").bytes.empty());
}

INSTANTIATE_TEST_SUITE_P(All, SharedExpressions, ::testing::ValuesIn(all_shared()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

// Equal, and made twice: no node of one is a node of the other.
TEST(SharedExpressionsTwice, AreEqual) {
  const Var x("x", f32);
  const auto make = [&] {
    Expr v = x;
    for (int s = 0; s < kSteps; ++s) v = v * v * .5f + v * .25f;
    return v;
  };
  const Expr a = make(), b = make();
  EXPECT_TRUE(equal(a, b));
  EXPECT_FALSE(equal(a, b + 1.f));
  EXPECT_TRUE(uses_var(a, x));
  EXPECT_FALSE(uses_var(a, Var("y", f32)));
}

// A guard around all of it, and none within.
TEST(SharedExpressionsTwice, AreCheckedWithinTheirGuards) {
  const Tensor a = placeholder({8}, f32, "A");
  const auto body = [&](const Axis& i, const Expr& first) {
    Expr v = a(Expr(i) - 1);
    for (int s = 0; s < kSteps; ++s) v = select(a(i) > static_cast<float>(s), v * .5f, v + v);
    return select(Expr(i) > first, v, Expr(0.f));
  };
  EXPECT_EQ(wrong_when_run(create_schedule({compute({8}, [&](Axis i) { return body(i, 0); })})),
            "");
  EXPECT_THROW(compute({8}, [&](Axis i) { return body(i, -1); }), Error);
}

}  // namespace
}  // namespace heddle::testing
