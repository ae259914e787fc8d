#include "heddle/dag/computed_matrix.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "dag/patterns/look_through.h"
#include "dag/patterns/plain_dimension.h"
#include "heddle/ir/simplify.h"
#include "ir/linear.h"

namespace heddle {
namespace {

/// The elements that `a` reads where the axes of `op`, its reader, have the values `at`.
std::vector<Expr> places_of(const Access& a, const Operation& op, const std::vector<Expr>& at) {
  std::vector<Expr> places;
  for (const Expr& index : a.indices) places.push_back(simplify(dag::at_indices(op, index, at)));
  return places;
}

/// Whether no index depends on data. Lines and depths are plain axes (plain_dimension); the other indices, such
/// as that of the head that several heads of queries read, are the same for a tile.
bool is_known(const Access& a) {
  return std::none_of(a.indices.begin(), a.indices.end(),
                      [](const Expr& i) { return has_load(i); });
}

/// Whether `factor` is a load of f32, or the cast of a load of a 16-bit float.
bool is_operand(const Expr& factor) {
  if (factor.kind() == ExprKind::Load) return factor.dtype() == f32;
  const Cast* wide = factor.as<Cast>();
  const bool load = wide && wide->value.kind() == ExprKind::Load;
  return load && (wide->value.dtype() == f16 || wide->value.dtype() == bf16);
}

/// The two reads of a sum of products over `axes` axes that accumulates in f32.
std::optional<std::pair<const Access*, const Access*>> factors_of(const ComputeDag& dag, int s,
                                                                  size_t axes = 1) {
  const Operation& op = dag.stage(s);
  const Reduce* r = dag::reduction_of(op, ReduceKind::Sum, axes);
  const Binary* mul = r ? r->sources[0].as<Binary>() : nullptr;
  const std::vector<Access>& reads = dag.info(s).reads;
  if (!mul || mul->op != BinaryOp::Mul || mul->dtype != f32 || reads.size() != 2 ||
      reads[0].producer == reads[1].producer)
    return {};
  if (!is_operand(mul->a) || !is_operand(mul->b)) return {};
  if (reads[0].tensor.dtype() != reads[1].tensor.dtype() || !is_known(reads[0]) ||
      !is_known(reads[1]))
    return {};
  return std::pair(&reads[0], &reads[1]);
}

/// The dimension along which lines of an operand lie, of which several may lie side by side in memory: 16-bit
/// floats of whole units of tensor cores. Otherwise `axis` is plain.
int line_dimension(const Access& operand, const Axis& axis, std::span<const Axis> tile) {
  constexpr int64_t kUnit = 16;
  if (operand.tensor.dtype().bytes() != 2 || axis.extent() % kUnit != 0)
    return dag::plain_dimension(operand, axis);
  return dag::plain_dimension(operand, axis, tile);
}

class Finder {
 public:
  Finder(const ComputeDag& dag, int stage, const std::function<bool(int)>& inside)
      : dag_(dag), op_(dag.stage(stage)), inside_(inside) {
    m_.sum = stage;
  }

  std::optional<ComputedMatrix> run() {
    if (!op_.is_reduction() || op_.num_outputs() != 1 || op_.reduce_axes().empty() ||
        !has_extents(op_))
      return {};
    find_key();
    if (!multiplies() && !reduces_rows()) return {};
    m_.keys = key().extent();
    m_.summed = dag_.info(m_.sum).reduce_points / m_.keys;
    m_.rows = op_.axes()[static_cast<size_t>(m_.row)].extent();
    if (m_.col >= 0) m_.cols = op_.axes()[static_cast<size_t>(m_.col)].extent();
    for (const Axis& a : op_.axes()) m_.batches *= a.extent();
    m_.batches /= std::max<int64_t>(1, m_.rows * m_.cols);
    for (const auto& [s, taken] : seen_) m_.fused.push_back(s);
    return std::move(m_);
  }

 private:
  const Axis& key() const { return op_.reduce_axes()[static_cast<size_t>(m_.key)]; }
  /// The longest reduce axis.
  void find_key() {
    for (size_t k = 0; k < op_.reduce_axes().size(); ++k) {
      if (op_.reduce_axes()[k].extent() >= key().extent()) m_.key = static_cast<int>(k);
    }
  }
  /// Whether `a`, at `place`, is the same in all matrices that a result adds up.
  bool is_of_result(const Access& a, const Operation& reader,
                    const std::vector<Expr>& place) const {
    const std::vector<Expr> indices = places_of(a, reader, place);
    return std::all_of(op_.reduce_axes().begin(), op_.reduce_axes().end(), [&](const Axis& k) {
      return k.same_as(key()) || std::none_of(indices.begin(), indices.end(),
                                              [&](const Expr& i) { return uses_var(i, k.var()); });
    });
  }

  static bool has_extents(const Operation& op) {
    const auto known = [](const Axis& a) { return as_int(a->extent) != nullptr && a.extent() > 0; };
    return std::all_of(op.axes().begin(), op.axes().end(), known) &&
           std::all_of(op.reduce_axes().begin(), op.reduce_axes().end(), known);
  }

