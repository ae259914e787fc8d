#include "codegen/emulator/actions.h"

#include <algorithm>

#include "ir/combined_store.h"

namespace heddle::emu {
namespace {

using interp::Node;

/// A scalar integer in each active thread: an extent, or a condition.
struct PerThread {
  Unit unit;
  Node* value = nullptr;

  /// Calls f(thread, value) for each active thread, or once with thread -1 where the value is
  /// uniform.
  template <typename F>
  void evaluate(Machine& m, const Active& active, F f) {
    if (unit.uniform && unit.shuffles.empty()) {
      ++m.program.context.epoch;
      f(-1, value->int_value());
    } else {
      unit.for_each(m, active, [&](int t) { f(t, value->int_value()); });
    }
  }
};

/// All threads run an iteration together. A thread whose extent is reached idles.
class SerialLoop final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    enter();
    std::int64_t longest = 0;
    bool uniform = false;
    ends_.clear();
    extent.evaluate(*machine_, active, [&](int t, std::int64_t n) {
      longest = std::max(longest, n);
      if (t < 0) uniform = true;
      ends_.push_back(n);
    });
    for (std::int64_t i = 0; i < longest; ++i) {
      if (!uniform) {
        running_.clear();
        for (std::size_t k = 0; k < active.size(); ++k) {
          if (i < ends_[k]) running_.push_back(active[k]);
        }
      }
      slot->i = i;
      body->run(uniform ? active : running_);
    }
  }
  PerThread extent;
  Slot* slot = nullptr;
  ActionPtr body;

 private:
  std::vector<std::int64_t> ends_;
  Active running_;
};

/// Binds a variable to threadIdx or blockIdx.
class GridLoop final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    enter();
    running_.clear();
    extent.evaluate(*machine_, active, [&](int t, std::int64_t n) {
      if (n > limit) {
        machine_->fail("a loop of " + std::to_string(n) + " iterations over " +
                       std::to_string(limit) + (is_block(kind) ? " blocks" : " threads"));
      }
      if (t >= 0) {
        if (index_of(t) < n) running_.push_back(t);
        return;
      }
      if (n == limit) {
        running_ = active;
        return;
      }
      for (const int each : active) {
        if (index_of(each) < n) running_.push_back(each);
      }
    });
    if (running_.empty()) return;
    if (slot != nullptr) slot->i = machine_->block[dim()];
    body->run(running_);
  }
  std::size_t dim() const { return static_cast<std::size_t>(grid_dim(kind)); }
  std::int64_t index_of(int thread) const {
    return is_block(kind) ? machine_->block[dim()] : machine_->thread_index(thread)[dim()];
  }
  PerThread extent;
  LoopKind kind = LoopKind::ThreadX;
  std::int64_t limit = 1;
  Slot* slot = nullptr;  // the variable of a block loop
  ActionPtr body;

 private:
  Active running_;
};

/// Binds a variable to the block's place in its pair.
class PairLoop final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    enter();
    slot->i = machine_->rank;
    body->run(active);
  }
  Slot* slot = nullptr;
  ActionPtr body;
};

class StoreAction final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    enter();
    interp::Context& context = machine_->program.context;
    // Combining reads and writes an element at once, and races with no other combining.
    History* const history = storage->history;
    if (combined) storage->history = nullptr;
    unit.for_each(*machine_, active, [&](int) {
      for (std::size_t lane = 0; lane < values.size(); ++lane) {
        context.lane.i = static_cast<std::int64_t>(lane);
        if (lane > 0) ++context.epoch;
        if (is_float) {
          values[lane].f = value->float_value();
        } else {
          values[lane].i = value->int_value();
        }
        positions[lane] = address.position();
      }
      context.lane.i = 0;
      for (std::size_t lane = 0; lane < values.size(); ++lane) {
        if (async && machine_->cluster > 1) {
          machine_->send(*storage, positions[lane], values[lane]);
        } else if (async) {
          machine_->start_copy(*storage, positions[lane], values[lane]);
        } else {
          machine_->write(*storage, positions[lane], values[lane]);
        }
      }
    });
    storage->history = history;
  }
  Unit unit;
  interp::Address address;
  Node* value = nullptr;
  Storage* storage = nullptr;
  bool is_float = false, async = false, combined = false;
  std::vector<Slot> values;  // one for each lane
  std::vector<std::int64_t> positions;
};

