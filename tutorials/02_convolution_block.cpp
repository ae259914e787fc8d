// Lesson 2: a convolution block, and what Heddle thinks of it.
//
// Lesson 1 took the schedule on trust. Here we follow a declaration through the compiler: how its
// stages are classified and grouped, what the meta-template decides and why, and what loops come
// out. The command line prints the same for any operator:
//
//   build/bin/heddle explain conv2d:n=1,c=64,h=56,w=56,k=64,r=3,stride=1,pad=1 --show classes
//
// On the way: weights that never change, options for the scheduler, and where the time of a build
// goes. At the end the result is checked against the loops one would write in C.
#include <heddle/heddle.h>
#include <heddle/ops/ops.h>
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "common/expect.h"

using namespace heddle;

namespace {

constexpr int kChannels = 64, kSide = 56, kFilters = 64;

// The text of a kernel's loops without its length: of several statements in a row the first, and
// what does not fit a line cut off.
std::string skeleton(const std::string& loops) {
  std::istringstream in(loops);
  std::string out, line;
  int more = 0;
  auto flush = [&](const std::string& indent) {
    if (more > 0) out += indent + "... and " + std::to_string(more) + " more\n";
    more = 0;
  };
  bool after_statement = false;
  while (std::getline(in, line)) {
    const std::string indent = line.substr(0, line.find_first_not_of(' '));
    const bool statement = line.find(" = ") != std::string::npos;
    if (statement && after_statement) {
      ++more;
      continue;
    }
    flush(after_statement && !statement && line.find('}') != std::string::npos ? indent + "  "
                                                                               : indent);
    after_statement = statement;
    out += line.size() > 96 ? line.substr(0, 93) + "...\n" : line + "\n";
  }
  return out;
}

std::string names(const ComputeDag& dag, const std::vector<int>& stages) {
  std::string text;
  for (int s : stages) text += (text.empty() ? "" : ", ") + dag.stage(s).name();
  return text.empty() ? "-" : text;
}

// The block in C, for one image: y[k] = max(0, bias[k] + sum of w[k, c, r, s] * x[c, y+r-1,
// x+s-1]).
void block_in_c(const float* x, const float* w, const float* bias, float* y) {
  for (int k = 0; k < kFilters; ++k) {
    for (int row = 0; row < kSide; ++row) {
      for (int col = 0; col < kSide; ++col) {
        float total = bias[k];
        for (int c = 0; c < kChannels; ++c) {
          for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
              const int v = row + r - 1, u = col + s - 1;
              if (v < 0 || v >= kSide || u < 0 || u >= kSide) continue;
              total += x[(c * kSide + v) * kSide + u] * w[((k * kChannels + c) * 3 + r) * 3 + s];
            }
          }
        }
        y[(k * kSide + row) * kSide + col] = std::max(total, 0.0F);
      }
    }
  }
}

void heading(const char* text) { std::printf("\n---- %s\n\n", text); }

}  // namespace