  /// sum over j of matrix[i, j] * value[j, c]
  bool multiplies() {
    const auto factors = factors_of(dag_, m_.sum, 0);
    if (!factors) return false;
    m_.type = factors->first->tensor.dtype();
    for (const auto& [w, v] : {*factors, std::pair(factors->second, factors->first)}) {
      m_.row = longest_of(*w, *v);
      m_.col = longest_of(*v, *w);
      if (m_.row < 0 || m_.col < 0) continue;
      const std::array tile{axis(m_.row), axis(m_.col), key()};
      m_.value = {v->producer, line_dimension(*v, axis(m_.col), tile),
                  dag::plain_dimension(*v, key())};
      if (m_.value.line_dim >= 0 && m_.value.depth_dim >= 0 && take_matrix(*w)) return true;
    }
    return false;
  }

  /// max over j of matrix[i, j]
  bool reduces_rows() {
    const Reduce* r = op_.bodies()[0].as<Reduce>();
    const std::vector<Access>& reads = dag_.info(m_.sum).reads;
    const bool plain = r && op_.reduce_axes().size() == 1 && r->sources.size() == 1 &&
                       r->sources[0].kind() == ExprKind::Load && reads.size() == 1 &&
                       is_known(reads[0]) && op_.output(0).dtype() == f32;
    if (!plain || (r->combiner->kind != ReduceKind::Sum && r->combiner->kind != ReduceKind::Max &&
                   r->combiner->kind != ReduceKind::Min))
      return false;
    m_.col = -1;
    m_.cols = 1;
    m_.row = -1;
    for (size_t i = 0; i < op_.axes().size(); ++i) {
      if (dag::plain_dimension(reads[0], op_.axes()[i]) >= 0 &&
          is_longer(static_cast<int>(i), m_.row))
        m_.row = static_cast<int>(i);
    }
    return m_.row >= 0 && take_matrix(reads[0]);
  }

  const Axis& axis(int i) const { return op_.axes()[static_cast<size_t>(i)]; }
  bool is_longer(int i, int than) const {
    return axis(i).extent() > 1 && (than < 0 || axis(i).extent() >= axis(than).extent());
  }
  /// The longest axis that `a` has and `other` has not: of several, the others count as batches.
  int longest_of(const Access& a, const Access& other) const {
    int found = -1;
    for (int i = 0; i < static_cast<int>(op_.axes().size()); ++i) {
      if (a.depends_on(axis(i)) && !other.depends_on(axis(i)) && is_longer(i, found)) found = i;
    }
    return found;
  }

  bool take_matrix(const Access& a) {
    seen_.clear();
    stored_.clear();
    m_.products.clear();
    m_.matrix = a.producer;
    m_.row_dim = dag::plain_dimension(a, axis(m_.row));
    m_.key_dim = dag::plain_dimension(a, key());
    const Dims dims{m_.row_dim, m_.key_dim};
    const std::vector<Expr>& place = a.indices;
    return m_.row_dim >= 0 && m_.key_dim >= 0 &&
           (is_between(m_.matrix) ? take(m_.matrix, dims, place) : take_product(a, dims, place)) &&
           !m_.products.empty() && one_type();
  }
  bool one_type() {
    if (m_.col < 0) m_.type = dag_.info(m_.products[0].stage).reads[0].tensor.dtype();
    return std::all_of(m_.products.begin(), m_.products.end(), [&](const auto& p) {
      return dag_.info(p.stage).reads[0].tensor.dtype() == m_.type;
    });
  }

  bool is_between(int s) const {
    const Operation& op = dag_.stage(s);
    const StageInfo& info = dag_.info(s);
    return !op.is_placeholder() && !op.is_reduction() && op.num_outputs() == 1 && !info.is_output &&
           !info.precomputable && !info.scan && info.case_periods.empty() && has_extents(op) &&
           inside_(s);
  }

  /// Dimensions of a stage that are i and j of the matrix; -1 where it does not have them.
  using Dims = std::pair<int, int>;

  /// A stage that is taken: all read it at the same elements, which are those of the matrix at `at`.
  struct Taken {
    Dims dims;
    std::vector<Expr> at;
    bool is(const Dims& other, const std::vector<Expr>& there) const {
      return dims == other && std::ranges::equal(at, there, [](const Expr& a, const Expr& b) {
               return equal(a, b);
             });
    }
  };

  /// Takes stage `s` and what it is made of. False where it is read in two ways.
  bool take(int s, const Dims& dims, const std::vector<Expr>& place) {
    // A kernel holds no more, and what is before a long chain is not looked at again for each reduction.
    constexpr size_t kMostStages = 64;
    if (const auto known = seen_.find(s); known != seen_.end())
      return known->second.is(dims, place);
    if (seen_.size() >= kMostStages) return false;
    seen_.emplace(s, Taken{dims, place});
    const auto& axes = dag_.stage(s).axes();
    for (const Access& a : dag_.info(s).reads) {
      const auto at = [&](int d) {
        return d < 0 ? -1 : dag::plain_dimension(a, axes[static_cast<size_t>(d)]);
      };
      const Dims here{at(dims.first), at(dims.second)};
      const std::vector<Expr> there = places_of(a, dag_.stage(s), place);
      const bool taken =
          is_between(a.producer) ? take(a.producer, here, there) : take_product(a, here, there);
      if (!taken) return false;
    }
    return true;
  }

