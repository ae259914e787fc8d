// Expressions of a kernel, evaluated for one thread after the other.
//
// They compile to the interpreter's nodes, in which a variable is a slot. Where a variable differs
// between threads (thread indices, lets, results of shuffles), its slot is loaded with the
// thread's value before the evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "codegen/emulator/machine.h"
#include "codegen/interpreter/compile.h"

namespace heddle::emu {

/// The threads of the block that run a statement, in the order of their turns.
using Active = std::vector<int>;

/// A variable with a value of its own in each thread.
struct Varying {
  Slot* slots = nullptr;
  int lanes = 1;
  std::vector<Slot> values;  ///< by thread, then lane

  Slot* of(int thread) { return &values[static_cast<std::size_t>(thread * lanes)]; }
  void load(int thread) {
    const Slot* v = of(thread);
    for (int lane = 0; lane < lanes; ++lane) slots[lane] = v[lane];
  }
};

struct ShuffleStep;

/// Expressions that are evaluated together.
struct Unit {
  std::vector<ShuffleStep*> shuffles;  ///< before all else, in this order
  std::vector<Varying*> varying;
  bool uniform = false;  ///< has the same value in all threads, and reads no memory

  /// Runs the shuffles. After that, `f(thread)` may evaluate the unit for each thread.
  template <typename F>
  void for_each(Machine& m, const Active& active, F f) {
    if (!shuffles.empty()) run_shuffles(m, active);
    for (const int t : active) {
      enter(m, t);
      f(t);
    }
    m.thread = -1;
  }
  void enter(Machine& m, int t) {
    m.thread = t;
    for (Varying* v : varying) v->load(t);
    ++m.program.context.epoch;
  }

 private:
  void run_shuffles(Machine& m, const Active& active);
};

/// One Shuffle: its operand in all lanes, then their exchange.
struct ShuffleStep {
  Unit unit;
  interp::Node* value = nullptr;
  bool is_float = false;
  int lane_xor = 0;
  Varying* result = nullptr;
};

class ExprCompiler final : public interp::Compiler {
 public:
  explicit ExprCompiler(Machine* machine) : Compiler(&machine->program), machine_(machine) {}

  /// Starts a unit. `roots` are rewritten (shuffles become variables) and are compiled afterwards.
  Unit begin(std::vector<Expr>& roots);
  Unit begin(Expr& root);

  Varying* bind_varying(const Var& v);
  void unbind_varying(const Var& v);
  void bind_storage(const Buffer& b, Storage* s);
  /// The same for an array of the caller or of the program, which is checked against the buffer.
  void bind_array(const Buffer& b, Storage* s);
  Storage* storage_of(const Buffer& b) const { return storages_.at(memory_of(b)); }
  interp::Address address(const Buffer& b, const std::vector<Expr>& indices) {
    return compile_address(b, indices);
  }

 protected:
  interp::Node* compile_load(const Load* l) override;

 private:
  Expr take_shuffles(const Expr& e, std::vector<ShuffleStep*>& steps);
  Expr take_shuffle(const Shuffle* s, std::vector<ShuffleStep*>& steps);
  void check_no_shuffle(const Expr& e) const;

  Machine* machine_;
  std::unordered_map<const VarNode*, Varying*> varying_;
  std::unordered_map<const interp::Memory*, Storage*> storages_;
  std::vector<std::unique_ptr<Varying>> owned_;
  std::vector<std::unique_ptr<ShuffleStep>> steps_;
  std::unordered_map<const ExprNode*, Expr> taken_;  // of the current unit
  std::vector<Var> shuffle_vars_;
};

}  // namespace heddle::emu
