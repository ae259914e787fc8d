#include <algorithm>
#include <cctype>
#include <map>

#include "heddle/ops/linalg.h"
#include "ops/contraction.h"

namespace heddle::ops {
namespace {

using impl::Call;

/// The letters of the dimensions of each operand and of the result. Those that "..." stands for
/// are the digits that number them from the last one.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

constexpr char kEllipsis = '.';
constexpr int kMostDigits = 10;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// `text` without spaces and with one character for "...". Calls `bad` for what is no letter.
template <class F>
std::string compact(const std::string& text, F bad) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (text.compare(i, 3, "...") == 0) {
      out += kEllipsis;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == ',' || c == '-' || c == '>') {
      out += c;
    } else {
      bad(std::string("has '") + c + "' where a letter is expected");
    }
  }
  return out;
}

Equation parse(const Call& call, const std::string& text) {
  const auto bad = [&](const std::string& why) {
    impl::fail(call, "'" + text + "' " + why, "write it as in \"ij,jk->ik\"");
  };
  const std::string all = compact(text, bad);
  const size_t arrow = all.find("->");
  const std::string left = all.substr(0, arrow);
  Equation equation{{""}, ""};
  for (char c : left) {
    if (c == ',')
      equation.operands.emplace_back();
    else if (c == '-' || c == '>')
      bad(std::string("has '") + c + "' where a letter is expected");
    else
      equation.operands.back() += c;
  }
  if (arrow == std::string::npos) {
    std::map<char, int> counts;  // in alphabetical order, behind the dimensions of "..."
    for (const std::string& operand : equation.operands)
      for (char c : operand) ++counts[c];
    for (const auto& [letter, count] : counts)
      if (count == 1 || letter == kEllipsis) equation.result += letter;
  } else {
    equation.result = all.substr(arrow + 2);
  }
  for (char c : equation.result) {
    const std::string what = c == kEllipsis ? "'...'" : std::string("'") + c + "'";
    if (c != kEllipsis && !std::isalpha(static_cast<unsigned char>(c)))
      bad("has " + what + " where a letter is expected");
    if (std::count(equation.result.begin(), equation.result.end(), c) > 1)
      bad("has " + what + " twice in its result");
    if (left.find(c) == std::string::npos) bad("has " + what + " in its result only");
  }
  for (const std::string& operand : equation.operands)
    if (std::count(operand.begin(), operand.end(), kEllipsis) > 1)
      bad("has '...' twice in one operand");
  if (left.find(kEllipsis) != std::string::npos &&
      equation.result.find(kEllipsis) == std::string::npos)
    bad("has '...' in its operands only");
  return equation;
}

/// Puts digits for as many dimensions as "..." stands for.
void expand(const Call& call, const std::vector<Tensor>& operands, Equation& equation) {
  int most = 0;
  const auto put = [](std::string& letters, int count) {
    const size_t at = letters.find(kEllipsis);
    if (at == std::string::npos) return;
    std::string digits;
    for (int d = count; d-- > 0;) digits += static_cast<char>('0' + d);
    letters.replace(at, 1, digits);
  };
  for (size_t o = 0; o < operands.size(); ++o) {
    std::string& letters = equation.operands[o];
    const bool open = letters.find(kEllipsis) != std::string::npos;
    const int named = static_cast<int>(letters.size()) - (open ? 1 : 0);
    impl::check_rank(call, operands[o], o == 0 ? "a" : "b", named,
                     open ? named + kMostDigits : named);
    const int count = operands[o].rank() - named;
    if (open) most = std::max(most, count);
    put(letters, count);
  }
  put(equation.result, most);
}

Tensor contract(const Call& call, const std::string& text, const std::vector<Tensor>& operands,
                const Precision& precision) {
  Equation equation = parse(call, text);
  if (equation.operands.size() != operands.size())
    impl::fail(call,
               "'" + text + "' has " + std::to_string(equation.operands.size()) + " operands but " +
                   std::to_string(operands.size()) + " are given",
               "contract more than two operands two at a time");
  expand(call, operands, equation);
  std::map<char, int64_t> extents;
  std::string summed;
  for (size_t o = 0; o < operands.size(); ++o) {
    for (size_t d = 0; d < equation.operands[o].size(); ++d) {
      const char letter = equation.operands[o][d];
      const int64_t extent = operands[o].extent(static_cast<int>(d));
      const auto [entry, is_new] = extents.emplace(letter, extent);
      if (is_digit(letter) && entry->second == 1) entry->second = extent;
      if (entry->second != extent && !(is_digit(letter) && extent == 1))
        impl::fail(call, (is_digit(letter) ? std::string("a dimension of '...'")
                                           : std::string("index '") + letter + "'") +
                             " of '" + text + "' has extents " + std::to_string(entry->second) +
                             " and " + std::to_string(extent));
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
      for (char letter : equation.operands[o]) {
        const bool repeated =
            extents[letter] > 1 && operands[o].extent(static_cast<int>(indices.size())) == 1;
        indices.push_back(repeated ? Expr(0) : Expr(axes[letter]));
      }
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
