// Merges neighbouring axes that always occur together in a graph into one axis: the rows and
// columns of the image of a 1x1 convolution, or a batch and the rows of products with one matrix.
//
//   y[n, h, w, k] = sum over c of x[n, h, w, c] * u[0, 0, c, k]     2 x 14 x 14 results of a k
//   y[p, k]       = sum over c of x[p, c] * u[0, 0, c, k]           392
//
// The rule matrix_product does the same, and drops the reduce axes of one value, the taps of that
// convolution, and the dimensions of the filters that they go through. It is of use where what is
// left is a product of matrices in rows of memory, also of a convolution with a stride, whose rows
// cannot be merged.
//
// Inputs and outputs have fewer dimensions and lie in memory as they did (collapse_shape of MLIR).
// One long axis is cut into tiles, and shared among threads, more evenly than the short ones: 14
// rows are 6 + 6 + 2, and 196 are 32 times 6 and 4.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "dag/map_loads.h"
#include "dag/patterns/convolution.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ir/simplify.h"

namespace heddle {
namespace {

/// Which neighbouring dimensions become one: of(s, d) says it of dimensions d and d + 1 of the
/// results of stage s, which are its axes d and d + 1.
class JointDims {
 public:
  explicit JointDims(const ComputeDag& dag) : dag_(dag) {
    for (int s = 0; s < dag.size(); ++s) {
      const Shape& shape = dag.stage(s).output_buffer(0)->shape;
      std::vector<char> joint(shape.empty() ? 0 : shape.size() - 1, 1);
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (!as_int(shape[d])) part(joint, static_cast<int>(d));
      }
      joint_.push_back(std::move(joint));
    }
    for (int s = 0; s < dag.size(); ++s) look(s);
    // Where one pair cannot be merged, the pairs that depend on it cannot either.
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [a, b] : together_) {
        if (at(a) == at(b)) continue;
        at(a) = at(b) = 0;
        changed = true;
      }
    }
  }

  bool of(int s, int d) const {
    const std::vector<char>& joint = joint_[static_cast<std::size_t>(s)];
    return d >= 0 && d < std::ssize(joint) && joint[static_cast<std::size_t>(d)];
  }
  bool any(int s) const {
    const std::vector<char>& joint = joint_[static_cast<std::size_t>(s)];
    return std::find(joint.begin(), joint.end(), 1) != joint.end();
  }

 private:
  struct Pair {
    int stage, dim;
  };
  char& at(const Pair& p) {
    return joint_[static_cast<std::size_t>(p.stage)][static_cast<std::size_t>(p.dim)];
  }

  /// Keeps dimension d apart from both of its neighbours.
  static void part(std::vector<char>& joint, int d) {
    if (d > 0) joint[static_cast<std::size_t>(d) - 1] = 0;
    if (d < std::ssize(joint)) joint[static_cast<std::size_t>(d)] = 0;
  }

  void look(int s) {
    const Operation& op = dag_.stage(s);
    if (op.is_placeholder()) return;
    std::unordered_set<const ExprNode*> seen;  // shared parts once
    for (const Expr& body : op.bodies()) outside_of_reads(s, body, &seen);
    for (const Access& read : dag_.info(s).reads) look(s, read);
  }

  /// An axis that is used alone, in a condition or as a value, cannot be merged.
  void outside_of_reads(int s, const Expr& e, std::unordered_set<const ExprNode*>* seen) {
    if (e.kind() == ExprKind::Load || !seen->insert(e.get()).second) return;
    const std::vector<Axis>& axes = dag_.stage(s).axes();
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (e.get() == axes[a].var().get())
        part(joint_[static_cast<std::size_t>(s)], static_cast<int>(a));
    }
    for_each_child(e, [&](const Expr& c) { outside_of_reads(s, c, seen); });
  }

  void look(int s, const Access& read) {
    const Operation& op = dag_.stage(s);
    std::vector<char>& own = joint_[static_cast<std::size_t>(s)];
    std::vector<char>& theirs = joint_[static_cast<std::size_t>(read.producer)];
    const int rank = read.tensor.rank();
    std::vector<int> axis_at;
    for (int d = 0; d < rank; ++d) axis_at.push_back(axis_at_index(op, read, d));
    // Whether dimensions d and d + 1 are read at neighbouring axes of the same extents.
    const auto together = [&](int d) {
      if (d < 0 || d + 1 >= rank) return false;
      const int a = axis_at[static_cast<std::size_t>(d)];
      return a >= 0 && axis_at[static_cast<std::size_t>(d) + 1] == a + 1 &&
             is_const(op.axes()[static_cast<std::size_t>(a) + 1]->extent,
                      read.tensor.extent(d + 1));
    };
    for (int d = 0; d < rank; ++d) {
      const int a = axis_at[static_cast<std::size_t>(d)];
      if (together(d)) {
        together_.push_back({{s, a}, {read.producer, d}});
      } else if (d + 1 < rank) {
        theirs[static_cast<std::size_t>(d)] = 0;
      }
      for (int x = 0; x < std::ssize(op.axes()); ++x) {
        if (!uses_var(read.indices[static_cast<std::size_t>(d)],
                      op.axes()[static_cast<std::size_t>(x)].var()))
          continue;
        if (x != a || !together(d)) apart(own, x);
        if (x != a || !together(d - 1)) apart(own, x - 1);
      }
    }
  }

  /// Keeps axes x and x + 1 apart.
  static void apart(std::vector<char>& joint, int x) {
    if (x >= 0 && x < std::ssize(joint)) joint[static_cast<std::size_t>(x)] = 0;
  }

  /// The axis that is the index of dimension `d`, or -1. Axes of windows of one element add zero to
  /// an index and are ignored.
  static int axis_at_index(const Operation& op, const Access& read, int d) {
    const std::optional<Affine>& index = read.affine[static_cast<std::size_t>(d)];
    if (!index || index->constant != 0) return -1;
    int found = -1;
    for (const Affine::Term& t : index->terms) {
      const auto is_it = [&](const Axis& a) { return a.var().same_as(t.var); };
      const auto& over = op.reduce_axes();
      const auto window = std::find_if(over.begin(), over.end(), is_it);
      if (window != over.end() && is_const((*window)->extent, 1)) continue;
      const auto axis = std::find_if(op.axes().begin(), op.axes().end(), is_it);
      if (axis == op.axes().end() || found >= 0 || t.coefficient != 1) return -1;
      found = static_cast<int>(axis - op.axes().begin());
    }
    return found;
  }

  const ComputeDag& dag_;
  std::vector<std::vector<char>> joint_;         // [stage][first of the pair]
  std::vector<std::pair<Pair, Pair>> together_;  // both pairs are merged, or neither
};

