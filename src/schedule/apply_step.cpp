// What each step does to the state: one function a step kind, and the legality it needs.
#include <algorithm>
#include <functional>

#include "heddle/support/error.h"
#include "schedule/schedule_state.h"

namespace heddle {
namespace {

// Far beyond any schedule; what a damaged file names must not exhaust the memory.
constexpr int kMaxAxes = 1 << 16, kMaxStages = 1 << 12;
constexpr int64_t kMaxTile = int64_t{1} << 31;

// The message is put together only when the check fails: replaying a template passes thousands.
#define STEP_CHECK(ok, ...) ((ok) ? void() : fail(__VA_ARGS__))

class Applier {
 public:
  Applier(ScheduleState& s, const Step& step) : s_(s), step_(step) {}

  void run() {
    STEP_CHECK(step_.stage >= 0 && step_.stage < static_cast<int>(s_.stages.size()) &&
                   s_.stages[step_.stage].defined(),
               "there is no such stage");
    for (const Param& p : step_.params) {
      STEP_CHECK(p.is_const(), "a parameter is an unset knob",
                 "instantiate the template with a Config");
    }
    check_arity();
    switch (step_.kind) {
      case StepKind::Split: return split();
      case StepKind::Fuse: return fuse();
      case StepKind::Reorder: return reorder();
      case StepKind::ComputeAt: return compute_at();
      case StepKind::Inline: return inline_stage();
      case StepKind::CacheWrite: return cache_write();
      case StepKind::CacheRead: return cache_read();
      case StepKind::Rfactor: return rfactor();
      case StepKind::Layout: return layout();
      case StepKind::Vectorize: return annotate(LoopKind::Vectorized);
      case StepKind::Unroll: return annotate(LoopKind::Unrolled);
      case StepKind::Parallel: return annotate(LoopKind::Parallel);
      case StepKind::NonTemporal:
        check_computes();
        stage().nontemporal = true;
        return;
      case StepKind::Prefetch: return prefetch();
      case StepKind::Bind: return bind();
      case StepKind::SetScope: return set_scope();
      case StepKind::StoragePad:
        check_keeps_own_storage();
        STEP_CHECK(param(0) >= 0 && param(0) <= 1024, "a row is padded by 0 to 1024 elements");
        stage().pad = param(0);
        return;
      case StepKind::MultiBuffer:
        check_keeps_own_storage();
        STEP_CHECK(param(0) >= 1 && param(0) <= 16, "1 to 16 copies can be kept");
        stage().copies = static_cast<int>(param(0));
        return;
      case StepKind::Tensorize: return annotate(LoopKind::Tensorized);
      case StepKind::LastBlock: return by_last_block();
    }
  }

 private:
  StageState& stage() { return s_.stages[step_.stage]; }

  [[noreturn]] void fail(const std::string& why, const std::string& help = "") const {
    std::string on = step_.stage >= 0 && step_.stage < static_cast<int>(s_.stages.size())
                         ? " to stage '" + s_.stages[step_.stage].name + "'"
                         : "";
    std::string loops = on.empty() ? "" : "\n  loops: " + s_.loops_text(step_.stage);
    throw_user_error(std::string("cannot apply ") + to_string(step_.kind) + on + ": " + why + loops,
                     step_.where, help);
  }

  // How many axes, parameters and results the step must have; -1 = any number. What is left over
  // would be printed and counted, but never looked at.
  void check_arity() const {
    const StepArity arity = arity_of(step_.kind);
    auto expect = [&](int want, size_t got, const char* what) {
      STEP_CHECK(want < 0 || static_cast<size_t>(want) == got,
                 "the step has " + std::to_string(got) + " " + what + " in place of " +
                     std::to_string(want));
    };
    expect(arity.axes, step_.axes.size(), "axes");
    expect(arity.params, step_.params.size(), "parameters");
    expect(arity.results, step_.results.size(), "results");
  }
  // The results of a step that makes a stage: the stage, then its axes.
  void check_results(size_t axes) const {
    STEP_CHECK(step_.results.size() == 1 + axes,
               "the step has " + std::to_string(step_.results.size()) + " results in place of " +
                   std::to_string(1 + axes));
  }

