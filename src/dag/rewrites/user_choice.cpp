#include "heddle/dag/user_choice.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr const char* kPrefix = "user(";

std::string shape_text(const Tensor& t) {
  std::string out = std::string(to_string(t.dtype())) + "[";
  for (const int64_t e : t.extents()) out += (out.back() == '[' ? "" : ", ") + std::to_string(e);
  return out + "]";
}

[[noreturn]] void unlike(const UserChoice& choice, const std::string& what,
                         const std::string& help) {
  throw_user_error("the choice '" + choice.name + "' does not fit the declaration: " + what, {},
                   help);
}

void check_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), fits))
    throw_user_error("a choice has the name '" + name + "'", {},
                     "letters, digits, '_', '-' and '.', and at least one of them");
}

bool alike(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.extents() == b.extents();
}

void check_outputs(const ComputeDag& declared, const UserChoice& choice) {
  const std::vector<Tensor>&want = declared.outputs(), &have = choice.dag.outputs();
  if (want.size() != have.size())
    unlike(choice,
           "it has " + std::to_string(have.size()) + " outputs, not " + std::to_string(want.size()),
           "compute the same outputs in the same order");
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (alike(want[i], have[i])) continue;
    unlike(choice,
           "output " + std::to_string(i) + " ('" + have[i].name() + "') is " + shape_text(have[i]) +
               ", not " + shape_text(want[i]),
           "compute outputs of the same shapes and types, in the same order");
  }
}

/// Pairs of a placeholder of the declaration and the placeholder of the choice that stands for it.
std::vector<std::pair<Tensor, Tensor>> match_inputs(const ComputeDag& declared,
                                                    const UserChoice& choice) {
  const std::vector<Tensor> want = declared.placeholders(), have = choice.dag.placeholders();
  const auto is_known = [&](const Tensor& t) {
    return std::any_of(want.begin(), want.end(), [&](const Tensor& w) { return w.same_as(t); });
  };
  const std::size_t known =
      static_cast<std::size_t>(std::count_if(have.begin(), have.end(), is_known));
  if (known == have.size() && known == want.size()) return {};
  const std::string help =
      "read the placeholders of the declaration, or others of the same types and shapes in the "
      "same order of first use";
  if (known > 0 && known < have.size())
    unlike(choice, "it reads some placeholders of the declaration and some of its own", help);
  if (want.size() != have.size())
    unlike(
        choice,
        "it reads " + std::to_string(have.size()) + " inputs, not " + std::to_string(want.size()),
        help);
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Tensor &w = want[i], &h = have[i];
    if (!alike(w, h))
      unlike(choice,
             "input " + std::to_string(i) + " ('" + h.name() + "') is " + shape_text(h) +
                 ", where '" + w.name() + "' is " + shape_text(w),
             help);
    if (w.op()->is_constant() != h.op()->is_constant())
      unlike(choice,
             "input " + std::to_string(i) + " ('" + h.name() + "') is " +
                 (h.op()->is_constant() ? "constant" : "not constant") + ", unlike '" + w.name() +
                 "'",
             help);
    pairs.emplace_back(w, h);
  }
  return pairs;
}

}  // namespace

std::string alternative_name(const UserChoice& choice) { return kPrefix + choice.name + ")"; }

bool is_user_choice(const std::string& alternative) { return alternative.starts_with(kPrefix); }

ComputeDag as_alternative_of(const ComputeDag& declared, const UserChoice& choice) {
  check_name(choice.name);
  if (!(choice.error_growth >= 1))
    throw_user_error("the choice '" + choice.name + "' has an error growth of " +
                         std::to_string(choice.error_growth),
                     {}, "at least 1: errors no larger than the declaration's");
  check_outputs(declared, choice);
  return choice.dag.as_alternative(alternative_name(choice), declared,
                                   match_inputs(declared, choice));
}

}  // namespace heddle
