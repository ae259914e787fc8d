#include "dag/patterns/convolution.h"

#include <algorithm>
#include <cstdlib>

#include "heddle/dag/factors.h"

namespace heddle::dag {
namespace {

const Access* access_of(const std::vector<Access>& reads, const Load* load) {
  for (const Access& a : reads) {
    if (!load || !(a.buffer == load->buffer)) continue;
    if (std::equal(a.indices.begin(), a.indices.end(), load->indices.begin(), load->indices.end(),
                   [](const Expr& p, const Expr& q) { return equal(p, q); }))
      return &a;
  }
  return nullptr;
}

int position(const std::vector<Axis>& axes, const Var& v) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].var().same_as(v)) return static_cast<int>(i);
  }
  return -1;
}

// `!axis` cannot be used, because it builds an expression.
bool found(const Axis& a) { return a.get() != nullptr; }

class Matcher {
 public:
  Matcher(const Operation& op, bool blocks, Convolution* out)
      : op_(op), blocks_(blocks), out_(*out) {}

  WhyNot match(const Access* image, const Access* weight) {
    out_.image = image;
    out_.weight = weight;
    WhyNot why = match_image();
    if (why.empty()) why = match_weight();
    if (!why.empty()) return why;
    const std::size_t used = out_.batch.size() + (out_.k_in_block < 0 ? 3 : 4);
    if (used != op_.axes().size())
      return WhyNot::other_kind("a convolution: its results have other axes");
    return "";
  }

 private:
  WhyNot match_image() {
    const Access& a = *out_.image;
    for (std::size_t d = 0; d < a.affine.size(); ++d) {
      const int dim = static_cast<int>(d);
      if (!a.affine[d]) return WhyNot::other_kind("a convolution: an index is not affine");
      const Affine& f = *a.affine[d];
      int spatial = -1, reduce = -1;
      int64_t step = 0, dilation = 0;
      for (const Affine::Term& t : f.terms) {
        const int s = position(op_.axes(), t.var), r = position(op_.reduce_axes(), t.var);
        if ((s >= 0 && spatial >= 0) || (r >= 0 && reduce >= 0) || (s < 0 && r < 0))
          return WhyNot::other_kind("a convolution: an index is a sum of other axes");
        if (s >= 0) spatial = s, step = t.coefficient;
        if (r >= 0) reduce = r, dilation = t.coefficient;
      }
      if (spatial >= 0 && reduce >= 0) {
        const Axis& tap = op_.reduce_axes()[static_cast<std::size_t>(reduce)];
        const bool flipped = dilation < 0;  // from the last tap on it runs forwards
        const int64_t* taps = as_int(tap->extent);
        if (flipped && taps == nullptr)
          return WhyNot::other_kind("a convolution: a window of any size runs backwards");
        const int64_t offset = f.constant + (flipped ? dilation * (*taps - 1) : 0);
        dilation = std::abs(dilation);
        if (offset < 0 || step < 1)
          return WhyNot::other_kind("a convolution: a window begins before the image");
        if (!found(out_.r)) {
          out_.r = tap, out_.y = spatial, out_.image_y = dim, out_.flips_r = flipped;
          out_.stride_y = step, out_.dilation_y = dilation, out_.offset_y = offset;
        } else if (!found(out_.s)) {
          out_.s = tap, out_.x = spatial, out_.image_x = dim, out_.flips_s = flipped;
          out_.stride_x = step, out_.dilation_x = dilation, out_.offset_x = offset;
        } else {
          return "it has windows along more than two axes";
        }
        continue;
      }
      if (f.terms.size() != 1 || f.terms[0].coefficient != 1 || f.constant != 0)
        return WhyNot::other_kind("a convolution: an index is no axis");
      if (spatial >= 0) {
        out_.batch.push_back(spatial);
        out_.image_batch.push_back(dim);
      } else if (!found(out_.c)) {
        out_.c = op_.reduce_axes()[static_cast<std::size_t>(reduce)];
        out_.image_c = dim;
      } else if (blocks_ && !found(out_.c_in_block)) {
        out_.c_in_block = op_.reduce_axes()[static_cast<std::size_t>(reduce)];
        out_.image_c_in_block = dim;
      } else {
        return WhyNot::other_kind("a convolution: it sums over several axes that are no window");
      }
    }
    if (!found(out_.r)) return WhyNot::other_kind("a convolution: no index is a window");
    if (!found(out_.s)) return "it has a window along one axis alone";
    if (!found(out_.c) || op_.reduce_axes().size() != (found(out_.c_in_block) ? 4 : 3))
      return "it does not sum over channels, rows and columns";
    return "";
  }

