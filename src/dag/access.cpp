// How a stage reads its producers.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "dag/internal.h"
#include "heddle/ir/print.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

/// Collects the loads of expressions, each distinct one once, in order of appearance.
class ReadCollector {
 public:
  void collect(const Expr& e, bool guarded) {
    // Expressions are graphs. Each node is visited at most once without a guard and once with one.
    const int bit = guarded ? 1 : 2;
    int& seen = seen_[e.get()];
    if ((seen & bit) != 0 || (seen & 2) != 0) return;
    seen |= bit;
    if (const auto* load = e.as<Load>()) add(*load, guarded);
    if (const auto* s = e.as<Select>()) {
      collect(s->condition, guarded);
      collect(s->on_true, true);
      collect(s->on_false, true);
      return;
    }
    for_each_child(e, [&](const Expr& child) { collect(child, guarded); });
  }
  /// Networks of thousands of stages keep their reads, so they take no more memory than they need.
  std::vector<Access> take() {
    reads_.shrink_to_fit();
    return std::move(reads_);
  }

 private:
  void add(const Load& load, bool guarded) {
    const auto same = std::find_if(reads_.begin(), reads_.end(), [&](const Access& r) {
      return r.buffer == load.buffer &&
             std::equal(r.indices.begin(), r.indices.end(), load.indices.begin(),
                        load.indices.end(),
                        [](const Expr& x, const Expr& y) { return equal(x, y); });
    });
    if (same != reads_.end()) {
      same->guarded = same->guarded && guarded;
      return;
    }
    Access read;
    read.tensor = tensor_of(load.buffer);
    read.buffer = load.buffer;
    read.indices = load.indices;
    read.guarded = guarded;
    reads_.push_back(std::move(read));
  }

  std::unordered_map<const ExprNode*, int> seen_;
  std::vector<Access> reads_;
};

/// The analysis of one read in the iteration space of its consumer.
class ReadAnalysis {
 public:
  ReadAnalysis(const std::vector<Axis>& axes, const std::vector<Axis>& reduce_axes)
      : axes_(axes), reduce_axes_(reduce_axes) {
    for (const std::vector<Axis>* list : {&axes_, &reduce_axes_}) {
      for (const Axis& a : *list) {
        ranges_.set(a.var(), {0, a.largest_extent() - 1});
      }
    }
  }

  void analyze(Access& read) const {
    read.affine.reserve(read.indices.size());
    for (const Expr& index : read.indices) {
      std::optional<Affine> affine = as_affine(index);
      // Ranges may resolve an index that is not written as an affine one: floordiv(4*i + r, 4) for
      // r < 4.
      if (!affine) affine = as_affine(simplify(index, ranges_));
      read.affine.push_back(std::move(affine));
    }
    read.pattern = pattern(read);
    for (std::size_t p = 0; p < axes_.size(); ++p) {
      if (is_trivial(axes_[p])) continue;
      if (!read.depends_on(axes_[p])) {
        read.reuse_axes.push_back(static_cast<int>(p));
      } else if (is_window(read, axes_[p])) {
        read.window_axes.push_back(static_cast<int>(p));
      }
    }
  }

 private:
  static bool is_trivial(const Axis& a) {
    return dag::extent_of(a->extent) == 1 && as_int(a->extent);
  }

  /// The position of the spatial axis whose variable `term` contains, or -1.
  int spatial_position(const Affine::Term& term) const {
    for (std::size_t p = 0; p < axes_.size(); ++p) {
      if (axes_[p].var().same_as(term.var)) return static_cast<int>(p);
    }
    return -1;
  }
  bool is_reduce(const Affine::Term& term) const {
    return std::any_of(reduce_axes_.begin(), reduce_axes_.end(),
                       [&](const Axis& a) { return a.var().same_as(term.var); });
  }

  /// The position of the spatial axis that is the index of dimension `d`; -1 for a constant, -2 for
  /// any other index.
  int exact_axis(const Access& read, std::size_t d) const {
    const Affine& a = *read.affine[d];
    if (a.terms.empty()) return -1;
    const int p = spatial_position(a.terms[0]);
    const bool exact = a.terms.size() == 1 && a.terms[0].coefficient == 1 && a.constant == 0;
    return exact && p >= 0 ? p : -2;
  }

