// Statements of a kernel, compiled to actions that all active threads of a block take together.
#pragma once

#include <memory>
#include <vector>

#include "codegen/emulator/threads.h"
#include "heddle/lower/gpu_program.h"

namespace heddle::emu {

class Action {
 public:
  Action(Machine* m, const StmtNode* s) : machine_(m), statement_(s) {}
  virtual ~Action() = default;
  virtual void run(const Active& active) = 0;

 protected:
  /// Names the statement that runs; to be called again after a body has run.
  void enter() const { machine_->program.context.statement = statement_; }
  bool all(const Active& active) const {
    return active.size() == static_cast<std::size_t>(machine_->threads);
  }

  Machine* machine_;

 private:
  const StmtNode* statement_;
};
using ActionPtr = std::unique_ptr<Action>;

class StmtCompiler {
 public:
  StmtCompiler(Machine* machine, ExprCompiler* exprs) : machine_(machine), exprs_(exprs) {}

  /// Null for "do nothing".
  ActionPtr compile(const Stmt& s);

 private:
  ActionPtr compile_for(const For* f);
  ActionPtr compile_store(const Store* s);
  ActionPtr compile_allocate(const Allocate* a);
  ActionPtr compile_if(const If* i);
  ActionPtr compile_block(const Block* b);
  ActionPtr compile_let(const Let* l);

  Machine* machine_;
  ExprCompiler* exprs_;
};

ActionPtr compile_sync(Machine* machine, const Sync* s);
ActionPtr compile_tile_op(Machine* machine, ExprCompiler* exprs, const TileOp* t);
ActionPtr compile_group_op(Machine* machine, ExprCompiler* exprs, const TileOp* t);

/// The warp groups of `active`. Fails unless each that takes part has all its threads.
std::vector<int> whole_groups(Machine& m, const Active& active);

/// The threads of `active` by warp, in order of lane. Fails unless every warp that takes part has
/// all its lanes. `what` names the operation that needs them.
std::vector<std::vector<int>> whole_warps(Machine& m, const Active& active, const char* what);

}  // namespace heddle::emu
