// The stages that are scheduled together, and their roles.
#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

// A line a group: "output stage <- main (class) inlined: ... tunable: ...".
std::string groups_text(const std::vector<Tensor>& outputs, const Target* target = nullptr) {
  ComputeDag dag(outputs);
  auto names = [&](const std::vector<int>& stages) {
    std::string out;
    for (int s : stages) out += " " + dag.stage(s).name();
    return out;
  };
  std::string out;
  for (const StageGroup& g : plan_groups(dag, target)) {
    out += dag.stage(g.output_stage).name();
    if (g.anchor != g.output_stage) out += " with anchor " + dag.stage(g.anchor).name();
    out += std::string(" (") + to_string(g.anchor_class) + ")";
    if (!g.inlined.empty()) out += "; inlined" + names(g.inlined);
    if (!g.operands.empty()) out += "; operands" + names(g.operands);
    if (!g.tunable.empty()) out += "; tunable" + names(g.tunable);
    out += "\n";
  }
  return out;
}

TEST(PlanGroups, AConvolutionTakesItsBiasAndActivation) {
  ops::Conv at;
  at.padding = {1, 1};
  Tensor x = placeholder({1, 8, 14, 14}), w = placeholder({16, 8, 3, 3});
  EXPECT_EQ(groups_text({ops::relu(ops::conv2d(x, w, at, placeholder({16})))}),
            R"(relu with anchor conv2d (complex reduction); inlined conv2d_bias; tunable pad
)");
}

TEST(PlanGroups, ArithmeticOnConstantsIsMaterialisedWhereItIsPreparedOnce) {
  auto constant = [] { return constant_placeholder({16}); };
  Tensor y = ops::conv2d(placeholder({1, 8, 14, 14}), constant_placeholder({16, 8, 1, 1}));
  EXPECT_EQ(
      groups_text({ops::relu(ops::batch_norm(y, constant(), constant(), constant(), constant()))}),
      R"(batch_norm_factor (direct compute)
batch_norm_offset (direct compute)
relu with anchor conv2d (complex reduction); inlined batch_norm
)");
}

// Of a table, each element would be a look-up in the loop of the product.
TEST(PlanGroups, BitsOfConstantsAreUnpackedWhereAProductHasFewRows) {
  const Target cpu = Target::parse("llvm -mcpu=skylake-avx512"),
               gpu = Target::parse("cuda -gpu=h200");
  const Tensor bits = constant_placeholder({64, 128}, u8, "bits"),
               table = constant_placeholder({16}, f32, "table");
  const auto product = [&](int64_t rows, bool looked_up) {
    const Tensor w = compute(
        {64, 256},
        [&](Axis n, Axis k) {
          const Expr q = bitwise_and(
              shift_right(cast(i32, bits(n, floordiv(k, 2))), cast(i32, floormod(k, 2)) * 4), 15);
          return looked_up ? table(cast(i64, q)) : Expr(cast(f32, q - 8) * 0.5f);
        },
        "unpacked");
    return ops::matmul(placeholder({rows, 256}), w, false, true);
  };
  const std::string inside = "matmul (complex reduction); operands unpacked\n",
                    before = "unpacked (direct compute)\nmatmul (complex reduction)\n";
  EXPECT_EQ(groups_text({product(1, false)}, &cpu), inside);
  EXPECT_EQ(groups_text({product(4, false)}, &cpu), inside);
  EXPECT_EQ(groups_text({product(5, false)}, &cpu), before);
  EXPECT_EQ(groups_text({product(1, true)}, &cpu), before);
  EXPECT_EQ(groups_text({product(1, false)}, &gpu), inside);
  EXPECT_EQ(groups_text({product(2, false)}, &gpu), before);
}

TEST(PlanGroups, AViewOfConstantsIsReadInPlace) {
  Tensor w = ops::transpose(constant_placeholder({32, 16}), {1, 0});
  EXPECT_EQ(groups_text({ops::matmul(placeholder({8, 16}), w)}),
            "matmul (complex reduction); operands transpose\n");
}