class AllocateAction final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    std::vector<State>& states = storage.states;
    if (all(active) || storage.buffer->scope == Scope::Shared) {
      std::fill(states.begin(), states.end(), State::Unwritten);
    } else {
      const auto threads = static_cast<std::size_t>(machine_->threads);
      for (std::size_t first = 0; first < states.size(); first += threads) {
        for (const int t : active) states[first + static_cast<std::size_t>(t)] = State::Unwritten;
      }
    }
    body->run(active);
    enter();
    machine_->check_settled(storage);
  }
  Storage storage;
  ActionPtr body;
};

class IfAction final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    enter();
    then_.clear();
    else_.clear();
    condition.evaluate(*machine_, active, [&](int t, std::int64_t v) {
      Active& taken = v != 0 ? then_ : else_;
      if (t < 0) {
        taken = active;
      } else {
        taken.push_back(t);
      }
    });
    if (side_by_side && !then_.empty() && !else_.empty()) {
      machine_->groups.strands.run([&] { then_body->run(then_); }, [&] { else_body->run(else_); });
      return;
    }
    if (then_body != nullptr && !then_.empty()) then_body->run(then_);
    if (else_body != nullptr && !else_.empty()) else_body->run(else_);
  }
  PerThread condition;
  ActionPtr then_body, else_body;
  bool side_by_side = false;  ///< each arm waits for what the other one does

 private:
  Active then_, else_;
};

class BlockAction final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    for (const ActionPtr& a : actions) a->run(active);
  }
  std::vector<ActionPtr> actions;
};

class LetAction final : public Action {
 public:
  using Action::Action;
  void run(const Active& active) override {
    enter();
    interp::Context& context = machine_->program.context;
    unit.for_each(*machine_, active, [&](int t) {
      Slot* to = variable->of(t);
      for (int lane = 0; lane < variable->lanes; ++lane) {
        context.lane.i = lane;
        if (lane > 0) ++context.epoch;
        if (is_float) {
          to[lane].f = value->float_value();
        } else {
          to[lane].i = value->int_value();
        }
      }
      context.lane.i = 0;
    });
    body->run(active);
  }
  Unit unit;
  Node* value = nullptr;
  Varying* variable = nullptr;
  bool is_float = false;
  ActionPtr body;
};

/// Whether cp.async can copy `e`: an element of global memory, or zero where a condition says so.
bool is_copy(const Expr& e) {
  if (const auto* b = e.as<Broadcast>()) return is_copy(b->value);
  if (const auto* s = e.as<Select>()) return is_copy(s->on_true) && is_copy(s->on_false);
  const auto* l = e.as<Load>();
  if (l == nullptr) return is_const(e, 0);
  return l->buffer->scope == Scope::Argument || l->buffer->scope == Scope::Global;
}

bool waits_at_barrier(const Stmt& s) {
  bool found = false;
  visit(
      s, [&](const Stmt& x) { found |= tile_operation<tile::BarrierWait>(x) != nullptr; },
      [](const Expr&) {});
  return found;
}

PerThread compile_scalar(ExprCompiler& exprs, Expr e, const char* what) {
  HEDDLE_ICHECK(e.dtype().is_scalar(), std::string("emulator: ") + what + " is a vector");
  PerThread p;
  p.unit = exprs.begin(e);
  p.value = exprs.compile(e);
  return p;
}

}  // namespace

ActionPtr StmtCompiler::compile(const Stmt& s) {
  if (!s) return nullptr;
  machine_->program.context.statement = s.get();  // for messages while compiling
  switch (s.kind()) {
    case StmtKind::For: return compile_for(s.as<For>());
    case StmtKind::Store: return compile_store(s.as<Store>());
    case StmtKind::Allocate: return compile_allocate(s.as<Allocate>());
    case StmtKind::If: return compile_if(s.as<If>());
    case StmtKind::Block: return compile_block(s.as<Block>());
    case StmtKind::Let: return compile_let(s.as<Let>());
    case StmtKind::Prefetch: return nullptr;  // may touch any address: nothing to check
    case StmtKind::Sync: return compile_sync(machine_, s.as<Sync>());
    case StmtKind::TileOp: return compile_tile_op(machine_, exprs_, s.as<TileOp>());
  }
  throw_internal_error("emulator: unknown statement");
}

