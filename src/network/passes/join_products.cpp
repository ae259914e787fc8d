// Joins products of one input: one product has the columns of all, and its parts are read in place.
//
//   q[i, n] = sum over k of x[i, k] * wq[k, n] + bq[n]      n < N                   (before)
//   k[i, n] = sum over k of x[i, k] * wk[k, n] + bk[n]
//
//   w[k, n] = wq[k, n] where n < N, else wk[k, n - N]       once; b the same        (after)
//   p[i, n] = sum over k of x[i, k] * w[k, n] + b[n]        n < 2N
//   q[i, n] = p[i, n];  k[i, n] = p[i, n + N]               written into their readers
//
// The input is packed once, and a wide product divides better among threads. Element-wise stages
// after the products are joined too, as long as their formulas differ in constants only: numbers that differ,
// such as the scales of bytes, are chosen by the column.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "dag/few_bits.h"
#include "dag/map_loads.h"
#include "dag/patterns/convolution.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/support/error.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"
#include "network/passes/numbers.h"
#include "network/passes/product_chain.h"

namespace heddle::network {
namespace {

constexpr int64_t kTile = 128;  // rows and columns of a product that a block of a GPU computes

struct Product {
  int stage = -1;
  size_t column = 0;               ///< position among the axes
  const Access* input = nullptr;   ///< the operand that all share
  const Access* weight = nullptr;  ///< a constant matrix
};

std::optional<Product> product_of(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  if (info.stage_class != StageClass::ComplexReduction || info.precomputable || info.is_output ||
      dag.stage(s).num_outputs() != 1)
    return std::nullopt;
  const Access* operands[2];
  if (!dag::match_contraction(dag, s, operands).empty()) return std::nullopt;
  Product p{.stage = s, .input = operands[0], .weight = operands[1]};
  if (!dag::is_constant_operand(dag, *p.weight)) std::swap(p.input, p.weight);
  if (!dag::is_constant_operand(dag, *p.weight) || dag::is_constant_operand(dag, *p.input) ||
      p.weight->tensor.rank() != 2)
    return std::nullopt;
  const std::vector<Axis>& axes = dag.stage(s).axes();
  for (p.column = 0; p.column < axes.size(); ++p.column) {
    const Axis& n = axes[p.column];
    if (dag::plain_dimension(*p.weight, n) >= 0 && !p.input->depends_on(n)) return p;
  }
  return std::nullopt;
}

/// Binds the axes of `from` to those of `to`, by position.
std::vector<VarBinding> axes_as(const Operation& from, const Operation& to) {
  std::vector<VarBinding> bindings;
  for (size_t d = 0; d < from.axes().size(); ++d)
    bindings.push_back({from.axes()[d].var(), to.axes()[d]});
  for (size_t r = 0; r < from.reduce_axes().size(); ++r)
    bindings.push_back({from.reduce_axes()[r].var(), to.reduce_axes()[r]});
  return bindings;
}

bool same_extents(const std::vector<Axis>& a, const std::vector<Axis>& b, size_t except) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (d != except && a[d].extent() != b[d].extent()) return false;
  }
  return true;
}

/// The summed expression where the body is one sum; else the body.
Expr formula_of(const Operation& op) {
  const Reduce* reduce = op.bodies()[0].as<Reduce>();
  return reduce == nullptr ? op.bodies()[0] : reduce->sources[0];
}

/// The corresponding stages of all branches, with the operands that differ. For each operand: the
/// read of the first branch, and the tensors of all branches.
struct Level {
  std::vector<int> stages;
  struct Joined {
    const Access* read;
    int dimension;  ///< along the columns
    std::vector<Tensor> parts;
  };
  std::vector<Joined> constants;
  /// The numbers in the formula of each branch, which may differ; of sums none.
  std::vector<std::vector<Expr>> numbers;
};

class Joiner {
 public:
  Joiner(const ComputeDag& dag, std::vector<Product> products)
      : dag_(dag), products_(std::move(products)), column_(products_[0].column) {}
  /// Joins stages alone, along axis `column`.
  Joiner(const ComputeDag& dag, size_t column) : dag_(dag), column_(column) {}

