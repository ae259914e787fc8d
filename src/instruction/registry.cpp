// The instructions that programs register.
#include <algorithm>
#include <mutex>

#include "heddle/instruction/instruction.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using List = std::vector<std::shared_ptr<const MachineInstruction>>;

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
List& registry() {
  static List list;
  return list;
}

// The entries of the table live as long as the process.
List built_in() {
  List out;
  for (const MachineInstruction* x :
       {&mma_instruction(), &wgmma_instruction(), &ldmatrix_instruction(), &tma_load_instruction(),
        &tma_store_instruction(), &lanes_instruction(), &amx_instruction()})
    out.emplace_back(x, [](const MachineInstruction*) {});
  return out;
}

// What no program could mean.
void check(const MachineInstruction& x) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds)
      throw_user_error("instruction '" + x.name + "' " + what, {},
                       "heddle/instruction/instruction.h says what an instruction consists of");
  };
  for (const auto& other : built_in()) require(other->name != x.name, "is one that Heddle has");
  require(!x.forms.empty() && !x.operands.empty() && x.value && x.legal,
          "lacks forms, operands, a value or the machines that have it");
  for (const InstructionOperand& o : x.operands) {
    for (const int l : o.loops)
      require(l >= 0 && l < static_cast<int>(x.loops.size()),
              "has operand '" + o.name + "' with a loop that there is not");
  }
  for (const InstructionForm& f : x.forms) {
    require(f.types.size() == x.operands.size() && f.extents.size() == x.loops.size(),
            "has a form with other numbers of types or extents than operands and loops");
    for (const auto& extents : f.extents)
      require(extents.size() == 1, "has a form of which a loop has not one extent");
    require(!f.llvm.intrinsic.empty(), "has a form without a function of LLVM");
    for (const int o : f.llvm.operands)
      require(o >= 0 && o < static_cast<int>(x.operands.size()),
              "calls '" + f.llvm.intrinsic + "' with an operand that there is not");
  }
}

// All that tensorize() may name.
List all_instructions() {
  List out = built_in();
  const List registered = registered_instructions();
  out.insert(out.end(), registered.begin(), registered.end());
  return out;
}

}  // namespace

std::shared_ptr<const MachineInstruction> find_instruction(const std::string& name) {
  const List all = all_instructions();
  const auto it = std::ranges::find_if(all, [&](const auto& x) { return x->name == name; });
  return it == all.end() ? nullptr : *it;
}

std::string instruction_names() {
  std::string out;
  for (const auto& x : all_instructions()) out += (out.empty() ? "" : ", ") + x->name;
  return out;
}

bool register_instruction(MachineInstruction instruction) {
  check(instruction);
  std::lock_guard lock(mutex());
  for (const auto& x : registry()) {
    HEDDLE_ICHECK(x->name != instruction.name, "two instructions of the name " + x->name);
  }
  registry().push_back(std::make_shared<const MachineInstruction>(std::move(instruction)));
  return true;
}

void unregister_instruction(const std::string& name) {
  std::lock_guard lock(mutex());
  std::erase_if(registry(), [&](const auto& x) { return x->name == name; });
}

std::vector<std::shared_ptr<const MachineInstruction>> registered_instructions() {
  std::lock_guard lock(mutex());
  return registry();
}

}  // namespace heddle