  void check_computes() {
    STEP_CHECK(!stage().placeholder, "it is an input, nothing computes it");
    STEP_CHECK(stage().placement != Placement::Inlined, "it was inlined");
  }

  // The axis `id`, which must be a loop of the step's stage.
  AxisState& leaf(int id) {
    STEP_CHECK(id >= 0 && id < static_cast<int>(s_.axes.size()) && s_.axes[id].defined,
               "axis " + std::to_string(id) + " does not exist");
    AxisState& a = s_.axes[id];
    STEP_CHECK(a.stage == step_.stage,
               "axis '" + a.name + "' belongs to stage '" + s_.stages[a.stage].name + "'");
    if (!a.is_leaf()) {
      std::string how = a.split_outer >= 0 ? "split" : "fused";
      std::string line = a.consumed_at.line ? " at line " + std::to_string(a.consumed_at.line) : "";
      STEP_CHECK(false, "axis '" + a.name + "' was " + how + line,
                 "use one of the loops that are left");
    }
    STEP_CHECK(s_.leaf_position(id) >= 0, "axis '" + a.name + "' is no loop of it any more");
    return a;
  }

  // A loop at which a stage is computed must stay.
  void check_nothing_inside(int axis) const {
    for (const StageState& st : s_.stages) {
      STEP_CHECK(!st.defined() || st.placement != Placement::At || st.at_axis != axis,
                 "stage '" + st.name + "' is computed at axis '" + s_.axes[axis].name + "'",
                 "shape the loops first, then place stages in them");
    }
  }

  int new_axis(size_t result, AxisState a) {
    STEP_CHECK(result < step_.results.size(), "the step names too few results");
    int id = step_.results[result];
    STEP_CHECK(id >= 0 && id < kMaxAxes, "bad result id " + std::to_string(id));
    if (id >= static_cast<int>(s_.axes.size())) s_.axes.resize(id + 1);
    STEP_CHECK(!s_.axes[id].defined, "result id " + std::to_string(id) + " is taken");
    a.defined = true;
    s_.axes[id] = std::move(a);
    return id;
  }

  // There are as many as check_arity found.
  int64_t param(size_t i) const { return step_.params[i].value; }
  int axis_arg(size_t i) const { return step_.axes[i]; }
  void split() {
    check_computes();
    int id = axis_arg(0);
    AxisState& a = leaf(id);
    int64_t f = param(0);
    STEP_CHECK(f > 0, "the factor " + std::to_string(f) + " is not positive");
    STEP_CHECK(a.loop == LoopKind::Serial, "axis '" + a.name + "' is already " + to_string(a.loop),
               "split first, then annotate the parts");
    check_nothing_inside(id);
    f = std::min(f, std::max<int64_t>(a.static_extent, 1));
    AxisState outer, inner;
    outer.name = a.name + ".o";
    inner.name = a.name + ".i";
    outer.kind = inner.kind = a.kind;
    outer.stage = inner.stage = a.stage;
    outer.parent = inner.parent = id;
    outer.origin = AxisOrigin::SplitOuter;
    inner.origin = AxisOrigin::SplitInner;
    outer.static_extent = (a.static_extent + f - 1) / f;
    inner.static_extent = f;
    int o = new_axis(0, outer), i = new_axis(1, inner);
    AxisState& parent = s_.axes[id];  // new_axis may have moved it
    parent.split_outer = o;
    parent.split_inner = i;
    parent.factor = f;
    parent.consumed_at = step_.where;
    auto& leaves = stage().leaves;
    auto it = std::find(leaves.begin(), leaves.end(), id);
    *it = o;
    leaves.insert(it + 1, i);
  }

