// Runs a lowered function: statements become actions, in the same way as expressions become nodes.
#include <algorithm>
#include <memory>
#include <utility>

#include "codegen/interpreter/arguments.h"
#include "codegen/interpreter/compile.h"
#include "heddle/codegen/interpreter.h"

namespace heddle {
namespace {

using namespace interp;

class Action {
 public:
  virtual ~Action() = default;
  virtual void run() = 0;
};
using ActionPtr = std::unique_ptr<Action>;

/// Every action that evaluates expressions begins with this.
void enter(Context* context, const StmtNode* statement) {
  context->statement = statement;
  ++context->epoch;
}

struct ForAction final : Action {
  void run() override {
    enter(context, statement);
    const std::int64_t n = extent->int_value();
    for (std::int64_t i = 0; i < n; ++i) {
      slot->i = i;
      body->run();
    }
  }
  Context* context = nullptr;
  const StmtNode* statement = nullptr;
  Node* extent = nullptr;
  Slot* slot = nullptr;
  ActionPtr body;
};

struct StoreAction final : Action {
  void run() override {
    context->statement = statement;
    writer->write();
  }
  Context* context = nullptr;
  const StmtNode* statement = nullptr;
  std::unique_ptr<Writer> writer;
};

struct AllocateAction final : Action {
  void run() override {
    enter(context, statement);
    std::vector<std::int64_t> shape;
    shape.reserve(extents.size());
    for (Node* e : extents) shape.push_back(e->int_value());
    memory->allocate(std::move(shape));
    body->run();
  }
  Context* context = nullptr;
  const StmtNode* statement = nullptr;
  Memory* memory = nullptr;
  std::vector<Node*> extents;
  ActionPtr body;
};

struct IfAction final : Action {
  void run() override {
    enter(context, statement);
    Action* taken = condition->int_value() != 0 ? then_body.get() : else_body.get();
    if (taken != nullptr) taken->run();
  }
  Context* context = nullptr;
  const StmtNode* statement = nullptr;
  Node* condition = nullptr;
  ActionPtr then_body, else_body;
};

struct BlockAction final : Action {
  void run() override {
    for (const ActionPtr& a : actions) a->run();
  }
  std::vector<ActionPtr> actions;
};

struct LetAction final : Action {
  void run() override {
    context->statement = statement;
    for (int lane = 0; lane < lanes; ++lane) {
      ++context->epoch;
      context->lane.i = lane;
      if (is_float) {
        slots[lane].f = value->float_value();
      } else {
        slots[lane].i = value->int_value();
      }
    }
    context->lane.i = 0;
    body->run();
  }
  Context* context = nullptr;
  const StmtNode* statement = nullptr;
  Node* value = nullptr;
  Slot* slots = nullptr;
  int lanes = 1;
  bool is_float = false;
  ActionPtr body;
};

class StmtCompiler {
 public:
  StmtCompiler(Program* program, Compiler* exprs) : program_(program), exprs_(exprs) {}

  /// Returns null for a statement that does nothing.
  ActionPtr compile(const Stmt& s) {
    if (!s) return nullptr;
    program_->context.statement = s.get();  // for messages while compiling
    switch (s.kind()) {
      case StmtKind::For: return compile_for(s.as<For>());
      case StmtKind::Store: return compile_store(s.as<Store>());
      case StmtKind::Allocate: return compile_allocate(s.as<Allocate>());
      case StmtKind::If: return compile_if(s.as<If>());
      case StmtKind::Block: return compile_block(s.as<Block>());
      case StmtKind::Let: return compile_let(s.as<Let>());
      case StmtKind::Prefetch: return nullptr;  // may touch any address: nothing to check
      case StmtKind::Sync: return nullptr;      // iterations run one after the other
      case StmtKind::TileOp:
        program_->context.fail("an operation of a warp: run it in the GPU emulator");
    }
    throw_internal_error("interpreter: unknown statement");
  }

 private:
  template <typename T>
  std::unique_ptr<T> start(const StmtNode* statement) {
    auto action = std::make_unique<T>();
    action->context = &program_->context;
    action->statement = statement;
    return action;
  }