  /// Takes what `a` reads where that is a product; it is read from memory otherwise, everywhere.
  bool take_product(const Access& a, const Dims& dims, const std::vector<Expr>& place) {
    const auto known = seen_.find(a.producer);
    if (known != seen_.end()) return known->second.is(dims, place);
    std::optional<ComputedMatrix::Product> product;
    if (!stored_.contains(a.producer) && is_known(a)) product = product_of(a.producer, dims, place);
    if (product) {
      m_.products.push_back(*product);
      seen_.emplace(a.producer, Taken{dims, place});
    } else {
      stored_.insert(a.producer);
    }
    return true;
  }

  /// Stage `s` as a product whose axes `dims` are i and j of the matrix.
  std::optional<ComputedMatrix::Product> product_of(int s, const Dims& dims,
                                                    const std::vector<Expr>& place) const {
    const Operation& op = dag_.stage(s);
    if (dims.first < 0 || dims.second < 0 || dag_.info(s).is_output || op.num_outputs() != 1 ||
        !inside_(s))
      return {};
    const auto factors = factors_of(dag_, s);
    if (!factors || !has_extents(op)) return {};
    const Axis &row = op.axes()[static_cast<size_t>(dims.first)],
               &key = op.axes()[static_cast<size_t>(dims.second)], &depth = op.reduce_axes()[0];
    for (const auto& [x, y] : {*factors, std::pair(factors->second, factors->first)}) {
      if (x->depends_on(key) || y->depends_on(row) || !is_of_result(*x, op, place)) continue;
      const std::array tile{row, key, depth};
      const ComputedMatrix::Operand rows{x->producer, dag::plain_dimension(*x, row),
                                         line_dimension(*x, depth, tile)},
          keys{y->producer, dag::plain_dimension(*y, key), line_dimension(*y, depth, tile)};
      if (std::min({rows.line_dim, rows.depth_dim, keys.line_dim, keys.depth_dim}) >= 0)
        return ComputedMatrix::Product{s, dims.first, dims.second, depth.extent(), rows, keys};
    }
    return {};
  }

  const ComputeDag& dag_;
  const Operation& op_;
  const std::function<bool(int)>& inside_;
  ComputedMatrix m_;
  std::map<int, Taken> seen_;  ///< the stages taken
  std::set<int> stored_;       ///< what is read from memory
};

}  // namespace

double ComputedMatrix::bytes() const {
  return 4.0 * static_cast<double>(rows) * static_cast<double>(keys) *
         static_cast<double>(batches) * static_cast<double>(summed);
}

double ComputedMatrix::elements_per_operand() const {
  double operands = static_cast<double>(keys) * static_cast<double>(col < 0 ? 0 : cols);
  for (const Product& p : products)
    operands += static_cast<double>(rows + keys) * static_cast<double>(p.depth);
  return static_cast<double>(rows) * static_cast<double>(keys) / operands;
}

std::optional<ComputedMatrix> find_computed_matrix(const ComputeDag& dag, int stage,
                                                   const std::function<bool(int)>& inside) {
  return Finder(dag, stage, inside).run();
}

std::optional<ComputedMatrix> find_own_matrix(const ComputeDag& dag, int stage) {
  std::vector<int> outside;
  const auto is_in = [](const std::vector<int>& list, int s) {
    return std::find(list.begin(), list.end(), s) != list.end();
  };
  while (true) {
    std::optional<ComputedMatrix> m =
        find_computed_matrix(dag, stage, [&](int s) { return !is_in(outside, s); });
    if (!m) return {};
    const size_t before = outside.size();
    for (const int s : m->fused) {
      const std::vector<int>& readers = dag.info(s).consumers;
      if (!std::all_of(readers.begin(), readers.end(),
                       [&](int r) { return r == stage || is_in(m->fused, r); }))
        outside.push_back(s);
    }
    if (outside.size() == before) return m;
  }
}

ComputedMatrix::Operand moved_operand(const ComputeDag& dag, const ComputedMatrix::Operand& o) {
  const Operation& op = dag.stage(o.stage);
  if (op.is_placeholder() || op.bodies().size() != 1 || op.bodies()[0].kind() != ExprKind::Load)
    return o;
  const Access& read = dag.info(o.stage).reads[0];
  const Axis &line = op.axes()[static_cast<size_t>(o.line_dim)],
             &depth = op.axes()[static_cast<size_t>(o.depth_dim)];
  const std::array tile{line, depth};
  return {read.producer, line_dimension(read, line, tile), line_dimension(read, depth, tile)};
}

}  // namespace heddle