  /// Finds the stages that can be joined, and returns whether there are any.
  bool possible() {
    while (next_level()) {
    }
    return ends_well();
  }

  /// Adds the replacements of the branches. Returns the number of columns of the joined product.
  int64_t run(dag::Rebuilder& rebuilder) {
    Tensor made;
    for (const Level& level : levels_) made = join(level, made);
    int64_t begin = 0;
    for (const int s : levels_.back().stages) {
      const Tensor old = dag_.stage(s).output(0);
      rebuilder.replace(old, part(made, old, begin));
      begin += old.extent(static_cast<int>(column_));
    }
    return begin;
  }

  const std::vector<Level>& levels() const { return levels_; }

 private:
  const Operation& op(int s) const { return dag_.stage(s); }

  bool next_level() {
    Level level;
    if (levels_.empty()) {
      for (const Product& p : products_) level.stages.push_back(p.stage);
    } else {
      for (const int s : levels_.back().stages) {
        if (!is_private(dag_, s)) return false;
        const int reader = dag_.info(s).consumers[0];
        if (!follows(dag_, reader, s)) return false;
        level.stages.push_back(reader);
      }
    }
    if (std::set<int>(level.stages.begin(), level.stages.end()).size() != level.stages.size())
      return false;
    if (!find_constants(level)) return false;
    levels_.push_back(std::move(level));
    return true;
  }

  /// The reads of a stage, without those of the level before.
  std::vector<const Access*> others(int s, int before) const {
    std::vector<const Access*> reads;
    for (const Access& a : dag_.info(s).reads) {
      if (a.producer != before) reads.push_back(&a);
    }
    return reads;
  }

  bool find_constants(Level& level) const {
    const int first = level.stages[0];
    const Axis& column = op(first).axes()[column_];
    for (const Access* a : others(first, before(0))) {
      if (!a->depends_on(column)) {
        level.constants.push_back({a, -1, {a->tensor}});
        continue;
      }
      const int d = dag::plain_dimension(*a, column);
      if (d < 0 || !has_columns(a->tensor, d, first) || !dag::is_constant_operand(dag_, *a))
        return false;
      level.constants.push_back({a, d, {a->tensor}});
    }
    for (size_t b = 1; b < level.stages.size(); ++b) {
      if (!add_branch(level, b)) return false;
    }
    return true;
  }

  int before(size_t branch) const { return levels_.empty() ? -1 : levels_.back().stages[branch]; }

  /// Whether a stage of branch `b` equals that of the first branch except for constants.
  bool add_branch(Level& level, size_t b) const {
    const Operation &own = op(level.stages[b]), &first = op(level.stages[0]);
    if (!same_extents(own.axes(), first.axes(), column_) ||
        !same_extents(own.reduce_axes(), first.reduce_axes(), SIZE_MAX) ||
        own.is_reduction() != first.is_reduction() ||
        own.output(0).dtype() != first.output(0).dtype())
      return false;
    const std::vector<const Access*> reads = others(level.stages[b], before(b));
    if (reads.size() != level.constants.size()) return false;
    std::map<const BufferNode*, Buffer> buffers;
    if (before(b) >= 0)
      buffers[op(before(b)).output_buffer(0).get()] = op(before(0)).output_buffer(0);
    for (size_t i = 0; i < reads.size(); ++i) {
      Level::Joined& joined = level.constants[i];
      const Tensor &mine = reads[i]->tensor, &its = joined.read->tensor;
      if (joined.dimension < 0 ? !mine.same_as(its) : !fits(mine, its, joined.dimension))
        return false;
      if (joined.dimension >= 0 && (!has_columns(mine, joined.dimension, level.stages[b]) ||
                                    !dag::is_constant_operand(dag_, *reads[i])))
        return false;
      if (!buffers.emplace(mine.buffer().get(), its.buffer()).second && joined.dimension >= 0)
        return false;
      joined.parts.push_back(mine);
    }
    const Expr as_first =
        dag::map_loads({formula_of(own)}, [&](const Load& load) {
          const auto it = buffers.find(load.buffer.get());
          return make_load(it == buffers.end() ? load.buffer : it->second, load.indices);
        }).front();
    const Expr mine = substitute(as_first, axes_as(own, first)), its = formula_of(first);
    if (first.is_reduction()) return equal(mine, its);
    if (b == 1) level.numbers.push_back(numbers_of(its));
    level.numbers.push_back(numbers_of(mine));
    return level.numbers[0].size() == level.numbers[b].size() &&
           equal(with_numbers(mine, level.numbers[0]), its);
  }