TEST(PlanGroups, ASoftmaxIsOneGroup) {
  EXPECT_EQ(groups_text({ops::softmax(placeholder({64, 128}))}),
            R"(softmax (direct compute); tunable softmax_max softmax_exp softmax_sum softmax_scale
)");
}

TEST(PlanGroups, ALayerNormIsOneGroup) {
  Tensor x = placeholder({64, 128});
  EXPECT_EQ(groups_text({ops::layer_norm(x, placeholder({128}), placeholder({128}))}),
            "layer_norm (direct compute); inlined layer_norm_variance; tunable "
            "layer_norm_mean_sum layer_norm_mean layer_norm_variance_sum layer_norm_inverse\n");
}

TEST(PlanGroups, TwoMatmulsInARowAreTwoGroups) {
  Tensor a = placeholder({64, 64}), b = placeholder({64, 64}), c = placeholder({64, 64});
  EXPECT_EQ(groups_text({ops::matmul(ops::relu(ops::matmul(a, b)), c)}),
            R"(matmul (complex reduction)
matmul (complex reduction); tunable relu
)");
}

TEST(PlanGroups, AProducerOfTwoContractionsIsMaterialised) {
  Tensor a = placeholder({64, 64}), b = placeholder({64, 64});
  Tensor e = ops::exp(a);
  EXPECT_EQ(groups_text({ops::matmul(e, b), ops::matmul(b, e)}), R"(exp (direct compute)
matmul (complex reduction)
matmul (complex reduction)
)");
}

TEST(PlanGroups, ACheapProducerOfTwoReadersIsInlinedIntoBoth) {
  Pair p;
  Tensor E = compute({8, 12}, [&](Axis i, Axis j) { return p.B(i, j) - 1.f; }, "E");
  EXPECT_EQ(groups_text({p.C, E}), R"(C (direct compute); inlined B
E (direct compute); inlined B
)");
}

// Each stage alone may be cheap to compute again. Together they are not.
TEST(PlanGroups, AChainOfCheapStagesThatManyReadIsStoredInTheEnd) {
  const Target cpu = Target::parse("llvm -mcpu=haswell -threads=1");
  const auto stored = [&](int stages, int readers) {
    Tensor x = placeholder({512, 512});
    for (int n = 0; n < stages; ++n) {
      x = compute({512, 512}, [&](Axis i, Axis j) {
        return (((x(i, j) * 3.f + 1.f) * .5f - 2.f) * 1.5f + .5f) * 2.f;
      });
    }
    std::vector<Tensor> outputs;
    for (int r = 0; r < readers; ++r) {
      const auto offset = static_cast<float>(r);
      outputs.push_back(compute({512, 512}, [&](Axis i, Axis j) { return x(i, j) + offset; }));
    }
    return plan_groups(ComputeDag(outputs), &cpu).size() - outputs.size();
  };
  EXPECT_EQ(stored(1, 3), 0u);
  EXPECT_EQ(stored(1, 5), 1u);
  EXPECT_EQ(stored(10, 2), 0u) << "each is computed twice";
  EXPECT_EQ(stored(10, 3), 1u);
}

// Each row would compute all that lies between the two rows that it reads.
TEST(PlanGroups, AStageThatIsReadAtPlacesFarApartIsStored) {
  const Tensor plane = ops::tanh(ops::exp(placeholder({64, 32}))),
               line = ops::tanh(ops::exp(placeholder({512})));
  // Of so many elements that the stage is not inlined.
  const auto sum = [](auto element) {
    Expr all = element(0);
    for (int e = 1; e < 12; ++e) all = all + element(e);
    return all;
  };
  const auto groups = [&](int factor, int offset) {
    const Tensor y = compute({32, 20}, [&](Axis i, Axis j) {
      return sum([&](int e) { return plane(i, j + e) * plane(i * factor + offset, j + e); });
    });
    return plan_groups(ComputeDag({y})).size();
  };
  EXPECT_EQ(groups(1, 1), 1U);
  EXPECT_EQ(groups(-1, 31), 2U);
  EXPECT_EQ(groups(2, 0), 2U);
  EXPECT_EQ(groups(1, 8), 2U);
  const Tensor turned = compute(
      {500}, [&](Axis i) { return sum([&](int e) { return line(i + e) * line(511 - i - e); }); });
  EXPECT_EQ(plan_groups(ComputeDag({turned})).size(), 2U);
}