  WhyNot match_weight() {
    const Access& a = *out_.weight;
    for (std::size_t d = 0; d < a.affine.size(); ++d) {
      const int dim = static_cast<int>(d);
      if (!a.affine[d]) return "its weights are those of groups";
      const Affine& f = *a.affine[d];
      if (f.terms.size() != 1 || f.terms[0].coefficient != 1 || f.constant != 0)
        return "an index of its weights is no axis";
      const Var& v = f.terms[0].var;
      int* at = dimension_of(v);
      if (*at >= 0) return "its weights are read along an axis twice";
      *at = dim;
      if (at == &out_.weight_k) out_.k = position(op_.axes(), v);
      if (at == &out_.weight_k_in_block) out_.k_in_block = position(op_.axes(), v);
    }
    if (out_.weight_c < 0 || out_.weight_r < 0 || out_.weight_s < 0 || out_.k < 0)
      return "its weights do not depend on channels, rows, columns and results";
    if ((found(out_.c_in_block) && out_.weight_c_in_block < 0) ||
        (out_.weight_k_in_block >= 0 && out_.k_in_block < 0))
      return "its weights do not depend on the channels in a block";
    return is_shared(out_.k) || is_shared(out_.k_in_block) ? "its channels are those of groups"
                                                           : "";
  }

  /// The field for the dimension of the weights that `v` indexes.
  int* dimension_of(const Var& v) const {
    if (v.same_as(out_.c.var())) return &out_.weight_c;
    if (v.same_as(out_.r.var())) return &out_.weight_r;
    if (v.same_as(out_.s.var())) return &out_.weight_s;
    if (found(out_.c_in_block) && v.same_as(out_.c_in_block.var())) return &out_.weight_c_in_block;
    return blocks_ && out_.weight_k >= 0 ? &out_.weight_k_in_block : &out_.weight_k;
  }

  /// Whether an axis of the results is one of the image, too.
  bool is_shared(int axis) const {
    return axis >= 0 && (axis == out_.y || axis == out_.x ||
                         std::find(out_.batch.begin(), out_.batch.end(), axis) != out_.batch.end());
  }

  const Operation& op_;
  const bool blocks_;
  Convolution& out_;
};

}  // namespace

Expr factor_of(const Operation& op, const Access& operand, const Expr& read) {
  const Binary* product = op.bodies()[0].as<Reduce>()->sources[0].as<Binary>();
  const Load* first = read_of_factor(product->a);
  return factor_of(first && first->buffer == operand.buffer ? product->a : product->b, read);
}

WhyNot match_contraction(const ComputeDag& dag, int s, const Access* operands[2]) {
  const Operation& op = dag.stage(s);
  if (!op.is_reduction() || op.num_outputs() != 1) return WhyNot::other_kind("a reduction");
  const auto* reduce = op.bodies()[0].as<Reduce>();
  if (reduce->combiner->kind != ReduceKind::Sum) return WhyNot::other_kind("a sum");
  const auto* product = reduce->sources[0].as<Binary>();
  if (!product || product->op != BinaryOp::Mul) return WhyNot::other_kind("a sum of products");
  operands[0] = access_of(dag.info(s).reads, read_of_factor(product->a));
  operands[1] = access_of(dag.info(s).reads, read_of_factor(product->b));
  if (!operands[0] || !operands[1] || operands[0] == operands[1])
    return WhyNot::other_kind("a sum of products of two reads");
  return "";
}

namespace {

WhyNot match_either(const ComputeDag& dag, int s, bool blocks, Convolution* out) {
  const Access* operands[2];
  WhyNot why = match_contraction(dag, s, operands);
  if (!why.empty()) return why;
  for (const int image : {0, 1}) {
    Convolution found;
    WhyNot reason =
        Matcher(dag.stage(s), blocks, &found).match(operands[image], operands[1 - image]);
    if (reason.empty()) {
      *out = found;
      return "";
    }
    if (image == 0 || why.is_other_kind()) why = std::move(reason);
  }
  return why;
}

}  // namespace

WhyNot match_convolution(const ComputeDag& dag, int s, Convolution* out) {
  return match_either(dag, s, false, out);
}

WhyNot match_blocked_convolution(const ComputeDag& dag, int s, Convolution* out) {
  return match_either(dag, s, true, out);
}

}  // namespace heddle::dag