  void fuse() {
    check_computes();
    int ia = axis_arg(0), ib = axis_arg(1);
    const AxisState &a = leaf(ia), &b = leaf(ib);
    int pa = s_.leaf_position(ia), pb = s_.leaf_position(ib);
    STEP_CHECK(pb == pa + 1,
               "'" + a.name + "' and '" + b.name + "' are not adjacent loops, outer first",
               "reorder them side by side first");
    STEP_CHECK(a.kind == b.kind,
               "'" + a.name + "' and '" + b.name + "' are not both spatial or both reduce axes");
    STEP_CHECK(a.loop == LoopKind::Serial && b.loop == LoopKind::Serial,
               "a fused axis is already annotated");
    check_nothing_inside(ia);
    check_nothing_inside(ib);
    AxisState f;
    f.name = a.name + "." + b.name;
    f.kind = a.kind;
    f.stage = a.stage;
    f.origin = AxisOrigin::Fused;
    f.fuse_a = ia;
    f.fuse_b = ib;
    f.static_extent = a.static_extent * b.static_extent;
    int id = new_axis(0, f);
    for (int x : {ia, ib}) {
      s_.axes[x].fused_into = id;
      s_.axes[x].consumed_at = step_.where;
    }
    auto& leaves = stage().leaves;
    leaves[pa] = id;
    leaves.erase(leaves.begin() + pb);
  }

  void reorder() {
    check_computes();
    std::vector<int> places;
    for (int id : step_.axes) {
      leaf(id);
      places.push_back(s_.leaf_position(id));
    }
    std::vector<int> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    STEP_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
               "an axis is named twice");
    std::vector<int> leaves = stage().leaves;
    for (size_t i = 0; i < sorted.size(); ++i) leaves[sorted[i]] = step_.axes[i];
    stage().leaves = std::move(leaves);
  }

  void annotate(LoopKind kind) {
    check_computes();
    AxisState& a = leaf(axis_arg(0));
    STEP_CHECK(a.loop == LoopKind::Serial || a.loop == kind,
               "axis '" + a.name + "' is already " + to_string(a.loop));
    if (kind == LoopKind::Parallel || kind == LoopKind::Vectorized) {
      STEP_CHECK(a.kind == AxisKind::Spatial,
                 "axis '" + a.name + "' is a reduce axis: its iterations depend on each other",
                 "rfactor it first: the partial results are independent");
    }
    a.loop = kind;
  }

  void bind() {
    check_computes();
    const AxisState& a = leaf(axis_arg(0));
    const std::string why = why_not_bound(s_, step_.stage, axis_arg(0), param(0));
    if (!why.empty()) fail(why);
    const auto kind = static_cast<LoopKind>(param(0));
    STEP_CHECK(a.kind == AxisKind::Spatial || is_thread(kind),
               "axis '" + a.name + "' is a reduce axis: blocks cannot combine their results",
               "rfactor it first: the partial results are independent");
    annotate(kind);
  }

  void by_last_block() {
    const std::string why = why_not_by_last_block(s_, step_.stage);
    if (!why.empty()) fail(why, "only a stage at the root, of one block, is left to it");
    stage().last_block = true;
  }

  void set_scope() {
    check_keeps_own_storage();
    auto scope = static_cast<Scope>(param(0));
    STEP_CHECK(scope == Scope::Local || scope == Scope::Shared,
               "a stage computed at a loop is kept in local or in shared memory");
    stage().scope = scope;
  }

  void check_keeps_own_storage() {
    check_computes();
    STEP_CHECK(!stage().output, "it is an output: its storage is the caller's",
               "cache_write it and place the copy");
  }

  void compute_at() {
    check_computes();
    int loop = axis_arg(0);
    STEP_CHECK(loop >= 0 && loop < static_cast<int>(s_.axes.size()) && s_.axes[loop].defined,
               "there is no such loop");
    int consumer = s_.axes[loop].stage;
    STEP_CHECK(!stage().output,
               "it is an output of the program: it must be computed whole, at the root");
    STEP_CHECK(consumer != step_.stage, "a stage cannot be computed inside itself");
    STEP_CHECK(!s_.stages[consumer].placeholder,
               "stage '" + s_.stages[consumer].name + "' is an input and has no loops");
    STEP_CHECK(s_.stages[consumer].placement != Placement::Inlined,
               "stage '" + s_.stages[consumer].name + "' was inlined and has no loops any more");
    STEP_CHECK(s_.leaf_position(loop) >= 0,
               "'" + s_.axes[loop].name + "' of '" + s_.stages[consumer].name +
                   "' was split or fused and is no loop any more",
               "name one of its loops: " + s_.loops_text(consumer));
    for (int host = consumer; host >= 0; host = s_.stages[host].at_stage) {
      STEP_CHECK(host != step_.stage, "that loop is itself inside this stage");
    }
    stage().placement = Placement::At;
    stage().at_stage = consumer;
    stage().at_axis = loop;
  }