  /// Whether the tensor has the columns of stage `s` along a dimension and no others, so that those of two
  /// stages are the columns of both.
  bool has_columns(const Tensor& t, int dimension, int s) const {
    return is_const(t.shape()[static_cast<size_t>(dimension)], op(s).axes()[column_].extent());
  }

  static bool fits(const Tensor& a, const Tensor& b, int dimension) {
    if (a.rank() != b.rank() || a.dtype() != b.dtype()) return false;
    for (int d = 0; d < a.rank(); ++d) {
      if (d != dimension && a.extent(d) != b.extent(d)) return false;
    }
    return true;
  }

  /// Whether no reader of the results would have been an epilogue.
  bool ends_well() const {
    if (levels_.empty()) return false;
    const std::vector<int>& last = levels_.back().stages;
    return std::all_of(last.begin(), last.end(), [&](int s) {
      const std::vector<int>& readers = dag_.info(s).consumers;
      return !dag_.info(s).is_output && std::all_of(readers.begin(), readers.end(), [&](int r) {
        return moved_read(op(r)) != nullptr || !follows(dag_, r, s);
      });
    });
  }

  /// Of weights of few bits, the bits are joined, and unpacked where they are read; nullopt for others.
  std::optional<Tensor> joined_bits(const Level::Joined& joined) const {
    Level level;
    for (const Tensor& t : joined.parts) {
      const int s = dag_.index_of(t.op());
      if (s < 0 || !dag::widens_bits(dag_, s, dag::kWidensOnGpu)) return std::nullopt;
      level.stages.push_back(s);
    }
    Joiner bits(dag_, static_cast<size_t>(joined.dimension));
    if (!bits.find_constants(level)) return std::nullopt;
    bits.levels_.push_back(std::move(level));
    return bits.join(bits.levels_[0], {});
  }

  Tensor joined_constant(const Level::Joined& joined) const {
    if (const std::optional<Tensor> bits = joined_bits(joined)) return *bits;
    const std::vector<Tensor>& parts = joined.parts;
    Shape shape = parts[0].shape();
    const auto d = static_cast<size_t>(joined.dimension);
    int64_t total = 0;
    std::vector<int64_t> begins;
    for (const Tensor& t : parts) {
      begins.push_back(total);
      total += t.extent(joined.dimension);
    }
    shape[d] = Expr(total);
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          const auto part_at = [&](size_t p) {
            std::vector<Expr> at(i.begin(), i.end());
            at[d] = at[d] - begins[p];
            return parts[p].at(std::move(at));
          };
          Expr value = part_at(parts.size() - 1);
          for (size_t p = parts.size() - 1; p-- > 0;)
            value = select(i[d] < begins[p + 1], part_at(p), value);
          return value;
        },
        parts[0].name() + "_joined", "joined", parts[0].op()->where());
  }

  /// The numbers in the joined formula: those that differ are chosen by the column.
  std::vector<Expr> joined_numbers(const Level& level) const {
    std::vector<Expr> numbers = level.numbers[0];
    const Axis& column = op(level.stages[0]).axes()[column_];
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::vector<int64_t> ends;
      for (const int s : level.stages)
        ends.push_back((ends.empty() ? 0 : ends.back()) + op(s).axes()[column_].extent());
      Expr chosen = level.numbers.back()[i];
      for (size_t b = level.stages.size() - 1; b-- > 0;) {
        const Expr& own = level.numbers[b][i];
        if (!equal(own, chosen)) chosen = select(Expr(column) < ends[b], own, chosen);
      }
      numbers[i] = chosen;
    }
    return numbers;
  }

  Tensor join(const Level& level, const Tensor& before_made) const {
    const size_t number = static_cast<size_t>(&level - levels_.data());
    const Operation& first = op(level.stages[0]);
    int64_t columns = 0;
    for (const int s : level.stages) columns += op(s).axes()[column_].extent();
    std::vector<Axis> axes;
    std::vector<VarBinding> to;
    for (size_t d = 0; d < first.axes().size(); ++d) {
      const Axis& old = first.axes()[d];
      axes.emplace_back(old.name(), d == column_ ? Expr(columns) : old->extent, AxisKind::Spatial);
      to.push_back({old.var(), axes.back()});
    }
    std::map<const BufferNode*, Buffer> buffers;
    std::vector<Tensor> constants;
    if (number > 0)
      buffers[op(levels_[number - 1].stages[0]).output_buffer(0).get()] = before_made.buffer();
    for (const Level::Joined& joined : level.constants) {
      if (joined.dimension < 0) continue;
      constants.push_back(joined_constant(joined));
      buffers[joined.read->tensor.buffer().get()] = constants.back().buffer();
    }
    Expr body = dag::map_loads(first.bodies(), [&](const Load& load) {
                  const auto it = buffers.find(load.buffer.get());
                  return make_load(it == buffers.end() ? load.buffer : it->second, load.indices);
                }).front();
    if (!level.numbers.empty()) body = with_numbers(body, joined_numbers(level));
    return Operation::make_compute(first.name(), axes, {substitute(body, to)}, first.tag(),
                                   first.where())
        ->output(0);
  }

  Tensor part(const Tensor& joined, const Tensor& old, int64_t begin) const {
    return compute(
        old.shape(),
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at(i.begin(), i.end());
          at[column_] = at[column_] + begin;
          return joined.at(std::move(at));
        },
        old.name(), "slice", old.op()->where());
  }

  const ComputeDag& dag_;
  const std::vector<Product> products_;
  const size_t column_;
  std::vector<Level> levels_;
};

