// The step online_softmax: a softmax and the sum that it weights, in one pass over tiles of keys
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022,
// "FlashAttention").
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "heddle/dag/attention.h"
#include "heddle/dsl/tensor.h"
#include "heddle/ir/simplify.h"
#include "ir/fold.h"
#include "ir/sizes.h"
#include "schedule/steps/step_applier.h"

namespace heddle {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kMaxMultiple = 1 << 16, kUnit = 16, kLanes = 8;

using heddle::ceil_div, heddle::round_up;
// The same for an extent that may depend on sizes.
Expr ceil_div(const Expr& n, int64_t by) {
  if (const int64_t* number = as_int(n)) return Expr(ceil_div(*number, by));
  return simplify(floordiv(n + Expr(by - 1), Expr(by)));
}
Expr round_up(const Expr& n, int64_t to) {
  const Expr times = ceil_div(n, to);
  const int64_t* number = as_int(times);
  return number ? Expr(*number * to) : simplify(times * Expr(to));
}

// Combines the maxima of tiles into the maximum so far and the factor by which the tile shrinks
// earlier exponentials. The maximum begins with the lowest finite value, so that a tile that is
// masked completely gives no NaN.
Ref<const Combiner> running_maximum() {
  static const Ref<const Combiner> made = [] {
    auto* c = new Combiner;
    Ref<const Combiner> ref(c);
    c->kind = ReduceKind::Custom;
    c->name = "running_max";
    c->lhs = {Var("highest", f32), Var("shrink", f32)};
    c->rhs = {Var("tile", f32), Var("one", f32)};
    const Expr highest = max(c->lhs[0].expr(), c->rhs[0].expr());
    c->result = {highest, exp2(c->lhs[0].expr() - highest)};
    c->identity = {make_float(f32, std::numeric_limits<float>::lowest()), make_float(f32, 1)};
    c->commutative = false;
    return ref;
  }();
  return made;
}

class OnlineStep : public StepApplier {
 public:
  using StepApplier::StepApplier;

  void run() {
    check_computes();
    const std::optional<Attention> found =
        step_.stage < s_.dag.size()
            ? find_attention(s_.dag, step_.stage,
                             step_.params.size() > kRow ? static_cast<int>(param(kRow)) : -1)
            : std::nullopt;
    STEP_CHECK(found.has_value(), "it is no weighted sum of a softmax");
    STEP_CHECK(stage().is_reduction(), "another step took its reduction away");
    for (int id : stage().reduce) {
      STEP_CHECK(s_.axes[id].is_leaf() && s_.axes[id].loop == LoopKind::Serial,
                 "its reduce axis was split, fused or annotated before",
                 "online_softmax comes first");
      check_nothing_inside(id);
    }
    a_ = *found;
    read_extents();
    make_operands();
    make_scores();
    make_sums();
    if (in_parts()) make_parts();
    STEP_CHECK(next_ == step_.results.size(), "the step has the wrong number of results");
    read_through_inlined();
    replace_chain();
  }

 private:
  void read_extents() {
    int64_t multiple = 1;
    STEP_CHECK(
        step_.params.size() >= kParts && step_.params.size() <= kRow + 1,
        "the step has " + std::to_string(step_.params.size()) + " parameters in place of 4 to 6");
    for (size_t i = 0; i < kParts + (in_parts() ? 1 : 0); ++i) {
      STEP_CHECK(param(i) > 0 && param(i) <= kMaxMultiple,
                 "a factor is not positive, or too large");
      if (i < 3) multiple *= param(i);
    }
    tile_ = param(3);
    STEP_CHECK(multiple % kUnit == 0 && tile_ % kUnit == 0,
               "rows and keys are rounded to multiples of 16");
    // The first factor of the rows is the unit of a matrix instruction's tiles: of the operands'
    // lines and of columns too.
    const int64_t unit = param(0) % kUnit == 0 ? param(0) : kUnit;
    rows_ = round_up(a_.row_extent, multiple);
    parts_ = in_parts() ? param(4) : 1;
    tiles_ = ceil_div(ceil_div(a_.key_extent, parts_), tile_);
    keys_ = round_up(ceil_div(a_.key_extent, parts_), tile_);
    depth_ = round_up(a_.depth, kUnit);
    lines_ = round_up(a_.depth, unit);
    cols_ = round_up(a_.cols, unit);
  }