class Collapser {
 public:
  enum class UnitAxes : uint8_t {
    Kept,
    Dropped,
    DroppedFromFilters,  ///< the sum keeps its taps
  };
  Collapser(const ComputeDag& dag, const JointDims& joint, UnitAxes unit_axes)
      : dag_(dag), joint_(joint), unit_axes_(unit_axes) {}

  GraphRewrite rewrite() {
    GraphRewrite out;
    for (int s = 0; s < dag_.size(); ++s) {
      made_.push_back(dag_.stage(s).is_placeholder() ? input(s) : stage(s));
      if (dag_.stage(s).is_placeholder() && (joint_.any(s) || kept_dims(s) < rank_of(s)))
        out.placeholders.emplace_back(dag_.stage(s).output(0), Tensor(made_.back(), 0));
    }
    for (const Tensor& t : dag_.outputs())
      out.outputs.push_back(now(dag_.index_of(t.op()), t.index()));
    return out;
  }

 private:
  Tensor now(int s, int output) const { return Tensor(made_[static_cast<std::size_t>(s)], output); }

  /// `all` has one entry for each dimension of the results of stage `s`. Entries of dimensions that
  /// are merged are combined by `join`.
  template <class T, class Join>
  std::vector<T> joined(int s, const std::vector<T>& all, Join join) const {
    std::vector<T> out;
    for (std::size_t d = 0; d < all.size(); ++d) {
      if (d > 0 && joint_.of(s, static_cast<int>(d) - 1)) {
        out.back() = join(out.back(), all[d]);
      } else {
        out.push_back(all[d]);
      }
    }
    return out;
  }

