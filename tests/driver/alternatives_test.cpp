// Rewritten graphs, compiled and called with the arguments of the declaration, against its
// interpretation.
#include "heddle/dag/alternatives.h"

#include "driver/build_cuda.h"
#include "driver/driver_testing.h"
#include "driver/tolerance.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/records/database.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

AutoSchedulerOptions no_records() {
  AutoSchedulerOptions o;
  o.use_records = false;
  return o;
}

int reduction_of(const ComputeDag& dag) {
  for (int s = dag.size() - 1; s >= 0; --s) {
    if (dag.stage(s).is_reduction()) return s;
  }
  return -1;
}

std::string named(const ComputeDag& dag, const std::string& rule) {
  return rule + "@" + std::to_string(reduction_of(dag));
}

/// The largest error of schedule `s` over the tolerance that results are checked with; 1e9 where it
/// writes other things than its outputs.
double error_of(const ComputeDag& dag, const Schedule& s, const std::vector<Tensor>& outputs) {
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), outputs.begin(), outputs.end());
  Kernel kernel = build(s, args);
  std::vector<NDArray> arrays = call_arrays(dag);
  kernel.call(arrays);
  const std::vector<NDArray> want = wanted(dag, arrays);
  double worst = 0;
  for (size_t o = 0; o < want.size(); ++o) {
    const driver::Tolerance t = driver::rounding_tolerance(dag, want[o]);
    const NDArray& got = arrays[arrays.size() - want.size() + o];
    for (int64_t i = 0; i < want[o].size(); ++i) {
      const double by = std::abs(got.get(i) - want[o].get(i));
      worst = std::max(worst, by / (t.atol + t.rtol * std::abs(want[o].get(i))));
    }
  }
  return worst;
}

Schedule static_schedule(const ComputeDag& dag, const std::string& name) {
  const Template t = make_template(apply_alternative(dag, name), Target::host());
  return t.instantiate(t.default_config());
}

struct Case {
  int64_t n, h, w, c, k, pad;
  ops::Layout layout;
  DataType type = f32;
};

Tensor conv_of(const Case& c, bool epilogue) {
  ops::Conv at;
  at.padding = {c.pad};
  at.layout = c.layout;
  const bool last = c.layout == ops::NHWC;
  Tensor x = placeholder(last ? Shape{c.n, c.h, c.w, c.c} : Shape{c.n, c.c, c.h, c.w}, c.type, "x");
  Tensor w = constant_placeholder(last ? Shape{3, 3, c.c, c.k} : Shape{c.k, c.c, 3, 3}, c.type);
  if (!epilogue) return ops::conv2d(x, w, at);
  return ops::relu(ops::conv2d(x, w, at, placeholder({c.k}, c.type, "b")));
}

// Odd sizes, edges that no tile divides, channels that fill no vector, one pixel, batches, paddings
// on one side or larger than the filter, both layouts, with and without an epilogue.
TEST(Winograd, StaysWithinTheToleranceOfTheDirectForm) {
  for (const Case& c : std::vector<Case>{{1, 8, 8, 8, 16, 1, ops::NHWC},
                                         {2, 9, 13, 7, 5, 1, ops::NHWC},
                                         {1, 7, 7, 33, 17, 0, ops::NHWC},
                                         {1, 3, 3, 4, 8, 0, ops::NHWC},
                                         {3, 5, 6, 1, 1, 3, ops::NHWC},
                                         {1, 12, 4, 20, 9, 2, ops::NHWC},
                                         {1, 9, 13, 7, 5, 1, ops::NCHW},
                                         {2, 8, 6, 16, 8, 0, ops::NCHW},
                                         {1, 9, 10, 8, 8, 1, ops::NHWC, f64},
                                         {1, 9, 10, 8, 8, 1, ops::NHWC, bf16}}) {
    for (const char* rule : {"winograd(tile=2)", "winograd(tile=4)"}) {
      const bool epilogue = c.h % 2 == 1;
      const Tensor y = conv_of(c, epilogue);
      const ComputeDag dag({y});
      const double error = error_of(dag, static_schedule(dag, named(dag, rule)), {y});
      EXPECT_LT(error, 1) << rule << " of " << c.n << "x" << c.h << "x" << c.w << "x" << c.c;
    }
  }
}

