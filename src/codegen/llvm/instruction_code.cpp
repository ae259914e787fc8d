// Nests that are an instruction which a program registered: a call of LLVM's function for it.
//
//   tensorized for l in 0..2 { for j in 0..8 {
//     d[l] = d[l] + abs(i64(a[l*8 + j]) - i64(b[l*8 + j])) } }
//   --> d[ramp(0, 1, 2)] = d[..] + llvm.x86.sse2.psad.bw(a[ramp(0, 1, 16)], b[ramp(0, 1, 16)])
//
// Where the machine does not have the instruction, the loops run as they are.
#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "lower/passes.h"
#include "lower/select_instructions.h"

namespace heddle::codegen {

using llvm::Value;
using namespace instructions;

namespace {

// The elements of an operand as a vector.
Expr elements_of(const MachineInstruction& instruction, const Unified& nest, size_t operand) {
  int lanes = 1;
  for (const int l : instruction.operands[operand].loops)
    lanes *= static_cast<int>(nest.loops[static_cast<size_t>(l)].extent);
  const Expr first = nest.first(operand).indices[0];
  return lanes == 1 ? first : make_ramp(first, Expr(1), lanes);
}

[[noreturn]] void fail_call(const MachineInstruction& instruction, const LlvmCall& call,
                            const std::string& why) {
  throw_user_error("instruction '" + instruction.name + "' calls '" + call.intrinsic + "', " + why,
                   {}, "name a function of LLVM's that takes its operands as vectors");
}

}  // namespace

void Generator::emit_instruction(const For& loop) {
  const auto instruction = find_instruction(loop.loop.instruction.text());
  std::string why;
  const auto found =
      instruction ? match_registered(loop, instruction, &why) : std::optional<RegisteredNest>();
  HEDDLE_ICHECK(found, "a nest that lowering selected as '" + loop.loop.instruction.text() +
                           "' is none: " + why);
  const bool here = instruction->legal(machine_.target, *found->nest.form);
  note_expected(found->nest.operands[0].buffer->name, instruction->name, here);
  if (!here) return emit_vectors(loop);
  emit_call_of(*instruction, found->nest);
}

void Generator::emit_vectors(const For& nest) {
  constexpr int kMostStatements = 64;
  const Stmt vectors = lowering::vectorize(lowering::plain_loops(nest));
  emit(simplify(lowering::unroll(vectors, kMostStatements)));
  memo_rewind(0);
}

void Generator::emit_call_of(const MachineInstruction& instruction, const Unified& nest) {
  const LlvmCall& call = nest.form->llvm;
  const auto elements = [&](size_t o) { return elements_of(instruction, nest, o); };
  const llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID(call.intrinsic);
  if (id == llvm::Intrinsic::not_intrinsic || llvm::Intrinsic::isOverloaded(id))
    fail_call(instruction, call, "which LLVM does not have, or has for several types");
  llvm::FunctionType* type = llvm::Intrinsic::getType(context(), id);
  if (type->getNumParams() != call.operands.size())
    fail_call(instruction, call, "which has another number of parameters");
  const auto as = [&](Value* v, llvm::Type* wanted) {
    if (v->getType()->getPrimitiveSizeInBits() != wanted->getPrimitiveSizeInBits())
      fail_call(instruction, call, "whose vectors have another size than its operands");
    return b_.CreateBitCast(v, wanted);
  };
  std::vector<Value*> args;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const size_t o = static_cast<size_t>(call.operands[i]);
    args.push_back(as(emit(make_load(nest.operands[o].buffer, {elements(o)})),
                      type->getParamType(static_cast<unsigned>(i))));
  }
  const Buffer& to = nest.operands[0].buffer;
  Value* before = call.adds ? emit(make_load(to, {elements(0)})) : nullptr;
  Value* result = b_.CreateIntrinsic(id, {}, args);
  const DataType wide = make_load(to, {elements(0)}).dtype();
  result =
      as(result, before ? before->getType() : with_lanes(element_memory(to->dtype), wide.lanes));
  if (before) result = add(before, result);
  // The value of the store is not emitted, because it is the result of the call.
  const Stmt store = make_store(to, {elements(0)}, make_load(to, {elements(0)}));
  store_value(*store.as<Store>(), result);
  memo_rewind(0);
}

}  // namespace heddle::codegen
