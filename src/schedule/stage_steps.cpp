// The steps that make stages: cache_write, cache_read, rfactor, pad.
#include "schedule/step_applier.h"

namespace heddle {
namespace {

// Far beyond any schedule; what a damaged file names must not exhaust the memory.
constexpr int kMaxStages = 1 << 12;
constexpr int64_t kMaxMultiple = 1 << 16;

class StageSteps : public StepApplier {
 public:
  using StepApplier::StepApplier;

  void run() {
    switch (step_.kind) {
      case StepKind::CacheWrite: return cache_write();
      case StepKind::CacheRead: return cache_read();
      case StepKind::Rfactor: return rfactor();
      default: return pad();
    }
  }

 private:
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

  // C = sum(k, A.copy * B.copy)  -->  C.pad over longer axes, C = C.pad
  void pad() {
    check_computes();
    STEP_CHECK(stage().is_reduction(), "it is no reduction");
    check_reduce_untouched("pad");
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    STEP_CHECK(stage().buffers.size() == 1 && reduce->combiner->kind == ReduceKind::Sum,
               "it is no sum: zeros would change it");
    STEP_CHECK(step_.params.size() == 3 * step_.axes.size(), "there are three factors an axis");
    check_results(stage().spatial.size() + stage().reduce.size());
    std::vector<VarBinding> bind;
    StageState& st = new_stage(stage().name + ".pad", stage().spatial, stage().reduce, &bind);
    StageState& c = stage();
    st.bodies = {substitute(c.bodies[0], bind)};
    for (size_t i = 0; i < step_.axes.size(); ++i) lengthen(i, c, st);
    check_vanishes(st);
    st.buffers = {Buffer::make(c.buffers[0]->name + ".pad", c.buffers[0]->dtype,
                               shape_of(st.spatial), Scope::Local)};
    c.bodies = {make_load(st.buffers[0], axis_vars(c.spatial))};
    c.reduce.clear();
    drop_reduce_leaves(&c);
    extend_copies(st);
  }

  // The axis of `to` that corresponds to axis argument `i` of `from`.
  void lengthen(size_t i, const StageState& from, const StageState& to) {
    const int id = step_.axes[i];
    int64_t multiple = 1;
    for (size_t f = 0; f < 3; ++f) {
      STEP_CHECK(param(3 * i + f) > 0 && param(3 * i + f) <= kMaxMultiple,
                 "a factor is not positive, or too large");
      multiple *= param(3 * i + f);
    }
    for (auto list : {&StageState::spatial, &StageState::reduce}) {
      const std::vector<int>& old = from.*list;
      const auto at = std::find(old.begin(), old.end(), id);
      if (at == old.end()) continue;
      AxisState& a = s_.axes[(to.*list)[static_cast<size_t>(at - old.begin())]];
      STEP_CHECK(as_int(a.extent), "the extent of '" + a.name + "' varies");
      a.static_extent = (a.static_extent + multiple - 1) / multiple * multiple;
      a.extent = Expr(a.static_extent);
      return;
    }
    fail("axis " + std::to_string(id) + " is none of its own axes");
  }

  // Whether what the sum adds up is zero where its operands are.
  void check_vanishes(const StageState& st) const {
    std::function<bool(const Expr&)> zero = [&](const Expr& e) -> bool {
      if (const Load* load = e.as<Load>()) {
        // Where a longer reduce axis leaves the operand's own elements.
        return std::all_of(st.reduce.begin(), st.reduce.end(), [&](int k) {
          return std::any_of(load->indices.begin(), load->indices.end(),
                             [&](const Expr& i) { return equal(i, s_.axes[k].var); });
        });
      }
      if (const Cast* c = e.as<Cast>()) return zero(c->value);
      const Binary* b = e.as<Binary>();
      return b && b->op == BinaryOp::Mul && zero(b->a) && zero(b->b);
    };
    STEP_CHECK(zero(st.bodies[0].as<Reduce>()->sources[0]),
               "it is no sum of products whose factors all run along the reduce axes");
  }

