// The step pad: a sum of products, a sum, maximum or minimum of elements, or a stage of elements, over
// longer axes, so that tiles divide them.
#include "dag/patterns/needed_terms.h"
#include "heddle/ir/simplify.h"
#include "schedule/steps/stage_maker.h"

namespace heddle {
namespace {

constexpr int64_t kMaxMultiple = 1 << 20;

class PadStep : public StageMaker {
 public:
  using StageMaker::StageMaker;

  // C = sum(k, A.copy * B.copy)  -->  C.pad over longer axes; C = C.pad
  // C = max(k, A.copy)           -->  the same; A.copy is the identity of the maximum beyond its ends
  void run() {
    check_computes();
    if (!stage().is_reduction()) return pad_elements();
    check_reduce_untouched("pad");
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    const ReduceKind kind = reduce->combiner->kind;
    const bool of_elements = (kind == ReduceKind::Max || kind == ReduceKind::Min) &&
                             reduce->sources[0].kind() == ExprKind::Load;
    STEP_CHECK(stage().buffers.size() == 1 && (kind == ReduceKind::Sum || of_elements),
               "it is no sum and no maximum of elements, which further ones would leave as it is");
    if (of_elements) identity_ = reduce->combiner->identity[0];
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
    if (kind == ReduceKind::Sum) leave_out_zeros(st, bind);
    c.bodies = {make_load(st.buffers[0], axis_vars(c.spatial))};
    c.reduce.clear();
    drop_reduce_leaves(&c);
    extend_copies(st);
  }

  // Notes which terms of the sum are zero, such as those of keys after a query.
  void leave_out_zeros(StageState& st, const std::vector<VarBinding>& bind) {
    if (step_.stage >= s_.dag.size() || stage().reduce.size() != 1) return;
    const std::vector<Axis>& declared = s_.dag.stage(step_.stage).reduce_axes();
    // Another step may have made the sum one of others.
    if (declared.size() != 1 || !s_.axes[stage().reduce[0]].var.same_as(declared[0].var())) return;
    const dag::NeededTerms needed = dag::needed_terms(s_.dag, step_.stage);
    if (needed.first.defined()) st.skip = substitute(needed.first, bind);
    if (needed.end.defined()) st.reach = substitute(needed.end, bind);
  }

  // C[i] = f(i)  -->  C.pad[i] = i < n ? f(i) : 0; C[i] = C.pad[i]
  void pad_elements() {
    STEP_CHECK(stage().buffers.size() == 1, "it has several results");
    STEP_CHECK(step_.params.size() == 3 * step_.axes.size(), "there are three factors an axis");
    check_results(stage().spatial.size());
    std::vector<VarBinding> bind;
    StageState& st = new_stage(stage().name + ".pad", stage().spatial, {}, &bind);
    StageState& c = stage();
    for (size_t i = 0; i < step_.axes.size(); ++i) lengthen(i, c, st);
    Expr value = substitute(c.bodies[0], bind), inside(true);
    bool longer = false;
    for (size_t d = 0; d < c.spatial.size(); ++d) {
      const AxisState &from = s_.axes[c.spatial[d]], &to = s_.axes[st.spatial[d]];
      if (equal(from.extent, to.extent)) continue;
      const Expr here = to.var.expr() < from.extent;
      inside = longer ? Expr(inside && here) : here;
      longer = true;
    }
    const DataType type = c.buffers[0]->dtype;
    st.bodies = {longer ? make_select(inside, value, make_const(type, 0)) : value};
    st.buffers = {
        Buffer::make(c.buffers[0]->name + ".pad", type, shape_of(st.spatial), Scope::Local)};
    c.bodies = {make_load(st.buffers[0], axis_vars(c.spatial))};
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
      const bool sized = is_symbolic(a.extent);
      STEP_CHECK(sized || as_int(a.extent), "the extent of '" + a.name + "' varies");
      const int64_t before = a.static_extent;
      a.static_extent = (a.static_extent + multiple - 1) / multiple * multiple;
      a.extent =
          sized ? simplify(floordiv(a.extent + Expr(multiple - 1), Expr(multiple)) * Expr(multiple))
                : Expr(a.static_extent);
      if (sized || a.static_extent > before) longer_.push_back(a.var);
      return;
    }
    fail("axis " + std::to_string(id) + " is none of its own axes");
  }

  // Whether the terms change nothing where the operands have the value of further elements.
  void check_vanishes(const StageState& st) const {
    std::function<bool(const Expr&)> zero = [&](const Expr& e) -> bool {
      if (const Load* load = e.as<Load>()) {
        // The operand must be padded with zeros along each longer reduce axis, so each must index
        // it.
        return std::all_of(st.reduce.begin(), st.reduce.end(), [&](int k) {
          if (!is_longer(s_.axes[k].var)) return true;
          return std::any_of(load->indices.begin(), load->indices.end(),
                             [&](const Expr& i) { return equal(i, s_.axes[k].var); });
        });
      }
      if (const Cast* c = e.as<Cast>()) return zero(c->value);
      if (const Unary* u = e.as<Unary>()) return u->op == UnaryOp::RoundTf32 && zero(u->a);
      const Binary* b = e.as<Binary>();
      return b && b->op == BinaryOp::Mul && zero(b->a) && zero(b->b);
    };
    STEP_CHECK(zero(st.bodies[0].as<Reduce>()->sources[0]),
               "it is no sum of products whose factors all run along the reduce axes");
  }