// Each row would compute the whole vector again; a number for each row is computed with its row.
TEST(PlanGroups, AVectorThatAllRowsReadIsStoredOnACpu) {
  const Target cpu = Target::parse("llvm -mcpu=skylake-avx512");
  const Tensor x = placeholder({2048, 4096}, f32, "x");
  const auto scaled = [&](const Tensor& by) { return ops::add(ops::mul(x, by), by); };
  EXPECT_EQ(groups_text({scaled(ops::exp(placeholder({4096}, f32, "v")))}, &cpu),
            R"(exp (direct compute)
add (direct compute); inlined mul
)");
  EXPECT_EQ(groups_text({scaled(ops::exp(placeholder({2048, 1}, f32, "r")))}, &cpu),
            R"(add (direct compute); inlined mul; tunable exp
)");
}

TEST(PlanGroups, TapsOfSamplesAreStoredForAllChannels) {
  const Target cpu = Target::parse("llvm -mcpu=skylake-avx512");
  const Tensor x = placeholder({2, 64, 56, 56}, f32, "x"),
               grid = placeholder({2, 56, 56, 2}, f32, "g");
  EXPECT_EQ(groups_text({ops::grid_sample(x, grid)}, &cpu), R"(grid_places (direct compute)
grid_places (direct compute)
grid_sample (direct compute); inlined grid_weights grid_weights
)");
}

TEST(PlanGroups, AnOutputThatIsReadIsAGroupOfItsOwn) {
  Pair p;
  EXPECT_EQ(groups_text({p.B, p.C}), R"(B (direct compute)
C (direct compute)
)");
}

TEST(PlanGroups, ATupleReductionIsOneGroup) {
  // The index is found in 32 bits, and widened where it is stored.
  EXPECT_EQ(groups_text({ops::argmax(placeholder({64, 128}))}),
            "argmax with anchor argmax (simple reduction)\n");
}

TEST(PlanGroups, TheyAreTheSameEveryTime) {
  auto build = [] { return groups_text({ops::softmax(placeholder({64, 128}))}); };
  EXPECT_EQ(build(), build());
}

TEST(PlanGroups, RowsOfAttentionGoThroughItsStagesTogetherOnACpu) {
  auto input = [](const char* name) { return placeholder({12, 128, 64}, f32, name); };
  Tensor scores_mask = placeholder({128, 128}, f32, "mask");
  const Tensor y =
      ops::scaled_dot_product_attention(input("q"), input("k"), input("v"), scores_mask);
  const ComputeDag dag({y});
  auto chains = [&](const Target* target) {
    std::string out;
    for (const StageGroup& g : plan_groups(dag, target)) {
      out += dag.stage(g.output_stage).name() + ":";
      for (int s : g.chain) out += " " + dag.stage(s).name();
      out += "\n";
    }
    return out;
  };
  Target cpu = Target::parse("llvm -mcpu=haswell");
  cpu.l2_bytes = 512 << 10;
  const char* whole =
      "attention: attention_scores softmax_max softmax_exp softmax_sum softmax_scale\n";
  EXPECT_EQ(chains(&cpu), whole);
  cpu.l2_bytes = 8 << 20;  // holds all scores
  EXPECT_EQ(chains(&cpu), whole);
  const Target gpu = Target::parse("cuda -gpu=a100");
  for (const Target* other : {static_cast<const Target*>(nullptr), &gpu})
    EXPECT_EQ(chains(other).find(": "), std::string::npos) << chains(other);
}