  struct Own {
    const char* name;
    Expr extent;
  };
  // Behind the factors of rows and the keys of a tile: the number of parts, which is 0 where there are none and
  // the axis of rows follows.
  static constexpr size_t kParts = 4, kRow = 5;
  bool in_parts() const { return step_.params.size() > kParts && param(kParts) != 0; }

  // Adds a stage with the axes of the batch, an axis of parts (where there are any, and the stage
  // is not `whole`), its own axes, and the axes that it reduces over.
  StageState& add_stage(const char* suffix, const std::vector<Own>& own,
                        const std::vector<Own>& reduce = {}, bool whole = false) {
    const int id = take_stage_id(next_++);
    StageState st;
    st.name = stage().name + suffix;
    const auto axis = [&](const std::string& name, AxisKind kind, const Expr& extent) {
      AxisState a = root_axis(id, name, kind, largest_extent(extent));
      a.extent = extent;
      return new_axis(next_++, std::move(a));
    };
    for (int p : a_.batch) {
      const AxisState& b = s_.axes[stage().spatial[static_cast<size_t>(p)]];
      const std::string name = b.name;
      const Expr extent = is_symbolic(b.extent) ? b.extent : Expr(b.static_extent);
      st.spatial.push_back(axis(name, AxisKind::Spatial, extent));
    }
    if (in_parts() && !whole) st.spatial.push_back(axis("p", AxisKind::Spatial, Expr(parts_)));
    for (const Own& o : own) st.spatial.push_back(axis(o.name, AxisKind::Spatial, o.extent));
    for (const Own& o : reduce) st.reduce.push_back(axis(o.name, AxisKind::Reduce, o.extent));
    st.leaves = st.spatial;
    st.leaves.insert(st.leaves.end(), st.reduce.begin(), st.reduce.end());
    s_.stages[static_cast<size_t>(id)] = std::move(st);
    return s_.stages[static_cast<size_t>(id)];
  }
  Expr var(int axis) const { return s_.axes[static_cast<size_t>(axis)].var.expr(); }
  // The number of leading axes: those of the batch, and the axis of parts where there is one.
  size_t outer_axes() const { return a_.batch.size() + (in_parts() ? 1 : 0); }
  Expr own(const StageState& st, size_t i) const { return var(st.spatial[outer_axes() + i]); }
  std::vector<Expr> batch_of(const StageState& st) const {
    std::vector<Expr> out;
    for (size_t i = 0; i < outer_axes(); ++i) out.push_back(var(st.spatial[i]));
    return out;
  }
  // The number of key `j` of a part among all keys.
  Expr whole_key(const StageState& st, const Expr& j) const {
    return in_parts() ? var(st.spatial[a_.batch.size()]) * keys_ + j : j;
  }
  // Whether an axis of `padded` iterations goes beyond `extent` at some size.
  static bool goes_beyond(const Expr& padded, const Expr& extent) {
    return !is_const(simplify(padded - extent), 0);
  }
  bool pads_keys() const { return goes_beyond(keys_ * Expr(parts_), a_.key_extent); }
  void add_buffer(StageState& st, DataType type, const std::string& suffix = "") const {
    std::vector<Expr> shape;
    for (int id : st.spatial) shape.emplace_back(s_.axes[static_cast<size_t>(id)].static_extent);
    st.buffers.push_back(Buffer::make(st.name + suffix, type, shape, Scope::Local));
  }
  // Reads output `which` of stage `of` at the batch of stage `by` and at `indices`.
  Expr read(const StageState& of, const StageState& by, const std::vector<Expr>& indices,
            size_t which = 0) const {
    std::vector<Expr> at = batch_of(by);
    at.insert(at.end(), indices.begin(), indices.end());
    return make_load(of.buffers[which], at);
  }
  static Expr reduced(const Ref<const Combiner>& combiner, const std::vector<Expr>& sources,
                      int index = 0) {
    return make_reduce(combiner, sources, {Axis("r", Expr(1), AxisKind::Reduce)}, index);
  }

