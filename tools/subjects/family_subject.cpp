#include "subjects/family_subject.h"

#include <cctype>
#include <charconv>
#include <utility>

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

/// The range around the dots at `dots`.
RangeText range_of(const std::string& subject, size_t dots) {
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

std::vector<RangeText> ranges_of(const std::string& subject) {
  constexpr size_t kMost = 3;
  std::vector<RangeText> ranges;
  for (size_t dots = subject.find(".."); dots != std::string::npos;
       dots = subject.find("..", ranges.back().end)) {
    ranges.push_back(range_of(subject, dots));
    if (ranges.size() > kMost)
      throw_user_error("'" + subject + "' has more than three ranges", {},
                       "declare families over more in C++ (dsl/dim.h)");
  }
  return ranges;
}

/// Declares a subject over its dimensions, from the last one to the first.
class Declarer {
 public:
  Declarer(const std::string& subject, DataType dtype, const std::vector<Dim>& dims)
      : subject_(subject), dtype_(dtype), dims_(dims), ranges_(ranges_of(subject)) {}

  std::vector<Tensor> args() {
    over(0);
    return largest_;
  }

 private:
  /// The subject at the sizes of the dimensions before `dim`, over `dim` and those behind it.
  std::vector<Tensor> over(size_t dim) {
    if (dim == dims_.size()) {
      const Problem p = make_problem(at_sizes(), dtype_);
      if (largest_.empty()) largest_ = p.args();
      return p.outputs;
    }
    sizes_.push_back(0);
    // Only the first call is for the largest size, of this and of the dimensions before it.
    const bool first = largest_.empty();
    std::vector<Tensor> args;
    const Generalized family = generalize(dims_[dim], [&](int64_t size) {
      sizes_[dim] = size;
      std::vector<Tensor> outputs = over(dim + 1);
      if (args.empty()) args = largest_;
      return outputs;
    });
    sizes_.pop_back();
    if (first) {
      const Instance tensors{{}, family.tensors};
      largest_ = tensors.of(args);
    }
    return family.outputs;
  }

  std::string at_sizes() const {
    std::string text;
    size_t from = 0;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      text += subject_.substr(from, ranges_[i].begin - from) + std::to_string(sizes_[i]);
      from = ranges_[i].end;
    }
    return text + subject_.substr(from);
  }

  const std::string& subject_;
  const DataType dtype_;
  const std::vector<Dim>& dims_;
  std::vector<RangeText> ranges_;
  std::vector<int64_t> sizes_;   ///< of the dimensions that are fixed
  std::vector<Tensor> largest_;  ///< the arguments, over the dimensions that were made so far
};

}  // namespace

bool is_family(const std::string& subject) {
  const size_t colon = subject.find(':'), dots = subject.find("..");
  if (colon == std::string::npos || dots == std::string::npos || dots < colon) return false;
  // Dots in the path of a model are not a range.
  return subject.find_first_of("./") >= colon;
}

FamilySubject family_subject(const std::string& subject, DataType dtype) {
  constexpr const char* kNames[] = {"n", "m", "l"};
  std::vector<Dim> dims;
  for (const RangeText& r : ranges_of(subject)) {
    const Dim d = dim(kNames[dims.size()], r.lo, r.hi);
    dims.push_back(r.multiple != 1 ? d.multiple_of(r.multiple) : d);
  }
  std::vector<Tensor> args = Declarer(subject, dtype, dims).args();
  return {subject, std::move(dims), std::move(args)};
}

}  // namespace heddle::cli