/// "768x2304": the depth and the columns of the joined product.
std::string place_of_group(const ComputeDag& dag, const std::vector<Product>& group) {
  int64_t columns = 0;
  for (const Product& p : group) columns += dag.stage(p.stage).axes()[p.column].extent();
  return by_extents({dag.info(group[0].stage).reduce_points, columns});
}

/// Whether `b` is a product of the same form and input as `a`.
bool alike(const ComputeDag& dag, const Product& a, const Product& b) {
  if (a.column != b.column || !a.input->tensor.same_as(b.input->tensor)) return false;
  return same_extents(dag.stage(a.stage).axes(), dag.stage(b.stage).axes(), a.column);
}

/// Whether joining products such as `p` gains by an estimate. On a CPU the input is packed once, but
/// weights of few bits that are joined are unpacked once as well, and no product of one row reads the bits. On
/// a GPU a product of fewer tiles than there are multiprocessors leaves some of them idle, and
/// products run one after the other; of a network over ranges, at the least sizes.
bool gains(const ComputeDag& dag, const Product& p, const Target& target) {
  if (!target.is_cuda()) return !dag::widens_bits(dag, p.weight->producer);
  int64_t tiles = 1;
  for (const Axis& a : dag.stage(p.stage).axes()) tiles *= a.extent();
  return ceil_div(tiles, kTile * kTile) < target.gpu.sms;
}

}  // namespace

std::vector<Tensor> join_products(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  std::vector<std::vector<Product>> groups;
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<Product> p = product_of(dag, s);
    if (!p) continue;
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& g) { return alike(dag, g.front(), *p); });
    if (group == groups.end()) {
      groups.push_back({*p});
    } else {
      group->push_back(*p);
    }
  }
  dag::Rebuilder rebuilder;
  bool any = false;
  for (const std::vector<Product>& group : groups) {
    if (group.size() < 2) continue;
    Joiner joiner(dag, group);
    if (!joiner.possible()) continue;
    const bool usual = context.enabled && gains(dag, group[0], context.target);
    if (!context.choices.on(ChoiceKind::JoinProducts, place_of_group(dag, group), usual,
                            std::to_string(group.size()) + " products of one input are one"))
      continue;
    const int64_t columns = joiner.run(rebuilder);
    any = true;
    context.changed(std::to_string(group.size()) + " products of '" +
                    group[0].input->tensor.name() + "' are one of " + std::to_string(columns) +
                    " columns");
  }
  if (!any) return dag.outputs();
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