  // Makes the copies that `st` reads as long as the axes that index them, with zeros in the new
  // elements.
  void extend_copies(const StageState& st) {
    std::vector<std::pair<Buffer, std::vector<Length>>> reads;
    visit(st.bodies[0].as<Reduce>()->sources[0], [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load) return;
      auto at = std::find_if(reads.begin(), reads.end(),
                             [&](const auto& r) { return r.first == load->buffer; });
      if (at == reads.end()) {
        reads.emplace_back(load->buffer, std::vector<Length>(load->indices.size()));
        at = reads.end() - 1;
      }
      for (size_t d = 0; d < load->indices.size(); ++d) {
        if (!reaches_further(load->indices[d])) continue;
        const Length length = length_read(load->indices[d], st);
        STEP_CHECK(length.most > 0, "'" + load->buffer->name + "' is not read at plain axes");
        if (length.most > at->second[d].most) at->second[d] = length;
      }
    });
    for (const auto& [buffer, extents] : reads) extend(buffer, extents, step_.results[0]);
  }
  /// An extent, and the largest value it can have; 0 where a dimension stays as it is.
  struct Length {
    int64_t most = 0;
    Expr extent;
  };

  // Whether an index has other values now than before the axes became longer.
  bool reaches_further(const Expr& index) const {
    return std::ranges::any_of(longer_, [&](const Var& v) { return uses_var(index, v); });
  }

  // The extent that an index of one variable reaches; 0 for any other index.
  Length length_read(const Expr& index, const StageState& st) const {
    for (const auto* list : {&st.spatial, &st.reduce}) {
      for (int a : *list) {
        if (equal(index, s_.axes[a].var)) return {s_.axes[a].static_extent, s_.axes[a].extent};
      }
    }
    return {};
  }

  // `buffer` is passed by value, because rewriting loads destroys those that hold it.
  void extend(Buffer buffer, const std::vector<Length>& extents, int reader) {
    const int id = s_.stage_of(buffer);
    STEP_CHECK(id >= 0 && is_copy(id), "'" + buffer->name + "' is no copy for it to lengthen",
               "cache_read what it reads first");
    StageState& copy = s_.stages[id];
    STEP_CHECK(s_.readers(id) == std::vector<int>{reader},
               "'" + copy.name + "' is read by other stages, too");
    const Buffer from = load_of(copy)->buffer;
    const int source = s_.stage_of(from);
    Expr inside(true);
    bool longer = false;
    for (size_t d = 0; d < extents.size(); ++d) {
      AxisState& a = s_.axes[copy.spatial[d]];
      const bool sized = is_symbolic(a.extent);
      if (extents[d].most == 0) continue;
      if (sized ? equal(extents[d].extent, a.extent) : extents[d].most <= a.static_extent) continue;
      const Expr here = a.var.expr() < (sized ? a.extent : Expr(a.static_extent));
      inside = longer ? Expr(inside && here) : here;
      longer = true;
      a.static_extent = extents[d].most;
      a.extent = extents[d].extent;
    }
    copy.buffers = {
        Buffer::make(buffer->name, buffer->dtype, shape_of(copy.spatial), buffer->scope)};
    rewrite_loads(reader, {buffer}, [&](int, const std::vector<Expr>& indices) {
      return make_load(copy.buffers[0], indices);
    });
    if (!longer) return;
    // Of a copy of a copy, the first one has the zeros.
    if (source >= 0 && is_copy(source)) return extend(from, extents, id);
    copy.bodies = {make_select(inside, copy.bodies[0],
                               identity_.defined() ? identity_ : make_const(buffer->dtype, 0))};
  }

  // Whether a step made this stage as a copy of another one, and its loops have not been changed
  // yet.
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
    if (const Select* s = body->as<Select>()) body = &s->on_true;  // the copy was lengthened before
    const Load* load = body->as<Load>();
    if (!load || load->indices.size() != st.spatial.size()) return nullptr;
    for (size_t d = 0; d < st.spatial.size(); ++d) {
      if (!equal(load->indices[d], s_.axes[st.spatial[d]].var)) return nullptr;
    }
    return load;
  }

  bool is_longer(const Var& v) const {
    return std::ranges::any_of(longer_, [&](const Var& l) { return l.same_as(v); });
  }

  Expr identity_;            ///< of a maximum or minimum; null: further elements are zero
  std::vector<Var> longer_;  ///< the axes of the padded stage that became longer
};

}  // namespace

void apply_pad_step(ScheduleState& state, const Step& step) { PadStep(state, step).run(); }

}  // namespace heddle
