// The effect and the legality of each step: one function for each kind of step. Steps that make
// stages are in stage_steps.cpp.
#include <optional>

#include "heddle/dag/scatter.h"
#include "heddle/instruction/instruction.h"
#include "ir/combined_store.h"
#include "schedule/steps/step_applier.h"

namespace heddle {
namespace {

// Far beyond the sizes of any schedule. A damaged file must not exhaust the memory.
constexpr int64_t kMaxTile = int64_t{1} << 31;

class Applier : public StepApplier {
 public:
  using StepApplier::StepApplier;

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
      case StepKind::StoreAt: return store_at();
      case StepKind::Inline: return inline_stage();
      case StepKind::CacheWrite:
      case StepKind::CacheRead:
      case StepKind::Rfactor:
      case StepKind::Pad: return apply_stage_step(s_, step_);
      case StepKind::AsProduct: return apply_product_step(s_, step_);
      case StepKind::OnlineSoftmax: return apply_online_step(s_, step_);
      case StepKind::Layout: return layout();
      case StepKind::Widen: return widen();
      case StepKind::Vectorize: return annotate(LoopKind::Vectorized);
      case StepKind::Unroll: return annotate(LoopKind::Unrolled);
      case StepKind::Parallel: return annotate(LoopKind::Parallel);
      case StepKind::NonTemporal:
        check_computes();
        stage().hints = stage().hints | StoreHint::NonTemporal;
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
      case StepKind::Tensorize: return tensorize();
      case StepKind::LastBlock: return by_last_block();
      case StepKind::SoftwarePipeline: return annotate(LoopKind::SoftwarePipelined);
      case StepKind::Expect: return expect();
      case StepKind::ScatterRows: return scatter_rows();
    }
  }

 private:
  void scatter_rows() {
    check_computes();
    const int64_t from = param(0);
    STEP_CHECK(from >= 0 && from < std::ssize(s_.stages) && s_.stages[from].placeholder,
               "its places are no input: stage " + std::to_string(from));
    const Buffer& places = s_.stages[from].buffers[0];
    STEP_CHECK(places->dtype == i64,
               "its places are " + to_string(places->dtype) + " in place of i64");
    STEP_CHECK(
        stage().output && !stage().is_reduction() && stage().buffers.size() == 1 &&
            stage().placement == Placement::Root,
        "only a stage with one result that the caller gets, and no sum, has places for its rows");
    STEP_CHECK(param(1) > 0, "there are " + std::to_string(param(1)) + " rows to store to");
    const size_t named = places->shape.size();
    bool fits = named > 0 && named <= stage().spatial.size();
    for (size_t d = 0; fits && d < named; ++d)
      fits = equal(places->shape[d], s_.axes[stage().spatial[d]].extent);
    STEP_CHECK(fits, "its first axes are not those of '" + s_.stages[from].name + "'");
    stage().places = static_cast<int>(from);
    stage().rows = param(1);
  }

  void expect() {
    check_computes();
    const int64_t what = param(0);
    STEP_CHECK(what == static_cast<int64_t>(Instruction::DotProduct) ||
                   what == static_cast<int64_t>(Instruction::TransposedSquare),
               "there is no instruction " + std::to_string(what));
    stage().hints = stage().hints | (what == static_cast<int64_t>(Instruction::DotProduct)
                                         ? StoreHint::DotProduct
                                         : StoreHint::TransposedSquare);
  }

  void split() {
    check_computes();
    int id = axis_arg(0);
    AxisState& a = leaf(id);
    STEP_CHECK(step_.params.size() == 1 || step_.params.size() == 2,
               "a split has a factor, and a tail strategy or none");
    int64_t f = param(0);
    STEP_CHECK(f > 0, "the factor " + std::to_string(f) + " is not positive");
    STEP_CHECK(a.loop == LoopKind::Serial, "axis '" + a.name + "' is already " + to_string(a.loop),
               "split first, then annotate the parts");
    check_nothing_inside(id);
    const int64_t tail = step_.params.size() > 1 ? param(1) : 0;
    STEP_CHECK(tail == static_cast<int64_t>(TailStrategy::Shorten) ||
                   tail == static_cast<int64_t>(TailStrategy::PredicateStores),
               "there is no tail strategy " + std::to_string(tail));
    const bool whole = tail == static_cast<int64_t>(TailStrategy::PredicateStores);
    STEP_CHECK(!whole || f <= kMaxTile, "the factor " + std::to_string(f) + " is too large");
    if (!whole) f = std::min(f, std::max<int64_t>(a.static_extent, 1));
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
    parent.whole = whole;
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
    const LoopKind kind = *LoopKind::of_number(param(0));
    if (a.kind == AxisKind::Reduce && !is_thread(kind)) {
      STEP_CHECK(stage().buffers.size() == 1 && stage().placement == Placement::Root &&
                     is_block(kind) && combines_in_any_order(stage().bodies[0]),
                 "axis '" + a.name + "' is a reduce axis: blocks cannot combine their results",
                 "rfactor it first: the partial results are independent");
      stage().hints = stage().hints | kCombined;
    }
    annotate(kind);
  }

