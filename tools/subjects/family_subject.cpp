#include "subjects/family_subject.h"

#include <cctype>
#include <charconv>
#include <optional>

#include "heddle/dag/generalize.h"
#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

/// The position of the range in the text, and its numbers.
struct RangeText {
  size_t begin = 0, end = 0;
  int64_t lo = 0, hi = 0, multiple = 1;
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

int64_t number(const std::string& text, size_t* at, const std::string& subject) {
  const char* first = text.data() + *at;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
  if (error != std::errc() || end == first)
    throw_user_error("'" + subject + "' has a range without two whole numbers", {},
                     "for example matmul:1..2048x768x768");
  *at += static_cast<size_t>(end - first);
  return value;
}

RangeText range_of(const std::string& subject) {
  const size_t dots = subject.find("..");
  if (subject.find("..", dots + 2) != std::string::npos)
    throw_user_error("'" + subject + "' has two ranges", {},
                     "a subject has one; declare families over more in C++ (dsl/dim.h)");
  RangeText r;
  r.begin = dots;
  while (r.begin > 0 && is_digit(subject[r.begin - 1])) --r.begin;
  size_t at = r.begin;
  r.lo = number(subject, &at, subject);
  at = dots + 2;
  r.hi = number(subject, &at, subject);
  if (at < subject.size() && subject[at] == '/') r.multiple = number(subject, &++at, subject);
  r.end = at;
  return r;
}

}  // namespace

bool is_family(const std::string& subject) {
  const size_t colon = subject.find(':'), dots = subject.find("..");
  if (colon == std::string::npos || dots == std::string::npos || dots < colon) return false;
  // Dots in the path of a model are not a range.
  return subject.find_first_of("./") >= colon;
}

FamilySubject family_subject(const std::string& subject, DataType dtype) {
  const RangeText r = range_of(subject);
  Dim n = dim("n", r.lo, r.hi);
  if (r.multiple != 1) n = n.multiple_of(r.multiple);
  std::optional<Problem> largest;
  const Generalized family = generalize(n, [&](int64_t size) {
    Problem p = make_problem(
        subject.substr(0, r.begin) + std::to_string(size) + subject.substr(r.end), dtype);
    std::vector<Tensor> outputs = p.outputs;
    if (!largest) largest = std::move(p);
    return outputs;
  });
  FamilySubject out{subject, {n}, {}};
  const Instance tensors{{}, family.tensors};
  for (const Tensor& t : largest->args()) out.args.push_back(tensors.of(t));
  return out;
}

}  // namespace heddle::cli
