// The step rfactor: partial results in a new stage, and their reduction.
#include "heddle/ir/simplify.h"
#include "schedule/steps/stage_maker.h"

namespace heddle {
namespace {

class RfactorStep : public StageMaker {
 public:
  RfactorStep(ScheduleState& state, const Step& step) : StageMaker(state, step), ks_(step.axes) {}

  void run() {
    check_computes();
    check_axes();
    check_reduce_untouched("rfactor");
    inner_ = param(1) != 0;
    check_order();
    for (int k : ks_) {
      extents_.push_back(s_.axes[k].static_extent);
      extent_ *= extents_.back();
    }
    factor_ = std::min(param(0), extent_);
    blocks_ = (extent_ + factor_ - 1) / factor_;
    make_stage();
    const std::vector<VarBinding> sub = shape_parts();
    reduce_in_parts(sub);
    reduce_over_parts();
  }

 private:
  void check_axes() {
    STEP_CHECK(!ks_.empty(), "it names no axis");
    for (int k : ks_) {
      leaf(k);
      const AxisState& a = s_.axes[k];
      STEP_CHECK(stage().is_reduction(), "it is no reduction");
      STEP_CHECK(std::count(stage().reduce.begin(), stage().reduce.end(), k) == 1,
                 "axis '" + a.name + "' is not one of its reduce axes");
      STEP_CHECK(std::count(ks_.begin(), ks_.end(), k) == 1,
                 "axis '" + a.name + "' is named twice");
      STEP_CHECK(ks_.size() == 1 || as_int(a.extent),
                 "the extent of axis '" + a.name + "' is " + size_text(a.extent) + ", not constant",
                 "take the axes one at a time");
    }
  }

  void check_order() {
    STEP_CHECK(param(0) > 0, "the factor is not positive");
    const Combiner& combiner = *stage().bodies[0].as<Reduce>()->combiner;
    STEP_CHECK(!inner_ || combiner.commutative,
               "its reducer '" + combiner.name +
                   "' is not commutative, and inner partial results interleave");
    STEP_CHECK(ks_.size() == 1 || combiner.commutative,
               "its reducer '" + combiner.name +
                   "' is not commutative, and several axes taken as one change the order");
  }

  // Makes the new stage. The partial index is its first axis; in the old axes k is replaced by its
  // other part.
  void make_stage() {
    // The reduce axes that remain. k stands for all of ks.
    std::vector<int> left = stage().reduce;
    std::erase_if(left,
                  [&](int r) { return std::find(ks_.begin() + 1, ks_.end(), r) != ks_.end(); });
    check_results(stage().spatial.size() + 1 + left.size() + 1);
    std::string name = stage().name + ".rf";
    while (std::any_of(s_.stages.begin(), s_.stages.end(),
                       [&](const StageState& x) { return x.name == name; }))
      name += "f";
    std::vector<int> spatial{ks_[0]};
    spatial.insert(spatial.end(), stage().spatial.begin(), stage().spatial.end());
    const StageState& st = new_stage(name, spatial, left, &bind_);
    // new_stage copied k twice: once as the leading spatial axis, once among the reduce axes.
    part_ = st.spatial[0];
    rest_ = st.reduce[std::find(left.begin(), left.end(), ks_[0]) - left.begin()];
  }

  StageState& parts() { return s_.stages[step_.results[0]]; }