  // Rewrites every load of the buffers of `from` in the bodies of `reader`.
  void rewrite_loads(int reader, const std::vector<Buffer>& from,
                     FunctionRef<Expr(int component, const std::vector<Expr>& indices)> to) {
    std::function<Expr(const Expr&)> go = [&](const Expr& e) -> Expr {
      Expr r = map_children(e, [&](const Expr& c) { return go(c); });
      if (const Load* load = r.as<Load>()) {
        for (size_t c = 0; c < from.size(); ++c) {
          if (from[c] == load->buffer) return to(static_cast<int>(c), load->indices);
        }
      }
      return r;
    };
    for (Expr& body : s_.stages[reader].bodies) body = go(body);
  }

  void inline_stage() {
    check_computes();
    STEP_CHECK(!stage().output, "it is an output of the program");
    STEP_CHECK(!stage().is_reduction(),
               "it is a reduction: inlining would repeat it for every reader");
    for (const StageState& st : s_.stages) {
      STEP_CHECK(st.placement != Placement::At || st.at_stage != step_.stage,
                 "stage '" + st.name + "' is computed inside it");
    }
    const StageState& p = stage();
    for (int reader : s_.readers(step_.stage)) {
      rewrite_loads(reader, p.buffers, [&](int c, const std::vector<Expr>& indices) {
        std::vector<VarBinding> bind;
        for (size_t d = 0; d < p.spatial.size(); ++d) {
          bind.push_back({s_.axes[p.spatial[d]].var, indices[d]});
        }
        return substitute(p.bodies[c], bind);
      });
    }
    stage().placement = Placement::Inlined;
  }

  // The reduction moves to a new stage: its loops must not have been shaped yet. Spatial loops may.
  void check_reduce_untouched(const std::string& what) {
    for (int id : stage().reduce) {
      STEP_CHECK(s_.axes[id].is_leaf() && s_.axes[id].loop == LoopKind::Serial,
                 "reduce axis '" + s_.axes[id].name + "' was split, fused or annotated before",
                 what + " comes first");
      check_nothing_inside(id);
    }
  }
  void drop_reduce_leaves(StageState* st) const {
    std::erase_if(st->leaves, [&](int id) { return s_.axes[id].kind == AxisKind::Reduce; });
  }

  std::vector<Expr> shape_of(const std::vector<int>& axes) const {
    std::vector<Expr> shape;
    for (int id : axes) shape.emplace_back(s_.axes[id].static_extent);
    return shape;
  }

  // A new stage with id results[0]; its axes, copies of `spatial` and `reduce` with fresh
  // variables, take the ids from results[1] on. `bind` receives old variable -> new variable. By
  // value: the stages move when one is added.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  StageState& new_stage(const std::string& name, std::vector<int> spatial, std::vector<int> reduce,
                        std::vector<VarBinding>* bind) {
    STEP_CHECK(!step_.results.empty(), "the step names too few results");
    int id = step_.results[0];
    STEP_CHECK(id >= 0 && id < kMaxStages, "bad result id " + std::to_string(id));
    if (id >= static_cast<int>(s_.stages.size())) s_.stages.resize(id + 1);
    STEP_CHECK(!s_.stages[id].defined(), "the id of the new stage is taken");
    StageState st;
    st.name = name;
    size_t next = 1;
    auto copy = [&](int from) {
      AxisState a;
      const AxisState& old = s_.axes[from];
      a.name = old.name;
      a.kind = old.kind;
      a.stage = id;
      a.var = Var(old.name);
      a.extent = old.extent;
      a.static_extent = old.static_extent;
      bind->push_back({old.var, a.var});
      return new_axis(next++, std::move(a));
    };
    for (int a : spatial) st.spatial.push_back(copy(a));
    for (int a : reduce) st.reduce.push_back(copy(a));
    for (int a : st.reduce) s_.axes[a].extent = substitute(s_.axes[a].extent, *bind);
    st.leaves = st.spatial;
    st.leaves.insert(st.leaves.end(), st.reduce.begin(), st.reduce.end());
    s_.stages[id] = std::move(st);
    return s_.stages[id];
  }

