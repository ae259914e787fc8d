#include "heddle/dag/alternatives.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "dag/map_loads.h"
#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"

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

/// A rule at a stage with values.
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
  const std::string rule = text.substr(0, std::min(at, open));
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const RewriteRule& x) { return x.name == rule; });
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const RewriteRule& x : known) names.push_back(x.name);
    const std::string meant = did_you_mean(rule, names);
    throw_user_error("there is no rewrite rule '" + rule + "'", {},
                     meant.empty() ? "register it, or choose another alternative" : meant);
  }
  r.rule = *found;
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
    if (std::find(p.values.begin(), p.values.end(), r.values.back()) == p.values.end())
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
    const std::string why_not =
        site.op().is_placeholder() ? "not a computed stage" : r.rule.why_not(site);
    if (!why_not.empty()) {
      throw_user_error(
          "alternative '" + part + "' does not apply to '" + site.op().name() + "': " + why_not,
          site.op().where());
    }
  }
  return out;
}

// ---- rebuilding --------------------------------------------------------------------------------

/// Makes the operations that depend on a replaced one again, each once.
class Rebuilder {
 public:
  void replace(const Tensor& from, const Tensor& to) {
    replaced_[from.op()].resize(static_cast<std::size_t>(from.op()->num_outputs()));
    replaced_[from.op()][static_cast<std::size_t>(from.index())] = to;
  }

  Tensor rebuild(const Tensor& t) {
    if (const auto it = replaced_.find(t.op()); it != replaced_.end()) {
      // The replacement may read other stages that are replaced or rebuilt, but not itself.
      HEDDLE_ICHECK(open_.insert(t.op()).second,
                    "the rewrite of '" + t.name() + "' reads what it is to replace");
      Tensor out = rebuild(it->second[static_cast<std::size_t>(t.index())]);
      open_.erase(t.op());
      return out;
    }
    if (t.op()->is_placeholder()) return t;
    return Tensor(rebuild(t.op_ref()), t.index());
  }

 private:
  Ref<const Operation> rebuild(const Ref<const Operation>& op) {
    if (const auto it = done_.find(op.get()); it != done_.end()) return it->second;
    // Keeps `op` alive: its address is the key.
    kept_.push_back(op);
    bool changed = false;
    std::vector<std::pair<Buffer, Tensor>> reads;
    for (const Tensor& in : op->inputs()) {
      reads.emplace_back(in.buffer(), rebuild(in));
      changed |= !reads.back().second.same_as(in);
    }
    Ref<const Operation> out = op;
    if (changed) {
      // The axes are the old ones: at most one of the two operations is in any graph.
      std::vector<Expr> bodies = dag::map_loads(op->bodies(), [&](const Load& load) {
        const auto read = std::find_if(reads.begin(), reads.end(),
                                       [&](const auto& r) { return r.first == load.buffer; });
        return make_load(read == reads.end() ? load.buffer : read->second.buffer(), load.indices);
      });
      out = Operation::make_compute(op->name(), op->axes(), std::move(bodies), op->tag(),
                                    op->where());
    }
    return done_[op.get()] = out;
  }

  std::unordered_map<const Operation*, std::vector<Tensor>> replaced_;
  std::unordered_map<const Operation*, Ref<const Operation>> done_;
  std::vector<Ref<const Operation>> kept_;
  std::unordered_set<const Operation*> open_;  ///< being replaced
};

void check_replacement(const Rewrite& r, const Operation& op, const std::vector<Tensor>& by) {
  bool fits = by.size() == static_cast<std::size_t>(op.num_outputs());
  for (std::size_t i = 0; fits && i < by.size(); ++i) {
    const Tensor own = op.output(static_cast<int>(i));
    fits = by[i] && by[i].dtype() == own.dtype() && by[i].extents() == own.extents();
  }
  HEDDLE_ICHECK(fits, "rewrite rule '" + r.rule.name + "' gave other tensors than those of '" +
                          op.name() + "'");
}

// ---- enumeration -------------------------------------------------------------------------------

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

std::string by_policy(const AlternativePolicy& policy, double growth) {
  if (growth <= policy.max_error_growth) return "";
  char text[96];
  std::snprintf(text, sizeof text,
                "its rounding errors may be %.3g times the direct form's, above %.3g", growth,
                policy.max_error_growth);
  return text;
}

Alternative join(const ComputeDag& dag, const std::vector<std::pair<Rewrite, Alternative>>& all) {
  Alternative a;
  std::vector<std::pair<int, double>> stages;
  for (const auto& [rewrite, one] : all) {
    a.name += (a.name.empty() ? "" : "+") + one.name;
    a.error_growth = std::max(a.error_growth, one.error_growth);
    stages.emplace_back(rewrite.stage, one.speedup);
  }
  a.speedup = whole_speedup(dag, stages);
  a.reason = "on " + std::to_string(all.size()) + " stages; " + all.front().second.reason;
  return a;
}

}  // namespace

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

std::vector<Alternative> alternatives_of(const ComputeDag& dag, const Target& target,
                                         const AlternativePolicy& policy) {
  std::vector<Alternative> out;
  if (!policy.use || !dag.alternative().empty()) return out;
  for (const RewriteRule& rule : rules()) {
    for (const std::vector<int64_t>& values : combinations(rule.parameters)) {
      std::vector<std::pair<Rewrite, Alternative>> here;
      for (int s = 0; s < dag.size(); ++s) {
        if (dag.stage(s).is_placeholder()) continue;
        const Rewrite rewrite{rule, s, values};
        const RewriteSite site{dag, s, values};
        Alternative a{.name = name_of(rewrite), .why_not = rule.why_not(site)};
        if (a.why_not.starts_with("not ")) continue;
        if (a.legal()) {
          RewriteEstimate estimate = rule.estimate(site, target);
          a.error_growth = rule.error_growth(site);
          a.reason = std::move(estimate.reason);
          a.why_not = estimate.why_not.empty() ? by_policy(policy, a.error_growth)
                                               : std::move(estimate.why_not);
          a.speedup = estimate.speedup;
          if (a.legal()) here.emplace_back(rewrite, a);
          a.speedup = whole_speedup(dag, {{s, estimate.speedup}});
        }
        out.push_back(std::move(a));
      }
      if (here.size() > 1 && rule.apply) out.push_back(join(dag, here));
    }
  }
  return out;
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
  Rebuilder rebuilder;
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

}  // namespace heddle
