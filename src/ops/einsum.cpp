#include <algorithm>
#include <cctype>
#include <map>

#include "heddle/ops/linalg.h"
#include "ops/contraction.h"

namespace heddle::ops {
namespace {

using impl::Call;

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation parse(const Call& call, const std::string& text) {
  std::string compact;
  for (char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) compact += c;
  const auto bad = [&](const std::string& why) {
    impl::fail(call, "'" + text + "' " + why, "write it as in \"ij,jk->ik\"");
  };
  const size_t arrow = compact.find("->");
  const std::string left = compact.substr(0, arrow);
  Equation equation{{""}, ""};
  for (char c : left) {
    if (c == ',')
      equation.operands.emplace_back();
    else if (std::isalpha(static_cast<unsigned char>(c)))
      equation.operands.back() += c;
    else
      bad(std::string("has '") + c + "' where a letter is expected");
  }
  if (arrow == std::string::npos) {
    std::map<char, int> counts;  // in alphabetical order
    for (const std::string& operand : equation.operands)
      for (char c : operand) ++counts[c];
    for (const auto& [letter, count] : counts)
      if (count == 1) equation.result += letter;
    return equation;
  }
  equation.result = compact.substr(arrow + 2);
  for (char c : equation.result) {
    if (!std::isalpha(static_cast<unsigned char>(c)))
      bad(std::string("has '") + c + "' where a letter is expected");
    if (std::count(equation.result.begin(), equation.result.end(), c) > 1)
      bad(std::string("has '") + c + "' twice in its result");
    if (left.find(c) == std::string::npos) bad(std::string("has '") + c + "' in its result only");
  }
  return equation;
}

Tensor contract(const Call& call, const std::string& text, const std::vector<Tensor>& operands,
                const Precision& precision) {
  const Equation equation = parse(call, text);
  if (equation.operands.size() != operands.size())
    impl::fail(call,
               "'" + text + "' has " + std::to_string(equation.operands.size()) + " operands but " +
                   std::to_string(operands.size()) + " are given",
               "contract more than two operands two at a time");
  std::map<char, int64_t> extents;
  std::string summed;
  for (size_t o = 0; o < operands.size(); ++o) {
    const std::string& letters = equation.operands[o];
    const int rank = static_cast<int>(letters.size());
    impl::check_rank(call, operands[o], o == 0 ? "a" : "b", rank, rank);
    for (int d = 0; d < rank; ++d) {
      const char letter = letters[static_cast<size_t>(d)];
      const auto [entry, is_new] = extents.emplace(letter, operands[o].extent(d));
      if (entry->second != operands[o].extent(d))
        impl::fail(call, std::string("index '") + letter + "' of '" + text + "' has extents " +
                             std::to_string(entry->second) + " and " +
                             std::to_string(operands[o].extent(d)));
      if (is_new && equation.result.find(letter) == std::string::npos) summed += letter;
    }
  }
  const impl::ContractionTypes types =
      impl::contraction_types(call, operands.front(), operands.back(), precision);
  std::map<char, Axis> axes;
  std::vector<Axis> reduced;
  for (char letter : summed) {
    reduced.push_back(reduce_axis(extents[letter], std::string(1, letter), call.where));
    axes[letter] = reduced.back();
  }
  Shape shape;
  for (char letter : equation.result) shape.emplace_back(extents[letter]);

  const auto body = [&](const std::vector<Axis>& i) {
    for (size_t d = 0; d < i.size(); ++d) axes[equation.result[d]] = i[d];
    std::vector<Expr> values;
    for (size_t o = 0; o < operands.size(); ++o) {
      std::vector<Expr> indices;
      for (char letter : equation.operands[o]) indices.push_back(axes[letter]);
      values.push_back(operands[o].at(std::move(indices)));
    }
    const Expr value = values.size() == 1
                           ? heddle::cast(types.accumulate, values[0])
                           : impl::product_in(types.accumulate, values[0], values[1]);
    return reduced.empty() ? value : sum_in(types.accumulate, value, reduced);
  };
  const Tensor sums = compute(shape, body, "einsum", "einsum", call.where);
  return impl::finish_contraction(call, sums, {}, 0, types);
}

}  // namespace

Tensor einsum(const std::string& equation, const Tensor& a, const Tensor& b, Precision precision,
              Where where) {
  const Call call{"einsum", where};
  impl::check_rank(call, a, "a", 0);
  impl::check_rank(call, b, "b", 0);
  return contract(call, equation, {a, b}, precision);
}

Tensor einsum(const std::string& equation, const Tensor& a, Precision precision, Where where) {
  const Call call{"einsum", where};
  impl::check_rank(call, a, "a", 0);
  return contract(call, equation, {a}, precision);
}

}  // namespace heddle::ops
