#include "explain/build_times.h"

#include <algorithm>
#include <utility>

#include "heddle/codegen/llvm.h"
#include "heddle/dag/alternatives.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/timer.h"
#include "schedule/templates/graph_choice.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

ComputeDag chosen_graph(const ComputeDag& dag, const Target& target) {
  const AutoSchedulerOptions options = current_auto_scheduler_options();
  return apply_alternative(dag,
                           choose_graph(dag, apply_options(target, options), options).alternative);
}

using Stage = TimedPart::Stage;
constexpr int kRepeats = 7;
constexpr double kMostSeconds = 5;  // seconds after which no further repeat begins

struct Sample {
  std::string name;
  Stage stage;
  double ms;
};

std::vector<Sample> build_once(const std::string& subject, DataType dtype, const Target& target,
                               bool naive) {
  const Problem problem = make_problem(subject, dtype);
  clear_template_cache();
  release_code_cache();
  std::vector<Sample> samples;
  auto timed = [&](const char* name, auto&& body) {
    const Timer timer;
    auto result = body();
    samples.push_back({name, Stage::Schedule, timer.elapsed_s() * 1e3});
    return result;
  };
  auto schedule = [&] {
    if (naive) return timed("schedule", [&] { return naive_schedule(problem.outputs, target); });
    const ComputeDag dag = timed("dag", [&] { return ComputeDag(problem.outputs); });
    const ComputeDag used = timed("alternatives", [&] { return chosen_graph(dag, target); });
    const Template t = timed("template", [&] { return make_template(used, target); });
    return timed("instantiate", [&] { return t.static_schedule(); });
  }();

  const BuildTimes times = build_timed(schedule, problem.args()).times;
  double passes = 0;
  for (const PassRecord& p : times.passes) {
    samples.push_back({"lower: " + p.name, Stage::Lower, p.ms});
    passes += p.ms;
  }
  samples.push_back({"lower: rest", Stage::Lower, std::max(0.0, times.lower - passes)});
  samples.push_back({"llvm ir", Stage::Codegen, times.llvm_ir});
  samples.push_back({"optimize", Stage::Codegen, times.optimize});
  samples.push_back({"codegen", Stage::Codegen, times.codegen});
  samples.push_back({"link", Stage::Codegen, times.link});
  const double known = times.lower + times.llvm_ir + times.optimize + times.codegen + times.link;
  samples.push_back({"build: rest", Stage::Codegen, std::max(0.0, times.total - known)});
  return samples;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double sum(const TimeBreakdown& times, double TimedPart::* column, bool codegen) {
  double total = 0;
  for (const TimedPart& p : times.parts) {
    if (codegen || p.stage != Stage::Codegen) total += p.*column;
  }
  return total;
}

std::string ms_text(double ms) { return format_fixed(ms, 3); }

}  // namespace

TimeBreakdown measure_build(const std::string& subject, DataType dtype, const Target& target,
                            bool naive) {
  TimeBreakdown out;
  const Timer timer;
  std::vector<std::vector<double>> again;
  for (const Sample& s : build_once(subject, dtype, target, naive)) {
    out.parts.push_back({s.name, s.stage, s.ms});
    again.emplace_back();
  }
  do {
    const std::vector<Sample> samples = build_once(subject, dtype, target, naive);
    for (size_t i = 0; i < samples.size(); ++i) again[i].push_back(samples[i].ms);
    ++out.repeats;
  } while (out.repeats < kRepeats && timer.elapsed_s() < kMostSeconds);
  for (size_t i = 0; i < again.size(); ++i) out.parts[i].again_ms = median(again[i]);
  if (!naive) {
    const ComputeDag dag = chosen_graph(ComputeDag(make_problem(subject, dtype).outputs), target);
    const Timer cached;
    make_template(dag, target);
    out.cached_template_ms = cached.elapsed_s() * 1e3;
  }
  return out;
}

std::string to_text(const TimeBreakdown& times) {
  Table table({"part", "first ms", "again ms"});
  Stage stage = Stage::Schedule;
  for (const TimedPart& p : times.parts) {
    if (p.stage != stage) table.add_rule();
    stage = p.stage;
    table.add_row({p.name, ms_text(p.first_ms), ms_text(p.again_ms)});
  }
  table.add_rule();
  for (const bool codegen : {false, true}) {
    table.add_row({codegen ? "total" : "scheduling and lowering",
                   ms_text(sum(times, &TimedPart::first_ms, codegen)),
                   ms_text(sum(times, &TimedPart::again_ms, codegen))});
  }
  std::string out = table.to_string();
  out += "first: the first kernel of a process; again: median of " + std::to_string(times.repeats) +
         " more, nothing cached\n";
  if (times.cached_template_ms > 0) {
    out += "a template of a known structure comes from the cache in " +
           ms_text(times.cached_template_ms) + " ms\n";
  }
  return out;
}

Json to_json(const TimeBreakdown& times) {
  Json j = Json::object();
  for (const auto& [key, column] :
       {std::pair{"first_ms", &TimedPart::first_ms}, std::pair{"again_ms", &TimedPart::again_ms}}) {
    Json parts = Json::array();
    for (const TimedPart& p : times.parts) {
      parts.push_back(Json::object({{"part", p.name}, {"ms", p.*column}}));
    }
    j[key] = Json::object({{"scheduling_and_lowering", sum(times, column, false)},
                           {"total", sum(times, column, true)},
                           {"parts", std::move(parts)}});
  }
  j["repeats"] = times.repeats;
  j["cached_template_ms"] = times.cached_template_ms;
  return j;
}

}  // namespace heddle::cli
