// Rules that rewrite a graph: where they are legal, what they are called, what becomes of the
// graph.
#include "heddle/dag/alternatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

const Target& host() {
  static const Target t = Target::parse("llvm -mcpu=skylake -threads=2");
  return t;
}

Tensor conv3x3(int64_t c = 32, int64_t h = 16, ops::Conv at = {}, int64_t r = 3) {
  at.layout = ops::NHWC;
  return ops::conv2d(placeholder({1, h, h, c}, f32, "x"),
                     constant_placeholder({r, r, c / at.groups, c}, f32, "w"), at);
}

int reduction_of(const ComputeDag& dag) {
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).is_reduction()) return s;
  }
  return -1;
}

std::string winograd_at(const ComputeDag& dag, int64_t tile = 4) {
  return "winograd(tile=" + std::to_string(tile) + ")@" + std::to_string(reduction_of(dag));
}

// Why the first alternative of `rule` is not legal; "-" where it is not even considered.
std::string why_not(const Tensor& y, const std::string& rule = "winograd",
                    const AlternativePolicy& policy = {}) {
  for (const Alternative& a : alternatives_of(ComputeDag({y}), host(), policy)) {
    if (a.name.starts_with(rule)) return a.why_not;
  }
  return "-";
}

std::string message_of(const ComputeDag& dag, const std::string& name) {
  try {
    apply_alternative(dag, name);
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

TEST(Winograd, IsLegalForConvolutionsOf3x3WithStride1) {
  EXPECT_EQ(why_not(conv3x3()), "");
  ops::Conv same;
  same.padding = {1};
  EXPECT_EQ(why_not(conv3x3(32, 16, same)), "");
  Tensor x = placeholder({2, 4, 9, 11}), w = placeholder({5, 4, 3, 3});
  EXPECT_EQ(why_not(ops::conv2d(x, w)), "") << "channels first, and weights that are not constant";
}

TEST(Winograd, SaysWhyItIsNot) {
  ops::Conv strided, dilated, grouped;
  strided.stride = {2};
  dilated.dilation = {2};
  grouped.groups = 4;
  EXPECT_EQ(why_not(conv3x3(32, 16, strided)), "its stride is not 1");
  EXPECT_EQ(why_not(conv3x3(32, 16, dilated)), "its filter is dilated");
  EXPECT_EQ(why_not(conv3x3(32, 16, {}, 5)), "its filter is 5x5, not 3x3");
  EXPECT_EQ(why_not(conv3x3(32, 16, grouped)), "-") << "its channels are no axis";
  EXPECT_EQ(why_not(ops::matmul(placeholder({16, 16}), placeholder({16, 16}))), "-");
  Tensor bytes = ops::conv2d(placeholder({1, 4, 8, 8}, i8), placeholder({4, 4, 3, 3}, i8));
  EXPECT_EQ(why_not(bytes), "its results are whole numbers");
}

// By what it reads, whoever wrote it.
TEST(Winograd, RecognisesADeclarationOfTheUser) {
  Tensor x = placeholder({10, 8, 12}, f32, "x"), w = placeholder({6, 3, 3, 8}, f32, "w");
  Axis c = reduce_axis(8, "c"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
  Tensor y = compute({6, 8, 10}, [&](Axis k, Axis i, Axis j) {
    return sum(w(k, r, s, c) * x(i + r, c, j + s), {r, s, c});
  });
  EXPECT_EQ(why_not(y), "") << "no batch, weights first";
  Tensor summed = compute({6, 8, 10}, [&](Axis k, Axis i, Axis j) {
    return sum(w(k, r, s, c) + x(i + r, c, j + s), {r, s, c});
  });
  EXPECT_EQ(why_not(summed), "-") << "not a sum of products";
}

// The gradient of an image: from the last tap on its window runs forwards.
TEST(Winograd, IsLegalForWindowsThatRunBackwards) {
  const Tensor x = placeholder({2, 10, 9, 4}, f32, "x"), w = placeholder({5, 4, 3, 3}, f32, "w");
  const Axis c = reduce_axis(4, "c"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
  const auto gradient = [&](int64_t first) {
    return compute({2, 8, 7, 5}, [&](Axis n, Axis i, Axis j, Axis k) {
      return sum(w(k, c, r, s) * x(n, i - r + first, j + 2 - s, c), {c, r, s});
    });
  };
  EXPECT_EQ(why_not(gradient(2)), "");
}

TEST(SplitK, IsLegalForLongSumsOfFewResults) {
  auto product = [](int64_t m, int64_t k) {
    return ops::matmul(placeholder({Expr(m), Expr(k)}), placeholder({Expr(k), 32}));
  };
  EXPECT_EQ(why_not(product(32, 4096), "split_k"), "");
  EXPECT_EQ(why_not(product(32, 4098), "split_k"), "") << "parts may be uneven";
  EXPECT_EQ(why_not(product(4096, 4096), "split_k"), "its 131072 results are enough to share out");
  EXPECT_EQ(why_not(product(32, 512), "split_k"), "-");
}

// 16.8 MB of transformed weights are half of 32 MiB: they stay in that cache between calls.
TEST(Winograd, PromisesMoreWhereItsWeightsAreHalfOfTheLastCache) {
  ops::Conv same;
  same.padding = {1};
  const ComputeDag dag({conv3x3(512, 7, same)});
  const auto promise = [&](const char* l3) {
    const Target t = Target::parse("llvm -mcpu=znver3 -threads=2 -l3=" + std::string(l3));
    for (const Alternative& a : alternatives_of(dag, t, {})) {
      if (a.name.starts_with("winograd(tile=2)")) return a.speedup;
    }
    return 0.0;
  };
  EXPECT_GT(promise("32M"), 1);
  EXPECT_LT(promise("31M"), 1);
}

// ---- axes that become one -----------------------------------------------------------------------

// The extents of the results of the graph's last reduction once its axes are collapsed; empty where
// they cannot be.
std::vector<int64_t> collapsed(const Tensor& y) {
  const ComputeDag dag({y});
  for (const Alternative& a : alternatives_of(dag, host(), {})) {
    if (!a.name.starts_with("collapse") || !a.legal()) continue;
    const ComputeDag other = apply_alternative(dag, a.name);
    for (int s = other.size() - 1; s >= 0; --s) {
      if (other.stage(s).is_reduction()) return other.stage(s).output(0).extents();
    }
  }
  return {};
}

using Extents = std::vector<int64_t>;

TEST(Collapse, JoinsTheImageOfA1x1Convolution) {
  ops::Conv at;
  at.layout = ops::NHWC;
  const Tensor w = constant_placeholder({1, 1, 32, 48});
  EXPECT_EQ(collapsed(ops::conv2d(placeholder({2, 7, 9, 32}), w, at)), (Extents{126, 48}));
  const Tensor planes =
      ops::conv2d(placeholder({2, 32, 7, 9}), constant_placeholder({48, 32, 1, 1}));
  EXPECT_EQ(collapsed(planes), (Extents{2, 48, 63})) << "channels lie between";
  EXPECT_EQ(collapsed(ops::relu(planes)), (Extents{2, 48, 63}));
  at.stride = {2};
  EXPECT_EQ(collapsed(ops::conv2d(placeholder({2, 7, 9, 32}), w, at)), Extents{});
  at.stride = {1};
  at.padding = {1};
  EXPECT_EQ(collapsed(ops::conv2d(placeholder({2, 7, 9, 32}), w, at)), Extents{});
  EXPECT_EQ(collapsed(conv3x3()), Extents{});
}

TEST(Collapse, JoinsABatchThatSharesItsMatrix) {
  const Axis k = reduce_axis(16);
  const Tensor a = placeholder({3, 8, 16}), shared = placeholder({16, 32}),
               own = placeholder({3, 16, 32});
  const auto product = [&](const std::function<Expr(Axis, Axis)>& b) {
    return compute({3, 8, 32},
                   [&](Axis n, Axis i, Axis j) { return sum(a(n, i, k) * b(n, j), k); });
  };
  const Tensor y = product([&](Axis, Axis j) { return shared(k, j); });
  EXPECT_EQ(collapsed(y), (Extents{24, 32}));
  EXPECT_EQ(collapsed(product([&](Axis n, Axis j) { return own(n, k, j); })), Extents{});
  EXPECT_EQ(collapsed(ops::matmul(placeholder({16, 16}), placeholder({16, 16}))), Extents{});
}

// Axes that anything takes apart stay apart, in all stages that they reach.
TEST(Collapse, LooksAtTheWholeGraph) {
  const Axis k = reduce_axis(16);
  const Tensor a = placeholder({3, 8, 16}, f32, "a"), b = placeholder({16, 32}, f32, "b");
  const Tensor y = compute(
      {3, 8, 32}, [&](Axis n, Axis i, Axis j) { return sum(a(n, i, k) * b(k, j), k); }, "y");
  const auto then = [&](const std::function<Expr(Axis, Axis, Axis)>& body) {
    return collapsed(compute({3, 8, 32}, body));
  };
  const Tensor rows = placeholder({8}), both = placeholder({3, 8}), more = placeholder({3, 9, 32});
  EXPECT_EQ(then([&](Axis n, Axis i, Axis j) { return y(n, i, j) + both(n, i); }),
            (Extents{24, 32}));
  EXPECT_EQ(then([&](Axis n, Axis i, Axis j) { return y(n, i, j) + rows(i); }), Extents{});
  EXPECT_EQ(then([&](Axis n, Axis i, Axis j) { return y(n, i, j) + more(n, i, j); }), Extents{})
      << "its rows are longer";
  EXPECT_EQ(then([&](Axis n, Axis i, Axis j) { return select(i < 4, y(n, i, j), 0.f); }),
            Extents{});
  EXPECT_EQ(then([&](Axis n, Axis i, Axis j) { return y(n, i, j) * cast(f32, n); }), Extents{});
  EXPECT_EQ(collapsed(compute({8, 3, 32}, [&](Axis i, Axis n, Axis j) { return y(n, i, j); })),
            Extents{});
  // The inputs of another stage, of which only a part is read.
  const Tensor c =
      compute({3, 8, 16}, [&](Axis n, Axis i, Axis l) { return a(n, i, l) + rows(i); });
  EXPECT_EQ(collapsed(compute(
                {3, 8, 32}, [&](Axis n, Axis i, Axis j) { return sum(c(n, i, k) * b(k, j), k); })),
            Extents{});
}

// Tiles of matrix instructions have 64 rows, or 16: images of 7x7 fill one only when merged.
TEST(Collapse, FillsTheTilesOfTensorCores) {
  const auto chosen = [](std::vector<int64_t> image, DataType t) {
    const Tensor x = placeholder(std::move(image), t), w = constant_placeholder({64, 96}, t);
    return choose_alternative(ComputeDag({ops::matmul(x, w)}), Target::parse("cuda -gpu=h100"), {});
  };
  EXPECT_THAT(chosen({1, 7, 7, 64}, f16), ::testing::StartsWith("collapse"));
  EXPECT_THAT(chosen({8, 56, 56, 64}, bf16), ::testing::StartsWith("collapse"));
  EXPECT_EQ(chosen({8, 64, 64, 64}, f16), "") << "its tiles are full";
  EXPECT_EQ(chosen({1, 7, 7, 64}, f32), "") << "no matrix instruction takes it";
}

TEST(Collapse, ArgumentsAreThoseOfTheDeclaration) {
  const Axis k = reduce_axis(16);
  const Tensor a = placeholder({3, 8, 16}, f32, "a"), b = constant_placeholder({16, 32}, f32, "b");
  const Tensor y = compute(
      {3, 8, 32}, [&](Axis n, Axis i, Axis j) { return sum(a(n, i, k) * b(k, j), k); }, "y");
  const ComputeDag dag({y});
  const std::string name = "collapse@" + std::to_string(reduction_of(dag));
  const ComputeDag other = apply_alternative(dag, name);
  EXPECT_EQ(other.counterpart(a).extents(), (Extents{24, 16}));
  EXPECT_TRUE(other.counterpart(b).same_as(b)) << "nothing of it has changed";
  EXPECT_TRUE(other.counterpart(y).same_as(other.outputs()[0]));
  EXPECT_NE(message_of(dag, name + "+" + name).find("twice"), std::string::npos);
  EXPECT_EQ(alternative_error_growth(dag, name), 1);
}

TEST(Collapse, IsJoinedWithNoOtherRewrite) {
  ops::Conv at;
  at.layout = ops::NHWC;
  ops::Conv same = at;
  same.padding = {1};
  const Tensor small = ops::conv2d(placeholder({1, 12, 12, 32}), placeholder({1, 1, 32, 32}), at);
  const Tensor pool = ops::conv2d(placeholder({1, 12, 12, 32}), placeholder({3, 3, 32, 32}), same);
  const ComputeDag dag({small, pool});
  std::string winograd, collapse;
  for (const Alternative& a : alternatives_of(dag, host(), {})) {
    if (a.legal() && a.name.starts_with("collapse")) collapse = a.name;
    if (a.legal() && a.name.starts_with("winograd")) winograd = a.name;
  }
  ASSERT_FALSE(winograd.empty() || collapse.empty());
  EXPECT_NE(message_of(dag, winograd + "+" + collapse).find("whole graph"), std::string::npos);
}

// ---- all of them --------------------------------------------------------------------------------

Tensor bytes_product(DataType a, DataType b, bool constant = false) {
  return ops::matmul(placeholder({48, 32}, a, "A"), constant
                                                        ? constant_placeholder({32, 64}, b, "B")
                                                        : placeholder({32, 64}, b, "B"));
}

TEST(FlipSign, IsForBytesOfOneSignWhereTheTargetMultipliesThoseOfBoth) {
  const auto offered = [](const Tensor& y, const char* target) {
    for (const Alternative& a : alternatives_of(ComputeDag({y}), Target::parse(target), {})) {
      if (a.name.starts_with("flip_sign")) return a.legal() ? "yes" : a.why_not;
    }
    return std::string("-");
  };
  const char* vnni = "llvm -mcpu=cascadelake";
  EXPECT_EQ(offered(bytes_product(i8, i8), vnni), "yes");
  EXPECT_EQ(offered(bytes_product(u8, u8), "llvm -mcpu=alderlake"), "yes");
  EXPECT_EQ(offered(bytes_product(u8, i8), vnni), "-");
  EXPECT_EQ(offered(bytes_product(i16, i16), vnni), "-");
  EXPECT_EQ(offered(bytes_product(f32, f32), vnni), "-");
  EXPECT_EQ(offered(bytes_product(i8, i8), "llvm -mcpu=znver3"),
            "the target has no instruction for products of both signs");
  EXPECT_EQ(offered(bytes_product(i8, i8), "llvm -mcpu=sierraforest"),
            "the target has an instruction for products of one sign");
  EXPECT_EQ(offered(bytes_product(i8, i8), "cuda -gpu=a100"), "it is for instructions of CPUs");
  ops::Conv depthwise;
  depthwise.groups = 32;
  EXPECT_EQ(offered(ops::conv2d(placeholder({1, 32, 9, 9}, i8), placeholder({32, 1, 5, 5}, i8),
                                depthwise),
                    vnni),
            "no four of its terms can lie side by side");
}

TEST(FlipSign, AddsUpWhatIsConstantOrElseWhatIsLess) {
  const auto sums = [](const Tensor& y) {
    const ComputeDag dag({y});
    const ComputeDag other =
        apply_alternative(dag, "flip_sign@" + std::to_string(reduction_of(dag)));
    for (int s = 0; s < other.size(); ++s) {
      if (other.stage(s).name().ends_with("_sums")) return other.stage(s).output(0).extents();
    }
    return std::vector<int64_t>();
  };
  EXPECT_EQ(sums(bytes_product(i8, i8)), std::vector<int64_t>{48});
  EXPECT_EQ(sums(bytes_product(i8, i8, true)), std::vector<int64_t>{64});
}

TEST(FlipSign, IsChosenWhereFactorsAreUsedOften) {
  const Target vnni = Target::parse("llvm -mcpu=icelake-server");
  const auto product = [](int64_t m) {
    return ops::matmul(placeholder({Expr(m), 512}, i8), placeholder({512, 512}, i8));
  };
  EXPECT_EQ(choose_alternative(ComputeDag({product(512)}), vnni, {}), "flip_sign@2");
  EXPECT_EQ(choose_alternative(ComputeDag({product(2)}), vnni, {}), "");
}

TEST(Alternatives, KeepPlaceholdersAndOutputs) {
  Tensor y = ops::relu(conv3x3());
  Tensor z = compute(y.shape(), [&](const std::vector<Axis>& i) { return y(i) * 2.f; });
  const ComputeDag dag({z, y});
  const ComputeDag other = apply_alternative(dag, winograd_at(dag));
  EXPECT_EQ(other.alternative(), winograd_at(dag));
  EXPECT_EQ(other.direct().structural_hash(), dag.structural_hash());
  EXPECT_NE(other.structural_hash(), dag.structural_hash());
  ASSERT_EQ(other.outputs().size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(other.counterpart(dag.outputs()[i]).same_as(other.outputs()[i]));
    EXPECT_EQ(other.outputs()[i].extents(), dag.outputs()[i].extents());
  }
  for (const Tensor& t : dag.placeholders()) {
    EXPECT_GE(other.index_of(t.op()), 0) << t.name();
    EXPECT_TRUE(other.counterpart(t).same_as(t));
  }
}

TEST(Alternatives, OfSeveralStagesCanBeJoined) {
  ops::Conv same;
  same.padding = {1};
  same.layout = ops::NHWC;
  Tensor x = placeholder({1, 12, 12, 32}), w = constant_placeholder({3, 3, 32, 32});
  Tensor y = ops::conv2d(ops::relu(ops::conv2d(x, w, same)), w, same);
  const ComputeDag dag({y});
  int joined = 0;
  for (const Alternative& a : alternatives_of(dag, host(), {})) {
    if (a.name.find('+') == std::string::npos || !a.name.starts_with("winograd")) continue;
    ++joined;
    const ComputeDag both = apply_alternative(dag, a.name);
    int reductions = 0;
    for (int s = 0; s < both.size(); ++s) {
      if (!both.stage(s).is_reduction()) continue;
      ++reductions;
      EXPECT_EQ(both.stage(s).reduce_axes().size(), 1U) << "no convolution is left";
    }
    EXPECT_EQ(reductions, 2);
  }
  EXPECT_EQ(joined, 2) << "a tile of 2 and of 4";
}

TEST(Alternatives, ThePolicyForbids) {
  EXPECT_TRUE(alternatives_of(ComputeDag({conv3x3()}), host(), {.use = false}).empty());
  EXPECT_NE(why_not(conv3x3(), "winograd", {.max_error_growth = 1}).find("rounding errors"),
            std::string::npos);
  EXPECT_EQ(why_not(conv3x3(), "winograd(tile=4)", {.max_error_growth = 1}).empty(), false);
  EXPECT_EQ(why_not(conv3x3(), "winograd(tile=2)", {.max_error_growth = 2}), "");
  EXPECT_EQ(choose_alternative(ComputeDag({conv3x3(64, 56)}), host(), {.max_error_growth = 1}), "");
}

TEST(Alternatives, TheChoiceIsTheOneThatPromisesMost) {
  const ComputeDag large({conv3x3(64, 56)}), few({conv3x3(4, 56)});
  EXPECT_EQ(choose_alternative(large, host(), {}), winograd_at(large));
  EXPECT_EQ(choose_alternative(few, host(), {}), "") << "too few channels";
  // The same convolution with its images innermost.
  const Tensor x = placeholder({58, 58, 64, 16}, f32, "x"),
               w = constant_placeholder({3, 3, 64, 64});
  const Axis r = reduce_axis(3), s = reduce_axis(3), c = reduce_axis(64);
  const Tensor y = compute({56, 56, 64, 16}, [&](Axis i, Axis j, Axis k, Axis n) {
    return sum(x(i + r, j + s, c, n) * w(r, s, c, k), {r, s, c});
  });
  EXPECT_EQ(choose_alternative(ComputeDag({y}), host(), {}), "") << "images lie innermost";
}

TEST(Alternatives, NamesThatMeanNothingAreRefused) {
  const ComputeDag dag({conv3x3()});
  const std::string stage = std::to_string(reduction_of(dag));
  EXPECT_EQ(apply_alternative(dag, "").structural_hash(), dag.structural_hash());
  EXPECT_NE(message_of(dag, "winograd(tile=4)").find("names no stage"), std::string::npos);
  EXPECT_NE(message_of(dag, "vinograd(tile=4)@2").find("no rewrite rule 'vinograd'"),
            std::string::npos);
  EXPECT_NE(message_of(dag, "winograd(tile=3)@" + stage).find("cannot be"), std::string::npos);
  EXPECT_NE(message_of(dag, "winograd(size=4)@" + stage).find("lacks parameter 'tile'"),
            std::string::npos);
  EXPECT_NE(message_of(dag, "winograd@" + stage).find("0 of 1 parameters"), std::string::npos);
  EXPECT_NE(message_of(dag, "winograd(tile=4)@99").find("stage 99"), std::string::npos);
  EXPECT_NE(message_of(dag, "winograd(tile=4)@x").find("where a number belongs"),
            std::string::npos);
  EXPECT_NE(message_of(dag, "winograd(tile=4)@0").find("does not apply"), std::string::npos);
  EXPECT_NE(message_of(dag, winograd_at(dag) + "+" + winograd_at(dag, 2)).find("twice"),
            std::string::npos);
  const ComputeDag other = apply_alternative(dag, winograd_at(dag));
  EXPECT_NE(message_of(other, winograd_at(dag, 2)).find("cannot be rewritten"), std::string::npos);
}

// A user's rule: x + y as y + x.
RewriteRule swap_rule(bool right = true) {
  return {.name = "swap_test",
          .why_not =
              [](const RewriteSite& s) {
                const auto* b = s.op().bodies()[0].as<Binary>();
                return b && b->op == BinaryOp::Add ? WhyNot() : WhyNot::other_kind("an addition");
              },
          .apply = [right](const RewriteSite& s) -> std::vector<Tensor> {
            const auto* b = s.op().bodies()[0].as<Binary>();
            const std::vector<Axis> old = s.op().axes();
            return {compute(right ? s.op().output(0).shape() : Shape{1},
                            [&](const std::vector<Axis>& i) {
                              std::vector<VarBinding> to;
                              for (size_t a = 0; a < i.size(); ++a)
                                to.push_back({old[a].var(), i[a]});
                              return substitute(b->b + b->a, to);
                            })};
          },
          .error_growth = [](const RewriteSite&) { return 1.0; },
          .estimate = [](const RewriteSite&, const Target&) { return RewriteEstimate{}; }};
}

// What is thought of the swap of an addition of such numerics.
Alternative swapped(Numerics numerics, double growth, DataType t, const AlternativePolicy& policy) {
  RewriteRule rule = swap_rule();
  rule.numerics = numerics;
  rule.error_growth = [growth](const RewriteSite&) { return growth; };
  register_rewrite_rule(std::move(rule));
  Tensor a = placeholder({8}, t), b = placeholder({8}, t);
  const ComputeDag dag({compute({8}, [&](Axis i) { return a(i) + b(i); })});
  const Alternative found = alternatives_of(dag, host(), policy).at(0);
  EXPECT_EQ(alternative_numerics(dag, found.name), found.numerics);
  unregister_rewrite_rule("swap_test");
  return found;
}

TEST(Numerics, FollowTheRuleItsErrorsAndTheType) {
  const auto of = [](Numerics n, double growth, DataType t = f32) {
    return swapped(n, growth, t, {}).numerics;
  };
  EXPECT_EQ(of(Numerics::Exact, 1), Numerics::Exact);
  EXPECT_EQ(of(Numerics::Reassociated, 1), Numerics::Reassociated);
  EXPECT_EQ(of(Numerics::Reassociated, 1, i32), Numerics::Exact);
  EXPECT_EQ(of(Numerics::Reassociated, 17), Numerics::Approximate);
  EXPECT_EQ(of(Numerics::Approximate, 1, i32), Numerics::Approximate);
}

TEST(Numerics, ApproximateOnesNeedPermission) {
  const auto why = [](const AlternativePolicy& policy) {
    return swapped(Numerics::Approximate, 1, f32, policy).why_not;
  };
  EXPECT_NE(why({}).find("allow_approximate"), std::string::npos) << why({});
  EXPECT_EQ(why({.allow_approximate = true}), "");
  EXPECT_NE(why({.max_error_growth = 0.5, .allow_approximate = true}).find("rounding errors"),
            std::string::npos);
}

TEST(Numerics, OfTheRules) {
  const auto of = [](const Tensor& y, const std::string& rule) {
    const ComputeDag dag({y});
    for (const Alternative& a : alternatives_of(dag, host(), {})) {
      if (a.name.starts_with(rule))
        return std::string(to_string(alternative_numerics(dag, a.name)));
    }
    return std::string("-");
  };
  EXPECT_EQ(of(conv3x3(), "winograd"), "reassociated");
  const auto long_product = [](DataType t) {
    return ops::matmul(placeholder({32, 4096}, t), placeholder({4096, 32}, t));
  };
  EXPECT_EQ(of(long_product(f32), "split_k"), "reassociated");
  EXPECT_EQ(of(long_product(i32), "split_k"), "exact");
  EXPECT_EQ(of(ops::matmul(placeholder({128, 1031}), placeholder({1031, 127})), "pad_product"),
            "exact");
}

TEST(SplitK, PartsFollowTheMachine) {
  const ComputeDag dag({ops::matmul(placeholder({32, 28672}), placeholder({28672, 32}))});
  const auto parts = [&](const char* target) {
    std::vector<std::string> names;
    for (const Alternative& a : alternatives_of(dag, Target::parse(target), {})) {
      if (a.name.starts_with("split_k")) names.push_back(a.name.substr(8, a.name.find(')') - 8));
    }
    return names;
  };
  EXPECT_EQ(parts("llvm -mcpu=skylake -threads=2 -l2=1M"),
            (std::vector<std::string>{"parts=2", "parts=8", "parts=28"}));
  EXPECT_NE(parts("llvm -mcpu=skylake -threads=16 -l2=1M"),
            parts("llvm -mcpu=skylake -threads=2 -l2=1M"));
  const std::vector<std::string> waves = parts("cuda -gpu=h200");
  ASSERT_EQ(waves.size(), 2U);
  EXPECT_EQ(waves[0], "parts=128") << "near 132 multiprocessors, and even";
}

// Panels of the whole sum would not stay in the L2 of 1 MB, and the template does not cut the sum.
TEST(SplitK, IsChosenForItsCachesWhereTheTemplateDoesNotCut) {
  const auto chosen = [](int64_t m, int64_t n, int64_t k, const char* target) {
    const Tensor y = ops::matmul(placeholder({m, k}), placeholder({k, n}));
    const std::string name = choose_alternative(ComputeDag({y}), Target::parse(target), {});
    return name.substr(0, name.find('('));
  };
  const char* cpu = "llvm -mcpu=skylake-avx512 -threads=2 -l2=1M";
  EXPECT_EQ(chosen(32, 32, 28672, cpu), "split_k");
  EXPECT_EQ(chosen(16, 16, 65536, cpu), "") << "few results, which the template cuts by cores";
  EXPECT_EQ(chosen(64, 64, 2048, cpu), "") << "panels stay in L2";
  EXPECT_EQ(chosen(256, 256, 28672, cpu), "") << "enough results";
  EXPECT_EQ(chosen(256, 16, 28672, cpu), "") << "tiles half empty";
  EXPECT_EQ(chosen(16, 256, 28672, cpu), "split_k");
  EXPECT_EQ(chosen(32, 32, 28672, "cuda -gpu=h200"), "") << "its templates cut by waves";
}

TEST(Alternatives, AUsersRuleTakesPart) {
  Tensor a = placeholder({8}), b = placeholder({8});
  const ComputeDag dag({compute({8}, [&](Axis i) { return a(i) + b(i); })});
  register_rewrite_rule(swap_rule());
  const std::vector<Alternative> found = alternatives_of(dag, host(), {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "swap_test@2");
  EXPECT_EQ(apply_alternative(dag, "swap_test@2").placeholders().at(0).op(), b.op());
  EXPECT_THROW(register_rewrite_rule(swap_rule()), Error) << "two of one name";
  unregister_rewrite_rule("swap_test");
  EXPECT_TRUE(alternatives_of(dag, host(), {}).empty());
}

TEST(Alternatives, ARuleThatGivesOtherTensorsIsCaught) {
  Tensor a = placeholder({1}), b = placeholder({8});
  const ComputeDag dag({compute({8}, [&](Axis i) { return b(i) + a(0); })});
  register_rewrite_rule(swap_rule(/*right=*/false));
  EXPECT_NE(message_of(dag, "swap_test@2"), "");
  unregister_rewrite_rule("swap_test");
  EXPECT_THROW(register_rewrite_rule({.name = "lacks_all"}), Error);
}

TEST(CasePeriods, AreThoseOfTheDeclaration) {
  Tensor x = placeholder({40, 6});
  auto periods = [](const Tensor& t) {
    const ComputeDag dag({t});
    return dag.info(dag.size() - 1).case_periods;
  };
  Tensor by_row = compute(
      {40, 6}, [&](Axis i, Axis j) { return select(floormod(i, 4) == 0, x(i, j), -x(i, j)); });
  EXPECT_EQ(periods(by_row), (std::vector<int64_t>{4, 1}));
  Tensor whole = compute({40, 6}, [&](Axis i, Axis j) { return select(j == 2, x(i, j), 0.f); });
  EXPECT_EQ(periods(whole), (std::vector<int64_t>{1, 6}));
  Tensor far = compute({40, 6}, [&](Axis i, Axis j) { return select(i == 2, x(i, j), 0.f); });
  EXPECT_TRUE(periods(far).empty()) << "too many points for a tile";
  EXPECT_TRUE(periods(compute({40, 6}, [&](Axis i, Axis j) { return x(i, j) + 1.f; })).empty());
}

}  // namespace
}  // namespace heddle