ActionPtr StmtCompiler::compile_for(const For* f) {
  if (f->loop == LoopKind::Parallel) machine_->fail("a loop over threads of a CPU in a GPU kernel");
  if (f->loop == LoopKind::PairX) {
    auto pair = std::make_unique<PairLoop>(machine_, f);
    pair->slot = exprs_->bind(f->var.get());
    pair->body = compile(f->body);
    exprs_->unbind(f->var.get());
    if (pair->body == nullptr) return nullptr;
    return pair;
  }
  PerThread extent = compile_scalar(*exprs_, f->extent, "a loop's extent");
  if (!is_block(f->loop) && !is_thread(f->loop)) {
    auto action = std::make_unique<SerialLoop>(machine_, f);
    action->extent = std::move(extent);
    action->slot = exprs_->bind(f->var.get());
    action->body = compile(f->body);
    exprs_->unbind(f->var.get());
    if (action->body == nullptr) return nullptr;
    return action;
  }
  auto action = std::make_unique<GridLoop>(machine_, f);
  action->extent = std::move(extent);
  action->kind = f->loop;
  if (is_block(f->loop)) {
    action->limit = machine_->grid_dim[action->dim()];
    action->slot = exprs_->bind(f->var.get());
    action->body = compile(f->body);
    exprs_->unbind(f->var.get());
  } else {
    action->limit = machine_->block_dim[action->dim()];
    Varying* index = exprs_->bind_varying(f->var);
    for (int t = 0; t < machine_->threads; ++t) index->of(t)->i = action->index_of(t);
    action->body = compile(f->body);
    exprs_->unbind_varying(f->var);
  }
  if (action->body == nullptr) return nullptr;
  return action;
}

ActionPtr StmtCompiler::compile_store(const Store* s) {
  auto action = std::make_unique<StoreAction>(machine_, s);
  std::vector<Expr> roots = s->indices;
  int lanes = 1;
  for (const Expr& i : roots) lanes = std::max<int>(lanes, i.dtype().lanes);
  if (s->value.dtype() != s->buffer->dtype.with_lanes(lanes)) {
    machine_->fail("store of " + to_string(s->value.dtype()) + " to '" + s->buffer->name + "' of " +
                   to_string(s->buffer->dtype) + ", " + std::to_string(lanes) +
                   " lane(s) of indices");
  }
  roots.push_back(s->value);
  action->unit = exprs_->begin(roots);
  const Expr value = roots.back();
  roots.pop_back();
  action->storage = exprs_->storage_of(s->buffer);
  action->address = exprs_->address(s->buffer, roots);
  action->value = exprs_->compile(value);
  action->is_float = value.dtype().is_float();
  action->async = has(s->hint, StoreHint::Async);
  action->combined = has(s->hint, kCombined);
  action->values.resize(static_cast<std::size_t>(lanes));
  action->positions.resize(static_cast<std::size_t>(lanes));
  const bool copies =
      s->buffer->scope == Scope::Shared && (machine_->cluster > 1 || is_copy(value));
  if (action->async && !copies) {
    machine_->fail("an asynchronous store that is no copy from global to shared memory");
  }
  return action;
}

ActionPtr StmtCompiler::compile_allocate(const Allocate* a) {
  const Buffer& b = a->buffer;
  if (b->scope != Scope::Local && b->scope != Scope::Shared) {
    machine_->fail("'" + b->name + "' is allocated by a kernel, but is neither local nor shared");
  }
  auto action = std::make_unique<AllocateAction>(machine_, a);
  const std::int64_t size = b.num_elements();
  action->storage.hold(b, size, machine_->threads);
  if (b->scope == Scope::Shared) machine_->enter_shared(action->storage);
  exprs_->bind_storage(b, &action->storage);
  action->body = compile(a->body);
  exprs_->unbind(b);
  if (b->scope == Scope::Shared) machine_->leave_shared();
  if (action->body == nullptr) return nullptr;
  return action;
}

ActionPtr StmtCompiler::compile_if(const If* i) {
  auto action = std::make_unique<IfAction>(machine_, i);
  action->condition = compile_scalar(*exprs_, i->condition, "a condition");
  action->then_body = compile(i->then_body);
  action->else_body = compile(i->else_body);
  action->side_by_side = waits_at_barrier(i->then_body) && waits_at_barrier(i->else_body);
  return action;
}

ActionPtr StmtCompiler::compile_block(const Block* b) {
  auto action = std::make_unique<BlockAction>(machine_, b);
  for (const Stmt& s : b->stmts) {
    if (ActionPtr a = compile(s)) action->actions.push_back(std::move(a));
  }
  return action;
}

ActionPtr StmtCompiler::compile_let(const Let* l) {
  HEDDLE_ICHECK(l->value.dtype() == l->var->dtype,
                "emulator: '" + l->var->name + "' is let to a value of another type");
  auto action = std::make_unique<LetAction>(machine_, l);
  Expr value = l->value;
  action->unit = exprs_->begin(value);
  action->value = exprs_->compile(value);
  action->is_float = l->var->dtype.is_float();
  action->variable = exprs_->bind_varying(l->var);
  action->body = compile(l->body);
  exprs_->unbind_varying(l->var);
  if (action->body == nullptr) return nullptr;
  return action;
}

}  // namespace heddle::emu
