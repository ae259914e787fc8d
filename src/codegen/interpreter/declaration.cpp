// Evaluates declarations as they are written: every element of every stage, one after the other.
#include <algorithm>
#include <unordered_set>

#include "codegen/interpreter/arguments.h"
#include "codegen/interpreter/compile.h"
#include "heddle/codegen/interpreter.h"

namespace heddle {
namespace {

using namespace interp;

/// The operations that `outputs` need, producers first, each once.
class StageOrder {
 public:
  void add(const Operation* last) {
    // Each with the inputs that are still to be added.
    std::vector<std::pair<const Operation*, std::vector<Tensor>>> open;
    const auto enter = [&](const Operation* op) {
      if (!seen_.insert(op).second) return;
      std::vector<Tensor> inputs = op->inputs();
      std::reverse(inputs.begin(), inputs.end());
      open.emplace_back(op, std::move(inputs));
    };
    enter(last);
    while (!open.empty()) {
      auto& [op, inputs] = open.back();
      if (inputs.empty()) {
        order_.push_back(op);
        open.pop_back();
        continue;
      }
      const Operation* input = inputs.back().op();  // which `op` keeps alive
      inputs.pop_back();
      enter(input);
    }
  }
  const std::vector<const Operation*>& order() const { return order_; }

 private:
  std::unordered_set<const Operation*> seen_;
  std::vector<const Operation*> order_;
};

/// Runs `body` for every point of the axes. The last axis varies fastest.
template <typename Body>
void for_each_point(const std::vector<std::int64_t>& extents, const std::vector<Slot*>& slots,
                    Body body) {
  for (std::int64_t extent : extents) {
    if (extent <= 0) return;
  }
  for (Slot* s : slots) s->i = 0;
  while (true) {
    body();
    std::size_t d = slots.size();
    while (d > 0 && ++slots[d - 1]->i == extents[d - 1]) slots[--d]->i = 0;
    if (d == 0) return;
  }
}

class DeclarationRunner {
 public:
  DeclarationRunner() : exprs_(&program_) {}

  void set_input(const Tensor& tensor, const NDArray& array) {
    bind_argument(exprs_, tensor.buffer(), array, "input");
  }
  void run(const Operation& op);
  NDArray result(const Buffer& buffer) const {
    for (const Result& r : results_) {
      if (r.buffer == buffer) return r.array;
    }
    throw_internal_error("interpreter: '" + buffer->name + "' was not evaluated");
  }

 private:
  struct Result {
    Buffer buffer;
    NDArray array;
  };
  struct Loops {
    std::vector<std::int64_t> extents;
    std::vector<Slot*> slots;
  };

  Loops bind_axes(const std::vector<Axis>& axes) {
    Loops loops;
    std::vector<Expr> extents;
    for (const Axis& a : axes) extents.push_back(a->extent);
    loops.extents = evaluate_shape(exprs_, extents);
    for (const Axis& a : axes) loops.slots.push_back(exprs_.bind(a.var().get()));
    return loops;
  }
  std::vector<std::unique_ptr<Writer>> make_writers(const Operation& op,
                                                    const std::vector<Node*>& values);
  void run_elements(const Operation& op, const Loops& spatial);
  void run_reduction(const Operation& op, const Loops& spatial);

  Program program_;
  Compiler exprs_;
  std::vector<Result> results_;
};

/// Writes values[i] to the current point of output i.
std::vector<std::unique_ptr<Writer>> DeclarationRunner::make_writers(
    const Operation& op, const std::vector<Node*>& values) {
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<Expr> point(op.axes().begin(), op.axes().end());
  for (int i = 0; i < op.num_outputs(); ++i) {
    const Buffer& buffer = op.output_buffer(i);
    Address address = exprs_.compile_address(buffer, point);
    writers.push_back(make_writer(&program_.context, buffer->dtype, 1, std::move(address),
                                  values[static_cast<std::size_t>(i)]));
  }
  return writers;
}

void DeclarationRunner::run_elements(const Operation& op, const Loops& spatial) {
  exprs_.begin_unit(op.bodies());
  std::vector<Node*> values;
  for (const Expr& body : op.bodies()) values.push_back(exprs_.compile(body));
  const auto writers = make_writers(op, values);
  for_each_point(spatial.extents, spatial.slots, [&] {
    for (const auto& w : writers) w->write();
  });
}

/// One component of an accumulator or of an element: a slot of its type, and the node whose value
/// goes there.
struct Component {
  Slot* slot;
  Node* node;
  bool is_float;