  // What `st` reads becomes as long as the axes that index it, with zeros where it had no elements.
  void extend_copies(const StageState& st) {
    std::vector<std::pair<Buffer, std::vector<int64_t>>> reads;
    visit(st.bodies[0].as<Reduce>()->sources[0], [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load) return;
      auto at = std::find_if(reads.begin(), reads.end(),
                             [&](const auto& r) { return r.first == load->buffer; });
      if (at == reads.end()) {
        reads.emplace_back(load->buffer, std::vector<int64_t>(load->indices.size()));
        at = reads.end() - 1;
      }
      for (size_t d = 0; d < load->indices.size(); ++d) {
        const int64_t extent = extent_read(load->indices[d], st);
        STEP_CHECK(extent > 0, "'" + load->buffer->name + "' is not read at plain axes");
        at->second[d] = std::max(at->second[d], extent);
      }
    });
    for (const auto& [buffer, extents] : reads) extend(buffer, extents, step_.results[0]);
  }
  // How far an index of one variable, or none, runs; 0: it is another.
  int64_t extent_read(const Expr& index, const StageState& st) const {
    if (const int64_t* fixed = as_int(index)) return *fixed + 1;
    for (const auto* list : {&st.spatial, &st.reduce}) {
      for (int a : *list) {
        if (equal(index, s_.axes[a].var)) return s_.axes[a].static_extent;
      }
    }
    return 0;
  }

  void extend(const Buffer& buffer, const std::vector<int64_t>& extents, int reader) {
    const int id = s_.stage_of(buffer);
    STEP_CHECK(id >= 0 && is_copy(id), "'" + buffer->name + "' is no copy for it to lengthen",
               "cache_read what it reads first");
    StageState& copy = s_.stages[id];
    STEP_CHECK(s_.readers(id) == std::vector<int>{reader},
               "'" + copy.name + "' is read by other stages, too");
    const Load* from = load_of(copy);
    const int source = s_.stage_of(from->buffer);
    Expr inside(true);
    bool longer = false;
    for (size_t d = 0; d < extents.size(); ++d) {
      AxisState& a = s_.axes[copy.spatial[d]];
      if (extents[d] <= a.static_extent) continue;
      const Expr here = a.var.expr() < Expr(a.static_extent);
      inside = longer ? Expr(inside && here) : here;
      longer = true;
      a.static_extent = extents[d];
      a.extent = Expr(extents[d]);
    }
    copy.buffers = {
        Buffer::make(buffer->name, buffer->dtype, shape_of(copy.spatial), buffer->scope)};
    rewrite_loads(reader, {buffer}, [&](int, const std::vector<Expr>& indices) {
      return make_load(copy.buffers[0], indices);
    });
    if (!longer) return;
    // A copy of a copy: the first of them has the zeros.
    if (source >= 0 && is_copy(source)) return extend(from->buffer, extents, id);
    copy.bodies = {make_select(inside, copy.bodies[0], make_const(buffer->dtype, 0))};
  }

  // What a step made to hold what another stage has: still without loops of its own making.
  bool is_copy(int id) const {
    const StageState& st = s_.stages[id];
    if (id < s_.dag.size() || st.is_reduction() || st.buffers.size() != 1 || !load_of(st))
      return false;
    for (int a : st.spatial) {
      if (!s_.axes[a].is_leaf() || s_.axes[a].loop != LoopKind::Serial) return false;
    }
    return st.placement == Placement::Root;
  }
  // The load of a stage that copies another element by element.
  const Load* load_of(const StageState& st) const {
    const Expr* body = &st.bodies[0];
    if (const Select* s = body->as<Select>()) body = &s->on_true;  // lengthened before
    const Load* load = body->as<Load>();
    if (!load || load->indices.size() != st.spatial.size()) return nullptr;
    for (size_t d = 0; d < st.spatial.size(); ++d) {
      if (!equal(load->indices[d], s_.axes[st.spatial[d]].var)) return nullptr;
    }
    return load;
  }

  void rfactor() {
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

void apply_stage_step(ScheduleState& state, const Step& step) { StageSteps(state, step).run(); }

}  // namespace heddle
