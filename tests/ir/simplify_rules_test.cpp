// Every row of the rule table, on many small values; and each fires on its own pattern.
#include "ir/simplify/simplify_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "heddle/ir/print.h"
#include "heddle/support/rng.h"
#include "ir/evaluate.h"

namespace heddle {
namespace {

std::vector<const VarNode*> wildcards_of(const SimplifyRule& rule) {
  std::vector<const VarNode*> vars;
  const auto gather = [&](const Expr& e) {
    const VarNode* v = e.as<VarNode>();
    if (v && std::find(vars.begin(), vars.end(), v) == vars.end()) vars.push_back(v);
  };
  for (const Expr& e : {rule.pattern, rule.result, rule.condition}) visit(e, gather);
  return vars;
}

TEST(SimplifyRules, HaveDistinctNamesAndBoundResults) {
  std::set<std::string> names;
  for (const SimplifyRule& rule : simplify_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_EQ(rule.pattern.dtype(), rule.result.dtype()) << rule.name;
    for (const VarNode* v : wildcards_of(rule)) {
      EXPECT_TRUE(uses_var(rule.pattern, Var::from(Expr(v))))
          << rule.name << " binds no " << v->name;
    }
  }
}

TEST(SimplifyRules, KeepTheValue) {
  Rng rng(7);
  for (const SimplifyRule& rule : simplify_rules()) {
    const std::vector<const VarNode*> vars = wildcards_of(rule);
    int tried = 0;
    for (int trial = 0; trial < 4000; ++trial) {
      test::Values values;
      for (const VarNode* v : vars) {
        values[v] = v->dtype == boolean ? rng.uniform_int(0, 1) : rng.uniform_int(-6, 6);
      }
      if (rule.condition.defined() && test::evaluate(rule.condition, values) != 1) continue;
      const auto want = test::evaluate(rule.pattern, values);
      if (!want) continue;
      ++tried;
      ASSERT_EQ(test::evaluate(rule.result, values), want)
          << rule.name << ": " << rule.pattern << " --> " << rule.result;
    }
    EXPECT_GT(tried, 100) << rule.name;
  }
}

TEST(SimplifyRules, FireOnTheirPatterns) {
  for (const SimplifyRule& rule : simplify_rules()) {
    // Fresh variables in place of the wildcards; constants that satisfy the condition.
    Ranges ranges;
    std::vector<VarBinding> bindings;
    for (const VarNode* v : wildcards_of(rule)) {
      const Var wildcard = Var::from(Expr(v));
      if (is_constant_wildcard(v)) {
        bindings.push_back({wildcard, v->name == "c0" ? 8 : 7});
      } else {
        Var fresh(v->name, v->dtype);
        if (rule.condition) ranges.set(fresh, {1, 100});
        bindings.push_back({wildcard, fresh});
      }
    }
    const auto made = apply_rules(substitute(rule.pattern, bindings), ranges);
    ASSERT_TRUE(made) << rule.name << ": " << rule.pattern;
    EXPECT_TRUE(equal(*made, substitute(rule.result, bindings)))
        << rule.name << " gave " << *made << " (did another rule fire?)";
  }
}

}  // namespace
}  // namespace heddle
