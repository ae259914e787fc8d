#include "heddle/dag/alternatives.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include "dag/rewrites/legal_rewrites.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rule_parameters.h"
#include "dag/sizes/generalizer.h"
#include "heddle/dag/user_choice.h"
#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle {
namespace {

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::vector<RewriteRule>& registry() {
  static std::vector<RewriteRule> r;
  return r;
}

std::vector<RewriteRule> rules() {
  std::lock_guard lock(mutex());
  std::vector<RewriteRule> all = registry();
  std::sort(all.begin(), all.end(),
            [](const RewriteRule& a, const RewriteRule& b) { return a.name < b.name; });
  return all;
}

/// The rule of this name among `known`. Throws a User error where there is none.
const RewriteRule& find_rule(const std::string& name, const std::vector<RewriteRule>& known) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const RewriteRule& x) { return x.name == name; });
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  for (const RewriteRule& x : known) names.push_back(x.name);
  const std::string meant = did_you_mean(name, names);
  throw_user_error("there is no rewrite rule '" + name + "'", {},
                   meant.empty() ? "register it, or choose another alternative" : meant);
}

/// A rule applied at a stage with certain values of its parameters.
struct Rewrite {
  RewriteRule rule;
  int stage = -1;
  std::vector<int64_t> values;
};

std::string name_of(const Rewrite& r) {
  std::string values;
  for (std::size_t i = 0; i < r.values.size(); ++i) {
    values += (i ? "," : "") + r.rule.parameters[i].name + "=" + std::to_string(r.values[i]);
  }
  return r.rule.name + (values.empty() ? "" : "(" + values + ")") + "@" + std::to_string(r.stage);
}

// ---- names -------------------------------------------------------------------------------------

[[noreturn]] void bad_name(const std::string& name, const std::string& why) {
  throw_user_error("alternative '" + name + "' " + why, {},
                   "a name is rule(parameter=value,...)@stage, several joined with '+'");
}

int64_t number_of(const std::string& text, const std::string& name) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    bad_name(name, "has '" + text + "' where a number belongs");
  return value;
}

std::vector<std::string> split_at(const std::string& text, char c) {
  std::vector<std::string> out{""};
  for (char x : text) {
    if (x == c) {
      out.emplace_back();
    } else {
      out.back() += x;
    }
  }
  return out;
}

Rewrite parse_one(const std::string& text, const std::vector<RewriteRule>& known,
                  const ComputeDag& dag) {
  const std::size_t at = text.rfind('@'), open = text.find('(');
  if (at == std::string::npos) bad_name(text, "names no stage");
  Rewrite r;
  r.rule = find_rule(text.substr(0, std::min(at, open)), known);
  std::vector<std::string> given;
  if (open < at) {
    if (text[at - 1] != ')') bad_name(text, "lacks a ')' before the '@'");
    given = split_at(text.substr(open + 1, at - open - 2), ',');
  }
  if (given.size() != r.rule.parameters.size())
    bad_name(text, "gives " + std::to_string(given.size()) + " of " +
                       std::to_string(r.rule.parameters.size()) + " parameters");
  for (std::size_t i = 0; i < given.size(); ++i) {
    const RewriteParameter& p = r.rule.parameters[i];
    const std::vector<std::string> pair = split_at(given[i], '=');
    if (pair.size() != 2 || pair[0] != p.name) bad_name(text, "lacks parameter '" + p.name + "'");
    r.values.push_back(number_of(pair[1], text));
    if (!p.values.empty() &&
        std::find(p.values.begin(), p.values.end(), r.values.back()) == p.values.end())
      bad_name(text, "has the value " + pair[1] + ", which '" + p.name + "' cannot be");
  }
  const int64_t stage = number_of(text.substr(at + 1), text);
  if (stage < 0 || stage >= dag.size())
    bad_name(text, "names stage " + std::to_string(stage) + " of a graph of " +
                       std::to_string(dag.size()));
  r.stage = static_cast<int>(stage);
  return r;
}

