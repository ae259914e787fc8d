#include "heddle/instruction/instruction.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle {

bool MachineInstruction::is_of(const Target& target) const {
  if (forms.empty()) return legal(target, {});
  return std::ranges::any_of(forms, [&](const InstructionForm& f) { return legal(target, f); });
}

const InstructionForm* MachineInstruction::form(const std::vector<DataType>& types) const {
  const auto it = std::ranges::find(forms, types, &InstructionForm::types);
  return it == forms.end() ? nullptr : &*it;
}

const InstructionForm* MachineInstruction::form(const std::vector<DataType>& types,
                                                const std::vector<int64_t>& extents) const {
  const auto it = std::ranges::find_if(forms, [&](const InstructionForm& f) {
    return f.types == types &&
           std::ranges::equal(f.extents, extents, [](const auto& may, int64_t n) {
             return std::ranges::binary_search(may, n);
           });
  });
  return it == forms.end() ? nullptr : &*it;
}

InstructionNest nest_of(const MachineInstruction& instruction, const InstructionForm& form,
                        const std::vector<int64_t>& extents) {
  HEDDLE_ICHECK(extents.size() == instruction.loops.size() &&
                    form.types.size() == instruction.operands.size(),
                "'" + instruction.name + "' has other loops or operands");
  InstructionNest nest;
  for (const std::string& name : instruction.loops) nest.loops.emplace_back(name);
  std::vector<Expr> values;
  std::vector<Expr> result;
  for (size_t o = 0; o < instruction.operands.size(); ++o) {
    const InstructionOperand& operand = instruction.operands[o];
    std::vector<Expr> shape, at;
    for (const int l : operand.loops) {
      shape.emplace_back(extents[static_cast<size_t>(l)]);
      at.push_back(nest.loops[static_cast<size_t>(l)].expr());
    }
    if (o == 0) result = at;
    nest.operands.push_back(Buffer::make(operand.name, form.types[o], shape, Scope::Global));
    values.push_back(make_load(nest.operands[o], at));
  }
  nest.body = make_store(nest.operands[0], result, instruction.value(values));
  for (size_t l = nest.loops.size(); l-- > 0;)
    nest.body = make_for(nest.loops[l], Expr(extents[l]), LoopKind::Serial, nest.body);
  return nest;
}

}  // namespace heddle
