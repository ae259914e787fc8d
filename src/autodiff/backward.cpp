#include "autodiff/backward.h"

#include <algorithm>

#include "autodiff/cancelling_shifts.h"
#include "autodiff/index_cases.h"
#include "autodiff/inverse.h"
#include "autodiff/narrow_products.h"
#include "autodiff/proved_reads.h"
#include "autodiff/reducers.h"
#include "autodiff/summation.h"
#include "dsl/validate.h"
#include "heddle/ir/simplify.h"
#include "ir/conjuncts.h"
#include "ir/sizes.h"

namespace heddle::autodiff {
namespace {

/// What carries derivatives in the bodies of a stage.
std::vector<Expr> differentiable_parts(const Operation& op) {
  const Reduce* r = op.bodies().empty() ? nullptr : op.bodies()[0].as<Reduce>();
  return r ? r->sources : op.bodies();
}

}  // namespace

bool same_form(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() &&
         std::ranges::equal(a.shape(), b.shape(),
                            [](const Expr& x, const Expr& y) { return equal(x, y); });
}

std::string form_text(const Tensor& t) {
  return to_string(t.dtype()) + " " + shape_text(t.shape());
}

Backward::Backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wrt,
                   const GradientOptions& options, const Where& where)
    : options_(options), where_(where) {
  for (const Tensor& t : wrt) wrt_[key_of(t)] = false;
  order_stages(outputs);
  find_ways(outputs);
  leave_out_cancelled(outputs);
}

const CustomGradient* Backward::custom(const Operation& op, int output) const {
  for (const CustomGradient& c : options_.custom)
    if (c.output.op() == &op && c.output.index() == output) return &c;
  return nullptr;
}

void Backward::order_stages(const std::vector<Tensor>& outputs) {
  struct Open {
    Ref<const Operation> op;
    std::vector<Tensor> inputs;
    size_t next = 0;
  };
  std::unordered_set<const Operation*> seen;
  std::vector<Open> open;
  const auto enter = [&](const Ref<const Operation>& op) {
    if (!seen.insert(op.get()).second) return;
    open.push_back({op, op->inputs()});
    for (const CustomGradient& c : options_.custom)
      if (c.output.op() == op.get())
        for (const Tensor& t : c.inputs) open.back().inputs.push_back(t);
  };
  for (const Tensor& t : outputs) {
    enter(t.op_ref());
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next < top.inputs.size()) {
        const Tensor input = top.inputs[top.next++];
        enter(input.op_ref());
        continue;
      }
      stages_.push_back(top.op);
      open.pop_back();
    }
  }
}

bool Backward::leads_to_wrt(const Tensor& t) const {
  const auto is_it = [&](const Tensor& stopped) { return stopped.same_as(t); };
  return t && on_way_.contains(t.op()) && std::ranges::none_of(options_.stop, is_it);
}

void Backward::for_each_way(const Operation& op, FunctionRef<void(const Tensor&)> fn) const {
  const auto visit = [&](const Load& load) {
    if (leads_to_wrt(load)) fn(tensor_of(load.buffer));
    return false;  // so that all reads are visited
  };
  const std::vector<Expr> parts = differentiable_parts(op);
  // All results of a reducer with a declared derivative depend on all that it reads.
  if (op.is_reduction() && declared_derivative(op, options_.reducers)) {
    for (const Expr& part : parts) is_differentiable(part, visit);
  }
  for (int i = 0; i < op.num_outputs(); ++i) {
    const CustomGradient* c = custom(op, i);
    if (!c && i < static_cast<int>(parts.size()))
      is_differentiable(parts[static_cast<size_t>(i)], visit);
    if (!c) continue;
    for (const Tensor& t : c->inputs)
      if (leads_to_wrt(t)) fn(t);
  }
}

bool Backward::on_way(const Operation& op) const {
  bool found = false;
  for (int i = 0; i < op.num_outputs(); ++i) found = found || wrt_.contains({&op, i});
  for_each_way(op, [&](const Tensor&) { found = true; });
  return found;
}

void Backward::find_ways(const std::vector<Tensor>& outputs) {
  for (const Ref<const Operation>& op : stages_)
    if (on_way(*op)) on_way_.insert(op.get());
  // From the outputs back: which tensors of `wrt` are reached.
  std::unordered_set<const Operation*> reached;
  const auto reach = [&](const Tensor& t) {
    reached.insert(t.op());
    if (const auto it = wrt_.find(key_of(t)); it != wrt_.end()) it->second = true;
  };
  for (const Tensor& t : outputs) reach(t);
  for (size_t s = stages_.size(); s-- > 0;)
    if (reached.contains(stages_[s].get()) && on_way_.contains(stages_[s].get()))
      for_each_way(*stages_[s], reach);
}