/// A convolution of an image [1, C, 9, 10, c] into [1, K, 7, 8, k]; without blocks of the image, or
/// of the results, the last dimension is not there.
Tensor blocked_conv(int64_t blocks, int64_t c_block, int64_t k_block) {
  const auto shape = [](Shape outer, int64_t block) {
    if (block > 1) outer.emplace_back(block);
    return outer;
  };
  const Tensor x = placeholder(shape({1, blocks, 9, 10}, c_block), f32, "x");
  const Tensor w =
      constant_placeholder(shape(shape({blocks, blocks, 3, 3}, c_block), k_block), f32, "w");
  return compute(shape({1, blocks, 7, 8}, k_block), [&](const std::vector<Axis>& i) {
    const Axis co = reduce_axis(blocks, "co"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s"),
               ci = reduce_axis(c_block, "ci");
    std::vector<Expr> image{i[0], co, i[2] + r, i[3] + s}, weight{i[1], co, r, s};
    std::vector<Axis> over{co, r, s};
    if (c_block > 1) {
      over.push_back(ci);
      image.push_back(ci);
      weight.push_back(ci);
    }
    if (k_block > 1) weight.push_back(i[4]);
    return sum(x.at(image) * w.at(weight), over);
  });
}

TEST(Winograd, CountsTheChannelsOfAllBlocks) {
  for (const auto& [c_block, k_block] : {std::pair{16, 16}, {8, 4}, {16, 1}, {1, 16}}) {
    const Tensor y = blocked_conv(3, c_block, k_block);
    const ComputeDag dag({y});
    for (const char* rule : {"winograd(tile=2)", "winograd(tile=4)"}) {
      EXPECT_LT(error_of(dag, static_schedule(dag, named(dag, rule)), {y}), 1)
          << rule << " of blocks of " << c_block << " into blocks of " << k_block;
    }
  }
}

// What the rule says of its errors is what they are, as measured over many channels: the default
// policy rests on it.
TEST(Winograd, ItsErrorsGrowAsTheRuleSays) {
  const Tensor y = conv_of({1, 12, 12, 64, 16, 1, ops::NHWC}, false);
  const ComputeDag dag({y});
  const Template direct = make_template(dag, Target::host());
  const double base = error_of(dag, direct.instantiate(direct.default_config()), {y});
  for (const char* rule : {"winograd(tile=2)", "winograd(tile=4)"}) {
    const std::string name = named(dag, rule);
    const double error = error_of(dag, static_schedule(dag, name), {y});
    EXPECT_LT(error, 0.5) << "within half of the tolerance";
    EXPECT_LT(error, 2 * alternative_error_growth(dag, name) * base) << rule;
  }
}

// The kernel takes and gives arrays of the shapes that were declared.
TEST(Collapse, IsCalledWithTheArraysOfTheDeclaration) {
  for (const ops::Layout layout : {ops::NHWC, ops::NCHW}) {
    ops::Conv at;
    at.layout = layout;
    const bool last = layout == ops::NHWC;
    const Tensor x = placeholder(last ? Shape{2, 5, 7, 12} : Shape{2, 12, 5, 7}, f32, "x"),
                 w = constant_placeholder(last ? Shape{1, 1, 12, 20} : Shape{20, 12, 1, 1}, f32,
                                          "w");
    const Tensor y = ops::relu(ops::conv2d(x, w, at, placeholder({20}, f32, "b")));
    const ComputeDag dag({y});
    const Schedule s = static_schedule(dag, named(dag, "collapse"));
    EXPECT_LT(error_of(dag, s, {y}), 1);
    std::vector<Tensor> args = dag.placeholders();
    args.push_back(y);
    const Kernel kernel = build(s, args);
    const Template gpu = make_template(s.dag(), Target::parse("cuda -gpu=a100"));
    const KernelCode code = driver::cuda_kernel_code(
        lower_gpu(gpu.instantiate(gpu.default_config()), args), args, args.size(), cuda::Cubin());
    for (size_t i = 0; i < args.size(); ++i) {
      EXPECT_EQ(kernel.args()[i].shape, args[i].extents()) << args[i].name();
      EXPECT_EQ(code.args[i].shape, args[i].extents()) << args[i].name();
    }
  }
}

TEST(Alternatives, EveryConfigOfTheirTemplatesIsRight) {
  const Tensor y = conv_of({1, 9, 10, 12, 20, 1, ops::NHWC}, true);
  const ComputeDag dag({y});
  Target target = Target::host();
  target.cores = 2;
  const Template all = make_template_of_alternatives(dag, target);
  ASSERT_GE(all.num_branches(), 3);
  Rng rng(7);
  for (int b = 0; b < all.num_branches(); ++b) {
    for (int i = 0, drawn = 0; i < 300 && drawn < 6; ++i) {
      Config own;
      for (const Knob& k : all.branch(b).knobs()) own.values.push_back(rng.choose(k.values));
      const Config c = all.config_of_branch(b, own);
      if (!all.why_invalid(c).empty()) continue;
      ++drawn;
      EXPECT_EQ(all.config_in_branch(c), own);
      EXPECT_EQ(all.config_from_json(all.config_to_json(c)).values[0], b);
      EXPECT_LT(error_of(dag, all.instantiate(c), {y}), 1) << all.config_to_json(c).dump();
    }
  }
}

TEST(Alternatives, SplitKIsRight) {
  for (const char* rule : {"split_k(parts=4)", "split_k(parts=16)"}) {
    const Tensor y = ops::relu(ops::matmul(placeholder({5, 1024}), placeholder({1024, 19})));
    const ComputeDag dag({y});
    EXPECT_LT(error_of(dag, static_schedule(dag, named(dag, rule)), {y}), 1) << rule;
  }
}

TEST(Alternatives, SeveralConvolutionsInOneGraph) {
  ops::Conv same;
  same.padding = {1};
  same.layout = ops::NHWC;
  Tensor x = placeholder({1, 9, 9, 8}, f32, "x"), w = constant_placeholder({3, 3, 8, 8}, f32, "w");
  Tensor inner = ops::relu(ops::conv2d(x, w, same));
  Tensor y = ops::relu(ops::add(ops::conv2d(inner, w, same), x));
  const ComputeDag dag({y, inner});
  int joined = 0;
  for (const Alternative& a : alternatives_of(dag, Target::host(), {})) {
    if (!a.legal()) continue;
    EXPECT_LT(error_of(dag, static_schedule(dag, a.name), {y, inner}), 1) << a.name;
    joined += a.name.find('+') != std::string::npos;
  }
  EXPECT_EQ(joined, 3) << "winograd with two tiles, implicit_gemm";
}

// The weights' transform runs once, in prepare().
TEST(Winograd, TransformsConstantWeightsOnce) {
  const Tensor y = conv_of({1, 8, 8, 8, 16, 1, ops::NHWC}, false);
  const ComputeDag dag({y});
  const LoweredProgram p = lower(static_schedule(dag, named(dag, "winograd(tile=4)")),
                                 {dag.placeholders()[0], dag.placeholders()[1], y});
  EXPECT_FALSE(p.persistent.empty());
  EXPECT_TRUE(p.prepare.body);
}

TEST(Alternatives, TheStaticChoiceFollowsTheOptions) {
  const Tensor y = conv_of({1, 28, 28, 32, 32, 1, ops::NHWC}, false);
  const auto chosen = [&](AutoSchedulerOptions o) {
    const AutoSchedulerOptionsScope scope(std::move(o));
    const Schedule s = create_schedule({y});
    EXPECT_EQ(s.provenance.find("alternative") != std::string::npos,
              !s.dag().alternative().empty());
    return s.dag().alternative();
  };
  EXPECT_TRUE(chosen(no_records()).starts_with("winograd(tile=4)"));
  AutoSchedulerOptions off = no_records(), exact = no_records(), careful = no_records();
  off.use_alternatives = false;
  exact.max_error_growth = 1;
  careful.max_error_growth = 2;
  EXPECT_EQ(chosen(off), "");
  EXPECT_EQ(chosen(exact), "");
  EXPECT_TRUE(chosen(careful).starts_with("winograd(tile=2)"));
  AutoSchedulerOptions wrong;
  wrong.max_error_growth = 0.5;
  EXPECT_THROW(AutoSchedulerOptionsScope scope(wrong), Error);
}

TEST(Alternatives, SchedulesAndRecordsRoundTrip) {
  const Tensor y = conv_of({1, 9, 9, 16, 16, 1, ops::NHWC}, true);
  const ComputeDag dag({y});
  const Template all = make_template_of_alternatives(dag, Target::host());
  const int b = all.find_branch(named(dag, "winograd(tile=2)"));
  ASSERT_GT(b, 0);
  const Config config = all.config_of_branch(b, all.branch(b).default_config());
  const Schedule s = all.instantiate(config);

  const Schedule again = Schedule::from_json(s.to_json(), dag);
  EXPECT_EQ(again.dag().alternative(), s.dag().alternative());
  EXPECT_EQ(again.to_json().dump(), s.to_json().dump());
  EXPECT_LT(error_of(dag, again, {y}), 1);

  Record r = make_record("conv", all, config);
  r.seconds = {1e-3};
  EXPECT_EQ(r.alternative, s.dag().alternative());
  EXPECT_EQ(r.structural_hash, dag.structural_hash()) << "of the declaration";
  EXPECT_EQ(r.flops, dag.total_flops());
  const Record read = Record::from_json(Json::parse(r.to_json().dump()));
  EXPECT_EQ(read.alternative, r.alternative);
  for (const uint64_t version : {read.template_version, uint64_t{1}}) {  // by config, by steps
    Record other = read;
    other.template_version = version;
    const Schedule found = schedule_of(other, dag, Target::host());
    EXPECT_EQ(found.dag().alternative(), r.alternative);
    EXPECT_LT(error_of(dag, found, {y}), 1);
  }
  Record unknown = read;
  unknown.alternative = "vinograd(tile=2)@3";
  unknown.steps["alternative"] = unknown.alternative;
  EXPECT_THROW(schedule_of(unknown, dag, Target::host()), Error);
}

}  // namespace
}  // namespace heddle::testing