  // The bodies with their variables renamed; Reduce nodes get axes over the new variables.
  std::vector<Expr> renamed_bodies(const std::vector<Expr>& bodies,
                                   const std::vector<VarBinding>& bind) const {
    std::vector<Expr> out;
    for (const Expr& b : bodies) out.push_back(substitute(b, bind));
    return out;
  }

  std::vector<Expr> axis_vars(const std::vector<int>& axes) const {
    std::vector<Expr> out;
    for (int id : axes) out.push_back(s_.axes[id].var);
    return out;
  }

  void cache_write() {
    check_computes();
    check_reduce_untouched("cache_write");
    check_results(stage().spatial.size() + stage().reduce.size());
    std::vector<VarBinding> bind;
    StageState& st = new_stage(stage().name + ".local", stage().spatial, stage().reduce, &bind);
    StageState& c = stage();
    st.bodies = renamed_bodies(c.bodies, bind);
    for (const Buffer& b : c.buffers) {
      st.buffers.push_back(Buffer::make(b->name + ".local", b->dtype, b->shape, Scope::Local));
    }
    c.bodies.clear();
    for (const Buffer& b : st.buffers) c.bodies.push_back(make_load(b, axis_vars(c.spatial)));
    c.reduce.clear();
    drop_reduce_leaves(&c);
  }

  void cache_read() {
    STEP_CHECK(stage().placement != Placement::Inlined, "it was inlined");
    check_results(stage().spatial.size());
    for (size_t i = 0; i < step_.params.size(); ++i) {
      int64_t reader = param(i);
      STEP_CHECK(reader >= 0 && reader < static_cast<int64_t>(s_.stages.size()) &&
                     s_.stages[reader].defined(),
                 "there is no such reader");
    }
    std::vector<VarBinding> bind;
    StageState& st = new_stage(stage().name + ".copy", stage().spatial, {}, &bind);
    StageState& p = stage();
    st.constant = false;
    for (const Buffer& b : p.buffers) {
      st.buffers.push_back(Buffer::make(b->name + ".copy", b->dtype, b->shape, Scope::Global));
      st.bodies.push_back(make_load(b, axis_vars(st.spatial)));
    }
    for (size_t i = 0; i < step_.params.size(); ++i) {
      int reader = static_cast<int>(param(i));
      const std::vector<Buffer>& to = s_.stages[step_.results[0]].buffers;
      rewrite_loads(reader, p.buffers, [&](int c, const std::vector<Expr>& indices) {
        return make_load(to[c], indices);
      });
    }
  }

