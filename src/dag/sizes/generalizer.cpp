#include "dag/sizes/generalizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "dag/creation_order.h"
#include "dag/same_combiner.h"
#include "heddle/ir/print.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"

namespace heddle::dag {
namespace {

const std::string kMultiples =
    "where strides or patches divide the dimension, give a range of their multiples, such as "
    "32..512/32";

[[noreturn]] void differs(const std::string& what, const std::string& help = "") {
  throw_user_error(
      "the declaration has other operations at other sizes: " + what, {},
      help.empty() ? "declare it with the operations of every size, or one size" : help);
}

/// The number that is `a` at size `at_a` and `b` at size `at_b`, as factor * size + constant.
/// nullopt where there are no such integers.
struct Line {
  int64_t factor = 0, constant = 0;
};
std::optional<Line> line_through(int64_t at_a, int64_t a, int64_t at_b, int64_t b) {
  if (at_a == at_b || (a - b) % (at_a - at_b) != 0) return std::nullopt;
  const int64_t factor = (a - b) / (at_a - at_b);
  return Line{factor, a - factor * at_a};
}

/// The positive count of elements that equals the number or its inverse; 0: none.
int64_t count_of(double value, DataType type, bool inverse) {
  constexpr double kMost = 1 << 24;  // above this, f32 has no odd numbers
  const double count = std::round(inverse ? 1 / value : value);
  if (!(count >= 1 && count <= kMost)) return 0;
  const double want = inverse ? 1 / count : count;
  const bool same = type == f32 ? static_cast<float>(want) == static_cast<float>(value)
                                : std::abs(want - value) <= 1e-9 * want;
  return same ? static_cast<int64_t>(count) : 0;
}

/// Walks the declarations at two sizes side by side and makes the one over the dimension.
class Generalizer {
 public:
  Generalizer(const Expr& n, int64_t at_a, int64_t at_b, const GeneralizeOptions& options)
      : n_(n), at_a_(at_a), at_b_(at_b), options_(options) {}

  Instance run(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    const CreationOrder of_a(a), of_b(b);
    check_counts(of_a, of_b);
    if (a.size() != b.size()) differs("their number is another");
    for (auto [x, y] = std::pair(of_a.axes.begin(), of_b.axes.begin()); x != of_a.axes.end();
         ++x, ++y)
      add(x->second, y->second);
    for (auto [x, y] = std::pair(of_a.operations.begin(), of_b.operations.begin());
         x != of_a.operations.end(); ++x, ++y) {
      name_ = described(*x->second);
      add(*x->second, *y->second);
    }
    for (const Tensor& t : a) made_.outputs.push_back(made_.of(t));
    return std::move(made_);
  }

 private:
  std::string described(const Operation& op) const {
    const std::string text = options_.describe ? options_.describe(op) : "";
    return text.empty() ? "'" + op.name() + "'" : text;
  }

  std::string shown(int64_t size) const { return std::to_string(size * options_.multiple); }

  /// Names the first operation that has no partner.
  void check_counts(const CreationOrder& a, const CreationOrder& b) const {
    if (a.operations.size() == b.operations.size() && a.axes.size() == b.axes.size()) return;
    auto y = b.operations.begin();
    for (const auto& [id, op] : a.operations) {
      if (y == b.operations.end() || op->name() != y->second->name() ||
          op->axes().size() != y->second->axes().size() ||
          op->reduce_axes().size() != y->second->reduce_axes().size())
        differs(described(*op) + " of size " + shown(at_a_) + " is not there at " + shown(at_b_));
      ++y;
    }
    differs("their number is another");
  }

  Expr number(int64_t a, int64_t b, const std::string& what) const {
    if (a == b) return Expr(a);
    const std::optional<Line> line = line_through(at_a_, a, at_b_, b);
    if (!line)
      differs(what + " is " + std::to_string(a) + " at " + shown(at_a_) + " and " +
                  std::to_string(b) + " at " + shown(at_b_),
              kMultiples);
    return n_ * line->factor + line->constant;
  }
  Expr extent(const Expr& a, const Expr& b, const std::string& what) {
    const int64_t *x = as_int(a), *y = as_int(b);
    if (x && y) return number(*x, *y, "the extent of " + what);
    if (equal(a, b)) return a;
    if (x || y) differs("the extent of " + what + " depends on other dimensions");
    return both(a, b);
  }

