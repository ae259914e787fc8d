// Instructions as data: what each computes, as a loop nest over its operands, of which types and
// extents, and which machines have it. Lowering and code generation look up here what they may use,
// and unify loops with the nest of an instruction (instruction/unify.h).
//
// A program can add instructions of a CPU (lesson 14):
//
//   HEDDLE_REGISTER_INSTRUCTION(my_instruction());
//   s[C].tensorize(i, "mine");  // the loops from i inwards are this instruction, or it is an error
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/target/target.h"

namespace heddle {

/// How LLVM is asked for an instruction of a CPU.
struct LlvmCall {
  std::string intrinsic;      ///< LLVM's function, such as "llvm.x86.sse2.psad.bw"
  std::vector<int> operands;  ///< its arguments: operands as vectors, in the order of their loops
  bool adds = false;          ///< the result is added to operand 0 in place of replacing it
};

/// One combination of types, and the extents that the loops may have with it.
struct InstructionForm {
  std::vector<DataType> types;                ///< of the operands in order
  std::vector<std::vector<int64_t>> extents;  ///< of the loops in order, ascending
  LlvmCall llvm = {};                         ///< of instructions of CPUs
};

/// An operand of an instruction.
struct InstructionOperand {
  std::string name;
  std::vector<int> loops;  ///< the loops that index it, outermost dimension first
};

/// An instruction: for loops { operand 0 = value(operands) }, each operand at its own loops.
struct MachineInstruction {
  std::string name;   ///< as people and schedules write it
  std::string about;  ///< one sentence
  std::vector<std::string> loops;
  std::vector<InstructionOperand> operands;  ///< the first one is the result
  std::vector<InstructionForm> forms;
  /// The new value of an element of operand 0 from the elements of all operands. Types that differ
  /// are converted by casts.
  std::function<Expr(const std::vector<Expr>&)> value;
  std::function<bool(const Target&, const InstructionForm&)> legal;
  /// Whether it rounds operands of f32 to tf32: a nest that rounds them, and one that may, are both its.
  bool rounds_to_tf32 = false;

  /// Whether the machine has any form of it.
  bool is_of(const Target& target) const;
  /// The form of these types; null where there is none.
  const InstructionForm* form(const std::vector<DataType>& types) const;
  /// The same where the loops may also have these extents.
  const InstructionForm* form(const std::vector<DataType>& types,
                              const std::vector<int64_t>& extents) const;
};

/// The nest of an instruction as statements over buffers of its operands. Extents are those of the
/// loops.
struct InstructionNest {
  std::vector<Buffer> operands;
  std::vector<Var> loops;
  Stmt body;
};
InstructionNest nest_of(const MachineInstruction& instruction, const InstructionForm& form,
                        const std::vector<int64_t>& extents);

/// d[m, n] += a[m, k] * b[k, n] by a warp: 16 x 8 x 16 of 16-bit floats, and others.
const MachineInstruction& mma_instruction();
/// The same by a warp group, which has four times the rows of a warp. The loop over rows is that of
/// one warp.
const MachineInstruction& wgmma_instruction();
/// The same with tile registers of a CPU.
const MachineInstruction& amx_instruction();
/// The instructions above.
const std::vector<const MachineInstruction*>& matrix_instructions();

/// d[row, col] = s[row, col] from shared memory to a fragment of mma: 16 rows of a left operand, or 8
/// or 16 columns of a right one.
const MachineInstruction& ldmatrix_instruction();
/// The same of a box of rows of 128 bytes from global to shared memory. Beyond the ends of its
/// source are zeros; the rows may be windows of an image (BufferNode::windows).
const MachineInstruction& tma_load_instruction();
/// And from shared to global memory, where nothing is written beyond the ends.
const MachineInstruction& tma_store_instruction();
/// Elements of fragments of mma, each computed by the lanes that hold it, and reductions of rows of
/// them. It has no forms: the loops may compute anything.
const MachineInstruction& lanes_instruction();

/// The entry of a tile operation; null for one that only orders others.
const MachineInstruction* instruction_of(const tile::Operation& op);
/// The instruction that StageRef::tensorize() may name so: one of those above, or a registered one.
/// Null where there is none.
std::shared_ptr<const MachineInstruction> find_instruction(const std::string& name);
/// The names of these, as a text for people.
std::string instruction_names();

/// d[l] += a[l, j] * b[l, j]: l over the lanes of a register, j over a group of two or four. Those of
/// CPUs; of two for the same types, the first one is better.
const std::vector<MachineInstruction>& dot_instructions();

/// Whether the target adds up groups of `size` products of these factors, in either order, in `sum`
/// by an instruction for whole registers.
bool adds_products(const Target& target, DataType sum, DataType a, DataType b, int64_t size);

/// Registers an instruction of CPUs for the life of the process and returns true. Loops that
/// tensorize() marks as it, and that unify with its nest, become calls of LLVM's function where the
/// machine has the instruction and where the elements of each operand lie side by side in the order
/// of its loops; on other machines they run as loops. A form has one extent for each loop. Throws a
/// User error for an instruction that lacks a part. Registering a name twice is an internal error.
bool register_instruction(MachineInstruction instruction);
/// Removes an instruction, for tests and for plug-ins that are unloaded.
void unregister_instruction(const std::string& name);
/// The instructions that are registered, in the order in which they were.
std::vector<std::shared_ptr<const MachineInstruction>> registered_instructions();

#define HEDDLE_REGISTER_INSTRUCTION(...) \
  HEDDLE_REGISTER_INSTRUCTION_AS(        \
      HEDDLE_INSTRUCTION_JOIN(heddle_registered_instruction_, __COUNTER__), __VA_ARGS__)
#define HEDDLE_REGISTER_INSTRUCTION_AS(name, ...) \
  [[maybe_unused]] static const bool name = ::heddle::register_instruction(__VA_ARGS__)
#define HEDDLE_INSTRUCTION_JOIN(a, b) HEDDLE_INSTRUCTION_JOIN_EXPANDED(a, b)
#define HEDDLE_INSTRUCTION_JOIN_EXPANDED(a, b) a##b

}  // namespace heddle