  Node* compile_scalar(const Expr& e, const char* what) {
    HEDDLE_ICHECK(e.dtype().is_scalar(), std::string("interpreter: ") + what + " is a vector");
    exprs_->begin_unit({e});
    return exprs_->compile(e);
  }

  ActionPtr compile_for(const For* f) {
    auto action = start<ForAction>(f);
    action->extent = compile_scalar(f->extent, "a loop's extent");
    action->slot = exprs_->bind(f->var.get());
    action->body = compile(f->body);
    exprs_->unbind(f->var.get());
    if (action->body == nullptr) return nullptr;
    return action;
  }

  /// `mask`, where it is defined, says which lanes are stored.
  ActionPtr compile_store(const Store* s, const Expr& mask = {}) {
    auto action = start<StoreAction>(s);
    int lanes = 1;
    for (const Expr& i : s->indices) lanes = std::max<int>(lanes, i.dtype().lanes);
    if (s->value.dtype() != s->buffer->dtype.with_lanes(lanes)) {
      program_->context.fail("store of " + to_string(s->value.dtype()) + " to '" + s->buffer->name +
                             "' of " + to_string(s->buffer->dtype) + ", " + std::to_string(lanes) +
                             " lane(s) of indices");
    }
    std::vector<Expr> roots = s->indices;
    roots.push_back(s->value);
    if (mask.defined()) roots.push_back(mask);
    exprs_->begin_unit(roots);
    Address address = exprs_->compile_address(s->buffer, s->indices);
    Node* value = exprs_->compile(s->value);
    Node* stored = mask.defined() ? exprs_->compile(mask) : nullptr;
    action->writer =
        make_writer(&program_->context, s->buffer->dtype, lanes, std::move(address), value, stored);
    return action;
  }

  ActionPtr compile_allocate(const Allocate* a) {
    auto action = start<AllocateAction>(a);
    exprs_->begin_unit(a->buffer->shape);
    for (const Expr& e : a->buffer->shape) action->extents.push_back(exprs_->compile(e));
    action->memory = exprs_->bind(a->buffer);
    action->body = compile(a->body);
    exprs_->unbind(a->buffer);
    if (action->body == nullptr) return nullptr;
    return action;
  }

  ActionPtr compile_if(const If* i) {
    if (const Store* store = i->then_body.as<Store>(); store && i->condition.dtype().is_vector()) {
      HEDDLE_ICHECK(!i->else_body, "interpreter: a masked store has no else");
      return compile_store(store, i->condition);
    }
    auto action = start<IfAction>(i);
    action->condition = compile_scalar(i->condition, "a condition");
    action->then_body = compile(i->then_body);
    action->else_body = compile(i->else_body);
    return action;
  }

  ActionPtr compile_block(const Block* b) {
    auto action = std::make_unique<BlockAction>();
    for (const Stmt& s : b->stmts) {
      if (ActionPtr a = compile(s)) action->actions.push_back(std::move(a));
    }
    return action;
  }

  ActionPtr compile_let(const Let* l) {
    auto action = start<LetAction>(l);
    exprs_->begin_unit({l->value});
    action->value = exprs_->compile(l->value);
    action->lanes = l->var->dtype.lanes;
    action->is_float = l->var->dtype.is_float();
    HEDDLE_ICHECK(l->value.dtype() == l->var->dtype,
                  "interpreter: '" + l->var->name + "' is let to a value of another type");
    action->slots = exprs_->bind(l->var.get());
    action->body = compile(l->body);
    exprs_->unbind(l->var.get());
    if (action->body == nullptr) return nullptr;
    return action;
  }

  Program* program_;
  Compiler* exprs_;
};

}  // namespace

void interpret(const LoweredFunction& function, const std::vector<NDArray>& args) {
  if (args.size() != function.args.size()) {
    throw_user_error("'" + function.name + "' takes " + std::to_string(function.args.size()) +
                     " arguments, got " + std::to_string(args.size()));
  }
  Program program;
  Compiler exprs(&program);
  for (std::size_t i = 0; i < args.size(); ++i) {
    bind_argument(exprs, function.args[i], args[i], "argument");
  }
  const ActionPtr action = StmtCompiler(&program, &exprs).compile(function.body);
  if (action != nullptr) action->run();
}

}  // namespace heddle