  // An expression of the declaration, at the batch of `st`.
  Expr here(const Expr& e, const StageState& st, std::vector<VarBinding> bind) const {
    const Operation& op = s_.dag.stage(step_.stage);
    for (size_t i = 0; i < a_.batch.size(); ++i)
      bind.push_back({op.axes()[static_cast<size_t>(a_.batch[i])].var(), var(st.spatial[i])});
    return substitute(e, bind);
  }
  const Var& row_var() const {
    return s_.dag.stage(step_.stage).axes()[static_cast<size_t>(a_.row)].var();
  }
  const Var& col_var() const {
    return s_.dag.stage(step_.stage).axes()[static_cast<size_t>(a_.col)].var();
  }
  const Var& key_var() const { return s_.dag.stage(step_.stage).reduce_axes()[0].var(); }

  // ---- operands ----

  struct Side {
    const char* name;
    Var var;
    Expr extent, padded;
  };
  int operand(const char* suffix, const Expr& load, Side line, Side inner, bool along_inner) {
    const Side& first = along_inner ? line : inner;
    const Side& last = along_inner ? inner : line;
    StageState& st = add_stage(suffix, {{first.name, first.padded}, {last.name, last.padded}});
    Expr inside(true);
    const auto place = [&](const Side& side, const Expr& i) {
      const bool key = side.var.get() == key_var().get();
      const Expr at = key ? whole_key(st, i) : i;
      if (key ? pads_keys() : goes_beyond(side.padded, side.extent))
        inside = inside && at < side.extent;
      return at;
    };
    const Expr x = place(first, own(st, 0)), y = place(last, own(st, 1));
    const Expr value = here(load, st, {{first.var, x}, {last.var, y}});
    add_buffer(st, value.dtype());
    st.bodies = {is_const(inside, 1) ? value
                                     : make_select(inside, value, make_const(value.dtype(), 0))};
    return static_cast<int>(&st - s_.stages.data());
  }
  const StageState& made(int id) const { return s_.stages[static_cast<size_t>(id)]; }

  void make_operands() {
    const Side row{"i", row_var(), a_.row_extent, rows_}, key{"j", key_var(), a_.key_extent, keys_},
        depth{"e", a_.depth_var, Expr(a_.depth), Expr(lines_)},
        col{"f", col_var(), Expr(a_.cols), Expr(cols_)};
    queries_ = operand(".queries", a_.query, row, depth, a_.query_along_depth);
    key_rows_ = operand(".keys", a_.key, key, depth, a_.key_along_depth);
    values_ = operand(".values", a_.value, col, key, a_.value_along_keys);
  }
  Expr operand_at(int id, const StageState& by, const Expr& line, const Expr& inner,
                  bool along_inner) const {
    return cast(
        f32, read(made(id), by,
                  along_inner ? std::vector<Expr>{line, inner} : std::vector<Expr>{inner, line}));
  }

  // ---- scores ----

  // `e` times a factor, which is multiplied into the constant that `e` is scaled by. What is finite stays so, and what
  // is not does too: a row whose scores are all the lowest numbers has equal weights.
  static Expr scaled(const Expr& e, double by) {
    if (const Select* s = e.as<Select>())
      return make_select(s->condition, scaled(s->on_true, by), scaled(s->on_false, by));
    if (const FloatImm* f = e.as<FloatImm>())
      return make_float(f32, std::isinf(f->value) ? f->value : std::max(f->value * by, kLowest));
    const Binary* b = e.as<Binary>();
    const FloatImm* f = b && b->op == BinaryOp::Mul ? b->b.as<FloatImm>() : nullptr;
    const Expr times = f ? b->a * make_float(f32, f->value * by) : e * make_float(f32, by);
    const bool overflows = any_below(e, [&](const Expr& x) {
      const FloatImm* low = x.as<FloatImm>();
      return low && std::isfinite(low->value) && low->value * by < kLowest;
    });
    if (!overflows) return times;
    const Expr lowest = make_float(f32, kLowest);
    return make_select(times < lowest && e >= lowest, lowest, times);
  }