  bool is_elementwise(const Access& read) const {
    if (read.indices.size() != axes_.size()) return false;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      const int p = exact_axis(read, d);
      const bool zero = p == -1 && read.affine[d]->constant == 0 && is_trivial(axes_[d]);
      if (p != static_cast<int>(d) && !zero) return false;
    }
    return true;
  }

  bool is_broadcast(const Access& read) const {
    int last = -1;
    for (std::size_t d = 0; d < read.indices.size(); ++d) {
      const int p = exact_axis(read, d);
      if (p == -1) continue;
      if (p <= last) return false;
      last = p;
    }
    return true;
  }

  /// Whether no dimension has two axes, no axis occurs twice, and no reduce axis occurs.
  bool is_injective(const Access& read) const {
    std::vector<bool> used(axes_.size());
    for (const auto& affine : read.affine) {
      if (affine->terms.empty()) continue;
      const int p = spatial_position(affine->terms[0]);
      if (affine->terms.size() > 1 || p < 0 || used[static_cast<std::size_t>(p)]) return false;
      used[static_cast<std::size_t>(p)] = true;
    }
    return true;
  }

  AccessPattern pattern(const Access& read) const {
    if (!std::all_of(read.affine.begin(), read.affine.end(),
                     [](const auto& a) { return a.has_value(); })) {
      return AccessPattern::Opaque;
    }
    if (is_elementwise(read)) return AccessPattern::Elementwise;
    if (is_broadcast(read)) return AccessPattern::Broadcast;
    if (is_injective(read)) return AccessPattern::Injective;
    return AccessPattern::Affine;
  }

  /// The one dimension whose index uses `v`, or -1: with a second one, different points read
  /// different elements after all. -1 too if `v` is in an index that is not affine.
  static int only_dimension(const Access& read, const Var& v) {
    int found = -1;
    for (std::size_t d = 0; d < read.indices.size(); ++d) {
      const bool uses =
          read.affine[d] ? read.affine[d]->coefficient(v) != 0 : uses_var(read.indices[d], v);
      if (!uses) continue;
      if (found >= 0 || !read.affine[d]) return -1;
      found = static_cast<int>(d);
    }
    return found;
  }

  /// Whether two points along `axis` read the same element because another axis compensates the
  /// difference.
  bool is_window(const Access& read, const Axis& axis) const {
    const int d = only_dimension(read, axis.var());
    if (d < 0) return false;
    const Affine& index = *read.affine[static_cast<std::size_t>(d)];
    const int64_t step = std::abs(index.coefficient(axis.var()));
    const auto overlaps_with = [&](const Axis& other) {
      const int64_t other_step = std::abs(index.coefficient(other.var()));
      if (other_step == 0 || other.same_as(axis)) return false;
      if (only_dimension(read, other.var()) != d) return false;
      // step * y == other_step * r first holds for y = other_step / g and r = step / g.
      const int64_t g = std::gcd(step, other_step);
      return other_step / g < dag::extent_of(axis->extent) &&
             step / g < dag::extent_of(other->extent);
    };
    return std::any_of(reduce_axes_.begin(), reduce_axes_.end(), overlaps_with) ||
           std::any_of(axes_.begin(), axes_.end(), overlaps_with);
  }

  const std::vector<Axis>& axes_;
  const std::vector<Axis>& reduce_axes_;
  Ranges ranges_;
};

}  // namespace

const char* to_string(AccessPattern p) {
  switch (p) {
    case AccessPattern::Elementwise: return "elementwise";
    case AccessPattern::Broadcast: return "broadcast";
    case AccessPattern::Injective: return "injective";
    case AccessPattern::Affine: return "affine";
    case AccessPattern::Opaque: return "opaque";
  }
  return "?";
}

bool Access::depends_on(const Axis& a) const {
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const bool uses =
        affine[d] ? affine[d]->coefficient(a.var()) != 0 : uses_var(indices[d], a.var());
    if (uses) return true;
  }
  return false;
}

std::vector<Access> internal::analyze_reads(const std::vector<Expr>& bodies,
                                            const std::vector<Axis>& axes,
                                            const std::vector<Axis>& reduce_axes) {
  ReadCollector collector;
  for (const Expr& body : bodies) collector.collect(body, false);
  std::vector<Access> reads = collector.take();
  const ReadAnalysis analysis(axes, reduce_axes);
  for (Access& read : reads) analysis.analyze(read);
  return reads;
}

namespace dag {

int64_t extent_of(const Expr& extent) { return largest_extent(extent); }

std::string join_words(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

const std::vector<Expr>& inner_bodies(const Operation& op) {
  const auto* reduce = op.bodies().empty() ? nullptr : op.bodies()[0].as<Reduce>();
  return reduce != nullptr ? reduce->sources : op.bodies();
}

std::string read_name(const Access& read, const std::vector<Access>& reads) {
  const auto same = std::count_if(reads.begin(), reads.end(),
                                  [&](const Access& r) { return r.buffer == read.buffer; });
  if (same < 2) return read.buffer->name;
  return to_string(make_load(read.buffer, read.indices));
}

}  // namespace dag
}  // namespace heddle
