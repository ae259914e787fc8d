// Lesson 4: a meta-template of your own.
//
// The four meta-templates of Heddle know nothing that you cannot know: they are written against the
// public headers, and a fifth takes part as they do. A meta-template is two functions: `matches`
// says which groups of stages it takes, `build` writes their schedule, once, with knobs where there
// is something to decide. From then on its schedules are chosen, cached, tuned, recorded and
// checked like all others.
//
// Ours is for chains of element-wise operators with rows, such as
//
//   y[i, j] = gelu(x[i, j] + bias[j]) * scale[j] + residual[i, j]
//
// and hands bands of whole rows to the threads, so that bias and scale stay in L1:
//
//   parallel for bands { for rows of the band { for chunks { unrolled vectors } } }
//
// A plug-in would end with the line
//
//   HEDDLE_REGISTER_META_TEMPLATE({"row_bands", 10, matches, build_bands});
//
// and be linked in. Here we register by hand, to see the difference, and take it away at the end.
#include <heddle/heddle.h>
#include <heddle/ops/ops.h>
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "common/expect.h"

using namespace heddle;

namespace {

// Rows that end in a partial vector, so that the tails are seen to work too.
constexpr int kRows = 700, kCols = 1003;

// ---- The meta-template -------------------------------------------------------------------------

// Which groups it takes. `g.output stage` is the stage that is written to memory; `g.inlined` are
// those that are substituted into it. Look at access patterns, not at names: somebody else's
// operators should be welcome too.
bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (target.kind != "llvm" || g.attached || !g.tunable.empty()) return false;
  if (g.anchor != g.output_stage || g.anchor_class != StageClass::DirectCompute) return false;
  if (dag.stage(g.output_stage).axes().size() < 2) return false;
  std::vector<int> stages = g.inlined;
  stages.push_back(g.output_stage);
  return std::all_of(stages.begin(), stages.end(), [&](int s) {
    const std::vector<Access>& reads = dag.info(s).reads;
    return std::all_of(reads.begin(), reads.end(), [](const Access& a) {
      return a.pattern == AccessPattern::Elementwise || a.pattern == AccessPattern::Broadcast;
    });
  });
}

// How it writes their schedule. It runs once per declaration: the steps are recorded, not applied,
// and every knob stands for all of its values. The last argument of a knob is the reason for the
// value that is chosen when nobody tunes; `heddle explain` prints it.
void build_bands(TemplateBuilder& t, const StageGroup& g) {
  const Operation& op = t.dag().stage(g.output_stage);
  const int64_t lanes = t.target().vector_lanes(op.output(0).dtype().bytes());
  const int64_t registers = t.target().vector_registers;

  Param chunk = t.knob("chunk", {lanes, 2 * lanes, 4 * lanes, 8 * lanes}, 2 * lanes,
                       "two vectors hide the latency of exp and erf");
  Param band = t.split_knob("band", op.axes().front().extent(), 64, 8, "a few tens of KiB a task");
  Param threads = t.choice("threads", t.target().cores > 1, "bands are independent");
  // What a knob may be in the light of the others, of the shape, or of the machine.
  t.require(
      "the vectors of a chunk, with three temporaries each, must fit the registers",
      [=](const TemplateBuilder::Value& value) { return value(chunk) / lanes * 4 <= registers; });

  // The primitives return handles to the loops they make.
  StageRef s = t.stage(g.output_stage);
  std::vector<Loop> leading = s.all_axes();
  leading.pop_back();
  auto [bands, rows] = s.split(s.fuse(leading), band);
  (void)rows;  // stays a serial loop
  auto [chunks, in_chunk] = s.split(s.axis(-1), chunk);
  (void)chunks;
  auto [vectors, in_vector] = s.split(in_chunk, lanes);
  s.unroll(vectors);
  s.vectorize(in_vector);
  // Steps that are there for one value of a knob only.
  t.when(threads, 1, [&, outer = bands] { s.parallel(outer); });
  t.note("rows in bands: what is read by column stays near");
}

// ---- The declaration, and the same in C --------------------------------------------------------

struct Chain {
  Tensor x, bias, scale, residual, y;
  std::vector<Tensor> args() const { return {x, bias, scale, residual, y}; }
};

Chain declare_chain() {
  Chain c;
  c.x = placeholder({kRows, kCols}, f32, "x");
  c.bias = placeholder({kCols}, f32, "bias");
  c.scale = placeholder({kCols}, f32, "scale");
  c.residual = placeholder({kRows, kCols}, f32, "residual");
  c.y = ops::add(ops::mul(ops::gelu(ops::add(c.x, c.bias)), c.scale), c.residual);
  return c;
}

struct Arrays {
  NDArray x = NDArray::random({kRows, kCols}, f32, 1), bias = NDArray::random({kCols}, f32, 2),
          scale = NDArray::random({kCols}, f32, 3),
          residual = NDArray::random({kRows, kCols}, f32, 4),
          y = NDArray::zeros({kRows, kCols}, f32), expected = NDArray::zeros({kRows, kCols}, f32);

  void chain_in_c() const {
    const float *px = x.data<float>(), *pb = bias.data<float>(), *ps = scale.data<float>(),
                *pr = residual.data<float>();
    float* out = expected.data<float>();
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kCols; ++j) {
        const float v = px[i * kCols + j] + pb[j];
        const float gelu = 0.5F * v * (1.0F + std::erf(v / std::sqrt(2.0F)));
        out[i * kCols + j] = gelu * ps[j] + pr[i * kCols + j];
      }
    }
  }

  void run_and_check(const Kernel& kernel, const std::string& what) const {
    y.fill(-100);
    kernel(x, bias, scale, residual, y);
    const Difference difference = compare(y, expected, 1e-5, 1e-5);
    HEDDLE_EXPECT(difference.ok(), what + ": " + describe(difference, y));
  }
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

}  // namespace