  // Scores over the factor that makes them powers of two, so that the maximum is taken before they
  // are scaled, and one multiply-add scales and subtracts it: `scale` > 0 for a score that is the
  // product times a constant, perhaps masked. Otherwise `scale` is 1.
  struct Scaled {
    Expr score;
    double scale;
  };
  static std::optional<Scaled> factored(const Expr& e) {
    if (const Select* s = e.as<Select>()) {
      const FloatImm* masked = s->on_false.as<FloatImm>();
      const std::optional<Scaled> x = factored(s->on_true);
      if (!x || !masked || !std::isinf(masked->value)) return {};
      return Scaled{make_select(s->condition, x->score, s->on_false), x->scale};
    }
    const Binary* b = e.as<Binary>();
    const FloatImm* f = b && b->op == BinaryOp::Mul ? b->b.as<FloatImm>() : nullptr;
    if (!f || b->a.kind() != ExprKind::Var || f->value <= 0) return {};
    return Scaled{b->a, f->value};
  }
  static Scaled in_powers_of_two(const Expr& score) {
    if (const std::optional<Scaled> x = factored(score))
      return {x->score, x->scale * std::numbers::log2e};
    return {scaled(score, std::numbers::log2e), 1};
  }
  Expr times_scale(const Expr& e) const { return scale_ == 1 ? e : e * make_float(f32, scale_); }

  int id_of(const StageState& st) const { return static_cast<int>(&st - s_.stages.data()); }

  void make_scores() {
    StageState& products =
        add_stage(".products", {{"i", rows_}, {"j", keys_}}, {{"e", Expr(depth_)}});
    const Expr e = var(products.reduce[0]);
    add_buffer(products, f32);
    products.bodies = {
        reduced(internal::builtin_combiner(ReduceKind::Sum, f32),
                {operand_at(queries_, products, own(products, 0), e, a_.query_along_depth) *
                 operand_at(key_rows_, products, own(products, 1), e, a_.key_along_depth)})};
    products_ = id_of(products);
    StageState& scores = add_stage(".scores", {{"i", rows_}, {"j", keys_}});
    const Expr i = own(scores, 0), j = own(scores, 1), key = whole_key(scores, j);
    const Scaled form = in_powers_of_two(a_.score);
    scale_ = form.scale;
    const Expr score = here(
        form.score, scores,
        {{row_var(), i}, {key_var(), key}, {a_.product, read(made(products_), scores, {i, j})}});
    Expr inside(true);
    const bool reads =
        any_below(a_.score, [](const Expr& x) { return x.kind() == ExprKind::Load; });
    if (reads && goes_beyond(rows_, a_.row_extent)) inside = inside && i < a_.row_extent;
    if (pads_keys()) inside = inside && key < a_.key_extent;
    add_buffer(scores, f32);
    scores.bodies = {is_const(inside, 1) ? score : make_select(inside, score, lowest_value(f32))};
    scores_ = id_of(scores);
    StageState& tile_max =
        add_stage(".tile_max", {{"i", rows_}, {"t", tiles_}}, {{"c", Expr(tile_)}});
    add_buffer(tile_max, f32);
    tile_max.bodies = {reduced(
        internal::builtin_combiner(ReduceKind::Max, f32),
        {read(made(scores_), tile_max,
              {own(tile_max, 0), own(tile_max, 1) * Expr(tile_) + var(tile_max.reduce[0])})})};
    tile_max_ = id_of(tile_max);
  }

  // ---- sums ----

  void make_sums() {
    StageState& highest = add_stage(".highest", {{"i", rows_}}, {{"t", tiles_}});
    const std::vector<Expr> sources{
        times_scale(read(made(tile_max_), highest, {own(highest, 0), var(highest.reduce[0])})),
        make_float(f32, 1)};
    for (int c : {0, 1}) {
      add_buffer(highest, f32, c == 0 ? "" : ".shrink");
      highest.bodies.push_back(reduced(running_maximum(), sources, c));
    }
    highest_ = id_of(highest);
    StageState& powers = add_stage(".powers", {{"i", rows_}, {"j", keys_}});
    add_buffer(powers, f32);
    powers.bodies = {
        exp2(times_scale(read(made(scores_), powers, {own(powers, 0), own(powers, 1)})) -
             read(made(highest_), powers, {own(powers, 0)}))};
    powers_ = id_of(powers);
    StageState& weights = add_stage(".weights", {{"i", rows_}, {"j", keys_}});
    add_buffer(weights, a_.type);
    weights.bodies = {
        cast(a_.type, read(made(powers_), weights, {own(weights, 0), own(weights, 1)}))};
    weights_ = id_of(weights);
    const Ref<const Combiner> sum = internal::builtin_combiner(ReduceKind::Sum, f32);
    StageState& partial = add_stage(".partial", {{"i", rows_}, {"n", Expr(kLanes)}},
                                    {{"t", tiles_}, {"c", Expr(tile_ / kLanes)}});
    add_buffer(partial, f32);
    partial.bodies = {reduced(
        sum,
        {read(made(powers_), partial,
              {own(partial, 0), var(partial.reduce[0]) * Expr(tile_) +
                                    var(partial.reduce[1]) * Expr(kLanes) + own(partial, 1)})})};
    partial_ = id_of(partial);
    add_weighted(sum);
    StageState& total = add_stage(".total", {{"i", rows_}}, {{"n", Expr(kLanes)}});
    add_buffer(total, f32);
    total.bodies = {
        reduced(sum, {read(made(partial_), total, {own(total, 0), var(total.reduce[0])})})};
    total_ = id_of(total);
    follow(partial_);
    follow(highest_);
    s_.stages[static_cast<size_t>(highest_)].rescale = {};
  }

