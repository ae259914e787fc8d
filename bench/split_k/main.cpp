// Shows which products of few results and a long sum gain from cutting the sum, and what the static
// choice does. It runs 60 shapes: with the static choice, as declared, with the uncut sum, and with
// every number of parts that the rule split_k offers for this machine.
//
//   split_k_sweep --threads 2                    all 60
//   split_k_sweep --threads 2 32x32x28672        M x N x K
//
// All forms of a shape run in turns (peers/interleave.h). The figures are ratios of medians.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "heddle/dag/alternatives.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "peers/interleave.h"
#include "subjects/subjects.h"
#include "support/table.h"

namespace {

using namespace heddle;

struct Options {
  std::vector<std::string> shapes;
  int threads = 2, rounds = 15;
  double most_loss = 0.03;  ///< of the static choice against the form as declared
};

std::vector<std::string> sixty_shapes() {
  std::vector<std::string> out;
  for (const char* results : {"8x8", "16x16", "32x32", "64x64", "128x128", "256x256", "16x256",
                              "256x16", "4x64", "64x4", "33x65", "24x100"}) {
    for (const char* depth : {"2048", "6000", "16384", "28672", "65536"})
      out.push_back(std::string(results) + "x" + depth);
  }
  return out;
}

struct Form {
  std::string name;
  Kernel kernel;
};

/// The forms: the static choice, the declaration as it is, the uncut sum, and each number of parts.
std::vector<Form> forms_of(const cli::Problem& problem, const Target& target) {
  const ComputeDag dag(problem.outputs);
  const Template chosen = make_static_template(dag, target, {}),
                 direct = make_template(dag, target);
  const auto built = [&](const Template& t, const Config& c) {
    return build(t.instantiate(c), problem.args());
  };
  std::vector<Form> forms;
  forms.push_back({chosen.dag().alternative(), built(chosen, chosen.default_config())});
  forms.push_back({"direct", built(direct, direct.default_config())});
  Config whole = direct.default_config();
  if (const int knob = direct.knob_index("reduction"); knob >= 0)
    whole.values[static_cast<size_t>(knob)] = 0;
  if (!direct.why_invalid(whole).empty()) whole = direct.default_config();
  forms.push_back({"whole", built(direct, whole)});
  for (const Alternative& a : alternatives_of(dag, target, {})) {
    if (!a.name.starts_with("split_k") || !a.legal()) continue;
    const Template t = make_template(apply_alternative(dag, a.name), target);
    forms.push_back({a.name.substr(0, a.name.find('@')), built(t, t.default_config())});
  }
  return forms;
}

std::vector<double> seconds_of(const cli::Problem& problem, const std::vector<Form>& forms,
                               const Options& o) {
  std::vector<NDArray> arrays = problem.make_inputs();
  for (NDArray& a : problem.make_outputs()) arrays.push_back(a);
  const ScopedThreads threads(o.threads);
  std::vector<peers::TimedCase> cases;
  for (const Form& f : forms) cases.push_back({"", [&] { f.kernel.call(arrays); }});
  peers::InterleaveOptions timing;
  timing.min_rounds = timing.max_rounds = o.rounds;
  std::vector<double> out;
  for (const peers::CaseTimes& t : peers::time_interleaved(cases, timing))
    out.push_back(t.median_seconds);
  return out;
}

int run(Options o) {
  if (o.shapes.empty()) o.shapes = sixty_shapes();
  Target target = Target::host();
  target.cores = o.threads;
  Table table({"M x N x K", "in one go, ms", "as declared", "static choice", "which", "best parts",
               "which"});
  table.align_left(4);
  table.align_left(6);
  int chosen = 0, losses = 0;
  double worst = 1, logs = 0;
  for (const std::string& shape : o.shapes) {
    const cli::Problem problem = cli::make_problem("matmul:" + shape, f32);
    const std::vector<Form> forms = forms_of(problem, target);
    const std::vector<double> s = seconds_of(problem, forms, o);
    const auto best = std::min_element(s.begin() + 3, s.end()) - s.begin();
    const bool parts = best < std::ssize(s);
    const auto gain = [&](double seconds) { return format_fixed(s[2] / seconds, 2) + "x"; };
    table.add_row({shape, format_fixed(s[2] * 1e3, 4), gain(s[1]), gain(s[0]),
                   forms[0].name.empty() ? "as declared" : forms[0].name,
                   parts ? gain(s[static_cast<size_t>(best)]) : "-",
                   parts ? forms[static_cast<size_t>(best)].name : ""});
    if (forms[0].name.empty()) continue;
    ++chosen;
    const double against = s[1] / s[0];
    logs += std::log(against);
    worst = std::min(worst, against);
    losses += against < 1 - o.most_loss;
  }
  std::printf("%s", table.to_string().c_str());
  std::printf("Gains are over the sum in one go. A rewrite was chosen for %d of %zu shapes", chosen,
              o.shapes.size());
  if (chosen > 0)
    std::printf(
        ": %.2fx of the declaration in geometric mean, %.2fx at worst, %d lose over %.0f %%",
        std::exp(logs / chosen), worst, losses, 100 * o.most_loss);
  std::printf(".\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Long sums of few results, in one go and in parts"};
  app.add_option("shapes", o.shapes, "M x N x K, as 32x32x28672 (default: sixty of them)");
  app.add_option("--threads", o.threads, "Of the kernels (2)")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", o.rounds, "Of each race (15)")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(std::move(o));
  } catch (const Error& e) {
    std::fprintf(stderr, "split_k_sweep: %s\n", e.what());
    return 2;
  }
}