  // Sets the extents of the two parts of k. Returns what each old variable is in the new stage.
  std::vector<VarBinding> shape_parts() {
    const AxisState& k = s_.axes[ks_[0]];
    AxisState &ap = s_.axes[part_], &ar = s_.axes[rest_];
    ap.kind = AxisKind::Spatial;
    const bool sized = is_symbolic(k.extent);
    const Expr pv = ap.var, rv = ar.var, factor(factor_);
    const Expr blocks = sized ? floordiv(k.extent + Expr(factor_ - 1), factor) : Expr(blocks_);
    std::string all;
    for (int each : ks_) all += (all.empty() ? "" : ".") + s_.axes[each].name;
    ap.name = all + (inner_ ? ".i" : ".o");
    ar.name = all + (inner_ ? ".o" : ".i");
    // The last block of an earlier rfactor is shorter, so its extent depends on the block.
    exact_ = sized ? is_const(simplify(floormod(k.extent, factor)), 0)
                   : extent_ % factor_ == 0 && as_int(k.extent);
    whole_ = ks_.size() > 1 ? Expr(extent_) : substitute(k.extent, bind_);
    ap.static_extent = inner_ ? factor_ : blocks_;
    ar.static_extent = inner_ ? blocks_ : factor_;
    if (inner_) {
      ap.extent = factor;
      ar.extent = blocks;
      index_ = rv * factor + pv;
    } else {
      ap.extent = blocks;
      ar.extent = exact_ ? factor : max(Expr(0), min(factor, whole_ - pv * factor));
      index_ = pv * factor + rv;
    }
    std::vector<VarBinding> sub;
    for (const VarBinding& b : bind_) {
      if (!b.var.same_as(k.var)) sub.push_back(b);
    }
    Expr upper = index_;  // the last axis varies fastest
    for (size_t i = ks_.size(); i-- > 0;) {
      sub.push_back({s_.axes[ks_[i]].var, i == 0 ? upper : floormod(upper, Expr(extents_[i]))});
      upper = floordiv(upper, Expr(extents_[i]));
    }
    return sub;
  }

  void reduce_in_parts(const std::vector<VarBinding>& sub) {
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    const Ref<const Combiner>& combiner = reduce->combiner;
    std::vector<Expr> sources;
    for (size_t i = 0; i < reduce->sources.size(); ++i) {
      Expr src = substitute(reduce->sources[i], sub);
      // If interleaved parts do not divide the length, the last round is partial.
      if (inner_ && !exact_) src = make_select(index_ < whole_, src, combiner->identity[i]);
      sources.push_back(src);
    }
    StageState& st = parts();
    // Each component of the tuple gets a partial buffer, even a component that no output keeps.
    for (size_t i = 0; i < combiner->size(); ++i) {
      st.buffers.push_back(Buffer::make(st.name + (combiner->size() > 1 ? std::to_string(i) : ""),
                                        sources[i].dtype(), shape_of(st.spatial), Scope::Local));
      // StageState::reduce holds the reduce axes of a body. The node's own axes only mark it as a
      // reduction.
      st.bodies.push_back(make_reduce(combiner, sources, reduce->axes, static_cast<int>(i)));
    }
  }

  // Turns the old stage into a reduction over the parts.
  void reduce_over_parts() {
    AxisState q;
    q.name = s_.axes[part_].name;
    q.kind = AxisKind::Reduce;
    q.stage = step_.stage;
    q.var = Var(q.name);
    q.static_extent = inner_ ? factor_ : blocks_;
    q.extent = s_.axes[part_].extent;
    const int id = new_axis(1 + parts().spatial.size() + parts().reduce.size(), q);
    StageState& c = stage();
    c.reach = c.skip = {};
    std::vector<Expr> at = axis_vars(c.spatial);
    at.insert(at.begin(), s_.axes[id].var);
    std::vector<Expr> partial;
    for (const Buffer& b : parts().buffers) partial.push_back(make_load(b, at));
    for (Expr& body : c.bodies) {
      const Expr before = body;  // keeps the node alive
      const Reduce* reduce = before.as<Reduce>();
      body = make_reduce(reduce->combiner, partial, reduce->axes, reduce->index);
    }
    c.reduce = {id};
    drop_reduce_leaves(&c);
    c.leaves.push_back(id);
  }

  const std::vector<int>& ks_;    ///< the axes, outermost first; the first stands for all
  bool inner_ = false;            ///< the parts interleave
  std::vector<int64_t> extents_;  ///< extents of ks
  int64_t extent_ = 1;            ///< product of extents_
  int64_t factor_ = 1, blocks_ = 1;
  std::vector<VarBinding> bind_;  ///< old variables -> those of the new stage
  int part_ = -1, rest_ = -1;     ///< axes of the new stage that k became
  bool exact_ = false;            ///< all parts are of one length
  Expr whole_, index_;  ///< the length that is cut, and the position of an iteration in it
};

}  // namespace

void apply_rfactor_step(ScheduleState& state, const Step& step) { RfactorStep(state, step).run(); }

}  // namespace heddle