  int rank_of(int s) const {
    return static_cast<int>(dag_.stage(s).output_buffer(0)->shape.size());
  }

  /// The dimensions of stage `s` but for the last ones of extent 1 of an input, or of what is
  /// computed from constants. They are dropped with the axes that index them: the taps of the
  /// filters K x C x 1 x 1 of an ONNX file.
  int kept_dims(int s) const {
    int rank = rank_of(s);
    const StageInfo& info = dag_.info(s);
    const bool constant = info.precomputable && !info.is_output;
    if (unit_axes_ == UnitAxes::Kept || (!dag_.stage(s).is_placeholder() && !constant)) return rank;
    const Shape& shape = dag_.stage(s).output_buffer(0)->shape;
    while (rank > 1 && is_const(shape[static_cast<std::size_t>(rank) - 1], 1) &&
           !joint_.of(s, rank - 2))
      --rank;
    return rank;
  }

  Ref<const Operation> input(int s) const {
    const Ref<const Operation>& op = dag_.stage_ref(s);
    const int kept = kept_dims(s);
    if (!joint_.any(s) && kept == rank_of(s)) return op;
    const Tensor t = op->output(0);
    const Shape shape(t.shape().begin(), t.shape().begin() + kept);
    return Operation::make_placeholder(
        joined(s, shape,
               [](const Expr& a, const Expr& b) { return Expr(*as_int(a) * *as_int(b)); }),
        t.dtype(), op->name(), op->is_constant(), op->where());
  }

  Ref<const Operation> stage(int s) {
    const Operation& op = dag_.stage(s);
    const auto kept_axes = op.axes().begin() + kept_dims(s);
    const std::vector<Axis> axes =
        joined(s, std::vector(op.axes().begin(), kept_axes), [](const Axis& a, const Axis& b) {
          return Axis(a.name() + "_" + b.name(), Expr(a.extent() * b.extent()), AxisKind::Spatial);
        });
    std::vector<VarBinding> zero;
    for (auto a = kept_axes; a != op.axes().end(); ++a) zero.push_back({a->var(), Expr(0)});
    // `place` maps the first of merged axes to the new axis, and the others to nothing.
    std::unordered_map<const ExprNode*, Expr> place;
    std::size_t n = 0;
    for (std::size_t a = 0; a < op.axes().size(); ++a) {
      const bool first = a == 0 || !joint_.of(s, static_cast<int>(a) - 1);
      if (first && joint_.of(s, static_cast<int>(a)))
        place.emplace(op.axes()[a].var().get(), axes[n].var().expr());
      n += first ? 1 : 0;
    }
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      const Tensor from = tensor_of(load.buffer);
      const int producer = dag_.index_of(from.op());
      std::vector<Expr> at;
      const int kept = kept_dims(producer);
      for (std::size_t d = 0; d < load.indices.size(); ++d) {
        const int dim = static_cast<int>(d);
        if (dim >= kept || joint_.of(producer, dim - 1)) continue;
        at.push_back(joint_.of(producer, dim) ? axis_in(op, load.indices[d], place)
                                              : load.indices[d]);
      }
      return make_load(now(producer, from.index()).buffer(), std::move(at));
    });
    for (Expr& body : bodies) {
      if (!zero.empty()) body = substitute(body, zero);
      if (unit_axes_ == UnitAxes::Dropped) body = without_unit_axes(body);
    }
    return Operation::make_compute(op.name(), axes, std::move(bodies), op.tag(), op.where());
  }

  /// A reduction without those of its axes that have one value, such as the taps of a 1x1 filter.
  /// One axis is left in any case.
  static Expr without_unit_axes(const Expr& body) {
    const Reduce* r = body.as<Reduce>();
    if (!r) return body;
    std::vector<Axis> axes;
    std::vector<VarBinding> zero;
    for (const Axis& a : r->axes) {
      if (is_const(a->extent, 1)) {
        zero.push_back({a.var(), Expr(0)});
      } else {
        axes.push_back(a);
      }
    }
    if (zero.empty() || axes.empty()) return body;
    std::vector<Expr> sources;
    for (const Expr& s : r->sources) sources.push_back(simplify(substitute(s, zero)));
    return make_reduce(r->combiner, std::move(sources), std::move(axes), r->index);
  }

  /// The replacement of the axis that is used as `index` (see JointDims::axis_at_index).
  static Expr axis_in(const Operation& op, const Expr& index,
                      const std::unordered_map<const ExprNode*, Expr>& place) {
    for (const Axis& a : op.axes()) {
      const auto it = place.find(a.var().get());
      if (it != place.end() && uses_var(index, a.var())) return it->second;
    }
    HEDDLE_ICHECK(false, "an index that is to be joined has no axis");
    return {};
  }

  const ComputeDag& dag_;
  const JointDims& joint_;
  const UnitAxes unit_axes_;
  std::vector<Ref<const Operation>> made_;
};