  void add_weighted(const Ref<const Combiner>& sum) {
    StageState& st = add_stage(".weighted", {{"i", rows_}, {"f", Expr(cols_)}},
                               {{"t", tiles_}, {"c", Expr(tile_)}});
    const Expr j = var(st.reduce[0]) * Expr(tile_) + var(st.reduce[1]);
    add_buffer(st, f32);
    // Values are read first, because their tiles are filled before scores are computed.
    st.bodies = {reduced(sum, {operand_at(values_, st, own(st, 1), j, a_.value_along_keys) *
                               cast(f32, read(made(weights_), st, {own(st, 0), j}))})};
    st.rescale = read(made(highest_), st, {own(st, 0)}, 1);
    // The reach of a part would decrease along the axis of parts.
    if (a_.reach.defined() && !in_parts()) {
      const Expr keys = here(a_.reach, st, {{row_var(), own(st, 0)}});
      st.reach = floordiv(keys + Expr(tile_ - 1), Expr(tile_));
    }
    weighted_ = id_of(st);
  }
  // Makes the first reduce axis of `id` run along that of the weighted sum.
  void follow(int id) {
    StageState& st = s_.stages[static_cast<size_t>(id)];
    st.along = made(weighted_).reduce[0];
    st.rescale = read(made(highest_), st, {own(st, 0)}, 1);
  }

  // ---- parts ----

  Expr axis_of(const StageState& st, size_t i) const { return var(st.spatial[i]); }
  // Output `which` of the parts for `st`, which reduces over them: of its row, in column `col`.
  Expr of_part(const StageState& st, const Expr& col, size_t which) const {
    std::vector<Expr> at;
    for (size_t i = 0; i < a_.batch.size(); ++i) at.push_back(axis_of(st, i));
    at.push_back(var(st.reduce[0]));
    at.push_back(axis_of(st, a_.batch.size()));
    at.push_back(col);
    return make_load(made(part_).buffers[which], at);
  }
  // The factor of a part of the row.
  Expr share(const StageState& st, const Expr& col) const {
    std::vector<Expr> row;
    for (size_t i = 0; i <= a_.batch.size(); ++i) row.push_back(axis_of(st, i));
    return exp2(of_part(st, col, 1) - make_load(made(top_).buffers[0], row));
  }

  void make_parts() {
    StageState& part = add_stage(".part", {{"i", a_.row_extent}, {"f", Expr(a_.cols)}});
    const Expr i = own(part, 0), f = own(part, 1);
    add_buffer(part, f32);
    for (const char* suffix : {".highest", ".total"}) add_buffer(part, f32, suffix);
    part.bodies = {read(made(weighted_), part, {i, f}), read(made(highest_), part, {i}),
                   read(made(total_), part, {i})};
    part_ = id_of(part);
    const auto sum = internal::builtin_combiner(ReduceKind::Sum, f32);
    StageState& top = add_stage(".top", {{"i", a_.row_extent}}, {{"p", Expr(parts_)}}, true);
    add_buffer(top, f32);
    top.bodies = {
        reduced(internal::builtin_combiner(ReduceKind::Max, f32), {of_part(top, Expr(0), 1)})};
    top_ = id_of(top);
    StageState& all =
        add_stage(".parts_total", {{"i", a_.row_extent}}, {{"p", Expr(parts_)}}, true);
    add_buffer(all, f32);
    all.bodies = {reduced(sum, {of_part(all, Expr(0), 2) * share(all, Expr(0))})};
    total_ = id_of(all);
    StageState& st = add_stage(".sum", {{"i", a_.row_extent}, {"f", Expr(a_.cols)}},
                               {{"p", Expr(parts_)}}, true);
    add_buffer(st, f32);
    st.bodies = {
        reduced(sum, {of_part(st, axis_of(st, a_.batch.size() + 1), 0) * share(st, Expr(0))})};
    weighted_ = id_of(st);
  }

