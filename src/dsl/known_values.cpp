#include "dsl/known_values.h"

#include <algorithm>

#include "heddle/ir/simplify.h"
#include "heddle/runtime/ndarray.h"
#include "ir/interval.h"

namespace heddle {
namespace {

/// Numbers that are looked at as values at most; more stay a formula.
constexpr int64_t kMostPositions = 1 << 20;

/// Those of a formula that grows evenly along each dimension, as positions do. Casts that could change one are none.
std::optional<std::vector<int64_t>> positions(const Operation& op, Expr body) {
  std::vector<DataType> through;
  while (const Cast* c = body.as<Cast>()) {
    through.push_back(body.dtype());
    body = c->value;
  }
  if (op.is_reduction() || op.axes().empty() || body.dtype() != i64) return std::nullopt;
  const std::optional<Affine> f = as_affine(body);
  if (!f) return std::nullopt;
  std::vector<int64_t> values{f->constant};
  size_t terms = 0;
  for (const Axis& a : op.axes()) {
    const int64_t* extent = as_int(a->extent);
    if (extent == nullptr || *extent > kMostPositions / std::max<int64_t>(1, std::ssize(values)))
      return std::nullopt;
    const int64_t each = f->coefficient(a.var());
    terms += each != 0 ? 1 : 0;
    std::vector<int64_t> next;
    for (const int64_t v : values)
      for (int64_t i = 0; i < *extent; ++i) next.push_back(v + i * each);
    values = std::move(next);
  }
  const auto keeps = [&](DataType t) {
    if (!t.is_integral() || t.is_bool()) return false;
    const Interval all = range_of_type(t);
    return std::ranges::all_of(values, [&](int64_t v) { return all.min <= v && v <= all.max; });
  };
  if (terms != f->terms.size() || !std::ranges::all_of(through, keeps)) return std::nullopt;
  return values;
}

}  // namespace

std::optional<std::vector<int64_t>> known_integers(const Tensor& tensor) {
  const Operation& op = *tensor.op();
  if (!op.is_placeholder()) {
    const Expr& body = op.bodies()[static_cast<size_t>(tensor.index())];
    if (const int64_t* one = as_int(body)) return std::vector<int64_t>{*one};
    return body.dtype().is_integral() ? positions(op, body) : std::nullopt;
  }
  const NDArray* array = op.data();
  if (array == nullptr || !array->dtype().is_integral()) return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array->size(); ++i) {
    const bool wide = array->dtype().bits == 64 && !array->dtype().is_bool();
    values.push_back(wide ? array->data<int64_t>()[i] : static_cast<int64_t>(array->get(i)));
  }
  return values;
}

}  // namespace heddle