  Slot evaluate() const {
    Slot s{0};
    if (is_float) {
      s.f = node->float_value();
    } else {
      s.i = node->int_value();
    }
    return s;
  }
};

void DeclarationRunner::run_reduction(const Operation& op, const Loops& spatial) {
  const Reduce& reduce = *op.bodies()[0].as<Reduce>();
  const Combiner& combiner = *reduce.combiner;
  const Loops loops = bind_axes(reduce.axes);

  // accumulator <- combine(accumulator, element). All components are computed before any is stored.
  std::vector<Component> elements, accumulators, start;
  exprs_.begin_unit(reduce.sources);
  for (std::size_t c = 0; c < combiner.size(); ++c) {
    const Var& v = combiner.rhs[c];
    elements.push_back(
        {exprs_.bind(v.get()), exprs_.compile(reduce.sources[c]), v->dtype.is_float()});
  }
  for (const Var& v : combiner.lhs) {
    accumulators.push_back({exprs_.bind(v.get()), nullptr, v->dtype.is_float()});
  }
  exprs_.begin_unit(combiner.result);
  for (std::size_t c = 0; c < combiner.size(); ++c) {
    accumulators[c].node = exprs_.compile(combiner.result[c]);
  }
  exprs_.begin_unit(combiner.identity);
  for (std::size_t c = 0; c < combiner.size(); ++c) {
    start.push_back(
        {accumulators[c].slot, exprs_.compile(combiner.identity[c]), accumulators[c].is_float});
  }
  std::vector<Expr> out;
  for (const Expr& body : op.bodies()) {
    out.push_back(combiner.lhs[static_cast<std::size_t>(body.as<Reduce>()->index)]);
  }
  exprs_.begin_unit(out);
  std::vector<Node*> values;
  for (const Expr& v : out) values.push_back(exprs_.compile(v));
  const auto writers = make_writers(op, values);

  std::vector<Slot> next(combiner.size());
  for_each_point(spatial.extents, spatial.slots, [&] {
    for (const Component& s : start) *s.slot = s.evaluate();
    for_each_point(loops.extents, loops.slots, [&] {
      ++program_.context.epoch;
      for (const Component& e : elements) *e.slot = e.evaluate();
      for (std::size_t c = 0; c < next.size(); ++c) next[c] = accumulators[c].evaluate();
      for (std::size_t c = 0; c < next.size(); ++c) *accumulators[c].slot = next[c];
    });
    for (const auto& w : writers) w->write();
  });

  for (const Axis& a : reduce.axes) exprs_.unbind(a.var().get());
  for (const Var& v : combiner.lhs) exprs_.unbind(v.get());
  for (const Var& v : combiner.rhs) exprs_.unbind(v.get());
}

void DeclarationRunner::run(const Operation& op) {
  program_.context.stage = op.name();
  program_.context.where = op.where();
  for (int i = 0; i < op.num_outputs(); ++i) {
    const Buffer& buffer = op.output_buffer(i);
    NDArray array = NDArray::empty(evaluate_shape(exprs_, buffer->shape), buffer->dtype);
    exprs_.bind(buffer)->bind(array.data(), array.shape());
    results_.push_back({buffer, std::move(array)});
  }
  const Loops spatial = bind_axes(op.axes());
  if (op.bodies()[0].kind() == ExprKind::Reduce) {
    run_reduction(op, spatial);
  } else {
    run_elements(op, spatial);
  }
  for (const Axis& a : op.axes()) exprs_.unbind(a.var().get());
}

}  // namespace

std::vector<NDArray> interpret(const std::vector<Tensor>& outputs,
                               const std::vector<TensorValue>& inputs) {
  StageOrder stages;
  for (const Tensor& t : outputs) {
    if (!t) throw_user_error("interpret: an output is no tensor");
    stages.add(t.op());
  }
  const auto value_of = [&](const Operation* op) -> const NDArray* {
    for (const TensorValue& v : inputs) {
      if (v.tensor && v.tensor.op() == op) return &v.value;
    }
    return op->data();
  };

  DeclarationRunner runner;
  // Inputs are bound first, because they give symbolic extents their values.
  for (const Operation* op : stages.order()) {
    if (!op->is_placeholder()) continue;
    const NDArray* value = value_of(op);
    if (value == nullptr) {
      throw_user_error("interpret: no value for the placeholder '" + op->name() + "'", op->where());
    }
    runner.set_input(op->output(0), *value);
  }
  for (const Operation* op : stages.order()) {
    if (!op->is_placeholder()) runner.run(*op);
  }
  std::vector<NDArray> results;
  for (const Tensor& t : outputs) {
    results.push_back(t.op()->is_placeholder() ? value_of(t.op())->copy()
                                               : runner.result(t.buffer()));
  }
  return results;
}

}  // namespace heddle
