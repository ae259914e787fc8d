// Multi-kernels of schedules: the union of their arguments, equal code, and the picks on the disk.
#include "heddle/driver/build_multi.h"

#include "driver/driver_testing.h"
#include "picks/picks_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

MultiOptions options(const std::string& name = "product") {
  MultiOptions o;
  o.build.name = name;
  o.pick.store = nullptr;
  o.pick.message = [](const std::string& text) { ADD_FAILURE() << text; };
  return o;
}

struct Product {
  Tensor a = placeholder({33, 40}, f32, "a"), b = placeholder({40, 50}, f32, "b");
  Tensor c = ops::matmul(a, b);
  std::vector<NDArray> arrays = call_arrays(ComputeDag({c}));

  std::string wrong(const MultiKernel& k) const {
    k.call(arrays);
    return differs(ComputeDag({c}), arrays, 1e-4);
  }
};

TEST(BuildMulti, SchedulesAndAFunctionGiveWhatTheInterpreterGives) {
  Product p;
  int calls = 0;
  const auto mine = [&](std::span<const NDArray> x) {
    ++calls;
    for (int64_t i = 0; i < 33; ++i) {
      for (int64_t j = 0; j < 50; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 40; ++k) sum += x[0].at<float>({i, k}) * x[1].at<float>({k, j});
        x[2].at<float>({i, j}) = static_cast<float>(sum);
      }
    }
  };
  const MultiKernel k = build_multi(
      {{"static", create_schedule({p.c})}, {"naive", naive_schedule({p.c})}, {"mine", mine}},
      {p.a, p.b, p.c}, options());
  EXPECT_EQ(p.wrong(k), "");
  EXPECT_GT(calls, 0);
  EXPECT_EQ(k.picks()[0].reason, PickReason::Measured);
  for (const std::string& name : k.variants()) {
    k.force(name);
    EXPECT_EQ(p.wrong(k), "") << name;
    EXPECT_EQ(k.picks().back().picked, name);
  }
}

// A NaN that the first call brings is an error, and no reason to prefer a function without checks.
TEST(BuildMulti, ANaNOfTheCallDropsNoVariant) {
  Product p;
  MultiOptions o = options();
  o.build.check_finite = true;
  const auto zeros = [](std::span<const NDArray> x) { x[2].fill(0); };
  const MultiKernel k =
      build_multi({{"static", create_schedule({p.c})}, {"mine", zeros}}, {p.a, p.b, p.c}, o);
  const float good = p.arrays[0].at<float>({3, 17});
  p.arrays[0].at<float>({3, 17}) = std::nanf("");
  try {
    k.call(p.arrays);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.message, HasSubstr("input 'a' is NaN at [3, 17]"));
  }
  EXPECT_TRUE(k.picks().empty());
  p.arrays[0].at<float>({3, 17}) = good;
  k.force("static");
  EXPECT_EQ(p.wrong(k), "");
}

TEST(BuildMulti, VariantsOfEqualCodeAreOne) {
  Product p, q;
  const MultiKernel k = build_multi(
      {create_schedule({p.c}), create_schedule({p.c}),
       MultiVariant("same", create_schedule({q.c}), {q.a, q.b, q.c}), naive_schedule({p.c})},
      {p.a, p.b, p.c}, options());
  EXPECT_EQ(k.variants(), (std::vector<std::string>{"variant0", "variant1", "same", "variant3"}));
  EXPECT_EQ(p.wrong(k), "");
  EXPECT_EQ(k.picks()[0].variants.size(), 2U);
  EXPECT_EQ(k.kernel("same").source("asm"), k.kernel("variant0").source("asm"));
}

TEST(BuildMulti, TheUnionOfTheArguments) {
  // y = x + x, as it is; or with a scale that the other variant reads, which is 2.
  const Tensor x = placeholder({70}, f32, "x"), s = placeholder({1}, f32, "s");
  const Tensor sum = compute({70}, [&](Axis i) { return x(i) + x(i); }, "y");
  const Tensor scaled = compute({70}, [&](Axis i) { return x(i) * s(0); }, "y");
  const MultiKernel k = build_multi(
      {{"sum", create_schedule({sum})}, {"scaled", create_schedule({scaled}), {s, x, scaled}}},
      {s, x, sum}, options("twice"));
  ASSERT_EQ(k.args().size(), 3U);
  EXPECT_EQ(k.args()[0].name, "s");
  const NDArray values = NDArray::random({70}, f32, 1), y = NDArray::zeros({70}, f32);
  for (const std::string& name : k.variants()) {
    k.force(name);
    k(NDArray::full({1}, f32, 2), values, y);
    for (int64_t i = 0; i < 70; ++i) ASSERT_EQ(y.get(i), 2 * values.get(i)) << name;
  }
}

