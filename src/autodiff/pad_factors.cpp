#include "autodiff/pad_factors.h"
#include "autodiff/derivative.h"

#include <algorithm>
#include <utility>

#include "ir/reads.h"
#include "ir/replace.h"

namespace heddle::autodiff {
namespace {

/// The factors of a product, through conversions.
void add_factors(const Expr& e, std::vector<Expr>* to) {
  if (const Binary* b = e.as<Binary>(); b && b->op == BinaryOp::Mul) {
    add_factors(b->a, to);
    add_factors(b->b, to);
  } else if (const Cast* c = e.as<Cast>(); c && c->value.dtype().is_float()) {
    add_factors(c->value, to);
  } else {
    to->push_back(e);
  }
}

/// How far the indices of a read are outside of its tensor.
struct Padding {
  Expr read;
  std::vector<int64_t> before, after;

  bool any() const {
    const auto some = [](int64_t v) { return v > 0; };
    return std::ranges::any_of(before, some) || std::ranges::any_of(after, some);
  }
};

/// The padding of a read; nothing where the bounds of an index are not known.
std::optional<Padding> padding_of(const Expr& read, const Ranges& ranges) {
  const Load& load = *read.as<Load>();
  Padding p{read, {}, {}};
  for (size_t d = 0; d < load.indices.size(); ++d) {
    const int64_t* extent = as_int(load.buffer->shape[d]);
    const Interval r = range_of(load.indices[d], ranges);
    if (!extent || !r.bounded()) return {};
    p.before.push_back(std::max<int64_t>(0, -r.min));
    p.after.push_back(std::max<int64_t>(0, r.max + 1 - *extent));
  }
  return p;
}

/// Whether the read is padded wherever the bound does not hold.
bool covers(const Load& load, const Bound& bound) {
  for (size_t d = 0; d < load.indices.size(); ++d)
    if (equal(load.indices[d], bound.value) && equal(load.buffer->shape[d], bound.extent))
      return true;
  return false;
}

Tensor padded(const Tensor& t, const Padding& p, const Where& where) {
  Shape shape;
  for (size_t d = 0; d < t.shape().size(); ++d)
    shape.push_back(t.shape()[d] + (p.before[d] + p.after[d]));
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        Expr inside;
        std::vector<Expr> at;
        for (size_t d = 0; d < i.size(); ++d) {
          if (p.before[d] > 0) inside = both_of(inside, i[d] >= p.before[d]);
          if (p.after[d] > 0) inside = both_of(inside, i[d] < t.shape()[d] + p.before[d]);
          at.push_back(i[d] - p.before[d]);
        }
        return select(inside, t.at(std::move(at)), make_const(t.dtype(), 0));
      },
      t.name() + ".pad", "pad", where);
}

}  // namespace

std::optional<Expr> pad_factors(const Expr& value, const std::vector<Bound>& bounds,
                                const Ranges& ranges, const Where& where) {
  std::vector<Expr> factors;
  Expr product = simplify(value, ranges);
  add_factors(product, &factors);
  std::vector<Padding> reads;
  for (const Expr& f : factors) {
    if (is_const(f)) continue;
    if (!f.as<Load>()) return {};
    std::optional<Padding> p = padding_of(f, ranges);
    if (!p) return {};
    reads.push_back(std::move(*p));
  }
  if (reads.size() < 2) return {};
  for (const Bound& b : bounds) {
    if (std::none_of(reads.begin(), reads.end(),
                     [&](const Padding& p) { return covers(*p.read.as<Load>(), b); }))
      return {};
  }
  for (const Padding& p : reads) {
    if (!p.any()) continue;
    const Load& load = *p.read.as<Load>();
    std::vector<Expr> at;
    for (size_t d = 0; d < load.indices.size(); ++d)
      at.push_back(simplify(load.indices[d] + p.before[d], ranges));
    const Expr read = padded(tensor_of(load.buffer), p, where).at(std::move(at));
    product = replace_equal(product, p.read, read);
  }
  return product;
}

}  // namespace heddle::autodiff
