#include "codegen/emulator/threads.h"

#include <algorithm>

#include "codegen/interpreter/arguments.h"

namespace heddle::emu {
namespace {

struct LoadNode final : interp::Node {
  LoadNode(Machine* m, Storage* s, interp::Address a)
      : machine(m), storage(s), address(std::move(a)) {}
  std::int64_t int_value() override { return machine->read(*storage, address.position()).i; }
  double float_value() override { return machine->read(*storage, address.position()).f; }
  Machine* machine;
  Storage* storage;
  interp::Address address;
};

}  // namespace

void Unit::run_shuffles(Machine& m, const Active& active) {
  std::vector<bool> runs(static_cast<std::size_t>(m.threads));
  for (const int t : active) runs[static_cast<std::size_t>(t)] = true;
  std::vector<Slot> sent(runs.size());
  for (ShuffleStep* s : shuffles) {
    s->unit.for_each(m, active, [&](int t) {
      Slot& v = sent[static_cast<std::size_t>(t)];
      if (s->is_float) {
        v.f = s->value->float_value();
      } else {
        v.i = s->value->int_value();
      }
    });
    for (const int t : active) {
      // The exchange stays within the warp: t and t ^ lane_xor differ in the low five bits.
      const auto from = static_cast<std::size_t>(t ^ s->lane_xor);
      if (from >= runs.size() || !runs[from]) {
        m.thread = t;
        m.fail("a shuffle reads lane " + std::to_string(from % kWarp) +
               " of the warp, which does not run it");
      }
      *s->result->of(t) = sent[from];
    }
  }
}

Unit ExprCompiler::begin(std::vector<Expr>& roots) {
  taken_.clear();
  Unit unit;
  for (Expr& e : roots) e = take_shuffles(e, unit.shuffles);
  unit.uniform = true;
  for (const Expr& root : roots) {
    visit(root, [&](const Expr& e) {
      if (e.kind() == ExprKind::Load) unit.uniform = false;
      const auto* v = e.as<VarNode>();
      const auto it = v != nullptr ? varying_.find(v) : varying_.end();
      if (it == varying_.end()) return;
      unit.uniform = false;
      if (std::find(unit.varying.begin(), unit.varying.end(), it->second) == unit.varying.end()) {
        unit.varying.push_back(it->second);
      }
    });
  }
  begin_unit(roots);
  return unit;
}

Unit ExprCompiler::begin(Expr& root) {
  std::vector<Expr> roots{root};
  Unit unit = begin(roots);
  root = roots[0];
  return unit;
}

// All lanes that a shuffle reads must run it, so it must not occur where evaluation is lazy.
Expr ExprCompiler::take_shuffles(const Expr& e, std::vector<ShuffleStep*>& steps) {
  if (const auto it = taken_.find(e.get()); it != taken_.end()) return it->second;
  Expr out;
  if (const auto* s = e.as<Shuffle>()) {
    out = take_shuffle(s, steps);
  } else {
    if (const auto* s = e.as<Select>()) {
      check_no_shuffle(s->on_true);
      check_no_shuffle(s->on_false);
    }
    const auto* b = e.as<Binary>();
    if (b != nullptr && (b->op == BinaryOp::And || b->op == BinaryOp::Or)) check_no_shuffle(b->b);
    out = map_children(e, [&](const Expr& child) { return take_shuffles(child, steps); });
  }
  taken_.emplace(e.get(), out);
  return out;
}

Expr ExprCompiler::take_shuffle(const Shuffle* s, std::vector<ShuffleStep*>& steps) {
  // The operand is a unit of its own, in which inner shuffles come first.
  auto outer = std::move(taken_);
  steps_.push_back(std::make_unique<ShuffleStep>());
  ShuffleStep* step = steps_.back().get();
  Expr value = s->value;
  step->unit = begin(value);
  step->value = compile(value);
  step->is_float = value.dtype().is_float();
  step->lane_xor = s->lane_xor;
  const Var result("lane_xor_" + std::to_string(s->lane_xor), value.dtype());
  shuffle_vars_.push_back(result);
  step->result = bind_varying(result);
  steps.push_back(step);
  taken_ = std::move(outer);
  return result;
}

void ExprCompiler::check_no_shuffle(const Expr& e) const {
  visit(e, [&](const Expr& x) {
    if (x.kind() == ExprKind::Shuffle) {
      machine_->fail("a shuffle where evaluation is lazy: not all lanes would run it");
    }
  });
}

Varying* ExprCompiler::bind_varying(const Var& v) {
  owned_.push_back(std::make_unique<Varying>());
  Varying* varying = owned_.back().get();
  varying->lanes = v->dtype.lanes;
  varying->slots = bind(v.get());
  varying->values.resize(static_cast<std::size_t>(machine_->threads * varying->lanes));
  varying_[v.get()] = varying;
  return varying;
}

void ExprCompiler::unbind_varying(const Var& v) {
  unbind(v.get());
  varying_.erase(v.get());
}

void ExprCompiler::bind_storage(const Buffer& b, Storage* s) {
  interp::Memory* m = bind(b);
  for (const Expr& e : b->shape) m->extents.push_back(*as_int(e));
  m->size = s->size;
  storages_[m] = s;
}

void ExprCompiler::bind_array(const Buffer& b, Storage* s) {
  interp::bind_argument(*this, b, s->array, "argument");
  storages_[memory_of(b)] = s;
}

interp::Node* ExprCompiler::compile_load(const Load* l) {
  Storage* s = storage_of(l->buffer);
  return machine_->program.make<LoadNode>(machine_, s, compile_address(l->buffer, l->indices));
}

}  // namespace heddle::emu
