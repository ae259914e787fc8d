// rfactor: a reduction in parts, in a stage of its own, and the reduction of the parts.
#include "schedule/step_context.h"

namespace heddle {
namespace {

class Rfactor : public StepContext {
 public:
  using StepContext::StepContext;

  void run() {
    check_computes();
    const std::vector<int>& ks = step_.axes;
    STEP_CHECK(!ks.empty(), "it names no axis");
    for (size_t i = 0; i < ks.size(); ++i) {
      leaf(ks[i]);
      STEP_CHECK(stage().is_reduction(), "it is no reduction");
      STEP_CHECK(std::count(stage().reduce.begin(), stage().reduce.end(), ks[i]) == 1,
                 "axis '" + s_.axes[ks[i]].name + "' is not one of its reduce axes");
      STEP_CHECK(std::count(ks.begin(), ks.end(), ks[i]) == 1,
                 "axis '" + s_.axes[ks[i]].name + "' is named twice");
      STEP_CHECK(ks.size() == 1 || as_int(s_.axes[ks[i]].extent),
                 "the extent of axis '" + s_.axes[ks[i]].name + "' is not constant",
                 "take the axes one at a time");
    }
    const int k = ks[0];
    check_reduce_untouched("rfactor");
    int64_t factor = param(0);
    bool inner = param(1) != 0;
    STEP_CHECK(factor > 0, "the factor is not positive");
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    STEP_CHECK(!inner || reduce->combiner->commutative,
               "its reducer '" + reduce->combiner->name +
                   "' is not commutative, and inner partial results interleave");
    STEP_CHECK(ks.size() == 1 || reduce->combiner->commutative,
               "its reducer '" + reduce->combiner->name +
                   "' is not commutative, and several axes taken as one change the order");
    int64_t extent = 1;
    std::vector<int64_t> extents;  // of ks
    for (int each : ks) {
      extents.push_back(s_.axes[each].static_extent);
      extent *= extents.back();
    }
    factor = std::min(factor, extent);
    int64_t blocks = (extent + factor - 1) / factor;

    // What is left to reduce over: k stands for all of ks.
    std::vector<int> left = stage().reduce;
    std::erase_if(left, [&](int r) { return std::find(ks.begin() + 1, ks.end(), r) != ks.end(); });
    check_results(stage().spatial.size() + 1 + left.size() + 1);
    // The new stage: the partial index first, then the old axes with k replaced by its other part.
    std::vector<VarBinding> bind;
    std::string name = stage().name + ".rf";
    while (std::any_of(s_.stages.begin(), s_.stages.end(),
                       [&](const StageState& x) { return x.name == name; }))
      name += "f";
    new_stage(name, rf_axes(k), left, &bind);
    int id = step_.results[0];
    StageState& st = s_.stages[id];
    StageState& c = stage();
    // new_stage copied k twice: once as the leading spatial axis, once among the reduce axes.
    int part = st.spatial[0];
    int rest = st.reduce[std::find(left.begin(), left.end(), k) - left.begin()];
    AxisState &ap = s_.axes[part], &ar = s_.axes[rest];
    ap.kind = AxisKind::Spatial;
    Expr pv = ap.var, rv = ar.var, index;
    std::string all;
    for (int each : ks) all += (all.empty() ? "" : ".") + s_.axes[each].name;
    ap.name = all + (inner ? ".i" : ".o");
    ar.name = all + (inner ? ".o" : ".i");
    // The last block of an earlier rfactor is shorter: its extent depends on which block it is.
    bool exact = extent % factor == 0 && as_int(s_.axes[k].extent);
    Expr whole = ks.size() > 1 ? Expr(extent) : substitute(s_.axes[k].extent, bind);
    if (inner) {
      ap.static_extent = factor;
      ar.static_extent = blocks;
      ap.extent = Expr(factor);
      ar.extent = Expr(blocks);
      index = rv * Expr(factor) + pv;
    } else {
      ap.static_extent = blocks;
      ar.static_extent = factor;
      ap.extent = Expr(blocks);
      ar.extent = exact ? Expr(factor) : max(Expr(0), min(Expr(factor), whole - pv * Expr(factor)));
      index = pv * Expr(factor) + rv;
    }
    std::vector<VarBinding> sub;
    for (const VarBinding& b : bind) {
      if (!b.var.same_as(s_.axes[k].var)) sub.push_back(b);
    }
    Expr upper = index;  // the last axis runs fastest
    for (size_t i = ks.size(); i-- > 0;) {
      sub.push_back({s_.axes[ks[i]].var, i == 0 ? upper : floormod(upper, Expr(extents[i]))});
      upper = floordiv(upper, Expr(extents[i]));
    }
    std::vector<Expr> sources;
    for (size_t i = 0; i < reduce->sources.size(); ++i) {
      Expr src = substitute(reduce->sources[i], sub);
      // Interleaved parts of a length that does not divide: the last round is partial.
      if (inner && !exact) src = make_select(index < whole, src, reduce->combiner->identity[i]);
      sources.push_back(src);
    }
    Ref<const Combiner> combiner = reduce->combiner;
    // From here on StageState::reduce says what a body reduces over; the node's own axes only mark
    // it.
    std::vector<Axis> axes = reduce->axes;
    Expr keep_alive = c.bodies[0];
    size_t n = c.buffers.size();
    std::vector<int> components;
    for (const Expr& b : c.bodies) components.push_back(b.as<Reduce>()->index);
    // One partial buffer per component of the tuple, even those that no output keeps.
    for (size_t i = 0; i < combiner->size(); ++i) {
      std::vector<Expr> shape = shape_of(st.spatial);
      st.buffers.push_back(Buffer::make(name + (combiner->size() > 1 ? std::to_string(i) : ""),
                                        sources[i].dtype(), shape, Scope::Local));
      st.bodies.push_back(make_reduce(combiner, sources, axes, static_cast<int>(i)));
    }
    // What is left in the old stage: a reduction over the parts.
    size_t result = 1 + st.spatial.size() + st.reduce.size();
    AxisState q;
    q.name = ap.name;
    q.kind = AxisKind::Reduce;
    q.stage = step_.stage;
    q.var = Var(q.name);
    q.static_extent = inner ? factor : blocks;
    q.extent = Expr(q.static_extent);
    int qid = new_axis(result, q);
    StageState& cc = s_.stages[step_.stage];
    StageState& rf = s_.stages[id];
    std::vector<Expr> at = axis_vars(cc.spatial);
    at.insert(at.begin(), s_.axes[qid].var);
    std::vector<Expr> partial;
    for (const Buffer& b : rf.buffers) partial.push_back(make_load(b, at));
    for (size_t i = 0; i < n; ++i)
      cc.bodies[i] = make_reduce(combiner, partial, axes, components[i]);
    cc.reduce = {qid};
    drop_reduce_leaves(&cc);
    cc.leaves.push_back(qid);
  }

  std::vector<int> rf_axes(int k) {
    std::vector<int> out{k};
    out.insert(out.end(), stage().spatial.begin(), stage().spatial.end());
    return out;
  }
};

}  // namespace

void apply_rfactor(ScheduleState& state, const Step& step) { Rfactor(state, step).run(); }

}  // namespace heddle