void Backward::leave_out_cancelled(const std::vector<Tensor>& outputs) {
  const auto chooses = [&](const Operation& op) {
    const Reduce* r = op.bodies().empty() ? nullptr : op.bodies()[0].as<Reduce>();
    return r && (r->combiner->kind == ReduceKind::Max || r->combiner->kind == ReduceKind::Min);
  };
  // A maximum, or what is made of one to be subtracted: 0 in place of infinity.
  std::unordered_set<const Operation*> maxima;
  std::vector<const Operation*> candidates;
  for (const Ref<const Operation>& op : stages_) {
    const auto is_maximum = [&](const Tensor& t) { return maxima.contains(t.op()); };
    if (!on_way_.contains(op.get()) || wrt_.contains({op.get(), 0})) continue;
    const bool maximum = chooses(*op);
    if (maximum) maxima.insert(op.get());
    if (maximum || (!op->is_reduction() && std::ranges::any_of(op->inputs(), is_maximum)))
      candidates.push_back(op.get());
  }
  if (candidates.empty()) return;
  const auto is_constant = [&](const Tensor& t) {
    return std::ranges::any_of(options_.stop, [&](const Tensor& s) { return s.same_as(t); });
  };
  const auto is_opaque = [&](const Operation& op) {
    return std::ranges::any_of(options_.custom,
                               [&](const CustomGradient& c) { return c.output.op() == &op; });
  };
  const CancellingShifts shifts(stages_, outputs, is_constant, is_opaque);
  for (const Operation* op : candidates)
    if (shifts.cancels(*op)) on_way_.erase(op);
}

bool Backward::reaches(const Tensor& t) const {
  const auto it = wrt_.find(key_of(t));
  return it != wrt_.end() && it->second;
}

void Backward::add_head(const Tensor& output, const Tensor& head) {
  received_[key_of(output)].push_back(
      {[head](const std::vector<Expr>& at) { return read_through(head, at); }, head, {}});
}

Tensor Backward::total(const Tensor& t) {
  if (const auto it = totals_.find(key_of(t)); it != totals_.end()) return it->second;
  const auto found = received_.find(key_of(t));
  if (found == received_.end()) return {};
  const std::vector<Summand>& all = found->second;
  Tensor& result = totals_[key_of(t)];
  if (all.size() == 1 && all[0].stage) return result = all[0].stage;
  result = compute(
      t.shape(),
      [&](const std::vector<Axis>& i) {
        Expr sum;
        for (const Summand& s : all) sum = sum_of(sum, s.element({i.begin(), i.end()}));
        std::vector<VarBinding> extents;
        for (const Axis& a : i) extents.push_back({a.var(), a->extent});
        sum = with_proved_reads(extents, simplify(sum, ranges_of(i)));
        const Expr moved = moved_into(sum);
        return moved.defined() ? moved : sum;
      },
      t.name() + ".grad", "gradient", t.op()->where());
  composed_.insert(result.op());
  return result;
}

/// Whether an index has quotients or remainders.
static bool divides(const Expr& index) {
  return any_below(index, [](const Expr& e) {
    const Binary* op = e.as<Binary>();
    return op && (op->op == BinaryOp::FloorDiv || op->op == BinaryOp::FloorMod);
  });
}

/// What `op` sums, itself or in a stage of its own before it rounds; null where it sums nothing.
static const Operation* summing(const Operation& op) {
  if (op.is_reduction()) return &op;
  const Load* sum = rounded_sum(op);
  return sum ? tensor_of(sum->buffer).op() : nullptr;
}

Expr Backward::moved_into(const Expr& body) const {
  const Load* load = body.as<Load>();
  const Operation* read = load ? tensor_of(load->buffer).op() : nullptr;
  if (!read || !read_once_.contains(read)) return {};
  const Operation* op = summing(*read);
  const Reduce* r = op ? op->bodies()[0].as<Reduce>() : nullptr;
  if (!r) return {};
  std::vector<VarBinding> by;
  for (size_t d = 0; d < load->indices.size(); ++d) {
    if (divides(load->indices[d])) return {};  // phases, whose reads are to stay affine
    by.push_back({op->axes()[d].var(), load->indices[d]});
  }
  std::vector<Axis> over;
  for (const Axis& a : r->axes) {
    over.emplace_back(a.name(), a->extent, AxisKind::Reduce);
    by.push_back({a.var(), Expr(over.back())});
  }
  std::vector<Expr> sources;
  for (const Expr& s : r->sources) sources.push_back(substitute(s, by));
  return cast(read->output(0).dtype(),
              make_reduce(r->combiner, std::move(sources), std::move(over), r->index));
}