/// The first contraction with a mergeable pair of axes that are both longer than 1; -1 where there
/// is none.
int first_site(const ComputeDag& dag, const JointDims& joint) {
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).stage_class != StageClass::ComplexReduction) continue;
    const std::vector<Axis>& axes = dag.stage(s).axes();
    for (std::size_t d = 0; d + 1 < axes.size(); ++d) {
      if (joint.of(s, static_cast<int>(d)) && axes[d].extent() > 1 && axes[d + 1].extent() > 1)
        return s;
    }
  }
  return -1;
}

WhyNot why_not(const RewriteSite& site) {
  if (site.dag.info(site.stage).stage_class != StageClass::ComplexReduction)
    return WhyNot::other_kind("a contraction");
  return first_site(site.dag, JointDims(site.dag)) == site.stage
             ? WhyNot()
             : WhyNot::other_kind("the first contraction with neighbouring axes that go together");
}

/// The one reduce axis that is longer than 1; -1 where there are several, or none.
int only_reduction(const Operation& op) {
  int found = -1;
  for (std::size_t k = 0; k < op.reduce_axes().size(); ++k) {
    if (op.reduce_axes()[k].extent() == 1) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(k);
  }
  return found;
}

// ---- matrix_product ----

/// Whether stage `s` has taps of one value beside the one axis that it sums over.
bool has_unit_taps(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  return dag.info(s).stage_class == StageClass::ComplexReduction && only_reduction(op) >= 0 &&
         op.reduce_axes().size() > 1;
}

/// The first contraction with axes to merge or, where there is none, with taps to drop.
int product_site(const ComputeDag& dag) {
  const int merged = first_site(dag, JointDims(dag));
  for (int s = 0; merged < 0 && s < dag.size(); ++s) {
    if (has_unit_taps(dag, s)) return s;
  }
  return merged;
}

WhyNot why_no_matrix_product(const RewriteSite& site) {
  if (site.dag.info(site.stage).stage_class != StageClass::ComplexReduction ||
      product_site(site.dag) != site.stage)
    return WhyNot::other_kind("the first contraction with axes to merge, or with taps to drop");
  const Access* operands[2];
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, operands); !why.empty()) return why;
  if (only_reduction(site.op()) < 0) return "its sum runs over several axes";
  return has_unit_taps(site.dag, site.stage) ? "" : "it has no reduce axis of one value";
}