// Constants that are packed: each variant keeps its own, and an unread constant is none of its.
TEST(BuildMulti, PackedConstantsOfAlternatives) {
  const Tensor block = conv_block();
  const ComputeDag dag({block});
  std::vector<MultiVariant> variants = {
      {"direct", create_schedule({block}, Target::host(), {.use_alternatives = false})}};
  for (const Alternative& a : alternatives_of(dag, Target::host(), {})) {
    if (!a.legal() || variants.size() > 2) continue;
    const ComputeDag rewritten = apply_alternative(dag, a.name);
    const Template t = make_template(rewritten, Target::host());
    variants.emplace_back(a.name, t.instantiate(t.default_config()));
  }
  ASSERT_GE(variants.size(), 2U);
  const MultiKernel k = build_multi(variants, all_args(dag), options("block"));
  const std::vector<NDArray> arrays = call_arrays(dag);
  for (const std::string& name : k.variants()) {
    k.force(name);
    for (int twice = 0; twice < 2; ++twice) {
      arrays.back().fill(77);
      k.call(arrays);
      EXPECT_EQ(differs(dag, arrays, 1e-3), "") << name;
    }
  }
  k.force("");
  k.call(arrays);
  EXPECT_EQ(differs(dag, arrays, 1e-3), "");
}

TEST(BuildMulti, ARememberedPickCompilesTheOneAlone) {
  const Folder folder;
  Product p;
  MultiOptions o = options();
  o.pick.store = folder.store();
  o.pick.seconds = 60;
  o.pick.time_call = [](const std::string& name, FunctionRef<void()> call) {
    call();
    return name == "naive" ? 1e-3 : 2e-3;
  };
  const auto make = [&] {
    Product again;  // other variables, the same code
    return build_multi(
        {{"static", create_schedule({again.c})}, {"naive", naive_schedule({again.c})}},
        {again.a, again.b, again.c}, o);
  };
  EXPECT_EQ(p.wrong(make()), "");
  o.pick.time_call = [](const std::string&, FunctionRef<void()>) -> double {
    ADD_FAILURE() << "measured again";
    return 1;
  };
  const MultiKernel later = make();
  EXPECT_EQ(p.wrong(later), "");
  EXPECT_EQ(later.picks()[0].reason, PickReason::Remembered);
  EXPECT_EQ(later.picks()[0].picked, "naive");
  EXPECT_FALSE(later.picks()[0].machine.empty());
}

TEST(BuildMulti, SchedulesOfAGpuAreLoweredWhereThereIsNone) {
  Product p;
  const Target gpu = Target::parse("cuda -gpu=h200");
  const MultiKernel k = build_multi(
      {create_schedule({p.c}, gpu), create_schedule({p.c}, gpu), naive_schedule({p.c}, gpu)},
      {p.a, p.b, p.c}, options());
  EXPECT_EQ(k.args().size(), 3U);
  EXPECT_EQ(k.args()[2].alignment, 16);
  EXPECT_EQ(caught([&] {
              build_multi({create_schedule({p.c}, gpu), create_schedule({p.c})}, {p.a, p.b, p.c});
            }).kind,
            ErrorKind::User);
}

TEST(BuildMulti, MistakesAreSaid) {
  Product p, q;
  const auto message = [&](std::vector<MultiVariant> v, const std::vector<Tensor>& args) {
    const Error e = caught([&] { build_multi(std::move(v), args, options()); });
    EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
    return e.message;
  };
  const Schedule s = create_schedule({p.c}), t = create_schedule({q.c});
  EXPECT_THAT(message({}, {p.a, p.b, p.c}), HasSubstr("has no variant"));
  EXPECT_THAT(message({s, t}, {p.a, p.b, p.c}), HasSubstr("does not compute the output"));
  EXPECT_THAT(message({s}, {p.a, p.b, p.c, q.a}), HasSubstr("no variant reads"));
  EXPECT_THAT(message({{"x", s, {p.a}}}, {p.a, p.b, p.c}), HasSubstr("lists 1 tensors"));
  EXPECT_THAT(message({{"x", s}, {"x", naive_schedule({p.c})}}, {p.a, p.b, p.c}),
              HasSubstr("two variants"));
  EXPECT_THAT(message({s}, {p.a, p.c}), HasSubstr("is missing"));
}

}  // namespace
}  // namespace heddle::testing