  // ---- the chain ----

  // The expressions of the chain are those of the declaration. They read stages that other steps
  // have inlined; readers come before what they read.
  void read_through_inlined() {
    for (int p = s_.dag.size() - 1; p >= 0; --p) {
      if (made(p).placement != Placement::Inlined) continue;
      for (const int id : {queries_, key_rows_, values_, scores_, weighted_})
        substitute_bodies(id, made(p));
    }
  }

  void replace_chain() {
    for (int s : a_.fused) {
      if (s != a_.total) s_.stages[static_cast<size_t>(s)].placement = Placement::Inlined;
    }
    StageState& c = stage();
    std::vector<Expr> at, rest;
    const auto axis = [&](int p) { return var(c.spatial[static_cast<size_t>(p)]); };
    for (int p : a_.batch) at.push_back(axis(p));
    at.push_back(axis(a_.row));
    rest = at;
    at.push_back(axis(a_.col));
    Expr value = make_load(made(weighted_).buffers[0], at);
    if (a_.factor.defined()) {
      std::vector<VarBinding> bind{{a_.sum, make_load(made(total_).buffers[0], rest)}};
      const auto& axes = s_.dag.stage(step_.stage).axes();
      for (size_t p = 0; p < axes.size(); ++p)
        bind.push_back({axes[p].var(), axis(static_cast<int>(p))});
      value = value * substitute(a_.factor, bind);
    }
    c.bodies = {value};
    c.reduce.clear();
    std::erase_if(c.leaves, [&](int id) { return s_.axes[id].kind == AxisKind::Reduce; });
    if (a_.total >= 0) replace_total(s_.stages[static_cast<size_t>(a_.total)]);
  }
  bool reader_asks_for_nan() const {
    std::vector<int> readers = a_.outer;
    readers.push_back(a_.reader);
    return std::any_of(readers.begin(), readers.end(), [&](int s) {
      return any_below(s_.dag.stage(s).bodies()[0], [](const Expr& e) {
        const Unary* u = e.as<Unary>();
        return u && u->op == UnaryOp::IsNan;
      });
    });
  }

  void replace_total(StageState& st) {
    if (a_.reader < 0) {
      st.placement = Placement::Inlined;
      return;
    }
    std::vector<Expr> at;
    std::vector<int> rows = a_.batch;
    rows.push_back(a_.row);
    for (int p : rows) {
      const auto d = std::find(a_.total_axes.begin(), a_.total_axes.end(), p);
      at.push_back(d == a_.total_axes.end()
                       ? Expr(0)
                       : var(st.spatial[static_cast<size_t>(d - a_.total_axes.begin())]));
    }
    st.bodies = {make_load(made(total_).buffers[0], at)};
    // The maximum of a row that is masked completely is the lowest finite value here, so that its
    // total is 0. In the declaration it is NaN.
    if (reader_asks_for_nan())
      st.bodies = {make_select(st.bodies[0] == make_const(f32, 0),
                               make_const(f32, std::numeric_limits<double>::quiet_NaN()),
                               st.bodies[0])};
    st.reduce.clear();
    std::erase_if(st.leaves, [&](int id) { return s_.axes[id].kind == AxisKind::Reduce; });
  }

  Attention a_;
  Expr rows_, keys_, tiles_;  // rounded up; keys and tiles of a part
  int64_t depth_ = 0, cols_ = 0, tile_ = 0;
  int64_t lines_ = 0;  // the depth of the operands, of which products read the first depth_
  int64_t parts_ = 1;
  double scale_ = 1;  // of the scores, before they are powers of two
  size_t next_ = 0;
  int queries_ = -1, key_rows_ = -1, values_ = -1, products_ = -1, scores_ = -1, tile_max_ = -1,
      highest_ = -1, powers_ = -1, weights_ = -1, partial_ = -1, weighted_ = -1, total_ = -1,
      part_ = -1, top_ = -1;
};

}  // namespace

void apply_online_step(ScheduleState& state, const Step& step) { OnlineStep(state, step).run(); }

}  // namespace heddle