/// The rows of a tile: of the register tiles of a CPU that reach the peak, or of a GPU's matrix
/// instruction. 0 where tiles may have any number.
int64_t rows_of_tile(const RewriteSite& site, const Target& target) {
  constexpr int64_t kRegisterRows = 6, kMmaRows = 16, kWgmmaRows = 64;
  if (!target.is_cuda()) return kRegisterRows;
  const Access* operands[2];
  if (!dag::match_contraction(site.dag, site.stage, operands).empty()) return 0;
  const DataType t = operands[0]->tensor.dtype(), other = operands[1]->tensor.dtype();
  const bool bytes = t.bytes() == 1 && other.bytes() == 1 && t.is_float() == other.is_float();
  if ((other != t && !bytes) || t.bytes() > 2) return 0;
  return target.gpu.has_wgmma() ? kWgmmaRows : kMmaRows;
}

/// How much more of its tiles of `tile` rows a merged axis fills than the longest of its parts: 14
/// rows fill less than a quarter of 64, 14 x 14 rows more than three quarters. At least 1.
double evenness(const RewriteSite& site, int64_t tile) {
  const auto used = [&](int64_t rows) {
    return static_cast<double>(rows) / static_cast<double>((rows + tile - 1) / tile * tile);
  };
  const JointDims joint(site.dag);
  const std::vector<Axis>& axes = site.op().axes();
  double most = 1;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    int64_t longest = axes[d].extent(), all = longest;
    while (joint.of(site.stage, static_cast<int>(d))) {
      const int64_t next = axes[++d].extent();
      longest = std::max(longest, next);
      all *= next;
    }
    if (all > longest) most = std::max(most, used(all) / used(longest));
  }
  return most;
}

/// The axis of `op` longer than 1 that is the index, if it is one axis and no more.
const Axis* axis_alone(const Operation& op, const std::optional<Affine>& index) {
  const Axis* found = nullptr;
  if (!index || index->constant != 0) return found;
  for (const Affine::Term& t : index->terms) {
    for (const auto* list : {&op.axes(), &op.reduce_axes()}) {
      for (const Axis& a : *list) {
        if (!a.var().same_as(t.var) || is_const(a->extent, 1)) continue;
        if (found || t.coefficient != 1) return nullptr;
        found = &a;
      }
    }
  }
  return found;
}

/// Whether TMA can load rows of an operand for wgmma: an axis of the product, or merged ones, goes through
/// whole 16 bytes of 16-bit floats. Bytes and 8-bit floats lie along the sum.
bool in_rows(const Operation& op, const Access& a, const JointDims& joint) {
  constexpr int64_t kRowBytes = 16;
  const DataType type = a.tensor.dtype();
  if (type != f16 && type != bf16 && (type.bytes() != 1 || type.is_bool())) return false;
  int d = a.tensor.rank() - 1;
  while (d > 0 && a.tensor.extent(d) == 1) --d;
  const Axis* along = axis_alone(op, a.affine[static_cast<std::size_t>(d)]);
  if (!along || (type.bytes() == 1 && (*along)->kind != AxisKind::Reduce)) return false;
  int64_t row = a.tensor.extent(d);
  for (; joint.of(a.producer, d - 1); --d) row *= a.tensor.extent(d - 1);
  return row * type.bytes() % kRowBytes == 0;
}

/// The rows or columns of the product that operand `a` has.
int64_t lines_of(const Operation& op, const Access& a) {
  int64_t lines = 1;
  for (const Axis& axis : op.axes()) lines *= a.depends_on(axis) ? axis.extent() : 1;
  return lines;
}