int main() {
  // ---- The declaration -------------------------------------------------------------------------
  //
  // heddle::ops has the operators of the field, with PyTorch's and ONNX's names. They are functions
  // that call `compute`, and hold no schedule: conv2d declares a padded copy of x, the sum over
  // channels and window, and the addition of the bias. The weights are *constant* placeholders:
  // whatever can be computed from them alone is computed at the first call and kept.
  Tensor x = placeholder({1, kChannels, kSide, kSide}, f32, "x");
  Tensor w = constant_placeholder({kFilters, kChannels, 3, 3}, f32, "w");
  Tensor bias = constant_placeholder({kFilters}, f32, "bias");
  Tensor y = ops::relu(ops::conv2d(x, w, {.padding = {1}}, bias));

  // ---- The classes -----------------------------------------------------------------------------
  //
  // The compiler knows no "conv2d". It looks at who reads which element how often, and puts each
  // stage into one of four classes; the reason is a sentence.
  heading("the stages and their classes");
  const ComputeDag dag({y});
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).is_placeholder()) continue;
    std::printf("%-12s %s\n%12s   %s\n", dag.stage(s).name().c_str(),
                to_string(dag.info(s).stage_class), "", dag.info(s).reason.c_str());
  }

  // ---- The group -------------------------------------------------------------------------------
  //
  // Stages that go well together share one loop nest. The output stage is the stage that is written
  // to memory; the anchor is the reduction computed inside of it, a register tile at a time;
  // inlined stages disappear into their readers, and for the tunable ones a place is looked for.
  heading("the groups");
  const std::vector<StageGroup> groups = plan_groups(dag);
  for (const StageGroup& g : groups) {
    std::printf("output stage %s, anchor %s, inlined %s, tunable %s\n",
                dag.stage(g.output_stage).name().c_str(), dag.stage(g.anchor).name().c_str(),
                names(dag, g.inlined).c_str(), names(dag, g.tunable).c_str());
  }
  HEDDLE_EXPECT(groups.size() == 1, "padding, sum, bias and relu are one group");
  HEDDLE_EXPECT(groups[0].anchor_class == StageClass::ComplexReduction,
                "the sum is what decides: its operands are used again and again");

  // ---- The template ----------------------------------------------------------------------------
  //
  // The meta-template that takes a group (meta_templates/cpu/products/complex_reduction.cpp here) writes its
  // schedule once, with knobs in the places where a number or a choice is open. It also says which
  // value it would take on this machine, and why: that is the static choice, made without running
  // anything. A tuner searches the whole space.
  heading("the knobs: what was chosen, and why");
  const Target& host = Target::host();
  const Template on_host = make_template(dag, host);
  for (const std::string& note : on_host.notes()) std::printf("# %s\n", note.c_str());
  for (const Knob& k : on_host.knobs()) {
    std::printf("%-14s = %4s   of %2zu values: %s\n", k.name.c_str(),
                k.text_of(k.default_value).c_str(), k.values.size(), k.reason.c_str());
  }
  std::printf("%.0f schedules in all\n", on_host.space_size());

  // ---- The loops, before and after -------------------------------------------------------------
  //
  // naive_schedule leaves every stage as it is written, at the root, with the outer loops fused and
  // parallel. In create_schedule's loops, look for: the stages that are gone; the tile that is
  // `local`, of which every element has a place known when the kernel is compiled, so that it lives
  // in registers; the reduction loops inside of it and nothing but multiply-adds inside of those;
  // the bias and the max on the way out. The tail of a loop that a tile does not divide comes as a
  // second copy: nothing is tested inside. The second function packs w, once.
  heading("loops of the naive schedule");
  const std::vector<Tensor> args{x, w, bias, y};
  const Kernel naive = build(naive_schedule({y}), args, {.name = "naive"});
  std::cout << skeleton(naive.source("loops"));

  heading("loops of create_schedule");
  Timer timer;
  const Schedule schedule = create_schedule({y});
  const double schedule_ms = timer.elapsed_s() * 1e3;
  const auto [kernel, times] = build_timed(schedule, args, {.name = "conv_block"});
  std::cout << skeleton(kernel.source("loops"));

  // ---- Where the time of a build goes ----------------------------------------------------------
  //
  // Scheduling is a look into a table here: the template of this structure was made above.
  heading("time of the build, ms");
  std::printf("create_schedule %.2f (its template was cached)\nbuild %.1f:", schedule_ms,
              times.total);
  std::printf(" lowering %.2f, LLVM IR %.1f, optimising %.1f, machine code %.1f, linking %.1f\n",
              times.lower, times.llvm_ir, times.optimize, times.codegen, times.link);
  std::printf("passes of lowering:");
  for (const PassRecord& pass : times.passes) std::printf(" %s %.2f", pass.name.c_str(), pass.ms);
  std::printf("\n");

  // ---- Options ---------------------------------------------------------------------------------
  //
  // What the rules believe of the machine can be overruled. Vectors of 16 bytes and one thread, for
  // example, give another tile and no parallel loops. Templates and schedules hold the target and
  // the options that they were made with, and build() takes them from there.
  heading("other choices with 16-byte vectors and one thread");
  const AutoSchedulerOptions options{.vector_bytes = 16, .threads = 1};
  const Template limited = make_template(dag, host, options);
  HEDDLE_EXPECT(limited.target().vector_bytes == 16 && limited.target().cores == 1,
                "the options are in force");
  for (const Knob& k : limited.knobs()) {
    const int there = on_host.knob_index(k.name);
    if (there < 0 || on_host.knobs()[there].default_value == k.default_value) continue;
    std::printf("%-14s = %4s   instead of %s\n", k.name.c_str(), k.text_of(k.default_value).c_str(),
                k.text_of(on_host.knobs()[there].default_value).c_str());
  }
  const Schedule narrow = create_schedule({y}, host, options);
  const Kernel narrow_kernel = build(narrow, args, {.name = "narrow"});

  // ---- Right? ----------------------------------------------------------------------------------
  heading("results");
  const NDArray in = NDArray::random({1, kChannels, kSide, kSide}, f32, 1);
  const NDArray weights = NDArray::random({kFilters, kChannels, 3, 3}, f32, 2);
  const NDArray biases = NDArray::random({kFilters}, f32, 3);
  const NDArray out = NDArray::zeros({1, kFilters, kSide, kSide}, f32), expected = out.copy();
  block_in_c(in.data<float>(), weights.data<float>(), biases.data<float>(), expected.data<float>());
  for (const Kernel* k : {&naive, &kernel, &narrow_kernel}) {
    out.fill(-1);
    (*k)(in, weights, biases, out);
    const Difference difference = compare(out, expected, 1e-5, 1e-4);
    HEDDLE_EXPECT(difference.ok(), k->name() + ": " + describe(difference, out));
    std::printf("%-12s agrees with the loops in C (largest difference %.1e)\n", k->name().c_str(),
                difference.max_abs);
  }

  // Constants are read at the first call. Who changes them in place has to say so.
  weights.fill(0);
  kernel.refresh();
  kernel(in, weights, biases, out);
  HEDDLE_EXPECT(out.at<float>({0, 0, 9, 9}) == std::max(biases.at<float>({0}), 0.0F),
                "after refresh() the new weights count");

  // ---- Fast? -----------------------------------------------------------------------------------
  //
  // In turn, so that a busy moment of the machine hits all of them.
  const std::vector<const Kernel*> kernels{&naive, &narrow_kernel, &kernel};
  std::vector<std::vector<double>> seconds(kernels.size());
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      auto call = [&] { (*kernels[i])(in, weights, biases, out); };
      seconds[i].push_back(measure(call, 0.05, i == 0 ? 2 : 100).median_s);
    }
  }
  std::printf("\n");
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::sort(seconds[i].begin(), seconds[i].end());
    std::printf("%-12s %8.2f ms  %7.1f GFLOP/s\n", kernels[i]->name().c_str(), seconds[i][1] * 1e3,
                dag.total_flops() / seconds[i][1] / 1e9);
  }
  return 0;
}
