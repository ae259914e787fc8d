// Measures the effect of another value of a knob on the static choice for many subjects, as
// evidence for the rules of the meta-templates.
//
//   knob_effect --set unroll_k=4 --set tile_rows=6,tile_cols=16 matmul:512x512x512 conv2d:c=64,...
//   knob_effect --alternative direct --alternative 'winograd(tile=4)@3' conv2d:c=64,...
//
// Each --set is a variant of the static config, each --alternative the static config of that
// rewrite of the graph. All variants of a subject and the static one are
// run in turns as `heddle bench` runs its peers (peers/interleave.h); the ratio is of medians.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

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
  std::vector<std::string> subjects, sets, alternatives;
  DataType dtype = f32;
  int threads = 1, rounds = 15;
};

struct Setting {
  std::string knob, value;
};

std::vector<Setting> parse(const std::string& text) {
  std::vector<Setting> out;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const size_t at = part.find('=');
    if (at == std::string::npos) {
      throw_user_error("'" + part + "' sets no knob", {}, "write knob=value, such as unroll_k=4");
    }
    out.push_back({part.substr(0, at), part.substr(at + 1)});
  }
  return out;
}

// The static config with the named knobs (of every group: "g2.unroll_k" too) set to the nearest of
// their values; nullopt where that changes nothing or is not legal.
std::optional<Config> changed(const Template& t, const std::vector<Setting>& settings) {
  Config config = t.default_config();
  for (size_t i = 0; i < t.knobs().size(); ++i) {
    const Knob& knob = t.knobs()[i];
    for (const Setting& s : settings) {
      if (knob.name != s.knob && !knob.name.ends_with("." + s.knob)) continue;
      const std::optional<int64_t> wanted = knob.parse(s.value);
      if (!wanted) {
        throw_user_error("'" + s.value + "' is no value of the knob '" + knob.name + "'", {},
                         "`heddle explain SUBJECT --show space` lists the values");
      }
      config.values[i] = *std::min_element(
          knob.values.begin(), knob.values.end(),
          [&](int64_t a, int64_t b) { return std::abs(a - *wanted) < std::abs(b - *wanted); });
    }
  }
  if (config == t.default_config() || !t.why_invalid(config).empty()) return std::nullopt;
  return config;
}

/// Seconds of the static choice, then of each variant; NaN where a variant does not apply.
std::vector<double> race(const std::string& subject, const Options& o) {
  const cli::Problem problem = cli::make_problem(subject, o.dtype);
  Target target = Target::host();
  target.cores = o.threads;
  const ComputeDag dag(problem.outputs);
  auto built = [&](const Template& t, const Config& config) {
    return build(t.instantiate(config), problem.args());
  };
  auto rewritten = [&](const std::string& name) {
    return make_template(apply_alternative(dag, name), target);
  };
  const Template t = make_static_template(dag, target, {});
  std::vector<std::optional<Kernel>> variants{built(t, t.default_config())};
  // A variant is skipped where the subject has no such knob or rewrite, or where it is not legal.
  auto add = [&](auto&& variant) {
    variants.emplace_back();
    try {
      variants.back() = variant();
    } catch (const Error&) {
    }
  };
  for (const std::string& set : o.sets) {
    const std::optional<Config> config = changed(t, parse(set));
    add([&]() -> std::optional<Kernel> {
      return config ? std::optional(built(t, *config)) : std::nullopt;
    });
  }
  for (const std::string& name : o.alternatives) {
    add([&] {
      const Template other = rewritten(name == "direct" ? "" : name);
      return built(other, other.default_config());
    });
  }
  std::vector<NDArray> arrays = problem.make_inputs();
  for (NDArray& a : problem.make_outputs()) arrays.push_back(a);
  const ScopedThreads threads(o.threads);
  std::vector<peers::TimedCase> cases;
  for (const std::optional<Kernel>& v : variants) {
    if (v) cases.push_back({"", [&] { v->call(arrays); }});
  }
  peers::InterleaveOptions timing;
  timing.min_rounds = timing.max_rounds = o.rounds;
  const std::vector<peers::CaseTimes> times = peers::time_interleaved(cases, timing);
  std::vector<double> out;
  size_t timed = 0;
  for (const std::optional<Kernel>& v : variants)
    out.push_back(v ? times[timed++].median_seconds : std::nan(""));
  return out;
}

int run(const Options& o) {
  for (const std::string& set : o.sets)
    parse(set);  // reports errors of syntax before anything runs
  std::vector<std::string> names = o.sets, heading{"subject", "static ms"};
  names.insert(names.end(), o.alternatives.begin(), o.alternatives.end());
  heading.insert(heading.end(), names.begin(), names.end());
  Table table(heading);
  table.align_left(0);
  std::vector<double> logs(names.size()), counts(names.size());
  for (const std::string& subject : o.subjects) {
    const std::vector<double> seconds = race(subject, o);
    std::vector<std::string> row{subject, format_fixed(seconds[0] * 1e3, 4)};
    for (size_t i = 0; i < names.size(); ++i) {
      const double gain = seconds[0] / seconds[i + 1];
      row.push_back(std::isnan(gain) ? "" : format_fixed(gain, 3));
      if (std::isnan(gain)) continue;
      logs[i] += std::log(gain);
      ++counts[i];
    }
    table.add_row(row);
  }
  std::vector<std::string> mean{"geometric mean", ""};
  for (size_t i = 0; i < names.size(); ++i)
    mean.push_back(counts[i] > 0 ? format_fixed(std::exp(logs[i] / counts[i]), 3) : "");
  table.add_row(mean);
  std::printf("%s", table.to_string().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"How much faster the static choice would be with other values of its knobs"};
  app.add_option("subjects", o.subjects, "As heddle bench takes them")->required();
  app.add_option("--set", o.sets, "A variant: knob=value[,knob=value]")->allow_extra_args(false);
  app.add_option("--alternative", o.alternatives, "A variant: a rewrite, or direct")
      ->allow_extra_args(false);
  std::string dtype = "f32";
  app.add_option("--dtype", dtype, "Type of the inputs (f32)")->check([](const std::string& text) {
    return parse_dtype(text) ? "" : "no type is called '" + text + "'";
  });
  app.add_option("--threads", o.threads, "Of the kernels (1)")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", o.rounds, "Of the race (15)")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  o.dtype = *parse_dtype(dtype);
  try {
    return run(o);
  } catch (const Error& e) {
    std::fprintf(stderr, "knob_effect: %s\n", e.what());
    return 2;
  }
}
