// From expressions to nodes: variables become slots and buffers become memory, once.
#pragma once

#include <unordered_map>
#include <vector>

#include "codegen/interpreter/program.h"

namespace heddle::interp {

class Compiler {
 public:
  explicit Compiler(Program* program) : program_(program) {}
  virtual ~Compiler() = default;

  // ---- scopes: a name is in scope from bind to unbind, and may be bound again later ----
  Slot* bind(const VarNode* v);
  void unbind(const VarNode* v) { scope_.erase(v); }
  bool bound(const VarNode* v) const { return scope_.count(v) != 0; }
  Memory* bind(const Buffer& b);
  void unbind(const Buffer& b) { memory_.erase(b.get()); }
  Memory* memory_of(const Buffer& b) const;

  /// Starts an evaluation unit. All expressions that are compiled until the next one are evaluated
  /// with the same variables and memory, so that nodes shared by `roots` are evaluated once. Each
  /// run of the unit must begin with ++context.epoch.
  void begin_unit(const std::vector<Expr>& roots);

  Node* compile(const Expr& e);
  /// An i64 or narrower index, as a sum.
  Linear compile_index(const Expr& e);
  Address compile_address(const Buffer& buffer, const std::vector<Expr>& indices);

 protected:
  /// Reads memory. The GPU emulator overrides it.
  virtual Node* compile_load(const Load* l);

 private:
  struct Binding {
    Slot* slots;
    int lanes;
  };

  Node* compile_new(const Expr& e);
  Node* compile_var(const VarNode* v);
  Node* compile_binary(const Binary* b);
  Linear linear_new(const Expr& e);
  const Binding& lookup(const VarNode* v) const;
  void count_uses(const Expr& e);

  Program* program_;
  std::unordered_map<const VarNode*, Binding> scope_;
  std::unordered_map<const BufferNode*, Memory*> memory_;
  // Of the current unit:
  std::unordered_map<const ExprNode*, int> uses_;
  std::unordered_map<const ExprNode*, Node*> nodes_;
  std::unordered_map<const ExprNode*, Linear> linear_;
  std::vector<Expr> roots_;  // keeps the keys of the maps alive
};

}  // namespace heddle::interp