std::vector<Rewrite> parse(const ComputeDag& dag, const std::string& name) {
  std::vector<Rewrite> out;
  if (name.empty()) return out;
  if (is_user_choice(name))
    throw_user_error("'" + name + "' is a graph of the caller's, which is not known here", {},
                     "pass it to tune again (TuneOptions::choices), or keep the schedule that tune "
                     "returned");
  const std::vector<RewriteRule> known = rules();
  for (const std::string& part : split_at(name, '+')) {
    out.push_back(parse_one(part, known, dag));
    const Rewrite& r = out.back();
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
      if (out[i].stage == r.stage) bad_name(name, "rewrites one stage twice");
      if (out[i].rule.rewrite || r.rule.rewrite)
        bad_name(name, "joins a rewrite of the whole graph with another");
    }
    const RewriteSite site{dag, r.stage, r.values};
    const WhyNot why_not =
        site.op().is_placeholder() ? WhyNot::other_kind("a computed stage") : r.rule.why_not(site);
    if (!why_not.empty()) {
      throw_user_error("alternative '" + part + "' does not apply to '" + site.op().name() +
                           "': " + why_not.text(),
                       site.op().where());
    }
  }
  return out;
}

// ---- enumeration -------------------------------------------------------------------------------

void check_replacement(const Rewrite& r, const Operation& op, const std::vector<Tensor>& by) {
  bool fits = by.size() == static_cast<std::size_t>(op.num_outputs());
  for (std::size_t i = 0; fits && i < by.size(); ++i) {
    const Tensor own = op.output(static_cast<int>(i));
    fits = by[i] && by[i].dtype() == own.dtype() && by[i].extents() == own.extents();
  }
  HEDDLE_ICHECK(fits, "rewrite rule '" + r.rule.name + "' gave other tensors than those of '" +
                          op.name() + "'");
}

std::vector<std::vector<int64_t>> combinations(const std::vector<RewriteParameter>& parameters) {
  std::vector<std::vector<int64_t>> out{{}};
  for (const RewriteParameter& p : parameters) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& head : out) {
      for (int64_t v : p.values) {
        longer.push_back(head);
        longer.back().push_back(v);
      }
    }
    out = std::move(longer);
  }
  return out;
}

/// The speed-up of a graph in which some stages are faster by `speedup`. Time is taken to be
/// proportional to operations.
double whole_speedup(const ComputeDag& dag, const std::vector<std::pair<int, double>>& stages) {
  double total = std::max(1.0, dag.total_flops()), now = total;
  for (const auto& [stage, speedup] : stages)
    now -= dag.info(stage).flops * (1 - 1 / std::max(1e-3, speedup));
  return total / std::max(now, 1e-3 * total);
}