  void rfactor() {
    check_computes();
    int k = axis_arg(0);
    leaf(k);
    STEP_CHECK(stage().is_reduction(), "it is no reduction");
    STEP_CHECK(std::find(stage().reduce.begin(), stage().reduce.end(), k) != stage().reduce.end(),
               "axis '" + s_.axes[k].name + "' is not one of its reduce axes");
    check_reduce_untouched("rfactor");
    int64_t factor = param(0);
    bool inner = param(1) != 0;
    STEP_CHECK(factor > 0, "the factor is not positive");
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    STEP_CHECK(!inner || reduce->combiner->commutative,
               "its reducer '" + reduce->combiner->name +
                   "' is not commutative, and inner partial results interleave");
    int64_t extent = s_.axes[k].static_extent;
    factor = std::min(factor, extent);
    int64_t blocks = (extent + factor - 1) / factor;

    check_results(stage().spatial.size() + 1 + stage().reduce.size() + 1);
    // The new stage: the partial index first, then the old axes with k replaced by its other part.
    std::vector<VarBinding> bind;
    std::string name = stage().name + ".rf";
    while (std::any_of(s_.stages.begin(), s_.stages.end(),
                       [&](const StageState& x) { return x.name == name; }))
      name += "f";
    new_stage(name, rf_axes(k), stage().reduce, &bind);
    int id = step_.results[0];
    StageState& st = s_.stages[id];
    StageState& c = stage();
    // new_stage copied k twice: once as the leading spatial axis, once among the reduce axes.
    int part = st.spatial[0];
    int rest = st.reduce[std::find(c.reduce.begin(), c.reduce.end(), k) - c.reduce.begin()];
    AxisState &ap = s_.axes[part], &ar = s_.axes[rest];
    ap.kind = AxisKind::Spatial;
    Expr pv = ap.var, rv = ar.var, index;
    ap.name = s_.axes[k].name + (inner ? ".i" : ".o");
    ar.name = s_.axes[k].name + (inner ? ".o" : ".i");
    // The last block of an earlier rfactor is shorter: its extent depends on which block it is.
    bool exact = extent % factor == 0 && as_int(s_.axes[k].extent);
    Expr whole = substitute(s_.axes[k].extent, bind);
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
    sub.push_back({s_.axes[k].var, index});
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

  void prefetch() {
    check_computes();
    STEP_CHECK(!stage().is_reduction(), "it is a reduction",
               "prefetch from what reads the same rows element-wise");
    int64_t from = param(0), dim = param(1), distance = param(2);
    STEP_CHECK(
        from >= 0 && from < static_cast<int64_t>(s_.stages.size()) && s_.stages[from].defined(),
        "there is no stage " + std::to_string(from) + " to read");
    const StageState& p = s_.stages[from];
    STEP_CHECK(dim >= 0 && dim < static_cast<int64_t>(p.spatial.size()),
               "'" + p.name + "' has no dimension " + std::to_string(dim));
    STEP_CHECK(
        distance > 0 && distance <= s_.axes[p.spatial[dim]].static_extent,
        "the distance " + std::to_string(distance) + " does not lie inside '" + p.name + "'");
    stage().prefetches.push_back({static_cast<int>(from), static_cast<int>(dim), distance});
  }

  void layout() {
    STEP_CHECK(!stage().placeholder, "it is an input: its layout is the caller's",
               "cache_read it and lay out the copy");
    STEP_CHECK(!stage().output, "it is an output: its layout is the caller's");
    STEP_CHECK(step_.params.size() % 3 == 0, "params come in threes: dim, divisor, modulus");
    size_t rank = stage().spatial.size();
    std::vector<StageState::LayoutDim> dims;
    for (size_t i = 0; i < step_.params.size(); i += 3) {
      StageState::LayoutDim d{static_cast<int>(param(i)), param(i + 1), param(i + 2)};
      STEP_CHECK(d.dim >= 0 && d.dim < static_cast<int>(rank),
                 "there is no dimension " + std::to_string(d.dim));
      STEP_CHECK(d.divisor > 0 && d.modulus >= 0, "divisor and modulus must be positive");
      STEP_CHECK(d.divisor <= kMaxTile && d.modulus <= kMaxTile, "divisor or modulus is too large");
      dims.push_back(d);
    }
    for (size_t d = 0; d < rank; ++d) {
      const bool ok = makes_up_dimension(dims, static_cast<int>(d), kMaxTile);
      STEP_CHECK(ok,
                 "the parts of dimension " + std::to_string(d) + " do not make it up exactly once",
                 "e.g. {1, 16, 0} and {1, 1, 16} for tiles of 16");
    }
    stage().layout = std::move(dims);
  }

  ScheduleState& s_;
  const Step& step_;
};

}  // namespace

void apply_step(ScheduleState& state, const Step& step) { Applier(state, step).run(); }

}  // namespace heddle