Expr Backward::head_of(const Operation& op, const Tensor& given) const {
  constexpr int kMostReads = 8;
  const std::vector<Expr> at(op.axes().begin(), op.axes().end());
  const auto is_move = [](const Operation& o) {
    return !o.is_placeholder() && !o.is_reduction() && only_moves(o.bodies()[0], true);
  };
  if (!composed_.contains(given.op()) || given.op()->is_reduction() || rounded_sum(*given.op()) ||
      !is_move(op))
    return read_through(given, at);
  const Expr& body = given.op()->bodies()[0];
  int reads = 0;
  visit(body, [&](const Expr& e) { reads += e.kind() == ExprKind::Load; });
  if (reads > kMostReads) return read_through(given, at);
  std::vector<VarBinding> by;
  for (size_t d = 0; d < at.size(); ++d) by.push_back({given.op()->axes()[d].var(), at[d]});
  return substitute(body, by);
}

std::vector<Interval> Backward::used_region(const Tensor& t) const {
  const Operation& op = *t.op();
  if (op.is_placeholder() || op.is_reduction() || wrt_.contains(key_of(t))) return {};
  const Select* s = op.bodies()[static_cast<size_t>(t.index())].as<Select>();
  if (!s || !is_const(s->on_false)) return {};
  std::vector<Expr> conditions;
  add_conjuncts(s->condition, conditions);
  std::vector<Interval> region(op.axes().size());
  for (size_t d = 0; d < region.size(); ++d) {
    for (const Expr& c : conditions) {
      const Interval a = allowed_values(c, op.axes()[d].var());
      region[d] = {std::max(region[d].min, a.min), std::min(region[d].max, a.max)};
    }
  }
  return region;
}

void Backward::propagate(const Operation& op, int output, const Tensor& given) {
  const auto wanted = [&](const Load& load) { return leads_to_wrt(load); };
  const std::vector<Expr> at(op.axes().begin(), op.axes().end());
  const Expr head = head_of(op, given);
  if (is_const(head, 0)) return;
  const Tensor own = op.output(output);
  const std::vector<ReadDerivative> reads =
      op.is_reduction()
          ? differentiate_reduction(op, output, narrow_head(op, given, head), wanted,
                                    options_.reducers)
          : differentiate(op.bodies()[static_cast<size_t>(output)], head, own.at(at), wanted);
  std::vector<Axis> axes = op.axes();
  axes.insert(axes.end(), op.reduce_axes().begin(), op.reduce_axes().end());
  std::vector<ReadDerivative> cases;
  for (const ReadDerivative& d : reads) add_cases(d, &cases);
  const Load* sum = head.as<Load>();
  const Operation* from = sum ? tensor_of(sum->buffer).op() : nullptr;
  if (cases.size() == 1 && sums_.contains(from) && !wrt_.contains(key_of(own)))
    read_once_.insert(from);
  for (const ReadDerivative& c : cases) {
    const Load& load = *c.read.as<Load>();
    const Tensor read = tensor_of(load.buffer);
    const Source from{axes, read.name() + ".grad", op.where(), used_region(read),
                      wrt_.contains(key_of(read))};
    Summand s = gather(from, load, c.value);
    if (s.sum) sums_.insert(s.sum.op());
    if (s.element) received_[key_of(read)].push_back(std::move(s));
  }
}

void Backward::apply(const CustomGradient& c, const Tensor& given) {
  const std::string who = "the custom gradient of '" + c.output.name() + "'";
  const std::vector<Tensor> results = c.rule(given);
  if (results.size() != c.inputs.size())
    throw_user_error(who + " gives " + std::to_string(results.size()) + " tensors for " +
                         std::to_string(c.inputs.size()) + " inputs",
                     where_, "return one tensor an input, a null one for nothing");
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor &to = c.inputs[i], &d = results[i];
    if (!d || !leads_to_wrt(to)) continue;
    if (!same_form(d, to))
      throw_user_error(who + " gives '" + d.name() + "', " + form_text(d) + ", for its input '" +
                           to.name() + "', " + form_text(to),
                       where_, "return a tensor of the type and shape of the input");
    received_[key_of(to)].push_back(
        {[d](const std::vector<Expr>& at) { return read_through(d, at); }, {}, {}});
  }
}

void Backward::propagate(const Operation& op) {
  for (int i = 0; i < op.num_outputs(); ++i) {
    const Tensor given = total(op.output(i));
    if (!given) continue;
    if (const CustomGradient* c = custom(op, i))
      apply(*c, given);
    else
      propagate(op, i, given);
  }
}

void Backward::run() {
  for (size_t s = stages_.size(); s-- > 0;) {
    const Operation& op = *stages_[s];
    if (!op.is_placeholder() && on_way_.contains(&op)) propagate(op);
  }
}

Tensor Backward::result(const Tensor& t) {
  const Tensor sum = total(t);
  if (sum && !sum.op()->is_placeholder()) return sum;
  return compute(
      t.shape(),
      [&](const std::vector<Axis>& i) { return sum ? sum(i) : make_const(t.dtype(), 0); },
      t.name() + ".grad", "gradient", where_);
}

}  // namespace heddle::autodiff