int main() {
  const Chain chain = declare_chain();
  const ComputeDag dag({chain.y});
  const Target& host = Target::host();
  const Arrays arrays;
  arrays.chain_in_c();

  // ---- Before ----------------------------------------------------------------------------------
  std::printf("registered: %s\n", joined(meta_template_names()).c_str());
  const std::string before = make_template(dag, host).name();
  std::printf("the chain is taken by: %s\n\n", before.c_str());
  HEDDLE_EXPECT(before == "direct_compute", "a chain of element-wise operators is direct compute");
  const Kernel ours_not = build(create_schedule({chain.y}), chain.args(), {.name = before});
  arrays.run_and_check(ours_not, before);

  // ---- After -----------------------------------------------------------------------------------
  //
  // Of all that match, the highest priority wins; those of Heddle are at 0. Two matches of one
  // priority are an error rather than a matter of luck.
  register_meta_template({"row_bands", 10, matches, build_bands});
  std::printf("registered: %s\n", joined(meta_template_names()).c_str());
  const Template bands = make_template(dag, host);
  std::printf("the chain is taken by: %s\n", bands.name().c_str());
  HEDDLE_EXPECT(bands.name() == "row_bands", "the higher priority is chosen");
  std::cout << bands.to_text() << "\n";

  const Schedule schedule = create_schedule({chain.y});
  const Kernel kernel = build(schedule, chain.args(), {.name = "row_bands"});
  arrays.run_and_check(kernel, "row_bands");
  std::cout << schedule << "\n";

  // A group that `matches` declines goes to somebody else, here a reduction.
  const Tensor sums = ops::sum(chain.x, {1});
  HEDDLE_EXPECT(make_template(ComputeDag({sums}), host).name() == "simple_reduction",
                "a reduction is not for us");

  // ---- Every value must be right ---------------------------------------------------------------
  //
  // A tuner may pick any value of any knob, so each is built and checked once here. A config that
  // breaks a requirement is refused with its reason, before anything is compiled.
  int checked = 0, refused = 0;
  double best_s = 1e9;
  std::string best;
  for (size_t k = 0; k < bands.knobs().size(); ++k) {
    for (int64_t value : bands.knobs()[k].values) {
      Config config = bands.default_config();
      config.values[k] = value;
      if (!bands.why_invalid(config).empty()) {
        ++refused;
        continue;
      }
      const Kernel candidate = build(bands.instantiate(config), chain.args());
      arrays.run_and_check(candidate, bands.config_to_json(config).dump());
      ++checked;
      auto call = [&] {
        candidate(arrays.x, arrays.bias, arrays.scale, arrays.residual, arrays.y);
      };
      const double s = measure(call, 0.01).min_s;
      if (s < best_s) {
        best_s = s;
        best = bands.config_to_json(config).dump();
      }
    }
  }
  std::printf("%d configs are right, %d are refused; the fastest of them took %.3f ms:\n  %s\n",
              checked, refused, best_s * 1e3, best.c_str());
  Config odd = bands.default_config();
  odd.values[0] = 7;
  std::printf("a config is refused with a reason, such as: %s\n", bands.why_invalid(odd).c_str());
  HEDDLE_EXPECT(!bands.why_invalid(odd).empty(), "7 is no value of 'chunk'");

  // ---- Against the built-in one ----------------------------------------------------------------
  //
  // Options can force a meta-template by its name, whatever its priority. Here they are said to all
  // calls of a scope; make_template takes them as an argument, too.
  {
    const AutoSchedulerOptionsScope scope({.force_template = "direct_compute"});
    HEDDLE_EXPECT(make_template(dag, host).name() == "direct_compute", "the option is in force");
  }
  std::vector<double> theirs_s, bands_s, c_s;
  for (int round = 0; round < 5; ++round) {
    auto time = [&](const Kernel& k) {
      return measure([&] { k(arrays.x, arrays.bias, arrays.scale, arrays.residual, arrays.y); },
                     0.02)
          .median_s;
    };
    theirs_s.push_back(time(ours_not));
    bands_s.push_back(time(kernel));
    c_s.push_back(measure([&] { arrays.chain_in_c(); }, 0.02, 3).median_s);
  }
  for (std::vector<double>* s : {&theirs_s, &bands_s, &c_s}) std::sort(s->begin(), s->end());
  std::printf("\ndirect_compute %8.3f ms\nrow_bands      %8.3f ms\nloops in C     %8.3f ms\n",
              theirs_s[2] * 1e3, bands_s[2] * 1e3, c_s[2] * 1e3);

  // ---- And away --------------------------------------------------------------------------------
  //
  // A schedule is a list of steps and does not need the template that made it: what was written to
  // a file yesterday can be replayed today.
  const std::string written = schedule.to_json().dump();
  unregister_meta_template("row_bands");
  HEDDLE_EXPECT(make_template(dag, host).name() == "direct_compute", "ours is gone");
  const Schedule replayed = Schedule::from_json(Json::parse(written), dag);
  HEDDLE_EXPECT(replayed.steps().size() == schedule.steps().size(), "all steps are there");
  arrays.run_and_check(build(replayed, chain.args()), "the replayed schedule");
  std::printf("\nunregistered; its schedule still replays from %zu bytes of JSON\n",
              written.size());
  return 0;
}