  void tensorize() {
    const std::string& name = step_.instruction;
    STEP_CHECK(
        name.empty() || find_instruction(name), "there is no instruction '" + name + "'",
        "there are " + instruction_names() + "; HEDDLE_REGISTER_INSTRUCTION adds one of a CPU");
    annotate(LoopKind::tensorized(InstructionName(name)));
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
    const int loop = loop_arg(), consumer = s_.axes[loop].stage;
    STEP_CHECK(!stage().output,
               "it is an output of the program: it must be computed whole, at the root");
    for (int host = consumer; host >= 0; host = s_.stages[host].at_stage) {
      STEP_CHECK(host != step_.stage, "that loop is itself inside this stage");
    }
    stage().placement = Placement::At;
    stage().at_stage = consumer;
    stage().at_axis = loop;
    stage().store_axis = -1;
  }

  // A loop of another stage. Throws where that stage has no loops.
  int loop_arg() {
    int loop = axis_arg(0);
    STEP_CHECK(loop >= 0 && loop < static_cast<int>(s_.axes.size()) && s_.axes[loop].defined,
               "there is no such loop");
    int consumer = s_.axes[loop].stage;
    STEP_CHECK(consumer != step_.stage, "a stage cannot be computed inside itself");
    STEP_CHECK(!s_.stages[consumer].placeholder,
               "stage '" + s_.stages[consumer].name + "' is an input and has no loops");
    STEP_CHECK(s_.stages[consumer].placement != Placement::Inlined,
               "stage '" + s_.stages[consumer].name + "' was inlined and has no loops any more");
    STEP_CHECK(s_.leaf_position(loop) >= 0,
               "'" + s_.axes[loop].name + "' of '" + s_.stages[consumer].name +
                   "' was split or fused and is no loop any more",
               "name one of its loops: " + s_.loops_text(consumer));
    return loop;
  }

  // Lowering, which knows all compute locations, checks whether the stage is computed before it is
  // read.
  void store_at() {
    check_computes();
    const int loop = loop_arg();
    STEP_CHECK(stage().placement == Placement::At, "it is computed at the root",
               "compute_at the loop that computes it first");
    bool around = false;
    for (int inner = stage().at_axis; !around && s_.stages[s_.axes[inner].stage].at_axis >= 0;) {
      inner = s_.stages[s_.axes[inner].stage].at_axis;
      around = inner == loop;
    }
    STEP_CHECK(around, "it is not computed within a stage that is computed at that loop");
    stage().store_axis = loop;
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
    for (int reader : s_.readers(step_.stage)) substitute_bodies(reader, stage());
    stage().placement = Placement::Inlined;
  }

  void prefetch() {
    check_computes();
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

  // Whether type `wide` holds every value of type `narrow`.
  static bool holds(DataType wide, DataType narrow) {
    if (wide.bits <= narrow.bits || wide.code == TypeCode::BFloat || narrow.is_bool()) return false;
    if (narrow.is_float()) return wide.is_float();
    if (wide.is_float()) return wide.bits >= 2 * narrow.bits && wide.bits >= 32;
    return wide.is_int() || narrow.is_uint();
  }

  void widen() {
    check_computes();
    STEP_CHECK(!stage().output, "it is an output: its type is the caller's");
    STEP_CHECK(!stage().is_reduction(), "it is a reduction, whose type is that of its sums",
               "cache_read it and widen the copy");
    const std::optional<DataType> to = type_param();
    STEP_CHECK(to.has_value(), "the parameters name no type");
    const std::vector<Buffer> narrow = stage().buffers;
    for (const Buffer& b : narrow) {
      STEP_CHECK(holds(*to, b->dtype),
                 to_string(*to) + " is no wider type that holds every " + to_string(b->dtype));
    }
    const std::vector<int> readers = s_.readers(step_.stage);
    for (size_t c = 0; c < narrow.size(); ++c) {
      const Buffer& b = narrow[c];
      stage().buffers[c] = Buffer::make(b->name, *to, b->shape, b->scope);
      stage().bodies[c] = cast(*to, stage().bodies[c]);
    }
    // Readers convert the narrow values back, so their results do not change.
    RewriteMemo memo;
    std::function<Expr(const Expr&)> go;
    const auto rewritten = [&](const Expr& e) -> Expr {
      const Cast* conversion = e.as<Cast>();
      const Load* load = conversion ? conversion->value.as<Load>() : e.as<Load>();
      if (load) {
        for (size_t c = 0; c < narrow.size(); ++c) {
          if (!(narrow[c] == load->buffer)) continue;
          std::vector<Expr> indices;
          for (const Expr& i : load->indices) indices.push_back(go(i));
          return cast(e.dtype(), make_load(stage().buffers[c], indices));
        }
      }
      return map_children(e, [&](const Expr& child) { return go(child); });
    };
    go = [&](const Expr& e) { return memo(e, rewritten); };
    for (int reader : readers) {
      for (Expr& body : s_.stages[reader].bodies) body = go(body);
    }
  }

  std::optional<DataType> type_param() const {
    for (DataType t : {f64, f32, i64, i32, i16, u64, u32, u16}) {
      if (param(0) == static_cast<int64_t>(t.code) && param(1) == t.bits) return t;
    }
    return std::nullopt;
  }
};

}  // namespace

void apply_step(ScheduleState& state, const Step& step) { Applier(state, step).run(); }

}  // namespace heddle