TEST(PlanGroups, AMaskOfSeveralAttentionsIsStoredOnACpu) {
  const Tensor m = placeholder({128}, f32, "m");
  const Tensor mask = compute({128, 128}, [&](Axis i, Axis j) { return m(i) * m(j); }, "mask");
  const auto attention = [&] {
    const Tensor q = placeholder({4, 128, 32}), k = placeholder({4, 128, 32}),
                 v = placeholder({4, 128, 32});
    return ops::matmul(ops::softmax(ops::add(ops::matmul(q, k, false, true), mask)), v);
  };
  const Target cpu = Target::parse("llvm -mcpu=haswell -threads=2");
  const auto stored = [&](const std::vector<Tensor>& outputs) {
    const ComputeDag dag(outputs);
    const std::vector<StageGroup> groups = plan_groups(dag, &cpu);
    return std::any_of(groups.begin(), groups.end(), [&](const StageGroup& g) {
      return dag.stage(g.output_stage).name() == "mask";
    });
  };
  EXPECT_FALSE(stored({attention()}));
  EXPECT_TRUE(stored({attention(), attention()}));
}

TEST(PlanGroups, ProductsInARowAreAChainWhereTheirRowsLeaveTheCacheOrWhereItIsPossible) {
  auto chains = [&](int64_t l2_bytes, Chains which, int cores, int64_t depth = 64) {
    const Tensor x = placeholder({256, depth}), w = placeholder({depth, 96});
    const ComputeDag dag({ops::matmul(ops::relu(ops::matmul(x, w)), placeholder({96, 64}))});
    Target cpu = Target::parse("llvm -mcpu=haswell");
    cpu.l2_bytes = l2_bytes;
    cpu.cores = cores;
    std::string out;
    for (const StageGroup& g : plan_groups(dag, &cpu, which)) {
      for (const StageGroup::Part& part : g.products)
        out += dag.stage(part.product).name() + ".." + dag.stage(part.last).name();
    }
    return out;
  };
  EXPECT_EQ(chains(1 << 20, Chains::Expected, 2), "");
  EXPECT_EQ(chains(48 << 10, Chains::Expected, 2), "matmul..relu");  // weights, half of the rows
  EXPECT_EQ(chains(1 << 20, Chains::Possible, 2), "matmul..relu");
  EXPECT_EQ(chains(1 << 20, Chains::Possible, 64), "");  // too few rows for the threads
  EXPECT_EQ(chains(64 << 10, Chains::Possible, 2, 512), "matmul..relu");
  EXPECT_EQ(chains(32 << 10, Chains::Possible, 2, 512), "");  // weights of seven times L2
}

/// The products computed in blocks of others, and the last stages after them, for each group.
std::string images_text(const Tensor& y) {
  const Target cpu = Target::parse("llvm -mcpu=haswell");
  const ComputeDag dag({y});
  std::string out;
  for (const StageGroup& g : plan_groups(dag, &cpu)) {
    if (g.images.empty()) continue;
    out += dag.stage(g.anchor).name() + ":";
    for (const StageGroup::Part& part : g.images)
      out += " " + dag.stage(part.product).name() + ".." + dag.stage(part.last).name();
    out += "\n";
  }
  return out;
}

Tensor filters(Shape shape) { return constant_placeholder(std::move(shape), f32, "filters"); }

TEST(PlanGroups, ImagesBetweenPointwiseAndDepthwiseConvolutionsStayInBlocks) {
  const ops::Conv plain{.layout = ops::NHWC}, padded{.padding = {1}, .layout = ops::NHWC};
  const Tensor x = placeholder({1, 14, 14, 8}, f32, "x");
  const Tensor wide = ops::relu(ops::conv2d(x, filters({1, 1, 8, 32}), plain));
  const Tensor inner = ops::silu(ops::depthwise_conv2d(wide, filters({3, 3, 1, 32}), padded));
  EXPECT_EQ(images_text(inner), "depthwise_conv2d: conv2d..relu\n");
  EXPECT_EQ(images_text(ops::conv2d(inner, filters({1, 1, 32, 8}), plain)),
            "conv2d: depthwise_conv2d..silu conv2d..relu\n");
  // Each window of a dense convolution reads all channels of several rows.
  EXPECT_EQ(images_text(ops::conv2d(wide, filters({3, 3, 32, 8}), padded)), "");
  // An image that another stage reads too is stored.
  EXPECT_EQ(images_text(ops::add(wide, inner)), "");
}

}  // namespace
}  // namespace heddle::testing