  /// Converts numbers of elements, and quotients by them.
  Expr real(const Expr& a, const Expr& b) {
    const double x = a.as<FloatImm>()->value, y = b.as<FloatImm>()->value;
    // Inverses are rounded once more where the size is written as a number.
    if (at_a_ == at_b_ && std::abs(x - y) <= 1e-6 * std::abs(x)) return a;
    for (const bool inverse : {false, true}) {
      const int64_t m = count_of(x, a.dtype(), inverse), n = count_of(y, a.dtype(), inverse);
      if (m == 0 || n == 0 || !line_through(at_a_, m, at_b_, n)) continue;
      const Expr count = cast(a.dtype(), number(m, n, "a number"));
      return inverse ? make_const(a.dtype(), 1) / count : count;
    }
    differs("the number " + to_string(a) + " in " + name_ + " is " + to_string(b) + " at size " +
                shown(at_b_),
            "write it with the dimension itself: cast(f32, n)");
  }

  void add(const Axis& a, const Axis& b) {
    if (a->kind != b->kind) differs("axis '" + a.name() + "' is of another kind");
    const Axis made(a.name(), extent(a->extent, b->extent, "axis '" + a.name() + "'"), a->kind);
    axes_.emplace(a.get(), made);
    vars_.emplace(a.var().get(), made.var().expr());
    partner_.emplace(a.var().get(), b.var().get());
    axis_partner_.emplace(a.get(), b.get());
  }

  /// The stage that both sizes have in common, which is checked at all of them. Extents that are no
  /// lines over the size, such as (n - 1) / 2, lie on one at both and not at others.
  Ref<const Operation> compute(const Operation& a, std::vector<Axis> axes,
                               std::vector<Expr> bodies) const {
    try {
      return Operation::make_compute(a.name(), std::move(axes), std::move(bodies), a.tag(),
                                     a.where());
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
      differs(name_ + " of sizes " + shown(at_a_) + " and " + shown(at_b_) +
                  " does not hold between them: " + e.message,
              kMultiples);
    }
  }

  void add(const Operation& a, const Operation& b) {
    if (a.kind() != b.kind() || a.num_outputs() != b.num_outputs() ||
        a.axes().size() != b.axes().size() || a.output(0).rank() != b.output(0).rank() ||
        a.output(0).dtype() != b.output(0).dtype())
      differs(name_ + " and '" + b.name() + "'");
    Ref<const Operation> made;
    if (a.is_placeholder()) {
      made = placeholder(a, b);
    } else {
      std::vector<Axis> axes;
      for (size_t d = 0; d < a.axes().size(); ++d) {
        if (axis_partner_.at(a.axes()[d].get()) != b.axes()[d].get()) differs("axes of " + name_);
        axes.push_back(axes_.at(a.axes()[d].get()));
      }
      std::vector<Expr> bodies;
      for (size_t i = 0; i < a.bodies().size(); ++i)
        bodies.push_back(both(a.bodies()[i], b.bodies()[i]));
      made = compute(a, std::move(axes), std::move(bodies));
    }
    for (int i = 0; i < a.num_outputs(); ++i) {
      made_.tensors.emplace_back(a.output(i), made->output(i));
      buffers_.emplace(a.output_buffer(i).get(), made->output_buffer(i));
      buffer_partner_.emplace(a.output_buffer(i).get(), b.output_buffer(i).get());
    }
  }

  Ref<const Operation> placeholder(const Operation& a, const Operation& b) {
    const auto known = std::find_if(options_.placeholders.begin(), options_.placeholders.end(),
                                    [&](const auto& pair) { return pair.first.op() == &a; });
    if (known != options_.placeholders.end()) return known->second.op_ref();
    Shape shape = a.output(0).shape();
    if (a.data() != nullptr || b.data() != nullptr) {
      if (a.data() == nullptr || b.data() == nullptr || !begins_with(*a.data(), *b.data()))
        differs("the values of " + name_);
    } else {
      for (size_t d = 0; d < shape.size(); ++d)
        shape[d] = extent(shape[d], b.output(0).shape()[d],
                          "dimension " + std::to_string(d) + " of " + name_);
    }
    return Operation::make_placeholder(std::move(shape), a.output(0).dtype(), a.name(),
                                       a.is_constant(), a.where(), a.shared_data());
  }

  Expr both(const Expr& a, const Expr& b) {
    if (const auto at = done_.find(a.get()); at != done_.end() && at->second.first.same_as(b))
      return at->second.second;
    const Expr made = both_new(a, b);
    done_.insert_or_assign(a.get(), std::pair(b, made));
    return made;
  }

  std::vector<Expr> all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    if (a.size() != b.size()) differs("operands in " + name_);
    std::vector<Expr> out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(both(a[i], b[i]));
    return out;
  }

