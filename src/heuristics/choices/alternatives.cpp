// The choice of the graph that computes a declaration: the declared one, or a legal rewrite of it
// (schedule/templates/graph_choice.h). A choice names a rule and its parameters, not the stage.
//
// The three ways in which a long sum of products is cut are values of this one choice: by the
// template ("direct:split_k"), by the rule split_k into a number of parts for each core, or not
// ("direct:whole").
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "dag/rewrites/rule_parameters.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/nn.h"
#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/draw_reduction.h"
#include "schedule/templates/graph_choice.h"

namespace heddle::learning {
namespace {

/// A choice names a form of the question, such as "winograd(tile=4)", or a rule with a parameter
/// whose values depend on the problem. Which of the legal ones it means is another parameter.
ParameterSet of_form(std::string_view name) {
  return ParameterSet().set("form", ParameterSet::Value(std::string(name)));
}

/// A legal form of a rule, with its first parameter.
struct Form {
  std::string name;
  double value = 0;
};

std::vector<Form> forms_of(const std::string& rule, const Choice& legal) {
  std::vector<Form> out;
  for (const std::string& name : legal.knobs()) {
    if (!name.starts_with(rule + "(")) continue;
    out.push_back({name, std::strtod(name.c_str() + name.find('=') + 1, nullptr)});
  }
  return out;
}

/// The form whose number of parts is nearest to `count`, if it is between half and twice of that.
std::optional<std::string> nearest_count(const std::vector<Form>& forms, double count) {
  const auto distance = [&](const Form& f) { return std::fabs(std::log2(f.value / count)); };
  const auto best = std::min_element(forms.begin(), forms.end(), [&](const Form& a, const Form& b) {
    return distance(a) < distance(b);
  });
  if (best == forms.end() || distance(*best) > 1) return std::nullopt;
  return best->name;
}

/// The units of work of the uncut sum that run in parallel: blocks of a GPU's product. It is 1 for
/// a product on a CPU.
double shares_of_whole(const FeatureView& f, bool gpu) {
  constexpr double kBlock = 64 * 64;
  return gpu ? std::max(1.0, f["results"] / kBlock) : 1;
}

/// The question's form that a choice stands for; nullopt where it is not legal.
std::optional<std::string> find_form(const ParameterSet& choice, const Situation& p, bool gpu) {
  const std::string name = choice.text("form");
  if (p.rule.has(name)) return name;
  const std::vector<Form> forms = forms_of(name, p.rule);
  if (forms.empty()) return std::nullopt;
  if (choice.has("parts_a_core"))
    return nearest_count(forms, double(choice.get("parts_a_core", 1)) * p.features["cores"] /
                                    shares_of_whole(p.features, gpu));
  const auto [least, most] = std::minmax_element(
      forms.begin(), forms.end(), [](const Form& a, const Form& b) { return a.value < b.value; });
  return choice.get("to", 0) == 0 ? least->name : most->name;
}

/// The forms of a rule, "winograd(tile=2)" and "winograd(tile=4)"; none where a parameter has no
/// list of values.
std::vector<std::string> named_forms(const std::string& rule,
                                     const std::vector<RewriteParameter>& parameters) {
  std::vector<std::string> values{""};
  for (const RewriteParameter& p : parameters) {
    std::vector<std::string> longer;
    for (const std::string& before : values) {
      for (const std::int64_t v : p.values)
        longer.push_back(before + (before.empty() ? "" : ",") + p.name + "=" + std::to_string(v));
    }
    values = std::move(longer);
  }
  for (std::string& v : values) v = rule + (v.empty() ? "" : "(" + v + ")");
  return values;
}

/// The rule whose values are numbers of tasks that run side by side. What suits a stage grows with
/// the cores, so choices say how many for each core.
constexpr std::string_view kRuleOfTasks = "split_k";

/// The choices of a rule.
std::vector<ParameterSet> choices_of(const std::string& rule) {
  std::vector<ParameterSet> all;
  for (const std::string& form : named_forms(rule, rewrite_parameters(rule)))
    all.push_back(of_form(form));
  if (!all.empty()) return all;
  if (rule == kRuleOfTasks) {
    for (const std::int64_t parts : {1, 4, 16, 64})
      all.push_back(of_form(rule).set("parts_a_core", parts));
  } else {
    for (const std::int64_t to : {0, 1}) all.push_back(of_form(rule).set("to", to));
  }
  return all;
}

std::vector<ParameterSet> candidates(const Situation&) {
  std::vector<ParameterSet> all;
  for (const std::string_view form : direct_forms()) all.push_back(of_form(form));
  for (const std::string& rule : rewrite_rule_names()) {
    const std::vector<ParameterSet> of_rule = choices_of(rule);
    all.insert(all.end(), of_rule.begin(), of_rule.end());
  }
  return all;
}

// ---- problems ----------------------------------------------------------------------------------

DrawnProblem declare_product(std::int64_t m, std::int64_t n, std::int64_t k, DataType dtype) {
  return {"matmul:" + sizes_text({m, n, k}) + type_text(dtype),
          {ops::matmul(placeholder({m, k}, dtype, "A"), placeholder({k, n}, dtype, "B"))},
          {}};
}

// Draws a product of few results with long sums.
DrawnProblem draw_long_sum(Rng& rng, DataType dtype, double most_elements) {
  constexpr std::int64_t kMostSide = 512, kShortest = 1024, kLongest = 1 << 17;
  for (;;) {
    const std::int64_t m = draw_extent(rng, 1, kMostSide), n = draw_extent(rng, 4, kMostSide),
                       k = draw_extent(rng, kShortest, kLongest);
    if (double(m + n) * double(k) <= most_elements) return declare_product(m, n, k, dtype);
  }
}

// Draws a product that is large enough for products of quarters.
DrawnProblem draw_large_product(Rng& rng, DataType dtype) {
  constexpr std::int64_t kLeast = 512, kMost = 704;
  const auto side = [&] { return 2 * rng.uniform_int(kLeast, kMost); };
  return declare_product(side(), side(), side(), dtype);
}

DrawnProblem draw_softmax(Rng& rng, DataType dtype, double most_elements) {
  for (;;) {
    const std::int64_t rows = draw_extent(rng, 1, 1024), cols = draw_extent(rng, 256, 1 << 22);
    if (double(rows) * double(cols) > most_elements) continue;
    const Tensor x = placeholder({rows, cols}, dtype, "x");
    const int axis = rng.chance(0.7) ? 1 : 0;
    const bool logs = rng.chance(0.3);
    return {std::string(logs ? "log_softmax:" : "softmax:") + sizes_text({rows, cols}) +
                (axis == 0 ? ",axis 0" : "") + type_text(dtype),
            {logs ? ops::log_softmax(x, axis) : ops::softmax(x, axis)},
            {}};
  }
}

DrawnProblem draw(Rng& rng, const Target& target) {
  const bool gpu = target.is_cuda();
  const double flops = gpu ? 2e10 : kMostFlopsOnCpu, elements = gpu ? 64e6 : 16e6;
  const double kind = rng.uniform_real();
  const DataType type = draw_type(rng, target);
  if (kind < 0.3) return draw_convolution(rng, gpu && rng.chance(0.5) ? f16 : f32, flops);
  if (kind < 0.55) return draw_long_sum(rng, type, elements);
  if (kind < 0.65) return draw_product(rng, f32, flops);
  if (kind < 0.7) return draw_large_product(rng, type);
  if (kind < 0.75) return draw_bytes(rng);
  if (kind < 0.87) return draw_reduction(rng, type, elements, ReducedAxis::Rows);
  return draw_softmax(rng, type, elements);
}

double over_cores(const FeatureView& f, std::string_view name) { return f[name] / f["cores"]; }

std::vector<HeuristicFeature> features_of_stage() {
  const FeatureKind flag = FeatureKind::Boolean;
  return {{"cores"},
          {"is_contraction", flag},
          {"is_convolution", flag},
          {"is_float", flag},
          {"along_row", flag},
          {"constant_operand", flag},
          {"is_output", flag},
          {"result_bytes"},
          {"operand_bytes"},
          {"results"},
          {"depth"},
          {"longest_reduction"},
          {"rows"},
          {"cols"},
          {"batch"},
          {"bytes_read"},
          {"flops"},
          {"share_of_flops"},
          {"taps"},
          {"stride"},
          {"channels"},
          {"filters"}};
}

Heuristic alternatives(std::string name, std::string kind) {
  Heuristic h;
  h.name = std::move(name);
  h.about = "which graph computes it: as declared, or by a rule that rewrites it";
  const bool gpu = kind == "cuda";
  h.target_kind = std::move(kind);
  h.features = features_of_stage();
  h.augmented = {
      {{"results_a_core"}, [](const FeatureView& f) { return over_cores(f, "results"); }},
      {{"depth_over_results"}, [](const FeatureView& f) { return f["depth"] / f["results"]; }},
      {{"flops_a_byte"},
       [](const FeatureView& f) { return f["flops"] / std::max(1.0, f["bytes_read"]); }},
      // The sizes of a panel of one operand, and of a row of a reduction, relative to the caches of
      // a core.
      {{"cols_panel_of_l2"},
       [](const FeatureView& f) {
         return f["depth"] * f["cols"] * f["operand_bytes"] / f["l2_bytes"];
       }},
      {{"row_of_l2"},
       [](const FeatureView& f) { return f["depth"] * f["operand_bytes"] / f["l2_bytes"]; }},
      {{"read_of_l2"},
       [](const FeatureView& f) { return over_cores(f, "bytes_read") / f["l2_bytes"]; }},
      {{"least_side"}, [](const FeatureView& f) { return std::min(f["rows"], f["cols"]); }}};
  h.version = 2;
  h.parameters = {{.name = "form", .is_text = true}, {"to", {"least", "most"}}, {"parts_a_core"}};
  h.candidates = candidates;
  h.why_invalid = [gpu](const ParameterSet& choice, const Situation& p) {
    return find_form(choice, p, gpu) ? "" : "no rule makes this of it";
  };
  h.resolve = [gpu](const ParameterSet& choice, const Situation& p) {
    Choice knobs;
    const std::optional<std::string> chosen = find_form(choice, p, gpu);
    for (const std::string& form : p.rule.knobs()) {
      if (chosen) knobs.set(form, form == *chosen);
    }
    return knobs;
  };
  h.of_graphs = true;
  h.draw = draw;
  return h;
}

HEDDLE_REGISTER_HEURISTIC(alternatives("alternative", "llvm"));
HEDDLE_REGISTER_HEURISTIC(alternatives("cuda_alternative", "cuda"));

}  // namespace
}  // namespace heddle::learning