/// The values of the rule's parameters to consider for the stages from `first` to before `last`, in
/// ascending order.
std::vector<std::vector<int64_t>> values_of(const RewriteRule& rule, const ComputeDag& dag,
                                            const Target& target, int first, int last) {
  if (!rule.suited) return combinations(rule.parameters);
  std::vector<std::vector<int64_t>> out;
  for (int s = first; s < last; ++s) {
    if (dag.stage(s).is_placeholder()) continue;
    for (std::vector<int64_t>& v : rule.suited(RewriteSite{dag, s, {}}, target))
      out.push_back(std::move(v));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Numerics numerics_of(const RewriteRule& rule, const RewriteSite& site) {
  if (rule.numerics != Numerics::Reassociated) return rule.numerics;
  bool integers = true;
  for (int i = 0; i < site.op().num_outputs(); ++i)
    integers = integers && site.op().output(i).dtype().is_integral();
  if (integers) return Numerics::Exact;
  return rule.error_growth(site) > kReassociatedGrowth ? Numerics::Approximate
                                                       : Numerics::Reassociated;
}

Alternative join(const ComputeDag& dag, const std::vector<std::pair<Rewrite, Alternative>>& all) {
  Alternative a;
  std::vector<std::pair<int, double>> stages;
  for (const auto& [rewrite, one] : all) {
    a.name += (a.name.empty() ? "" : "+") + one.name;
    a.error_growth = std::max(a.error_growth, one.error_growth);
    a.numerics = std::max(a.numerics, one.numerics);
    stages.emplace_back(rewrite.stage, one.speedup);
  }
  a.speedup = whole_speedup(dag, stages);
  a.reason = "on " + std::to_string(all.size()) + " stages; " + all.front().second.reason;
  return a;
}

/// The estimate for a rewrite; nullopt where the rule does not apply to such a stage.
std::optional<Alternative> judge(const Rewrite& rewrite, const ComputeDag& dag,
                                 const Target& target, const AlternativePolicy& policy) {
  const RewriteSite site{dag, rewrite.stage, rewrite.values, policy.constants.get()};
  const WhyNot illegal = rewrite.rule.why_not(site);
  if (illegal.is_other_kind()) return std::nullopt;
  Alternative a{.name = name_of(rewrite), .why_not = illegal.text()};
  if (!a.legal()) return a;
  RewriteEstimate estimate = rewrite.rule.estimate(site, target);
  a.error_growth = rewrite.rule.error_growth(site);
  a.numerics = numerics_of(rewrite.rule, site);
  a.reason = std::move(estimate.reason);
  a.why_not = estimate.why_not.empty() ? why_excluded(policy, a.numerics, a.error_growth)
                                       : std::move(estimate.why_not);
  a.speedup = estimate.speedup;
  return a;
}

}  // namespace

const char* to_string(Numerics n) {
  return n == Numerics::Exact          ? "exact"
         : n == Numerics::Reassociated ? "reassociated"
                                       : "approximate";
}

std::string why_excluded(const AlternativePolicy& policy, Numerics numerics, double error_growth) {
  if (numerics == Numerics::Approximate && !policy.allow_approximate)
    return "it is approximate, and the options do not allow that (allow_approximate)";
  if (error_growth <= policy.max_error_growth) return "";
  char text[96];
  std::snprintf(text, sizeof text,
                "its rounding errors may be %.3g times the direct form's, above %.3g", error_growth,
                policy.max_error_growth);
  return text;
}

bool register_rewrite_rule(RewriteRule rule) {
  std::lock_guard lock(mutex());
  HEDDLE_ICHECK(rule.why_not && !rule.apply != !rule.rewrite && rule.error_growth && rule.estimate,
                "rewrite rule '" + rule.name + "' lacks a function, or has one too many");
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  HEDDLE_ICHECK(!rule.name.empty() && std::all_of(rule.name.begin(), rule.name.end(), fits),
                "rewrite rule '" + rule.name + "' has a name of other characters than a-z, 0-9, _");
  for (const RewriteRule& x : registry()) {
    HEDDLE_ICHECK(x.name != rule.name, "two rewrite rules of the name " + rule.name);
  }
  registry().push_back(std::move(rule));
  return true;
}

void unregister_rewrite_rule(const std::string& name) {
  std::lock_guard lock(mutex());
  std::erase_if(registry(), [&](const RewriteRule& r) { return r.name == name; });
}

std::vector<std::string> rewrite_rule_names() {
  std::vector<std::string> names;
  for (const RewriteRule& r : rules()) names.push_back(r.name);
  return names;
}

std::vector<RewriteParameter> rewrite_parameters(const std::string& rule) {
  return find_rule(rule, rules()).parameters;
}

std::vector<Alternative> alternatives_of(const ComputeDag& dag, const Target& target,
                                         const AlternativePolicy& policy) {
  std::vector<Alternative> out;
  if (!policy.use || !dag.alternative().empty()) return out;
  for (const RewriteRule& rule : rules()) {
    std::map<int, std::vector<std::vector<int64_t>>> suited;  // for each stage
    for (const std::vector<int64_t>& values : values_of(rule, dag, target, 0, dag.size())) {
      std::vector<std::pair<Rewrite, Alternative>> here;
      for (int s = 0; s < dag.size(); ++s) {
        if (dag.stage(s).is_placeholder()) continue;
        if (rule.suited) {
          if (!suited.contains(s)) suited[s] = values_of(rule, dag, target, s, s + 1);
          if (std::find(suited[s].begin(), suited[s].end(), values) == suited[s].end()) continue;
        }
        const Rewrite rewrite{rule, s, values};
        std::optional<Alternative> a = judge(rewrite, dag, target, policy);
        if (!a) continue;
        if (a->legal()) here.emplace_back(rewrite, *a);
        if (a->legal()) a->speedup = whole_speedup(dag, {{s, a->speedup}});
        out.push_back(*std::move(a));
      }
      if (here.size() > 1 && rule.apply) out.push_back(join(dag, here));
    }
  }
  return out;
}

std::vector<std::string> legal_rewrites(const ComputeDag& dag, const Target& target) {
  std::vector<std::string> names;
  for (const RewriteRule& rule : rules()) {
    for (int s = 0; s < dag.size(); ++s) {
      if (dag.stage(s).is_placeholder()) continue;
      for (const std::vector<int64_t>& values : values_of(rule, dag, target, s, s + 1)) {
        if (rule.why_not(RewriteSite{dag, s, values}).empty())
          names.push_back(name_of({rule, s, values}));
      }
    }
  }
  return names;
}

const Alternative* most_promising(const std::vector<Alternative>& alternatives) {
  const Alternative* best = nullptr;
  for (const Alternative& a : alternatives) {
    if (a.legal() && a.speedup > (best ? best->speedup : 1)) best = &a;
  }
  return best;
}

std::string choose_alternative(const ComputeDag& dag, const Target& target,
                               const AlternativePolicy& policy) {
  const std::vector<Alternative> all = alternatives_of(dag, target, policy);
  const Alternative* best = most_promising(all);
  return best ? best->name : "";
}

ComputeDag apply_alternative(const ComputeDag& dag, const std::string& name) {
  if (name.empty() || name == dag.alternative()) return dag;
  if (!dag.alternative().empty()) {
    throw_user_error("'" + dag.alternative() + "' cannot be rewritten into '" + name + "'", {},
                     "rewrite the graph as it was declared (ComputeDag::direct)");
  }
  const std::vector<Var> sizes = sizes_of(dag.outputs());
  if (sizes.size() > 1)
    throw_user_error("the alternative '" + name +
                     "' is left out of a family of several dimensions");
  if (sizes.size() == 1) return dag::alternative_over(dag, sizes[0], name);
  dag::Rebuilder rebuilder;
  for (const Rewrite& r : parse(dag, name)) {
    const RewriteSite site{dag, r.stage, r.values};
    if (r.rule.rewrite) {
      GraphRewrite whole = r.rule.rewrite(site);
      return ComputeDag(std::move(whole.outputs))
          .as_alternative(name, dag, std::move(whole.placeholders));
    }
    const Operation& op = site.op();
    const std::vector<Tensor> by = r.rule.apply(site);
    check_replacement(r, op, by);
    for (std::size_t i = 0; i < by.size(); ++i)
      rebuilder.replace(op.output(static_cast<int>(i)), by[i]);
  }
  std::vector<Tensor> outputs;
  for (const Tensor& t : dag.outputs()) outputs.push_back(rebuilder.rebuild(t));
  return ComputeDag(std::move(outputs)).as_alternative(name, dag);
}

double alternative_error_growth(const ComputeDag& dag, const std::string& name) {
  double most = 1;
  for (const Rewrite& r : parse(dag, name))
    most = std::max(most, r.rule.error_growth(RewriteSite{dag, r.stage, r.values}));
  return most;
}

Numerics alternative_numerics(const ComputeDag& dag, const std::string& name) {
  Numerics loosest = Numerics::Exact;
  for (const Rewrite& r : parse(dag, name))
    loosest = std::max(loosest, numerics_of(r.rule, RewriteSite{dag, r.stage, r.values}));
  return loosest;
}

}  // namespace heddle