  Expr both_new(const Expr& a, const Expr& b) {
    if (a.kind() != b.kind() || a.dtype() != b.dtype())
      differs("'" + to_string(a) + "' and '" + to_string(b) + "' in " + name_);
    switch (a.kind()) {
      case ExprKind::IntImm: {
        const int64_t x = a.as<IntImm>()->value, y = b.as<IntImm>()->value;
        if (x == y) return a;
        if (a.dtype() != i64) break;
        return number(x, y, "a number in " + name_);
      }
      case ExprKind::FloatImm: return equal(a, b) ? a : real(a, b);
      case ExprKind::Var: {
        const auto at = partner_.find(a.as<VarNode>());
        if (at == partner_.end() ? !a.same_as(b) : at->second != b.get()) break;
        return at == partner_.end() ? a : vars_.at(a.as<VarNode>());
      }
      case ExprKind::Load: {
        const auto *x = a.as<Load>(), *y = b.as<Load>();
        if (buffer_partner_.at(x->buffer.get()) != y->buffer.get()) break;
        return make_load(buffers_.at(x->buffer.get()), all(x->indices, y->indices));
      }
      case ExprKind::Reduce: {
        const auto *x = a.as<Reduce>(), *y = b.as<Reduce>();
        if (!same_combiner(*x->combiner, *y->combiner) || x->index != y->index ||
            x->axes.size() != y->axes.size())
          break;
        std::vector<Axis> axes;
        for (const Axis& axis : x->axes) axes.push_back(axes_.at(axis.get()));
        return make_reduce(x->combiner, all(x->sources, y->sources), std::move(axes), x->index);
      }
      default: {
        if (a.kind() == ExprKind::Unary && a.as<Unary>()->op != b.as<Unary>()->op) break;
        if (a.kind() == ExprKind::Binary && a.as<Binary>()->op != b.as<Binary>()->op) break;
        std::vector<Expr> others;
        for_each_child(b, [&](const Expr& c) { others.push_back(c); });
        size_t next = 0;
        return map_children(a, [&](const Expr& c) { return both(c, others.at(next++)); });
      }
    }
    differs("'" + to_string(a) + "' and '" + to_string(b) + "' in " + name_);
  }

  const Expr n_;
  const int64_t at_a_, at_b_;
  const GeneralizeOptions& options_;
  Instance made_;
  std::string name_;  ///< name of the current operation
  std::unordered_map<const AxisNode*, Axis> axes_;
  std::unordered_map<const AxisNode*, const AxisNode*> axis_partner_;
  std::unordered_map<const VarNode*, Expr> vars_;
  std::unordered_map<const VarNode*, const ExprNode*> partner_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
  std::unordered_map<const BufferNode*, const BufferNode*> buffer_partner_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> done_;
};

}  // namespace

bool begins_with(const NDArray& large, const NDArray& small) {
  if (large.dtype() != small.dtype() || large.shape().size() != small.shape().size()) return false;
  if (large.shape() == small.shape() && large.address() == small.address()) return true;
  const Extents &whole = large.shape(), &part = small.shape();
  for (size_t d = 0; d < whole.size(); ++d) {
    if (part[d] > whole[d]) return false;
  }
  const auto bytes = static_cast<int64_t>(large.dtype().bytes());
  const int64_t row = part.empty() ? 1 : part.back();
  const auto* from = static_cast<const char*>(large.data());
  const auto* to = static_cast<const char*>(small.data());
  for (int64_t at = 0; at < small.size(); at += row) {
    int64_t offset = 0, rest = at, stride = 1;
    for (size_t d = whole.size(); d-- > 0;) {
      offset += rest % part[d] * stride;
      rest /= part[d];
      stride *= whole[d];
    }
    if (std::memcmp(from + offset * bytes, to + at * bytes, static_cast<size_t>(row * bytes)) != 0)
      return false;
  }
  return true;
}

Instance generalized(const Expr& n, const AtSize& a, const AtSize& b,
                     const GeneralizeOptions& options) {
  return Generalizer(n, a.size, b.size, options).run(a.outputs, b.outputs);
}

void check_at_size(const SizeValue& at, const std::vector<Tensor>& family,
                   const std::vector<Tensor>& outputs, const GeneralizeOptions& options) {
  const Instance here = plain_form(family, {at}), want = plain_form(outputs);
  GeneralizeOptions own{.multiple = options.multiple};
  own.describe = [&](const Operation& op) -> std::string {
    const auto of_family = std::find_if(here.tensors.begin(), here.tensors.end(),
                                        [&](const auto& pair) { return pair.second.op() == &op; });
    if (!options.describe || of_family == here.tensors.end()) return "";
    return options.describe(*of_family->first.op());
  };
  try {
    Generalizer(at.size.expr(), at.value, at.value, own).run(here.outputs, want.outputs);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    throw Error(e.kind,
                e.message + " (what is declared at size " +
                    std::to_string(at.value * own.multiple) + " of '" + at.size->name +
                    "' is not what larger sizes have in common)",
                e.where, e.help);
  }
}

}  // namespace heddle::dag