/// The windows of a convolution with a stride are rows together where the longest of their axes would fill no tile of
/// warp groups, as the 32 images of a batch: TMA finds windows of channels longer than a row of its boxes.
Collapser::UnitAxes unit_axes_of(const RewriteSite& site, const JointDims& joint) {
  constexpr int64_t kTile = 64, kBoxRow = 128;
  constexpr double kFilled = 0.8;
  const Access* operands[2];
  const Operation& op = site.op();
  const int sum = only_reduction(op);
  if (sum < 0 || first_site(site.dag, joint) >= 0 ||
      !dag::match_contraction(site.dag, site.stage, operands).empty())
    return Collapser::UnitAxes::Dropped;
  const int64_t depth = op.reduce_axes()[static_cast<std::size_t>(sum)].extent() *
                        operands[0]->tensor.dtype().bytes();
  for (const Access* a : operands) {
    int64_t longest = 1;
    int several = 0;
    bool strided = false;
    for (const Axis& axis : op.axes()) {
      if (axis.extent() == 1 || !a->depends_on(axis)) continue;
      ++several;
      longest = std::max(longest, axis.extent());
      for (const std::optional<Affine>& index : a->affine)
        strided |= index && index->coefficient(axis.var()) > 1;
    }
    const auto rows = static_cast<double>((longest + kTile - 1) / kTile * kTile);
    if (strided && several > 1 && depth > kBoxRow && static_cast<double>(longest) < kFilled * rows)
      return Collapser::UnitAxes::DroppedFromFilters;
  }
  return Collapser::UnitAxes::Dropped;
}

/// Of use where TMA and wgmma take products of rows in memory only: rows of whole
/// 16 bytes, and more rows than one of four warps multiplies. Its rows are merged as those of `collapse` are, so that what these gain comes on top.
RewriteEstimate estimate_matrix_product(const RewriteSite& site, const Target& target) {
  // What tuned 1x1 convolutions of ResNet-50 gained on an H100, and the least that those of stride 2
  // gained.
  constexpr double kGain = 1.4;
  constexpr int64_t kWarpRows = 16;
  const std::string no_use = "it is of use where TMA and wgmma take the product";
  if (!target.is_cuda() || !target.gpu.has_wgmma()) return {.why_not = no_use};
  const int64_t tile = rows_of_tile(site, target);
  const Access* operands[2];
  if (tile == 0 || !dag::match_contraction(site.dag, site.stage, operands).empty())
    return {.why_not = no_use};
  const JointDims joint(site.dag);
  for (const Access* a : operands) {
    if (!in_rows(site.op(), *a, joint) || lines_of(site.op(), *a) <= kWarpRows)
      return {.why_not = no_use};
  }
  return {kGain * evenness(site, tile),
          "one product of matrices, which TMA loads and wgmma multiplies"};
}

HEDDLE_REGISTER_REWRITE_RULE(
    {.name = "matrix_product",
     .why_not = why_no_matrix_product,
     .error_growth = [](const RewriteSite&) { return 1.0; },
     .estimate = estimate_matrix_product,
     .numerics = Numerics::Exact,
     .rewrite =
         [](const RewriteSite& site) {
           const JointDims joint(site.dag);
           return Collapser(site.dag, joint, unit_axes_of(site, joint)).rewrite();
         }});

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  const int64_t tile = rows_of_tile(site, target);
  if (tile == 0) return {1, "for the tuner to try: the same work, cut otherwise"};
  // Fewer loops, where all else is equal. A GPU has threads in place of loops.
  const double least = target.is_cuda() ? 1 : 1.01;
  return {std::max(least, evenness(site, tile)), "one long axis is cut evenly"};
}

HEDDLE_REGISTER_REWRITE_RULE(
    {.name = "collapse",
     .why_not = why_not,
     .error_growth = [](const RewriteSite&) { return 1.0; },
     .estimate = estimate,
     .numerics = Numerics::Exact,
     .rewrite =
         [](const RewriteSite& site) {
           const JointDims joint(site.dag);
           return Collapser(site.dag, joint, Collapser::UnitAxes::Kept).rewrite();
         }});

}  // namespace
}  // namespace heddle
